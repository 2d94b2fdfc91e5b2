"""Example inputs as torch takes them, and a module that capturing leaves alone."""

import contextlib
import copy
import inspect
import io
import logging
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .. import _clematis as _core
from ..errors import ConvertError


@contextlib.contextmanager
def untouched(module: Any) -> Iterator[Any]:
    """A copy of a module that shares its tensors; where it cannot be copied, itself with its flags put back."""
    shared = {id(x): x for x in [*module.parameters(), *module.buffers()]}
    try:
        own = copy.deepcopy(module, shared)
    except Exception:  # noqa: BLE001 - a module may refuse in any way
        own = None
    if own is not None:
        yield own
        return
    modes = {m: m.training for m in module.modules()}
    try:
        yield module
    finally:
        for m, mode in modes.items():
            m.training = mode


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What torch prints about programs that it cannot export is not for the user, who is told in an error."""
    log = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


@contextlib.contextmanager
def values_read(torch: Any) -> Iterator[list[str]]:
    """The lines of a model where Python asks for the value of a tensor."""
    from torch.overrides import TorchFunctionMode

    places: list[str] = []
    own = torch.Tensor
    asking = {own.__bool__, own.item, own.tolist, own.__int__, own.__float__, own.__index__, torch.is_nonzero}

    class Watch(TorchFunctionMode):
        def __torch_function__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if f in asking:
                outside = [x for x in traceback.extract_stack() if not _is_ours(x.filename)]
                if outside:
                    last = outside[-1]
                    places.append(f"{last.filename.rpartition('/')[2]}:{last.lineno}: `{last.line}`")
            return f(*args, **(kwargs or {}))

    with Watch():
        yield places


def _is_ours(path: str) -> bool:
    return "/torch/" in path or "/clematis/_convert/" in path


def device(module: Any) -> Any:
    first = next(iter(module.parameters()), None)
    return None if first is None else first.device


def mapped(x: Any, f: Callable[[Any], Any]) -> Any:
    if isinstance(x, dict):
        return {k: mapped(v, f) for k, v in x.items()} if type(x) is dict else x
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(mapped(v, f) for v in x))
    if isinstance(x, (list, tuple)):
        return type(x)(mapped(v, f) for v in x)
    return f(x)


def tensors(torch: Any, args: Any, kwargs: Any, device: Any) -> Any:
    """Examples as torch's tensors."""

    def tensor(x: Any) -> Any:
        if isinstance(x, _core.Tensor):
            x = torch.tensor(x.numpy()) if x.backend != "torch" else x.native
        elif not isinstance(x, torch.Tensor) and _core._tree.is_array(x):
            import numpy as np

            x = torch.tensor(np.asarray(x))
        if isinstance(x, torch.Tensor):
            x = x.detach()
            return x.to(device) if device is not None and x.device != device else x
        return x

    return mapped((tuple(args), dict(kwargs)), tensor)


def ordered(module: Any, args: Any, kwargs: Any) -> Any:
    """Keywords in the order in which the module declares them, which is the order of its inputs."""
    try:
        signature = inspect.signature(module.forward)
        signature.bind(*args, **kwargs)
    except ValueError:
        return args, kwargs
    except TypeError as e:
        raise ConvertError(f"{type(module).__name__}: the example inputs do not fit its forward: {e}") from e
    known = [name for name in signature.parameters if name in kwargs]
    return args, {name: kwargs[name] for name in [*known, *(k for k in kwargs if k not in known)]}


def rebatched(torch: Any, x: Any, sizes: dict[int, int]) -> Any:
    """The same example with other sizes of its first axes."""

    def one(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or not x.dim() or x.shape[0] not in sizes:
            return x
        size = sizes[x.shape[0]]
        times = -(-size // max(x.shape[0], 1))
        return torch.cat([x] * times)[:size] if times > 1 else x[:size].clone()

    return mapped(x, one)
