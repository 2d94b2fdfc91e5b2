"""Models as classes.

A tensor attribute is a parameter, `State(tensor)` is not trained, anything else is structure:

    class Net(cm.Module):
        def __init__(self, key):
            k0, k1 = key.split()
            self.hidden = cm.nn.Linear(784, 128, key=k0)
            self.out = cm.nn.Linear(128, 10, key=k1)

        def __call__(self, x):
            return self.out(cm.relu(self.hidden(x)))

`net.v` is the live container of its parameters, and `net(x, v=other)` runs with others. The parts of a module are in
`_module`, those of the Ivy recipe (`_create_variables`, `_forward`, build modes, tracked calls) in `_module.ivy`.
"""

import functools
from collections.abc import Callable
from typing import Any, Self

from . import _clematis as _core
from ._module import call as _call
from ._module.build import agree, check, ensure, finder, release, sync_tied_weights, take
from ._module.clone import clone
from ._module.convert import Converted
from ._module.discover import State, bare, detached, is_parameter, is_plain, refilled
from ._module.info import NAME, RUNNING, TRACING, Base, add_parent, info_of, invalidate, is_running, label, routed
from ._module.show import shown
from ._module.storage import Storage
from .container import Container
from .errors import StructureError

__all__ = ["Module", "State"]

# A class that defines one of these follows the Ivy recipe.
_RECIPE = frozenset(("_create_variables", "_build", "_forward"))


def _constructor(init: Callable[..., None], options: frozenset[str]) -> Callable[..., None]:
    """An initialiser after which the module's variables are found, once the outermost one is through."""
    code = getattr(init, "__code__", None)
    if code is not None:
        # Options that it names itself, or hands on as `**options`, are its own.
        own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        options = frozenset() if code.co_flags & 0x08 else options - set(own)

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        info = info_of(self)
        info.constructing += 1
        try:
            if kwargs and not options.isdisjoint(kwargs):
                from ._module.ivy import construct

                construct(self, init, options, args, kwargs)
            else:
                init(self, *args, **kwargs)
        finally:
            info.constructing -= 1
        if not info.constructing and (info.recipe is None or info.recipe.is_due(self)):
            ensure(self)

    return __init__


class Module(Storage, Converted, Base):
    """A function with parameters.

    A subclass assigns its parameters in `__init__` and defines `__call__`. To call this initialiser is allowed anywhere
    and needed nowhere.

    Parameters
    ----------
    v : dict or Container, optional
        Variables to start with.
    with_partial_v : bool, optional
        Whether `v` may have some of the variables only.
    build_mode : {"on_init", "on_call", "explicit"}, optional
        When variables are made: now, at the first call, or by `build()`.
    store_vars : bool, optional
        With False, `v` is empty, and each call is given variables.
    device, dtype : optional
        Where and how `_create_variables` makes variables.
    *args, **options
        The arguments of `_build`.

    Examples
    --------
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
    # The options of the Ivy recipe that constructors of subclasses take without naming them.
    _options: frozenset[str] = frozenset()

    # Whether what is assigned to a parameter has to be one with the same shape.
    _is_fixed = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls)
        info_of(self)
        return self

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__call__" in vars(cls):
            cls.__call__ = _call.wrapped(cls.__call__)  # type: ignore[method-assign]
        if "__init__" in vars(cls):
            cls.__init__ = _constructor(cls.__init__, cls._options)  # type: ignore[method-assign]
        if any(_RECIPE & vars(kind).keys() for kind in cls.__mro__ if kind not in Module.__mro__):
            from ._module.ivy import follow

            follow(cls)

    def __init__(self, /, *args: Any, **options: Any) -> None:
        if args or options or info_of(self).recipe is not None:
            from ._module.ivy import configure

            configure(self, *args, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines neither __call__ nor _forward")

    # Variables.

    @property
    def v(self) -> Container:
        """The variables; during a call with `v=`, those that were given."""
        found = routed(self)
        if found is not None:
            return found
        info = info_of(self)
        if not info.constructing:
            ensure(self)
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
            from ._module.ivy import give

            give(self, v)
            return
        ensure(self)
        take(self, v, info.recipe is not None and info.recipe.partial, home=True)

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
        if info is not None:
            key = info.direct.get(name)
            if key is not None:
                frame = RUNNING.get()
                v = None if frame is None or frame.routed is None else routed(self)
                if v is None and not info.tied and TRACING.get() is None:
                    v = info.v
                if v is not None and (x := dict.get(v, key)) is not None:
                    return x
            if name in info.held:
                return self._held(name)
            if info.recipe is not None and not name.startswith("__"):
                x = info.recipe.attribute(self, name)
                if x is not None:
                    return x
        raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        info = info_of(self)
        if isinstance(getattr(type(self), name, None), property):
            return object.__setattr__(self, name, value)
        created = None if info.recipe is None else info.recipe.created
        if created is not None and dict.__contains__(created, name):
            ensure(self)
            return self._replace(name, name, value)
        if isinstance(info.held.get(name), _core.Tensor):
            if self._is_fixed:
                ensure(self)
            if self._is_fixed or is_parameter(value) and info.fresh:
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
            info.direct.pop(name, None)
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
            info.direct.pop(name, None)
        else:
            object.__delattr__(self, name)
        info.order.pop(name, None)
        info.passing.discard(name)
        invalidate(self)

    def __repr__(self) -> str:
        return shown(self)

    def __dir__(self) -> list[str]:
        info = info_of(self)
        created = () if info.recipe is None else info.recipe.created or ()
        return sorted({*super().__dir__(), *info.held, *map(str, created)})

    # Copies.

    def __getstate__(self) -> dict[str, Any]:
        info = info_of(self)
        release(self, info)
        own = {name: x for name, x in self.__dict__.items() if name != NAME}
        return {"attributes": {**own, **info.held}, "settings": info.settings(),
                "recipe": None if info.recipe is None else info.recipe.copied(),
                "children": [child.module for child in info.children]}  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A cycle may have reached this module, and set its parent, before its state came.
        parents = info_of(self).parents
        del self.__dict__[NAME]
        vars(info_of(self)).update(state["settings"], recipe=state["recipe"], parents=parents)
        self.__dict__.update(state["attributes"])
        for child in state["children"]:
            add_parent(child, self)

    # Trees.

    def __tree_flatten__(self) -> Container:
        """What `cm.tree` and `cm.grad` see: the parameters that are not frozen."""
        return self.parameters()

    def __tree_whole__(self) -> Container:
        """What a checkpoint holds: all variables, and the buffers."""
        return self._whole()

    def __tree_unflatten__(self, v: Container) -> Any:
        return clone(self, v)


class _Ivy:
    """A member that `_module.ivy` defines; the first use loads it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, module: Any, kind: Any = None) -> Any:
        from ._module.ivy import Members

        setattr(Module, self.name, getattr(Members, self.name))
        return getattr(kind if module is None else module, self.name)


for _name in (
    *_RECIPE, "build", "build_mode", "built_", "top_mod", "top_v", "mod_depth", "mod_height", "sub_mods",
    "v_with_top_v_key_chains", "mod_with_top_mod_key_chain", "get_mod_key", "show_v_in_top_v", "show_mod_in_top_mod",
    "show_structure", "submod_rets", "submod_call_order", "submod_dict",
):  # fmt: skip
    setattr(Module, _name, _Ivy(_name))
Module.__call__ = _call.wrapped(Module.__call__)  # type: ignore[method-assign]
Module.__init__ = _constructor(Module.__init__, frozenset())  # type: ignore[method-assign]
