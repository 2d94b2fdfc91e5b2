"""Arrays of every kind: tensors, the frameworks' own, their variables, and what NumPy makes of each."""

import contextlib
import importlib

import clematis as cm
import ml_dtypes
import numpy as np

FLOATS = ("float64", "float32", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
# The distance from 1 to the next number.
EPSILON = {name: float(ml_dtypes.finfo(name).eps) for name in FLOATS}


def numpy_dtype(name):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def raw(backend, values, dtype=None):
    """The framework's own array."""
    values = np.asarray(values)
    dtype = dtype or values.dtype.name
    values = values.astype(numpy_dtype(dtype))
    if backend == "numpy":
        return values
    if backend == "torch":
        import torch

        if dtype == "bfloat16":
            return torch.tensor(values.astype(np.float32)).to(torch.bfloat16)
        return torch.tensor(values)
    if backend == "jax":
        import jax

        with jax.enable_x64(True):
            return jax.numpy.asarray(values)
    import tensorflow as tf

    return tf.constant(values)


def tensor(backend, values, dtype=None):
    """A tensor on this backend."""
    values = np.asarray(values)
    if backend == "native":
        with cm.backend("native"):
            return cm.asarray(values.astype(numpy_dtype(dtype or values.dtype.name)))
    made = raw(backend, values, dtype)
    if backend == "numpy":
        with cm.backend("numpy"):
            return cm.asarray(made)
    return cm.asarray(made)


def variable(backend, values, dtype=None):
    """What a framework trains."""
    made = raw(backend, values, dtype)
    if backend == "torch":
        return made.requires_grad_(True) if made.is_floating_point() else made
    import tensorflow as tf

    return tf.Variable(made)


HAS_RAW = ("numpy", "torch", "jax", "tensorflow")
HAS_VARIABLES = ("torch", "tensorflow")
HAS_AUTODIFF = ("torch", "jax", "tensorflow")


def is_raw(backend, x):
    """Whether this is the framework's own array."""
    if backend == "numpy":
        return isinstance(x, np.ndarray | np.generic)
    if backend == "torch":
        return isinstance(x, importlib.import_module("torch").Tensor)
    if backend == "jax":
        return isinstance(x, importlib.import_module("jax").Array)
    tf = importlib.import_module("tensorflow")
    return isinstance(x, tf.Tensor | tf.Variable)


def is_array(x):
    return isinstance(x, cm.Tensor) or any(is_raw(b, x) for b in HAS_RAW)


def host(x):
    """As NumPy, in its own element type."""
    if isinstance(x, cm.Tensor):
        x = x.native if x.backend != "native" else x.numpy()
    if type(x).__module__.split(".")[0] == "torch":
        import torch

        x = x.detach()
        if x.dtype == torch.bfloat16:
            return x.to(torch.float32).numpy().astype(ml_dtypes.bfloat16)
    return np.asarray(x.numpy() if hasattr(x, "numpy") else x)


def dtype_name(x):
    """The element type of an array of any kind."""
    return host(x).dtype.name


def doubles(x):
    return host(x).astype(np.float64)


def wide(dtype):
    """Where jax has to be told that 64 bits are meant; our own functions need no telling."""
    import jax

    return jax.enable_x64(True) if dtype == "float64" else contextlib.nullcontext()


def version(backend):
    if backend == "native":
        return cm.__version__
    return importlib.import_module(backend).__version__
