"""Write a function, a layer or a model once; run it on NumPy, PyTorch, JAX, TensorFlow or the built-in engine."""

from math import e, inf, nan, pi

from . import _compile, data, errors, fft, linalg, nn, optim, random, tree
from ._clematis import *  # noqa: F403
from ._clematis import __array_namespace_info__, __version__
from ._convert import hook as _hook  # noqa: F401
from .container import Container
from .errors import *  # noqa: F403
from .gradients import *  # noqa: F403
from .meta import *  # noqa: F403
from .module import Module, State
from .trainer import Callback, Trainer

newaxis = None
__array_api_version__ = "2025.12"
