"""Layers with parameters, and the modules that put them together."""

from ..module import Module, State
from .container import Sequential
from .dropout import Dropout
from .initializers import Constant, FirstLayerSiren, GlorotUniform, KaimingNormal, Ones, Siren, Uniform, Zeros
from .linear import Linear

__all__ = [
    "Constant",
    "Dropout",
    "FirstLayerSiren",
    "GlorotUniform",
    "KaimingNormal",
    "Linear",
    "Module",
    "Ones",
    "Sequential",
    "Siren",
    "State",
    "Uniform",
    "Zeros",
]
