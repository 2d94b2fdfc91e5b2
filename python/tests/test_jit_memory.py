"""Buffer donation under jit: only buffers without other references are donated, and an interrupted step is atomic."""

import subprocess
import sys
import threading

import clematis as cm
import numpy as np
import pytest
import torch
from clematis import _clematis as core
from clematis._jit import frameworks
from conftest import BACKENDS

needs_jax = pytest.mark.skipif("jax" not in BACKENDS, reason="jax is not installed")


class Net(cm.Module):
    def __init__(self):
        self.first = cm.nn.Linear(3, 4)
        self.norm = cm.nn.BatchNorm(4)
        self.rest = [cm.ones((4, 2)), {"bias": cm.zeros((2,))}]

    def __call__(self, x):
        return cm.tanh(self.norm(self.first(x))) @ self.rest[0] + self.rest[1]["bias"]


def training():
    """A network, its optimizer and a training step, with the same seed at each call."""
    cm.random.seed(0)
    net, adam = Net(), cm.optim.Adam(0.1)

    @cm.jit
    def step(x, y):
        loss, grads = cm.value_and_grad(lambda net: cm.mean((net(x) - y) ** 2))(net)
        adam.step(net, grads)
        return loss

    x = cm.reshape(cm.arange(24, dtype=cm.float32), (8, 3)) / 24
    return net, adam, lambda: step(x, x[:, :2])


def values(net):
    return [x.numpy().copy() for x in cm.tree.leaves(net.v)]


@pytest.fixture
def copied(monkeypatch):
    """The number of jax arrays copied, for each call that copies."""
    counts, copies = [], frameworks._jax_copies()

    def counted(*arrays):
        counts.append(len(arrays))
        return copies(*arrays)

    monkeypatch.setattr(frameworks, "_jax_copies", lambda: counted)
    return counts


