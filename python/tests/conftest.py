"""What every test file shares: the backends, and an order of imports that the frameworks survive together."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("SCIPY_ARRAY_API", "1")

# tensorflow first and torch._dynamo later aborts the process: both register the same options with LLVM.
import torch._dynamo  # noqa: E402, F401  isort: skip
import clematis as cm  # noqa: E402
import hypothesis  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

hypothesis.settings.register_profile("quick", max_examples=25, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

ORDER = ["native", "numpy", "torch", "jax", "tensorflow"]


def loads(name: str) -> bool:
    try:
        cm.backend(name)
    except cm.BackendError as e:
        print(f"{name} is left out: {e}")
        return False
    return True


BACKENDS = [name for name in ORDER if name in cm.backends() and loads(name)]
FRAMEWORKS = [name for name in BACKENDS if name != "native"]


@pytest.fixture(params=BACKENDS)
def backend(request):
    """Each backend in turn, as the one that new tensors are made on."""
    with cm.backend(request.param):
        yield request.param


@pytest.fixture(params=FRAMEWORKS)
def framework(request):
    """Each framework in turn."""
    return request.param


def raw(name: str, values, dtype="float32"):
    """A framework's own array of these values."""
    values = np.asarray(values, dtype=dtype)
    if name == "numpy":
        return values
    if name == "torch":
        import torch

        return torch.tensor(values)
    if name == "jax":
        import jax

        with jax.enable_x64(True):
            return jax.numpy.asarray(values)
    if name == "tensorflow":
        import tensorflow as tf

        return tf.constant(values)
    raise ValueError(name)


@pytest.fixture(scope="session")
def make_raw():
    """A framework's own array: `make_raw("torch", [1.0, 2.0])`."""
    return raw
