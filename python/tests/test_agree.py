"""Layers made from one key in Python and in Rust: equal names, shapes and bits.

Both are compared with one file, `crates/nn/tests/data/layers.safetensors`; the Rust side is `crates/nn/tests/layers_agree.rs`.
After a change that is meant, `CLEMATIS_UPDATE=1 pytest test_agree.py` writes the file anew, as does a new version of
Clematis, whose number stands in it.
"""

import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import clematis as cm
import numpy as np
from layer_cases import CASES, flat, numbers

DATA = Path(__file__).resolve().parents[2] / "crates/nn/tests/data/layers.safetensors"

ACTIVATIONS = [
    "ReLU",
    "ReLU6",
    "SELU",
    "Sigmoid",
    "LogSigmoid",
    "Tanh",
    "SiLU",
    "Mish",
    "HardSigmoid",
    "HardSwish",
    "GEGLU",
    "Softplus",
    "GELU",
    "LeakyReLU",
    "ELU",
    "ThresholdedReLU",
    "Softmax",
    "LogSoftmax",
]

POOLS = {
    "MaxPool1D": lambda: cm.nn.MaxPool1D(2),
    "AvgPool1D": lambda: cm.nn.AvgPool1D(3),
    "AdaptiveAvgPool1D": lambda: cm.nn.AdaptiveAvgPool1D(4),
    "AdaptiveMaxPool1D": lambda: cm.nn.AdaptiveMaxPool1D(4),
    "GlobalAvgPool": lambda: cm.nn.GlobalAvgPool(),
    "GlobalMaxPool": lambda: cm.nn.GlobalMaxPool(),
    "Flatten": lambda: cm.nn.Flatten(),
}


def shown(layer, inputs, **words):
    """What the file has of a layer: parameters, inputs, results, and what it keeps after the call."""
    part = {}
    if layer.v.paths():
        part["v"] = layer.v.to_dict()
    inputs = [cm.asarray(x) for x in inputs]
    part.update({f"x{i}": x for i, x in enumerate(inputs)})
    part.update({f"y{i}": y for i, y in enumerate(flat(layer(*inputs, **words)))})
    if layer.buffers().paths():
        part["state"] = layer.buffers().to_dict()
    return part


def tree():
    """All of it."""
    all_of_it = {name: shown(case.make(cm.random.key(7)), case.inputs, **case.call) for name, case in CASES.items()}
    for name in ACTIVATIONS:
        all_of_it[name] = shown(getattr(cm.nn, name)(), (numbers(3, 4),))
    for name, make in POOLS.items():
        all_of_it[name] = shown(make(), (numbers(2, 7, 3),))
    return all_of_it


def leaves(tree, at=""):
    for key, x in tree.items():
        path = f"{at}.{key}" if at else key
        if isinstance(x, dict):
            yield from leaves(x, path)
        else:
            yield path, x.numpy()


def test_python_s_file_is_the_one_that_rust_s_is_compared_with(tmp_path):
    # Sums are in the same order on every processor at this level of vector instructions alone.
    path = tmp_path / "layers.safetensors"
    environment = {**os.environ, "CLEMATIS_SIMD": "base"}
    subprocess.run([sys.executable, __file__, str(path)], check=True, env=environment, timeout=300)
    if os.environ.get("CLEMATIS_UPDATE"):
        DATA.parent.mkdir(exist_ok=True)
        DATA.write_bytes(path.read_bytes())
    got, want = dict(leaves(cm.load(path))), dict(leaves(cm.load(DATA)))
    assert list(got) == list(want)
    for name, x in got.items():
        assert x.dtype == want[name].dtype and x.shape == want[name].shape, name
        assert x.tobytes() == want[name].tobytes(), name
    assert path.read_bytes() == DATA.read_bytes(), "CLEMATIS_UPDATE=1 writes the file anew"


def test_parameters_are_equal_to_the_bit_and_results_close_on_each_backend(backend):
    want = dict(leaves(cm.load(DATA)))
    got = dict(leaves(tree()))
    assert list(got) == list(want)
    for name, x in got.items():
        assert x.dtype == want[name].dtype and x.shape == want[name].shape, name
        if ".v." in name or ".x" in name:
            assert x.tobytes() == want[name].tobytes(), name
        else:
            np.testing.assert_allclose(x, want[name], rtol=1e-4, atol=1e-5, err_msg=name)


if __name__ == "__main__":
    with cm.backend("native"):
        cm.save(sys.argv[1], tree())
