"""A dict of tensors with nested names: `v.layers.v0.w`, `v["layers/v0/w"]`, `v * 0.1`.

Every function of the library is a method (`c.conv2d(w, 1, "SAME")`, `c.max()`): it is called with the container as its
first array and maps over the leaves. Operators map over the leaves, too. Keys keep their order of insertion.
"""

import operator
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, NoReturn

from . import _clematis as _core
from . import _leafwise, _paths
from .errors import ArgumentError, StructureError

_tree = _core._tree

# What every function that is called as a method takes besides: the leaves to apply it to.
_CHOICE = ("key_chains", "to_apply", "prune_unapplied", "map_sequences")


def _operator(f: Callable[[Any, Any], Any]) -> tuple[Any, Any, Any]:
    """An operator with its reflected and its assigning form."""

    def plain(self: "Container", other: Any) -> "Container":
        return self._alike(_leafwise.pair(f, self, other))

    def reflected(self: "Container", other: Any) -> "Container":
        return self._alike(_leafwise.pair(f, other, self))

    def assigned(self: "Container", other: Any) -> "Container":
        # The container is updated in place, its arrays are replaced: others may refer to them.
        self._take(plain(self, other))
        return self

    return plain, reflected, assigned


def _single(f: Callable[[Any], Any]) -> Any:
    return lambda self: self._leaves(lambda x, path: x if _leafwise.stays(x) else f(x))


