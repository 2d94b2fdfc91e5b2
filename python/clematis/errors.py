"""One exception per kind of mistake, each also the builtin that it resembles."""


class ClematisError(Exception):
    """Anything that Clematis raises."""


class ShapeError(ClematisError, ValueError):
    """Sizes that do not fit each other."""


class DTypeError(ClematisError, TypeError):
    """An element type that an op does not take, or two that do not fit."""


class AxisError(ClematisError, IndexError):
    """An axis or an index out of range."""


class ArgumentError(ClematisError, ValueError):
    """A value outside of what is allowed."""


class BackendError(ClematisError, RuntimeError):
    """Tensors of two backends, or a backend that is not there."""


class UnsupportedError(ClematisError, NotImplementedError):
    """Something that a backend cannot do."""


class DiffError(ClematisError, TypeError):
    """Something that cannot be differentiated."""


class StructureError(ClematisError, ValueError):
    """Trees that are not made alike."""


class TraceError(ClematisError, TypeError):
    """A value asked for while tracing, or a tensor that outlived its trace."""


class ConvertError(ClematisError, ValueError):
    """A graph, a model or a text that cannot be read or written."""


class CheckpointError(ClematisError, OSError):
    """A file that cannot be read or written."""


class FrameworkError(ClematisError, RuntimeError):
    """A framework's own failure; its exception is the cause."""


class InternalError(ClematisError, RuntimeError):
    """A mistake of ours: please report it."""


class _PytreeError(DTypeError):
    """An operand is a pytree: the function is then called on each leaf."""
