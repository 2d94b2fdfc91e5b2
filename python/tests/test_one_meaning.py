"""What is wrong is an error of one class: on every backend, in eager calls and in compiled programs."""

import itertools

import clematis as cm
import numpy as np
import pytest

TABLE = np.arange(6.0).reshape(3, 2)
ROWS = np.full((2, 3), 1 / 3)


def scan_sum(x, i):
    zero = cm.zeros((), dtype="float64")
    return cm.scan(lambda c, k: (c + cm.sum(cm.take(x, k, axis=0)), k), zero, i)[0]


def while_sum(x, i):
    start = (cm.asarray(0), cm.zeros((), dtype="float64"))
    return cm.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] + cm.sum(cm.take(x, i + 0, axis=0))), start)[1]


def while_test(x, i):
    test = lambda c: cm.logical_and(c < 2, cm.sum(cm.take(x, i + 0, axis=0)) > -1e9)
    return cm.while_loop(test, lambda c: c + 1, cm.asarray(0))


INDEXED = {
    "take": lambda x, i: cm.take(x, i, axis=0),
    "take of a computed index": lambda x, i: cm.take(x, i * 1, axis=0),
    "take_along_axis": lambda x, i: cm.take_along_axis(x, cm.reshape(i, (-1, 1)), axis=0),
    "brackets": lambda x, i: x[i],
    "brackets on the second axis": lambda x, i: cm.permute_dims(x, (1, 0))[:, i],
    "embedding": lambda x, i: cm.embedding(x, i),
    "embedding of a computed index": lambda x, i: cm.embedding(x, i + 0),
    "inside scan": scan_sum,
    "inside while": while_sum,
    "inside the test of while": while_test,
    "inside cond": lambda x, i: cm.cond(cm.sum(i) > -99, lambda i: cm.take(x, i, axis=0), lambda i: x[: i.shape[0]], i),
    "inside vmap": lambda x, i: cm.vmap(lambda k: cm.take(x, k, axis=0))(i),
    "inside grad": lambda x, i: cm.grad(lambda x: cm.sum(cm.take(x, i + 0, axis=0)))(x),
}


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_out_of_range_is_an_axis_error_eagerly_and_compiled(backend, name):
    f = INDEXED[name]
    x = cm.asarray(TABLE)
    compiled = cm.jit(f, compiler=name in ("take", "embedding"))
    for good in ([0, 2], [-1, -3]):
        i = cm.asarray(np.array(good))
        np.testing.assert_array_equal(compiled(x, i).numpy(), f(x, i).numpy())
    for bad in ([0, 3], [-4, 1], [2**40, 0]):
        i = cm.asarray(np.array(bad))
        wrong = next(n for n in bad if not -3 <= n < 3)
        for g in (f, compiled):
            with pytest.raises(cm.AxisError, match=rf"index {wrong} is out of range for 3 \(axis \d\)") as raised:
                g(x, i)
            assert isinstance(raised.value, IndexError)
    # A program that refused a run goes on.
    i = cm.asarray(np.array([1, 1]))
    np.testing.assert_array_equal(compiled(x, i).numpy(), f(x, i).numpy())


def test_a_branch_that_is_not_taken_is_not_checked(backend):
    x = cm.asarray(TABLE)
    f = lambda t, i: cm.cond(t, lambda i: cm.take(x, i, axis=0), lambda i: x[:2], i)
    i = cm.asarray(np.array([0, 7]))
    for g in (f, cm.jit(f, compiler=False)):
        np.testing.assert_array_equal(g(cm.asarray(False), i).numpy(), TABLE[:2])
        with pytest.raises(cm.AxisError):
            g(cm.asarray(True), i)


def test_a_refused_run_leaves_what_it_would_have_replaced(backend):
    class Table(cm.Module):
        def __init__(self):
            super().__init__()
            self.w = cm.asarray(TABLE)

    net, opt = Table(), cm.optim.SGD(0.5)

    @cm.jit
    def step(net, i):
        loss = lambda v: cm.sum(cm.take(net.w, i + 0, axis=0))
        net.v = opt.step(net.v, cm.grad(lambda v: cm.sum(cm.take(v["w"], i + 0, axis=0)))(net.v))
        return loss(net.v)

    step(net, cm.asarray(np.array([0, 1])))
    before = np.array(net.v["w"].numpy())
    with pytest.raises(cm.AxisError):
        step(net, cm.asarray(np.array([0, 5])))
    np.testing.assert_array_equal(net.v["w"].numpy(), before)
    step(net, cm.asarray(np.array([0, 1])))


