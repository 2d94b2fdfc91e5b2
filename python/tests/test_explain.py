"""What is told about programs."""

import clematis as cm
import pytest


def test_graphs_and_plan_are_told(backend):
    net = cm.nn.Linear(3, 2, key=cm.random.key(0))
    told = cm.explain(lambda x: cm.sum(cm.relu(net(x)) * 1.0 + 0.0), cm.ones((4, 3)))
    text = repr(told)
    assert "linear" in told.before and "traced" in text and "after the passes" in text and backend in text
    if backend not in ("native",):
        assert "def program(ops" in told.plan
    assert len(told.after) <= len(told.before)


def test_a_page_needs_nothing_else(tmp_path):
    told = cm.explain(cm.jit(cm.grad(lambda x: cm.sum(cm.sin(x)))), cm.ones((2,)))
    told.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "<svg" in page and "cos" in page
    assert "http" not in page and "src=" not in page


def test_nothing_is_computed_or_changed():
    net = cm.nn.BatchNorm(2)
    before = net.buffers().running_mean
    cm.explain(net, cm.ones((3, 2)))
    assert net.buffers().running_mean is before
    with pytest.raises(cm.TraceError, match="explain"):
        cm.grad(lambda x: cm.sum(cm.asarray(len(repr(cm.explain(cm.sin, x))))))(cm.ones((2,)))
