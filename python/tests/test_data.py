"""Sources of batches: rows, order, places to go on from, threads."""

import gc
import threading
import time

import clematis as cm
import numpy as np
import pytest


def rows(batches):
    return [np.asarray(cm.asarray(b).numpy()).tolist() for b in batches]


def threads():
    return [t for t in threading.enumerate() if t.name == "clematis-prefetch"]


def settled():
    """Waits for threads that were told to end."""
    for _ in range(100):
        gc.collect()
        if not threads():
            return True
        time.sleep(0.02)
    return False


def test_rows_come_in_order_without_a_key(backend):
    data = cm.data.Batches(cm.arange(7), 3)
    assert rows(data) == [[0, 1, 2], [3, 4, 5], [6]]
    assert rows(data) == [[0, 1, 2], [3, 4, 5], [6]]
    assert len(data) == 3
    assert all(b.backend == backend for b in data)
    whole = cm.data.Batches(cm.arange(7), 3, drop_last=True)
    assert rows(whole) == [[0, 1, 2], [3, 4, 5]] and len(whole) == 2


def test_a_key_gives_another_order_each_epoch_and_the_same_on_all_backends(backend):
    key = cm.random.key(5)
    data = cm.data.Batches({"x": cm.arange(10), "y": [cm.arange(10) * 2]}, 4, key=key)
    first, second = [list(data) for _ in range(2)]
    for epoch, batches in enumerate([first, second]):
        x = np.concatenate([b["x"].numpy() for b in batches])
        assert (np.concatenate([b["y"][0].numpy() for b in batches]) == 2 * x).all()
        with cm.backend("native"):
            assert (x == cm.random.permutation(key.fold_in(epoch), 10).numpy()).all()
        assert sorted(x.tolist()) == list(range(10))
    assert first[0]["x"].numpy().tolist() != second[0]["x"].numpy().tolist()


def test_a_framework_has_its_own_arrays_in_batches(framework, make_raw):
    x = make_raw(framework, [[1.0], [2.0], [3.0]])
    for key in (None, cm.random.key(0)):
        ((a, b),) = cm.data.Batches((x, x), 3, key=key)
        assert type(a) is type(x) and (np.asarray(a) == np.asarray(b)).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: cm.data.Batches(np.arange(20), 3, key=cm.random.key(1)),
        lambda: cm.data.Batches(np.arange(20), 3, key=cm.random.key(1)).map(lambda x: x + 1).prefetch(4),
        lambda: cm.data.Stream(list(range(20))).batch(3),
        lambda: cm.data.Stream(lambda: iter(range(20))).map(lambda x: x * 2).batch(3).prefetch(2),
        lambda: cm.data.Batches(np.arange(20), 3).map(lambda x, key: x + cm.random.bits(key, ()).numpy() % 7,
                                                      key=cm.random.key(2)),
    ],
)  # fmt: skip
def test_a_place_is_gone_on_from(make, tmp_path):
    whole = make()
    wanted = rows(whole) + rows(whole)
    data = make()
    got = []
    for batch in data:
        got.append(batch)
        if len(got) == 4:
            break
    cm.save(tmp_path / "place", data.state)
    other = make()
    other.set_state(cm.load(tmp_path / "place"))
    got += list(other)
    assert other.state["epoch"] == 1 and other.state["index"] == 0
    got += list(other)
    assert rows(got) == wanted


def test_an_iteration_that_was_broken_off_begins_anew():
    data = cm.data.Stream([1, 2, 3])
    for _ in data:
        break
    assert data.state == {"epoch": 0, "index": 1}
    assert list(data) == [1, 2, 3]


