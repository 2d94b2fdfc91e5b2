"""Names from files and users in generated code: run in every form, and compared."""

import ast
import importlib.util
import itertools
import json
import re
import subprocess
import sys

import clematis as cm
import numpy as np
import pytest
from clematis import _clematis as _core
from clematis._convert.files import from_file
from clematis._convert.onnx import from_onnx
from clematis._convert.source import _literal, _written, source
from source_nets import run

SOURCES = ("torch", "jax", "tensorflow", "keras", "haiku", "flax", "numpy", "clematis")
FOLDERS = ("numpy", "torch", "jax", "haiku", "flax", "tensorflow", "keras")
# Pairs that become equal once they are cleaned, keywords, names of modules, methods and arguments.
NAMES = (
    "fc", "_fc", "a-b", "a_b", "a.b", "a/b", "if", "if_", "class", "ops", "torch", "self", "x", "w", "held", "train",
    "train_", "forward", "call", "params", "lambda", "v1", "3", "v3", "out", "program", "rngs", "constants",
    "constant_0", "naïve", "na_ve", "\u202eevil", 'quote"\\', "weight", "bias", "model", "np", "linear", "step",
)  # fmt: skip
NUMBERS = itertools.count()


def loaded(path):
    """The file as a module of its own."""
    spec = importlib.util.spec_from_file_location(f"hostile_{next(NUMBERS)}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def quoted(name):
    """A text in a program."""
    return re.sub(r"\\u(....)", r"\\u{\1}", json.dumps(name, ensure_ascii=False))


def weighted(names, size="n"):
    """A program that multiplies by each weight and adds another one, with weights under these names, and its values."""
    lines = [f"  input %{i}: f32[3] param {quoted(name)}" for i, name in enumerate(names)]
    at = len(names)
    lines.append(f"  input %{at}: f32[{size},3] input")
    value = at
    for i in range(len(names)):
        op = "mul" if i % 2 else "add"
        lines.append(f"  %{at + 1 + i}: f32[{size},3] = {op}(%{value}, %{i})")
        value = at + 1 + i
    text = "graph {\n" + "\n".join(lines) + f"\n  return %{value}\n}}"
    values = [np.array([1, 2, 3], "float32") / (i + 2) for i in range(len(names))]
    return _core._Graph(text), text, values


def expected(values, x):
    for i, w in enumerate(values):
        x = x * w if i % 2 else x + w
    return x


X = np.arange(6, dtype="float32").reshape(2, 3) / 7


def saved(path, names, **words):
    """The program as a file of our own."""
    graph, _, values = weighted(names, **words)
    held = {i: cm.asarray(x) for i, x in enumerate(values)}
    _core._export_file(graph, str(path), held, ["x"], ["y"])
    return values


@pytest.mark.parametrize("target", SOURCES)
def test_weights_whose_names_collide_stay_apart_in_source(target, tmp_path):
    _, text, values = weighted(NAMES)
    request = {"name": "class", "graph": text, "arguments": ["if"], "returns": "\x05", "target": target}
    code = _written(request, [cm.asarray(x) for x in values])
    assert len(code.weights) == len(NAMES)
    out = run(loaded(code.save(tmp_path) / "model.py"), code, target, tmp_path, [X])
    np.testing.assert_allclose(out, expected(values, X), rtol=1e-5)


@pytest.mark.parametrize("target", FOLDERS)
def test_weights_whose_names_collide_stay_apart_in_folders(target, tmp_path):
    values = saved(tmp_path / "net.clematis", NAMES, size="v1")
    np.save(tmp_path / "x.npy", X)
    out = tmp_path / target
    assert _core._run_command_line(["clematis", "convert", str(tmp_path / "net.clematis"), "--to", target, "--out", str(out)]) == 0
    words = [sys.executable, "model.py", "../x.npy", "--out", "../y.npz"]
    done = subprocess.run(words, cwd=out, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "y.npz") as archive:
        np.testing.assert_allclose(archive["y"], expected(values, X), rtol=1e-5)


def test_weights_whose_names_collide_stay_apart_in_files(tmp_path):
    values = saved(tmp_path / "net.clematis", NAMES)
    net = from_file(tmp_path / "net.clematis")
    assert len(list(net.v._entries())) == len(NAMES)
    np.testing.assert_allclose(net(X), expected(values, X), rtol=1e-5)
    # Through ONNX and back.
    cm.to_onnx(net, tmp_path / "net.onnx", X)
    np.testing.assert_allclose(from_onnx(tmp_path / "net.onnx")(X), expected(values, X), rtol=1e-5)


def test_a_module_of_torch_with_names_that_collide(tmp_path):
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name in ("fc", "_fc", "a-b", "a_b", "class", "if", "ops"):
                self.add_module(name, torch.nn.Linear(3, 3))

        def forward(self, x):
            for part in self._modules.values():
                x = torch.tanh(part(x))
            return x

    torch.manual_seed(0)
    net = Net().eval()
    want = net(torch.from_numpy(X)).detach().numpy()
    for target in SOURCES:
        folder = tmp_path / target
        code = source(net, target, torch.from_numpy(X))
        assert len(code.weights) == 14
        out = run(loaded(code.save(folder) / "model.py"), code, target, folder, [X])
        np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ("v1", "v2", "v3", "if", "class", "ops", "out", "program", "lambda", "_body_1", "x", "float", "len"))
