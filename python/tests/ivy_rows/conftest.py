"""Cells of the dashboards: each test of a row adds to the cell of its row and backend, and `--rows-out` writes them.

`--rows-full` draws many examples instead of a few; `--rows-seed` draws those of a run before, as a failure says.
"""

import json
import math
import random

import hypothesis
import pytest

from . import arrays

#: Examples in each element type.
QUICK = {"float64": 4, "float32": 3, "float16": 2, "bfloat16": 2}
FULL = {"float64": 22, "float32": 16, "float16": 8, "bfloat16": 8}
# jax compiles each shape anew: one example of each does for a quick run.
QUICK_JAX = {"float64": 2, "float32": 1, "float16": 1, "bfloat16": 1}


def pytest_addoption(parser):
    group = parser.getgroup("rows")
    group.addoption("--rows-out", metavar="FILE", help="write the cells to this file, one JSON object a line")
    group.addoption("--rows-full", action="store_true", help="at least fifty examples a cell")
    group.addoption("--rows-seed", type=int, help="the seed that a failure has named")


def pytest_configure(config):
    config.addinivalue_line("markers", "row(dashboard, name): the cell that a test belongs to")
    full = config.getoption("rows_full", False)
    seed = config.getoption("rows_seed", None)
    if seed is None:
        # A quick run is the same every time.
        seed = random.SystemRandom().randrange(1 << 31) if full else 0
    config.rows_seed = seed
    config.rows_found = {}


def pytest_report_header(config):
    return f"rows: seed {_seed(config)}"


def _seed(config):
    return getattr(config, "rows_seed", 0)


class Cell:
    """What a test finds out about its row on its backend."""

    def __init__(self, backend, seed, full):
        self.backend, self.seed, self.full = backend, seed, full
        self.counts = FULL if full else QUICK_JAX if backend == "jax" else QUICK
        self.examples = 0
        self.worst = 0.0

    def error(self, share):
        """An error as a share of what is allowed."""
        self.worst = max(self.worst, share)

    def each(self, strategy, test):
        """Runs a test, `test(dtype, drawn)`, on what is drawn from the run's seed alone, in each element type."""
        for dtype, count in self.counts.items():
            self._some(strategy, test, dtype, count)

    def _some(self, strategy, test, dtype, count):
        @hypothesis.settings(
            max_examples=count,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.seed(self.seed)
        @hypothesis.given(strategy)
        def example(drawn):
            self.examples += 1
            test(dtype, drawn)

        example()


@pytest.fixture
def cell(request, backend):
    """The cell of this test's row on this backend."""
    full = request.config.getoption("rows_full", False)
    made = Cell(backend, _seed(request.config), full)
    request.node.row_cell = made
    return made


def _row(item):
    mark = item.get_closest_marker("row")
    if mark is None:
        return None
    dashboard, *name = mark.args
    return dashboard, name[0] if name else item.originalname


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    row = _row(item)
    backend = getattr(item, "callspec", None) and item.callspec.params.get("backend")
    if row is None or backend is None or (report.when != "call" and report.passed):
        return
    if report.failed:
        full = " --rows-full" if item.config.getoption("rows_full", False) else ""
        seed = _seed(item.config)
        report.sections.append(("replay", f"pytest '{item.nodeid}' --rows-seed {seed}{full}"))
    found = item.config.rows_found.setdefault(
        (*row, backend), {"state": "passed", "message": "", "cases": 0, "worst": 0.0, "seconds": 0.0}
    )
    own = getattr(item, "row_cell", None)
    if own is not None and report.when == "call":
        # Examples that were drawn; tests of single points, bad input among them, decide the state alone.
        found["cases"] += own.examples
        found["worst"] = max(found["worst"], own.worst if math.isfinite(own.worst) else 0.0)
    found["seconds"] += call.duration
    if report.failed and found["state"] == "passed":
        found["state"] = "failed"
        # hypothesis wraps what went wrong in what it drew; the first line says what went wrong.
        words = str(call.excinfo.value).strip().splitlines() if call.excinfo else ["failed"]
        found["message"] = f"{call.excinfo.typename}: {words[0] if words else ''} (seed {_seed(item.config)})"


def pytest_sessionfinish(session):
    path = session.config.getoption("rows_out", None)
    if not path:
        return
    with open(path, "w", encoding="utf-8") as file:
        for (dashboard, row, backend), found in session.config.rows_found.items():
            line = {
                "dashboard": dashboard, "row": row, "backend": backend, "check": "contract",
                "version": arrays.version(backend), **found,
            }  # fmt: skip
            line["seconds"] = round(found["seconds"], 6)
            line["worst"] = round(found["worst"], 6)
            file.write(json.dumps(line) + "\n")


@pytest.fixture(autouse=True)
def _stream():
    """Each test starts at the same place of the implicit stream, whatever ran before."""
    import clematis as cm

    if hasattr(cm, "seed"):
        cm.seed(0)
    yield
