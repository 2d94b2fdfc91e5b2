"""Bad input: the same exception with the same words on every backend."""

import clematis as cm
import numpy as np
import pytest
from conftest import BACKENDS, FRAMEWORKS, raw


def two():
    return cm.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


# What is done, the exception, and the whole first line of its message.
CASES = {
    "shapes that do not broadcast": (lambda: two() + cm.ones((4,)), cm.ShapeError, None),
    "shapes of a product": (lambda: two() @ two(), cm.ShapeError, None),
    "a reshape that does not fit": (lambda: cm.reshape(two(), (4, 2)), cm.ShapeError, None),
    "an axis out of range": (lambda: cm.sum(two(), axis=2), cm.AxisError, None),
    "a negative axis out of range": (lambda: cm.softmax(two(), axis=-3), cm.AxisError, None),
    "an axis given twice": (lambda: cm.sum(two(), axis=(0, -2)), cm.ClematisError, None),
    "an axis that is no integer": (lambda: cm.sum(two(), axis="a"), cm.DTypeError, None),
    "an operand that is none": (lambda: cm.exp("a"), cm.DTypeError, "exp: an array was expected, not str"),
    "an operand that is an object": (
        lambda: cm.add(two(), object()),
        cm.DTypeError,
        "add: an array was expected, not object",
    ),
    "bits of floats": (lambda: two() & two(), cm.DTypeError, None),
    "a logarithm of text in a list": (lambda: cm.log(["a"]), cm.DTypeError, "log: a number was expected, not str"),
    "a ragged list": (lambda: cm.asarray([[1.0], [2.0, 3.0]]), cm.ShapeError, None),
    "a dtype that is none": (lambda: cm.zeros(2, dtype="float31"), cm.DTypeError, None),
    "a size below zero": (lambda: cm.zeros((-1,)), cm.ShapeError, None),
    "an integer that does not fit": (
        lambda: cm.asarray([300], dtype="uint8"),
        cm.ArgumentError,
        "asarray: 300 does not fit u8",
    ),
    "joining nothing": (lambda: cm.concat([]), cm.ClematisError, None),
    "joining what does not fit": (lambda: cm.concat([two(), cm.ones((2, 2))]), cm.ShapeError, None),
    "a permutation that is none": (lambda: cm.permute_dims(two(), (0, 0)), cm.ClematisError, None),
    "a broadcast that shrinks": (lambda: cm.broadcast_to(two(), (3,)), cm.ShapeError, None),
    "squeezing an axis of two": (lambda: cm.squeeze(two(), axis=0), cm.ClematisError, None),
    "a matrix that is not square": (lambda: cm.linalg.inv(two()), cm.ShapeError, None),
    "a matrix that is not positive": (lambda: cm.linalg.cholesky(-cm.eye(2)), cm.ArgumentError, None),
    "an equation that does not fit": (lambda: cm.einsum("ij,jk->ik", two(), two()), cm.ShapeError, None),
    "complex order": (lambda: cm.asarray([1j]) < cm.asarray([2j]), cm.DTypeError, None),
    "the value of many": (lambda: float(two()), cm.ShapeError, "float(x): f32[2,3] has more or fewer than one element"),
    "a value under a trace": (
        lambda: cm.map(lambda v: v * float(v), cm.ones(3)),
        cm.TraceError,
        "float(x): f32[] has no value while it is traced; use where, cond or while_loop",
    ),
    "values under a trace": (lambda: cm.map(lambda v: v.numpy(), cm.ones((3, 2))), cm.TraceError, None),
    "a list under a trace": (lambda: cm.map(lambda v: v.tolist(), cm.ones((3, 2))), cm.TraceError, None),
    "moving under a trace": (lambda: cm.map(lambda v: v.to("native"), cm.ones((3, 2))), cm.TraceError, None),
    "the array under a trace": (
        lambda: cm.map(lambda v: v.native, cm.ones((3, 2))),
        cm.TraceError,
        "native: f32[2] has no array while it is traced",
    ),
    "a size that only values tell": (lambda: cm.map(lambda v: cm.nonzero(v)[0], cm.ones((3, 2))), cm.TraceError, None),
    "a tensor whose trace is closed": (
        lambda: leaked() + 1,
        cm.TraceError,
        "add: leaked tracer: an operand outlived the traced function; return it from there instead",
    ),
    "a closed trace without values": (
        lambda: leaked_from_map() * 2,
        cm.TraceError,
        "mul: leaked tracer: an operand outlived the traced function; return it from there instead",
    ),
    "many differentiated": (lambda: cm.grad(lambda x: x)(two()), cm.ShapeError, None),
    "integers differentiated": (lambda: cm.grad(cm.sum)(cm.asarray([1, 2])), cm.DTypeError, None),
}


