"""What is trained and what is not, training and evaluation, moving."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _clematis as _core
from ..container import Container
from ..errors import StructureError
from .build import ensure, stored, sync_tied_weights, take
from .call import frozen_paths
from .discover import State
from .info import TRACING, info_of, label


class Roles:
    """Parameters, buffers and modes of a module and of those below it."""

    v: Container

    def modules(self) -> Iterator[Any]:
        """This module and all below it, each once."""
        seen: set[int] = set()

        def below(module: Any) -> Iterator[Any]:
            if id(module) not in seen:
                seen.add(id(module))
                yield module
                for child in ensure(module).children:
                    yield from below(child.module)

        return below(self)

    def parameters(self) -> Container:
        """The variables that are trained: `v` without the frozen ones."""
        v, frozen = self.v, frozen_paths(self)
        return v.prune_key_chains(frozen) if frozen else v

    def buffers(self) -> Container:
        """The tensors that are not trained, by their paths."""
        found = Container()
        ensure(self)
        tracing = TRACING.get()
        if tracing is not None:
            tracing.register_module(self)
        for path, holder, key in _buffers(self, ""):
            x = _inside(holder, key)
            found[path] = x.value if isinstance(x, State) else x
        return found

    def freeze(self, path: str = "") -> Any:
        """Variables at a path or below it get no gradients and are no parameters, until `unfreeze`."""
        leaves = ensure(self).leaves
        chosen = [leaf for leaf in leaves if not path or leaf == path or leaf.startswith(path + "/")]
        if not chosen:
            raise StructureError(f"{label(self)}: freeze: there is no `{path}` among {leaves}")
        info_of(self).frozen.update(chosen)
        return self

    def unfreeze(self, path: str = "") -> Any:
        """Takes `freeze` back."""
        for module in self.modules():
            chain = "" if module is self else _path_below(self, module)
            for leaf in list(info_of(module).frozen):
                whole = f"{chain}/{leaf}" if chain else leaf
                if not path or whole == path or whole.startswith(path + "/"):
                    info_of(module).frozen.discard(leaf)
        return self

    @property
    def training(self) -> bool:
        """Whether this module is in training: dropout drops, running state moves."""
        return bool(info_of(self).training)

    @training.setter
    def training(self, mode: bool) -> None:
        info_of(self).training = bool(mode)

    def train(self, mode: bool = True) -> Any:
        """Sets this module and all below it to training, or takes them out of it."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Any:
        """The opposite of `train`."""
        return self.train(False)

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """Calls a function with each module, this one last."""
        for module in reversed(list(self.modules())):
            function(module)
        return self

    def to(self, backend: str) -> Any:
        """Moves all variables and buffers to a backend."""
        ensure(self)
        sync_tied_weights(self)
        moved: dict[int, Any] = {}
        for path in info_of(self).leaves:
            x = stored(self)[path]
            if _core._tree.is_array(x):
                moved[id(x)] = _core.asarray(x).to(backend)
        v = stored(self).map(lambda x: moved.get(id(x), x))
        take(self, v, partial=False, checked=False)
        put_buffers(self, self.buffers().map(lambda x: x.to(backend)))
        return self


def shared_training_flag(module: Any) -> bool | None:
    """The training flag of a module and of all below it; None where they differ."""
    flags = {info_of(m).training for m in module.modules()}
    return flags.pop() if len(flags) == 1 else None


@contextmanager
def training_flags_kept(module: Any) -> Iterator[None]:
    """Restores the training flag of every module below when the block ends."""
    flags = [(info_of(m), info_of(m).training) for m in module.modules()]
    try:
        yield
    finally:
        for info, flag in flags:
            info.training = flag


def put_buffers(module: Any, values: Container) -> None:
    """Other values for those buffers that are among them."""
    for path, holder, key in _buffers(module, ""):
        if path not in values:
            continue
        x = _inside(holder, key)
        if isinstance(x, State):
            x.value = values[path]
        elif isinstance(holder, (list, dict)):
            holder[key] = values[path]
        elif not isinstance(holder, tuple):
            holder.__dict__[key] = values[path]


def _buffers(module: Any, chain: str) -> Iterator[tuple[str, Any, Any]]:
    info = info_of(module)
    for path, holder, key in info.buffers:
        yield (f"{chain}/{path}" if chain else path), holder, key
    for child in info.children:
        yield from _buffers(child.module, f"{chain}/{child.chain}" if chain else child.chain)


def _inside(holder: Any, key: Any) -> Any:
    return holder[key] if isinstance(holder, (list, dict, tuple)) else getattr(holder, key)


def _path_below(top: Any, module: Any) -> str:
    for child in info_of(top).children:
        if child.module is module:
            return child.chain
        below = _path_below(child.module, module)
        if below:
            return f"{child.chain}/{below}"
    return ""
