"""Programs that write over what they update: only where nobody else can read it, and whole, whatever comes in between."""

import subprocess
import sys
import threading

import clematis as cm
import numpy as np
import pytest
import torch
from clematis._jit import frameworks
from conftest import BACKENDS

needs_jax = pytest.mark.skipif("jax" not in BACKENDS, reason="jax is not here")


class Net(cm.Module):
    def __init__(self):
        self.first = cm.nn.Linear(3, 4)
        self.norm = cm.nn.BatchNorm(4)
        self.rest = [cm.ones((4, 2)), {"bias": cm.zeros((2,))}]

    def __call__(self, x):
        return cm.tanh(self.norm(self.first(x))) @ self.rest[0] + self.rest[1]["bias"]


def training():
    """A net, its optimiser, and a step that trains it; the same on each call."""
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
    """How many arrays of jax were copied at each call of a program that copied some."""
    counts, copies = [], frameworks._jax_copies()

    def noted(*arrays):
        counts.append(len(arrays))
        return copies(*arrays)

    monkeypatch.setattr(frameworks, "_jax_copies", lambda: noted)
    return counts


@pytest.fixture
def single(monkeypatch):
    """As in a process of one thread: frameworks and other tests may have left some."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)


@needs_jax
def test_what_nobody_holds_is_written_over(single, copied):
    with cm.backend("jax"):
        net, _, step = training()
        for _ in range(5):
            step()
        # Six parameters with two moments each, and two running statistics; the first call gives copies away.
        assert copied == [20]
        net.first.w.numpy()
        step()
        assert copied == [20, 1], "who has read a parameter may still look at its memory"
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
# What jax makes of an array, which is not held itself.
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
    """What DLPack gives, without the array that gave it."""

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
    """Holds parameters between steps, and demands that what is held stays and that training goes on as without."""
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
    for how, hold in holds.items():
        for find in finds:
            before = find().numpy().copy()
            held = hold(find())
            step()
            np.testing.assert_array_equal(read(held), before, err_msg=how)
            assert not np.array_equal(find().numpy(), before)
            del held
    for _ in range(adam.steps):
        want_step()
    for got, want in zip(values(net), values(want_net), strict=True):
        np.testing.assert_array_equal(got, want)


def test_what_somebody_holds_stays(backend, single):
    keeps(HOLDS)


@needs_jax
def test_what_shares_memory_with_an_array_of_jax_stays(single):
    import jax

    with cm.backend("jax"):
        keeps({how: lambda x, make=make: make(jax, x.native) for how, make in JAX_HOLDS.items()})


@needs_jax
def test_arrays_that_jax_lists_stay(single):
    import jax

    with cm.backend("jax"):
        _, _, step = training()
        step(), step()
        alive = jax.live_arrays()
        step()
        assert not any(x.is_deleted() for x in alive)


def test_a_tensor_in_two_places_is_two_values(backend, single):
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


def test_results_beside_updates_stay(backend, single):
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


def test_wide_state_stays_wide(backend, single):
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
def test_a_call_that_fails_leaves_parameters(monkeypatch, single):
    original, fail = frameworks._jax, []

    def failing(function, graph):
        own = original(function, graph)
        run = own.run

        def called(*arrays):
            if fail:
                raise fail[0]
            return run(*arrays)

        own.run = called
        return own

    monkeypatch.setitem(frameworks._MAKERS, "jax", failing)
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
def test_what_is_lost_is_told(monkeypatch, single):
    original, fail = frameworks._jax, []

    def failing(function, graph):
        own = original(function, graph)
        run = own.run

        def called(*arrays):
            out = run(*arrays)
            if fail:
                raise RuntimeError("out of memory")
            return out

        own.run = called
        return own

    monkeypatch.setitem(frameworks._MAKERS, "jax", failing)
    with cm.backend("jax"):
        _, _, step = training()
        step(), step()
        fail.append(True)
        with pytest.raises(cm.FrameworkError, match="out of memory") as told:
            step()
        assert "20 arrays that the program updates" in str(told.value) + "".join(getattr(told.value, "__notes__", []))


@needs_jax
def test_debugging_loses_nothing(single):
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

# By a timer of the system: nothing is written over while a second thread runs.
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
print("whole", came)
"""


@pytest.mark.parametrize("name", [name for name in BACKENDS if name in ("native", "jax")])
def test_an_interrupted_step_is_done_or_not(name):
    command = [sys.executable, "-c", INTERRUPTED, name]
    out = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr
    word, count = out.stdout.split()
    assert word == "whole" and int(count) >= 1


def test_threads_may_step_in_turns(backend):
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


def test_another_thread_reads_parameters_while_one_trains(backend):
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
def test_a_program_inside_a_function_that_jax_traces():
    import jax

    with cm.backend("jax"):
        scale = cm.jit(lambda x: x * 2)
        inner = scale(cm.ones((3,)))
        out = jax.jit(lambda x: scale(scale(inner)).native + x)(jax.numpy.ones((3,)))
        np.testing.assert_array_equal(np.asarray(out), 9.0)
