"""Our functions inside the frameworks' own transforms: autograd, compile, vmap, jit, scan, tf.function."""

import subprocess
import sys
import threading
import time

import clematis as cm
import numpy as np
import pytest
from conftest import FRAMEWORKS, raw

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], np.float32)


def loss(x):
    """Several ops, composites and numbers in one."""
    y = cm.softmax(cm.matmul(x, cm.matrix_transpose(x)) * 0.5, axis=-1)
    return cm.sum(cm.tanh(y) * cm.exp(-cm.square(y))) + cm.mean(cm.gelu(x)) + cm.logsumexp(x)


def kind(x):
    return type(x).__module__.split(".")[0].removesuffix("lib")


def own_gradient(name, f, x):
    """The gradient by the framework's own autodiff."""
    if name == "torch":
        x = x.clone().requires_grad_(True)
        f(x).backward()
        return x.grad
    if name == "jax":
        import jax

        return jax.grad(f)(x)
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


FUNCTIONS = [
    cm.exp,
    cm.sum,
    cm.argmax,
    cm.sort,
    cm.unstack,
    lambda v: cm.softmax(v, axis=-1),
    lambda v: cm.add(v, 1),
    lambda v: cm.where(cm.greater(v, 0), v, 0.0),
    lambda v: cm.concat([v, v]),
    lambda v: cm.reshape(v, (3, 2)),
    lambda v: cm.linalg.vector_norm(v),
    lambda v: cm.einsum("ij,kj->ik", v, v),
]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_arrays_in_arrays_out(framework, f):
    got, want = f(raw(framework, X)), f(cm.asarray(X))
    if not isinstance(want, tuple):
        got, want = (got,), (want,)
    for g, w in zip(got, want, strict=True):
        assert kind(g) == framework
        assert str(cm.asarray(g).dtype) == str(w.dtype)
        np.testing.assert_allclose(np.asarray(g), np.asarray(w.tolist()), rtol=2e-5, atol=1e-6)


def test_several_results(framework):
    x = raw(framework, X)
    parts = cm.unstack(x)
    assert len(parts) == 2 and all(kind(p) == framework for p in parts)
    q, r = cm.linalg.qr(x)
    assert kind(q) == framework and kind(r) == framework
    tree = cm.tree.map(lambda v: cm.add(v, 1), {"a": x, "b": [x]})
    assert kind(tree["b"][0]) == framework


@pytest.mark.parametrize("name", [n for n in FRAMEWORKS if n != "numpy"])
def test_own_autodiff_through_our_functions_agrees_with_ours(name):
    x = raw(name, X)
    theirs = own_gradient(name, loss, x)
    ours = cm.grad(loss)(x)
    assert kind(ours) == name and kind(theirs) == name
    native = cm.grad(loss)(cm.asarray(X))
    np.testing.assert_allclose(np.asarray(theirs), np.asarray(ours), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.asarray(native.tolist()), np.asarray(ours), rtol=1e-4, atol=1e-6)


def test_torch_modules_and_parameters():
    import torch

    layer = torch.nn.Linear(3, 4)
    x = torch.from_numpy(X)
    y = cm.sum(cm.relu(cm.linear(layer(x), torch.ones(2, 4, requires_grad=True))))
    y.backward()
    assert layer.weight.grad is not None
    assert kind(cm.exp(layer.weight)) == "torch"
    assert cm.exp(layer.weight).requires_grad


def test_subclasses_are_found():
    import torch

    class Sub(torch.Tensor):
        pass

    class Grid(np.ndarray):
        pass

    assert isinstance(cm.exp(torch.ones(2).as_subclass(Sub)), torch.Tensor)
    assert isinstance(cm.exp(np.ones(2).view(Grid)), np.ndarray)


@pytest.mark.parametrize("full", [False, True])
def test_torch_compile(full):
    import torch

    x = torch.from_numpy(X)
    compiled = torch.compile(loss, fullgraph=full)
    np.testing.assert_allclose(compiled(x).numpy(), loss(x).numpy(), rtol=1e-5)
    v = x.clone().requires_grad_(True)
    compiled(v).backward()
    np.testing.assert_allclose(v.grad.numpy(), np.asarray(cm.grad(loss)(x)), rtol=1e-4, atol=1e-6)


