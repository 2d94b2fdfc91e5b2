"""`cm.convert`: imports a model, exports it to another framework, and compares both."""

import os
from typing import Any

from ..errors import ArgumentError
from . import run_model
from .dispatch import from_backend_module, kind_of

_FRAMEWORKS = ("torch", "keras", "haiku", "flax")
# "torch" means a torch module; for a Clematis module on the torch backend there is `convert(…, "clematis").to("torch")`.
_BACKENDS = ("native", "numpy", "jax", "tensorflow")


def convert(
    model: Any, to: str, example_inputs: Any = None, *, example_kwargs: Any = None, verify: bool = True,
    tolerance: float | None = None, style: str = "nnx", allow_wrapped: bool = False, **options: Any,
) -> Any:  # fmt: skip
    """Converts a model of any framework to another.

    `model` is a module of Clematis, torch, Keras, Haiku or Flax, a class of one, or the path of an ONNX file. `to` is the
    target: "torch", "keras", "haiku" or "flax" (nnx, or with `style="linen"` linen), "clematis" for a
    Clematis module, or "native", "numpy", "jax" or "tensorflow" for a Clematis module on that backend. Other options are
    those of `from_backend_module`.

    Both models are run in evaluation mode on the example, on a random input like it and, if both accept one, on another
    batch size. A difference of more than `tolerance`, relative to the largest value, raises `ConvertError`. The result
    has the comparison as its attribute `report`. `verify=False` skips the comparison.

    From torch to torch, `allow_wrapped=True` keeps the submodules that cannot be captured, and converts the others;
    the result's `wrapped` lists the paths of those kept.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    >>> layer = cm.convert(net, to="keras", example_inputs=torch.ones(2, 3))
    >>> layer(cm.ones((5, 3)).numpy()).shape[0]
    5
    >>> layer.report.relative < 1e-5
    True
    """
    known = (*_FRAMEWORKS, "clematis", *_BACKENDS)
    if to not in known:
        raise ArgumentError(f"convert: expected `to` to be one of {', '.join(known)}, got {to!r}")
    backend = to if to in _BACKENDS else None
    args = () if example_inputs is None else example_inputs
    args = tuple(args) if isinstance(args, (list, tuple)) else (args,)
    kwargs = dict(example_kwargs or {})
    if verify and not args and not kwargs:
        raise ArgumentError(
            "convert: example inputs are needed to compare both models; `verify=False` skips the comparison"
        )
    if allow_wrapped:
        return _in_part(model, to, args, kwargs, verify, tolerance, options)
    ours, source, before = _taken_in(model, args, kwargs, options)
    if backend:
        ours = ours.to(backend)
    made, after, traced = _made(ours, to, backend, args, kwargs, style)
    if verify:
        from .verify import verified

        before = before or run_model.of_ours(ours, backend)
        report = verified(source, to, before, after, args, kwargs, tolerance, traced)
        # Modules of some frameworks reject unknown attributes in __setattr__.
        put = type.__setattr__ if isinstance(made, type) else object.__setattr__
        put(made, "report", report)
    return made


def _in_part(
    model: Any, to: str, args: Any, kwargs: Any, verify: bool, tolerance: float | None, options: dict[str, Any]
) -> Any:
    kind = kind_of(model)
    if kind != "torch" or to != "torch" or isinstance(model, type):
        raise ArgumentError(
            f'convert: allow_wrapped needs a torch module and to="torch", got {kind or type(model).__name__} and {to!r}'
        )
    if not args and not kwargs:
        raise ArgumentError("convert: allow_wrapped needs example inputs")
    from .verify import verified
    from .partial_conversion import kept_in_part

    made, made_wrapped = kept_in_part(model, args, kwargs, options)
    object.__setattr__(made, "wrapped", made_wrapped)
    if verify:
        both = run_model.of_torch(model), run_model.of_torch(made)
        object.__setattr__(made, "report", verified("torch", "torch", *both, args, kwargs, tolerance))
    return made


def _taken_in(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any]
) -> tuple[Any, str, run_model.Run | None]:
    """The imported Clematis module, the source framework, and a function that runs the source model, if it is another."""
    from ..module import Module

    if isinstance(model, Module):
        if options:
            raise ArgumentError(f"convert: unknown options for a Clematis module: {', '.join(sorted(options))}")
        return model, "clematis", run_model.of_ours(model, None)
    if isinstance(model, (str, bytes, os.PathLike)):
        from .onnx import from_onnx

        return from_onnx(model, **options), "onnx", None
    kind = kind_of(model)
    if kind is None:
        name = model.__name__ if isinstance(model, type) else type(model).__name__
        raise ArgumentError(
            f"convert: expected a module of Clematis, torch, Keras, Haiku or Flax or an ONNX file, got {name}"
        )
    if isinstance(model, type) and kind in ("torch", "keras"):
        model = model(*(options.pop("constructor_args", None) or ()), **(options.pop("constructor_kwargs", None) or {}))
    ours = from_backend_module(model, args, instance_kwargs=kwargs, **options)
    if kind == "torch":
        return ours, kind, run_model.of_torch(model)
    if kind == "keras":
        return ours, kind, run_model.of_keras(model)
    return ours, kind, run_model.of_haiku(model, options) if kind == "haiku" else run_model.of_flax(model, options)


def _made(
    ours: Any, framework: str, backend: str | None, args: tuple[Any, ...], kwargs: dict[str, Any], style: str
) -> tuple[Any, run_model.Run, run_model.Run | None]:
    """The exported model, a function that runs it, and one that traces it with an unknown batch size, if any."""
    from . import exporters

    given: dict[str, Any] = {"example_kwargs": kwargs}
    if framework == "torch":
        made = exporters.to_torch_module(ours, args, **given)
        return made, run_model.of_torch(made), None
    if framework == "keras":
        made = exporters.to_keras_module(ours, args, **given)
        return made, run_model.of_keras(made), run_model.of_keras_traced(made)
    if framework == "haiku":
        made = exporters.to_haiku_module(ours, args, **given)
        return made, run_model.of_haiku(made, {}), None
    if framework == "flax":
        made = exporters.to_flax_module(ours, args, **given, style=style)
        return made, run_model.of_flax(made, {}), None
    return ours, run_model.of_ours(ours, backend), None
