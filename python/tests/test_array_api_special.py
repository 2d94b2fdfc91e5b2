"""Special values that the Array API standard (2025.12) asks for, on every backend.

Each row holds inputs and what must come out. All rows of a function are computed in one call.
"""

import math
import operator
from math import inf, nan, pi

import clematis as cm
import pytest


class Unsigned(float):
    """A number of which the standard leaves the sign open."""


ZERO, HUGE, QUARTER = Unsigned(0.0), Unsigned(inf), pi / 4
FINITE, NONZERO, POSITIVE = (0.0, -0.0, 1.5, -2.5), (1.5, -2.5), (0.5, 2.5)


def same(got, want):
    """Equal with the sign of zero, NaN like NaN; other numbers nearly."""
    if math.isnan(want):
        return math.isnan(got)
    if isinstance(want, Unsigned):
        return abs(got) == want
    if want == 0 or math.isinf(want):
        return got == want and math.copysign(1, got) == math.copysign(1, want)
    return math.isclose(got, want, rel_tol=1e-5)


def agree(op, inputs, got, want):
    wrong = [f"{op}({i!r}) gave {g!r}, not {w!r}" for i, g, w in zip(inputs, got, want) if not same(g, w)]
    assert not wrong, "\n".join(wrong)


NAN = [(nan, nan)]
ZEROS = [(0.0, 0.0), (-0.0, -0.0)]
ENDS = [(inf, inf), (-inf, -inf)]
UNARY = {
    "abs": [*NAN, (-0.0, 0.0), (-inf, inf), (inf, inf), (-1.5, 1.5)],
    "acos": [*NAN, (1.5, nan), (-1.5, nan), (inf, nan), (-inf, nan), (1.0, 0.0)],
    "acosh": [*NAN, (0.5, nan), (-inf, nan), (1.0, 0.0), (inf, inf)],
    "asin": [*NAN, (1.5, nan), (-1.5, nan), *ZEROS],
    "asinh": [*NAN, *ZEROS, *ENDS],
    "atan": [*NAN, *ZEROS, (inf, pi / 2), (-inf, -pi / 2)],
    "atanh": [*NAN, (-1.5, nan), (1.5, nan), (-1.0, -inf), (1.0, inf), *ZEROS],
    "ceil": [*NAN, *ENDS, *ZEROS, (-0.5, -0.0), (3.0, 3.0)],
    "cos": [*NAN, (0.0, 1.0), (-0.0, 1.0), (inf, nan), (-inf, nan)],
    "cosh": [*NAN, (0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, inf)],
    "exp": [*NAN, (0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0)],
    "expm1": [*NAN, *ZEROS, (inf, inf), (-inf, -1.0)],
    "floor": [*NAN, *ENDS, *ZEROS, (3.0, 3.0)],
    "log": [*NAN, (-1.5, nan), (-inf, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf)],
    "log1p": [*NAN, (-1.5, nan), (-1.0, -inf), *ZEROS, (inf, inf)],
    "log2": [*NAN, (-1.5, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf)],
    "log10": [*NAN, (-1.5, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf)],
    "reciprocal": [*NAN, (0.0, inf), (-0.0, -inf), (inf, 0.0), (-inf, -0.0)],
    "round": [*NAN, *ENDS, *ZEROS, (0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0), (-1.5, -2.0), (-2.5, -2.0)],
    "sign": [*NAN, (-2.5, -1.0), (0.0, ZERO), (-0.0, ZERO), (2.5, 1.0), (inf, 1.0), (-inf, -1.0)],
    "sin": [*NAN, *ZEROS, (inf, nan), (-inf, nan)],
    "sinh": [*NAN, *ZEROS, *ENDS],
    "sqrt": [*NAN, (-1.5, nan), (-inf, nan), *ZEROS, (inf, inf)],
    "square": [*NAN, (-0.0, 0.0), (inf, inf), (-inf, inf)],
    "tan": [*NAN, *ZEROS, (inf, nan), (-inf, nan)],
    "tanh": [*NAN, *ZEROS, (inf, 1.0), (-inf, -1.0)],
    "trunc": [*NAN, *ENDS, *ZEROS, (-0.5, -0.0), (3.0, 3.0)],
}
TESTS = {
    "isfinite": [(nan, 0), (inf, 0), (-inf, 0), (1.5, 1), (0.0, 1)],
    "isinf": [(nan, 0), (inf, 1), (-inf, 1), (1.5, 0)],
    "isnan": [(nan, 1), (inf, 0), (1.5, 0)],
    "signbit": [(0.0, 0), (-0.0, 1), (inf, 0), (-inf, 1), (1.5, 0), (-1.5, 1), (nan, 0), (math.copysign(nan, -1), 1)],
}