class Container(_paths.Paths):
    """A dict with attribute access, `"a/b/c"` paths and arithmetic; dicts inside become containers.

    >>> v = cm.Container(w=cm.asarray([1.0, 2.0]), layer={"b": cm.asarray([3.0])})
    >>> v.layer.b is v["layer/b"]
    True
    >>> (v * 10).sum().to_dict()
    {'w': Tensor(30.0, float32, native), 'layer': {'b': Tensor(30.0, float32, native)}}
    """

    __slots__ = ()
    # NumPy's arrays leave `array + container` to us.
    __array_ufunc__ = None

    def _at_index(self, key: Any) -> "Container":
        """An index is meant for every leaf that has axes."""
        return self._leaves(lambda x, path: x[key] if len(getattr(x, "shape", ())) else x)

    # Attributes.

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            if dict.__contains__(self, name):
                return dict.__getitem__(self, name)
            if name.startswith("cont_"):
                return getattr(self, name.removeprefix("cont_"))
            try:
                return self._method(name)
            except AttributeError:
                pass
            if not name.startswith("_") and hasattr(_core.Tensor, name):
                return self._attribute(name)
        self._missing(name)

    def _missing(self, name: str) -> NoReturn:
        keys = ", ".join(map(str, dict.keys(self)))
        raise AttributeError(f"'Container' has no entry, function or attribute `{name}`; its keys are: {keys}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or hasattr(type(self), name):
            raise AttributeError(f'Container: `{name}` cannot be set as an attribute; write c["{name}"] = …')
        self[name] = value

    def __delattr__(self, name: str) -> None:
        if not dict.__contains__(self, name):
            self._missing(name)
        dict.__delitem__(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(key for key in dict.keys(self) if isinstance(key, str))})

    def _method(self, name: str) -> Callable[..., Any]:
        """A function of the library with the container in the place of its first array."""
        _core._method(self, name)

        def method(*args: Any, **kwargs: Any) -> Any:
            choice = {word: kwargs.pop(word) for word in _CHOICE if word in kwargs}
            if choice.get("key_chains") is None:
                return _core._method(self, name)(*args, **kwargs)
            return self._chosen(name, args, kwargs, **choice)

        method.__name__ = method.__qualname__ = name
        method.__doc__ = f"`clematis.{name}` on every leaf."
        return method

    def _chosen(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        key_chains: Any,
        to_apply: bool = True,
        prune_unapplied: bool = False,
        map_sequences: bool = False,
    ) -> Any:
        """A function on some leaves only; the others stay as they are or go."""
        chains = _leafwise.chains(key_chains)
        select = Container.at_key_chains if to_apply else Container.prune_key_chains

        def part(x: Any) -> Any:
            return select(x, chains) if isinstance(x, Container) else x

        place = kwargs.get("out")
        out = _core._method(part(self), name)(*map(part, args), **{key: part(x) for key, x in kwargs.items()})
        if isinstance(out, tuple):
            # A place alone is for the first of several results.
            places = [*(place if isinstance(place, tuple) else (place,)), *(None for _ in out)]
            return tuple(self._placed(x, to, prune_unapplied) for x, to in zip(out, places, strict=False))
        return self._placed(out, place, prune_unapplied)

    def _placed(self, out: "Container", place: Any, prune_unapplied: bool) -> "Container":
        """Results for some leaves beside the leaves that had none, in the container that was given for them."""
        whole = out if prune_unapplied else self.set_at_key_chains(out)
        if not isinstance(place, Container):
            return whole
        for path in set(place.paths()) - set(whole.paths()):
            del place[path]
        place.update(whole._entries())
        return place

    def _attribute(self, name: str) -> Any:
        """An attribute of each array; of methods, what they return."""
        if not callable(getattr(_core.Tensor, name)):
            return self._leaves(lambda x, path: getattr(x, name) if _tree.is_array(x) else x)

        def method(*args: Any, **kwargs: Any) -> Container:
            def each(x: Any, path: str) -> Any:
                return getattr(_core.asarray(x), name)(*args, **kwargs) if _tree.is_array(x) else x

            return self._leaves(each)

        return method

    # Leaves.

    @classmethod
    def _alike(cls, entries: Any = ()) -> "Container":
        """One of the same class."""
        return cls(entries)

    def _leaves(self, f: Callable[[Any, str], Any], sequences: bool = True) -> "Container":
        """A container of `f(leaf, path)`; lists and tuples are containers too, or leaves."""
        paths, leaves, treedef = _tree._flatten(self, (Container, list, tuple) if sequences else Container)
        new = [f(x, "/".join(map(str, path))) for path, x in zip(paths, leaves, strict=True)]
        return treedef.unflatten(new)  # type: ignore[no-any-return]

    def _entries(self) -> list[tuple[str, Any]]:
        return _tree._entries(self, Container)  # type: ignore[no-any-return]

    def _take(self, other: "Container") -> None:
        """The leaves of another container of the same structure; containers inside stay the same objects."""
        for key, x in dict.items(other):
            old = dict.get(self, key)
            if isinstance(old, Container) and isinstance(x, Container):
                old._take(x)
            else:
                dict.__setitem__(self, key, x)

    def map(
        self,
        func: Callable[..., Any],
        key_chains: Any = None,
        to_apply: bool = True,
        prune_unapplied: bool = False,
        map_sequences: bool = False,
        inplace: bool = False,
    ) -> "Container":
        """A container of `func(x)`, or of `func(x, path)` if it takes two, for every leaf or for some paths only.

        >>> cm.Container(a=1, b={"c": 2}).map(lambda x: x * 10, key_chains="b").to_dict()
        {'a': 1, 'b': {'c': 20}}
        """
        with_path = _leafwise.takes_two(func)
        tops = None if key_chains is None else _leafwise.chains(key_chains)
        gone: list[str] = []

        def each(x: Any, path: str) -> Any:
            if tops is not None and _leafwise.is_under(path, tops) is not to_apply:
                gone.append(path)
                return x
            return func(x, path) if with_path else func(x)

        out = self._leaves(each, sequences=map_sequences)
        if prune_unapplied:
            out = out.prune_key_chains(gone)
        if not inplace:
            return out
        if prune_unapplied:
            for path in gone:
                del self[path]
        self._take(out)
        return self

    def paths(self) -> list[str]:
        """The paths of all leaves, in order."""
        return [path for path, _ in self._entries()]

    def at_key_chains(self, key_chains: Any) -> "Container":
        """Only what is at these paths or below them.

        >>> cm.Container(a=1, b={"c": 2, "d": 3}).at_key_chains(["a", "b/c"]).paths()
        ['a', 'b/c']
        """
        tops = _leafwise.chains(key_chains)
        for top in tops:
            if top not in self:
                raise StructureError(f"Container: there is no `{top}` among {self.paths()}")
        return self._alike([(path, x) for path, x in self._entries() if _leafwise.is_under(path, tops)])

    def prune_key_chains(self, key_chains: Any) -> "Container":
        """All but what is at these paths or below them."""
        tops = _leafwise.chains(key_chains)
        return self._alike([(path, x) for path, x in self._entries() if not _leafwise.is_under(path, tops)])

    def set_at_key_chains(self, other: Mapping[Any, Any]) -> "Container":
        """A copy with the leaves of another container in the same places."""
        out = self.copy()
        for path, x in Container(other)._entries():
            out[path] = x
        return out

    def flatten(self, separator: str = "__") -> "Container":
        """One level: `{"a": {"b": x}}` as `{"a__b": x}`.

        >>> cm.Container(a=1, b={"c": 2}).flatten().to_dict()
        {'a': 1, 'b__c': 2}
        """
        if "/" in separator:
            raise ArgumentError("flatten: expected a separator without `/`, which separates the keys of a path")
        return self._alike([(path.replace("/", separator), x) for path, x in self._entries()])

    def unflatten(self, separator: str = "__") -> "Container":
        """The inverse of `flatten`: `{"a__b": x}` as `{"a": {"b": x}}`."""
        return self._alike([(path.replace(separator, "/"), x) for path, x in self._entries()])

    @staticmethod
    def flatten_key_chain(key_chain: str, replacement: str = "__") -> str:
        """A path as one key; dots separate keys of a path, too."""
        return key_chain.replace("/", replacement).replace(".", replacement)

    # Questions.

    def all_true(self) -> bool:
        """Whether every element of every leaf is true."""
        return all(_leafwise.truth(x, _core.all, all) for _, x in self._entries() if not _leafwise.stays(x))

    def all_false(self) -> bool:
        """Whether no element of any leaf is true."""
        return not any(_leafwise.truth(x, _core.any, any) for _, x in self._entries() if not _leafwise.stays(x))

    def identical(
        self: Any,
        other: Any = None,
        *,
        check_types: bool = True,
        check_shapes: bool = True,
        same_arrays: bool = False,
        arrays_equal: bool = True,
        key_chains: Any = None,
        to_apply: bool = True,
        partial: bool = False,
    ) -> bool:
        """Whether containers have the same keys and leaves: `a.identical(b)`, or `Container.identical([a, b, …])`.

        >>> cm.Container(a=1, b=2).identical(cm.Container(a=1, b=3))
        False
        """
        all_of_them = list(self) if other is None and not isinstance(self, Container) else [self, other]
        if key_chains is not None:
            select = Container.at_key_chains if to_apply else Container.prune_key_chains
            all_of_them = [select(c, key_chains) for c in all_of_them]
        asked = {"types": check_types, "shapes": check_shapes, "objects": same_arrays, "values": arrays_equal}
        return all(_leafwise.identical(all_of_them[0], c, partial=partial, **asked) for c in all_of_them[1:])

    # Copies.

    def to_numpy(self) -> "Container":
        """The arrays as NumPy's."""
        return self._leaves(lambda x, path: _core.asarray(x).numpy() if _tree.is_array(x) else x)

    def to_dict(self) -> dict[Any, Any]:
        """Plain dicts all the way down."""
        return {key: x.to_dict() if isinstance(x, Container) else x for key, x in dict.items(self)}

    def copy(self) -> "Container":
        """Other containers with the same arrays."""
        return self._leaves(lambda x, path: x, sequences=False)

    def deep_copy(self) -> "Container":
        """Copies of the arrays as well."""
        return deepcopy(self)

    def __copy__(self) -> "Container":
        return self.copy()

    @property
    def _config(self) -> dict[str, Any]:
        """Options to make another container with: there are none."""
        return {}

    def __repr__(self) -> str:
        return f"Container(\n{_leafwise.shown(self)}\n)" if len(self) else "Container()"

    # Operators, leaf by leaf.

    __add__, __radd__, __iadd__ = _operator(operator.add)
    __sub__, __rsub__, __isub__ = _operator(operator.sub)
    __mul__, __rmul__, __imul__ = _operator(operator.mul)
    __truediv__, __rtruediv__, __itruediv__ = _operator(operator.truediv)
    __floordiv__, __rfloordiv__, __ifloordiv__ = _operator(operator.floordiv)
    __mod__, __rmod__, __imod__ = _operator(operator.mod)
    __pow__, __rpow__, __ipow__ = _operator(operator.pow)
    __matmul__, __rmatmul__, __imatmul__ = _operator(operator.matmul)
    __and__, __rand__, __iand__ = _operator(operator.and_)
    __or__, __ror__, __ior__ = _operator(operator.or_)
    __xor__, __rxor__, __ixor__ = _operator(operator.xor)
    __lshift__, __rlshift__, __ilshift__ = _operator(operator.lshift)
    __rshift__, __rrshift__, __irshift__ = _operator(operator.rshift)
    __lt__, __le__ = _operator(operator.lt)[0], _operator(operator.le)[0]
    __gt__, __ge__ = _operator(operator.gt)[0], _operator(operator.ge)[0]
    __neg__, __pos__ = _single(operator.neg), _single(operator.pos)
    __abs__, __invert__ = _single(operator.abs), _single(operator.invert)

    def __eq__(self, other: object) -> Any:
        """Leaf by leaf; false of anything that is made differently. `if a == b` asks for all elements."""
        if _leafwise.stays(other):
            return False
        try:
            return _Equal(_leafwise.pair(operator.eq, self, other))
        except StructureError:
            return False

    def __ne__(self, other: object) -> Any:
        """Leaf by leaf; true of anything that is made differently. `if a != b` asks for any element."""
        if _leafwise.stays(other):
            return True
        try:
            return _Unequal(_leafwise.pair(operator.ne, self, other))
        except StructureError:
            return True

    # Ivy's names.
    flatten_key_chains = flatten
    cont_map, cont_identical, cont_all_true, cont_all_false = map, identical, all_true, all_false
    cont_flatten_key_chains, cont_flatten_key_chain = flatten, flatten_key_chain
    cont_copy, cont_to_numpy, cont_to_dict = copy, to_numpy, to_dict


class _Equal(Container):
    """What `a == b` gives: true where all of it is."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self.all_true()


class _Unequal(Container):
    """What `a != b` gives: true where any of it is."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return not self.all_false()
