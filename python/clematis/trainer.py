"""A small training loop. It does nothing that ten lines of a user's own could not: docs/training.md shows them."""

import contextlib
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _clematis as _core
from . import _pytree
from ._module.build import take
from ._module.roles import put_buffers, training_flags_kept
from ._placement import backend_of_tree, moved
from ._trainer import checkpoint as _checkpoint
from ._trainer.log import Callback, Progress, as_callback, as_log
from .data import Source, Stream
from .errors import ArgumentError, DTypeError, ShapeError
from .module import Module
from .optim.leaves import entries, placed
from .optim.optimizer import rate
from .optim.schedules import Schedule, number, whole

__all__ = ["Callback", "Trainer"]


class Trainer:
    """Trains a model: a module, or any tree of parameters.

    `loss(model, batch)` returns one number, or that and a dict of other numbers to be told. `metrics` are functions of
    the same arguments that `evaluate` uses besides. `log` names files: `.csv`, `.jsonl`, a folder for TensorBoard.
    `checkpoint` is a file that is written after each epoch, and every so many steps if `save_every` says so; `best` is
    one that is written when the monitored number is better than before. With `jit` a step is one program: the loss
    function is then traced, so it reads no values, and what it does besides its results is done once.

    >>> net = cm.nn.Linear(1, 1)
    >>> x = cm.asarray([[0.0], [1.0], [2.0], [3.0]])
    >>> data = cm.data.Batches((x, 2 * x), 2, key=cm.random.key(0))
    >>> trainer = cm.Trainer(net, lambda net, batch: cm.mean((net(batch[0]) - batch[1]) ** 2), cm.optim.Adam(0.1))
    >>> history = trainer.fit(data, epochs=30)
    >>> history[-1]["loss"] < history[0]["loss"], trainer.steps
    (True, 60)
    """

    def __init__(
        self,
        model: Any,
        loss: Callable[[Any, Any], Any],
        optimizer: Any,
        *,
        metrics: Mapping[str, Callable[[Any, Any], Any]] | None = None,
        clip_norm: float | None = None,
        callbacks: Iterable[Any] = (),
        log: Any = (),
        log_every: int = 1,
        checkpoint: str | os.PathLike[str] | None = None,
        save_every: int | None = None,
        best: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
        jit: bool = False,
    ) -> None:
        if not callable(loss):
            raise ArgumentError(f"Trainer: loss is a function of a model and a batch, not {type(loss).__name__}")
        if not hasattr(optimizer, "step") or not hasattr(optimizer, "set_state"):
            raise ArgumentError(f"Trainer: an optimiser was expected, not {type(optimizer).__name__}")
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.metrics = dict(metrics or {})
        self.clip_norm = None if clip_norm is None else number("Trainer: clip_norm", clip_norm)
        every = whole("Trainer: log_every", log_every)
        logs = [log] if isinstance(log, (str, os.PathLike)) else list(log)
        self.callbacks = [*(as_log(x, every) for x in logs), *map(as_callback, callbacks)]
        if progress or progress is None and sys.stderr is not None and sys.stderr.isatty():
            self.callbacks.append(Progress())
        self.checkpoint, self.best_file = checkpoint, best
        self.save_every = None if save_every is None else whole("Trainer: save_every", save_every)
        # Where the run stands: all of it is in a checkpoint.
        self.steps, self.epochs, self.history = 0, 0, []  # type: ignore[var-annotated]
        self.best: float | None = None
        self.worse = 0
        self._sums: dict[str, list[float]] = {}
        self.place: dict[str, Any] = {}
        # Set by a callback to end the run after this step.
        self.stop = False
        self.progress: tuple[int, int | None] = (0, None)
        self._program: Any = self._jitted() if jit else None

    # One step.

    def step(self, batch: Any) -> dict[str, Any]:
        """One step on one batch; what it returns has `loss` and what the loss function told besides.

        After an error parameters, buffers, the optimiser and the random stream are as they were.
        """
        if self._program is not None:
            return self._program_step(batch)
        before = self._before()
        batch = moved(batch, backend_of_tree(self._values()))
        try:
            (_, (loss, told)), grads = _core.value_and_grad(lambda model: self._losses(model, batch), has_aux=True)(
                self.model
            )
            row = {"loss": self._finite("loss", loss), **{name: _plain(x) for name, x in told.items()}}
            if self.clip_norm is not None:
                grads = self._clipped(grads)
            self.model = self.optimizer.step(self.model, grads)
        except BaseException as error:
            self._back(before)
            if isinstance(error, Exception):
                error.add_note(f"in step {self.steps + 1} of the trainer; nothing was changed by it")
            raise
        self.steps += 1
        return row

    def _jitted(self) -> Any:
        """The whole step as one program."""
        from ._jit.function import jit
        from .optim.optimizer import Optimizer

        if not isinstance(self.optimizer, Optimizer) or not self.optimizer.inplace:
            name = type(self.optimizer).__name__
            raise ArgumentError(f"Trainer: jit takes an optimiser that works in place on its own, not {name}")

        def step(model: Any, optimizer: Any, batch: Any) -> Any:
            (_, (loss, told)), grads = _core.value_and_grad(lambda model: self._losses(model, batch), has_aux=True)(
                model
            )
            length = None
            if self.clip_norm is not None:
                length = _core._tree.global_norm(grads)
                grads = _core._tree.clip_by_global_norm(grads, self.clip_norm)
            optimizer.step(model, grads)
            return loss, told, length

        return jit(step)

    def _program_step(self, batch: Any) -> dict[str, Any]:
        buffers, random = self._before()
        params = self.model.v.copy() if isinstance(self.model, Module) else _pytree.replaced(self.model, {})
        count, moments = self.optimizer._step, {path: list(x) for path, x in self.optimizer._moments.items()}
        try:
            loss, told, length = self._program(self.model, self.optimizer, batch)
            row = {"loss": self._finite("loss", loss), **{name: _plain(x) for name, x in told.items()}}
            if length is not None:
                self._finite("length of the gradient", length)
        except BaseException as error:
            # The program may have run to its end before something was found wrong.
            if isinstance(self.model, Module):
                take(self.model, params, partial=False, checked=False)
            else:
                placed(self.model, dict(entries(params)), inplace=True)
            self.optimizer._step, self.optimizer._moments = count, moments
            self._back((buffers, random))
            if isinstance(error, Exception):
                error.add_note(f"in step {self.steps + 1} of the trainer; nothing was changed by it")
            raise
        self.steps += 1
        return row

    def _losses(self, model: Any, batch: Any) -> Any:
        """What is differentiated, and what is told."""
        loss, told = _parted(self.loss(model, batch))
        self._check(loss)
        scaled = self.optimizer.scaled(loss) if hasattr(self.optimizer, "scaled") else loss
        return scaled, (_core.stop_gradient(loss), told)

    def _check(self, loss: Any) -> None:
        if not _core._tree.is_array(loss):
            raise DTypeError(f"Trainer: the loss of step {self.steps + 1} is {type(loss).__name__}, not a tensor")
        if math.prod(loss.shape) != 1:
            shape = tuple(loss.shape)
            raise ShapeError(f"Trainer: the loss of step {self.steps + 1} has the shape {shape}, but is one number")

    def _finite(self, what: str, x: Any) -> float:
        value = _plain(x)
        if not math.isfinite(value):
            raise ArgumentError(f"Trainer: the {what} of step {self.steps + 1} is {value}")
        return value

    def _clipped(self, grads: Any) -> Any:
        if hasattr(self.optimizer, "scaled"):
            # The optimiser leaves such a step out, and clips nothing by a scaled length.
            most = self.clip_norm * self.optimizer.scale
            return _core._tree.clip_by_global_norm(grads, most)
        self._finite("length of the gradient", _core._tree.global_norm(grads))
        return _core._tree.clip_by_global_norm(grads, self.clip_norm)

    def _before(self) -> Any:
        """What a step may change before the optimiser is asked."""
        buffers = self.model.buffers() if isinstance(self.model, Module) else None
        return buffers, _core._random.get_state()

    def _back(self, before: Any) -> None:
        buffers, random = before
        if buffers is not None:
            put_buffers(self.model, buffers)
        _core._random.set_state(random)

    # Many steps.

    def fit(
        self,
        data: Any,
        *,
        epochs: int | None = None,
        steps: int | None = None,
        validation: Any = None,
        monitor: str | None = None,
        patience: int | None = None,
        min_delta: float = 0.0,
        higher_is_better: bool = False,
    ) -> list[dict[str, Any]]:
        """Trains until so many epochs or steps were done in all, those before a checkpoint included.

        `monitor` is the number that tells which epoch is best (`val_loss`, or `loss` without validation); with
        `patience` the run ends after so many epochs that were no better by `min_delta`. Returns a row for each epoch.
        """
        if epochs is None and steps is None:
            raise ArgumentError("Trainer: how many epochs or steps?")
        last_epoch = math.inf if epochs is None else whole("Trainer: epochs", epochs, 0)
        last_step = math.inf if steps is None else whole("Trainer: steps", steps, 0)
        patience = None if patience is None else whole("Trainer: patience", patience)
        monitor = monitor or ("loss" if validation is None else "val_loss")
        source = data if isinstance(data, Source) else Stream(data)
        if self.place:
            # At the end of an epoch other data may follow; in the middle of one there is no place in it.
            source.set_state(self.place if self.place["index"] else {**source.state, "epoch": self.epochs, "index": 0})
        self.stop = False
        self._tell("on_start")
        flags = contextlib.ExitStack()
        if isinstance(self.model, Module):
            flags.enter_context(training_flags_kept(self.model))
        try:
            while self.epochs < last_epoch and self.steps < last_step and not self.stop:
                self._mode(True)
                if not self._epoch(source, last_step):
                    break
                row = self._epoch_row(validation)
                self._judge(row, monitor, min_delta, higher_is_better)
                self.epochs, self._sums = self.epochs + 1, {}
                self.history.append(row)
                self._tell("on_epoch", row)
                self._save()
                if patience is not None and self.worse >= patience:
                    break
        finally:
            flags.close()
            self._tell("on_end")
        return self.history

    def _epoch(self, source: Source, last_step: float) -> bool:
        """The rest of an epoch; whether its end was reached."""
        total = _length(source)
        batches = iter(source)
        try:
            while True:
                if self.steps >= last_step or self.stop:
                    # The end of the data may be right here.
                    return total is not None and source.state["index"] >= total and self._ends(batches, source)
                batch = self._next(batches, source, total)
                if batch is _END:
                    self.place = source.state
                    return True
                row = {"step": self.steps + 1, "epoch": self.epochs + 1, **self.step(batch)}
                self.place = source.state
                lr = getattr(self.optimizer, "lr", None)
                if isinstance(lr, (Schedule, int, float)):
                    row["lr"] = rate("Trainer", lr, max(self.optimizer.steps - 1, 0))
                self._add(row, batch)
                self.progress = (source.state["index"], total)
                self._tell("on_step", row)
                if self.save_every is not None and self.steps % self.save_every == 0:
                    self._save()
        finally:
            batches.close()

    def _next(self, batches: Any, source: Source, total: int | None) -> Any:
        place = source.state
        try:
            return next(batches)
        except StopIteration:
            given = place["index"]
            if total is not None and given < total:
                raise ArgumentError(
                    f"Trainer: the data ended after {given} of {total} batches in epoch {self.epochs + 1}"
                ) from None
            if not given:
                raise ArgumentError(f"Trainer: the data has no batch in epoch {self.epochs + 1}") from None
            return _END
        except Exception as error:
            error.add_note(
                f"while batch {place['index'] + 1} of epoch {self.epochs + 1} was fetched, after step {self.steps}"
            )
            raise

    def _ends(self, batches: Any, source: Source) -> bool:
        if self._next(batches, source, None) is _END:
            self.place = source.state
            return True
        return False

    def _add(self, row: Mapping[str, Any], batch: Any) -> None:
        """Means over an epoch count rows, not batches."""
        rows = _rows(batch)
        for name, x in row.items():
            if name not in ("step", "epoch", "lr") and isinstance(x, float):
                total = self._sums.setdefault(name, [0.0, 0.0])
                self._sums[name] = [total[0] + x * rows, total[1] + rows]

    def _epoch_row(self, validation: Any) -> dict[str, Any]:
        row: dict[str, Any] = {"epoch": self.epochs + 1, "step": self.steps}
        row |= {name: total / max(rows, 1) for name, (total, rows) in self._sums.items()}
        if validation is not None:
            row |= {f"val_{name}": x for name, x in self.evaluate(validation).items()}
        return row

    def _judge(self, row: Mapping[str, Any], monitor: str, min_delta: float, higher_is_better: bool) -> None:
        if monitor not in row:
            raise ArgumentError(f"Trainer: monitor is {monitor!r}, but an epoch tells {', '.join(row)}")
        value = -row[monitor] if higher_is_better else row[monitor]
        if not math.isnan(value) and (self.best is None or value < self.best - min_delta):
            self.best, self.worse = value, 0
            if self.best_file is not None:
                _core.save(self.best_file, _checkpoint.parts_as_tree(self.model))
        else:
            self.worse += 1

    def evaluate(self, data: Any) -> dict[str, float]:
        """Means of the loss and the metrics over data, out of training mode; nothing is changed by it."""
        flags = contextlib.ExitStack()
        if isinstance(self.model, Module):
            flags.enter_context(training_flags_kept(self.model))
        before = self._before()
        sums: dict[str, float] = {}
        count = 0
        try:
            self._mode(False)
            # Always the first epoch, so that it does not matter how often this was asked before.
            for given in data._epoch(0, 0) if isinstance(data, Source) else data:
                batch = moved(given, backend_of_tree(self._values()))
                loss, told = _parted(self.loss(self.model, batch))
                told = {"loss": loss, **told, **{name: f(self.model, batch) for name, f in self.metrics.items()}}
                rows = _rows(batch)
                count += rows
                for name, x in told.items():
                    sums[name] = sums.get(name, 0.0) + _plain(x) * rows
        finally:
            flags.close()
            self._back(before)
        if not count:
            raise ArgumentError("Trainer: the data to evaluate has no batch")
        return {name: total / count for name, total in sums.items()}

    def _values(self) -> Any:
        """The parameters, whose backend arrays of a batch follow."""
        return self.model.v if isinstance(self.model, Module) else self.model

    def _mode(self, training: bool) -> None:
        if isinstance(self.model, Module):
            self.model.train(training)

    def _tell(self, event: str, *args: Any) -> None:
        for callback in self.callbacks:
            method = getattr(callback, event, None)
            if method is not None:
                method(self, *args)

    # Files.

    def _save(self) -> None:
        if self.checkpoint is not None:
            self.save(self.checkpoint)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes parameters, buffers, the optimiser's state, the random stream, the place in the data and the history."""
        _checkpoint.save(path, self)

    def load(self, path: str | os.PathLike[str]) -> "Trainer":
        """Goes on from a file: the run is then the same, to the bit, as one that was never interrupted."""
        _checkpoint.load(path, self)
        return self

    def resume(self) -> bool:
        """Goes on from the checkpoint, if there is one; whether there was."""
        if self.checkpoint is None or not os.path.exists(self.checkpoint):
            return False
        self.load(self.checkpoint)
        return True

    def run_state(self) -> dict[str, Any]:
        """Where the run stands, as plain numbers."""
        return {
            "steps": self.steps, "epochs": self.epochs, "history": self.history, "best": self.best,
            "worse": self.worse, "sums": self._sums,
        }  # fmt: skip

    def set_run_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `run_state` told."""
        steps, epochs = whole("Trainer: steps", state["steps"], 0), whole("Trainer: epochs", state["epochs"], 0)
        self.steps, self.epochs, self.history = steps, epochs, list(state["history"])
        self.best, self.worse, self._sums = state["best"], state["worse"], dict(state["sums"])


_END = object()


def _length(source: Source) -> int | None:
    try:
        return len(source)  # type: ignore[arg-type]
    except TypeError:
        return None


def _rows(batch: Any) -> int:
    """The number of rows of a batch: that of its first array with axes."""
    for x in _core._tree.leaves(batch):
        if len(x.shape):
            return int(x.shape[0])
    return 1


def _parted(out: Any) -> tuple[Any, dict[str, Any]]:
    """What a loss function returned: the loss, and what it tells besides."""
    if isinstance(out, tuple) and len(out) == 2 and isinstance(out[1], Mapping):
        return out[0], dict(out[1])
    return out, {}


def _plain(x: Any) -> float:
    """A number of Python's."""
    return float(_core.reshape(_core.asarray(x), ()) if _core._tree.is_array(x) else x)
