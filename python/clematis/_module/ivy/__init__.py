"""The Ivy recipe: classes that define `_create_variables`, `_build` or `_forward`, build modes, and tracked calls.

A plain module neither imports this package nor pays for it. It is loaded for a class that defines one of these methods, for
an option of `Module.__init__`, for a tracking word of a call, and for a member in `MEMBERS`.
"""

import inspect
from collections.abc import Callable
from copy import copy
from typing import Any

from ... import _clematis as _core
from ... import _pytree
from ...container import Container
from ...errors import ArgumentError, StructureError
from ..build import as_container, ensure, is_built, stored, take
from ..call import forward_of, wrapped
from ..info import RUNNING, Frame, Info, info_of, invalidate, label, routed
from .inspection import Inspection

MODES = ("on_init", "on_call", "explicit")
# Options of Ivy's compiler, which are accepted and not used.
IGNORED = (
    "compile_on_next_step", "stateful", "arg_stateful_idxs", "kwarg_stateful_idxs", "fallback_to_non_compiled",
    "dynamic_backend",
)  # fmt: skip


class Recipe:
    """The options of a module, and the variables that it has created."""

    def __init__(self) -> None:
        self.mode = "on_init"
        self.device: Any = None
        self.dtype: Any = None
        # The arguments of `_build`, or of the initialiser that is run at the first call.
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        # The class whose initialiser waits.
        self.waiting: type | None = None
        self.given: Container | None = None
        self.partial, self.store = False, True
        self.created: Container | None = None
        # The variables of a module that stores none.
        self.emptied: Container | None = None
        # Whether `Module.__init__` was called, and whether a call or `build` asks for the variables now.
        self.is_initialised = self.is_asked = False

    def copied(self) -> "Recipe":
        """The same for a copy of the module."""
        new = copy(self)
        new.created = None if self.created is None else self.created.copy()
        return new

    # What the assembly of `v` asks for.

    def is_due(self, module: Any) -> bool:
        """Whether variables are made when the initialiser is through, and not when first asked for."""
        return self.mode == "on_init" and (self.is_initialised or self.given is not None or not _creates(type(module)))

    def create(self, module: Any) -> None:
        """Creates the variables, unless they wait for a call or for `build`."""
        if self.created is not None or not (self.is_asked or self.mode == "on_init"):
            return
        if self.waiting is not None:
            self._initialise(module)
            self.created = Container()
        else:
            # What `_build` returns says whether children wait for a call; they say so themselves.
            module._build(*self.args, **self.kwargs)
            made = module._create_variables(device=self.device, dtype=self.dtype)
            # The containers of children stay what they are; the outermost is ours.
            self.created = Container(made if made is not None else {})
        self.args, self.kwargs = (), {}

    def _initialise(self, module: Any) -> None:
        init = _waiting_init(self)
        info, words = info_of(module), dict(self.kwargs)
        for word, x in (("dtype", self.dtype), ("device", self.device)):
            if words.get(word) is None and word in inspect.signature(init).parameters:
                words[word] = x
        info.constructing += 1
        try:
            init(module, *self.args, **words)
        finally:
            info.constructing -= 1
        self.waiting = None

    def take_given(self, module: Any) -> bool:
        """Takes the variables that the initialiser was given, once all are there; whether it did."""
        if self.given is None or not is_built(module):
            return False
        given, self.given = self.given, None
        try:
            take(module, given, self.partial)
        except BaseException:
            self.given = given
            info_of(module).fresh = False
            raise
        return True

    def release(self, info: Info) -> None:
        """Puts the newest values into the created variables."""
        for path in () if self.created is None else self.created.paths():
            x = info.v.get(info.pruned.get(path, path))
            if x is not None:
                self.created[path] = x  # type: ignore[index]

    def empty(self, info: Info) -> None:
        """Leaves `v` empty if the module stores no variables."""
        if not self.store and self.created is not None:
            self.emptied = info.v.copy()
            dict.clear(info.v)

    # What attributes and calls ask for.

    def attribute(self, module: Any, name: str) -> Any:
        """A created variable, or an argument of an initialiser that waits; None if there is none of this name."""
        info = info_of(module)
        if self.waiting is not None:
            return waiting_arguments(self).get(name)
        if self.created is None and self.mode == "on_init" and not info.building and not info.constructing:
            ensure(module)
        if self.created is None or not dict.__contains__(self.created, name):
            return None
        return module.v[info.pruned.get(name, name)]

    def before_call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], with_v: bool) -> None:
        """Builds at the first call what waits for it."""
        if self.mode == "explicit" and self.created is None:
            raise StructureError(f'{label(module)}: build_mode is "explicit": call build() before the first call')
        if self.mode == "on_call" and self.created is None:
            borrowed = self.waiting is None and not self.args and not self.kwargs
            if borrowed:
                self.args, self.kwargs = args, kwargs
            self.dtype = self.dtype if self.dtype is not None else _float_dtype(args, kwargs)
            try:
                self.build(module)
            finally:
                # They were for the building alone; kept, they would stay alive with the module.
                if borrowed:
                    self.args, self.kwargs = (), {}
        info = ensure(module)
        if self.given is not None:
            build_children(module, args, kwargs)
        if not self.store and not with_v and info.leaves and routed(module) is None:
            raise StructureError(f"{label(module)}: it stores no variables (store_vars=False); call it with v=")

    def build(self, module: Any) -> None:
        """Creates the variables now."""
        self.is_asked = True
        if self.created is None:
            invalidate(module)
        ensure(module)


