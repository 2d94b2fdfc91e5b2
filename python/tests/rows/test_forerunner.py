"""The page that compares our rows with the forerunner's says what was found."""

from . import forerunner


def cell(state):
    return {"state": state, "backend": "torch", "version": "2.0", "dashboard": "layers", "row": "test_linear"}


def test_a_cell_is_shown_as_it_was_found():
    for state, mark in (("passed", "✓"), ("failed", "✗"), (None, "–")):
        found = {} if state is None else {("layers", "linear", "torch"): cell(state)}
        (line,) = [line for line in forerunner.page(found).splitlines() if line.startswith("| `linear`")]
        assert line.split("|")[3].split() == ["–", "–", mark, "–", "–"]


def test_every_row_of_the_seeds_is_there():
    names = [name for _, name, _, _ in forerunner.ROWS]
    assert len(names) == len(set(names)) == 33
    assert all(len(theirs) == len(forerunner.THEIRS) for _, _, theirs, _ in forerunner.ROWS)
    assert "{" not in forerunner.page({})
