"""What is kept for each module beside its own attributes, and the call that is running."""

import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from ..container import Container

NAME = "_module_info"


class Child:
    """A direct sub-module: its path in the parent's variables, or where each of its own has its place there."""

    __slots__ = ("chain", "module", "place")

    def __init__(self, module: Any, chain: str, place: str | dict[str, str]) -> None:
        self.module, self.chain, self.place = module, chain, place


class Tie:
    """One variable that stands in several containers. Whoever changed last is right."""

    __slots__ = ("last", "places")

    def __init__(self, last: Any, places: list[tuple[Container, str]]) -> None:
        self.last, self.places = last, places

    def sync(self) -> bool:
        """Puts the newest value everywhere; whether there was one."""
        for holder, key in self.places:
            x = dict.get(holder, key)
            if x is not self.last:
                self.last = x
                for other, name in self.places:
                    dict.__setitem__(other, name, x)
                return True
        return False


class Info:
    """The settings of a module, and what was found out about it."""

    def __init__(self) -> None:
        self.mode = "on_init"
        self.device: Any = None
        self.dtype: Any = None
        self.options: dict[str, Any] = {}
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        self.given: Any = None
        self.partial = False
        self.store = True
        # A captured model has None as long as its parts keep the flags that they had when it was captured.
        self.training: bool | None = True
        # What is called before and after each call.
        self.hooks: tuple[Any, ...] = ()
        self.frozen: set[str] = set()
        # Attributes in the order of their first assignment; those that hold variables are kept here.
        self.order: dict[str, None] = {}
        self.held: dict[str, Any] = {}
        # Tensors that a forward pass has left behind are no parameters.
        self.passing: set[str] = set()
        self.created: Container | None = None
        self.wants_build = False
        self.constructing = 0
        self.submod_dict: dict[str, list[int]] = {}
        self.submod_rets = Container()
        self.submod_call_order = Container()
        self.expected: Any = None
        # Whether a transform has made it in the place of another.
        self.is_copy = False
        self.forget()

    def forget(self) -> None:
        """Leaves the settings, and nothing of what was found."""
        self.v = Container()
        self.fresh = self.building = False
        # How often it was put together: what was found before holds no longer.
        self.assembled = getattr(self, "assembled", 0) + 1
        self.leaves: list[str] = []
        self.pruned: dict[str, str] = {}
        self.children: list[Child] = []
        self.ties: list[Tie] = []
        self.tied = False
        self.watch: list[tuple[Any, Any]] = []
        self.buffers: list[tuple[str, Any, Any]] = []
        # Those below with tensors in lists and the like, and what was last put into these.
        self.containers: list[Info] = []
        self.filled: dict[str, Any] = {}
        self.parents: list[weakref.ref[Any]] = []

    # What goes along with a copy; the rest is found again.
    KEPT = (
        "mode", "device", "dtype", "options", "args", "kwargs", "given", "partial", "store", "training", "frozen",
        "order", "passing", "wants_build", "hooks",
    )  # fmt: skip


def info_of(module: Any) -> Info:
    """The notes about a module, which are there even if no initialiser of ours has run."""
    found: Info | None = module.__dict__.get(NAME)
    if found is None:
        found = module.__dict__[NAME] = Info()
    return found


def parent_of(module: Any) -> Any:
    """The first module that this one belongs to, if any is left."""
    for link in info_of(module).parents:
        parent = link()
        if parent is not None:
            return parent
    return None


def parents_of(module: Any) -> Iterator[Any]:
    """All modules that this one belongs to."""
    return (p for p in (link() for link in info_of(module).parents) if p is not None)


def add_parent(module: Any, parent: Any) -> None:
    """Notes that a module belongs to another; those that are gone are forgotten."""
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


def invalidate(module: Any) -> None:
    """What was found about a module and those above it holds no longer."""
    info = info_of(module)
    if info.fresh or info.building:
        info.fresh = False
        for parent in parents_of(module):
            invalidate(parent)


class Frame:
    """A running call: the variables that it was given, for the module and all below it."""

    __slots__ = ("backend", "grads", "module", "outer", "routes", "tracker")

    def __init__(self, outer: "Frame | None", module: Any) -> None:
        self.outer, self.module = outer, module
        self.routes: dict[int, Container] | None = None
        self.grads: bool | None = None
        self.tracker: Any = None
        # The scope of the module's backend, where the arguments call for one.
        self.backend: Any = None


# Each thread and task has its own, so nothing of a call is ever stored in a module.
RUNNING: ContextVar[Frame | None] = ContextVar("clematis_module", default=None)


# What notes the modules and optimisers that a traced function uses.
TRACING: ContextVar[Any] = ContextVar("clematis_tracing", default=None)


def routed(module: Any) -> Container | None:
    """The variables that a running call has given to a module."""
    frame = RUNNING.get()
    while frame is not None:
        if frame.routes is not None and id(module) in frame.routes:
            return frame.routes[id(module)]
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
