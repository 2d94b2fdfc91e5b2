"""Code that is written of modules and functions: what it looks like, that it runs alone, and what it computes."""

import importlib.util
import itertools
import os
import pathlib

import clematis as cm
import numpy as np
import pytest
from clematis import _clematis as _core
from clematis._convert import source as written
from clematis._convert.source import source
from source_nets import CASES, run
from source_ops import OPS

TARGETS = ("torch", "jax", "tensorflow", "keras", "haiku", "flax", "numpy", "clematis")
SNAPSHOTS = pathlib.Path(__file__).parent / "snapshots" / "source"
NUMBERS = itertools.count()


def loaded(path):
    """The file as a module of its own."""
    spec = importlib.util.spec_from_file_location(f"written_{next(NUMBERS)}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def agree(got, want):
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_a_snapshot_runs_and_agrees(name, target, tmp_path):
    module, args = CASES[name]()
    code = source(module, target, *args)
    kept = SNAPSHOTS / f"{name}_{target}.py"
    if os.environ.get("CLEMATIS_UPDATE"):
        kept.write_text(code, encoding="utf-8")
    assert code == kept.read_text(encoding="utf-8"), f"{kept.name} differs; CLEMATIS_UPDATE=1 writes it anew"
    assert "clematis" not in code or target == "clematis"
    folder = code.save(tmp_path)
    for size in (None, 3):
        batch = args[0].shape[0]
        given = [np.resize(x, (size, *x.shape[1:])) if size and x.shape[0] == batch else x for x in args]
        want = module(*map(cm.asarray, given))
        agree(run(loaded(folder / "model.py"), code, target, folder, given), want.numpy())


@pytest.mark.parametrize("target", ("torch", "keras", "flax"))
def test_names_of_layers_are_the_framework_s(target):
    module, args = CASES["cnn"]()
    code = source(module, target, *args)
    words = {
        "torch": ("nn.Conv2d(", "nn.BatchNorm2d(", "nn.Linear("),
        "keras": ("layers.Conv2D(", "layers.BatchNormalization(", "layers.Dense("),
        "flax": ("nnx.Conv(", "nnx.BatchNorm(", "nnx.Linear("),
    }
    for word in words[target]:
        assert word in code


@pytest.mark.parametrize("target", ("numpy", "torch", "jax", "tensorflow"))
@pytest.mark.parametrize("name", OPS)
def test_each_op_has_a_spelling(name, target, tmp_path):
    args, graph, count = OPS[name]
    request = {
        "name": "function", "graph": graph, "arguments": [f"x{i}" for i in range(len(args))],
        "returns": ", ".join("\x05" * count), "function": True, "target": target,
    }  # fmt: skip
    code = written._written(request, [])
    assert "clematis" not in code
    want = _core._Graph(graph)([cm.asarray(x) for x in args])
    got = run(loaded(code.save(tmp_path) / "model.py"), code, target, tmp_path, args)
    got = got if isinstance(got, tuple) else (got,)
    assert len(got) == len(want)
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y.numpy(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("wrong", ("pytorch", "", None))
def test_a_target_that_is_not_known(wrong):
    with pytest.raises(cm.errors.ArgumentError, match="the target is one of"):
        source(cm.nn.Linear(2, 2), wrong, np.ones((1, 2), "float32"))


def test_an_example_is_needed():
    with pytest.raises(cm.errors.ArgumentError, match="an example"):
        source(cm.nn.Linear(2, 2), "torch")


def test_the_source_module_stays_as_it_was():
    module, args = CASES["cnn"]()
    module.train()
    before = {k: x.numpy().copy() for k, x in module.buffers()._entries()}
    source(module, "torch", *args)
    assert module.training
    for k, x in module.buffers()._entries():
        np.testing.assert_array_equal(x.numpy(), before[k])
