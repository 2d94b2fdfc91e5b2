"""`from_torch` and `from_torch_module`: import torch modules and functions."""

import inspect
from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError, ConvertError, FrameworkError
from .captured import Captured, LazyModule


def _torch(op: str) -> Any:
    try:
        import torch
    except ImportError as e:
        raise FrameworkError(f"{op}: torch is not installed: {e}") from e
    return torch


def _examples(
    op: str, example_inputs: Any, instance_args: Any, instance_kwargs: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if example_inputs is not None and instance_args is not None:
        raise ArgumentError(f"{op}: expected either example_inputs or instance_args, got both")
    args = instance_args if example_inputs is None else example_inputs
    args = () if args is None else tuple(args) if isinstance(args, (list, tuple)) else (args,)
    return args, dict(instance_kwargs or {})


def from_torch_module(
    native_module: Any, example_inputs: Any = None, *, constructor_args: Any = None, constructor_kwargs: Any = None,
    instance_args: Any = None, instance_kwargs: Any = None, device: Any = None, devices: Any = None,
    inplace_update: bool = False, dynamic_batch: bool = True, specialise: bool = False, allow_wrapped: bool = False,
    **options: Any,
) -> Captured:  # fmt: skip
    """Converts a torch module to a Clematis module that runs on any backend.

    `native_module` is a `torch.nn.Module`, or a class of one with the constructor's arguments. It is captured on the
    example inputs (`example_inputs`, or `instance_args` and `instance_kwargs`), in evaluation and in training mode; without
    any it is captured at the first call. The batch size is dynamic unless `dynamic_batch` is False. A forward that
    branches on values of its inputs raises an error, unless `specialise` keeps the branches that the example takes. The torch
    module
    is not modified, and the result shares no memory with it, so `inplace_update` has no effect.

    A Clematis module runs on every backend, so no part of it can remain a torch module: `allow_wrapped` is rejected here. If
    the result may be a torch module, `cm.convert(net, to="torch", allow_wrapped=True)` keeps what cannot be captured.

    >>> import torch
    >>> net = cm.from_torch_module(torch.nn.Linear(3, 2), cm.ones((4, 3)))
    >>> net(cm.ones((5, 3))).shape
    (5, 2)
    """
    op = "from_torch_module"
    torch = _torch(op)
    if allow_wrapped:
        raise ArgumentError(
            f"{op}: a Clematis module runs on every backend, so no part of it can remain a torch module;"
            ' cm.convert(net, to="torch", allow_wrapped=True) gives a torch module that keeps what cannot be captured'
        )
    if inspect.isclass(native_module) and issubclass(native_module, torch.nn.Module):
        native_module = native_module(*(constructor_args or ()), **(constructor_kwargs or {}))
    elif constructor_args or constructor_kwargs:
        raise ArgumentError(f"{op}: constructor arguments are for a class, got an instance")
    if not isinstance(native_module, torch.nn.Module):
        raise ArgumentError(f"{op}: expected a torch.nn.Module, got {type(native_module).__name__}")
    args, kwargs = _examples(op, example_inputs, instance_args, instance_kwargs)
    options |= {"device": device, "devices": devices}
    from . import read_torch

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return read_torch.read(native_module, args, kwargs, dynamic=dynamic_batch, specialise=specialise)

    if not args and not kwargs and _takes_inputs(native_module):
        waiting = LazyModule(read, read_torch.held(native_module), type(native_module).__name__, **options)
        waiting._start(native_module.training, read_torch.flags_differ(native_module))
        return waiting
    return Captured(read(args, kwargs), **options)


def _takes_inputs(module: Any) -> bool:
    try:
        known = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.kind is not p.VAR_KEYWORD for p in known)


def from_torch(
    function: Callable[..., Any], *args: Any, dynamic_batch: bool = True, specialise: bool = False, **kwargs: Any
) -> Captured:
    """Converts a torch function to a Clematis module without parameters.

    The arguments are examples: arrays of any kind; arguments that are not arrays are constants.

    >>> import torch
    >>> net = cm.from_torch(lambda x: torch.tanh(x) * 2, cm.ones((2, 3)))
    >>> net(cm.zeros((5, 3))).shape
    (5, 3)
    """
    torch = _torch("from_torch")
    if not callable(function):
        raise ArgumentError(f"from_torch: expected a function, got {type(function).__name__}")
    if isinstance(function, torch.nn.Module):
        return from_torch_module(
            function, args, instance_kwargs=kwargs, dynamic_batch=dynamic_batch, specialise=specialise
        )
    if not args and not kwargs:
        raise ConvertError("from_torch: example arguments are needed to capture a function")
    from . import read_torch

    return Captured(read_torch.read_function(function, args, kwargs, dynamic=dynamic_batch, specialise=specialise))