def leaked():
    out = []
    cm.grad(lambda x: (out.append(x * 1), cm.sum(x))[1])(two())
    return out[0]


def leaked_from_map():
    out = []
    cm.map(lambda v: (out.append(v * 1), v)[1], cm.ones(3))
    return out[0]


@pytest.mark.parametrize("what", CASES)
def test_the_same_words_everywhere(what):
    act, error, words = CASES[what]
    messages = {}
    for name in BACKENDS:
        with cm.backend(name), pytest.raises(error) as caught:
            act()
        assert type(caught.value).__module__ == "clematis.errors"
        messages[name] = str(caught.value)
    assert len(set(messages.values())) == 1, messages
    message = messages["native"]
    assert message and message[0].islower() or message[0] == "T", "a message starts with the op"
    if words is not None:
        assert message.splitlines()[0] == words
    for name in ("native", "numpy", "torch", "jax", "tensorflow"):
        assert name not in message.partition(":")[2]


CALLS = {
    "an unknown keyword": lambda: cm.sum(two(), axes=0),
    "a missing argument": lambda: cm.matmul(two()),
    "too many arguments": lambda: cm.exp(two(), two()),
    "a keyword for what is positional": lambda: cm.exp(x=two()),
    "a positional for what is keyword": lambda: cm.sum(two(), 0, None, True),
    "text for a number": lambda: cm.isclose(two(), two(), rtol="a"),
    "calling the class": lambda: cm.Tensor([1.0]),
    "a tensor as a function": lambda: two()(),
    "an unknown attribute of a function": lambda: cm.grad(cm.sum, nothing=1),
}


@pytest.mark.parametrize("what", CALLS)
def test_wrong_calls_are_type_errors(backend, what):
    with pytest.raises(TypeError):
        CALLS[what]()


@pytest.mark.parametrize("other", BACKENDS)
def test_tensors_of_two_backends(backend, other):
    if other == backend:
        return
    x = cm.ones(2)
    with cm.backend(other):
        y = cm.ones(2)
    for act, op in [
        (lambda: x + y, "add"),
        (lambda: cm.maximum(x, y), "maximum"),
        (lambda: cm.concat([x, y]), "concat"),
        (lambda: cm.where(x > 0, x, y), "where"),
        (lambda: x @ y, None),
        (lambda: cm.grad(lambda v: cm.sum(v * y))(x), "mul"),
    ]:
        with pytest.raises(cm.BackendError) as caught:
            act()
        first, note = str(caught.value).splitlines()
        assert first.endswith(f": tensors of {backend} and {other}")
        assert op is None or first.startswith(op + ":")
        assert note == f'  note: move one with .to("{backend}")'


@pytest.mark.parametrize("name", FRAMEWORKS)
@pytest.mark.parametrize("other", BACKENDS)
def test_a_framework_s_array_beside_another_s_tensor(name, other):
    if name == other:
        return
    with cm.backend(other):
        y = cm.ones(2)
    with pytest.raises(cm.BackendError, match=f"add: tensors of {name} and {other}"):
        cm.add(raw(name, [1.0, 2.0]), y)


