"""Any model to any framework: in, then out, and compared."""

import os
from typing import Any

from ..errors import ArgumentError
from . import run_model
from .dispatch import from_backend_module, kind_of

_FRAMEWORKS = ("torch", "keras", "haiku", "flax")
# torch is a framework of modules: for a module of ours on torch there is `convert(…, "clematis").to("torch")`.
_BACKENDS = ("native", "numpy", "jax", "tensorflow")


def convert(
    model: Any, to: str, example_inputs: Any = None, *, example_kwargs: Any = None, verify: bool = True,
    tolerance: float | None = None, style: str = "nnx", allow_wrapped: bool = False, **options: Any,
) -> Any:  # fmt: skip
    """A model of any framework, made a model of another.

    `model` is a module of ours, of torch, Keras, Haiku or Flax, a class of one, or an ONNX file's path. `to` says what
    becomes of it: "torch", "keras", "haiku" or "flax" (of nnx, or with `style="linen"` of linen), or "clematis" for a
    module of ours, "native", "numpy", "jax" or "tensorflow" for one on that backend. Other options go to the function that reads it, as
    `from_backend_module` passes them on.

    Both models are run on the example, on a random input like it and, if both take one, on a batch of another size, in
    evaluation; results further apart than `tolerance`, as a part of the largest value, raise `ConvertError`. What was seen is on the result as `report`. `verify=False` leaves
    all of that out.

    From torch to torch, `allow_wrapped=True` keeps the parts that cannot be captured as they are, and converts the others;
    the result's `wrapped` lists the paths of what was kept.

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
        raise ArgumentError(f"convert: to is one of {', '.join(known)}, not {to!r}")
    backend = to if to in _BACKENDS else None
    args = () if example_inputs is None else example_inputs
    args = tuple(args) if isinstance(args, (list, tuple)) else (args,)
    kwargs = dict(example_kwargs or {})
    if verify and not args and not kwargs:
        raise ArgumentError(
            "convert: example inputs are needed to compare both models; `verify=False` does not compare"
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
        # Modules of some frameworks refuse attributes that they do not know; classes refuse this way of giving them one.
        put = type.__setattr__ if isinstance(made, type) else object.__setattr__
        put(made, "report", report)
    return made


def _in_part(
    model: Any, to: str, args: Any, kwargs: Any, verify: bool, tolerance: float | None, options: dict[str, Any]
) -> Any:
    kind = kind_of(model)
    if kind != "torch" or to != "torch" or isinstance(model, type):
        raise ArgumentError(
            f"convert: allow_wrapped keeps parts of a torch module in a torch module, not of {kind or type(model).__name__} in {to}"
        )
    if not args and not kwargs:
        raise ArgumentError("convert: example inputs are needed to see with what each part is called")
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
    """A module of ours, what it was, and how the first model is run, if it is not the module itself."""
    from ..module import Module

    if isinstance(model, Module):
        if options:
            raise ArgumentError(f"convert: unknown options for a module of ours: {', '.join(sorted(options))}")
        return model, "clematis", run_model.of_ours(model, None)
    if isinstance(model, (str, bytes, os.PathLike)):
        from .onnx import from_onnx

        return from_onnx(model, **options), "onnx", None
    kind = kind_of(model)
    if kind is None:
        name = model.__name__ if isinstance(model, type) else type(model).__name__
        raise ArgumentError(f"convert: {name} is no module of ours, of torch, Keras, Haiku or Flax, and no ONNX file")
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
    """The model in its new framework, how it is run, and how where it is traced, if that is something else."""
    from . import exporters

    given: dict[str, Any] = {"example_kwargs": kwargs}
    if framework == "torch":
        made = outgoing.to_torch_module(ours, args, **given)
        return made, run_model.of_torch(made), None
    if framework == "keras":
        made = outgoing.to_keras_module(ours, args, **given)
        return made, run_model.of_keras(made), run_model.of_keras_traced(made)
    if framework == "haiku":
        made = outgoing.to_haiku_module(ours, args, **given)
        return made, run_model.of_haiku(made, {}), None
    if framework == "flax":
        made = outgoing.to_flax_module(ours, args, **given, style=style)
        return made, run_model.of_flax(made, {}), None
    return ours, run_model.of_ours(ours, backend), None
