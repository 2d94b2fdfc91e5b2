"""A short run of the random calls of `tools/abuse.py`: no crash, no foreign exception, no silent difference."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import abuse
from conftest import BACKENDS

CALLS, SEED = 250, 20


def test_random_calls_end_alike_on_every_backend():
    report = abuse.run(CALLS, SEED, BACKENDS, workers=1, patience=120.0, seconds=240.0)
    assert not report["findings"], report["findings"][:5]
    assert sum(report["counts"].values()) == CALLS * len(BACKENDS)
