"""Models as classes.

A tensor attribute is a parameter, `State(tensor)` is not trained, anything else is structure:

    class Net(cm.Module):
        def __init__(self, key):
            k0, k1 = key.split()
            self.hidden = cm.nn.Linear(784, 128, key=k0)
            self.out = cm.nn.Linear(128, 10, key=k1)

        def __call__(self, x):
            return self.out(cm.relu(self.hidden(x)))

`net.v` is the live container of its parameters, and `net(x, v=other)` runs with others. What stands behind this is in
`_module`.
"""

import functools
from collections.abc import Callable
from typing import Any, Self

from . import _clematis as _core
from ._module import call as _call
from ._module.build import (
    MODES,
    agree,
    as_container,
    check,
    ensure,
    finder,
    is_built,
    label,
    release,
    sync_tied_weights,
    stored,
    take,
)
from ._module.clone import clone
from ._module.convert import Converted
from ._module.discover import State, bare, detached, is_parameter, is_plain, refilled
from ._module.info import NAME, TRACING, Info, add_parent, invalidate, info_of, is_running, routed
from ._module.show import shown
from ._module.storage import Storage
from .container import Container
from .errors import ArgumentError, StructureError

__all__ = ["Module", "State"]


def _finished(init: Callable[..., None]) -> Callable[..., None]:
    """An initialiser after which the module is built, once the outermost one is through."""

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        info = info_of(self)
        info.constructing += 1
        try:
            init(self, *args, **kwargs)
        finally:
            info.constructing -= 1
        if not info.constructing and info.mode == "on_init":
            # What is created is made when first asked for, unless our own initialiser was called.
            creates = type(self)._create_variables is not _CREATE or type(self)._build is not _BUILD
            if info.wants_build or info.given is not None or not creates:
                ensure(self, Module)

    return __init__


