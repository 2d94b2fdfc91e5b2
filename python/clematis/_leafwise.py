"""What containers do leaf by leaf: operators, comparisons, text."""

from collections.abc import Callable, Iterable
from typing import Any

from . import _clematis as _core
from .errors import StructureError

_tree = _core._tree


def stays(x: Any) -> bool:
    """What no operator is applied to."""
    return x is None or isinstance(x, str)


def pair(f: Callable[[Any, Any], Any], x: Any, y: Any, path: str = "") -> Any:
    """Applies an operator to leaves in the same places; what is no pytree stands beside every leaf of the other."""
    if stays(x) or stays(y):
        return x
    for kind in (dict, (list, tuple)):
        one, two = isinstance(x, kind), isinstance(y, kind)
        if not one and not two:
            continue
        xs = parts(x) if one else None
        ys = parts(y) if two else None
        keys = list((xs if xs is not None else ys) or ())
        if xs is not None and ys is not None and xs.keys() != ys.keys():
            name = getattr(f, "__name__", "container").strip("_")
            at = f" at `{path}`" if path else ""
            raise StructureError(f"{name}: containers of different structure{at}: {list(xs)} and {list(ys)}")
        out = {}
        for key in keys:
            a, b = (x if xs is None else xs[key]), (y if ys is None else ys[key])
            out[key] = pair(f, a, b, f"{path}/{key}" if path else str(key))
        return out if kind is dict else list(out.values())
    return f(x, y)


def parts(x: Any) -> dict[Any, Any]:
    """The children of a container by key."""
    return dict(_tree._children(x))


def chains(key_chains: Any) -> list[str]:
    """Paths given as one, as several, or as a pytree of dicts."""
    if isinstance(key_chains, str):
        return [key_chains]
    if not isinstance(key_chains, dict):
        return [str(path) for path in key_chains]
    out = []
    for key, x in dict.items(key_chains):
        inner = chains(x) if isinstance(x, dict) else []
        out += [f"{key}/{path}" for path in inner] or [str(key)]
    return out


def is_under(path: str, tops: Iterable[str]) -> bool:
    """Whether a path is one of these, or below one."""
    return any(not top or path == top or path.startswith(top + "/") for top in tops)


def takes_two(f: Callable[..., Any]) -> bool:
    """Whether a function asks for two arguments by position."""
    # Slow to import, and needed by few.
    import inspect

    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return False
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in by_position and p.default is p.empty for p in parameters) == 2


def is_index(key: Any) -> bool:
    """Whether this is meant for the axes of arrays."""
    if isinstance(key, tuple):
        return all(is_index(part) or part is None for part in key)
    return isinstance(key, (int, slice)) or key is Ellipsis


def truth(x: Any, of_array: Callable[[Any], Any], of_list: Callable[[Iterable[bool]], bool]) -> bool:
    """All or any of the elements of a leaf."""
    if _tree.is_array(x):
        return bool(of_array(x))
    if isinstance(x, (list, tuple)):
        return of_list(truth(part, of_array, of_list) for part in x)
    return bool(x)


def same_objects(x: Any, y: Any) -> bool:
    """Whether two pytrees of dicts have the same keys and hold the same objects."""
    if isinstance(x, dict) and isinstance(y, dict):
        return x.keys() == y.keys() and all(same_objects(dict.__getitem__(x, k), dict.__getitem__(y, k)) for k in y)
    return x is y


def identical(x: Any, y: Any, *, types: bool, shapes: bool, objects: bool, values: bool, partial: bool) -> bool:
    """Whether two pytrees are equal, in every way that is asked for."""
    if isinstance(x, dict) and isinstance(y, dict) or isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
        xs, ys = parts(x), parts(y)
        if not partial and xs.keys() != ys.keys():
            return False
        asked = {"types": types, "shapes": shapes, "objects": objects, "values": values, "partial": partial}
        return all(identical(xs[key], ys[key], **asked) for key in xs if key in ys)
    if types and type(x) is not type(y):
        return False
    if not (_tree.is_array(x) and _tree.is_array(y)):
        return bool(x == y)
    if objects and x is not y:
        return False
    a, b = _core.asarray(x), _core.asarray(y)
    if types and a.dtype != b.dtype or shapes and a.shape != b.shape:
        return False
    if not values:
        return True
    b = b if a.backend == b.backend else b.to(a.backend)
    return a.shape == b.shape and bool(_core.all(_core.equal(a, b)))


def shown(x: dict[Any, Any], indent: int = 4) -> str:
    """Keys and leaves under each other, for people."""
    lines = []
    for key, part in dict.items(x):
        text = f"\n{shown(part, indent + 4)}" if isinstance(part, dict) and part else f" {leaf_text(part)}"
        lines.append(f"{' ' * indent}{key}:{text}")
    return "\n".join(lines)


def leaf_text(x: Any) -> str:
    """A leaf on one line: its values if they fit, else what it is."""
    text = repr(x)
    if "\n" not in text and len(text) <= 90:
        return text
    if _tree.is_array(x):
        t = _core.asarray(x)
        sizes = ", ".join(map(str, t.shape))
        return f"{type(x).__name__}({t.dtype.name}[{sizes}], {t.backend})"
    return text.split("\n")[0][:87] + "…"
