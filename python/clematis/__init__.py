"""Write a function, a layer or a model once; run it on NumPy, PyTorch, JAX, TensorFlow or the built-in engine."""

from math import e, inf, nan, pi

from . import _compile, errors, fft, linalg, nn, random, tree
from ._clematis import *  # noqa: F403
from ._clematis import __array_namespace_info__, __version__
from .container import Container
from .errors import *  # noqa: F403
from .gradients import *  # noqa: F403
from .meta import *  # noqa: F403
from .module import Module, State

newaxis = None
__array_api_version__ = "2025.12"