class Module(Storage, Converted):
    """A function with parameters.

    Subclasses define `__call__` or `_forward`; they may define `_create_variables`, which returns a pytree of new
    variables, and `_build`, which makes sub-modules late. Calling this initialiser is allowed anywhere and needed
    nowhere: `v` are variables to start with, `build_mode` is "on_init", "on_call" or "explicit".

    >>> class Scale(cm.Module):
    ...     def __init__(self):
    ...         self.by = cm.asarray([2.0, 3.0])
    ...     def __call__(self, x):
    ...         return x * self.by
    >>> net = Scale()
    >>> net(1.0)
    Tensor([2.0, 3.0], float32, native)
    >>> cm.grad(lambda v: cm.sum(net(5.0, v=v)))(net.v).by
    Tensor([5.0, 5.0], float32, native)
    """

    # A program knows a module by itself, not by what it holds.
    __jit_held__ = True
    # Whether arrays that are no tensors are moved to the module's backend before a call.
    _moves_arguments = True

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls)
        self.__dict__[NAME] = Info()
        return self

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__call__" in vars(cls):
            cls.__call__ = _call.wrapped(cls.__call__)  # type: ignore[method-assign]
        if "__init__" in vars(cls):
            cls.__init__ = _finished(cls.__init__)  # type: ignore[method-assign]

    def __init__(
        self,
        /,
        *args: Any,
        device: Any = None,
        v: Any = None,
        build_mode: str = "on_init",
        compile_on_next_step: bool = False,
        store_vars: bool = True,
        stateful: Any = None,
        arg_stateful_idxs: Any = None,
        kwarg_stateful_idxs: Any = None,
        fallback_to_non_compiled: bool = False,
        with_partial_v: bool = False,
        devices: Any = None,
        dtype: Any = None,
        dynamic_backend: Any = None,
        **kwargs: Any,
    ) -> None:
        if build_mode not in MODES:
            raise ArgumentError(f"{type(self).__name__}: build_mode is one of {', '.join(MODES)}, not {build_mode!r}")
        info = info_of(self)
        info.mode, info.store, info.partial = build_mode, store_vars, with_partial_v
        info.device = device if device is not None else devices[0] if devices else None
        info.dtype, info.args, info.kwargs = dtype, args, kwargs
        info.given = None if v is None else as_container(self, v)
        info.options.update(
            compile_on_next_step=compile_on_next_step, stateful=stateful, arg_stateful_idxs=arg_stateful_idxs,
            kwarg_stateful_idxs=kwarg_stateful_idxs, fallback_to_non_compiled=fallback_to_non_compiled,
            dynamic_backend=dynamic_backend,
        )  # fmt: skip
        info.wants_build = True

    # What subclasses define.

    def _create_variables(self, *, device: Any = None, dtype: Any = None) -> Any:
        """New variables of this module; the containers of children may be among them, under other names."""
        return {}

    def _build(self, *args: Any, **kwargs: Any) -> Any:
        """Makes sub-modules that were not made before; False if some of them wait for a call."""

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines neither __call__ nor _forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward(*args, **kwargs)

    def _raw_call(self, *args: Any, **kwargs: Any) -> Any:
        return type(self).__call__.__wrapped__(self, *args, **kwargs)  # type: ignore[attr-defined]

    # Building and variables.

    def build(
        self, *args: Any, from_call: bool = False, device: Any = None, dtype: Any = None, dynamic_backend: Any = None,
        **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Makes the variables now, and returns them."""
        info = info_of(self)
        if info.mode == "on_call" and not from_call:
            return self.v
        if args or kwargs:
            info.args, info.kwargs = args, kwargs
        info.device = device if device is not None else info.device
        info.dtype = dtype if dtype is not None else info.dtype
        ensure(self, Module, now=True)
        v = stored(self)
        return v if len(v) else self.built_

    @property
    def build_mode(self) -> str:
        """When variables are made."""
        return info_of(self).mode

    @property
    def built_(self) -> bool:
        """Whether all variables are there."""
        return is_built(self)

    @property
    def v(self) -> Container:
        """The variables; during a call with `v=`, those that were given."""
        found = routed(self)
        if found is not None:
            return found
        info = info_of(self)
        if not info.constructing:
            ensure(self, Module)
            tracing = TRACING.get()
            if tracing is not None:
                tracing.register_module(self)
            sync_tied_weights(self)
        return info.v

    @v.setter
    def v(self, v: Any) -> None:
        info = info_of(self)
        if info.constructing:
            if isinstance(v, Module):
                raise StructureError(f"{label(self)}: `v` are all variables; give the attribute another name")
            info.given = as_container(self, v)
            return
        ensure(self, Module)
        take(self, v, info.partial, home=True)

    @v.deleter
    def v(self) -> None:
        raise AttributeError(f"{type(self).__name__}: `v` cannot be deleted")

    # Attributes.

    def _held(self, name: str) -> Any:
        """An attribute that holds variables, with those that count now."""
        info = info_of(self)
        held, key = info.held[name], bare(name)
        given = routed(self)
        values = given if given is not None else info.v
        if given is None:
            tracing = TRACING.get()
            if tracing is not None and not info.constructing:
                tracing.register_module(self)
            sync_tied_weights(self)
        if not isinstance(held, _core.Tensor):
            if given is not None:
                return refilled(held, key, finder(info, values), inplace=False)
            agree(info)
            return info.held[name]
        return finder(info, values)(key, held)

    def __getattr__(self, name: str) -> Any:
        info = self.__dict__.get(NAME)
        if info is not None and not name.startswith("__"):
            if name in info.held:
                return self._held(name)
            if not info.building and not info.constructing:
                if info.created is None and info.mode == "on_init" and type(self)._create_variables is not _CREATE:
                    ensure(self, Module)
                if info.created is not None and dict.__contains__(info.created, name):
                    return self.v[info.pruned.get(name, name)]
        raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        info = info_of(self)
        if isinstance(getattr(type(self), name, None), property):
            return object.__setattr__(self, name, value)
        if info.created is not None and dict.__contains__(info.created, name):
            ensure(self, Module)
            return self._replace(name, name, value)
        if isinstance(info.held.get(name), _core.Tensor) and is_parameter(value) and info.fresh:
            return self._replace(name, bare(name), value)
        before = self.__dict__.get(name)
        if isinstance(before, State) and isinstance(value, _core.Tensor):
            before.value = value
            return None
        if is_parameter(value) and is_running(self):
            info.passing.add(name)
        elif name in info.passing and not is_running(self):
            info.passing.discard(name)
        info.order.setdefault(name)
        if name in info.held:
            del info.held[name]
            invalidate(self)
        elif not (is_plain(value) and is_plain(before)) and name not in info.passing:
            invalidate(self)
        return object.__setattr__(self, name, value)

    def _replace(self, name: str, key: str, value: Any) -> None:
        """Another value for a variable that is there."""
        info = info_of(self)
        if is_running(self) and isinstance(value, _core.Tensor):
            value = detached(value)
        sync_tied_weights(self)
        path = info.pruned.get(key, key)
        check(self, key, info.v[path], value, home=True)
        above, _, last = path.rpartition("/")
        dict.__setitem__(info.v[above] if above else info.v, last, value)
        sync_tied_weights(self)

    def __delattr__(self, name: str) -> None:
        info = info_of(self)
        if name in info.held:
            release(self, info)
            del info.held[name]
        else:
            object.__delattr__(self, name)
        info.order.pop(name, None)
        info.passing.discard(name)
        invalidate(self)

    def __repr__(self) -> str:
        return shown(self, Module)

    def __dir__(self) -> list[str]:
        info = info_of(self)
        return sorted({*super().__dir__(), *info.held, *map(str, info.created or ())})

    # Copies.

    def __getstate__(self) -> dict[str, Any]:
        info = info_of(self)
        release(self, info)
        own = {name: x for name, x in self.__dict__.items() if name != NAME}
        settings = {name: getattr(info, name) for name in Info.KEPT}
        return {"attributes": {**own, **info.held}, "settings": settings, "created": info.created,
                "children": [child.module for child in info.children]}  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A way back may have met this module, and told it its parent, before its state came.
        parents = info_of(self).parents
        info = self.__dict__[NAME] = Info()
        info.parents = parents
        self.__dict__.update(state["attributes"])
        for name, x in state["settings"].items():
            # Each copy has sets and dicts of its own.
            setattr(info, name, type(x)(x) if isinstance(x, (set, dict)) and not isinstance(x, Container) else x)
        created = state["created"]
        info.created = None if created is None else created.copy()
        for child in state["children"]:
            add_parent(child, self)

    def __tree_flatten__(self) -> Container:
        """What `cm.tree` and `cm.grad` see: the parameters that are not frozen."""
        return self.parameters()

    def __tree_whole__(self) -> Container:
        """What a checkpoint holds: all variables, and the buffers."""
        return self._whole()

    def __tree_unflatten__(self, v: Container) -> Any:
        return clone(self, v, Module)


_CREATE, _BUILD = Module._create_variables, Module._build
Module._kind = Module
Module.__call__.is_base = True  # type: ignore[attr-defined]
Module.__call__ = _call.wrapped(Module.__call__)  # type: ignore[method-assign]
Module.__init__ = _finished(Module.__init__)  # type: ignore[method-assign]
