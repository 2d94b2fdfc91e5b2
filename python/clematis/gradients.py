"""Values with gradients of whole pytrees, the switch of gradients, and functions with gradients of their own.

The derivatives are the core's, the same on every backend; this module flattens and unflattens pytrees.
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from . import _clematis as _core
from . import _pytree
from .container import Container
from .errors import ArgumentError, DTypeError, ShapeError

__all__ = [
    "GradientTracking",
    "bind_custom_gradient_function",
    "execute_with_gradients",
    "set_with_grads",
    "unset_with_grads",
    "with_grads",
    "with_grads_stack",
]

_is_array = _core._tree.is_array

with_grads_stack: list[bool] = []
"""What `set_with_grads` has put down; the last counts. It is always this same list."""


def _checked(value: Any) -> bool:
    if value is not True and value is not False:
        raise ArgumentError(f"with_grads: True or False was expected, not {value!r}")
    return bool(value)


def with_grads(*, with_grads: bool | None = None) -> bool:
    """Whether modules keep gradients: what is given, else what was set last, else True.

    >>> cm.with_grads(), cm.with_grads(with_grads=False)
    (True, False)
    """
    if with_grads is not None:
        return _checked(with_grads)
    return with_grads_stack[-1] if with_grads_stack else True


def set_with_grads(with_grads: bool) -> None:
    """Sets whether modules keep gradients, until `unset_with_grads`.

    >>> cm.set_with_grads(False)
    >>> cm.with_grads()
    False
    >>> cm.unset_with_grads()
    """
    with_grads_stack.append(_checked(with_grads))


def unset_with_grads() -> None:
    """Takes the last setting back, if there is one.

    >>> cm.set_with_grads(False)
    >>> cm.unset_with_grads()
    >>> cm.with_grads()
    True
    """
    if with_grads_stack:
        with_grads_stack.pop()


class GradientTracking:
    """Sets whether modules keep gradients inside a `with` block.

    >>> with cm.GradientTracking(False):
    ...     cm.with_grads()
    False
    """

    def __init__(self, with_grads: bool) -> None:
        self.with_grads = _checked(with_grads)

    def __enter__(self) -> "GradientTracking":
        set_with_grads(self.with_grads)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        unset_with_grads()


def bind_custom_gradient_function(func: Callable[..., Any], custom_grad_func: Callable[..., Any]) -> Callable[..., Any]:
    """The function with another gradient: `custom_grad_func((inputs, outputs), upstream)` gives one for each input.

    Inputs, outputs and gradients are tuples where there are several. Higher derivatives differentiate the rule. On a
    framework's own arrays its autodiff uses the rule, too: `torch.autograd`, `jax.grad`, `tf.GradientTape`.

    >>> square = cm.bind_custom_gradient_function(lambda x: x**2, lambda values, upstream: -upstream)
    >>> cm.grad(square)(cm.asarray(3.0))
    Tensor(-1.0, float32, native)
    """
    bound: Callable[..., Any] = _core.custom_vjp(func, custom_grad_func, name="bind_custom_gradient_function")
    return bound


_OP = "execute_with_gradients"


def execute_with_gradients(
    func: Callable[[Any], Any],
    xs: Any,
    /,
    *,
    retain_grads: bool = False,
    xs_grad_idxs: Sequence[Any] | None = None,
    ret_grad_idxs: Sequence[Any] | None = None,
) -> tuple[Any, Any]:
    """What a function returns for a pytree, and the gradients of its results by the arrays of the pytree.

    Gradients come in a pytree like `xs`, without what is no array, tuples as lists, a list of one alone as its part. For
    several results they are a Container of such pytrees by the index of the result: `"0"`, `"1_b"`. An array that stands
    in several places gets the whole gradient at each. What does not matter to the result has zeros, and so has every
    element whose gradient is no finite number. Index paths (`[[0], [1, "w"]]`) choose what is differentiated by and
    which results are. With `retain_grads` results and gradients can be differentiated again. A list of numbers is an
    array. A module stands for its parameters: the function gets one like it, and the gradients are a Container.

    >>> cm.execute_with_gradients(lambda v: cm.sum(v["w"] ** 2), {"w": cm.asarray([1.0, 2.0])})
    (Tensor(5.0, float32, native), {'w': Tensor([2.0, 4.0], float32, native)})
    """
    xs = _core.asarray(xs) if _pytree.is_list_of_numbers(xs) else xs
    places = _chosen(xs, xs_grad_idxs)
    # Each array once, whatever the number of places that it stands in.
    numbers: dict[int, int] = {}
    arrays: list[Any] = []
    for _, x in places:
        if id(x) not in numbers:
            numbers[id(x)] = len(arrays)
            arrays.append(_prepared(x, retain_grads))
    run = _Run(func, xs, [(path, numbers[id(x)]) for path, x in places], ret_grad_idxs)
    if not arrays:
        return _stopped(func(xs), retain_grads), Container()
    values, pull = _core.vjp(run, *arrays)
    ret = _stopped(_pytree.replaced(run.ret, dict(zip(run.outputs, values, strict=True))), retain_grads)
    wanted = _differentiated(run, values)
    gradients = Container()
    for i in wanted:
        cts = [_core.ones_like(y) if i == j else _core.zeros_like(y) for j, y in enumerate(values)]
        parts = [_finite(g) for g in pull(cts)]
        if not retain_grads:
            parts = [_core.stop_gradient(g, preserve_type=False) for g in parts]
        tree = _pytree.kept(xs, {path: parts[number] for path, number in run.places})
        if isinstance(tree, list) and len(tree) == 1:
            tree = tree[0]
        if run.is_single(wanted):
            return ret, tree
        dict.__setitem__(gradients, "_".join(map(str, run.outputs[i])), tree)
    return ret, gradients


class _Run:
    """The function of the arrays alone; it keeps what the last call returned."""

    def __init__(
        self, func: Callable[[Any], Any], xs: Any, places: list[tuple[_pytree.Path, int]], indices: Sequence[Any] | None
    ) -> None:
        self.func, self.xs, self.places, self.indices = func, xs, places, indices
        self.ret: Any = None
        self.outputs: list[_pytree.Path] = []

    def __call__(self, *arrays: Any) -> list[Any]:
        self.ret = self.func(_pytree.replaced(self.xs, {path: arrays[number] for path, number in self.places}))
        found = [(path, y) for path, y in _pytree.entries(self.ret) if _is_array(y)]
        self.outputs = [path for path, _ in found]
        return [y for _, y in found]

    def is_single(self, wanted: list[int]) -> bool:
        """Whether there is but one result, which needs no name."""
        return self.outputs == [()] or len(wanted) == 1 and self.indices is None


def _chosen(xs: Any, indices: Sequence[Any] | None) -> list[tuple[_pytree.Path, Any]]:
    """The arrays to differentiate by, with their paths."""
    found = [(path, x) for path, x in _pytree.entries(xs) if _is_array(x) and not _core.isdtype(_dtype(x), "bool")]
    tops = _tops(xs, indices)
    return found if tops is None else [(path, x) for path, x in found if _pytree.is_below(path, tops)]


def _tops(tree: Any, indices: Sequence[Any] | None) -> list[_pytree.Path] | None:
    if indices is None:
        return None
    # `[[0]]` is what older programs say for all of an array or a container.
    first = isinstance(indices, (list, tuple)) and len(indices) == 1 and indices[0] in ([0], (0,))
    if first and (_is_array(tree) or isinstance(tree, dict) and 0 not in dict.keys(tree)):
        return None
    return _pytree.within(_OP, tree, indices)


def _dtype(x: Any) -> Any:
    return _core.asarray(x).dtype


def _prepared(x: Any, retain_grads: bool) -> Any:
    """An array as what it is differentiated by: a float, without a past unless that is asked for."""
    if _core.isdtype(_dtype(x), "integral"):
        x = _core.astype(x, _core.float32)
    return x if retain_grads else _core.stop_gradient(x, preserve_type=False)


def _stopped(ret: Any, retain_grads: bool) -> Any:
    if retain_grads:
        return ret
    found = {path: _core.stop_gradient(y, preserve_type=False) for path, y in _pytree.entries(ret) if _is_array(y)}
    return _pytree.replaced(ret, found)


def _differentiated(run: _Run, values: Sequence[Any]) -> list[int]:
    """Which results are differentiated: floats of one element."""
    tops = _tops(run.ret, run.indices)
    wanted = []
    for i, (path, y) in enumerate(zip(run.outputs, values, strict=True)):
        t = _core.asarray(y)
        is_float = _core.isdtype(t.dtype, "real floating")
        if tops is not None:
            if not _pytree.is_below(path, tops):
                continue
        elif not is_float and path:
            # A count or a mask beside the loss.
            continue
        where = f" at {list(path)!r}" if path else ""
        if not is_float:
            raise DTypeError(f"{_OP}: the result{where} is {t.dtype.name}, not a real float")
        if t.size != 1:
            raise ShapeError(
                f"{_OP}: the result{where} has the shape {t.shape}, but one element is differentiated;"
                " reduce it, or use jac"
            )
        wanted.append(i)
    return wanted


def _finite(g: Any) -> Any:
    return _core.where(_core.isfinite(g), g, 0)