def test_a_symbolic_dimension_does_not_hide_a_variable(name, backend, tmp_path):
    # relu(x) / size: the size is read, and values are numbered as it may be called.
    text = (
        f"graph {{\n  input %0: f32[{name},3] input\n  %1: f32[{name},3] = abs(%0)\n  %2: f32[{name},3] = maximum(%1, %0)\n"
        f"  %3: f32[3*{name}] = reshape(%2) {{shape=[3*{name}]}}\n  %4: f32[{name},3] = reshape(%3) {{shape=[{name},3]}}\n"
        f"  return %4\n}}"
    )
    graph = _core._Graph(text)
    run_it = cm.jit(lambda x: graph([x])[0])
    np.testing.assert_allclose(np.asarray(run_it(cm.asarray(X))), np.abs(X), rtol=1e-6)
    _core._export_file(graph, str(tmp_path / "net.clematis"), {}, ["x"], ["y"])
    np.save(tmp_path / "x.npy", X)
    out = tmp_path / "numpy"
    assert _core._run_command_line(["clematis", "convert", str(tmp_path / "net.clematis"), "--to", "numpy", "--out", str(out)]) == 0
    words = [sys.executable, "model.py", "../x.npy", "--out", "../y.npz"]
    done = subprocess.run(words, cwd=out, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "y.npz") as archive:
        np.testing.assert_allclose(archive["y"], np.abs(X), rtol=1e-6)