def either(value, result):
    """Rows for a value on either side of another."""
    others = (nan, inf, -inf, 0.0, -0.0, 1.5, -2.5)
    return [row for v in others for row in [(value, v, result), (v, value, result)]]


QUOTIENT = [
    *either(nan, nan),
    *[(x, y, nan) for x in (inf, -inf) for y in (inf, -inf)],
    *[(x, y, nan) for x in (0.0, -0.0) for y in (0.0, -0.0)],
    (0.0, 1.5, 0.0), (-0.0, 1.5, -0.0), (0.0, -1.5, -0.0), (-0.0, -1.5, 0.0),
    (1.5, 0.0, inf), (1.5, -0.0, -inf), (-1.5, 0.0, -inf), (-1.5, -0.0, inf),
    (inf, 1.5, inf), (inf, -1.5, -inf), (-inf, 1.5, -inf), (-inf, -1.5, inf),
    (1.5, inf, 0.0), (1.5, -inf, -0.0), (-1.5, inf, -0.0), (-1.5, -inf, 0.0),
]  # fmt: skip
BINARY = {
    "add": [
        *either(nan, nan), (inf, -inf, nan), (-inf, inf, nan), (inf, inf, inf), (-inf, -inf, -inf),
        *[row for s in (inf, -inf) for v in FINITE for row in [(s, v, s), (v, s, s)]],
        (-0.0, -0.0, -0.0), (-0.0, 0.0, 0.0), (0.0, -0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 1.5, 1.5), (-2.5, -0.0, -2.5),
        (1.5, -1.5, 0.0), (-1.5, 1.5, 0.0),
    ],
    "subtract": [(inf, inf, nan), (-inf, -inf, nan), (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (1.5, 1.5, 0.0)],
    "atan2": [
        *either(nan, nan), (1.5, 0.0, pi / 2), (1.5, -0.0, pi / 2), (0.0, 1.5, 0.0), (0.0, 0.0, 0.0), (0.0, -0.0, pi),
        (0.0, -1.5, pi), (-0.0, 1.5, -0.0), (-0.0, 0.0, -0.0), (-0.0, -0.0, -pi), (-0.0, -1.5, -pi),
        (-1.5, 0.0, -pi / 2), (-1.5, -0.0, -pi / 2), (1.5, inf, 0.0), (1.5, -inf, pi), (-1.5, inf, -0.0),
        (-1.5, -inf, -pi), *[(inf, v, pi / 2) for v in FINITE], *[(-inf, v, -pi / 2) for v in FINITE],
        (inf, inf, QUARTER), (inf, -inf, 3 * QUARTER), (-inf, inf, -QUARTER), (-inf, -inf, -3 * QUARTER),
    ],
    "copysign": [(1.5, -2.5, -1.5), (1.5, -0.0, -1.5), (-1.5, 0.0, 1.5), (-1.5, 2.5, 1.5), (0.0, -1.5, -0.0), (inf, -1.5, -inf)],
    "divide": QUOTIENT,
    "floor_divide": QUOTIENT,
    "hypot": [
        *[row for v in (nan, 0.0, 1.5, inf) for s in (inf, -inf) for row in [(s, v, inf), (v, s, inf)]],
        (0.0, -1.5, 1.5), (-2.5, -0.0, 2.5), (nan, 1.5, nan), (1.5, nan, nan), (nan, nan, nan),
    ],
    "logaddexp": [(nan, 1.5, nan), (1.5, nan, nan), (inf, 1.5, inf), (-inf, inf, inf), (inf, inf, inf), (-inf, -inf, -inf)],
    "maximum": either(nan, nan),
    "minimum": either(nan, nan),
    "multiply": [
        *either(nan, nan), *[row for s in (inf, -inf) for z in (0.0, -0.0) for row in [(s, z, nan), (z, s, nan)]],
        (inf, inf, inf), (inf, -inf, -inf), (-inf, -inf, inf), (inf, 1.5, inf), (-1.5, inf, -inf), (0.0, -1.5, -0.0),
        (-0.0, -1.5, 0.0),
    ],
    "nextafter": [(nan, 1.5, nan), (1.5, nan, nan), (-0.0, 0.0, 0.0), (0.0, -0.0, -0.0)],
    "pow": [
        *[(v, nan, nan) for v in (nan, inf, 0.0, 2.5)], *[(v, z, 1.0) for v in (nan, inf, 0.0, -2.5) for z in (0.0, -0.0)],
        *[(nan, v, nan) for v in (inf, -inf, 1.5)], (1.0, inf, 1.0), (1.0, -inf, 1.0), (-1.0, inf, 1.0), (-1.0, -inf, 1.0),
        *[(v, inf, inf) for v in (1.5, -2.5)], *[(v, -inf, 0.0) for v in (1.5, -2.5)], (1.0, 2.5, 1.0),
        *[(v, inf, 0.0) for v in (0.5, -0.5)], *[(v, -inf, inf) for v in (0.5, -0.5)], (inf, 1.5, inf), (inf, -1.5, 0.0),
        (-inf, 3.0, -inf), (-inf, 2.0, inf), (-inf, 1.5, inf), (-inf, -3.0, -0.0), (-inf, -2.0, 0.0), (0.0, 1.5, 0.0),
        (0.0, -1.5, inf), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, -3.0, -inf), (-0.0, -2.0, inf), (-2.5, 1.5, nan),
    ],
    "remainder": [
        *either(nan, nan), *[(s, v, nan) for s in (inf, -inf) for v in (inf, -inf, 1.5, -1.5, 0.0)],
        *[(v, z, nan) for v in FINITE for z in (0.0, -0.0)], (0.0, 1.5, 0.0), (-0.0, 1.5, 0.0), (0.0, -1.5, -0.0),
        (-0.0, -1.5, -0.0), (1.5, inf, 1.5), (1.5, -inf, -inf), (-1.5, inf, inf), (-1.5, -inf, -1.5), (-5.0, 3.0, 1.0),
    ],
}  # fmt: skip


