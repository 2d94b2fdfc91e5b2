"""Writes the type stubs of the package from the extension module itself; `cargo xtask stubs` runs it.

Names, parameters, defaults and documentation come from Rust. What a parameter takes follows from its name, what a function
returns from the rule of kinds: tensors in, tensors out; a framework's arrays in, the same framework's arrays out.
"""

import inspect
import sys
import types

import clematis._clematis as core

HEAD = '''"""Written by `cargo xtask stubs`; do not edit."""

import builtins
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar, final

_T = TypeVar("_T")
'''
# Operands, which are tensors, arrays, numbers or nested lists of numbers.
OPERANDS = {
    "x", "x1", "x2", "y", "a", "b", "condition", "logits", "labels", "indices", "table", "weight", "repeats", "sorter",
    "min", "max", "scale", "bias", "prepend", "append", "constant_values", "fill_value", "rtol", "ct", "mask",
}
KINDS = {
    "axis": "int | Sequence[int] | None", "axes": "int | Sequence[int] | None", "shape": "int | Sequence[int]",
    "dtype": "Any", "device": "Any", "keepdims": "builtins.bool", "copy": "builtins.bool | None", "f": "Callable[..., Any]",
    "function": "Callable[..., Any]", "name": "str", "module": "ModuleType", "key": "Any",
}
# Functions that make tensors of no operand.
MAKERS = {"arange", "asarray", "array", "empty", "eye", "fftfreq", "from_dlpack", "full", "linspace", "ones", "rfftfreq", "wrap",
          "zeros", "bits", "uniform", "normal", "randint", "bernoulli", "permutation"}
RETURNS = {"allclose": "builtins.bool", "backends": "list[str]", "can_cast": "builtins.bool", "is_array": "builtins.bool",
           "isdtype": "builtins.bool", "current_backend": "str",
           "set_backend": "None", "register_backend": "None", "result_type": "DType",
           "broadcast_shapes": "tuple[int, ...]", "paths": "list[str]", "leaves": "list[Any]", "key": "Key"}
SEVERAL = {"broadcast_arrays", "meshgrid", "nonzero", "split", "unstack"}
ANY = {"concat", "stack", "einsum", "map", "grad", "value_and_grad", "jac", "hessian", "vjp", "jvp", "linearize", "lu", "qr", "svd",
       "eig", "eigh", "slogdet", "top_k", "unique_all", "unique_counts", "unique_inverse", "finfo", "iinfo", "_method"}


def parameter(p, generic):
    """One parameter with its type and default."""
    kind = KINDS.get(p.name)
    if p.name in OPERANDS:
        kind = "_T | builtins.complex" if generic and p.name in ("x", "x1", "x2", "y", "a", "b") else "Any"
    kind = kind or "Any"
    if p.default is None and "None" not in kind and kind != "Any":
        kind += " | None"
    text = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + f"{p.name}: {kind}"
    return text if p.default is p.empty else f"{text} = {p.default!r}" if simple(p.default) else f"{text} = ..."


def simple(value):
    return value is None or isinstance(value, (bool, int, float, str)) and value == value


def parameters(signature, generic):
    """All of them, with the marks of positional and keyword parameters."""
    out, ps = [], list(signature.parameters.values())
    for i, p in enumerate(ps):
        before = ps[i - 1].kind if i else None
        if before is p.POSITIONAL_ONLY and p.kind is not p.POSITIONAL_ONLY:
            out.append("/")
        if p.kind is p.KEYWORD_ONLY and before not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            out.append("*")
        out.append("self" if p.name == "self" else parameter(p, generic))
    if ps and ps[-1].kind is inspect.Parameter.POSITIONAL_ONLY:
        out.append("/")
    return ", ".join(out)


def returned(name, signature):
    """What a function returns."""
    if name in RETURNS:
        return RETURNS[name]
    if name in MAKERS:
        return "Tensor"
    if name in SEVERAL:
        return "tuple[Any, ...]"
    first = next(iter(signature.parameters), "")
    return "_T" if first in ("x", "x1", "a") and name not in ANY else "Any"


