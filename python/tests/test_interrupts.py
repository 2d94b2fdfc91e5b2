"""Ctrl-C, timeouts and other exceptions that are no failure of a framework are raised, wherever they arrive."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import clematis as cm
import numpy as np
import pytest
from conftest import FRAMEWORKS, raw

CALLS = {
    "add": lambda x: cm.add(x, x), "exp": lambda x: cm.exp(x), "sum": lambda x: cm.sum(x, axis=0),
    "matmul": lambda x: cm.matmul(x, x), "softmax": lambda x: cm.softmax(x), "gelu": lambda x: cm.gelu(x),
    "linear": lambda x: cm.linear(x, x), "layer_norm": lambda x: cm.layer_norm(x, -1), "reshape": lambda x: cm.reshape(x, (-1,)),
}


class Stop(Exception):
    """What a caller's handler raises."""


def signals(call, kind, seconds=1.0):
    """How many signals were sent, and how many of them were raised where the call was made.

    One that Python runs inside of a destructor or a weak reference's callback is reported and ignored by Python itself.
    """
    sent = caught = 0

    def ignored(report):
        nonlocal caught
        if isinstance(report.exc_value, kind):
            caught += 1

    def handler(number, frame):
        nonlocal sent
        sent += 1
        raise kind

    before, hook = signal.signal(signal.SIGALRM, handler), sys.unraisablehook
    sys.unraisablehook = ignored
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0003 + 0.0007 * np.random.default_rng(sent).random())
                before_this = sent
                # One that was sent and not raised here was lost.
                while sent == before_this:
                    call()
            except kind:
                caught += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook
    return sent, caught


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Stop, TimeoutError])
def test_no_signal_is_lost(framework, kind):
    x = raw(framework, np.eye(4))
    t = cm.wrap(x)

    def call():
        for f in CALLS.values():
            f(x)
            f(t)

    call()
    sent, caught = signals(call, kind)
    assert sent == caught and sent > 20


def test_no_signal_is_lost_on_the_engine():
    x = cm.asarray(np.eye(4, dtype=np.float32))

    def call():
        for f in CALLS.values():
            f(x)

    sent, caught = signals(call, KeyboardInterrupt)
    assert sent == caught and sent > 20


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_a_framework_refuses_is_refused_in_our_words(name):
    x, y = raw(name, np.ones((2, 3))), raw(name, np.ones((4, 5)))
    for _ in range(2):
        with pytest.raises(cm.ShapeError, match="add"):
            cm.add(x, y)
        with pytest.raises(cm.ShapeError, match="matmul"):
            cm.matmul(x, y)


def run(text, **environment):
    script = textwrap.dedent(text)
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, env={**os.environ, **environment}
    )


def test_a_load_that_was_interrupted_can_be_tried_again():
    out = run("""
        import sys
        import clematis as cm

        class Interrupts:
            def find_spec(self, name, path=None, target=None):
                if name == "ml_dtypes":
                    sys.meta_path.remove(self)
                    raise KeyboardInterrupt("by hand")

        sys.meta_path.insert(0, Interrupts())
        try:
            cm.backend("numpy")
            print("nothing was raised")
        except KeyboardInterrupt as e:
            print("raised", e)
        with cm.backend("numpy"):
            print(cm.ones(2))
    """)
    assert out.stdout.splitlines() == ["raised by hand", "Tensor([1.0, 1.0], float32, numpy)"], out.stderr


def test_a_failed_load_tells_its_first_reason_too():
    out = run("""
        import sys
        import clematis as cm

        class Breaks:
            reasons = ["first reason", "second reason"]
            def find_spec(self, name, path=None, target=None):
                if name == "ml_dtypes":
                    if self.reasons:
                        raise RuntimeError(self.reasons.pop(0))

        sys.meta_path.insert(0, Breaks())
        for _ in range(2):
            try:
                cm.backend("numpy")
            except cm.ClematisError as e:
                print(type(e).__name__, "first reason" in str(e), "second reason" in str(e))
        cm.backend("numpy")
    """)
    assert out.stdout.splitlines() == ["FrameworkError True False", "FrameworkError True True"], out.stderr
    assert out.returncode == 0, out.stderr
