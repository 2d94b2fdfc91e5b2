"""The record of a module: its settings, what was found behind its attributes, and the call that is running."""

import weakref
from contextvars import ContextVar
from typing import Any

from ..container import Container

NAME = "_module_info"


class Base:
    """The class above `Module`, by which modules are recognised here."""

    # Makes the record of the Ivy recipe in classes that follow it; see `_module.ivy`.
    _recipe: Any = None


class Child:
    """A direct sub-module: its path in the parent's variables, or the path there of each of its variables."""

    __slots__ = ("chain", "module", "place")

    def __init__(self, module: Any, chain: str, place: str | dict[str, str]) -> None:
        self.module, self.chain, self.place = module, chain, place


class Tie:
    """One variable that is in several containers. The container that changed last is right."""

    __slots__ = ("last", "places")

    def __init__(self, last: Any, places: list[tuple[Container, str]]) -> None:
        self.last, self.places = last, places

    def sync(self) -> bool:
        """Puts the newest value into every container; returns whether there was one."""
        for holder, key in self.places:
            x = dict.get(holder, key)
            if x is not self.last:
                self.last = x
                for other, name in self.places:
                    dict.__setitem__(other, name, x)
                return True
        return False


class Info:
    """The settings of a module, and what was found behind its attributes."""

    # What a copy takes along; the rest is found again.
    KEPT = ("training", "frozen", "order", "passing", "hooks")

    def __init__(self, recipe: Any = None) -> None:
        # None in a captured model until `train` or `eval`: each of its parts has the flag of the source.
        self.training: bool | None = True
        # Called before and after each call.
        self.hooks: tuple[Any, ...] = ()
        self.frozen: set[str] = set()
        # Attributes in the order of their first assignment.
        self.order: dict[str, None] = {}
        # Tensors that a forward pass has assigned: they are no parameters.
        self.passing: set[str] = set()
        # The attributes that hold variables; `direct` has the key in `v` of those that are one tensor.
        self.held: dict[str, Any] = {}
        self.direct: dict[str, str] = {}
        # How many initialisers are running.
        self.constructing = 0
        # The record of the Ivy recipe, None in a plain module.
        self.recipe: Any = recipe
        # The return values and the call order of sub-modules that a tracked call has recorded.
        self.tracked: tuple[Container, Container] | None = None
        # Whether a transform has made the module in the place of another.
        self.is_copy = False
        self.v = Container()
        self.fresh = self.building = False
        # How often `v` was assembled: what was found before holds no longer.
        self.assembled = 1
        self.leaves: list[str] = []
        self.pruned: dict[str, str] = {}
        self.children: list[Child] = []
        self.ties: list[Tie] = []
        self.tied = False
        self.watch: list[tuple[Any, Any]] = []
        self.buffers: list[tuple[str, Any, Any]] = []
        # The modules from here down with variables in lists and dicts, and what was last written to these.
        self.containers: list[Info] = []
        self.filled: dict[str, Any] = {}
        self.parents: list[weakref.ref[Any]] = []

    def settings(self) -> dict[str, Any]:
        """What a copy takes along, in sets and dicts of its own."""
        found = {name: getattr(self, name) for name in self.KEPT}
        return {name: x.copy() if isinstance(x, (set, dict)) else x for name, x in found.items()}


def info_of(module: Any) -> Info:
    """The record of a module, made when first asked for."""
    found: Info | None = module.__dict__.get(NAME)
    if found is None:
        recipe = type(module)._recipe
        found = module.__dict__[NAME] = Info(None if recipe is None else recipe())
    return found


def parent_of(module: Any) -> Any:
    """The first module that this one belongs to, if any is left."""
    for link in info_of(module).parents:
        parent = link()
        if parent is not None:
            return parent
    return None


def add_parent(module: Any, parent: Any) -> None:
    """Records that a module belongs to another, and forgets parents that are gone."""
    links = info_of(module).parents
    if not any(link() is parent for link in links):
        links[:] = [*(link for link in links if link() is not None), weakref.ref(parent)]


def ancestors(module: Any) -> list[Any]:
    """Parent, grandparent and so on."""
    found: list[Any] = []
    while (parent := parent_of(module)) is not None and not any(parent is a for a in found):
        found.append(parent)
        module = parent
    return found


def path_of(module: Any) -> str:
    """The path from the outermost module to this one."""
    words: list[str] = []
    for parent in ancestors(module):
        words += [child.chain for child in info_of(parent).children if child.module is module][:1]
        module = parent
    return "/".join(reversed(words))


def label(module: Any) -> str:
    """A module in messages: its class and its path."""
    path = path_of(module)
    name = type(module).__name__
    return f"{name} at `{path}`" if path else name


def invalidate(module: Any) -> None:
    """Has a module and those above it assembled again before their next use."""
    info = info_of(module)
    if info.fresh or info.building:
        info.fresh = False
        for link in info.parents:
            parent = link()
            if parent is not None:
                invalidate(parent)


class Frame:
    """A running call: the variables that it was given, for the module and all below it."""

    __slots__ = ("backend", "grads", "module", "outer", "routed", "routes", "tracker")

    def __init__(self, outer: "Frame | None", module: Any) -> None:
        self.outer, self.module = outer, module
        self.grads: bool | None = None
        # The scope of the module's backend, where the arguments call for one.
        self.backend: Any = None
        self.routes: dict[int, Container] = {}
        # The innermost frame with routes, and what records the call.
        self.routed: Frame | None = None
        self.tracker: Any = None
        if outer is not None:
            self.routed, self.tracker = outer.routed, outer.tracker

    def route(self, routes: dict[int, Container]) -> None:
        """Gives variables to modules until the call ends."""
        self.routes, self.routed = routes, self


# Each thread and task has its own, so nothing of a call is ever stored in a module.
RUNNING: ContextVar[Frame | None] = ContextVar("clematis_module", default=None)


# Registers the modules and optimisers that a traced function uses.
TRACING: ContextVar[Any] = ContextVar("clematis_tracing", default=None)


def routed(module: Any) -> Container | None:
    """The variables that a running call has given to a module."""
    frame = RUNNING.get()
    while frame is not None and (frame := frame.routed) is not None:
        found = frame.routes.get(id(module))
        if found is not None:
            return found
        frame = frame.outer
    return None


def is_running(module: Any) -> bool:
    """Whether a module's forward pass is under way."""
    frame = RUNNING.get()
    while frame is not None:
        if frame.module is module:
            return True
        frame = frame.outer
    return False
