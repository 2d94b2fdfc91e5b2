"""One row on one backend: everything a cell must survive.

A `Row` says how its arguments are drawn and what the result should be. Each example is called in every way a user can
call it: tensors, the framework's own arrays, its variables, containers with one object in three leaves, methods of
both, `out=`; then it is differentiated, once and twice, and compared with central differences of the reference and with
the framework's own autodiff. Numbers in arrays have few digits, so that every element type holds them exactly.
"""

import dataclasses
from collections.abc import Callable

import clematis as cm
import numpy as np
from hypothesis import strategies as st

from . import autodiff, tolerance
from .arrays import (
    HAS_AUTODIFF,
    HAS_RAW,
    HAS_VARIABLES,
    INTEGERS,
    doubles,
    dtype_name,
    is_raw,
    raw,
    tensor,
    variable,
)  # fmt: skip
from .reference_gradients import curvature


@dataclasses.dataclass(frozen=True)
class Row:
    """A function of a dashboard. Arrays of float64 among the arguments are differentiated; others are not."""

    name: str
    cases: Callable[[str], st.SearchStrategy]
    reference: Callable
    #: How many arguments go by position; all after them go by keyword.
    positional: int
    #: Which result `out=` is for; None: the function has no `out`.
    out: int | None = 0
    #: Arguments that have no say in the derivative, though they are floats.
    flat: frozenset = frozenset()
    #: Whether the derivative is defined at these arguments.
    smooth: Callable = lambda **arguments: True
    #: Whether gradients are stopped on purpose: all zeros.
    stopped: Callable = lambda **arguments: False
    #: What integers give: "same", "float64", or None where the row takes floats alone.
    integers: str | None = None
    #: Which argument a method's self is.
    self_name: str | None = None
    #: A multiple of the usual tolerance, with a reason where the row is described.
    factor: float = 1.0
    second: bool = True


def mapped(arguments, make):
    """The arguments with every array rebuilt by `make(name, values)`."""
    return {n: make(n, a) if isinstance(a, np.ndarray) else a for n, a in arguments.items()}


def call(f, arguments, positional, **more):
    """By position as far as that goes, by keyword from there on; what is None is left out where it can be."""
    values = list(arguments.items())
    args = [a for _, a in values[:positional]]
    kwargs = {n: a for n, a in values[positional:] if a is not None}
    return f(*args, **kwargs, **more)


def call_method(arguments, name, positional, self_name=None):
    """The same as a method of its first array."""
    left = dict(arguments)
    own = self_name or next(iter(arguments))
    place = list(arguments).index(own)
    owner = left.pop(own)
    return call(getattr(owner, name), left, positional - (place < positional))


def several(result):
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def three(x):
    """The same object in three leaves."""
    return cm.Container({"a": x, "b": {"c": x, "d": x}})


def leaves(container):
    return [container["a"], container["b"]["c"], container["b"]["d"]]


HALF_DTYPES = ("float16", "bfloat16")


