"""The training loop: what it does, what it writes, what it leaves alone after a mistake."""

import csv
import io
import json
import sys

import clematis as cm
import numpy as np
import pytest

X = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")
Y = (X @ np.asarray([[1.0], [-2.0], [0.5]], dtype="float32")).astype("float32")


class Net(cm.Module):
    """A layer, dropout, and a buffer that counts its calls."""

    def __init__(self, key, drop=0.0):
        self.linear = cm.nn.Linear(3, 1, key=key)
        self.dropout = cm.nn.Dropout(drop)
        self.calls = cm.State(cm.zeros(()))

    def __call__(self, x):
        if self.training:
            self.calls.value = self.calls.value + 1
        return self.linear(self.dropout(x))


def loss(net, batch):
    x, y = batch
    return cm.mean((net(x) - y) ** 2)


def data(batch=8, **options):
    options = {"key": cm.random.key(7), **options}
    return cm.data.Batches((cm.asarray(X), cm.asarray(Y)), batch, **options)


def trainer(net=None, optimizer=None, **options):
    net = Net(cm.random.key(0)) if net is None else net
    return cm.Trainer(net, loss, cm.optim.Adam(0.1) if optimizer is None else optimizer, **options)


def test_it_learns_and_tells(backend):
    t = trainer(metrics={"error": lambda net, b: cm.max(cm.abs(net(b[0]) - b[1]))})
    history = t.fit(data(), epochs=12, validation=data(key=None))
    assert [row["epoch"] for row in history] == list(range(1, 13))
    assert history[-1]["val_loss"] < 0.05 < history[0]["val_loss"] and history[-1]["val_error"] < 1
    assert t.steps == 60 and t.epochs == 12 and history is t.history
    assert float(t.model.calls.value) == 60
    assert t.model.linear.v.w.backend == backend


