"""Finds the variables and sub-modules behind a module's attributes.

Depth first, in the order of assignment, each object once. Lists and tuples give `v0`, `v1`, …; dicts their keys; other
objects their attributes; one leading underscore is taken away. A module that is reached from below is no part of what
is below it.
"""

import types
from collections.abc import Callable
from contextvars import ContextVar
from copy import copy
from typing import Any

from .. import _clematis as _core
from ..errors import StructureError, TraceError
from .info import NAME, Base, ancestors, info_of

# Limits of the search for parameters: the depth of containers, and the number of objects of other classes.
DEPTH = 200
OBJECTS = 20_000

# Stands for `/` in a key until a variable is found behind it, which then has no path.
SLASH = "\0"

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_CODE: tuple[type, ...] = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
# These hold no modules of ours, but may hold very much.
_FRAMEWORKS = ("numpy", "torch", "jax", "jaxlib", "tensorflow", "keras", "flax", "haiku", "logging", "threading")


class State:
    """A tensor that belongs to a module and is not trained, as a running mean.

    >>> cm.State([0.0, 0.0]).value
    Tensor([0.0, 0.0], float32, native)
    """

    __slots__ = ("__weakref__", "_value")

    def __init__(self, value: Any) -> None:
        self._value = _core.asarray(value)

    @property
    def value(self) -> Any:
        """The tensor."""
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        value = _core.asarray(value)
        if _core._is_mapped(value):  # type: ignore[attr-defined]
            raise TraceError(
                f"vmap: state of {tuple(value.shape)} was set to the value of one example of many; call eval() before vmap,"
                " or update state outside of the mapped function"
            )
        # It outlives the call, so it cannot keep what a derivative would go back through.
        self._value = detached(value)

    def __repr__(self) -> str:
        return f"State({self._value!r})"


# Whether calls are recorded as a program, in which new state is one more result.
RECORDING: ContextVar[bool] = ContextVar("RECORDING", default=False)


def detached(x: Any) -> Any:
    """The same numbers without a past."""
    if RECORDING.get():
        return _core._below(x)  # type: ignore[attr-defined]
    if x.backend == "native":
        return _host_copy(x)
    try:
        native = x.native
    except TraceError:
        # While a derivative is taken there is no array, but there are numbers.
        return _host_copy(x)
    if type(native).__name__.endswith(("Tracer", "SymbolicTensor")):
        raise TraceError(f"{x.backend} traces: a module's state cannot move now; call it outside, or after eval()")
    # numpy's arrays would go to the backend that is current.
    with _core.backend(x.backend):
        return _core.asarray(native)


def _host_copy(x: Any) -> Any:
    return _core.asarray(x.numpy()).to(x.backend)


def is_plain(x: Any) -> bool:
    """Whether there can be nothing inside."""
    return isinstance(x, _PLAIN)


def is_parameter(x: Any) -> bool:
    """A tensor that can be trained."""
    return isinstance(x, _core.Tensor) and _core.isdtype(x.dtype, ("real floating", "complex floating"))


def bare(name: Any) -> str:
    """A name in `v`."""
    name = str(name).replace("/", SLASH)
    return name[1:] if name.startswith("_") and len(name) > 1 else name


def parts(x: Any) -> list[tuple[str, Any, Any]] | None:
    """Name, key and value of all inside an object, None of what is not looked into."""
    if isinstance(x, dict):
        return [(bare(key), key, value) for key, value in list(dict.items(x))]
    if isinstance(x, (list, tuple)):
        return [(f"v{i}", i, value) for i, value in enumerate(x)]
    if isinstance(x, _CODE) or callable(x) and not hasattr(x, "__dict__"):
        return None
    if type(x).__module__.partition(".")[0] in _FRAMEWORKS or isinstance(x, _core.Tensor):
        return None
    inside = getattr(x, "__dict__", None)
    if not isinstance(inside, dict):
        return None
    return [(bare(k), k, value) for k, value in list(inside.items()) if isinstance(k, str) and not k.startswith("__")]