def function(name, f, indent=""):
    """One function as a line and its documentation."""
    try:
        signature = inspect.signature(f)
    except ValueError:
        return f"{indent}def {name}(*args: Any, **kwargs: Any) -> Any: ...\n"
    back = returned(name, signature) if not indent else "Any"
    generic = back == "_T"
    doc = (inspect.getdoc(f) or "").strip().replace("\\", "\\\\")
    body = f'{indent}    """{doc}"""\n' if doc and not indent else f"{indent}    ...\n"
    return f"{indent}def {name}({parameters(signature, generic)}) -> {back}:\n{body}"


SLOTS = ("__call__", "__enter__", "__exit__", "__getitem__", "__setitem__", "__iter__", "__len__", "__bool__", "__float__", "__int__", "__round__",
         "__complex__", "__index__", "__contains__", "__array__", "__array_namespace__", "__copy__", "__deepcopy__", "__dlpack__", "__dlpack_device__")
OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift", "divmod")
FIXED = {"__len__": "int", "__bool__": "builtins.bool", "__float__": "float", "__int__": "int", "__complex__": "builtins.complex", "__index__": "int",
         "__contains__": "builtins.bool"}


def members(cls):
    """The members of a class."""
    out = []
    for name, value in sorted(vars(cls).items()):
        if isinstance(value, (types.GetSetDescriptorType, types.MemberDescriptorType)):
            if name not in ("__dict__", "__weakref__"):
                out.append(f"    @property\n    def {name}(self) -> Any: ...\n")
        elif name in FIXED:
            arguments = "self, key: Any, /" if name == "__contains__" else "self, /"
            out.append(f"    def {name}({arguments}) -> {FIXED[name]}: ...\n")
        elif any(name in (f"__{o}__", f"__r{o}__", f"__i{o}__") for o in OPERATORS):
            extra = ", mod: Any = None" if name in ("__pow__", "__rpow__") else ""
            back = "Any" if "divmod" in name else cls.__name__
            ignored = "  # type: ignore[misc]" if name == "__ipow__" else ""
            out.append(f"    def {name}(self, value: Any{extra}, /) -> {back}: ...{ignored}\n")
        elif name in ("__neg__", "__pos__", "__abs__", "__invert__"):
            out.append(f"    def {name}(self) -> {cls.__name__}: ...\n")
        elif name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
            ignored = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
            out.append(f"    def {name}(self, value: Any, /) -> Any: ...{ignored}\n")
        elif name == "__array_ufunc__":
            out.append("    __array_ufunc__: None\n")
        elif (not name.startswith("_") or name in SLOTS) and callable(value):
            out.append(function(name, value, "    ").replace(":\n        ...", ": ..."))
    argument = {"DType": "x: Any", "backend": "name: str", "_Graph": "text: str"}.get(cls.__name__)
    if argument is not None:
        out.append(f"    def __new__(cls, {argument}) -> {cls.__name__}: ...\n")
    return "".join(out) or "    ...\n"


def text(module, imports):
    """The stub of a module."""
    # The extension module lists its own names, the Python modules those that they take from it.
    names = getattr(module, "__all__", []) if not imports else [n for n in dir(module) if not n.startswith("_")]
    listed = "".join(f'    "{name}",\n' for name in names)
    parts = [imports, f"\n__all__ = [\n{listed}]\n"]
    for name in sorted(dir(module)):
        value = getattr(module, name)
        if isinstance(value, type):
            parts.append(f"\n@final\nclass {name}:\n{members(value)}")
        elif isinstance(value, types.BuiltinFunctionType):
            parts.append("\n" + function(name, value))
        elif isinstance(value, core.DType):
            parts.append(f"\n{name}: DType\n")
        elif isinstance(value, types.ModuleType):
            parts.append(f"\n{name}: ModuleType\n")
        elif name == "__version__":
            parts.append("\n__version__: str\n")
    return HEAD + "".join(parts)


def main(folder):
    """Writes a file for the extension module and for each of its parts."""
    files = {"_clematis": text(core, "")}
    for part in ("fft", "linalg", "random", "tree"):
        files[part] = text(getattr(core, f"_{part}"), "from ._clematis import DType, Tensor\n")
    for name, content in files.items():
        with open(f"{folder}/{name}.pyi", "w", encoding="utf-8") as file:
            file.write(content)


if __name__ == "__main__":
    main(sys.argv[1])
