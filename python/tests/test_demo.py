"""`clematis demo` on every backend that is there."""

import json
import os
import subprocess
import sys

from conftest import BACKENDS


def test_the_demo_goes_the_same_way_on_every_backend(tmp_path):
    asked = [word for name in BACKENDS for word in ("--backend", name)]
    command = [sys.executable, "-m", "clematis", "demo", "--epochs", "1", "--json", "--out", str(tmp_path), *asked]
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [run["backend"] for run in told["runs"]] == BACKENDS
    for run in told["runs"]:
        assert run["error"] is None
        assert len(run["losses"]) > 20
        assert run["difference"] < 1e-3, run["backend"]
        assert run["test_accuracy"] > 0.6
    assert (tmp_path / "index.html").is_file()
