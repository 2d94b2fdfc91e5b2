"""Where the numbers of a run go: CSV, JSON lines, TensorBoard; and the progress bar.

Each is a callback of the trainer. A run that goes on drops the lines that were written after its checkpoint, so files
are as if it had not been interrupted. What is slow to import is imported where it is used.
"""

import math
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from .. import _clematis as _core

Row = Mapping[str, Any]


class Callback:
    """What is told how a run goes; subclasses define what they need. `trainer.stop = True` ends the run.

    >>> class Enough(cm.Callback):
    ...     def on_step(self, trainer, row):
    ...         trainer.stop = row["loss"] < 1
    >>> v = {"w": cm.asarray(3.0)}
    >>> trainer = cm.Trainer(v, lambda v, x: (v["w"] - x) ** 2, cm.optim.SGD(0.25), callbacks=[Enough()])
    >>> _ = trainer.fit([0.0], epochs=100)
    >>> trainer.steps
    3
    """

    def on_start(self, trainer: Any) -> None:
        """Before the first step of `fit`."""

    def on_step(self, trainer: Any, row: Row) -> None:
        """After each step; the row has `step`, `epoch`, `loss`, `lr` and what the loss function told besides."""

    def on_epoch(self, trainer: Any, row: Row) -> None:
        """After each epoch; the row has means over the epoch, and those of the validation as `val_…`."""

    def on_end(self, trainer: Any) -> None:
        """When `fit` ends, also by an error."""


class _Function(Callback):
    def __init__(self, function: Any) -> None:
        self.function = function

    def on_epoch(self, trainer: Any, row: Row) -> None:
        self.function(trainer, row)


def as_callback(x: Any) -> Callback:
    """A callback as it is; a function is called after each epoch."""
    return x if hasattr(x, "on_epoch") or hasattr(x, "on_step") else _Function(x)


def as_log(target: Any, every: int) -> Callback:
    """Where to write, by the name: `.csv`, `.jsonl`, or a folder for TensorBoard."""
    if not isinstance(target, (str, os.PathLike)):
        return as_callback(target)
    name = os.fspath(target)
    if name.endswith(".csv"):
        return CSVLog(name)
    if name.endswith((".jsonl", ".json")):
        return JSONLog(name, every)
    return TensorBoardLog(name, every)


def _number(x: Any) -> Any:
    """JSON has no infinite numbers."""
    return None if isinstance(x, float) and not math.isfinite(x) else x


class JSONLog(Callback):
    """A line for every so many steps and for each epoch: `{"kind": "step", "step": 10, "loss": 0.5, …}`."""

    def __init__(self, path: str, every: int = 1) -> None:
        self.path, self.every = path, every

    def on_start(self, trainer: Any) -> None:
        """Keeps the lines up to where the run stands."""
        import json

        kept = []
        if trainer.steps and os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                for line in file:
                    try:
                        is_old = json.loads(line)["step"] <= trainer.steps
                    except (ValueError, KeyError, TypeError):
                        # The last line of a run that was killed may be half a line.
                        continue
                    if is_old:
                        kept.append(line)
        folder = os.path.dirname(self.path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        _core._write_file(self.path, "".join(kept).encode())  # type: ignore[attr-defined]

    def _write(self, kind: str, row: Row) -> None:
        import json

        values = {"kind": kind, **{name: _number(x) for name, x in row.items()}}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")

    def on_step(self, trainer: Any, row: Row) -> None:
        """A line, every so many steps."""
        if row["step"] % self.every == 0:
            self._write("step", row)

    def on_epoch(self, trainer: Any, row: Row) -> None:
        """A line."""
        self._write("epoch", row)


class CSVLog(Callback):
    """A line for each epoch, under the names of its numbers."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._rows: list[dict[str, Any]] = []

    def on_start(self, trainer: Any) -> None:
        """The epochs so far are the trainer's history."""
        self._rows = [dict(row) for row in trainer.history]
        folder = os.path.dirname(self.path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        self._write()

    def _write(self) -> None:
        import csv
        import io

        names = list(dict.fromkeys(name for row in self._rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._rows)
        # A new name makes another header; epochs are few.
        _core._write_file(self.path, text.getvalue().encode())  # type: ignore[attr-defined]

    def on_epoch(self, trainer: Any, row: Row) -> None:
        """A line."""
        self._rows.append(dict(row))
        self._write()


class TensorBoardLog(Callback):
    """Event files in a folder: `step/loss` for every so many steps, `epoch/loss` for each epoch."""

    def __init__(self, folder: str, every: int = 1) -> None:
        self.folder, self.every = folder, every
        self._file: Any = None
        self._from = 0

    def on_start(self, trainer: Any) -> None:
        """Remembers where the run goes on."""
        self._from = trainer.steps

    def _write(self, kind: str, row: Row) -> None:
        if self._file is None:
            from .events import EventFile

            self._file = EventFile(self.folder)
            if self._from:
                self._file.start(self._from + 1)
        scalars = {f"{kind}/{name}": float(x) for name, x in row.items() if name not in ("step", "epoch")}
        self._file.write(int(row["step"]), scalars)

    def on_step(self, trainer: Any, row: Row) -> None:
        """Scalars, every so many steps."""
        if row["step"] % self.every == 0:
            self._write("step", row)

    def on_epoch(self, trainer: Any, row: Row) -> None:
        """Scalars."""
        self._write("epoch", row)

    def on_end(self, trainer: Any) -> None:
        """Closes the file; the next run begins another."""
        if self._file is not None:
            self._file.close()
            self._file = None


class Progress(Callback):
    """A line on the terminal that tells how far the epoch is."""

    WIDTH = 24

    def __init__(self, stream: Any = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self._last, self._begin, self._steps = 0.0, 0.0, 0

    def on_start(self, trainer: Any) -> None:
        """The clock starts."""
        self._begin, self._steps, self._last = time.monotonic(), trainer.steps, 0.0

    def _show(self, text: str, end: str = "") -> None:
        self.stream.write(f"\r\x1b[K{text}{end}")
        self.stream.flush()

    def on_step(self, trainer: Any, row: Row) -> None:
        """At most ten times a second."""
        now = time.monotonic()
        if now - self._last < 0.1:
            return
        self._last = now
        done, total = trainer.progress
        speed = (trainer.steps - self._steps) / max(now - self._begin, 1e-9)
        filled = 0 if not total else min(self.WIDTH, self.WIDTH * done // total)
        bar = f"[{'=' * filled}{' ' * (self.WIDTH - filled)}] {done}/{total}" if total else str(done)
        self._show(f"epoch {row['epoch']} {bar}  loss {row['loss']:.4g}  {speed:.1f} steps/s")

    def on_epoch(self, trainer: Any, row: Row) -> None:
        """One line stays."""
        numbers = "  ".join(f"{name} {x:.4g}" for name, x in row.items() if name not in ("step", "epoch"))
        self._show(f"epoch {row['epoch']}  step {row['step']}  {numbers}", "\n")

    def on_end(self, trainer: Any) -> None:
        """Nothing of the bar stays behind."""
        self._show("")
