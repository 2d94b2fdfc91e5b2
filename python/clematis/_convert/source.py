"""Exports modules and functions as source code of a framework."""

import inspect
import json
import keyword
import math
import pathlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _clematis as _core
from .._module import call as calls
from .._module.info import info_of
from ..errors import ArgumentError, ClematisError
from ..module import Module
from . import trace as tracing
from .captured import Captured
from .dispatch import from_backend_module, kind_of
from .tree_structure import LEAF, _has_keys, flatten

TARGETS = ("torch", "jax", "tensorflow", "keras", "haiku", "flax", "numpy", "clematis")


class Source(str):
    """Source code of a model; `weights` are the arrays that it loads, by their names in the file.

    >>> code = cm.source(cm.nn.Linear(3, 2), "numpy", cm.ones((1, 3)))
    >>> sorted(code.weights)
    ['linear.bias', 'linear.weight']
    """

    weights: dict[str, Any]
    # The name of the class or function.
    entry: str

    def save(self, folder: Any) -> pathlib.Path:
        """Writes `model.py`, and `weights.safetensors` if there are any; returns the folder."""
        place = pathlib.Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        _core._write_file(str(place / "model.py"), self.encode())  # type: ignore[attr-defined]
        if self.weights:
            _core.save(str(place / "weights.safetensors"), {k: _core.asarray(x) for k, x in self.weights.items()})
        return place


def source(module_or_function: Any, target: str, /, *example: Any, **words: Any) -> Source:
    """Exports a module or a function as readable source code of a framework, in evaluation mode.

    `example` and `words` are example arguments of a call; the first axis may have any size afterwards. A module is exported
    as one class per submodule, with the framework's own layers and the module's names; a function is exported as a function.
    A module of torch, Keras, Haiku or Flax is converted first. The result is the text; `save(folder)` writes it as
    `model.py` beside `weights.safetensors`, which its `load(path)` reads.

    >>> print(cm.source(lambda x, y: cm.exp(x) + y, "torch", cm.ones(3), cm.ones(3)))
    import torch
    <BLANKLINE>
    <BLANKLINE>
    def function(x, y):
        return torch.exp(x) + y
    <BLANKLINE>
    """
    if target not in TARGETS:
        known = ", ".join(f'"{name}"' for name in TARGETS)
        raise ArgumentError(f"source: the target is one of {known}, not {target!r}")
    if kind_of(module_or_function) is not None:
        module_or_function = from_backend_module(module_or_function, example, instance_kwargs=words)
    if isinstance(module_or_function, Module):
        if isinstance(module_or_function, Captured):
            request, values = _of_captured(module_or_function, example, words)
        else:
            request, values = _of_module(module_or_function, example, words)
    elif callable(module_or_function):
        request, values = _of_function(module_or_function, example, words)
    else:
        kind = type(module_or_function).__name__
        raise ArgumentError(f"source: a module of ours or a function is written as code, not {kind}")
    return _written(request | {"target": target}, values)


def _written(request: dict[str, Any], values: list[Any]) -> Source:
    answer = json.loads(_core._write_source(json.dumps(request)))  # type: ignore[attr-defined]
    imports, text = answer["imports"], ""
    if answer["helpers"]:
        from .source_helpers import helpers

        words = {"haiku": "jax", "flax": "jax"}.get(request["target"], request["target"])
        text, more = helpers(words, answer["helpers"])
        imports = _merged(imports, more)
    parts = [imports, text, answer["code"], answer["loader"]]
    code = Source("\n\n\n".join(part.strip("\n") for part in parts if part.strip("\n")) + "\n")
    code.weights = {w["name"]: _changed([values[i] for i in w["inputs"]], w["changes"]) for w in answer["weights"]}
    code.entry = answer["entry"]
    return code


def _changed(values: list[Any], changes: list[Any]) -> Any:
    """The array to store for a weight, with its layout changes applied."""
    import numpy as np

    (x,) = (_core.asarray(value).numpy() for value in values)
    for change in changes:
        ((word, how),) = change.items()
        x = x.transpose(how) if word == "transpose" else x.reshape(how)
    return np.ascontiguousarray(x) if x.ndim else x


def _merged(imports: str, more: list[str]) -> str:
    """Sorts imports as formatters do: the standard library, a blank line, the others."""
    lines = {line for line in [*imports.split("\n"), *more] if line}
    standard = re.compile(r"(import|from) (ctypes|functools|itertools|math|operator|sys)\b")
    groups = [sorted(x for x in lines if standard.match(x)), [x for x in lines if not standard.match(x)]]
    groups[1].sort(key=lambda x: (x.startswith("from"), x.lower()))
    return "\n\n".join("\n".join(group) for group in groups if group)


# Placeholder for an array in the returned expression; it occurs in no literal.
_PLACE = "\x05"


def _returned(shape: Any) -> str:
    """The expression that a call returns, with a placeholder for each array."""
    if shape == LEAF:
        return _PLACE
    kind, inside = shape
    if kind == "value":
        return _literal(inside)
    if _has_keys(kind):
        return "{" + ", ".join(f"{_literal(key)}: {_returned(x)}" for key, x in inside) + "}"
    parts = [_returned(x) for x in inside]
    if kind == "list":
        return f"[{', '.join(parts)}]"
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _literal(x: Any) -> str:
    """A plain value as a Python literal."""
    if isinstance(x, str):
        return str(_core._python_string(x))  # type: ignore[attr-defined]
    if isinstance(x, float) and not math.isfinite(x):
        return f'float("{x}")'
    return repr(x)


