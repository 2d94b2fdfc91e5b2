"""Mixed work from many threads, forks, tasks and signals at random moments, for a while: nothing hangs, nothing is lost, nothing is wrong.

    python bench/stress.py [--seconds 600] [--threads 8] [BACKEND ...]

Prints one line for each backend: calls made, forks, tasks, signals sent and signals raised where they arrived. Ends with 1 where
anything went wrong. Each backend runs in a process of its own, which is watched: one that stands still is ended with the
stacks of its threads.
"""

import argparse
import asyncio
import faulthandler
import os
import random
import signal
import subprocess
import sys
import threading
import time

# OpenBLAS ends its threads when a process forks, and products of other threads then wait for them without end.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

BACKENDS = ("native", "numpy", "torch", "jax", "tensorflow")
# Frameworks with threads of their own do not survive a fork: a child of torch waits for OpenMP's without end.
FORKING = ("native", "numpy")
# Frameworks that a handler's exception can damage get no signals. tensorflow goes on with the exception pending where it is raised
# inside its conversion of arrays (Python says "SystemError: returned a result with an exception set"), and may end the process.
# jax's caches keep the entry of a call that such an exception ended: later calls raise "RecursionError: Recursively calling".
SIGNALLED = ("native", "numpy", "torch")
# Between a call and its result on these nothing but our own code and Python runs: no signal is lost.
STRICT = ("native", "numpy")
# A process that has made no call for so long stands still.
STILL = 60.0


class Stop(Exception):
    """What the handler of a signal raises."""


def work(cm, np, name, draw):
    """One piece of work of a random kind, checked against numpy."""
    kind = draw.randrange(10)
    n = draw.choice((3, 17, 64, 257))
    values = np.random.default_rng(draw.randrange(2**32)).standard_normal((n, n)).astype(np.float32)
    x = cm.asarray(values).to(name)
    if kind == 0:
        got, want = cm.add(x, x), values + values
    elif kind == 1:
        got, want = x @ x, values @ values
    elif kind == 2:
        got, want = cm.sum(cm.exp(-x * x), axis=0), np.exp(-values * values).sum(0)
    elif kind == 3:
        got, want = cm.grad(lambda x: cm.sum(x * x * 0.5))(x), values
    elif kind == 4:
        got, want = PROGRAM(x), np.tanh(values) + 1
    elif kind == 5:
        got = x.copy()
        got += x
        got[0] = 0.0
        want = values * 2
        want[0] = 0
    elif kind == 6:
        got, want = cm.concat([x, x[::-1]]), np.concatenate([values, values[::-1]])
    elif kind == 7:
        other = draw.choice([b for b in READY if b != name] or [name])
        got, want = x.to(other).to(name), values
    elif kind == 8:
        got = cm.zeros((n, n)).to(name).copy()
        cm.multiply(x, 2.0, out=got)
        want = values * 2
    else:
        with cm.backend(name):
            got = cm.softmax(x) + cm.zeros((n, n))
        e = np.exp(values - values.max(-1, keepdims=True))
        want = e / e.sum(-1, keepdims=True)
    if got.backend != name:
        raise AssertionError(f"kind {kind}: {got.backend} instead of {name}")
    np.testing.assert_allclose(got.numpy(), want, rtol=2e-4, atol=2e-4 * n, err_msg=f"kind {kind}")


PROGRAM = None
READY = []


