"""The short form of `bench/stress.py`: threads, forks, tasks and signals on each backend."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BACKENDS

SCRIPT = Path(__file__).parents[2] / "bench" / "stress.py"


@pytest.mark.parametrize("name", BACKENDS)
def test_nothing_hangs_nothing_is_lost_and_nothing_is_wrong(name):
    command = [sys.executable, str(SCRIPT), name, "--seconds", "4"]
    out = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert out.returncode == 0, out.stdout + out.stderr
    counts = dict(zip(out.stdout.split()[1::2], out.stdout.split()[2::2], strict=True))
    assert name in ("jax", "tensorflow") or counts["sent"] != "0" != counts["raised"]
    assert counts["calls"] != "0" and counts["tasks"] != "0", out.stdout
