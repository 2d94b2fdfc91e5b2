"""Modules of other frameworks, as methods of a module."""

from typing import Any


class Converted:
    """What comes of a module in other frameworks, and of their modules here."""

    def to_torch_module(self, example_inputs: Any = None, *, example_kwargs: Any = None) -> Any:
        """A `torch.nn.Module` that computes the same; see `cm.to_torch_module`."""
        from .._convert.exporters import to_torch_module

        return to_torch_module(self, example_inputs, example_kwargs=example_kwargs)

    def to_keras_module(self, example_inputs: Any = None, *, example_kwargs: Any = None) -> Any:
        """A `keras.Model` that computes the same; see `cm.to_keras_module`."""
        from .._convert.exporters import to_keras_module

        return to_keras_module(self, example_inputs, example_kwargs=example_kwargs)

    def to_haiku_module(self, example_inputs: Any = None, *, example_kwargs: Any = None) -> Any:
        """A subclass of `hk.Module` that computes the same; see `cm.to_haiku_module`."""
        from .._convert.exporters import to_haiku_module

        return to_haiku_module(self, example_inputs, example_kwargs=example_kwargs)

    def to_flax_module(
        self, example_inputs: Any = None, *, example_kwargs: Any = None, style: str = "nnx", rngs: Any = None
    ) -> Any:
        """A module of flax that computes the same; see `cm.to_flax_module`."""
        from .._convert.exporters import to_flax_module

        return to_flax_module(self, example_inputs, example_kwargs=example_kwargs, style=style, rngs=rngs)

    def to_onnx(self, path: Any, example_inputs: Any = None, **options: Any) -> None:
        """Writes what it computes in evaluation as an ONNX file; see `cm.to_onnx`."""
        from .._convert.onnx import to_onnx

        to_onnx(self, path, example_inputs, **options)

    def to_file(self, path: Any, example_inputs: Any = None, **options: Any) -> None:
        """Writes its program and its weights as one file, which `clematis run` runs; see `cm.to_file`."""
        from .._convert.files import to_file

        to_file(self, path, example_inputs, **options)

    @staticmethod
    def from_torch_module(native_module: Any, example_inputs: Any = None, **options: Any) -> Any:
        """A module of ours that computes what a torch module does; see `cm.from_torch_module`."""
        from .._convert.from_torch import from_torch_module

        return from_torch_module(native_module, example_inputs, **options)

    @staticmethod
    def from_keras_module(native_module: Any, example_inputs: Any = None, **options: Any) -> Any:
        """A module of ours that computes what a Keras layer does; see `cm.from_keras_module`."""
        from .._convert.from_keras import from_keras_module

        return from_keras_module(native_module, example_inputs, **options)

    @staticmethod
    def from_haiku_module(native_module: Any, example_inputs: Any = None, **options: Any) -> Any:
        """A module of ours that computes what a Haiku module does; see `cm.from_haiku_module`."""
        from .._convert.from_jax import from_haiku_module

        return from_haiku_module(native_module, example_inputs, **options)

    @staticmethod
    def from_flax_module(native_module: Any, example_inputs: Any = None, **options: Any) -> Any:
        """A module of ours that computes what a Flax module does; see `cm.from_flax_module`."""
        from .._convert.from_jax import from_flax_module

        return from_flax_module(native_module, example_inputs, **options)

    @staticmethod
    def from_backend_module(native_module: Any, example_inputs: Any = None, **options: Any) -> Any:
        """A module of ours that computes what a module of another framework does; see `cm.from_backend_module`."""
        from .._convert.dispatch import from_backend_module

        return from_backend_module(native_module, example_inputs, **options)
