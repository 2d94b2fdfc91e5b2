"""A list_backend backend: `cm.register_backend(name, module)`."""

import types

import clematis as cm
import pytest
import list_backend


@pytest.fixture(scope="module", autouse=True)
def registered():
    cm.register_backend("list_backend", list_backend)


def broken(**changes):
    """The list_backend backend with other functions."""
    module = types.ModuleType("broken")
    vars(module).update({k: v for k, v in vars(list_backend).items() if not k.startswith("__")})
    vars(module).update(changes)
    return module


def test_it_is_a_backend_like_others():
    assert cm.backends()[-1] == "list_backend"
    with pytest.raises(cm.BackendError, match="`list_backend` is already registered"):
        cm.register_backend("list_backend", list_backend)
    with pytest.raises(cm.BackendError, match="`numpy` is already registered"):
        cm.register_backend("numpy", list_backend)


def test_ops_run_there():
    with cm.backend("list_backend"):
        x = cm.asarray([[1.0, 2.0], [3.0, 4.0]])
        assert x.backend == "list_backend" and isinstance(x.native, list_backend.Array)
        y = (x + 1) * x - cm.exp(-x) / 2
        z = cm.asarray([10.0, 20.0]) + x
    assert y.backend == "list_backend" and x.device == "cpu"
    want = x.to("native")
    want = (want + 1) * want - cm.exp(-want) / 2
    assert cm.allclose(y.to("native"), want)
    assert z.tolist() == [[11.0, 22.0], [13.0, 24.0]]
    assert cm.sum(x, axis=0).tolist() == [4.0, 6.0]
    assert cm.sum(x).item() == 10
    assert (x > 2).tolist() == [[False, False], [True, True]]
    assert repr(cm.sum(x)) == "Tensor(10.0, float32, list_backend)"


def test_its_arrays_in_its_arrays_out():
    x = list_backend.from_bytes(list_backend.struct.pack("2f", 1, 2), "f32", (2,))
    y = cm.add(x, 1)
    assert isinstance(y, list_backend.Array) and y.items == [2, 3]
    assert cm.asarray(x).backend == "list_backend"


def test_gradients_there():
    with cm.backend("list_backend"):
        x = cm.asarray([0.5, 1.0, 2.0])

    def f(x):
        return cm.sum(cm.sin(x) * x + cm.exp(x))

    g = cm.grad(f)(x)
    assert g.backend == "list_backend"
    assert cm.allclose(g.to("native"), cm.grad(f)(x.to("native")))
    h = cm.grad(lambda x: cm.sum(cm.grad(f)(x)))(x)
    assert cm.allclose(h.to("native"), cm.grad(lambda x: cm.sum(cm.grad(f)(x)))(x.to("native")), rtol=1e-4)
    raw = cm.grad(f)(x.native)
    assert isinstance(raw, list_backend.Array)


def test_an_op_that_it_lacks():
    with cm.backend("list_backend"):
        x = cm.asarray([0.5, 1.0])
    with pytest.raises(cm.UnsupportedError, match="list_backend has no such op"):
        cm.lgamma(x)
    with pytest.raises(cm.UnsupportedError, match="list_backend has no f16"):
        with cm.backend("list_backend"):
            cm.asarray([1.0], dtype="float16")


@pytest.mark.parametrize(
    ("name", "function", "words"),
    [
        ("shape", lambda x, y: list_backend.Array(x.items, x.dtype, (2, 1)), r"shape returned f32\[2,1\] where f32\[2\] was"),
        ("dtype", lambda x, y: list_backend.Array(x.items, "f64", x.shape), r"dtype returned f64\[2\] where f32\[2\] was"),
        ("kind", lambda x, y: 3, r"kind returned <class 'int'>, which is no array of its own"),
        ("none", lambda x, y: None, r"none returned <class 'NoneType'>, which is no array of its own"),
    ],
)
def test_wrong_results_are_caught(name, function, words):
    cm.register_backend(name, broken(add=function))
    with cm.backend(name):
        x = cm.asarray([1.0, 2.0])
    with pytest.raises(cm.BackendError, match="add: " + words):
        x + x


def test_failures_are_kept_as_the_cause():
    def add(x, y):
        raise OSError("no more")

    cm.register_backend("failing", broken(add=add))
    with cm.backend("failing"):
        x = cm.asarray([1.0, 2.0])
    with pytest.raises(cm.FrameworkError, match="add: failing raised .*OSError.*: no more") as caught:
        x + x
    assert isinstance(caught.value.__cause__, OSError)


def test_a_module_that_cannot_be_one():
    with pytest.raises(cm.FrameworkError, match="empty: its module cannot be bound: .*DTYPES") as caught:
        cm.register_backend("empty", types.ModuleType("empty"))
    assert isinstance(caught.value.__cause__, AttributeError)
    with pytest.raises(TypeError):
        cm.register_backend("empty", object())
    with pytest.raises(cm.BackendError, match="unknown backend `empty`"):
        cm.backend("empty")
