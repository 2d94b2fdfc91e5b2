"""Write a function, a layer or a model once; run it on NumPy, PyTorch, JAX, TensorFlow or the built-in engine."""

import typing as _typing
from math import e, inf, nan, pi

from . import _import_hooks, data, errors, fft, linalg, nn, optim, random, tree
from ._clematis import *  # noqa: F403
from ._clematis import __array_namespace_info__, __version__
from ._convert.lazy_functions import NAMES as _CONVERTERS
from ._convert.lazy_functions import LazyFunction as _LazyFunction
from ._jit.explain import explain
from ._jit.function import jit
from .container import Container
from .errors import *  # noqa: F403
from .gradients import *  # noqa: F403
from .meta import *  # noqa: F403
from .module import Module, State
from .trainer import Callback, Trainer

newaxis = None
__array_api_version__ = "2025.12"

if _typing.TYPE_CHECKING:
    from ._convert.convert import convert
    from ._convert.dispatch import from_backend_module
    from ._convert.files import from_file, to_file
    from ._convert.from_torch import from_torch, from_torch_module
    from ._convert.from_jax import from_flax_module, from_haiku_module, from_jax
    from ._convert.from_keras import from_keras_module
    from ._convert.onnx import from_onnx, to_onnx
    from ._convert.exporters import to_flax_module, to_haiku_module, to_keras_module, to_torch_module
    from ._convert.source import source
else:
    globals().update({_name: _LazyFunction(_name) for _name in _CONVERTERS})