LABELLED = {
    "sparse_cross_entropy": lambda y: cm.sparse_cross_entropy(y, cm.asarray(ROWS)),
    "cross_entropy_with_logits": lambda y: cm.cross_entropy_with_logits(y, cm.asarray(ROWS)),
}


@pytest.mark.parametrize("name", LABELLED)
def test_the_number_of_a_class_is_neither_negative_nor_too_large(backend, name):
    f = LABELLED[name]
    compiled = cm.jit(f, compiler=False)
    assert np.all(np.isfinite(compiled(cm.asarray(np.array([0, 2]))).numpy()))
    for bad, g in itertools.product(([0, 3], [-1, 0], [-100, 1]), (f, compiled)):
        with pytest.raises(cm.AxisError, match=r"is out of range for 3"):
            g(cm.asarray(np.array(bad)))


def test_one_hot_of_an_index_out_of_range_is_zeros(backend):
    f = lambda i: cm.one_hot(i, 3)
    for g in (f, cm.jit(f, compiler=False)):
        np.testing.assert_array_equal(g(cm.asarray(np.array([1, 3, -1]))).numpy(), [[0, 1, 0], [0, 0, 0], [0, 0, 0]])


WEIGHTS = {
    "weights sum to 0": [0.0, 0.0, 0.0],
    "expected non-negative finite weights, got NaN": [np.nan, 1.0, 1.0],
    "expected non-negative finite weights, got -1": [-1.0, 1.0, 1.0],
}


@pytest.mark.parametrize("what", WEIGHTS)
@pytest.mark.parametrize("replace", [True, False])
def test_weights_of_multinomial_are_refused_eagerly_and_compiled(backend, what, replace):
    f = lambda w: cm.multinomial(3, 1, probs=w, replace=replace, seed=1)
    w = cm.asarray(np.array([WEIGHTS[what]]))
    for g in (f, cm.jit(f, compiler=False), cm.jit(lambda w: f(w * 1), compiler=False)):
        with pytest.raises(cm.ArgumentError, match=f"multinomial: {what}"):
            g(w)
        assert 0 <= int(g(cm.asarray(np.array([[0.2, 0.3, 0.5]])))[0, 0]) < 3


def test_drawing_more_than_there_are_without_replacement_is_refused(backend):
    f = lambda w: cm.multinomial(3, 2, probs=w, replace=False, seed=1)
    for g in (f, cm.jit(f, compiler=False)):
        with pytest.raises(cm.ArgumentError, match="at least 2 categories with positive weight to draw without replacement, got 1"):
            g(cm.asarray(np.array([[0.0, 0.0, 1.0]])))


def test_a_probability_of_bernoulli_is_one_eagerly_and_compiled(backend):
    f = lambda p: cm.bernoulli(p, seed=3)
    for bad, g in itertools.product((2.0, -0.1, np.nan), (f, cm.jit(f, compiler=False))):
        with pytest.raises(cm.ArgumentError, match="bernoulli: a probability of"):
            g(cm.asarray(np.array([0.5, bad])))


@pytest.mark.parametrize("loss", ["cross_entropy", "sparse_cross_entropy", "binary_cross_entropy"])
def test_logits_are_refused_where_probabilities_are_asked_for(backend, loss):
    truth = cm.asarray(np.array([1, 2])) if loss.startswith("sparse") else cm.asarray(np.eye(3)[[1, 2]])
    f = lambda p: getattr(cm, loss)(truth, p)
    for bad in ([[1.0, 2.0, 3.0], [3.0, -1.0, 1.0]], [[np.nan, 0.5, 0.5], [0.1, 0.2, 0.7]]):
        with pytest.raises(cm.ArgumentError, match=f"{loss}: pred .* is not between.*\n.*_with_logits"):
            f(cm.asarray(np.array(bad)))
    # Rounded probabilities are some.
    assert np.all(np.isfinite(f(cm.asarray(np.array([[0.0, 1.0, -1e-9], [1e-9, 0.0, 1.003]]))).numpy()))


