"""The public converters as functions that import their module at the first use."""

import importlib
from collections.abc import Callable
from typing import Any

NAMES = {
    "convert": "convert",
    "from_backend_module": "dispatch",
    "from_file": "files",
    "from_flax_module": "from_jax",
    "from_haiku_module": "from_jax",
    "from_jax": "from_jax",
    "from_keras_module": "from_keras",
    "from_onnx": "onnx",
    "from_torch": "from_torch",
    "from_torch_module": "from_torch",
    "source": "source",
    "to_file": "files",
    "to_flax_module": "exporters",
    "to_haiku_module": "exporters",
    "to_keras_module": "exporters",
    "to_onnx": "onnx",
    "to_torch_module": "exporters",
}


class LazyFunction:
    """A function whose module is imported at the first use: most programs need no converter, and `import clematis` is fast.

    A module-level `__getattr__` would do the same, but it would slow down every attribute lookup on the package.
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
