"""Steps of meta-learning: variables from which a few steps of gradient descent lead to a good place on any task.

A batch is a container whose arrays have one task per entry of their first axis. For each task the inner cost is
descended from the variables; the gradient of the outer cost after that is what the step returns. `maml_step`
differentiates through the descent, `fomaml_step` takes the gradient at its end for it, and `reptile_step` the mean of
the inner gradients.

With `batched` the variables have the axis of tasks, too, and the cost is the mean over all of them; otherwise tasks
come one after the other, each with an axis of one task, and the variables have no such axis.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from . import _clematis as _core
from .container import Container
from .errors import ArgumentError, StructureError
from .gradients import execute_with_gradients

__all__ = ["fomaml_step", "maml_step", "reptile_step"]

Cost: TypeAlias = Callable[[Any, Any], Any]
Step: TypeAlias = Callable[..., Any]
Choice: TypeAlias = bool | Literal["all", "first"]


class _Settings(NamedTuple):
    """What the three methods have in common, by the names of their arguments, and where they differ."""

    op: str
    inner_cost_fn: Cost
    inner_grad_steps: int
    inner_learning_rate: Any
    inner_optimization_step: Step
    outer_cost_fn: Cost | None = None
    second_order: bool = False
    inner_batch_fn: Callable[[Any], Any] | None = None
    outer_batch_fn: Callable[[Any], Any] | None = None
    average_across_steps: bool = False
    batched: bool = True
    inner_v: Any = None
    keep_inner_v: bool = True
    outer_v: Any = None
    keep_outer_v: bool = True
    return_inner_v: Choice = False
    stop_gradients: bool = True

    @classmethod
    def of(cls, op: str, given: dict[str, Any], **more: Any) -> "_Settings":
        """Those among the arguments of a function, checked."""
        self = cls(op, **{name: x for name, x in {**given, **more}.items() if name in cls._fields})
        steps, choice = self.inner_grad_steps, self.return_inner_v
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise ArgumentError(f"{op}: inner_grad_steps is a whole number from 1 on, not {steps!r}")
        if choice not in (False, True, "all", "first"):
            raise ArgumentError(f'{op}: return_inner_v is False, True, "all" or "first", not {choice!r}')
        return self


def _part(variables: Container, chains: Any, keep: bool) -> Container:
    """The variables at these paths, or all others."""
    if chains is None:
        return variables
    return variables.at_key_chains(chains) if keep else variables.prune_key_chains(chains)


def _gradients(cost: Cost, batch: Any, variables: Container, part: Container, scale: int, retain: bool) -> Any:
    """A cost and its gradient by a part of the variables; several times it where the cost is a mean over tasks."""
    value, gradients = execute_with_gradients(
        lambda v: cost(batch, variables.set_at_key_chains(v)), part, retain_grads=retain
    )
    return value, gradients * scale if scale != 1 else gradients


def _sum(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _task(
    s: _Settings, batch: Any, variables: Container, tasks: int, inner_v: Any, outer_v: Any
) -> tuple[Any, Any, Any]:
    """Descends for one task, or for all at once: cost, gradient (None for second order) and variables at the end."""
    inner = batch if s.inner_batch_fn is None else s.inner_batch_fn(batch)
    outer = batch if s.outer_batch_fn is None else s.outer_batch_fn(batch)
    outer_cost = s.inner_cost_fn if s.outer_cost_fn is None else s.outer_cost_fn
    scale = tasks if s.batched else 1
    costs, gradients = [], []

    def look(cost: Cost, data: Any) -> None:
        """Notes the outer cost where the variables are now."""
        if s.second_order:
            costs.append(cost(data, variables))
            return
        value, g = _gradients(cost, data, variables, _part(variables, outer_v, s.keep_outer_v), scale, False)
        costs.append(value)
        gradients.append(g)

    # Then the gradient of the descent is the one to be noted.
    is_same = not s.second_order and inner is outer and s.outer_cost_fn is None and inner_v is None and outer_v is None
    for _ in range(s.inner_grad_steps):
        part = _part(variables, inner_v, s.keep_inner_v)
        value, g = _gradients(s.inner_cost_fn, inner, variables, part, scale, s.second_order)
        if s.average_across_steps and is_same:
            costs.append(value)
            gradients.append(g)
        elif s.average_across_steps:
            look(outer_cost, outer)
        stop = s.stop_gradients and not s.second_order
        moved = s.inner_optimization_step(part, g, s.inner_learning_rate, stop_gradients=stop)
        variables = variables.set_at_key_chains(moved)
    look(outer_cost, outer)
    count = len(costs) if s.average_across_steps else 1
    gradient = None if s.second_order else _sum(gradients[-count:]) / count
    return _sum(costs[-count:]) / count, gradient, variables


def _tasks(s: _Settings, batch: Any, variables: Container, tasks: int) -> tuple[Any, Any, Any]:
    """All tasks: mean cost, mean gradient, and the variables that were asked for."""
    if s.batched:
        cost, gradient, moved = _task(s, batch, variables, tasks, s.inner_v, s.outer_v)
        moved = moved[:1] if s.return_inner_v == "first" else moved
        return cost, None if gradient is None else gradient.mean(axis=0), moved if s.return_inner_v else None
    costs, gradients, moves = [], [], []
    for i in range(tasks):
        inner_v, outer_v = _of_task(s.inner_v, i), _of_task(s.outer_v, i)
        cost, gradient, moved = _task(s, _sliced(batch, i), variables, tasks, inner_v, outer_v)
        costs.append(cost)
        gradients.append(gradient)
        moves.append(moved)
    moves = moves[:1] if s.return_inner_v == "first" else moves
    gradient = None if s.second_order else _sum(gradients) / tasks
    return _sum(costs) / tasks, gradient, _core.stack(moves) if s.return_inner_v else None


def _sliced(batch: Any, i: int) -> Any:
    """The part of one task, with an axis of one."""
    return _core._tree.map(lambda x: x[i : i + 1], batch)


def _of_task(chains: Any, i: int) -> Any:
    """The paths for one task, where they are given for each."""
    if isinstance(chains, (list, tuple)) and any(x is None or isinstance(x, (list, tuple, dict)) for x in chains):
        return chains[i]
    return chains


def _begin(op: str, batch: Any, variables: Any, num_tasks: int | None) -> tuple[Any, Container, int]:
    if not isinstance(variables, dict):
        raise StructureError(f"{op}: variables are a container or a dict, not {type(variables).__name__}")
    batch = Container(batch) if isinstance(batch, dict) else batch
    if num_tasks is None:
        leaves = _core._tree.leaves(batch)
        if not leaves or not len(leaves[0].shape):
            raise ArgumentError(f"{op}: the batch has no axis of tasks; give num_tasks")
        num_tasks = int(leaves[0].shape[0])
    if num_tasks < 1:
        raise ArgumentError(f"{op}: there are {num_tasks} tasks")
    return batch, Container(variables), num_tasks


def _end(variables: Any, s: _Settings, cost: Any, gradient: Any, moved: Any) -> tuple[Any, ...]:
    if s.stop_gradients:
        cost = _core.stop_gradient(cost, preserve_type=False)
        moved = moved.stop_gradient() if moved is not None else None
    if not isinstance(variables, Container):
        gradient = gradient.to_dict()
    return (cost, gradient, moved) if s.return_inner_v else (cost, gradient)


def fomaml_step(
    batch: Any,
    inner_cost_fn: Cost,
    outer_cost_fn: Cost | None,
    variables: Mapping[str, Any],
    inner_grad_steps: int,
    inner_learning_rate: Any,
    /,
    *,
    inner_optimization_step: Step = _core.gradient_descent_update,
    inner_batch_fn: Callable[[Any], Any] | None = None,
    outer_batch_fn: Callable[[Any], Any] | None = None,
    average_across_steps: bool = False,
    batched: bool = True,
    inner_v: Any = None,
    keep_inner_v: bool = True,
    outer_v: Any = None,
    keep_outer_v: bool = True,
    return_inner_v: Choice = False,
    num_tasks: int | None = None,
    stop_gradients: bool = True,
) -> tuple[Any, ...]:
    """A step of first-order MAML: the cost after the inner descent and its gradient there.

    >>> batch, variables = {"x": cm.asarray([1.0, 3.0])}, {"w": cm.asarray(0.0)}
    >>> cost = lambda batch, v: cm.mean((v["w"] - batch["x"]) ** 2)
    >>> cm.fomaml_step(batch, cost, None, variables, 1, 0.25, batched=False)
    (Tensor(1.25, float32, native), {'w': Tensor(-2.0, float32, native)})
    """
    s = _Settings.of("fomaml_step", locals())
    own, v, tasks = _begin(s.op, batch, variables, num_tasks)
    return _end(variables, s, *_tasks(s, own, v, tasks))


def reptile_step(
    batch: Any,
    cost_fn: Cost,
    variables: Mapping[str, Any],
    inner_grad_steps: int,
    inner_learning_rate: Any,
    /,
    *,
    inner_optimization_step: Step = _core.gradient_descent_update,
    batched: bool = True,
    return_inner_v: Choice = False,
    num_tasks: int | None = None,
    stop_gradients: bool = True,
) -> tuple[Any, ...]:
    """A step of Reptile: the mean cost along the inner descent, and the mean gradient there divided by the inner rate.

    Costs and gradients are those before each of the `inner_grad_steps` steps and after the last. A descent along what
    comes out moves the variables towards where the inner descents end. `cost_fn(batch, variables)` gives the cost of a
    task; with `return_inner_v` the variables at the end come out, too.

    >>> batch, variables = {"x": cm.asarray([1.0, 3.0])}, {"w": cm.asarray(0.0)}
    >>> cost = lambda batch, v: cm.mean((v["w"] - batch["x"]) ** 2)
    >>> cm.reptile_step(batch, cost, variables, 1, 0.25, batched=False)
    (Tensor(3.125, float32, native), {'w': Tensor(-12.0, float32, native)})
    """
    s = _Settings.of("reptile_step", locals(), inner_cost_fn=cost_fn, average_across_steps=True)
    own, v, tasks = _begin(s.op, batch, variables, num_tasks)
    cost, gradient, moved = _tasks(s, own, v, tasks)
    return _end(variables, s, cost, gradient / inner_learning_rate, moved)


def maml_step(
    batch: Any,
    inner_cost_fn: Cost,
    outer_cost_fn: Cost | None,
    variables: Mapping[str, Any],
    inner_grad_steps: int,
    inner_learning_rate: Any,
    /,
    *,
    inner_optimization_step: Step = _core.gradient_descent_update,
    inner_batch_fn: Callable[[Any], Any] | None = None,
    outer_batch_fn: Callable[[Any], Any] | None = None,
    average_across_steps: bool = False,
    batched: bool = True,
    inner_v: Any = None,
    keep_inner_v: bool = True,
    outer_v: Any = None,
    keep_outer_v: bool = True,
    return_inner_v: Choice = False,
    num_tasks: int | None = None,
    stop_gradients: bool = True,
) -> tuple[Any, ...]:
    """A step of MAML: the cost after the inner descent, its gradient by the variables before it, and the rest.

    The rest is the variables at the end if `return_inner_v` asks for them, else an empty tuple.

    >>> batch, variables = {"x": cm.asarray([1.0, 3.0])}, {"w": cm.asarray(0.0)}
    >>> cost = lambda batch, v: cm.mean((v["w"] - batch["x"]) ** 2)
    >>> cm.maml_step(batch, cost, None, variables, 1, 0.25, batched=False)
    (Tensor(1.25, float32, native), {'w': Tensor(-1.0, float32, native)}, ())
    """
    s = _Settings.of("maml_step", locals(), second_order=True)
    own, v, tasks = _begin(s.op, batch, variables, num_tasks)

    def whole(part: Container) -> tuple[Any, Any]:
        cost, _, moved = _tasks(s, own, v.set_at_key_chains(part), tasks)
        return cost, moved

    part = _part(v, outer_v, keep_outer_v)
    (cost, moved), gradients = execute_with_gradients(whole, part, retain_grads=not stop_gradients, ret_grad_idxs=[[0]])
    gradient = gradients["0"]
    gradient = gradient.sum(axis=0) if batched else gradient
    gradient = gradient if isinstance(variables, Container) else gradient.to_dict()
    return cost, gradient, moved if return_inner_v else ()
