"""A run that was interrupted and goes on gives the same bits as one that was not."""

import os
import subprocess
import sys

import clematis as cm
import numpy as np
import pytest

X = np.random.default_rng(0).normal(size=(36, 5)).astype("float32")
Y = np.sin(X.sum(1, keepdims=True)).astype("float32")


class Net(cm.Module):
    """Two layers, dropout, and a running mean that is no parameter."""

    def __init__(self, key):
        one, two = key.split()
        self.hidden = cm.nn.Linear(5, 8, key=one)
        self.out = cm.nn.Linear(8, 1, key=two)
        self.dropout = cm.nn.Dropout(0.3)
        self.mean = cm.State(cm.zeros((8,)))

    def __call__(self, x):
        h = cm.tanh(self.hidden(x))
        if self.training:
            self.mean.value = cm.stop_gradient(0.9 * self.mean.value + 0.1 * cm.mean(h, axis=0))
        return self.out(self.dropout(h))


def loss(net, batch):
    return cm.mean((net(batch[0]) - batch[1]) ** 2)


def data():
    # Three batches in an epoch: five steps end in the middle of the second.
    return cm.data.Batches((cm.asarray(X), cm.asarray(Y)), 12, key=cm.random.key(9))


def schedule():
    return cm.optim.schedules.Warmup(3, cm.optim.schedules.Cosine(0.05, 20))


MAKERS = {
    "SGD": lambda: cm.optim.SGD(schedule(), momentum=0.9, nesterov=True),
    "Adam": lambda: cm.optim.Adam(schedule()),
    "AdamW": lambda: cm.optim.AdamW(schedule(), groups={"out/*": {"lr": 0.01}}),
    "LARS": lambda: cm.optim.LARS(schedule(), momentum=0.9, decay_lambda=0.1),
    "LAMB": lambda: cm.optim.LAMB(schedule()),
    "RMSprop": lambda: cm.optim.RMSprop(schedule(), centered=True, momentum=0.5),
    "Adagrad": lambda: cm.optim.Adagrad(schedule()),
    "Lion": lambda: cm.optim.Lion(schedule()),
    "Accumulate": lambda: cm.optim.Accumulate(cm.optim.Adam(schedule()), every=2),
    "LossScale": lambda: cm.optim.LossScale(cm.optim.Adam(schedule()), scale=64, every=3),
}


def bits(net, optimizer):
    """All that a run has, and what it draws next."""
    state = {"v": net.v, "buffers": net.buffers(), "optimizer": optimizer.state}
    found = dict(zip(cm.tree.paths(state), cm.tree.leaves(state), strict=True))
    found["draw"] = cm.random_normal(shape=(4,))
    return {path: x.numpy().tobytes() for path, x in found.items()}


def run(name, path=None, steps=10, save=None, wrap=lambda source: source):
    """A trainer, from a file if there is one, that goes on to a step."""
    cm.seed(1234 if path is None else 99)
    trainer = cm.Trainer(Net(cm.random.key(0 if path is None else 5)), loss, MAKERS[name](), checkpoint=save)
    if path is not None:
        trainer.load(path)
    trainer.fit(wrap(data()), steps=steps)
    return trainer


def check(name, tmp_path, wrap=lambda source: source):
    whole = run(name, wrap=wrap)
    wanted = bits(whole.model, whole.optimizer)
    first = run(name, steps=5, wrap=wrap)
    first.save(tmp_path / "half.safetensors")
    second = run(name, tmp_path / "half.safetensors", wrap=wrap)
    assert bits(second.model, second.optimizer) == wanted
    assert second.history == whole.history and second.place == whole.place
    return wanted


def test_adam_goes_on_to_the_bit(backend, tmp_path):
    wanted = check("Adam", tmp_path)
    assert len(wanted) == 4 + 1 + 1 + 2 * 4 + 1


@pytest.mark.parametrize("name", MAKERS)
def test_every_optimiser_goes_on_to_the_bit(name, tmp_path):
    check(name, tmp_path)


def test_batches_that_are_made_ahead_are_not_lost(tmp_path):
    check("Adam", tmp_path, wrap=lambda source: source.map(lambda b: (b[0] * 2, b[1])).prefetch(3))


def test_a_loop_of_ones_own_goes_on_to_the_bit(backend, tmp_path):
    """The same without a trainer: `cm.save` of what there is."""

    def train(net, optimizer, batches, steps):
        while optimizer.steps < steps:
            for batch in batches:
                _, grads = cm.value_and_grad(lambda net, batch=batch: loss(net, batch))(net)
                optimizer.step(net, grads)
                if optimizer.steps == steps:
                    break

    cm.seed(7)
    net, optimizer = Net(cm.random.key(0)), cm.optim.Adam(schedule())
    train(net, optimizer, data(), 10)
    wanted = bits(net, optimizer)

    cm.seed(7)
    net, optimizer, batches = Net(cm.random.key(0)), cm.optim.Adam(schedule()), data()
    train(net, optimizer, batches, 5)
    net.save(tmp_path / "net.safetensors")
    rest = {"optimizer": optimizer.state, "data": batches.state, "random": cm.random.get_state()}
    cm.save(tmp_path / "rest.safetensors", rest)

    net, optimizer, batches = Net(cm.random.key(1)), cm.optim.Adam(schedule()), data()
    net.load(tmp_path / "net.safetensors")
    rest = cm.load(tmp_path / "rest.safetensors")
    optimizer.set_state(rest["optimizer"])
    batches.set_state(rest["data"])
    cm.random.set_state(rest["random"])
    train(net, optimizer, batches, 10)
    assert bits(net, optimizer) == wanted


def test_another_process_goes_on_to_the_bit(tmp_path):
    whole = run("Adam", save=None)
    wanted = bits(whole.model, whole.optimizer)
    first = run("Adam", steps=5)
    first.save(tmp_path / "half.safetensors")
    source = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import clematis as cm, test_resume as t\n"
        "r = t.run('Adam', sys.argv[2])\n"
        "print(sorted(t.bits(r.model, r.optimizer).items()))\n"
    )
    here = os.path.dirname(__file__)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    args = [sys.executable, "-c", source, here, str(tmp_path / "half.safetensors")]
    out = subprocess.run(args, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert out.returncode == 0, out.stderr
    assert out.stdout.strip() == str(sorted(wanted.items()))


def test_logs_are_as_if_nothing_had_happened(tmp_path):
    def logged(folder):
        folder.mkdir()
        return [folder / "a.csv", folder / "a.jsonl"]

    def make(log, path=None):
        cm.seed(1)
        t = cm.Trainer(Net(cm.random.key(0)), loss, cm.optim.Adam(0.01), log=log, checkpoint=path, save_every=4)
        return t

    whole = logged(tmp_path / "whole")
    make(whole).fit(data(), epochs=4)
    parts = logged(tmp_path / "parts")
    first = make(parts, tmp_path / "c")
    # It goes on for a while after its last checkpoint, which is of step 4.
    first.fit(data(), steps=5)
    second = make(parts, tmp_path / "c")
    assert second.resume() and second.steps == 4
    second.fit(data(), epochs=4)
    assert [p.read_text() for p in parts] == [p.read_text() for p in whole]
    assert make(()).resume() is False
