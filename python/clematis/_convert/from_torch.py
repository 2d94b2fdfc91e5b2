"""Models of torch, made modules of ours."""

import inspect
from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError, ConvertError, FrameworkError
from .captured import Captured, LazyModule


def _torch(op: str) -> Any:
    try:
        import torch
    except ImportError as e:
        raise FrameworkError(f"{op}: torch is not installed: {e}") from e
    return torch


def _examples(
    op: str, example_inputs: Any, instance_args: Any, instance_kwargs: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if example_inputs is not None and instance_args is not None:
        raise ArgumentError(f"{op}: example_inputs and instance_args are one and the same; give one")
    args = instance_args if example_inputs is None else example_inputs
    args = () if args is None else tuple(args) if isinstance(args, (list, tuple)) else (args,)
    return args, dict(instance_kwargs or {})


def from_torch_module(
    native_module: Any, example_inputs: Any = None, *, constructor_args: Any = None, constructor_kwargs: Any = None,
    instance_args: Any = None, instance_kwargs: Any = None, device: Any = None, devices: Any = None,
    inplace_update: bool = False, dynamic_batch: bool = True, specialise: bool = False, allow_wrapped: bool = False,
    **options: Any,
) -> Captured:  # fmt: skip
    """A module of ours that computes what a torch module does, on any backend.

    `native_module` is a `torch.nn.Module` or a class of such, made with the constructor's arguments. It is captured on the
    example inputs (`example_inputs`, or `instance_args` and `instance_kwargs`), in evaluation and in training; without
    any it is captured when it is first called. The batch size stays open unless `dynamic_batch` is False. A forward that
    branches on values of its inputs is refused, unless `specialise` keeps the branches that the example takes. The torch module
    stays as it is, and the result shares no memory with it, so that `inplace_update` makes no difference.

    A module of ours runs on every backend, so no part of it can stay torch's own: `allow_wrapped` is refused here. Where
    the result is a torch module again, `cm.convert(net, to="torch", allow_wrapped=True)` keeps what cannot be captured.

    >>> import torch
    >>> net = cm.from_torch_module(torch.nn.Linear(3, 2), cm.ones((4, 3)))
    >>> net(cm.ones((5, 3))).shape
    (5, 2)
    """
    op = "from_torch_module"
    torch = _torch(op)
    if allow_wrapped:
        raise ArgumentError(
            f"{op}: a module of ours runs on every backend, so no part of it can stay torch's own;"
            ' cm.convert(net, to="torch", allow_wrapped=True) gives a torch module that keeps what cannot be captured'
        )
    if inspect.isclass(native_module) and issubclass(native_module, torch.nn.Module):
        native_module = native_module(*(constructor_args or ()), **(constructor_kwargs or {}))
    elif constructor_args or constructor_kwargs:
        raise ArgumentError(f"{op}: arguments for the constructor of what is no class")
    if not isinstance(native_module, torch.nn.Module):
        raise ArgumentError(f"{op}: {type(native_module).__name__} is no torch.nn.Module")
    args, kwargs = _examples(op, example_inputs, instance_args, instance_kwargs)
    options |= {"device": device, "devices": devices}
    from . import read_torch

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return read_torch.read(native_module, args, kwargs, dynamic=dynamic_batch, specialise=specialise)

    if not args and not kwargs and _takes_inputs(native_module):
        waiting = LazyModule(read, read_torch.held(native_module), type(native_module).__name__, **options)
        waiting._start(native_module.training, read_torch.flags_differ(native_module))
        return waiting
    return Captured(read(args, kwargs), **options)


def _takes_inputs(module: Any) -> bool:
    try:
        known = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.kind is not p.VAR_KEYWORD for p in known)


def from_torch(
    function: Callable[..., Any], *args: Any, dynamic_batch: bool = True, specialise: bool = False, **kwargs: Any
) -> Captured:
    """A module of ours, without parameters, that computes what a function of torch does.

    The arguments are examples: arrays of any kind, and what is no array stays what it is.

    >>> import torch
    >>> net = cm.from_torch(lambda x: torch.tanh(x) * 2, cm.ones((2, 3)))
    >>> net(cm.zeros((5, 3))).shape
    (5, 3)
    """
    torch = _torch("from_torch")
    if not callable(function):
        raise ArgumentError(f"from_torch: {type(function).__name__} cannot be called")
    if isinstance(function, torch.nn.Module):
        return from_torch_module(
            function, args, instance_kwargs=kwargs, dynamic_batch=dynamic_batch, specialise=specialise
        )
    if not args and not kwargs:
        raise ConvertError("from_torch: examples of its arguments are needed: a function is captured on them")
    from . import read_torch

    return Captured(read_torch.read_function(function, args, kwargs, dynamic=dynamic_batch, specialise=specialise))
