"""`cm.jit` under load: threads, many shapes, interrupts."""

import gc
import signal
import subprocess
import sys
import threading
import warnings

import clematis as cm
import numpy as np
import pytest


def test_threads_share_a_compiled_function(backend):
    net = cm.nn.Linear(8, 8, key=cm.random.key(0))
    f = cm.jit(lambda x: cm.sum(cm.tanh(net(x)), axis=-1))
    inputs = [cm.ones((4, 8)) * (i + 1) for i in range(8)]
    want = [f.__wrapped__(x).numpy() for x in inputs]
    wrong = []

    def work(i):
        with cm.backend(backend):
            for _ in range(20):
                got = f(inputs[i]).numpy()
                if not np.allclose(got, want[i], rtol=1e-5, atol=1e-6):
                    wrong.append((i, got))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and f.compilations == 1


def test_no_step_is_lost_between_threads():
    w = cm.Container(w=cm.zeros((2,)))
    optimizer = cm.optim.SGD(1.0)

    @cm.jit
    def step(v):
        optimizer.step(v, {"w": cm.ones((2,)) * -1.0})

    def work():
        for _ in range(50):
            step(w)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert w.w.numpy().tolist() == [400.0, 400.0] and optimizer.steps == 400


def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_memory_is_bounded_over_ten_thousand_shapes():
    f = cm.jit(lambda x, w: cm.sum(cm.tanh(x @ w)), limit=16)
    w = cm.ones((8, 8))
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 200, 10_000).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in sizes[:1000]:
            f(cm.ones((n, 8)), w)
        gc.collect()
        before = memory()
        for n in sizes[1000:]:
            f(cm.ones((n, 8)), w)
    gc.collect()
    assert sum(map(len, f._programs.values())) <= 16 and f.evictions > 1000
    assert memory() - before < 32 << 20


LONG = """
import signal, threading, time, os
# The parent process may ignore signals.
signal.signal(signal.SIGINT, signal.default_int_handler)
import clematis as cm
net = cm.nn.Linear(256, 256, key=cm.random.key(0))
optimizer = cm.optim.SGD(1e-3)

@cm.jit
def step(x):
    def loss(net):
        c, _ = cm.scan(lambda c, _: (cm.tanh(net(c)), None), x, None, length=200000)
        return cm.mean(c)
    optimizer.step(net, {path: cm.ones_like(p) for path, p in net.v._entries()})
    return loss(net)

x = cm.ones((64, 256))
before = {path: (p, p.numpy().copy()) for path, p in net.v._entries()}
asked = []
def ask():
    time.sleep(1.0)
    asked.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=ask).start()
try:
    step(x)
    print("not interrupted")
except KeyboardInterrupt:
    took = time.perf_counter() - asked[0]
    kept = all((net.v[path].numpy() == values).all() for path, (_, values) in before.items())
    print("took", round(took, 3), "kept", kept, "steps", optimizer.steps)
"""


def test_ctrl_c_ends_a_long_run_and_keeps_parameters():
    took = []
    # On a busy machine one run may be slow, but not all three.
    while len(took) < 3 and (not took or took[-1] >= 0.3):
        out = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True, timeout=300, check=False)
        words = out.stdout.split()
        assert words and words[0] == "took", (out.stdout, out.stderr[-2000:])
        assert words[2:] == ["kept", "True", "steps", "0"]
        took.append(float(words[1]))
    assert min(took) < 0.3


def test_a_failed_run_keeps_arguments_and_signal_handlers():
    held, handler = cm.asarray([[1.0, 2.0], [2.0, 4.0]]), signal.getsignal(signal.SIGINT)
    f = cm.jit(lambda a: cm.linalg.inv(a))
    with pytest.raises(cm.ClematisError):
        f(cm.ones((2, 3)))
    assert held.numpy().tolist() == [[1.0, 2.0], [2.0, 4.0]]
    assert signal.getsignal(signal.SIGINT) is handler
