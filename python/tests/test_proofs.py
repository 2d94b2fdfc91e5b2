"""Models that others have written, to other frameworks: the small ones of `tools/proofs.py`, which has them all."""

import os
import subprocess
import sys
from pathlib import Path

import clematis as cm

TOOLS = Path(__file__).parents[1] / "tools"


def test_models_of_keras_haiku_and_flax_in_other_frameworks():
    env = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(cm.__file__).parents[1]), env.get("PYTHONPATH", "")])
    words = [sys.executable, str(TOOLS / "proofs.py"), "--quick"]
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "8 of 8 agree" in done.stdout, done.stdout