def test_a_place_in_other_data_is_refused():
    state = cm.data.Batches(cm.arange(10), 3, key=cm.random.key(1)).state
    with pytest.raises(cm.StructureError) as e:
        cm.data.Batches(cm.arange(9), 2, key=cm.random.key(2)).set_state(state)
    assert all(word in str(e.value) for word in ("`rows` is 9, in the state 10", "`batch_size`", "`key`"))
    with pytest.raises(cm.StructureError, match="`epoch` is missing"):
        cm.data.Stream([1]).set_state({})
    with pytest.raises(cm.ArgumentError, match="index"):
        cm.data.Stream([1]).set_state({"epoch": 0, "index": -1})
    short = cm.data.Stream([1, 2])
    short.set_state({"epoch": 0, "index": 5})
    with pytest.raises(cm.ArgumentError, match="ends after 2 items, but 5"):
        list(short)


def test_items_are_stacked_whatever_they_are():
    out = list(cm.data.Stream([{"x": np.ones(2), "y": i} for i in range(3)]).batch(2, drop_last=True))
    assert len(out) == 1 and out[0]["x"].shape == (2, 2) and isinstance(out[0]["x"], np.ndarray)
    assert out[0]["y"].numpy().tolist() == [0, 1]


def test_an_iterator_has_one_epoch():
    data = cm.data.Stream(iter([1, 2]))
    assert list(data) == [1, 2]
    with pytest.raises(cm.ArgumentError, match="was iterated over before"):
        list(data)


def test_the_thread_works_ahead_on_the_backend_of_its_maker(backend):
    seen = []

    def look(x):
        seen.append((threading.current_thread() is not threading.main_thread(), cm.ones(1).backend))
        return x

    data = cm.data.Stream(range(6)).map(look).prefetch(2)
    assert list(data) == list(range(6))
    assert set(seen) == {(True, backend)}
    assert settled()


def test_an_error_in_the_thread_reaches_the_caller():
    def bad(x):
        if x == 3:
            raise KeyError("three")
        return x

    data = cm.data.Stream(range(6)).map(bad).prefetch(2)
    got = []
    with pytest.raises(KeyError, match="three"):
        for x in data:
            got += [x]
    assert got == [0, 1, 2] and settled()
    assert data.state == {"epoch": 0, "index": 3}


def test_threads_end_when_nobody_asks_any_more():
    data = cm.data.Stream(lambda: iter(int, 1)).prefetch(3)
    begun, unused = iter(data), iter(data)
    assert next(begun) == 0 and len(threads()) == 2
    del begun, unused
    assert settled()
    for x in data:
        break
    assert settled()
    it = iter(data)
    next(it)
    it.close()
    assert settled()
    with pytest.raises(StopIteration):
        next(it)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: cm.data.Batches(cm.arange(3), 0), cm.ArgumentError, "batch_size"),
        (lambda: cm.data.Batches(cm.arange(3), 2.0), cm.ArgumentError, "batch_size"),
        (lambda: cm.data.Batches(cm.zeros((0, 2)), 2), cm.ArgumentError, "0 rows"),
        (lambda: cm.data.Batches(cm.arange(3), 4, drop_last=True), cm.ArgumentError, "3 rows make no batch of 4"),
        (lambda: cm.data.Batches({}, 4), cm.ArgumentError, "no array"),
        (lambda: cm.data.Batches({"a": cm.arange(3), "b": cm.arange(4)}, 2), cm.ShapeError, "`a` has 3 rows, `b` 4"),
        (lambda: cm.data.Batches({"a": cm.asarray(3)}, 2), cm.ShapeError, "`a` has no rows"),
        (lambda: cm.data.Batches(cm.arange(3), 2, key=7), cm.ArgumentError, "key"),
        (lambda: cm.data.Stream(3), cm.ArgumentError, "iterate"),
        (lambda: cm.data.Stream([1]).map(3), cm.ArgumentError, "function"),
        (lambda: cm.data.Stream([1]).prefetch(0), cm.ArgumentError, "count"),
        (lambda: cm.data.Stream([1]).batch(True), cm.ArgumentError, "size"),
    ],
)
def test_mistakes_are_told(make, error, match):
    with pytest.raises(error, match=match):
        make()