def stress(name, seconds, threads, seed):
    """All of it on one backend; returns what was counted."""
    global PROGRAM
    import clematis as cm
    import numpy as np

    PROGRAM = cm.jit(lambda x: cm.tanh(x) + 1)
    READY[:] = dict.fromkeys(("native", "numpy", name))
    work(cm, np, name, random.Random(seed))
    # torch imports its compiler at the third run: an import that a signal interrupts keeps Python's lock of the module.
    for _ in range(4):
        PROGRAM(cm.ones((3, 3)).to(name))
    counts = dict.fromkeys(("calls", "forks", "tasks", "sent", "raised"), 0)
    faults, lock, end = [], threading.Lock(), time.monotonic() + seconds
    moved = [time.monotonic()]

    def note(what, count=1):
        with lock:
            counts[what] += count
            moved[0] = time.monotonic()

    def loop(number):
        draw = random.Random(seed * 1000 + number)
        while time.monotonic() < end and not faults:
            try:
                for _ in range(10):
                    work(cm, np, name, draw)
            except BaseException as e:
                faults.append(e)
                raise
            note("calls", 10)

    def watch():
        while time.monotonic() < end + STILL:
            time.sleep(1.0)
            if done.is_set():
                return
            if time.monotonic() - moved[0] > STILL:
                print(f"{name}: stands still", flush=True)
                faulthandler.dump_traceback(all_threads=True)
                os._exit(3)

    def handler(number, frame):
        counts["sent"] += 1
        raise Stop

    def ignored(report):
        # Python itself reports and ignores what is raised inside of a destructor or a weak reference's callback.
        if isinstance(report.exc_value, Stop):
            counts["raised"] += 1
        else:
            hook(report)

    hook, sys.unraisablehook = sys.unraisablehook, ignored
    done = threading.Event()
    threading.Thread(target=watch, daemon=True).start()
    before = signal.signal(signal.SIGALRM, handler)
    running = [threading.Thread(target=loop, args=(i,)) for i in range(threads)]
    for thread in running:
        thread.start()
    draw = random.Random(seed)

    async def task(number):
        inner = random.Random(number)
        mine = inner.choice(READY)
        with cm.backend(mine):
            for _ in range(3):
                if cm.ones(3).backend != mine:
                    raise AssertionError(f"a task on {mine} makes tensors on {cm.ones(3).backend}")
                await asyncio.sleep(0)
                work(cm, np, name, inner)

    async def tasks():
        await asyncio.gather(*(task(draw.randrange(2**32)) for _ in range(8)))

    def signals():
        turn = time.monotonic() + 0.5
        while time.monotonic() < min(turn, end):
            # A signal is on its way only while it can be caught, and each that was sent is raised before the next is sent.
            sent = counts["sent"]
            try:
                signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.0002, 0.01))
                while counts["sent"] == sent:
                    work(cm, np, name, draw)
            except Stop:
                counts["raised"] += 1
        signal.setitimer(signal.ITIMER_REAL, 0)

    def fork():
        child = os.fork()
        if not child:
            code = 1
            try:
                for i in range(5):
                    work(cm, np, name, random.Random(i))
                code = 0
            finally:
                os._exit(code)
        limit = time.monotonic() + STILL
        while True:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > limit:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise AssertionError("a forked process stands still")
            time.sleep(0.01)
        if status:
            raise AssertionError(f"a forked process ended with {status}")

    try:
        while time.monotonic() < end and not faults:
            if name in SIGNALLED:
                signals()
            asyncio.run(tasks())
            note("tasks", 8)
            if name in FORKING:
                fork()
                note("forks")
    except BaseException as e:
        faults.append(e)
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        for thread in running:
            thread.join(STILL)
        done.set()
    if faults:
        raise faults[0]
    if any(thread.is_alive() for thread in running):
        raise AssertionError("a thread stands still")
    if name in STRICT and counts["raised"] != counts["sent"]:
        raise AssertionError(f"{counts['sent'] - counts['raised']} signals were lost")
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("backends", nargs="*", default=BACKENDS)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        (name,) = options.backends
        counts = stress(name, options.seconds, options.threads, options.seed)
        print(f"{name:<12}" + "  ".join(f"{what} {count:,}" for what, count in counts.items()), flush=True)
        return 0
    wrong = 0
    for name in options.backends:
        command = [sys.executable, __file__, name, "--here", "--seconds", str(options.seconds)]
        command += ["--threads", str(options.threads), "--seed", str(options.seed)]
        try:
            code = subprocess.run(command, timeout=options.seconds + 3 * STILL).returncode
        except subprocess.TimeoutExpired:
            code = 3
        if code:
            print(f"{name:<12}ended with {code}", flush=True)
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
