"""What a module can say about its place and its parts."""

from collections.abc import Callable
from typing import Any

from ..._leafwise import same_objects
from ...container import Container
from ..build import ensure
from ..info import ancestors, info_of
from . import look


class Inspection:
    """Navigation among modules, and what a tracked call has recorded."""

    v: Container

    @property
    def top_mod(self) -> Callable[..., Any] | None:
        """None of an outermost module, else `top_mod(depth=None)`: the outermost one, or the one so many levels up."""
        return (lambda depth=None: look.above(self, depth)) if look.is_child(self) else None

    @property
    def top_v(self) -> Callable[..., Any] | None:
        """None of an outermost module, else `top_v(depth=None, flatten_key_chains=False)`: the variables up there."""

        def top_v(depth: int | None = None, flatten_key_chains: bool = False) -> Container:
            v: Container = look.above(self, depth).v
            return v.flatten() if flatten_key_chains else v

        return top_v if look.is_child(self) else None

    def mod_depth(self) -> int:
        """How many modules are above this one."""
        return len(ancestors(self))

    def mod_height(self) -> int:
        """How many levels of modules are below this one."""
        ensure(self)
        return look.height(self)

    def sub_mods(self, *, show_v: bool = True, depth: int | None = None, flatten_key_chains: bool = False) -> Any:
        """The modules below by their names, with their variables at the end of each branch."""
        children = ensure(self).children
        if depth == 0 or not children:
            return self.v if show_v else ""
        inner = None if depth is None else depth - 1
        out = Container()
        for child in children:
            dict.__setitem__(out, look.flat_repr(child.module), child.module.sub_mods(show_v=show_v, depth=inner))
        return out.flatten() if flatten_key_chains else out

    def v_with_top_v_key_chains(self, *, depth: int | None = None, flatten_key_chains: bool = False) -> Container:
        """This module's variables under their names in those of an outer module."""
        v = self.v
        top = look.above(self, depth).v if depth != 0 else v
        chain = None if top is v or not len(v) else look.chain_in(top, v)
        if chain is not None:
            out = Container()
            out[chain] = v
            v = out
        return v.flatten() if flatten_key_chains else v

    def mod_with_top_mod_key_chain(self, *, depth: int | None = None, flatten_key_chain: bool = False) -> Any:
        """The names of the modules from an outer one down to this one."""
        above = ancestors(self)
        above = above if depth is None else above[:depth]
        names = [look.flat_repr(m) for m in [*reversed(above), self]]
        if not above:
            return names[0]
        return "__".join(names) if flatten_key_chain else names

    def get_mod_key(self, *, top_mod: Any = None) -> str:
        """The key of this module in `submod_rets`."""
        return look.mod_key(self, top_mod)

    def show_v_in_top_v(self, depth: int | None = None) -> None:
        """Prints the variables of an outer module, with a mark at this one's."""
        top, v = look.above(self, depth).v, self.v
        for path, x in top._entries():
            chain = path.rpartition("/")[0]
            inside = v is top or any(same_objects(top[c], v) for c in _prefixes(chain))
            print(f"{'*' if inside else ' '} {path} {list(getattr(x, 'shape', ()))}")

    def show_mod_in_top_mod(
        self, upper_depth: int | None = None, lower_depth: int | None = None, flatten_key_chains: bool = False
    ) -> None:
        """Prints an outer module's structure."""
        top = look.above(self, upper_depth)
        ensure(top)
        text = look.lines(top, depth=lower_depth)
        print(" / ".join(line.strip() for line in text) if flatten_key_chains else "\n".join(text))

    def show_structure(self) -> None:
        """Prints the modules inside with their variables and sizes."""
        ensure(self)
        print("\n".join(look.lines(self)))

    @property
    def submod_rets(self) -> Container:
        """What sub-modules returned in the last call with `track_submod_rets=True`."""
        tracked = info_of(self).tracked
        return Container() if tracked is None else tracked[0]

    @property
    def submod_call_order(self) -> Container:
        """The order of sub-modules in the last call with `track_submod_call_order=True`."""
        tracked = info_of(self).tracked
        return Container() if tracked is None else tracked[1]

    @property
    def submod_dict(self) -> dict[str, list[int]]:
        """The modules that keys were given to, by their classes."""
        return look.recorded(self)


def _prefixes(chain: str) -> list[str]:
    words = chain.split("/") if chain else []
    return ["/".join(words[: i + 1]) for i in range(len(words))]