def test_torch_compile_takes_many_of_our_functions_whole():
    import torch

    def f(x, i):
        a = cm.concat([cm.exp(x), cm.where(cm.greater(x, 0), x, -x)], axis=0)
        b = cm.take(a, i, axis=0)
        c = cm.cumulative_sum(cm.reshape(b, (-1,)))
        q, r = cm.linalg.qr(x)
        return c, cm.sort(a, axis=1), cm.abs(q) @ cm.abs(r), cm.pad(x, [(1, 1), (0, 2)])

    x, i = torch.from_numpy(X), torch.tensor([0, 3, 1])
    for got, want in zip(torch.compile(f, fullgraph=True)(x, i), f(x, i), strict=True):
        torch.testing.assert_close(got, want)


def test_torch_compile_with_sizes_that_change():
    import torch

    compiled = torch.compile(lambda v: cm.softmax(cm.add(v, 1.5), axis=-1), fullgraph=True, dynamic=True)
    for rows in (2, 3, 5):
        x = torch.arange(float(rows * 4)).reshape(rows, 4)
        torch.testing.assert_close(compiled(x), torch.softmax(x, dim=-1))


def test_lists_beside_arrays(framework, make_raw):
    x = make_raw(framework, [1.0, 2.0])
    for out in (cm.add(x, [1.0, 2.0]), cm.add([1.0, 2.0], x), cm.matmul([[1.0, 0.0], [0.0, 1.0]], x)):
        assert type(out) is type(x)
    assert cm.asarray(cm.add([1.0, 2.0], x)).tolist() == [2.0, 4.0]


def test_torch_compile_takes_lists():
    import torch

    compiled = torch.compile(lambda v: cm.add(v, [1.0, 2.0]), fullgraph=True)
    assert compiled(torch.ones(2)).tolist() == [2.0, 3.0]


def test_torch_tracers_pass():
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(4, 3)
        y = cm.softmax(cm.add(x, 1.5), axis=-1)
        assert y.shape == (4, 3) and type(y).__name__ == "FakeTensor"
    m = cm.layer_norm(torch.empty(4, 3, device="meta"), -1)
    assert m.device.type == "meta" and m.shape == (4, 3)


def test_torch_func():
    import torch

    x = torch.from_numpy(X)
    rows = torch.func.vmap(lambda r: cm.softmax(r * 2, axis=0))(x)
    torch.testing.assert_close(rows, cm.softmax(x * 2, axis=1))
    torch.testing.assert_close(torch.func.grad(loss)(x), cm.grad(loss)(x), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(
        torch.func.jacrev(lambda v: cm.tanh(v))(x[0]), cm.jac(lambda v: cm.tanh(v))(x[0]), rtol=1e-5, atol=1e-6
    )
    per_row = torch.func.vmap(torch.func.grad(lambda r: cm.sum(cm.square(cm.sin(r)))))(x)
    torch.testing.assert_close(per_row, torch.sin(2 * x))


def test_jax_transforms():
    import jax

    x = raw("jax", X)
    np.testing.assert_allclose(jax.jit(loss)(x), loss(x), rtol=1e-5)
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(x), cm.grad(loss)(x), rtol=1e-4, atol=1e-6)
    rows = jax.vmap(lambda r: cm.softmax(r * 2, axis=0))(x)
    np.testing.assert_allclose(rows, cm.softmax(x * 2, axis=1), rtol=1e-6)
    per_row = jax.jit(jax.vmap(jax.grad(lambda r: cm.sum(cm.square(cm.sin(r))))))(x)
    np.testing.assert_allclose(per_row, np.sin(2 * X), rtol=1e-5)

    def body(carry, row):
        carry = cm.tanh(cm.add(carry, row))
        return carry, cm.sum(carry)

    last, ys = jax.lax.scan(body, x[0], x)
    again, zs = cm.scan(body, x[0], x)
    np.testing.assert_allclose(last, again, rtol=1e-6)
    np.testing.assert_allclose(ys, zs, rtol=1e-6)
    cubes = lambda r: cm.sum(r**3)  # noqa: E731
    np.testing.assert_allclose(jax.hessian(cubes)(x[0]), cm.hessian(cubes)(x[0]), rtol=1e-5)


