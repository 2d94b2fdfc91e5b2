"""Compares the results of a model before and after conversion."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import _clematis as _core
from ..errors import ConvertError, ShapeError
from .tree_structure import unflatten, flatten

# The tolerance relative to the largest value: rounding errors accumulate over the depth of a model, and a mistake is
# rarely as small as this.
_TOLERANCES = {"float64": 1e-8, "complex128": 1e-8, "float16": 5e-2, "bfloat16": 5e-2}
_TOLERANCE = 1e-3

Run = Callable[[tuple[Any, ...], dict[str, Any]], Any]


@dataclass(frozen=True)
class Compared:
    """The errors of one result of the converted model on one input."""

    inputs: str
    output: int
    shape: tuple[int, ...]
    dtype: str
    absolute: float
    relative: float
    allowed: float


@dataclass(frozen=True)
class Report:
    """The comparison of a conversion; attribute `report` of the converted model."""

    source: str
    target: str
    rows: tuple[Compared, ...]

    @property
    def absolute(self) -> float:
        """The largest difference of all."""
        return max((row.absolute for row in self.rows), default=0.0)

    @property
    def relative(self) -> float:
        """The largest difference as a part of the result's largest value."""
        return max((row.relative for row in self.rows), default=0.0)

    @property
    def ok(self) -> bool:
        """Whether every result is within the tolerance."""
        return all(row.relative <= row.allowed for row in self.rows)

    def __str__(self) -> str:
        lines = [f"{self.source} to {self.target}: {len(self.rows)} results compared"]
        for row in self.rows:
            mark = "" if row.relative <= row.allowed else f"  more than {row.allowed:.0e}"
            place = f"{row.inputs}, output {row.output} {row.dtype}{list(row.shape)}"
            lines.append(f"  {place}: {row.absolute:.2e} absolute, {row.relative:.2e} relative{mark}")
        return "\n".join(lines)


def verified(
    source: str, target: str, before: Run, after: Run, args: tuple[Any, ...], kwargs: dict[str, Any],
    tolerance: float | None, after_traced: Run | None = None,
) -> Report:  # fmt: skip
    """Compares two models on the examples, on random inputs like them, and at another batch size if both take one.

    `after_traced` runs the new model where its framework traces it with an unknown batch size.
    """
    leaves, shape = flatten((args, kwargs))
    examples = [_core.asarray(x).numpy() for x in leaves]
    rows: list[Compared] = []

    def compare(name: str, wanted: list[Any], got: list[Any]) -> None:
        if len(wanted) != len(got):
            raise ConvertError(f"{source} to {target}: {len(got)} results on {name}, {len(wanted)} before")
        rows.extend(_compared(name, i, a, b, tolerance) for i, (a, b) in enumerate(zip(wanted, got, strict=True)))

    for name, given in (("the example", examples), ("a random input", [_like(x, i) for i, x in enumerate(examples)])):
        args, kwargs = unflatten(shape, list(given))
        compare(name, _host(before(args, kwargs)), _host(after(args, kwargs)))
    args, kwargs = unflatten(shape, _at_another_batch(examples))
    both = _both_or_none(before, after_traced or after, args, kwargs)
    if both is not None:
        compare("another batch size", *both)
    report = Report(source, target, tuple(rows))
    if not report.ok:
        raise ConvertError(
            f"the converted model computes something else; {report}\n`verify=False` takes it all the same"
        )
    return report


def _at_another_batch(examples: list[Any]) -> list[Any]:
    """Random inputs of one row more: the batch is the first axis of the first array, and of those that agree with it."""
    batch = next((x.shape[0] for x in examples if x.ndim), None)
    shapes = [(x.shape[0] + 1, *x.shape[1:]) if x.ndim and x.shape[0] == batch else x.shape for x in examples]
    return [_like(x, i, shape) for i, (x, shape) in enumerate(zip(examples, shapes, strict=True))]


def _both_or_none(before: Run, after: Run, args: Any, kwargs: Any) -> tuple[list[Any], list[Any]] | None:
    """The results of both models; None where one of them is made for the example's batch size alone."""
    try:
        wanted = _host(before(args, kwargs))
    except Exception:  # noqa: BLE001 - a framework's model may refuse in any way
        return None
    try:
        return wanted, _host(after(args, kwargs))
    except (ConvertError, ShapeError):
        return None


def _like(x: Any, number: int, shape: tuple[int, ...] | None = None) -> Any:
    """Random values of an array's shape (or of another), type and range."""
    import numpy as np

    draws, shape = np.random.default_rng(number), x.shape if shape is None else shape
    if x.size == 0 or x.dtype.kind == "b":
        return draws.integers(0, 2, shape).astype(x.dtype)
    if x.dtype.kind in "iu":
        return draws.integers(x.min(), int(x.max()) + 1, shape).astype(x.dtype)
    parts = [np.nan_to_num(np.asarray(p, "float64")) for p in ([x.real, x.imag] if x.dtype.kind == "c" else [x])]
    drawn = [draws.normal(p.mean(), p.std() or 1.0, shape) for p in parts]
    return (drawn[0] + 1j * drawn[1] if len(drawn) == 2 else drawn[0]).astype(x.dtype)


def _host(result: Any) -> list[Any]:
    """The arrays of a result, as numpy's."""
    if hasattr(result, "to_tuple"):
        result = result.to_tuple()
    found = flatten(result)[0]
    return [_core.asarray(x.detach() if hasattr(x, "detach") else x).numpy() for x in found]


def _compared(inputs: str, output: int, wanted: Any, got: Any, tolerance: float | None) -> Compared:
    import numpy as np

    if wanted.shape != got.shape:
        raise ConvertError(f"output {output} on {inputs} has shape {list(got.shape)}, before {list(wanted.shape)}")
    wide = "complex128" if "c" in (wanted.dtype.kind, got.dtype.kind) else "float64"
    a, b = np.asarray(wanted, wide), np.asarray(got, wide)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        finite = np.abs(a[np.isfinite(a)])
    # One side infinite or not a number, the other not: no tolerance covers that.
    worst = float(np.max(np.where(np.isnan(apart), np.inf, apart), initial=0.0))
    scale = max(float(np.max(finite, initial=0.0)), 1e-2)
    name = str(wanted.dtype)
    allowed = tolerance if tolerance is not None else _TOLERANCES.get(name, _TOLERANCE)
    return Compared(inputs, output, tuple(wanted.shape), name, worst, worst / scale, allowed)
