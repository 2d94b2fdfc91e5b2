"""`cm.jit` on torch: replacements of torch functions, operand layouts of matmuls, scans."""

import itertools

import clematis as cm
import numpy as np
import pytest

pytestmark = pytest.mark.skipif("torch" not in cm.backends(), reason="torch is not installed")

# Two eager runs, the run that compiles, and one compiled run.
RUNS = 4
# Boundaries between formulas, and values outside of the f32 range.
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.7, -0.7, 1e-30, -1e-40, 9.19, 10.6, -10.6, 1e30, -1e30]


def compiled(f, *arrays):
    """The result of a jitted function after torch.compile has compiled it."""
    with cm.backend("torch"):
        jitted = cm.jit(f)
        tensors = [cm.asarray(x) for x in arrays]
        return [jitted(*tensors) for _ in range(RUNS)][-1]


@pytest.mark.parametrize(("name", "units"), [("erfc", 4), ("tanh", 2)])
def test_f32_functions_are_accurate(name, units):
    special = pytest.importorskip("scipy.special")
    exact = {"erfc": special.erfc, "tanh": np.tanh}[name]
    x = np.concatenate([np.linspace(-10, 10, 100_001), np.random.default_rng(0).standard_normal(50_000), EDGES])
    x = x.astype("float32")
    got = np.asarray(compiled(getattr(cm, name), x).tolist())
    wanted = exact(x.astype("float64"))
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    fine = np.isfinite(wanted)
    # Subnormal numbers may be flushed to zero.
    unit = np.maximum(np.spacing(np.abs(wanted[fine]).astype("float32")), np.float32(2**-149))
    off = np.abs(got[fine] - wanted[fine])
    assert np.all((off <= units * unit) | (np.abs(wanted[fine]) < 2**-126) & (off < 2**-126))
    if name == "tanh":
        assert np.array_equal(np.signbit(got[fine]), np.signbit(wanted[fine]))


@pytest.mark.parametrize("name", ["erfc", "tanh", "gelu"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_functions_and_gradients_equal_eager_ones(name, dtype):
    f = getattr(cm, name)

    def both(x):
        return f(x), cm.grad(lambda x: cm.sum(f(x)))(x)

    values = np.linspace(-4, 4, 257)
    with cm.backend("torch"):
        eager = both(cm.asarray(values, dtype=dtype))
    got = compiled(lambda x: both(cm.astype(x, getattr(cm, dtype))), values)
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6, "float64": 1e-12}[dtype]
    for a, b in zip(eager, got, strict=True):
        assert a.dtype == b.dtype
        left, right = (np.asarray(cm.astype(y, cm.float64).tolist()) for y in (a, b))
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)


def test_torch_autograd():
    torch = pytest.importorskip("torch")

    def f(x):
        return torch.sum(cm.tanh(x) + cm.erfc(x))

    x = torch.linspace(-3, 3, 101, requires_grad=True)
    (gradient,) = torch.autograd.grad(f(x), x)
    values = x.detach().double().numpy()
    wanted = 1 - np.tanh(values) ** 2 - 2 / np.sqrt(np.pi) * np.exp(-(values**2))
    np.testing.assert_allclose(gradient.numpy(), wanted, rtol=1e-5, atol=1e-6)


# All ordered pairs of contracted axes, with and without the last axis.
PAIRS = list(itertools.permutations(range(3), 2))


@pytest.mark.parametrize("axes", PAIRS, ids=str)
def test_contractions_of_two_axes(axes):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 4)).astype("float32")
    sizes = [x.shape[a] for a in axes]

    def contract(x, y, other):
        return cm.tensordot(x, y, axes=(list(axes), list(other)))

    for other in PAIRS:
        shape = [5, 5, 5]
        for a, n in zip(other, sizes, strict=True):
            shape[a] = n
        y = rng.standard_normal(shape).astype("float32")
        wanted = np.tensordot(x, y, axes=(axes, other))
        with cm.backend("torch"):
            eager = contract(cm.asarray(x), cm.asarray(y), other)
            # A transposed view, which has to be copied to be a matrix.
            transposed = contract(cm.permute_dims(cm.asarray(x.T.copy()), (2, 1, 0)), cm.asarray(y), other)
        for got in (eager, transposed):
            np.testing.assert_allclose(np.asarray(got.tolist()), wanted, rtol=1e-5, atol=1e-5)


def test_gradients_of_matmuls_of_transposed_operands():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((3, 5, 4)).astype("float32"), rng.standard_normal((4, 6)).astype("float32")

    def loss(w, x):
        return cm.sum((cm.permute_dims(x, (1, 0, 2)) @ w) ** 2)

    got = compiled(cm.grad(loss), w, x)
    flat = x.reshape(15, 4)
    np.testing.assert_allclose(np.asarray(got.tolist()), 2 * flat.T @ (flat @ w), rtol=1e-4, atol=1e-4)


def test_a_compiled_program_accepts_other_strides():
    torch = pytest.importorskip("torch")
    f = cm.jit(lambda x, y: x * 2 + y)
    x, y = torch.arange(12.0).reshape(3, 4), torch.ones(3, 4)
    for _ in range(RUNS):
        f(x, y)
    transposed = torch.arange(12.0).reshape(4, 3).T
    assert torch.equal(f(transposed, y), transposed * 2 + y)
    strided = torch.arange(24.0).reshape(3, 8)[:, 1::2]
    assert torch.equal(f(strided, y), strided * 2 + y)
    assert torch.equal(f(x, y), x * 2 + y)
    # The same tensor twice, and a tensor that requires a gradient.
    assert torch.equal(f(x, x), x * 3)
    f(x.clone().requires_grad_(), y).sum().backward()


def lstm(w, u):
    """The loss of an LSTM over a sequence, and its gradients."""
    zero = cm.zeros((u.shape[1], w.shape[0]))

    def loss(p):
        def cell(carry, row):
            h, c = carry
            gates, n = row + h @ p[0], h.shape[1]
            i, f, g, o = (gates[:, k * n : (k + 1) * n] for k in range(4))
            c = cm.sigmoid(f) * c + cm.sigmoid(i) * cm.tanh(g)
            h = cm.sigmoid(o) * cm.tanh(c)
            return (h, c), h

        (h, _), rows = cm.scan(cell, (zero, zero), p[1])
        return cm.sum(rows * rows) + cm.sum(h)

    value, grads = cm.value_and_grad(loss)((w, u))
    return (value, *grads)


def nested_scans(w, u):
    """The loss of a scan inside a scan, and its gradients."""

    def outer(carry, rows):
        def inner(x, row):
            x = cm.tanh(x * row + carry[:3] * carry[3:])
            return x, x * 2

        x, found = cm.scan(inner, w, rows)
        return cm.concat([x, x * carry[:3]]), cm.sum(found)

    def loss(p):
        carry, rows = cm.scan(outer, *p)
        return cm.sum(carry) + cm.sum(rows * rows)

    value, grads = cm.value_and_grad(loss)((cm.concat([w, w + 1]), u))
    return (value, *grads)


@pytest.mark.parametrize(
    ("f", "shapes"),
    [(lstm, [(8, 32), (5, 3, 32)]), (lstm, [(64, 256), (3, 16, 256)]), (nested_scans, [(3,), (4, 2, 3)])],
)
def test_scans_that_read_outputs_of_scans(f, shapes):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("float32") * np.float32(0.3) for shape in shapes]
    wanted = f(*map(cm.asarray, arrays))
    for got, right in zip(compiled(f, *arrays), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(got.tolist()), right.numpy(), rtol=1e-4, atol=1e-5)
