"""A panic of ours is an exception with a message; it never ends the interpreter."""

import os
import subprocess
import sys

import clematis as cm
import pytest
from clematis import _clematis as core


@pytest.mark.parametrize("place", ["function", "op", "detached", "call"])
def test_a_panic_is_an_internal_error(place, capfd, monkeypatch):
    monkeypatch.delenv("RUST_BACKTRACE", raising=False)
    for _ in range(3):
        with pytest.raises(cm.InternalError, match="nothing is where it was expected: 7") as raised:
            core._panic_for_tests(place, "nothing is where it was expected: 7")
        text = str(raised.value)
        assert "panics.rs:" in text and "note: " in text and "RUST_BACKTRACE=1" in text
        assert text.count("note: ") == 1 and text.startswith("add: " if place == "op" else "internal: ")
    assert capfd.readouterr() == ("", "")


def test_a_panic_in_a_destructor_is_printed_and_the_process_goes_on(capfd, recwarn):
    seen = []
    before, sys.unraisablehook = sys.unraisablehook, seen.append
    try:
        core._panic_for_tests("destructor", "gone")
    finally:
        sys.unraisablehook = before
    assert [x.exc_type for x in seen] == [cm.InternalError]


def test_a_panic_passes_through_our_own_calls_as_the_same_error():
    def f(x):
        core._panic_for_tests("function", "inside")
        return x

    x = cm.ones(3)
    for call in (lambda: cm.grad(lambda x: cm.sum(f(x)))(x), lambda: cm.jit(f)(x), lambda: cm.vmap(f)(x)):
        with pytest.raises(cm.InternalError, match="inside"):
            call()


def test_a_backtrace_is_printed_where_it_is_asked_for():
    script = (
        "import clematis as cm\n"
        "try:\n    cm._clematis._panic_for_tests('function', 'seen')\n"
        "except cm.InternalError:\n    print('caught')"
    )
    for wanted in ("0", "1"):
        environment = {**os.environ, "RUST_BACKTRACE": wanted}
        out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=environment)
        assert out.stdout == "caught\n" and out.returncode == 0
        assert ("panicked" in out.stderr) == (wanted == "1")
