"""`cm.explain`."""

import clematis as cm
import pytest


def test_graphs_and_plan(backend):
    net = cm.nn.Linear(3, 2, key=cm.random.key(0))
    explanation = cm.explain(lambda x: cm.sum(cm.relu(net(x)) * 1.0 + 0.0), cm.ones((4, 3)))
    text = repr(explanation)
    assert "linear" in explanation.before and "traced" in text and "after the passes" in text and backend in text
    if backend not in ("native",):
        assert "def program(ops" in explanation.plan
    # The engine has no kernel for `linear`; a multiplication by one goes everywhere.
    assert "mul(" in explanation.before and "mul(" not in explanation.after


def test_html_page_is_self_contained(tmp_path):
    explanation = cm.explain(cm.jit(cm.grad(lambda x: cm.sum(cm.sin(x)))), cm.ones((2,)))
    explanation.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "<svg" in page and "cos" in page
    assert "http" not in page and "src=" not in page


def test_explain_does_not_run_the_function():
    net = cm.nn.BatchNorm(2)
    before = net.buffers().running_mean
    cm.explain(net, cm.ones((3, 2)))
    assert net.buffers().running_mean is before
    with pytest.raises(cm.TraceError, match="explain"):
        cm.grad(lambda x: cm.sum(cm.asarray(len(repr(cm.explain(cm.sin, x))))))(cm.ones((2,)))