def test_it_is_the_same_as_ten_lines():
    t = trainer()
    t.fit(data(), epochs=2)
    net, optimizer = Net(cm.random.key(0)), cm.optim.Adam(0.1)
    batches = data()
    for _ in range(2):
        for batch in batches:
            _, grads = cm.value_and_grad(lambda net, batch=batch: loss(net, batch))(net)
            optimizer.step(net, grads)
    for a, b in zip(cm.tree.leaves(net.v), cm.tree.leaves(t.model.v), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_means_count_rows():
    t = cm.Trainer({"w": cm.asarray(0.0)}, lambda v, x: cm.mean(x) + v["w"] * 0, cm.optim.SGD(0.1))
    (row,) = t.fit(cm.data.Batches(cm.asarray([0.0, 0.0, 3.0]), 2), epochs=1)
    assert row["loss"] == pytest.approx(1.0)
    assert t.evaluate(cm.data.Batches(cm.asarray([0.0, 0.0, 3.0]), 2)) == {"loss": pytest.approx(1.0)}


def test_evaluation_changes_nothing(backend):
    t = trainer(Net(cm.random.key(0), drop=0.5))
    t.fit(data(), epochs=1)
    before, source = left(t), data(key=cm.random.key(3))
    first = t.evaluate(source)
    assert t.evaluate(source) == first and left(t) == before and source.state["epoch"] == 0
    assert t.model.training


def test_any_tree_and_any_iterable_will_do(backend):
    v = {"w": cm.asarray([5.0]), "name": "plain"}
    told = []
    t = cm.Trainer(
        v, lambda v, x: (cm.sum((v["w"] - x) ** 2), {"distance": cm.sum(cm.abs(v["w"] - x))}), cm.optim.SGD(0.25),
        callbacks=[lambda t, row: told.append(row["distance"])],
    )  # fmt: skip
    t.fit([1.0, 1.0, 1.0], epochs=4)
    assert float(v["w"][0]) == pytest.approx(1.0, abs=0.01) and t.model is v
    assert len(told) == 4 and told[-1] < told[0]


def test_epochs_and_steps_are_counted_in_all():
    t = trainer()
    t.fit(data(), epochs=2)
    t.fit(data(), epochs=2)
    assert t.steps == 10
    t.fit(data(), steps=13)
    assert (t.steps, t.epochs) == (13, 2) and t.place["index"] == 3
    t.fit(data(), epochs=3)
    assert (t.steps, t.epochs) == (15, 3)
    t.fit(data(), steps=20)
    assert (t.steps, t.epochs) == (20, 4), "an epoch that ends at the last step is told"


def test_other_data_follows_at_the_end_of_an_epoch():
    t = trainer()
    t.fit(data(), epochs=1)
    t.fit(data(10), epochs=2)
    assert (t.steps, t.epochs) == (9, 2)
    t.fit(data(10), steps=10)
    with pytest.raises(cm.StructureError, match="`batch_size` is 8, in the state 10"):
        t.fit(data(), epochs=3)


def test_modes_are_set_and_put_back(backend):
    seen = []

    class Watch(Net):
        def __call__(self, x):
            seen.append(self.training)
            return super().__call__(x)

    t = trainer(Watch(cm.random.key(0))).fit
    t(data(40), epochs=1, validation=data(40))
    assert seen == [True, False]
    net = Watch(cm.random.key(0)).eval()
    trainer(net).fit(data(40), epochs=1)
    assert net.training is False


def test_it_stops_early_and_keeps_the_best(tmp_path):
    values = iter([3.0, 2.0, 2.5, 2.4, 1.0])

    class Other(cm.Trainer):
        def evaluate(self, data):
            return {"loss": next(values)}

    net = Net(cm.random.key(0))
    seen = []
    t = Other(net, loss, cm.optim.Adam(0.1), best=tmp_path / "best.safetensors",
              callbacks=[lambda t, row: seen.append(t.model.v.copy())])  # fmt: skip
    history = t.fit(data(), epochs=10, validation=data(), patience=2)
    assert [row["val_loss"] for row in history] == [3.0, 2.0, 2.5, 2.4]
    net.load(tmp_path / "best.safetensors")
    assert net.v.identical(seen[1])
    with pytest.raises(cm.ArgumentError, match="monitor is 'val_x'"):
        trainer().fit(data(), epochs=1, monitor="val_x")


def test_a_callback_ends_the_run():
    class Stop(cm.Callback):
        def __init__(self):
            self.events = []

        def on_start(self, trainer):
            self.events.append("start")

        def on_step(self, trainer, row):
            self.events.append(row["step"])
            trainer.stop = row["step"] == 3

        def on_end(self, trainer):
            self.events.append("end")

    stop = Stop()
    t = trainer(callbacks=[stop])
    t.fit(data(), epochs=10)
    assert stop.events == ["start", 1, 2, 3, "end"] and t.steps == 3


# Files.


def read_events(folder):
    """What tensorflow reads in the event files of a folder."""
    import tensorflow as tf

    out = []
    for path in sorted(folder.iterdir()):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            out += [(event.step, v.tag, v.simple_value) for v in event.summary.value]
            assert event.wall_time > 1e9 and (event.file_version in ("", "brain.Event:2"))
    return out


def test_logs_are_read_back(tmp_path):
    names = [tmp_path / "a" / "run.csv", tmp_path / "run.jsonl", tmp_path / "board"]
    t = trainer(log=names, log_every=2)
    history = t.fit(data(), epochs=2)
    with open(names[0], newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in rows] == [row["loss"] for row in history]
    lines = [json.loads(line) for line in names[1].read_text().splitlines()]
    assert [(x["kind"], x["step"]) for x in lines] == [
        ("step", 2), ("step", 4), ("epoch", 5), ("step", 6), ("step", 8), ("step", 10), ("epoch", 10)
    ]  # fmt: skip
    assert lines[0]["lr"] == 0.1
    events = read_events(names[2])
    losses = [(step, value) for step, tag, value in events if tag == "step/loss"]
    assert [step for step, _ in losses] == [2, 4, 6, 8, 10]
    assert losses[0][1] == np.float32(lines[0]["loss"])
    assert [(s, v) for s, tag, v in events if tag == "epoch/loss"] == [
        (5, np.float32(history[0]["loss"])), (10, np.float32(history[1]["loss"]))
    ]  # fmt: skip


def test_event_files_hold_any_number(tmp_path):
    from clematis._trainer.events import EventFile

    file = EventFile(tmp_path)
    wanted = [(0, "a", 1.5), (2**40, "b/c", float("inf")), (300, "größe", -1e300), (1, "x" * 500, 0.0)]
    for step, tag, value in wanted:
        file.write(step, {tag: value})
    file.close()
    assert read_events(tmp_path) == [(s, t, -np.inf if v == -1e300 else v) for s, t, v in wanted]


def test_a_run_that_goes_on_says_so_to_tensorboard(tmp_path):
    import tensorflow as tf

    t = trainer(log=tmp_path / "board")
    t.fit(data(), epochs=1)
    t.fit(data(), epochs=2)
    first, second = sorted((tmp_path / "board").iterdir(), key=lambda p: p.stat().st_mtime_ns)
    events = list(tf.compat.v1.train.summary_iterator(str(second)))
    assert (events[1].session_log.status, events[1].step, events[2].step) == (1, 6, 6)
    assert all(not e.HasField("session_log") for e in tf.compat.v1.train.summary_iterator(str(first)))


def test_a_bar_is_drawn_on_a_terminal_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    trainer().fit(data(), epochs=2)
    assert "epoch 1 [" in screen.getvalue() and "epoch 2  step 10  loss" in screen.getvalue()
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    trainer().fit(data(), epochs=1)
    assert pipe.getvalue() == ""
    screen.truncate(0)
    monkeypatch.setattr(sys, "stderr", screen)
    trainer(progress=False).fit(data(), epochs=1)
    assert screen.getvalue().strip("\0") == ""


def test_clipping_accumulation_and_scales_go_together(backend):
    optimizer = cm.optim.LossScale(cm.optim.Accumulate(cm.optim.SGD(0.1), every=5), scale=256)
    t = trainer(optimizer=optimizer, clip_norm=1.0)
    before = t.model.v.copy()
    t.fit(data(), epochs=1)
    assert t.steps == 5 and optimizer.steps == 1
    moved = float(cm.tree.global_norm(t.model.v - before))
    assert 0 < moved <= 0.1 + 1e-6


# Mistakes.


def left(t):
    """All that a step may change."""
    state = {"v": t.model.v, "buffers": t.model.buffers(), "o": t.optimizer.state, "r": cm.random.get_state()}
    return [x.numpy().tobytes() for x in cm.tree.leaves(state)], t.steps


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("bad", "error", "match"),
    [
        (lambda net, b: (net(b[0]) - b[1]) ** 2, cm.ShapeError, r"loss of step 3 has the shape \(8, 1\)"),
        (lambda net, b: cm.mean(net(b[0])) * cm.nan, cm.ArgumentError, "loss of step 3 is nan"),
        (lambda net, b: cm.mean(net(b[0])) / 0.0, cm.ArgumentError, "loss of step 3 is -?(inf|nan)"),
        (lambda net, b: float(cm.mean(net(b[0]))), cm.DTypeError, "loss of step 3 is float"),
        (lambda net, b: net(b[0], 1, 2), TypeError, "argument"),
    ],
)
def test_a_bad_loss_changes_nothing(backend, bad, error, match):
    cm.seed(3)
    t = trainer(Net(cm.random.key(0), drop=0.5))
    t.fit(data(), steps=2)
    before = left(t)
    t.loss = bad
    with pytest.raises(error, match=match) as e:
        t.fit(data(), steps=4)
    assert left(t) == before and "step 3" in "".join(e.value.__notes__)
    # The place in the data is that of the step that failed, so it can be tried again.
    assert t.place["index"] == 2
    t.loss = loss
    t.fit(data(), steps=4)
    after = left(t)
    cm.seed(3)
    whole = trainer(Net(cm.random.key(0), drop=0.5))
    whole.fit(data(), steps=4)
    assert left(whole) == after