FACTORISED = {
    "cholesky": cm.linalg.cholesky, "qr": cm.linalg.qr, "svd": cm.linalg.svd, "svdvals": cm.linalg.svdvals,
    "eigh": cm.linalg.eigh, "eigvalsh": cm.linalg.eigvalsh, "eig": cm.linalg.eig, "eigvals": cm.linalg.eigvals,
    "lu": cm.linalg.lu, "inv": cm.linalg.inv, "pinv": cm.linalg.pinv, "matrix_rank": cm.linalg.matrix_rank,
    "slogdet": cm.linalg.slogdet, "solve": lambda a: cm.linalg.solve(a, cm.ones((2, 1), dtype=a.dtype)),
}  # fmt: skip


@pytest.mark.parametrize("name", FACTORISED)
def test_a_factorisation_takes_finite_elements(backend, name):
    for bad, dtype in itertools.product((np.nan, np.inf, -np.inf), ("float64", "complex128")):
        a = cm.asarray(np.array([[bad, 0.0], [0.0, 1.0]], dtype))
        with pytest.raises(cm.ArgumentError, match="is not finite"):
            FACTORISED[name](a)
    f = cm.jit(FACTORISED[name], compiler=False)
    with pytest.raises(cm.ArgumentError, match="is not finite"):
        f(cm.asarray(np.array([[np.nan, 0.0], [0.0, 1.0]])))
    f(cm.asarray(np.eye(2)))


DTYPES = ["int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64", "complex64"]
MANY = {
    "einsum": lambda a, b: cm.einsum("ij,jk->ik", cm.ones((2, 2), dtype=a), cm.ones((2, 2), dtype=b)),
    "einsum of three": lambda a, b: cm.einsum("i,i,i->", *(cm.ones((2,), dtype=d) for d in (a, b, a))),
    "linear with a bias": lambda a, b: cm.linear(
        cm.ones((2, 2), dtype=a), cm.ones((3, 2), dtype=a), bias=cm.ones((3,), dtype=b)
    ),
    "rms_norm": lambda a, b: cm.rms_norm(cm.ones((2, 3), dtype=a), cm.ones((3,), dtype=b)),
}


@pytest.mark.parametrize("name", MANY)
def test_operands_of_different_dtypes_meet_in_one(name):
    def outcome(backend, a, b):
        with cm.backend(backend):
            try:
                return MANY[name](a, b).dtype
            except cm.ClematisError as e:
                return type(e)

    from conftest import FRAMEWORKS

    for a, b in itertools.product(DTYPES, repeat=2):
        want = outcome("native", a, b)
        assert [outcome(f, a, b) for f in FRAMEWORKS] == [want] * len(FRAMEWORKS), (a, b)


def test_the_factor_of_dropout_is_rounded_once(backend):
    x = cm.ones((64,), dtype="float64")
    for p in (0.1, 0.3):
        found = set(np.asarray(cm.dropout(x, p, seed=3).numpy()).tolist())
        assert found == {0.0, 1 / (1 - p)}
        layer = cm.nn.Dropout(p)
        assert set(np.asarray(layer(x).numpy()).tolist()) == {0.0, 1 / (1 - p)}


def test_dropout_of_everything_gives_zeros_and_no_gradient(backend):
    x = cm.asarray(np.array([1.0, np.inf, np.nan, -2.0]))
    for f in (
        lambda x: cm.dropout(x, 1.0, seed=1),
        cm.nn.Dropout(1.0),
        lambda x: cm.dropout(x, 1, scale=False, seed=1),
    ):
        np.testing.assert_array_equal(f(x).numpy(), np.zeros(4))
        np.testing.assert_array_equal(cm.jit(f, compiler=False)(x).numpy(), np.zeros(4))
        np.testing.assert_array_equal(cm.grad(lambda x, f=f: cm.sum(f(x)))(x).numpy(), np.zeros(4))


def test_numbers_of_lars_and_lamb_are_not_rounded_to_float32(backend):
    rng = np.random.default_rng(0)
    w, g = rng.normal(size=5), rng.normal(size=5)
    lr, decay = 0.1, 0.3
    got = cm.lars_update(cm.asarray(w), cm.asarray(g), lr).numpy()
    direction = g / (np.linalg.norm(g) + 1e-12)
    np.testing.assert_allclose(got, w - direction * np.linalg.norm(w) * lr, rtol=1e-13)
    got = cm.lars_update(cm.asarray(w), cm.asarray(g), lr, decay_lambda=decay).numpy()
    np.testing.assert_allclose(got, w - direction * (lr / decay), rtol=1e-13)
    m, v, t = np.zeros(5), np.zeros(5), 3
    m1, v1 = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    delta = m1 * (np.sqrt(1 - 0.999**t) / (1 - 0.9**t + 1e-7)) / (np.sqrt(v1) + 1e-7)
    got = cm.lamb_update(cm.asarray(w), cm.asarray(g), lr, cm.asarray(m), cm.asarray(v), t)[0].numpy()
    ratio = min(np.linalg.norm(w) / (np.linalg.norm(delta) + 1e-12), 10.0)
    np.testing.assert_allclose(got, w - delta * ratio * lr, rtol=1e-12)


