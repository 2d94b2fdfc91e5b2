"""Batches: from arrays in memory or from anything that Python can iterate over.

A source gives one epoch each time that it is iterated over. It knows how far it is (`source.state`, a small dict that
`cm.save` takes), and `set_state` goes on from there: the next iteration begins in the middle of that epoch. A source is
a recipe, so `map`, `batch` and `prefetch` give other sources and leave this one as it is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from . import _clematis as _core
from .errors import ArgumentError, ShapeError, StructureError

__all__ = ["Batches", "Source", "Stream"]

_tree = _core._tree


def _whole(what: str, x: Any, least: int) -> int:
    if isinstance(x, bool) or not hasattr(x, "__index__") or x.__index__() < least:
        raise ArgumentError(f"{what} is a whole number from {least} on, not {x!r}")
    return int(x.__index__())


class Source:
    """What can be iterated over again and again, an epoch each time.

    Subclasses define `_epoch(epoch, start)`, which iterates over an epoch from a place in it, and may define `__len__`.

    >>> class Count(cm.data.Source):
    ...     def _epoch(self, epoch, start):
    ...         yield from range(start, 3)
    >>> list(Count().map(lambda x: x * 10))
    [0, 10, 20]
    """

    _at = (0, 0)
    _is_restored = False

    def _epoch(self, epoch: int, start: int) -> Iterator[Any]:
        raise NotImplementedError

    def _marks(self) -> dict[str, Any]:
        """What a position is a position in: it makes no sense elsewhere."""
        return {}

    def __iter__(self) -> "_Iteration":
        epoch, index = self._at if self._is_restored else (self._at[0], 0)
        self._is_restored = False
        self._at = (epoch, index)
        return _Iteration(self, epoch, index)

    @property
    def state(self) -> dict[str, Any]:
        """How far it is: the epoch, and how many batches of it were given out."""
        return {"epoch": self._at[0], "index": self._at[1], **self._marks()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """The next iteration begins here."""
        marks = self._marks()
        wrong = [f"`{name}` is missing" for name in ("epoch", "index", *marks) if name not in state]
        wrong += [
            f"`{name}` is {marks[name]!r}, in the state {state[name]!r}"
            for name in marks
            if name in state and state[name] != marks[name]
        ]
        if wrong:
            raise StructureError(f"{type(self).__name__}: a position in other data:\n  " + "\n  ".join(wrong))
        at = tuple(_whole(f"{type(self).__name__}: {name}", state[name], 0) for name in ("epoch", "index"))
        self._at, self._is_restored = (at[0], at[1]), True

    def map(self, function: Callable[..., Any], *, key: Any = None) -> "Source":
        """A source of `function(batch)`, or of `function(batch, key)` with a key for each batch of each epoch.

        >>> list(cm.data.Stream([1, 2]).map(lambda x: x * 10))
        [10, 20]
        """
        return _Map(self, function, key)

    def batch(self, size: int, *, drop_last: bool = False) -> "Source":
        """A source of so many items on top of each other.

        >>> list(cm.data.Stream([1.0, 2.0, 3.0]).batch(2))
        [Tensor([1.0, 2.0], float32, native), Tensor([3.0], float32, native)]
        """
        return _Stack(self, size, drop_last)

    def prefetch(self, count: int = 2) -> "Source":
        """A source whose batches are made on a thread, so many ahead.

        >>> list(cm.data.Stream(range(3)).prefetch(2))
        [0, 1, 2]
        """
        return _Prefetch(self, count)


class _Iteration:
    """One epoch on its way; the source is told how far it is."""

    def __init__(self, source: Source, epoch: int, index: int) -> None:
        self._source, self._place = source, (epoch, index)
        self._inside = source._epoch(epoch, index)

    def __iter__(self) -> "_Iteration":
        return self

    def __next__(self) -> Any:
        epoch, index = self._place
        try:
            item = next(self._inside)
        except StopIteration:
            # Only once: whoever asks again has had the end before.
            if index >= 0:
                self._source._at, self._place = (epoch + 1, 0), (epoch, -1)
            raise
        self._place = self._source._at = (epoch, index + 1)
        return item

    def close(self) -> None:
        """Lets go of what makes the batches."""
        close = getattr(self._inside, "close", None)
        if close is not None:
            close()


class Batches(Source):
    """Batches of rows of arrays: an array, or a tree of arrays with the same number of rows.

    With a key the rows come in another order in every epoch: that of `cm.random.permutation(key.fold_in(epoch), rows)`,
    the same on all backends.

    >>> data = cm.data.Batches({"x": cm.asarray([1.0, 2.0, 3.0])}, 2)
    >>> [batch["x"].shape for batch in data]
    [(2,), (1,)]
    >>> len(data), data.state["epoch"]
    (2, 1)
    """

    def __init__(self, arrays: Any, batch_size: int, *, key: Any = None, drop_last: bool = False) -> None:
        self.arrays, self.key, self.drop_last = arrays, key, bool(drop_last)
        self.batch_size = _whole("Batches: batch_size", batch_size, 1)
        if key is not None and not isinstance(key, _core._random.Key):
            raise ArgumentError(f"Batches: key is one of cm.random.key, not {key!r}")
        self.rows = self._count()
        if self.rows == 0 or len(self) == 0:
            raise ArgumentError(f"Batches: {self.rows} rows make no batch of {self.batch_size}")

    def _count(self) -> int:
        """The number of rows, the same of all arrays."""
        rows: dict[str, int] = {}
        for path, x in zip(_tree.paths(self.arrays), _tree.leaves(self.arrays), strict=True):
            if not len(x.shape):
                raise ShapeError(f"Batches: `{path}` has no rows: it is a single number, not an array")
            rows[path] = int(x.shape[0])
        if not rows:
            raise ArgumentError("Batches: there is no array")
        first, count = next(iter(rows.items()))
        for path, n in rows.items():
            if n != count:
                raise ShapeError(f"Batches: `{first}` has {count} rows, `{path}` {n}")
        return count

    def _marks(self) -> dict[str, Any]:
        # Words of a key are plain numbers; so is all of this.
        words = None if self.key is None else [int(word) for word in self.key.words()]
        return {"rows": self.rows, "batch_size": self.batch_size, "drop_last": self.drop_last, "key": words}

    def __len__(self) -> int:
        return self.rows // self.batch_size if self.drop_last else -(-self.rows // self.batch_size)

    def _epoch(self, epoch: int, start: int) -> Iterator[Any]:
        order = None
        if self.key is not None:
            with _core.backend("native"):
                order = _core._random.permutation(self.key.fold_in(epoch), self.rows)
        for i in range(start, len(self)):
            rows = slice(i * self.batch_size, min((i + 1) * self.batch_size, self.rows))
            yield _tree.map(lambda x, rows=rows: _rows(x, order, rows), self.arrays)


def _rows(x: Any, order: Any, rows: slice) -> Any:
    """Rows of an array, one after the other or in an order."""
    if order is None:
        return x[rows]
    if isinstance(x, _core.Tensor):
        return _core.take(x, order[rows].to(x.backend), axis=0)
    # `asarray` takes NumPy's arrays to the current backend; all others stay where they are.
    home = "numpy" if type(x).__module__.startswith("numpy") else _core.asarray(x).backend
    return _core.take(x, order[rows].to(home).native, axis=0)


class Stream(Source):
    """The items of anything that can be iterated over; of a function, what it returns, called once an epoch.

    To go on in the middle of an epoch its first items are read and left aside.

    >>> data = cm.data.Stream([1, 2, 3])
    >>> data.set_state({"epoch": 0, "index": 2})
    >>> list(data), list(data)
    ([3], [1, 2, 3])
    """

    def __init__(self, items: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        if not callable(items) and not hasattr(items, "__iter__") and not hasattr(items, "__getitem__"):
            raise ArgumentError(f"Stream: something to iterate over was expected, not {type(items).__name__}")
        self.items = items
        self._is_spent = False

    def __len__(self) -> int:
        if callable(self.items):
            raise TypeError("Stream: the number of items is not known")
        return len(self.items)  # type: ignore[arg-type]

    def _epoch(self, epoch: int, start: int) -> Iterator[Any]:
        items = iter(self.items() if callable(self.items) else self.items)
        if items is self.items:
            # An iterator has but one epoch in it.
            if self._is_spent:
                raise ArgumentError(
                    f"Stream: this {type(items).__name__} was iterated over before, and cannot be again"
                )
            self._is_spent = True
        for i in range(start):
            try:
                next(items)
            except StopIteration:
                raise ArgumentError(
                    f"Stream: the data ends after {i} items, but {start} were given out before"
                ) from None
        yield from items


class _Map(Source):
    def __init__(self, inside: Source, function: Callable[..., Any], key: Any) -> None:
        if not callable(function):
            raise ArgumentError(f"map: a function was expected, not {type(function).__name__}")
        self._inside, self._function, self._key = inside, function, key

    def __len__(self) -> int:
        return len(self._inside)  # type: ignore[arg-type]

    def _marks(self) -> dict[str, Any]:
        return self._inside._marks()

    def _epoch(self, epoch: int, start: int) -> Iterator[Any]:
        for i, item in enumerate(self._inside._epoch(epoch, start), start):
            if self._key is None:
                yield self._function(item)
            else:
                yield self._function(item, self._key.fold_in(epoch).fold_in(i))


class _Stack(Source):
    def __init__(self, inside: Source, size: int, drop_last: bool) -> None:
        self._inside, self._size, self._drop_last = inside, _whole("batch: size", size, 1), drop_last

    def __len__(self) -> int:
        items = len(self._inside)  # type: ignore[arg-type]
        return items // self._size if self._drop_last else -(-items // self._size)

    def _marks(self) -> dict[str, Any]:
        return {**self._inside._marks(), "size": self._size}

    def _epoch(self, epoch: int, start: int) -> Iterator[Any]:
        items: list[Any] = []
        for item in self._inside._epoch(epoch, start * self._size):
            items.append(item)
            if len(items) == self._size:
                yield _tree.map(_stacked, *items)
                items = []
        if items and not self._drop_last:
            yield _tree.map(_stacked, *items)


def _stacked(*rows: Any) -> Any:
    return _core.stack(list(rows))


class _Prefetch(Source):
    def __init__(self, inside: Source, count: int) -> None:
        self._inside, self._count = inside, _whole("prefetch: count", count, 1)

    def __len__(self) -> int:
        return len(self._inside)  # type: ignore[arg-type]

    def _marks(self) -> dict[str, Any]:
        return self._inside._marks()

    def _epoch(self, epoch: int, start: int) -> Iterator[Any]:
        # Slow to import, and needed by few.
        import queue
        import threading

        made: queue.Queue[tuple[str, Any]] = queue.Queue(self._count)
        stop = threading.Event()
        args = (self._inside, epoch, start, made, stop, _core.current_backend())
        thread = threading.Thread(target=_work, args=args, name="clematis-prefetch", daemon=True)
        thread.start()
        return _Taken(made, stop, thread)


class _Taken:
    """What the thread puts down. No generator: one that was never begun would not let go of its thread."""

    def __init__(self, made: Any, stop: Any, thread: Any) -> None:
        self._made, self._stop, self._thread = made, stop, thread

    def __iter__(self) -> "_Taken":
        return self

    def __next__(self) -> Any:
        if self._stop.is_set():
            raise StopIteration
        what, value = self._made.get()
        if what == "item":
            return value
        self.close()
        if what == "error":
            raise value
        raise StopIteration

    def close(self) -> None:
        """Nobody asks any more: the thread ends."""
        self._stop.set()
        # It may wait for room; there is room for the one item that it holds, then it sees the sign.
        while not self._made.empty():
            self._made.get_nowait()
        try:
            self._thread.join(timeout=5)
        except RuntimeError:
            # Whoever collects garbage may be the thread itself.
            pass

    def __del__(self) -> None:
        self.close()


def _work(source: Source, epoch: int, start: int, made: Any, stop: Any, backend: str) -> None:
    # A thread begins with the default backend, whatever its maker's was.
    with _core.backend(backend):
        try:
            for item in source._epoch(epoch, start):
                if stop.is_set():
                    return
                made.put(("item", item))
                if stop.is_set():
                    return
            made.put(("end", None))
        except Exception as error:  # noqa: BLE001  (whatever it is, the caller has it)
            made.put(("error", error))