def test_an_infinite_gradient_is_reported_where_it_is_clipped():
    t = trainer(clip_norm=1.0)
    t.loss = lambda net, b: cm.sum(cm.sqrt(cm.abs(net(b[0]) * 0)))
    with pytest.raises(cm.ArgumentError, match="length of the gradient of step 1"):
        t.fit(data(), epochs=1)
    assert t.steps == 0 and t.optimizer.steps == 0


def test_an_iterator_that_raises_or_ends_early(backend):
    def raising():
        yield cm.asarray(X), cm.asarray(Y)
        raise OSError("the disk is gone")

    t = trainer()
    with pytest.raises(OSError, match="the disk is gone") as e:
        t.fit(cm.data.Stream(raising).prefetch(2), epochs=2)
    assert "batch 2 of epoch 1" in "".join(e.value.__notes__) and t.steps == 1

    class Short:
        def __len__(self):
            return 5

        def __iter__(self):
            return iter([(cm.asarray(X), cm.asarray(Y))] * 3)

    t = trainer()
    with pytest.raises(cm.ArgumentError, match="ended after 3 of 5 batches in epoch 1"):
        t.fit(Short(), epochs=1)
    assert t.steps == 3 and t.epochs == 0
    with pytest.raises(cm.ArgumentError, match="no batch in epoch 1"):
        trainer().fit([], epochs=1)
    with pytest.raises(cm.ArgumentError, match="iterated over before"):
        trainer().fit(iter([(cm.asarray(X), cm.asarray(Y))]), epochs=2)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: cm.Trainer({}, 3, cm.optim.SGD()), "loss is a function"),
        (lambda: cm.Trainer({}, loss, 3), "optimiser was expected"),
        (lambda: trainer().fit(data()), "how many"),
        (lambda: trainer().fit(data(), epochs=-1), "epochs"),
        (lambda: trainer().fit(data(), epochs=1, patience=0), "patience"),
        (lambda: trainer(log_every=0), "log_every"),
        (lambda: trainer(clip_norm="much"), "clip_norm"),
        (lambda: trainer().evaluate([]), "no batch"),
        (lambda: trainer().fit(3, epochs=1), "iterate over"),
    ],
)
def test_mistakes_are_told(make, match):
    with pytest.raises(cm.ArgumentError, match=match):
        make()


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    t = trainer()
    t.fit(data(), epochs=1)
    t.save(tmp_path / "c")

    class Wide(Net):
        def __init__(self, key):
            super().__init__(key)
            self.linear = cm.nn.Linear(3, 2, key=key)
            self.extra = cm.ones(1)

    other = trainer(Wide(cm.random.key(0)))
    before = left(other)
    with pytest.raises(cm.StructureError) as e:
        other.load(tmp_path / "c")
    text = str(e.value)
    assert "`parameters/linear/w` is float32[2, 3], in the file float32[1, 3]" in text and "`parameters/extra`" in text
    with pytest.raises(cm.StructureError, match="`velocity` is missing"):
        trainer(optimizer=cm.optim.SGD(0.1, momentum=0.9)).load(tmp_path / "c")
    cm.save(tmp_path / "d", {"x": 1})
    with pytest.raises(cm.CheckpointError, match="no checkpoint of a trainer"):
        other.load(tmp_path / "d")
    with pytest.raises(cm.CheckpointError):
        other.load(tmp_path / "missing")
    assert left(other) == before