class Example:
    """One set of arguments on one backend in one element type."""

    def __init__(self, row, backend, arguments, dtype, cell):
        self.row, self.backend, self.arguments, self.dtype, self.cell = row, backend, arguments, dtype, cell
        self.function = getattr(cm, row.name)
        self.want = several(row.reference(**arguments))

    def made(self, make, dtype=None):
        """The arguments as arrays that `make` makes: floats in the example's element type, others as they are."""
        dtype = dtype or self.dtype
        return mapped(
            self.arguments, lambda n, a: make(self.backend, a, dtype if a.dtype == np.float64 else a.dtype.name)
        )

    def call(self, arguments, **more):
        return call(self.function, arguments, self.row.positional, **more)

    def holds(self, result, what, dtype=None, kind=None):
        """Compares all results with the reference."""
        got = several(result)
        assert len(got) == len(self.want), f"{what}: {len(got)} results, not {len(self.want)}"
        for at, (g, w) in enumerate(zip(got, self.want, strict=True)):
            about = f"{what}, result {at}" if len(got) > 1 else what
            if kind == "raw":
                assert is_raw(self.backend, g), f"{about}: a {type(g)}, not an array of {self.backend}"
            else:
                assert isinstance(g, cm.Tensor), f"{about}: a {type(g)}, not a tensor"
                assert g.backend == self.backend, f"{about}: on {g.backend}, not on {self.backend}"
            self.cell.error(tolerance.values(g, w, dtype or self.dtype, self.row.factor, about))

    def forward(self):
        """Every way to call it."""
        row, backend = self.row, self.backend
        tensors = self.made(tensor)
        result = self.call(tensors)
        self.holds(result, "tensors")
        arrays = [n for n, a in tensors.items() if isinstance(a, cm.Tensor)]
        if not arrays:
            return
        if backend in HAS_RAW:
            self.holds(self.call(self.made(raw)), "arrays of the framework", kind="raw")
        if backend in HAS_VARIABLES:
            self.holds(self.call(self.made(variable)), "variables", kind="raw")
        own = row.self_name or next(iter(self.arguments))
        if own in arrays:
            self.holds(call_method(tensors, row.name, row.positional, row.self_name), "a method of a tensor")
        one, all_of_them = dict(tensors), dict(tensors)
        one[arrays[0]] = three(tensors[arrays[0]])
        all_of_them.update({n: three(tensors[n]) for n in arrays})
        self.tree(self.call(one), f"a container as {arrays[0]}")
        self.tree(self.call(all_of_them), "containers")
        if own in arrays:
            self.tree(call_method(all_of_them, row.name, row.positional, row.self_name), "a method of a container")
        if row.out is not None:
            self.out(tensors, several(result)[row.out])

    def tree(self, result, what):
        """A container per result, with three leaves each."""
        got = several(result) if not isinstance(result, cm.Container) else (result,)
        for g in got:
            assert isinstance(g, cm.Container), f"{what}: a {type(g)}, not a container"
        for at in range(3):
            self.holds(tuple(leaves(g)[at] for g in got), f"{what}, leaf {at}")

    def out(self, tensors, result):
        """`out=` is what comes back, and has the numbers."""

        def written(arguments, out, what, kind=None):
            back = self.call(arguments, out=out)
            assert several(back)[self.row.out] is out, f"{what}: something else came back"
            self.holds(back, what, kind=kind)

        written(tensors, cm.zeros_like(result), "out=")
        shape = self.want[self.row.out].shape
        zeros = np.zeros(shape)
        if self.backend in ("numpy", "torch"):
            written(self.made(raw), raw(self.backend, zeros, self.dtype), "out= an array", "raw")
        elif self.backend in HAS_RAW:
            try:
                self.call(self.made(raw), out=raw(self.backend, zeros, self.dtype))
            except cm.UnsupportedError:
                pass
            else:
                raise AssertionError("out= an array that cannot be written: no error")
        first = next(n for n, a in tensors.items() if isinstance(a, cm.Tensor))
        held = {**tensors, first: three(tensors[first])}
        into = cm.Container({"a": cm.zeros_like(result), "b": {"c": cm.zeros_like(result), "d": cm.zeros_like(result)}})
        before = leaves(into)
        back = self.call(held, out=into)
        back = back if isinstance(back, cm.Container) else several(back)[self.row.out]
        for at, leaf in enumerate(leaves(back)):
            assert leaf is before[at], f"out= a container: leaf {at} is something else"
            self.cell.error(
                tolerance.values(leaf, self.want[self.row.out], self.dtype, self.row.factor, "out= a container")
            )

    def in_integers(self):
        """Integers, where the row takes them."""
        for dtype in INTEGERS:
            whole = {
                n: np.abs(np.round(a * 4)) if isinstance(a, np.ndarray) and a.dtype == np.float64 else a
                for n, a in self.arguments.items()
            }
            want = several(self.row.reference(**whole))
            other = Example(self.row, self.backend, whole, dtype, self.cell)
            other.want = want
            result = other.call(other.made(tensor))
            other.holds(result, f"{dtype} tensors", dtype if self.row.integers == "same" else self.row.integers)

    def loss(self, arguments, mean, add):
        """The mean of the results; each has a weight of its own, so that none passes for another."""
        total = None
        for at, y in enumerate(several(self.call(arguments))):
            part = mean(y) * (1 + at)
            total = part if total is None else add(total, part)
        return total

    def reference_loss(self, arguments, empty):
        results = several(self.row.reference(**arguments))
        return sum((np.sum(y) if empty else np.mean(y)) * (1 + at) for at, y in enumerate(results))

    def floats(self):
        return [n for n, a in self.arguments.items() if isinstance(a, np.ndarray) and a.dtype == np.float64]

    def gradients(self, rng, second):
        """Derivatives of the mean with respect to every floating argument."""
        names = self.floats()
        if not names or not self.row.smooth(**self.arguments):
            return
        empty = any(w.size == 0 for w in self.want)
        tensors = self.made(tensor)

        def function(*arrays):
            held = {**tensors, **dict(zip(names, arrays, strict=True))}
            return self.loss(held, cm.sum if empty else cm.mean, cm.add)

        found = cm.grad(function, argnums=tuple(range(len(names))))(*(tensors[n] for n in names))
        want = autodiff.differences(self, names, rng, empty)
        scale = max((np.max(np.abs(doubles(g)), initial=0.0) for g in found), default=0.0)
        for n, g in zip(names, found, strict=True):
            assert g.shape == self.arguments[n].shape, f"gradient of {n}: the shape is {g.shape}"
            own = max(float(np.max(np.abs(doubles(g)), initial=0.0)), 0.25 * scale, 1e-30)
            for direction, derivative in want[n]:
                got = np.sum(doubles(g) * direction)
                allowed = tolerance.GRADIENTS[self.dtype] * self.row.factor * _eps(self.dtype) + tolerance.DIFFERENCES
                self.cell.error(
                    tolerance.share(
                        got, derivative, allowed * own * np.sum(np.abs(direction)), f"gradient of {n} by differences"
                    )
                )
            if dtype_name(g) != self.dtype:
                raise tolerance.Mismatch(f"gradient of {n}: the dtype is {dtype_name(g)}")
        if self.backend in HAS_AUTODIFF:
            theirs = autodiff.own_gradients(self, names, empty)
            for n, t in zip(names, theirs, strict=True):
                about = f"gradient of {n} by {self.backend}'s own autodiff"
                assert dtype_name(t) == self.dtype, f"{about}: the dtype is {dtype_name(t)}"
                assert tuple(t.shape) == self.arguments[n].shape, f"{about}: the shape is {tuple(t.shape)}"
            if self.dtype in HALF_DTYPES:
                # jax adds gradients up in the half type itself, x + b alone shows it: the mean of 250 comes out 2 % off.
                # So what ours are held to, at half precision, is its autodiff of the same numbers in float32.
                single = Example(self.row, self.backend, self.arguments, "float32", self.cell)
                theirs = autodiff.own_gradients(single, names, empty)
            for n, g, t in zip(names, found, theirs, strict=True):
                own = max(float(np.max(np.abs(doubles(g)), initial=0.0)), 0.25 * scale, 1e-30)
                about = f"gradient of {n} by {self.backend}'s own autodiff"
                self.cell.error(tolerance.gradients(g, doubles(t), self.dtype, own, self.row.factor, about))
        if second and self.row.second and not empty:
            self.second(names, tensors, rng)

    def second(self, names, tensors, rng):
        """The derivative of a derivative along a direction, in float64."""
        along = {n: rng.choice([-1.0, 1.0], self.arguments[n].shape) for n in names}

        def loss_of(*arrays):
            def function(*arrays):
                held = {**tensors, **dict(zip(names, arrays, strict=True))}
                return self.loss(held, cm.mean, cm.add)

            parts = cm.grad(function, argnums=tuple(range(len(names))))(*arrays)
            total = None
            for n, g in zip(names, parts, strict=True):
                part = cm.sum(g * tensor(self.backend, along[n]))
                total = part if total is None else total + part
            return total

        found = cm.grad(loss_of, argnums=tuple(range(len(names))))(*(tensors[n] for n in names))
        scale = max((np.max(np.abs(doubles(g)), initial=0.0) for g in found), default=0.0) + 0.01
        varying = [n for n in names if n not in self.row.flat]
        if self.row.stopped(**self.arguments):
            varying = []
        for n, g in zip(names, found, strict=True):
            d = rng.standard_normal(self.arguments[n].shape)
            want = 0.0
            if n in varying:
                at = {m: along[m] for m in varying}
                to = {m: d if m == n else np.zeros_like(along[m]) for m in varying}
                want = curvature(
                    lambda v: autodiff.at(self, v), autodiff.Vector({m: self.arguments[m] for m in varying}),
                    autodiff.Vector(to), autodiff.Vector(at), 2e-3,
                )  # fmt: skip
            allowed = tolerance.CURVATURES * scale * max(np.sum(np.abs(d)), 1.0)
            self.cell.error(
                tolerance.share(np.sum(doubles(g) * d), want, allowed, f"second derivative, {n}, by differences")
            )
        if self.backend in HAS_AUTODIFF:
            theirs = autodiff.own_second(self, names, along)
            for n, g, t in zip(names, found, theirs, strict=True):
                about = f"second derivative, {n}, by {self.backend}'s own autodiff"
                self.cell.error(tolerance.share(doubles(g), doubles(t), 1e-9 * scale, about))


def _eps(dtype):
    return tolerance.EPSILON[dtype]


def small(arguments):
    return sum(a.size for a in arguments.values() if isinstance(a, np.ndarray)) <= 64


def check(row, cell):
    """Runs a row's examples on the cell's backend."""
    assert hasattr(cm, row.name), f"clematis.{row.name} does not exist"

    cell.each(
        st.tuples(row.cases(cell.backend), st.integers(0, 1 << 16)),
        lambda dtype, drawn: check_one(row, cell, dtype, *drawn),
    )


def check_one(row, cell, dtype, arguments, seed=0):
    """One example, whole."""
    example = Example(row, cell.backend, arguments, dtype, cell)
    example.forward()
    example.gradients(np.random.default_rng(seed), second=dtype == "float64" and small(arguments))
    if row.integers and dtype == "float64":
        example.in_integers()
