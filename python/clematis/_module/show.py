"""How a module prints: its class and settings, and the modules inside, as a tree."""

import inspect
from typing import Any

from .. import _clematis as _core
from .build import is_built, stored
from .discover import SLASH, Found, is_plain
from .info import info_of

# Options of every layer, which say where and how its variables are made.
OPTIONS = frozenset("key v device dtype build_mode store_vars with_partial_v weight_initializer bias_initializer".split())


def shown(module: Any, kind: type) -> str:
    """The text of a module; nothing is built and nothing is drawn for it."""
    lines = _lines(module, kind, "", (), 0)
    lines[-1] += f"  # {_count(module, kind)}"
    return "\n".join(lines)


def _lines(module: Any, kind: type, name: str, above: tuple[int, ...], depth: int) -> list[str]:
    head = f"{'  ' * depth}{f'({name}): ' if name else ''}{type(module).__name__}({', '.join(_settings(module))}"
    if id(module) in above:
        return [f"{head}…)"]
    children = _children(module, kind)
    if not children:
        return [f"{head})"]
    out = [head]
    for path, child in children:
        out += _lines(child, kind, path, (*above, id(module)), depth + 1)
    return [*out, f"{'  ' * depth})"]


def _children(module: Any, kind: type) -> list[tuple[str, Any]]:
    """Modules directly inside with their names; they are looked for where nothing is built yet."""
    info = info_of(module)
    if info.fresh:
        return [(child.chain, child.module) for child in info.children]
    return [(path.replace(SLASH, "/"), x) for path, x in Found(module, kind).entries if isinstance(x, kind)]


def _settings(module: Any) -> list[str]:
    """What the constructor was given and the module keeps under the same name: what is required, and what is not as usual."""
    try:
        parameters = inspect.signature(type(module).__init__).parameters
    except (TypeError, ValueError):
        return []
    own = module.__dict__
    out = []
    for name, parameter in list(parameters.items())[1:]:
        value = own.get(name, own.get(f"_{name}", parameter.empty))
        if name in OPTIONS or value is parameter.empty or not _is_plain(value) or _is_same(value, parameter.default):
            continue
        out.append(f"{name}={value!r}")
    settings = own.get("_settings")
    if isinstance(settings, dict):
        out += [f"{name}={value!r}" for name, value in settings.items() if _is_plain(value)]
    return out


def _is_plain(x: Any) -> bool:
    return is_plain(x) or type(x) is tuple and all(map(is_plain, x))


def _is_same(value: Any, default: Any) -> bool:
    """Whether a setting is the default; one number for all axes is kept as one for each."""
    if type(value) is tuple and is_plain(default):
        return bool(value) and all(x == default for x in value)
    return type(value) is type(default) and bool(value == default)


def _count(module: Any, kind: type) -> str:
    info = info_of(module)
    built = info.fresh and is_built(module)
    if not built and _needs_build(module, kind):
        return "not built yet"
    arrays = [x for _, x in stored(module)._entries() if _core._tree.is_array(x)] if built else []
    n = sum(int(_core.asarray(x).size) for x in arrays)
    return f"{n:,} parameter{'' if n == 1 else 's'}"


def _needs_build(module: Any, kind: type) -> bool:
    """Whether there may be variables that are not made yet."""
    return any(
        type(m)._create_variables is not kind._create_variables  # type: ignore[attr-defined]
        or type(m)._build is not kind._build  # type: ignore[attr-defined]
        or any(not isinstance(x, kind) for _, x in Found(m, kind).entries)
        for m in _family(module, kind, {})
    )


def _family(module: Any, kind: type, seen: dict[int, Any]) -> list[Any]:
    if id(module) not in seen:
        seen[id(module)] = module
        for _, child in _children(module, kind):
            _family(child, kind, seen)
    return list(seen.values())
