"""Whether a framework's own compiler is asked."""

from contextvars import ContextVar

# Else its functions run one after the other.
COMPILING: ContextVar[bool] = ContextVar("clematis_compiling", default=True)