def onnx_model(inputs, shape, nodes=None):
    """An ONNX model y = |x| of inputs that have these names and sizes."""
    import onnx
    from onnx import TensorProto, helper

    xs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in inputs]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = nodes or [helper.make_node("Abs", [inputs[0]], ["y"])]
    graph = helper.make_graph(nodes, "g", xs, [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString(), onnx


@pytest.mark.parametrize("size", ("v1", "if", "class", "ops", "a-b", "max", "ü", "x\n= 1"))
def test_a_size_of_an_onnx_model_may_have_any_name(size, backend):
    model, _ = onnx_model(["x"], [size, 3])
    net = from_onnx(model)
    np.testing.assert_allclose(cm.jit(net)(cm.asarray(X)).numpy(), np.abs(X))


def test_sizes_of_an_onnx_model_with_different_names_stay_different():
    from onnx import helper

    model, _ = onnx_model(["x"], ["a-b", "a_b"], [helper.make_node("Shape", ["x"], ["y"])])
    assert from_onnx(model)(X).tolist() == [2, 3]


TEXTS = ("plain", 'a"b', "a'b", "$", "a\\", "\n", "\x00" + "12", "\xa0", "\u2028", "😀", '"""', "{x}", "\x05", "é", "\u202e")


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_a_literal_of_itself(text):
    assert ast.literal_eval(_core._python_string(text)) == text


def test_any_text_is_a_literal_of_itself():
    from hypothesis import given
    from hypothesis import strategies as st

    @given(st.text())
    def check(text):
        literal = _core._python_string(text)
        assert ast.literal_eval(literal) == text and "\n" not in literal

    check()


@pytest.mark.parametrize("x", (1, -1, True, None, 1.5, float("inf"), "a$b", 10**30, -0.0))
def test_a_plain_value_is_a_literal_of_itself(x):
    assert eval(_literal(x), {"float": float}) == x  # noqa: S307


@pytest.mark.parametrize("target", SOURCES)
def test_keys_of_a_result_may_be_any_text(target, tmp_path):
    def function(x):
        return {key: x + i for i, key in enumerate(TEXTS)} | {1: x, None: x * 2, True: (x,)}

    code = source(function, target, cm.asarray(X))
    (tmp_path / "model.py").write_text(code, encoding="utf-8")
    from source_nets import _given, _host

    out = getattr(loaded(tmp_path / "model.py"), code.entry)(_given(target, X))
    want = function(X)
    assert list(out) == list(want)
    for i, key in enumerate(TEXTS):
        np.testing.assert_allclose(_host(out[key]), X + i, rtol=1e-6)


@pytest.mark.parametrize("stem", ('"""\nimport os\nos.abort()\n"""', "a\\", '"', "\\N{x}", "\u2028", "'''"))
@pytest.mark.parametrize("target", FOLDERS)
def test_a_file_name_is_no_code(stem, target, tmp_path):
    values = saved(tmp_path / f"{stem}.clematis", ("w",))
    out = tmp_path / "out"
    assert _core._run_command_line(["clematis", "convert", str(tmp_path / f"{stem}.clematis"), "--to", target, "--out", str(out)]) == 0
    text = (out / "model.py").read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text), clean=False).startswith(stem)
    if target == "numpy":
        np.testing.assert_allclose(loaded_folder(out)(X), expected(values, X), rtol=1e-6)


def loaded_folder(folder):
    """The model of a folder."""
    sys.path.insert(0, str(folder))
    try:
        return loaded(folder / "model.py").Model()
    finally:
        sys.path.remove(str(folder))
        for name in [x for x in sys.modules if x.startswith("clematis_ops")]:
            del sys.modules[name]


def test_names_of_inputs_and_outputs_may_be_any_text(tmp_path):
    names = ['x"', "x$\n"]
    text = "graph {\n  input %0: f32[2] input\n  input %1: f32[2] input\n  %2: f32[2] = sub(%0, %1)\n  return %2\n}"
    _core._export_file(_core._Graph(text), str(tmp_path / "net.clematis"), {}, names, ["\u2028"])
    out = tmp_path / "out"
    assert _core._run_command_line(["clematis", "convert", str(tmp_path / "net.clematis"), "--to", "numpy", "--out", str(out)]) == 0
    spec = loaded_folder(out)
    assert spec(np.float32([3, 4]), np.float32([1, 1])).tolist() == [2, 3]


def test_names_with_control_characters_are_shown_escaped(tmp_path, capfd):
    name = "\x1b[2Jcleared\u202e"
    saved(tmp_path / "net.clematis", (name,))
    assert _core._run_command_line(["clematis", "inspect", str(tmp_path / "net.clematis")]) == 0
    shown = capfd.readouterr().out
    assert "\x1b" not in shown and "\u202e" not in shown and "cleared" in shown
