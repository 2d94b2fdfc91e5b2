"""Models from Python to the command line, and from there to folders of Python that run by themselves."""

import os
import subprocess
import sys
from pathlib import Path

import clematis as cm
import numpy as np
import pytest
from clematis import _clematis as core
from clematis import nn
from clematis._convert.files import from_file, to_file
from clematis._convert.onnx import to_onnx


def _run(*words):
    """A command line in this process; it must work."""
    assert core._run_command_line(["clematis", *map(str, words)]) == 0


def _floats(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


MODELS = {
    "convnet": (
        lambda: nn.Sequential(
            nn.Conv2D(3, 8, 3), nn.BatchNorm2D(8), nn.ReLU(), nn.MaxPool2D(2, 2, 0), nn.Flatten(), nn.Linear(512, 5)
        ),
        (3, 16, 16, 3),
    ),
    "lstm": (lambda: nn.LSTM(5, 7, return_state=False), (3, 6, 5)),
}


def _net(name):
    make, shape = MODELS[name]
    with cm.backend("native"):
        net = make()
        net.eval()
        x = _floats(*shape)
        return net, x, net(cm.asarray(x)).numpy()


@pytest.mark.parametrize("name", MODELS)
def test_a_module_runs_without_python(name, tmp_path):
    net, x, want = _net(name)
    np.save(tmp_path / "x.npy", x)
    to_file(net, tmp_path / "net.clematis", x[:2])
    to_onnx(net, tmp_path / "net.onnx", x[:2])
    for model in ("net.clematis", "net.onnx"):
        _run("run", tmp_path / model, tmp_path / "x.npy", "--out", tmp_path / "y.npy")
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, rtol=1e-5, atol=1e-6)
        _run("run", tmp_path / model, tmp_path / "x.npy", "--out", tmp_path / "y.npz")
        with np.load(tmp_path / "y.npz") as archive:
            assert list(archive) == ["y0"]
            np.testing.assert_allclose(archive["y0"], want, rtol=1e-5, atol=1e-6)


def test_files_come_back_on_every_backend(backend, tmp_path):
    net, x, want = _net("convnet")
    to_file(net, tmp_path / "net.clematis", x)
    back = from_file(tmp_path / "net.clematis")
    out = back(cm.asarray(x))
    assert out.backend == backend
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-4, atol=1e-5)
    assert sorted(p for p, _ in back.v._entries()) == sorted(p for p, _ in net.v._entries())


def test_haiku_runs_in_rust(tmp_path):
    import haiku as hk

    class Net(hk.Module):
        def __call__(self, x):
            return hk.nets.MLP([16, 3])(hk.Flatten()(x))

    x = _floats(4, 5)
    with cm.backend("native"):
        net = cm.from_haiku_module(Net, x[:2])
        want = net(cm.asarray(x)).numpy()
        to_file(net, tmp_path / "net.clematis")
    np.save(tmp_path / "x.npy", x)
    _run("run", tmp_path / "net.clematis", tmp_path / "x.npy", "--out", tmp_path / "y.npy")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, rtol=1e-5, atol=1e-6)


TARGETS = [
    ("numpy", "convnet"), ("numpy", "lstm"), ("torch", "lstm"), ("jax", "lstm"), ("haiku", "convnet"), ("flax", "convnet"),
    ("tensorflow", "lstm"), ("keras-torch", "convnet"), ("keras-jax", "lstm"), ("keras-tensorflow", "convnet"),
]  # fmt: skip

# The folder needs the framework alone: a copy of us must not be found.
_ALONE = "import runpy, sys; sys.modules['clematis'] = None; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


@pytest.mark.parametrize(("target", "name"), TARGETS, ids=["-".join(pair) for pair in TARGETS])
def test_folders_run_by_themselves(target, name, tmp_path):
    target, _, keras_backend = target.partition("-")
    net, x, want = _net(name)
    np.save(tmp_path / "x.npy", x)
    to_onnx(net, tmp_path / "net.onnx", x)
    _run("convert", tmp_path / "net.onnx", "--to", target, "--out", tmp_path / "made")
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "KERAS_BACKEND", "CLEMATIS_DIALECTS")}
    env |= {"PYTHONPATH": str(tmp_path / "made"), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    if keras_backend:
        env["KERAS_BACKEND"] = keras_backend
    words = [sys.executable, "-c", _ALONE, "made/model.py", "x.npy", "--out", "y.npz"]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("y0: float32"), done.stdout
    with np.load(tmp_path / "y.npz") as archive:
        np.testing.assert_allclose(archive["y0"], want, rtol=1e-4, atol=1e-5)


def test_the_table_of_dialects_is_of_today():
    # `python python/tools/dialects.py` writes it anew.
    tools = Path(__file__).parents[1] / "tools"
    sys.path.insert(0, str(tools))
    try:
        import dialects
    finally:
        sys.path.remove(str(tools))
    assert dialects.PLACE.read_text() == dialects.text()