def test_our_derivatives_inside_a_framework_s_compiler():
    import jax

    x = raw("jax", X)
    inside = jax.jit(lambda v: cm.grad(loss)(v))(x)
    np.testing.assert_allclose(inside, cm.grad(loss)(x), rtol=1e-4, atol=1e-6)
    tensors = jax.jit(lambda v: cm.exp(cm.asarray(v)).native)(x)
    np.testing.assert_allclose(tensors, np.exp(X), rtol=1e-6)


def test_jax_keeps_the_user_s_setting():
    import jax

    assert not jax.config.jax_enable_x64
    with cm.backend("jax"):
        x = cm.asarray([1.0, 2.0], dtype="float64")
        assert (x + 1).dtype == cm.float64
        assert cm.sum(cm.exp(x)).native.dtype == np.float64
    assert not jax.config.jax_enable_x64
    assert jax.numpy.ones(2).dtype == np.float32


@pytest.mark.parametrize("name", [n for n in FRAMEWORKS if n == "tensorflow"])
def test_tensorflow_functions(name):
    import tensorflow as tf

    x = raw(name, X)
    compiled = tf.function(loss)
    np.testing.assert_allclose(compiled(x), loss(x), rtol=1e-5)

    @tf.function
    def step(v):
        with tf.GradientTape() as tape:
            tape.watch(v)
            y = loss(v)
        return tape.gradient(y, v)

    np.testing.assert_allclose(step(x), cm.grad(loss)(x), rtol=1e-4, atol=1e-6)
    variable = tf.Variable(x)
    with tf.GradientTape() as tape:
        y = loss(variable)
    np.testing.assert_allclose(tape.gradient(y, variable), cm.grad(loss)(x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", [n for n in FRAMEWORKS if n == "tensorflow"])
def test_tensorflow_without_shapes_says_so(name):
    import tensorflow as tf

    signature = [tf.TensorSpec(None, tf.float32)]
    f = tf.function(lambda v: cm.softmax(v, axis=-1), input_signature=signature, autograph=False)
    with pytest.raises(cm.UnsupportedError, match="tensorflow does not know yet how many axes there are"):
        f(raw(name, X))


def test_variables_of_flax_are_arrays():
    from flax import nnx

    variable = nnx.Param(raw("jax", X))
    np.testing.assert_allclose(cm.exp(variable), np.exp(X), rtol=1e-6)


def test_large_kernels_let_other_threads_run():
    x = cm.ones((1200, 1200))
    x @ x
    seen = []
    done = threading.Event()

    def work():
        for _ in range(6):
            x @ x
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        seen.append(time.perf_counter())
        time.sleep(0)
    thread.join()
    # Holding the interpreter, the work would let this loop run a few times at most.
    assert len(seen) > 50


def test_two_threads_at_once(backend):
    x = cm.reshape(cm.arange(40000, dtype="float32"), (200, 200)) / 40000
    want = cm.sum(cm.exp(x) @ x).item()
    wrong = []

    def work():
        with cm.backend(backend):
            for _ in range(5):
                got = cm.sum(cm.exp(x) @ x).item()
                grad = cm.grad(lambda v: cm.sum(v * v))(x[0])
                if abs(got - want) > 1e-3 * abs(want) or abs(grad[7].item() - 2 * x[0, 7].item()) > 1e-6:
                    wrong.append(got)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_scopes_belong_to_their_thread():
    names = []
    with cm.backend("numpy"):
        t = threading.Thread(target=lambda: names.append(cm.ones(1).backend))
        t.start()
        t.join()
        names.append(cm.ones(1).backend)
    assert names == ["native", "numpy"]


def test_torch_s_compiler_may_be_imported_after_us():
    code = (
        "import sys, clematis as cm\n"
        "assert 'torch' not in sys.modules\n"
        "import torch\n"
        "f = torch.compile(lambda v: cm.softmax(v + 1, axis=-1), fullgraph=True, backend='eager')\n"
        "x = torch.ones(2, 4)\n"
        "torch.testing.assert_close(f(x), x / 4)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
