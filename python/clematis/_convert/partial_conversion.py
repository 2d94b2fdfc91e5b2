"""Converts a torch model of which only some submodules can be captured; the others are kept."""

import copy
from typing import Any

from ..errors import ConvertError


def kept_in_part(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any]
) -> tuple[Any, Any]:
    """A torch module with its submodules converted as far as possible, and the paths of those kept.

    The example is run once to record the arguments of each submodule.
    """
    import torch

    from .torch_example import device, tensors

    own = copy.deepcopy(module)
    args, kwargs = tensors(torch, args, kwargs, device(own))
    kept: list[str] = []
    made = _converted(own, args, kwargs, "", kept, options)
    return made.train(module.training), kept


def _converted(own: Any, args: Any, kwargs: Any, path: str, kept: list[str], options: dict[str, Any]) -> Any:
    from .from_torch import from_torch_module
    from .exporters import to_torch_module

    try:
        ours = from_torch_module(own, args, instance_kwargs=kwargs, **options)
        return to_torch_module(ours, args, example_kwargs=kwargs)
    except ConvertError:
        kept.append(path)
    seen = _calls(own, args, kwargs)
    for name, child in list(own.named_children()):
        # What is not called, or is called with something that is no array, is not looked into.
        if child in seen:
            below = f"{path}.{name}" if path else name
            given, named = seen[child]
            setattr(own, name, _converted(child, given, named, below, kept, options))
    return own


def _calls(own: Any, args: Any, kwargs: Any) -> dict[Any, Any]:
    """What each child is given when the example is run in evaluation."""
    import torch

    seen: dict[Any, Any] = {}

    def note(child: Any, given: Any, named: Any) -> None:
        seen.setdefault(child, (given, named))

    handles = [child.register_forward_pre_hook(note, with_kwargs=True) for child in own.children()]
    modes = {m: m.training for m in own.modules()}
    try:
        own.eval()
        with torch.no_grad():
            own(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
        for m, mode in modes.items():
            m.training = mode
    return seen