def test_steps_of_optimisers_in_float64_are_not_rounded_to_float32(backend):
    rng = np.random.default_rng(0)
    w, g = rng.normal(size=5), rng.normal(size=5)
    lr, decay, trust = 0.1, 0.01, 0.7
    own, length = np.linalg.norm(w), np.linalg.norm(g)
    lars = w - (g + w * decay) * (own * trust / (length + own * decay) * lr)
    mean, square = (1 - 0.9) * g, (1 - 0.999) * g * g
    adam = w - lr / (1 - 0.9) * mean / (np.sqrt(square) / np.sqrt(1 - 0.999) + 1e-8)
    for make, want in (
        (lambda: cm.optim.LARS(lr, decay_lambda=decay, trust=trust), lars),
        (lambda: cm.optim.Adam(lr, beta1=0.9, beta2=0.999, epsilon=1e-8), adam),
    ):
        for compiled in (False, True):
            optimizer = make()
            step = lambda v, g, optimizer=optimizer: optimizer.step(v, {"w": g})
            f = cm.jit(step, compiler=False) if compiled else step
            np.testing.assert_allclose(f({"w": cm.asarray(w)}, cm.asarray(g))["w"].numpy(), want, rtol=1e-13)


def test_complex_division_by_zero_and_powers_of_zero_are_the_same_everywhere(backend):
    z = [1 + 0j, -1 + 0j, 1j, -1j, 1 + 1j, 0j]
    zero = cm.zeros((6,), dtype="complex128")
    inf, nan = np.inf, np.nan
    want = [
        complex(inf, nan),
        complex(-inf, nan),
        complex(nan, inf),
        complex(nan, -inf),
        complex(inf, inf),
        complex(nan, nan),
    ]
    np.testing.assert_array_equal((cm.asarray(np.array(z)) / zero).numpy(), want)
    np.testing.assert_array_equal(cm.reciprocal(zero).numpy()[0], complex(inf, nan))
    y = cm.asarray(np.array([0j, 1 + 0j, 2 + 0j, -1 + 0j, 1j, 0.5 + 0j]))
    np.testing.assert_array_equal(cm.pow(zero, y).numpy(), [1, 0, 0, complex(nan, nan), complex(nan, nan), 0])
    for f in (cm.log2, cm.log10):
        np.testing.assert_array_equal(f(zero).numpy()[0], complex(-inf, 0))


def test_state_that_differs_from_example_to_example_is_refused(backend):
    net = cm.nn.BatchNorm(3)
    x = cm.asarray(np.random.default_rng(0).normal(size=(5, 4, 3)).astype("float32"))
    before = np.array(net.buffers()["running_mean"].numpy())
    for f in (
        cm.vmap(lambda x: net(x)),
        cm.jit(cm.vmap(lambda x: net(x)), compiler=False),
        cm.vmap(cm.jit(lambda x: net(x))),
    ):
        with pytest.raises(cm.TraceError, match=r"one example of many; call eval\(\)"):
            f(x)
        np.testing.assert_array_equal(net.buffers()["running_mean"].numpy(), before)
    net.eval()
    want = np.stack([net(cm.take(x, cm.asarray(i), axis=0)).numpy() for i in range(5)])
    np.testing.assert_allclose(cm.jit(cm.vmap(lambda x: net(x)), compiler=False)(x).numpy(), want, rtol=1e-5, atol=1e-6)


def test_sizes_beyond_memory_are_refused_also_where_there_is_no_element(backend):
    assert cm.tile(cm.zeros((2, 0)), 2**62).shape == (2, 0)
    assert cm.zeros((2**31, 0)).shape == (2**31, 0)
    for f in (lambda: cm.zeros((0, 2**62)), lambda: cm.broadcast_to(cm.zeros((0, 1)), (0, 2**62))):
        with pytest.raises(cm.ShapeError, match="has too many elements"):
            f()
