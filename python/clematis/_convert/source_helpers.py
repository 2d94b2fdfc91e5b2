"""The source of dialect functions with their dependencies, self-contained.

Printed source calls them where a framework has no equivalent of an op. Names of the dialects get an underscore in front.
"""

import ast
import builtins
import copy
import functools
import inspect
from dataclasses import dataclass, field
from typing import Any

from .. import _clematis as _core


@dataclass
class _File:
    """One file of a dialect: what it defines in order, what it imports, and from which other files it takes names."""

    name: str
    defined: dict[str, ast.stmt] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)
    # Names of whole files, and names out of files.
    files: dict[str, str] = field(default_factory=dict)
    taken: dict[str, tuple[str, str]] = field(default_factory=dict)


def _read(module: Any) -> _File:
    file = _File(module.__name__)
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            owner = _owner(node)
            if owner in file.defined:
                _add(file.defined[owner], node)
            else:
                file.defined[node.name] = node
        elif isinstance(node, ast.Assign):
            _assigned(file, node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("clematis._dialects"):
            for name in node.names:
                word = name.asname or name.name
                if node.module == "clematis._dialects":
                    file.files[word] = f"clematis._dialects.{name.name}"
                else:
                    file.taken[word] = (str(node.module), name.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for name in node.names:
                word = name.asname or name.name.partition(".")[0]
                one = copy.copy(node)
                one.names = [name]
                file.imported[word] = ast.unparse(one)
    return file


def _assigned(file: _File, node: ast.Assign) -> None:
    """Each name of a line by itself where names and values stand side by side."""
    for target in node.targets:
        if isinstance(target, ast.Name):
            file.defined[target.id] = ast.Assign([target], node.value, lineno=node.lineno)
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            for one, value in zip(target.elts, node.value.elts, strict=True):
                if isinstance(one, ast.Name):
                    file.defined[one.id] = ast.Assign([one], value, lineno=node.lineno)
        elif isinstance(target, ast.Tuple):
            for at, one in enumerate(target.elts):
                if isinstance(one, ast.Name):
                    whole = ast.Call(ast.Name("tuple", ast.Load()), [node.value], [])
                    value = ast.Subscript(whole, ast.Constant(at), ast.Load())
                    file.defined[one.id] = ast.Assign([one], value, lineno=node.lineno)
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            # A later entry of a table belongs to the table.
            first = file.defined.get(target.value.id)
            if first is not None:
                _add(first, node)


def _add(first: Any, node: ast.stmt) -> None:
    """Puts a line with the one that it belongs to."""
    first.more = [*getattr(first, "more", []), node]


def _owner(node: Any) -> str:
    """The function whose rule a function is, as of `@f.defjvp`."""
    for mark in node.decorator_list:
        if isinstance(mark, ast.Attribute) and isinstance(mark.value, ast.Name) and mark.attr.startswith("def"):
            return mark.value.id
    return ""


def _bound(node: ast.AST) -> set[str]:
    """The names that a function binds anywhere inside."""
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.arg):
            found.add(inner.arg)
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            found.add(inner.id)
        elif isinstance(inner, (ast.FunctionDef, ast.ClassDef)) and inner is not node:
            found.add(inner.name)
    return found


class _Rename(ast.NodeTransformer):
    """Names of other functions as they are called in the text; notes which are needed."""

    def __init__(self, helpers: "_Helpers", file: _File, bound: set[str], line: int | None) -> None:
        self.helpers, self.file, self.bound, self.line = helpers, file, bound, line

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.bound:
            return node
        found = self.helpers.resolve(self.file, node.id, self.line)
        return ast.copy_location(ast.Name(found, node.ctx), node) if found else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id in self.file.files and node.value.id not in self.bound:
            return ast.copy_location(
                ast.Name(self.helpers.need(self.file.files[node.value.id], node.attr), ast.Load()), node
            )
        return self.generic_visit(node)


class _Helpers:
    """What is needed, in the order in which it can be defined."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str], str] = {}
        self.names: dict[tuple[str, str], str] = {}
        self.imports: dict[str, str] = {}
        self.going: set[tuple[str, str]] = set()

    def need(self, place: str, name: str) -> str:
        """A name out of a file; what it is called in the text."""
        file = _file(place)
        if name in file.taken:
            return self.need(*file.taken[name])
        if name in file.files or name not in file.defined:
            return name
        key = (place, name)
        if key not in self.names:
            self.names[key] = self._free(name)
            self._write(file, name, key)
        return self.names[key]

    def _free(self, name: str) -> str:
        word = name if name.startswith("_") else f"_{name}"
        while word in self.names.values() or word in self.imports:
            word += "_"
        return word

    def resolve(self, file: _File, name: str, line: int | None) -> str | None:
        """What a name of a file is called in the text, if it is no builtin."""
        if name in file.defined:
            own = file.defined[name]
            # A name that is defined further down is the builtin here.
            if line is not None and hasattr(builtins, name) and own.lineno >= line:
                return None
            return self.need(file.name, name)
        if name in file.taken:
            return self.need(*file.taken[name])
        if name in file.imported:
            return self._import(name, file.imported[name])
        return None

    def _import(self, name: str, text: str) -> str:
        word = name
        while word in self.imports and self.imports[word] != _as(text, name, word):
            word += "_"
        self.imports[word] = _as(text, name, word)
        return word

    def _write(self, file: _File, name: str, key: tuple[str, str]) -> None:
        node = copy.deepcopy(file.defined[name])
        function = isinstance(node, (ast.FunctionDef, ast.ClassDef))
        parts = [node, *getattr(node, "more", [])]
        lines = []
        for part in parts:
            bound = _bound(part) if function else _bound_inside(part)
            new = _Rename(self, file, bound, None if function else part.lineno).visit(part)
            if isinstance(new, (ast.FunctionDef, ast.ClassDef)):
                new.name = self.names[key] if part is node else self._free(new.name)
            elif isinstance(new, ast.Assign) and isinstance(new.targets[0], ast.Name):
                new.targets = [ast.Name(self.names[key], ast.Store())]
            lines.append(ast.unparse(ast.fix_missing_locations(new)))
        self.texts[key] = "\n".join(lines)

    def text(self) -> str:
        """The source of all helpers: functions in any order, values after those they are computed from."""
        out = ""
        for text in self.texts.values():
            is_block = text.startswith(("def ", "class ", "@"))
            out += f"\n\n{text}\n" if is_block else f"\n{text}\n"
        return out.strip("\n")


def _bound_inside(node: ast.AST) -> set[str]:
    """The names that comprehensions and lambdas of a line bind."""
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.arg):
            found.add(inner.arg)
        elif isinstance(inner, ast.comprehension):
            found |= {x.id for x in ast.walk(inner.target) if isinstance(x, ast.Name)}
    return found


def _as(text: str, name: str, word: str) -> str:
    return text if name == word else f"{text.removesuffix(f' as {name}')} as {word}"


@functools.cache
def _file(place: str) -> _File:
    import sys

    return _read(sys.modules[place])


def helpers(framework: str, names: list[str]) -> tuple[str, list[str]]:
    """The text of a dialect's functions, each with an underscore, and the imports that they need."""
    module = _core._dialect(framework)  # type: ignore[attr-defined]
    found = _Helpers()
    for name in names:
        found.names[module.__name__, name] = f"_{name}"
    for name in names:
        found._write(_file(module.__name__), name, (module.__name__, name))
    return found.text(), list(found.imports.values())
