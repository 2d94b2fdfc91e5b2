"""Threads and tasks: long work of the engine lets others run, and a scope of a backend is its own task's."""

import asyncio
import contextvars
import subprocess
import sys
import threading
import time

import clematis as cm
import numpy as np
import pytest

DRAW = np.random.default_rng(0)
MATRIX = cm.asarray(DRAW.standard_normal((700, 700)).astype(np.float32))
SMALL = cm.asarray(DRAW.standard_normal((150, 150)))
LONG = cm.asarray(DRAW.standard_normal(2_000_000).astype(np.float32))
IMAGE = cm.asarray(DRAW.standard_normal((4, 64, 64, 16)).astype(np.float32))
FILTER = cm.asarray(DRAW.standard_normal((3, 3, 16, 16)).astype(np.float32))
PROGRAM = cm.jit(lambda x: cm.sum(cm.matmul(x, x)))
WORK = {
    "matmul": lambda: cm.matmul(MATRIX, MATRIX),
    "an operator": lambda: MATRIX @ MATRIX,
    "a small singular value decomposition": lambda: cm.linalg.svd(SMALL),
    "sort": lambda: cm.sort(LONG),
    "elementwise": lambda: cm.erf(LONG),
    "an operator of two small ones": lambda: cm.ones((3000, 1)) + cm.ones((1, 3000)),
    "conv": lambda: cm.conv2d(IMAGE, FILTER, 1, "SAME"),
    "a backward pass": lambda: cm.grad(lambda x: cm.sum(cm.matmul(x, x)))(MATRIX),
    "a new array": lambda: cm.arange(5_000_000),
    "jit": lambda: PROGRAM(MATRIX),
}


@pytest.mark.parametrize("name", WORK)
def test_long_work_of_the_engine_lets_other_threads_run(name):
    """A thread that looks at the clock all the time sees no long gaps."""
    gaps, done = [0.0], threading.Event()

    def watch():
        last = time.perf_counter()
        while not done.is_set():
            time.sleep(0)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    WORK[name]()
    thread = threading.Thread(target=watch)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    thread.start()
    try:
        took, rounds = 0.0, 0
        while took < 0.3 and rounds < 200:
            start = time.perf_counter()
            with cm.backend("native"):
                WORK[name]()
            took += time.perf_counter() - start
            rounds += 1
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(before)
    # If it were held, most of what the other thread sees would be gaps as long as the work.
    long = sum(gap for gap in gaps if gap > 0.5 * took / rounds)
    assert long < 0.5 * took, f"{rounds} rounds of {took / rounds:.4f} s, of which {long:.3f} of {took:.3f} s were gaps"


def homes():
    return cm.current_backend(), cm.ones(2).backend


def test_a_scope_does_not_leak_between_tasks():
    async def task(name, other):
        with cm.backend(name):
            for _ in range(5):
                assert homes() == (name, name)
                await asyncio.sleep(0)
                with cm.backend(other):
                    await asyncio.sleep(0)
                    assert homes() == (other, other)
                assert homes() == (name, name)
        return homes()

    async def main():
        with cm.backend("numpy"):
            tasks = [asyncio.create_task(task(a, b)) for a, b in [("native", "numpy"), ("numpy", "native")] * 4]
            await asyncio.sleep(0)
            assert homes() == ("numpy", "numpy")
            # A task begins in the scope that it was made in.
            assert await asyncio.gather(*tasks) == [("numpy", "numpy")] * 8
        return homes()

    assert asyncio.run(main()) == ("native", "native")


def test_a_scope_is_of_its_thread_unless_its_context_is_given_to_another():
    seen = {}
    with cm.backend("numpy"):
        context = contextvars.copy_context()
        threads = [
            threading.Thread(target=lambda: seen.update(own=homes())),
            threading.Thread(target=lambda: seen.update(given=context.run(homes))),
        ]
        for thread in threads:
            thread.start()
            thread.join()
    assert seen == {"own": ("native", "native"), "given": ("numpy", "numpy")}
    assert homes() == ("native", "native")


def test_a_scope_in_a_function_that_is_differentiated_is_the_inner_one(framework):
    x = cm.asarray([1.0, 2.0]).to(framework)

    def f(x):
        inside.append(cm.ones(2).backend)
        with cm.backend("native"):
            inside.append(cm.ones(2).backend)
            y = cm.asarray([1.0, 1.0]).to(framework)
        return cm.sum(x * y)

    for call in (cm.grad(f), lambda x: cm.vjp(f, x)):
        inside = []
        call(x)
        assert inside == [framework, "native"]


def test_what_an_op_makes_stands_beside_its_operands_in_any_scope(framework):
    x = cm.asarray([[1.0, -2.0]]).to(framework)
    with cm.backend("native"):
        for out in (cm.softmax(x), cm.where(x > 0, x, 0.0), cm.concat([x, x]), cm.zeros_like(x), cm.pad(x, [(0, 1), (1, 0)])):
            assert out.backend == framework
        assert cm.grad(lambda x: cm.sum(cm.gelu(x) * 2.0))(x).backend == framework


def test_a_scope_that_is_left_elsewhere_is_left_alone():
    def scope():
        with cm.backend("numpy"):
            yield homes()

    steps = scope()
    assert contextvars.copy_context().run(next, steps) == ("numpy", "numpy")
    assert homes() == ("native", "native")
    steps.close()
    assert homes() == ("native", "native")


def test_set_backend_is_of_the_whole_process():
    script = (
        "import threading, asyncio, clematis as cm\n"
        "cm.set_backend('numpy')\n"
        "t = threading.Thread(target=lambda: print(cm.ones(1).backend)); t.start(); t.join()\n"
        "async def f(): return cm.ones(1).backend\n"
        "print(asyncio.run(f()))\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert out.stdout.split() == ["numpy", "numpy"], out.stderr


def test_a_tensor_may_be_replaced_while_others_read_it():
    x, faults, done = cm.ones(50_000), [], threading.Event()

    def read():
        try:
            while not done.is_set():
                values = (x * 2).numpy()
                if not (values == values[0]).all():
                    faults.append(values)
                x.tolist()
        except BaseException as e:
            faults.append(e)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        x += 1
        x[:] = 0
    done.set()
    for thread in threads:
        thread.join()
    assert not faults


def test_a_second_interpreter_is_refused():
    script = (
        "try:\n    import _interpreters as own\nexcept ImportError:\n    import _xxsubinterpreters as own\n"
        "import sys\n"
        "import clematis as cm\n"
        "code = '''try:\n    import clematis\nexcept ImportError as e:\n    print('refused', e)\n'''\n"
        "if len(sys.argv) > 1:\n    del sys.modules['clematis']\n"
        "own.run_string(own.create(), code)\n"
        "print(cm.ones(1))\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert "refused" in out.stdout and "interpreter" in out.stdout, out.stdout + out.stderr
    assert out.stdout.splitlines()[-1] == "Tensor([1.0], float32, native)" and out.returncode == 0