def unsupported(name):
    if name == "numpy":
        return np.array(["a", "b"])
    if name == "torch":
        import torch

        return torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    if name == "jax":
        import jax

        return jax.random.key(0)
    import tensorflow as tf

    return tf.constant(["a", "b"])


def test_an_array_of_no_dtype_of_ours(framework):
    x = unsupported(framework)
    for act in (lambda: cm.exp(x), lambda: cm.asarray(x), lambda: cm.add(cm.ones(2), x)):
        with pytest.raises(cm.DTypeError, match=f"{framework} has an? .*array.*, which is no (dtype of ours|plain array)"):
            act()


def test_devices(backend):
    with pytest.raises(cm.ArgumentError, match="zeros: there is `cpu`, not gpu:0"):
        cm.zeros(2, device="gpu:0")
    assert cm.zeros(2, device="cpu").device == "cpu"


def test_an_array_without_values_is_refused_when_read():
    import torch

    x = cm.exp(cm.asarray(torch.ones(2, device="meta")))
    assert x.shape == (2,)
    with pytest.raises(cm.ClematisError, match="torch"):
        x.tolist()
    with pytest.raises(cm.ClematisError):
        x.to("native")


def test_reading_a_value_inside_a_framework_s_trace():
    import jax

    with pytest.raises(cm.ClematisError) as caught:
        jax.jit(lambda v: v * float(cm.asarray(v)[0]))(raw("jax", [1.0, 2.0]))
    assert isinstance(caught.value.__cause__, jax.errors.JAXTypeError | jax.errors.TracerArrayConversionError)


def test_a_framework_that_raises_is_the_cause(framework, monkeypatch):
    """The dialect's own functions are bound once, so the failure is provoked through the framework."""
    x = raw(framework, np.ones((2, 2)))

    class Stop(Exception):
        pass

    if framework == "torch":
        import torch

        class Loud(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                if func is torch.exp or getattr(func, "__name__", "") == "exp":
                    raise Stop("inside")
                return super().__torch_function__(func, types, args, kwargs or {})

        # A class of the caller's own is no failure of torch.
        with pytest.raises(Stop, match="inside"):
            cm.exp(x.as_subclass(Loud))
        return
    if framework == "jax":
        x.delete()
    elif framework == "numpy":
        words = "exp: numpy raised .*FloatingPointError"
        with np.errstate(over="raise"), pytest.raises(cm.FrameworkError, match=words) as caught:
            cm.exp(np.array([1000.0]))
        assert isinstance(caught.value.__cause__, FloatingPointError)
        return
    else:
        import tensorflow as tf

        with tf.Graph().as_default():
            x = tf.constant([1.0, 2.0])
        with pytest.raises(cm.FrameworkError, match="exp: tensorflow raised|exp: tensorflow") as caught:
            cm.exp(x)
        assert caught.value.__cause__ is not None
        return
    with pytest.raises(cm.FrameworkError, match=f"exp: {framework} raised .*") as caught:
        cm.exp(x)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_every_exception_is_also_a_builtin():
    for name, builtin in {
        "ShapeError": ValueError, "DTypeError": TypeError, "AxisError": IndexError, "ArgumentError": ValueError,
        "BackendError": RuntimeError, "UnsupportedError": NotImplementedError, "TraceError": TypeError,
        "ConvertError": ValueError, "CheckpointError": OSError, "FrameworkError": RuntimeError,
    }.items():  # fmt: skip
        error = getattr(cm, name)
        assert issubclass(error, cm.ClematisError) and issubclass(error, builtin)


def test_unknown_backends():
    words = "unknown backend `mxnet`\n  note: available: native, numpy, torch, jax, tensorflow"
    with pytest.raises(cm.BackendError, match=words):
        cm.backend("mxnet")
    with pytest.raises(cm.BackendError):
        cm.set_backend("mxnet")
    assert cm.current_backend() == "native"
