"""The converters that users call, and the files where they are."""

import importlib
from collections.abc import Callable
from typing import Any

NAMES = {
    "convert": "anything",
    "from_backend_module": "choose",
    "from_file": "files",
    "from_flax_module": "incoming_jax",
    "from_haiku_module": "incoming_jax",
    "from_jax": "incoming_jax",
    "from_keras_module": "incoming_keras",
    "from_onnx": "onnx",
    "from_torch": "incoming",
    "from_torch_module": "incoming",
    "source": "source",
    "to_file": "files",
    "to_flax_module": "outgoing",
    "to_haiku_module": "outgoing",
    "to_keras_module": "outgoing",
    "to_onnx": "onnx",
    "to_torch_module": "outgoing",
}


class LazyFunction:
    """A converter that is loaded when it is used: most programs need none, and `import clematis` is to cost little.

    A module with a `__getattr__` of its own would do the same, but Python then looks up each of its names anew at every call.
    """

    def __init__(self, name: str) -> None:
        self.__dict__.update(__name__=name, __qualname__=name, __module__="clematis")

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        name = self.__dict__["__name__"]
        module = importlib.import_module(f"clematis._convert.{NAMES[name]}")
        return getattr(module, name)  # type: ignore[no-any-return]

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self.__wrapped__.__doc__

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.__wrapped__(*args, **named)

    def __repr__(self) -> str:
        return f"<function clematis.{self.__dict__['__name__']}>"

    def __reduce__(self) -> str:
        return self.__dict__["__name__"]  # type: ignore[no-any-return]
