"""The context variable that turns a framework's own compiler on and off."""

from contextvars import ContextVar

# If false, the framework runs a program op by op.
USE_COMPILER: ContextVar[bool] = ContextVar("clematis_use_compiler", default=True)