@pytest.fixture
def single(monkeypatch):
    """Pretends that the process has one thread: frameworks and other tests may have left more."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)


@needs_jax
def test_unreferenced_buffers_are_donated(single, copied):
    with cm.backend("jax"):
        net, _, step = training()
        for _ in range(5):
            step()
        # Six parameters with two moments each, and two running statistics; the first call donates copies.
        assert copied == [20]
        net.first.w.numpy()
        step()
        assert copied == [20, 1], "an array that was read may still share its memory"
        step()
        assert copied == [20, 1]


HOLDS = {
    "the tensor": lambda x: x,
    "a tensor of it": lambda x: cm.asarray(x),
    "a view": lambda x: x[...],
    "a row": lambda x: x[0:],
    "the same shape": lambda x: cm.reshape(x, x.shape),
    "numbers": lambda x: x.numpy(),
    "numpy": lambda x: np.asarray(x),
    "dlpack": lambda x: np.from_dlpack(x),
    "an array": lambda x: x.native,
    "a list": lambda x: [x],
}
# Objects that jax makes of an array and that share its memory.
JAX_HOLDS = {
    "numpy": lambda jax, x: np.asarray(x),
    "dlpack": lambda jax, x: np.from_dlpack(x),
    "a capsule": lambda jax, x: _Capsule(x),
    "torch": lambda jax, x: torch.from_dlpack(x),
    "a device": lambda jax, x: jax.device_put(x, jax.devices()[0]),
    "data": lambda jax, x: x.addressable_data(0),
    "a shard": lambda jax, x: x.addressable_shards[0].data,
    "made of shards": lambda jax, x: jax.make_array_from_single_device_arrays(x.shape, x.sharding, [x]),
    "a function": lambda jax, x: jax.jit(lambda x: x)(x),
    "a derivative": lambda jax, x: jax.vjp(lambda x: x, x)[0],
}


class _Capsule:
    """A DLPack capsule without its array."""

    def __init__(self, x):
        self.capsule, self.device = x.__dlpack__(), x.__dlpack_device__()

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return self.device


def read(held):
    if isinstance(held, list):
        held = held[0]
    if isinstance(held, _Capsule):
        held = np.from_dlpack(held)
    return np.array(held.numpy() if isinstance(held, cm.Tensor) else held)


def keeps(holds):
    """Holds parameters between steps, and checks that they keep their values and that training is unaffected."""
    want_net, _, want_step = training()
    net, adam, step = training()
    finds = [
        lambda: net.first.w,
        lambda: net.rest[0],
        lambda: net.rest[1]["bias"],
        lambda: net.norm.running_mean.value,
        lambda: adam._moments["first/w"][0],
    ]
    step(), step()
    for name, hold in holds.items():
        for find in finds:
            before = find().numpy().copy()
            held = hold(find())
            step()
            np.testing.assert_array_equal(read(held), before, err_msg=name)
            assert not np.array_equal(find().numpy(), before)
            del held
    for _ in range(adam.steps):
        want_step()
    for got, want in zip(values(net), values(want_net), strict=True):
        np.testing.assert_array_equal(got, want)


def test_referenced_tensors_keep_their_values(backend, single):
    keeps(HOLDS)


@needs_jax
def test_objects_that_share_memory_with_a_jax_array_keep_their_values(single):
    import jax

    with cm.backend("jax"):
        keeps({name: lambda x, make=make: make(jax, x.native) for name, make in JAX_HOLDS.items()})


@needs_jax
def test_live_jax_arrays_are_not_donated(single):
    import jax

    with cm.backend("jax"):
        _, _, step = training()
        step(), step()
        alive = jax.live_arrays()
        step()
        assert not any(x.is_deleted() for x in alive)


def test_one_tensor_in_two_states(backend, single):
    class Twice(cm.Module):
        def __init__(self):
            self.a = cm.State(cm.ones((3,)))
            self.b = cm.State(cm.ones((3,)))

        def __call__(self, x):
            self.a.value, self.b.value = self.a.value + x, self.b.value * 2
            return x

    net, x = Twice(), cm.ones((3,))
    step = cm.jit(lambda x: net(x))
    step(x), step(x)
    net.b.value = net.a.value
    step(x), step(x)
    np.testing.assert_array_equal(net.a.value.numpy(), 5.0)
    np.testing.assert_array_equal(net.b.value.numpy(), 12.0)


def test_results_that_equal_updates_keep_their_values(backend, single):
    class Counter(cm.Module):
        def __init__(self):
            self.n = cm.State(cm.zeros((3,)))

        def __call__(self, x):
            before = self.n.value
            self.n.value = before + x
            return before, self.n.value, self.n.value

    net, x = Counter(), cm.ones((3,))
    step = cm.jit(lambda x: net(x))
    seen = [step(x) for _ in range(4)]
    for i, (before, after, again) in enumerate(seen):
        np.testing.assert_array_equal(before.numpy(), i)
        np.testing.assert_array_equal(after.numpy(), i + 1)
        np.testing.assert_array_equal(again.numpy(), i + 1)


def test_int64_state_keeps_its_dtype(backend, single):
    class Counter(cm.Module):
        def __init__(self):
            self.n = cm.State(cm.asarray([2**40], dtype=cm.int64))

        def __call__(self):
            self.n.value = self.n.value + 1

    net = Counter()
    step = cm.jit(lambda x: net())
    for _ in range(3):
        step(cm.ones(()))
    assert net.n.value.dtype == cm.int64 and int(net.n.value[0]) == 2**40 + 3


@needs_jax
def test_a_failed_call_keeps_parameters(monkeypatch, single):
    original, fail = frameworks._jax, []

    def failing(*args):
        own = original(*args)
        run = own.run

        def called(*arrays):
            if fail:
                raise fail[0]
            return run(*arrays)

        own.run = called
        return own

    monkeypatch.setitem(frameworks._COMPILERS, "jax", failing)
    with cm.backend("jax"):
        net, adam, step = training()
        step(), step()
        before = values(net)
        step()
        after = values(net)
        for error in (ValueError("no"), KeyboardInterrupt()):
            step()
            steps, now = adam.steps, values(net)
            fail[:] = [error]
            with pytest.raises((cm.FrameworkError, KeyboardInterrupt)):
                step()
            fail.clear()
            assert adam.steps == steps
            for got, want in zip(values(net), now, strict=True):
                np.testing.assert_array_equal(got, want)
        assert not np.array_equal(before[0], after[0])


@needs_jax
def test_lost_arrays_are_reported(monkeypatch, single):
    original, fail = frameworks._jax, []

    def failing(*args):
        own = original(*args)
        run = own.run

        def called(*arrays):
            out = run(*arrays)
            if fail:
                raise RuntimeError("out of memory")
            return out

        own.run = called
        return own

    monkeypatch.setitem(frameworks._COMPILERS, "jax", failing)
    with cm.backend("jax"):
        _, _, step = training()
        step(), step()
        fail.append(True)
        with pytest.raises(cm.FrameworkError, match="out of memory") as caught:
            step()
        assert "20 arrays that the program updates" in str(caught.value) + "".join(getattr(caught.value, "__notes__", []))


@needs_jax
def test_debug_nans_loses_no_arrays(single):
    import jax

    with cm.backend("jax"):
        net = cm.nn.Linear(2, 1)
        sgd = cm.optim.SGD(0.1)

        @cm.jit
        def step(x):
            loss, grads = cm.value_and_grad(lambda net: cm.sum(cm.log(net(x) * 0 + x[0, 0])))(net)
            sgd.step(net, grads)
            return loss

        good, bad = cm.ones((3, 2)), cm.ones((3, 2)) * -1
        step(good), step(good)
        before = net.w.numpy().copy()
        step(good)
        with jax.debug_nans(True), pytest.raises((cm.FrameworkError, FloatingPointError)):
            step(bad)
        assert net.w.numpy().shape == before.shape and np.isfinite(net.w.numpy()).all()


INTERRUPTED = """
import signal, sys, time, random
import numpy as np
import clematis as cm