def _waiting_init(recipe: Recipe) -> Callable[..., None]:
    init: Any = recipe.waiting.__init__  # type: ignore[misc]
    return init.__wrapped__  # type: ignore[no-any-return]


def waiting_arguments(recipe: Recipe) -> dict[str, Any]:
    """The arguments, by name, of an initialiser that waits, with its defaults."""
    bound = inspect.signature(_waiting_init(recipe)).bind(None, *recipe.args, **recipe.kwargs)
    bound.apply_defaults()
    return bound.arguments


def build_children(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Runs the forward pass once, for children that know their variables only after a call."""
    recipe = info_of(module).recipe
    given = None
    if recipe is not None:
        given, recipe.given = recipe.given, None
    token = RUNNING.set(Frame(RUNNING.get(), module))
    try:
        forward_of(type(module))(module, *args, **kwargs)
    finally:
        RUNNING.reset(token)
        if recipe is not None:
            recipe.given = given
    info_of(module).fresh = False
    ensure(module)


def _float_dtype(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    for _, x in _pytree.entries([args, kwargs]):
        if _core._tree.is_array(x):
            dtype = _core.asarray(x).dtype
            if _core.isdtype(dtype, "real floating"):
                return dtype
    return None


# Classes and their initialisers.


def follow(kind: Any) -> None:
    """Has a class that defines `_forward`, `_create_variables` or `_build` follow the recipe."""
    kind._recipe = Recipe
    # A `__call__` of the user's own calls `_forward` itself.
    if kind._forward is not Members._forward and kind.__call__.__module__.startswith("clematis."):
        kind.__call__ = _CALL


def _forward_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self._forward(*args, **kwargs)


_forward_call.is_forward = True  # type: ignore[attr-defined]
_CALL = wrapped(_forward_call)


def _creates(kind: Any) -> bool:
    return kind._create_variables is not Members._create_variables or kind._build is not Members._build


def configure(
    module: Any, /, *args: Any, device: Any = None, v: Any = None, build_mode: str = "on_init", store_vars: bool = True,
    with_partial_v: bool = False, devices: Any = None, dtype: Any = None, **kwargs: Any,
) -> None:  # fmt: skip
    """Takes the options of `Module.__init__`, which documents them."""
    if build_mode not in MODES:
        raise ArgumentError(f"{type(module).__name__}: build_mode is one of {', '.join(MODES)}, not {build_mode!r}")
    info = info_of(module)
    recipe = info.recipe = info.recipe or Recipe()
    recipe.mode, recipe.store, recipe.partial = build_mode, store_vars, with_partial_v
    recipe.device = device if device is not None else devices[0] if devices else None
    recipe.dtype, recipe.args = dtype, args
    recipe.kwargs = {name: x for name, x in kwargs.items() if name not in IGNORED}
    recipe.given = None if v is None else as_container(module, v)
    recipe.is_initialised = True


def give(module: Any, v: Any) -> None:
    """Variables that an initialiser assigns to `v`: they are taken when it is through."""
    info = info_of(module)
    info.recipe = info.recipe or Recipe()
    info.recipe.given = as_container(module, v)


def construct(
    module: Any, init: Callable[..., None], words: frozenset[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Runs the initialiser of a layer that was given options of `Module.__init__`, or has it wait."""
    options = {word: kwargs.pop(word) for word in words if word in kwargs}
    # Layers without parameters take these and have no use for them.
    options.pop("key", None)
    configure(module, **options)
    recipe = info_of(module).recipe
    if recipe.mode == "on_init":
        init(module, *args, **kwargs)
        return
    inspect.signature(init).bind(module, *args, **kwargs)
    recipe.args, recipe.kwargs = args, kwargs
    inits = ((kind, vars(kind).get("__init__")) for kind in type(module).__mro__)
    recipe.waiting = next(kind for kind, own in inits if getattr(own, "__wrapped__", None) is init)


class Members(Inspection):
    """What `Module` has of the recipe."""

    v: Container

    def _create_variables(self, *, device: Any = None, dtype: Any = None) -> Any:
        """New variables of this module; the containers of children may be among them, under other names."""
        return {}

    def _build(self, *args: Any, **kwargs: Any) -> Any:
        """Makes sub-modules that were not made before; False if some of them wait for a call."""

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines neither __call__ nor _forward")

    def build(
        self, *args: Any, from_call: bool = False, device: Any = None, dtype: Any = None, dynamic_backend: Any = None,
        **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Makes the variables now, and returns them."""
        recipe = info_of(self).recipe
        if recipe is not None:
            if recipe.mode == "on_call" and not from_call:
                return self.v
            if args or kwargs:
                recipe.args, recipe.kwargs = args, kwargs
            recipe.device = device if device is not None else recipe.device
            recipe.dtype = dtype if dtype is not None else recipe.dtype
            recipe.build(self)
        ensure(self)
        v = stored(self)
        return v if len(v) else self.built_

    @property
    def build_mode(self) -> str:
        """When variables are made."""
        recipe = info_of(self).recipe
        return MODES[0] if recipe is None else recipe.mode

    @property
    def built_(self) -> bool:
        """Whether all variables are there."""
        return is_built(self)
