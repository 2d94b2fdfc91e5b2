"""Optimisers, schedules of their learning rates, accumulation of gradients, scales of losses."""

from . import schedules
from .accumulate import Accumulate
from .optimizer import Optimizer
from .rules import LAMB, LARS, SGD, Adagrad, Adam, AdamW, Lion, RMSprop
from .scale import LossScale

__all__ = [
    "LAMB",
    "LARS",
    "SGD",
    "Accumulate",
    "Adagrad",
    "Adam",
    "AdamW",
    "Lion",
    "LossScale",
    "Optimizer",
    "RMSprop",
    "schedules",
]