def spread(first, second, result):
    """Rows for all pairs of two lists of parts."""
    return [(a, b, *(result(b) if callable(result) else result)) for a in first for b in second]


def rotated(size, shift=0.0):
    """size * (cos b + i sin b) + shift."""
    # Adding zero would lose the sign of a negative one.
    return lambda b: (math.copysign(size, math.cos(b)) + (shift or -0.0), math.copysign(size, math.sin(b)))


NANS = (nan, nan)
LOGARITHM = [
    *spread(FINITE, [inf], (inf, pi / 2)), *spread(FINITE, [nan], NANS), *spread([-inf], POSITIVE, (inf, pi)),
    *spread([inf], POSITIVE, (inf, 0.0)), (-inf, inf, inf, 3 * QUARTER), (inf, inf, inf, QUARTER),
    *spread([inf, -inf], [nan], (inf, nan)), *spread([nan], FINITE, NANS), (nan, inf, inf, nan), (nan, nan, *NANS),
]  # fmt: skip
COMPLEX = {
    "acos": [
        *spread([0.0, -0.0], [0.0], (pi / 2, -0.0)), *spread([0.0, -0.0], [nan], (pi / 2, nan)),
        *spread(FINITE, [inf], (pi / 2, -inf)), *spread(NONZERO, [nan], NANS), *spread([-inf], POSITIVE, (pi, -inf)),
        *spread([inf], POSITIVE, (0.0, -inf)), (-inf, inf, 3 * QUARTER, -inf), (inf, inf, QUARTER, -inf),
        *spread([inf, -inf], [nan], (nan, HUGE)), *spread([nan], FINITE, NANS), (nan, inf, nan, -inf), (nan, nan, *NANS),
    ],
    "acosh": [
        *spread([0.0, -0.0], [0.0], (0.0, pi / 2)), *spread(FINITE, [inf], (inf, pi / 2)), *spread(NONZERO, [nan], NANS),
        *spread([-inf], POSITIVE, (inf, pi)), *spread([inf], POSITIVE, (inf, 0.0)), (-inf, inf, inf, 3 * QUARTER),
        (inf, inf, inf, QUARTER), *spread([inf, -inf], [nan], (inf, nan)), *spread([nan], FINITE, NANS),
        (nan, inf, inf, nan), (nan, nan, *NANS),
    ],
    "asinh": [
        (0.0, 0.0, 0.0, 0.0), *spread(POSITIVE, [inf], (inf, pi / 2)), *spread(FINITE, [nan], NANS),
        *spread([inf], POSITIVE, (inf, 0.0)), (inf, inf, inf, QUARTER), (nan, 0.0, nan, 0.0), *spread([nan], NONZERO, NANS),
        (nan, inf, HUGE, nan), (nan, nan, *NANS),
    ],
    "atanh": [
        (0.0, 0.0, 0.0, 0.0), (0.0, nan, 0.0, nan), (1.0, 0.0, inf, 0.0), *spread(POSITIVE, [inf], (0.0, pi / 2)),
        *spread(NONZERO, [nan], NANS), *spread([inf], POSITIVE, (0.0, pi / 2)), (inf, inf, 0.0, pi / 2),
        (inf, nan, 0.0, nan), *spread([nan], FINITE, NANS), (nan, inf, ZERO, pi / 2), (nan, nan, *NANS),
    ],
    "cosh": [
        (0.0, 0.0, 1.0, 0.0), (0.0, inf, nan, ZERO), (0.0, nan, nan, ZERO), *spread(NONZERO, [inf], NANS),
        *spread(NONZERO, [nan], NANS), (inf, 0.0, inf, 0.0), *spread([inf], NONZERO, rotated(inf)), (inf, inf, HUGE, nan),
        (inf, nan, inf, nan), *spread([nan], [0.0, -0.0], (nan, ZERO)), *spread([nan], NONZERO, NANS), (nan, nan, *NANS),
    ],
    "exp": [
        *spread([0.0, -0.0], [0.0], (1.0, 0.0)), *spread(FINITE, [inf], NANS), *spread(FINITE, [nan], NANS),
        (inf, 0.0, inf, 0.0), *spread([-inf], (1.5, 2.5), rotated(0.0)), *spread([inf], NONZERO, rotated(inf)),
        (-inf, inf, ZERO, ZERO), (inf, inf, HUGE, nan), (-inf, nan, ZERO, ZERO), (inf, nan, HUGE, nan),
        (nan, 0.0, nan, 0.0), *spread([nan], (*NONZERO, inf), NANS), (nan, nan, *NANS),
    ],
    "expm1": [
        *spread([0.0, -0.0], [0.0], (ZERO, 0.0)), *spread(FINITE, [inf], NANS), *spread(FINITE, [nan], NANS),
        (inf, 0.0, inf, 0.0), *spread([-inf], (1.5, 2.5), rotated(0.0, -1.0)), *spread([inf], NONZERO, rotated(inf, -1.0)),
        (-inf, inf, -1.0, ZERO), (inf, inf, HUGE, nan), (-inf, nan, -1.0, ZERO), (inf, nan, HUGE, nan),
        (nan, 0.0, nan, 0.0), *spread([nan], (*NONZERO, inf), NANS), (nan, nan, *NANS),
    ],
    "log": [(-0.0, 0.0, -inf, pi), (0.0, 0.0, -inf, 0.0), *LOGARITHM],
    "log1p": [(-1.0, 0.0, -inf, 0.0), *LOGARITHM],
    "sinh": [
        (0.0, 0.0, 0.0, 0.0), (0.0, inf, ZERO, nan), (0.0, nan, ZERO, nan), *spread(POSITIVE, [inf], NANS),
        *spread(POSITIVE, [nan], NANS), (inf, 0.0, inf, 0.0), *spread([inf], POSITIVE, rotated(inf)), (inf, inf, HUGE, nan),
        (inf, nan, HUGE, nan), (nan, 0.0, nan, 0.0), *spread([nan], NONZERO, NANS), (nan, nan, *NANS),
    ],
    "sqrt": [
        *spread([0.0, -0.0], [0.0], (0.0, 0.0)), *spread((*FINITE, inf, -inf, nan), [inf], (inf, inf)),
        *spread(FINITE, [nan], NANS), *spread([-inf], POSITIVE, (0.0, inf)), *spread([inf], POSITIVE, (inf, 0.0)),
        (-inf, nan, nan, HUGE), (inf, nan, inf, nan), *spread([nan], FINITE, NANS), (nan, nan, *NANS),
    ],
    "tanh": [
        (0.0, 0.0, 0.0, 0.0), *spread(NONZERO, [inf], NANS), *spread(NONZERO, [nan], NANS),
        *spread([inf], POSITIVE, (1.0, 0.0)), (inf, inf, 1.0, ZERO), (inf, nan, 1.0, ZERO), (nan, 0.0, nan, 0.0),
        *spread([nan], NONZERO, NANS), (nan, nan, *NANS),
    ],
    "sign": [*spread([0.0, -0.0], [0.0, -0.0], (ZERO, ZERO)), (nan, 1.5, *NANS), (1.5, nan, *NANS), (nan, nan, *NANS)],
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [*UNARY, *TESTS])
def test_one_operand(backend, name, dtype):
    inputs, want = zip(*{**UNARY, **TESTS}[name])
    agree(name, inputs, getattr(cm, name)(cm.asarray(inputs, dtype=dtype)).tolist(), want)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(backend, name, dtype):
    x, y, want = zip(*BINARY[name])
    got = getattr(cm, name)(cm.asarray(x, dtype=dtype), cm.asarray(y, dtype=dtype))
    agree(name, list(zip(x, y)), got.tolist(), want)