def _names(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """A name for each array among the arguments."""
    try:
        known = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        known = []
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    words = [p.name for p in known if p.kind in plain]
    found: list[str] = []
    for at, x in enumerate(args):
        found += _leaf_names(words[at] if at < len(words) else "x", flatten(x)[1])
    for word, x in kwargs.items():
        found += _leaf_names(word, flatten(x)[1])
    unique: list[str] = []
    for name in found:
        own, n = name, 2
        while own in unique:
            own, n = f"{name}{n}", n + 1
        unique.append(own)
    return unique


def _leaf_names(name: str, shape: Any) -> list[str]:
    if shape == LEAF:
        return [name]
    kind, inside = shape
    if kind == "value":
        return []
    if _has_keys(kind):
        return [x for key, part in inside for x in _leaf_names(_word(f"{name}_{key}"), part)]
    return [x for i, part in enumerate(inside) for x in _leaf_names(f"{name}_{i}", part)]


def _word(text: str, other: str = "x") -> str:
    """Converts text to a Python identifier."""
    word = re.sub(r"\W", "_", text).strip("_") or other
    return f"_{word}" if word[0].isdigit() or keyword.iskeyword(word) else word


def _paths(module: Any, path: str, found: dict[int, str], classes: dict[str, str]) -> None:
    """Collects the paths of modules and their class names."""
    if id(module) in found:
        return
    found[id(module)] = path
    if type(module).__name__ not in ("Sequential", "Identity"):
        classes[path] = type(module).__name__
    for child in info_of(module).children:
        place = child.place if isinstance(child.place, str) and child.place else child.chain
        inner = place.strip("/").replace("/", ".")
        _paths(child.module, f"{path}.{inner}" if path else inner, found, classes)


@contextmanager
def _scopes(paths: dict[int, str]) -> Iterator[None]:
    """Context manager: ops that are recorded inside have the path of their module as scope."""
    stack, counts = [""], dict.fromkeys(paths.values(), 0)

    def scoped(module: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        path = paths.get(id(module))
        if path == "":
            # Each recording counts calls from 0.
            counts.update(dict.fromkeys(counts, 0))
        if not path:
            return calls.run(module, function, args, kwargs)
        rest = path.removeprefix(f"{stack[-1]}." if stack[-1] else "")
        counts[path] += 1
        stack.append(path)
        try:
            return _core._in_scope(f"{rest}#{counts[path] - 1}", calls.run, (module, function, args, kwargs), {})  # type: ignore[attr-defined]
        finally:
            stack.pop()

    token = calls.AROUND.set(scoped)
    try:
        yield
    finally:
        calls.AROUND.reset(token)


def _traced(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], paths: dict[int, str]) -> Any:
    leaves, structure = flatten((args, kwargs))
    specs = [tracing.spec_of(x.dtype, x.shape) for x in map(_core.asarray, leaves)]
    with _scopes(paths):
        return tracing.trace(module, structure, specs, False)


def _request(program: Any, name: str, arguments: list[str], classes: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name, "graph": program.text, "arguments": arguments, "returns": _returned(program.shape), "classes": classes,
    }  # fmt: skip


def _of_module(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    if not args and not kwargs:
        raise ArgumentError(f"source: an example of the arguments of {type(module).__name__} is needed")
    tracing.build(module, args, kwargs)
    # A single layer has no enclosing module.
    inner = info_of(module).children
    paths: dict[int, str] = {}
    classes: dict[str, str] = {}
    _paths(module, "", paths, classes)
    program = _traced(module, args, kwargs, paths)
    held = {x.path: x.value for x in tracing.held(module)}
    own = type(module)
    function = calls.forward_of(own)
    names = _names(lambda *a, **k: None, args, kwargs)
    try:
        names = _names(_without_self(function), args, kwargs)
    except (TypeError, ValueError):
        pass
    request = _request(program, _word(own.__name__, "Model"), names, classes)
    request["modules"] = list(paths.values())
    if not inner and own.__module__.startswith("clematis.nn"):
        request["alone"] = own.__name__.lower()
    return request, _values(program, held)


def _without_self(function: Any) -> Any:
    import functools

    return functools.partial(inspect.unwrap(function), None)


def _values(program: Any, held: dict[str, Any]) -> list[Any]:
    """The value of each input of a program that is part of the model; None for the others."""
    count = len(_core._Graph(program.text).inputs())  # type: ignore[call-arg]
    values: list[Any] = [held[path] for path in program.paths]
    values += [None] * (count - len(values) - len(program.constants))
    return values + list(program.constants)


def _of_captured(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    if module._programs is None:
        if not args and not kwargs:
            raise ArgumentError("source: the module is captured when it is first called; give example inputs")
        mode = module.training
        try:
            module.eval()(*args, **kwargs)
        finally:
            module.train(mode)
    program = tracing.captured_program(module, False)
    held = {x.path: x.value for x in tracing.held(module)}
    graph = _core._Graph(program.text)  # type: ignore[call-arg]
    names = [_word(name) for name, role, _, _ in graph.inputs() if role == "input"]
    return _request(program, _word(module._name or "Model", "Model"), names, {}), _values(program, held)


class _Call(Module):
    """Wraps a function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def _of_function(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[dict[str, Any], list[Any]]:
    if not args and not kwargs:
        raise ArgumentError("source: an example of the function's arguments is needed")
    word = getattr(function, "__name__", "function")
    word = "function" if word == "<lambda>" else _word(word, "function")
    try:
        program = _traced(_Call(function), args, kwargs, {})
    except ClematisError as e:
        e.add_note("in source")
        raise
    request = _request(program, word, _names(function, args, kwargs), {})
    request["function"] = True
    return request, _values(program, {})


__all__ = ["Source", "source"]
