"""A short run of the random calls of `tools/abuse.py`; the tool itself also lists differences between backends."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import abuse
from conftest import BACKENDS

CALLS, SEED = 250, 20


def test_random_calls_neither_crash_nor_panic_nor_hang_on_any_backend():
    report = abuse.run(CALLS, SEED, BACKENDS, workers=1, patience=120.0, seconds=240.0)
    fatal = [one for one in report["findings"] if one["what"] in ("crash", "panic", "hang")]
    assert not fatal, fatal[:5]