class Found:
    """What is behind a module's attributes."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.above = {id(a) for a in ancestors(module)} | {id(module)}
        self.seen: set[int] = set()
        # Whether this is inside an object of another class, whose tensors are its own affair.
        self.foreign = False
        # Parameters and modules with their paths, in order.
        self.entries: list[tuple[str, Any]] = []
        # Path, holder and key.
        self.buffers: list[tuple[str, Any, Any]] = []
        self.watch: list[tuple[Any, Any]] = []
        self.attributes: set[str] = set()
        info = info_of(module)
        own = {name: x for name, x in module.__dict__.items() if not isinstance(x, type(info))}
        own.update(info.held)
        names: dict[str, str] = {}
        at = {name: i for i, name in enumerate(info.order)}
        for name in sorted(own, key=lambda name: at.get(name, len(at))):
            if name.startswith("__") or name in info.passing:
                continue
            before = self.count()
            self.attribute = name
            if name == getattr(module, "_at_root", None):
                for word, key, value in parts(own[name]) or ():
                    self.follow(value, word, own[name], key, 1)
                continue
            self.follow(own[name], bare(name), module, name, 0)
            if self.count() > before:
                other = names.setdefault(bare(name), name)
                if other != name and own[other] is not own[name]:
                    kind_name = type(module).__name__
                    raise StructureError(f"{kind_name}: the attributes `{other}` and `{name}` are both `{bare(name)}`")

    def count(self) -> int:
        """How much was found."""
        return len(self.entries) + len(self.buffers)

    def checked(self, path: str) -> str:
        """A path that can be written down."""
        if SLASH in path:
            words = path.replace(SLASH, "/")
            raise StructureError(
                f"{type(self.module).__name__}: a key in `{words}` has a `/`, which parts a path's words"
            )
        return path

    def follow(self, x: Any, path: str, holder: Any, key: Any, depth: int) -> None:
        if is_plain(x) or depth > DEPTH:
            return
        if isinstance(x, Base):
            if id(x) in self.seen or id(x) in self.above:
                return
            self.seen.add(id(x))
            info = info_of(x)
            # It is being made or built further up: this is a way back, not a part.
            if not info.building and not info.constructing:
                self.entries.append((self.checked(path), x))
        elif is_parameter(x):
            if self.foreign:
                return
            self.entries.append((self.checked(path), x))
            self.attributes.add(self.attribute)
        elif isinstance(x, (State, _core.Tensor)):
            self.buffers.append((self.checked(path), holder, key))
        elif id(x) not in self.seen and len(self.seen) < OBJECTS:
            inside = parts(x)
            if inside is None:
                return
            self.seen.add(id(x))
            foreign, before, watched = self.foreign, self.count(), len(self.watch)
            self.foreign = foreign or not is_pytree(x)
            for name, inner, value in inside:
                self.follow(value, f"{path}/{name}", x, inner, depth + 1)
            self.foreign = foreign
            if isinstance(x, (list, dict)):
                # A long list of other things is only counted.
                is_dull = self.count() == before and len(self.watch) == watched
                self.watch.append((x, len(x) if is_dull else fingerprint(x)))


def fingerprint(x: Any) -> list[int]:
    """Tells whether a list or dict holds other things than before; tensors in it may change."""
    values = dict.values(x) if isinstance(x, dict) else x
    return [0 if isinstance(part, _core.Tensor) or is_plain(part) else id(part) for part in values]


def has_changed(x: Any, was: Any) -> bool:
    """Whether a list or dict holds other things than when it was looked into."""
    return len(x) != (was if isinstance(was, int) else len(was)) or isinstance(was, list) and fingerprint(x) != was


def is_pytree(x: Any) -> bool:
    """Whether tensors inside are a module's own parameters."""
    return isinstance(x, (dict, list, tuple)) or hasattr(type(x), "__dataclass_fields__") and NAME not in x.__dict__


def refilled(tree: Any, path: str, find: Callable[[str, Any], Any], inplace: bool, above: tuple[int, ...] = ()) -> Any:
    """A pytree with the tensors that `find` gives for paths; in place where that can be."""
    if isinstance(tree, _core.Tensor):
        return find(path, tree)
    if not is_pytree(tree) or id(tree) in above:
        return tree
    above = (*above, id(tree))
    new = [(key, x, refilled(x, f"{path}/{name}", find, inplace, above)) for name, key, x in parts(tree) or ()]
    if all(x is y for _, x, y in new):
        return tree
    if isinstance(tree, tuple):
        made = [y for _, _, y in new]
        return type(tree)(*made) if hasattr(tree, "_fields") else tuple(made)
    if not inplace:
        tree = copy(tree)
    for key, x, y in new:
        if x is y:
            continue
        if isinstance(tree, (dict, list)):
            tree[key] = y
        else:
            object.__setattr__(tree, key, y)
    return tree
