"""The text of a module: its class and settings, and the modules inside, as a tree."""

import inspect
from typing import Any

from .. import _clematis as _core
from .build import is_built, stored
from .discover import SLASH, Found, is_plain
from .info import Base, info_of

# Options of layers that say where and how parameters are made.
OPTIONS = frozenset(
    (
        "key",
        "v",
        "device",
        "dtype",
        "build_mode",
        "store_vars",
        "with_partial_v",
        "weight_initializer",
        "bias_initializer",
    )
)


def shown(module: Any) -> str:
    """The text of a module; nothing is built and nothing is drawn for it."""
    lines = _lines(module, "", (), 0)
    lines[-1] += f"  # {_count(module)}"
    return "\n".join(lines)


def _lines(module: Any, name: str, above: tuple[int, ...], depth: int) -> list[str]:
    head = f"{'  ' * depth}{f'({name}): ' if name else ''}{type(module).__name__}({', '.join(_settings(module))}"
    if id(module) in above:
        return [f"{head}…)"]
    children = _children(module)
    if not children:
        return [f"{head})"]
    out = [head]
    for path, child in children:
        out += _lines(child, path, (*above, id(module)), depth + 1)
    return [*out, f"{'  ' * depth})"]


def _children(module: Any) -> list[tuple[str, Any]]:
    """Modules directly inside with their names; they are looked for where nothing is built yet."""
    info = info_of(module)
    if info.fresh:
        return [(child.chain, child.module) for child in info.children]
    return [(path.replace(SLASH, "/"), x) for path, x in Found(module).entries if isinstance(x, Base)]


def _parameters(kind: Any) -> dict[str, inspect.Parameter]:
    """The parameters of a constructor, with those that it hands on as `**options`."""
    out: dict[str, inspect.Parameter] = {}
    for own in kind.__mro__:
        if "__init__" in vars(own):
            try:
                found = list(inspect.signature(own.__init__).parameters.values())[1:]
            except (TypeError, ValueError):
                break
            out |= {p.name: p for p in found if p.name not in out and (not out or p.kind is p.KEYWORD_ONLY)}
            if not any(p.kind is p.VAR_KEYWORD for p in found):
                break
    return out


def _settings(module: Any) -> list[str]:
    """What the constructor was given and the module keeps under the same name, unless it is the default."""
    own, recipe = module.__dict__, info_of(module).recipe
    if recipe is not None and recipe.waiting is not None:
        from .ivy import waiting_arguments

        own = waiting_arguments(recipe)
    out = []
    for name, parameter in _parameters(type(module)).items():
        value = own.get(name, own.get(f"_{name}", parameter.empty))
        if name in OPTIONS or value is parameter.empty or not _is_plain(value) or _is_same(value, parameter.default):
            continue
        out.append(f"{name}={value!r}")
    return out


def _is_plain(x: Any) -> bool:
    return is_plain(x) or type(x) is tuple and all(map(is_plain, x))


def _is_same(value: Any, default: Any) -> bool:
    """Whether a setting is the default; one number for all axes is kept as one for each."""
    if type(value) is tuple and is_plain(default):
        return bool(value) and all(x == default for x in value)
    return type(value) is type(default) and bool(value == default)


def _count(module: Any) -> str:
    info = info_of(module)
    built = info.fresh and is_built(module)
    if not built and any(_has_variables(m) for m in _family(module, {})):
        return "not built yet"
    arrays = [x for _, x in stored(module)._entries() if _core._tree.is_array(x)] if built else []
    n = sum(int(_core.asarray(x).size) for x in arrays)
    return f"{n:,} parameter{'' if n == 1 else 's'}"


def _has_variables(module: Any) -> bool:
    """Whether a module that is not built may have variables of its own."""
    return info_of(module).recipe is not None or any(not isinstance(x, Base) for _, x in Found(module).entries)


def _family(module: Any, seen: dict[int, Any]) -> list[Any]:
    if id(module) not in seen:
        seen[id(module)] = module
        for _, child in _children(module):
            _family(child, seen)
    return list(seen.values())
