"""Every public name has an example in its docstring, and the example runs."""

import doctest
import inspect
import types

import clematis as cm
import pytest

SPACES = {
    "cm": cm, "cm.linalg": cm.linalg, "cm.fft": cm.fft, "cm.random": cm.random, "cm.tree": cm.tree, "cm.nn": cm.nn,
    "cm.optim": cm.optim, "cm.optim.schedules": cm.optim.schedules, "cm.data": cm.data,
}  # fmt: skip


def is_public(name, value):
    if name.startswith("_") or isinstance(value, types.ModuleType) or not callable(value):
        return False
    return not (isinstance(value, type) and issubclass(value, BaseException))


def public():
    """Each function and class with the name that users write."""
    for space, module in SPACES.items():
        known = getattr(module, "__all__", None)
        for name, value in sorted((name, getattr(module, name)) for name in dir(module)):
            if is_public(name, value) and (known is None or name in known):
                yield pytest.param(space, value, id=f"{space}.{name}")


def run(name, text):
    """Runs the examples of a docstring; returns how many there are, and what went wrong."""
    test = doctest.DocTestParser().get_doctest(text, {"cm": cm}, name, None, None)
    wrong = []
    with cm.backend("native"):
        doctest.DocTestRunner(verbose=False).run(test, out=wrong.append)
    return len(test.examples), "".join(wrong)


@pytest.mark.parametrize(("space", "value"), list(public()))
def test_the_example_of_a_docstring_runs(space, value):
    text = inspect.getdoc(value) or ""
    count, wrong = run(value.__name__, text)
    assert count, f"{space}.{value.__name__} has no example"
    assert not wrong, wrong
    # `cm.beta` and `cm.random.beta` are two functions.
    name = f"random.{value.__name__}(" if space == "cm.random" else f".{value.__name__}("
    if not isinstance(value, type):
        assert name in text[text.index(">>>") :], f"{space}.{value.__name__}: the example calls something else"


@pytest.mark.parametrize("name", [name for name in vars(cm.Container) if not name.startswith("_")])
def test_the_examples_of_containers_run(name):
    _, wrong = run(name, inspect.getdoc(getattr(cm.Container, name)) or "")
    assert not wrong, wrong