def test_operators(backend):
    for name, word in {"floor_divide": "floordiv", "remainder": "mod", "pow": "pow", "divide": "truediv"}.items():
        x, y, want = zip(*BINARY[name])
        for form in (word, f"i{word}"):
            operands = [cm.asarray(v, dtype=cm.float64) for v in (x, y)]
            agree(form, list(zip(x, y)), getattr(operator, form)(*operands).tolist(), want)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex(backend, name, dtype):
    rows = COMPLEX[name]
    got = getattr(cm, name)(cm.asarray([complex(a, b) for a, b, *_ in rows], dtype=dtype)).tolist()
    inputs = [complex(a, b) for a, b, *_ in rows]
    wrong = [
        f"{name}({i}) gave {g}, not {w[2]}, {w[3]}"
        for i, g, w in zip(inputs, got, rows)
        if not (same(g.real, w[2]) and same(g.imag, w[3]))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_size_of_complex(backend, dtype):
    parts = [(s, v) for s in (inf, -inf) for v in (nan, inf, 0.0, 1.5)]
    numbers = [complex(a, b) for s, v in parts for a, b in [(s, v), (v, s)]]
    assert cm.abs(cm.asarray(numbers, dtype=dtype)).tolist() == [inf] * len(numbers)
    empty = cm.abs(cm.asarray([complex(nan, 1.5), complex(1.5, nan), complex(nan, nan)], dtype=dtype))
    assert all(map(math.isnan, empty.tolist()))


def test_of_nothing(backend):
    x = cm.asarray([], dtype=cm.float32)
    assert cm.sum(x).item() == 0 and cm.prod(x).item() == 1
    assert math.isnan(cm.mean(x).item()) and math.isnan(cm.var(x).item()) and math.isnan(cm.std(x).item())
    assert cm.all(x).item() is True and cm.any(x).item() is False


@pytest.mark.parametrize(
    "name", ["max", "mean", "min", "prod", "std", "sum", "var", "cumulative_sum", "cumulative_prod"]
)
def test_nan_spreads(backend, name):
    out = getattr(cm, name)(cm.asarray([1.5, nan, 2.5]))
    last = out[-1] if out.ndim else out
    assert math.isnan(last.item())


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_tangents_far_out(backend, dtype):
    """They have a limit where sine and cosine overflow."""
    far = [complex(1.0, 90.0), complex(1.0, -90.0), complex(1.0, 800.0), complex(-1.0, -800.0)]
    for z, t in zip(far, cm.tan(cm.asarray(far, dtype=dtype)).tolist()):
        assert abs(t.real) < 1e-30 and t.imag == math.copysign(1.0, z.imag), f"tan({z}) gave {t}"
    far = [complex(z.imag, z.real) for z in far]
    for z, t in zip(far, cm.tanh(cm.asarray(far, dtype=dtype)).tolist()):
        assert abs(t.imag) < 1e-30 and t.real == math.copysign(1.0, z.real), f"tanh({z}) gave {t}"


@pytest.mark.parametrize("k", [4, 2**31, 2**63 - 1, 2**63, 2**100])
def test_diagonals_beyond_the_matrix(backend, k):
    """However large their number is, they are outside."""
    x, none = cm.ones((2, 3)), [[0.0] * 3] * 2
    for far in (k, -k):
        assert cm.eye(2, 3, k=far).tolist() == none
        assert cm.linalg.diagonal(x, offset=far).shape == (0,) and cm.linalg.trace(x, offset=far).item() == 0
    assert cm.tril(x, k=k).tolist() == cm.triu(x, k=-k).tolist() == x.tolist()
    assert cm.tril(x, k=-k).tolist() == cm.triu(x, k=k).tolist() == none
    with pytest.raises(TypeError):
        cm.eye(2, k=0.5)


@pytest.mark.parametrize(
    ("dtype", "large"), [("float32", 1e37), ("complex64", 1e37), ("float64", 1e300), ("complex128", 1e300)]
)
def test_qr_of_large_elements(backend, dtype, large):
    """Squares of them overflow; the columns of one factor are bounded and those of the other as large as the matrix."""
    x = cm.asarray([[large, 1.0], [large / 2, 3.0]], dtype=dtype)
    q, r = cm.linalg.qr(x)
    back = cm.matmul(q, r / cm.asarray([[large, 1.0]], dtype=dtype)).tolist()
    for row, want in zip(back, [[1.0, 1.0], [0.5, 3.0]]):
        assert all(abs(a - b) < 1e-5 for a, b in zip(row, want)), back
