"""Tests of the generator of docs/ivy.md."""

from collections import Counter

from . import ivy_dashboard


def cell(state):
    return {"state": state, "backend": "torch", "version": "2.0", "dashboard": "layers", "row": "test_linear"}


def test_a_cell_shows_its_state():
    for state, mark in (("passed", "✓"), ("failed", "✗"), (None, "–")):
        cells = {} if state is None else {("layers", "linear", "torch"): cell(state)}
        (line,) = [line for line in ivy_dashboard.page(cells).splitlines() if line.startswith("| `linear`")]
        assert line.split("|")[3].split() == ["–", "–", mark, "–", "–"]


def test_every_row_of_the_dashboards_is_listed():
    rows = ivy_dashboard.ROWS
    assert len({(dashboard, name) for dashboard, name, _, _ in rows}) == len(rows) == 53
    assert Counter(dashboard for dashboard, _, _, _ in rows) == {
        "layers": 14, "gradients": 14, "random": 4, "custom-gradients": 1, "modules": 16, "converters": 4,
    }  # fmt: skip
    assert all(len(ivy) == len(ivy_dashboard.IVY_BACKENDS) for _, _, ivy, _ in rows)
    assert "{" not in ivy_dashboard.page({})