# A system timer instead of a thread: nothing is donated while a second thread runs.
signal.signal(signal.SIGALRM, signal.default_int_handler)
cm.set_backend(sys.argv[1])

def training():
    cm.random.seed(0)
    net = cm.nn.Sequential(cm.nn.Linear(256, 256), cm.nn.Tanh(), cm.nn.Linear(256, 256))
    adam = cm.optim.Adam(0.001)

    @cm.jit
    def step(x):
        loss, grads = cm.value_and_grad(lambda net: cm.mean((net(x) - x) ** 2))(net)
        adam.step(net, grads)
        return loss

    x = cm.random_normal(shape=(512, 256))
    return net, adam, lambda: step(x)

def values(net):
    return [x.numpy().copy() for x in cm.tree.leaves(net.v)]

net, adam, step = training()
want = [values(net)]
for _ in range(120):
    step()
    want.append(values(net))
net, adam, step = training()
step()
came = 0
choose = random.Random(0)
while came < 8 and adam.steps < 120:
    try:
        signal.setitimer(signal.ITIMER_REAL, choose.uniform(0.001, 0.03))
        while adam.steps < 120:
            step()
        time.sleep(1)
    except KeyboardInterrupt:
        came += 1
    for got, exact in zip(values(net), want[adam.steps], strict=True):
        np.testing.assert_array_equal(got, exact)
print("complete", came)
"""


@pytest.mark.parametrize("name", [name for name in BACKENDS if name in ("native", "jax")])
def test_an_interrupted_step_is_atomic(name):
    command = [sys.executable, "-c", INTERRUPTED, name]
    out = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr
    word, count = out.stdout.split()
    assert word == "complete" and int(count) >= 1


def test_an_interruption_while_step_scalars_are_made_changes_nothing(backend, monkeypatch):
    def run(stops):
        net, _, step = training()
        made, make = [], core._optim_numbers

        def interrupted(*args):
            made.append(args)
            if len(made) in stops:
                raise KeyboardInterrupt
            return make(*args)

        monkeypatch.setattr(core, "_optim_numbers", interrupted)
        done = 0
        while done < 12:
            try:
                step()
                done += 1
            except KeyboardInterrupt:
                pass
        monkeypatch.undo()
        assert len(made) > max(stops, default=0)
        return values(net)

    # Vectors of several steps are made at once, so some of these come between the vectors of one batch.
    for got, exact in zip(run({1, 3, 4, 6, 7, 11}), run(set()), strict=True):
        np.testing.assert_array_equal(got, exact)


def test_threads_share_a_step(backend):
    net, adam, step = training()
    step()

    def some():
        for _ in range(5):
            step()

    threads = [threading.Thread(target=some) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert adam.steps == 16
    assert all(np.isfinite(x).all() for x in values(net))


def test_a_thread_reads_parameters_while_another_trains(backend):
    net, adam, step = training()
    failed = []
    step()

    def read():
        while adam.steps < 40 and not failed:
            try:
                assert net.first.w.shape == (4, 3) and net.rest[0].shape == (4, 2)
                assert np.isfinite(cm.sum(net.first.w * 2).numpy()).all()
            except Exception as e:
                failed.append(e)

    thread = threading.Thread(target=read)
    thread.start()
    while adam.steps < 40:
        step()
    thread.join()
    assert not failed


@needs_jax
def test_inside_jax_jit():
    import jax

    with cm.backend("jax"):
        scale = cm.jit(lambda x: x * 2)
        inner = scale(cm.ones((3,)))
        out = jax.jit(lambda x: scale(scale(inner)).native + x)(jax.numpy.ones((3,)))
        np.testing.assert_array_equal(np.asarray(out), 9.0)
