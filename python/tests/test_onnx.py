"""ONNX in and out: the node tests of the package `onnx`, and models that onnxruntime runs."""

import collections
import importlib.util

import numpy as np
import pytest

import clematis as cm
from clematis import _clematis as core
from clematis import nn
from clematis._convert.onnx import from_onnx, to_onnx

pytest.importorskip("onnx")
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

KNOWN = frozenset(core._onnx_ops())
# Types that we have no tensors of.
NO_TENSORS = {8, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26}
# Results that are drawn: element type and shape are all that can be the same.
DRAWN = ("bernoulli", "training_dropout")


def _ops(model):
    """The names of all ops, those in bodies too."""

    def of(graph):
        for node in graph.node:
            yield f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    yield from of(attribute.g)

    return set(of(model.graph))


def _has_tensors(model):
    """Whether all that goes in, comes out and is made between are tensors that we have."""

    def fine(info):
        kind = info.type
        return kind.WhichOneof("value") == "tensor_type" and kind.tensor_type.elem_type not in NO_TENSORS

    def plain(node):
        return all(a.name != "to" or a.i not in NO_TENSORS for a in node.attribute)

    graph = model.graph
    return all(map(fine, [*graph.input, *graph.output])) and all(map(plain, graph.node))


def _cases():
    from onnx.backend.test.loader import load_model_tests

    return load_model_tests(kind="node")


ALL = _cases()
CASES = [c for c in ALL if _ops(c.model) <= KNOWN and _has_tensors(c.model)]


def _array(x):
    return numpy_helper.to_array(x) if isinstance(x, TensorProto) else np.asarray(x)


def _outputs(data, feed):
    """The outputs, of a program if shapes allow for one: inputs that decide about them are given with the model."""

    def captured(values):
        net = from_onnx(data, values=values)
        names = net._ways[0].arguments.names
        with cm.backend("native"):
            out = net(*[cm.asarray(feed[name]) for name in names])
        return out if isinstance(out, tuple) else (out,)

    with cm.backend("native"):
        try:
            return captured({})
        except cm.UnsupportedError as e:
            if "has to be known" not in str(e) and "nothing is said of the shape" not in str(e):
                raise
        try:
            return captured(dict(list(feed.items())[1:]))
        except cm.UnsupportedError as e:
            if "has to be known" not in str(e) and "nothing is said of the shape" not in str(e):
                raise
        return [x for _, x in core._run_onnx(data, feed)]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_node(case):
    data = case.model.SerializeToString()
    for given, wanted in case.data_sets:
        feed = dict(zip([i.name for i in case.model.graph.input], map(_array, given), strict=True))
        got = _outputs(data, feed)
        assert len(got) == len(wanted)
        for x, want in zip(got, map(_array, wanted), strict=True):
            x = np.asarray(x.to("numpy").native)
            assert x.shape == want.shape
            assert x.dtype == want.dtype
            if any(word in case.name for word in DRAWN) and "zero_ratio" not in case.name:
                continue
            _close(x, want, case)


def _close(x, want, case):
    if want.dtype.kind not in "fcV" and want.dtype.name != "bfloat16":
        np.testing.assert_array_equal(x, want)
        return
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    # A sum is known up to the rounding of its largest part; of half precision several roundings follow each other.
    half = {"float16": 2.0**-9, "bfloat16": 2.0**-6}.get(want.dtype.name, 0.0)
    size = np.abs(want[np.isfinite(want)].astype(wide)).max(initial=0.0)
    unit = {"float64": 2.0**-52, "complex128": 2.0**-52}.get(want.dtype.name, 2.0**-23)
    np.testing.assert_allclose(
        x.astype(wide), want.astype(wide), rtol=max(case.rtol, half), atol=max(case.atol, half * size, unit * size)
    )


def test_at_least_120_ops_have_all_their_cases():
    # An op counts if no case of it was left out above, for its types or for an op beside it.
    ran = {c.name for c in CASES}
    alone = [(op, c.name) for c in ALL if len(ops := _ops(c.model)) == 1 for op in ops]
    partly = {op for op, name in alone if name not in ran}
    whole = {op for op, _ in alone} - partly
    assert len(whole) >= 120, (sorted(whole), sorted(partly))


# Out: what onnxruntime makes of our files.


def _floats(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax()), (4, 5)),
    "convnet": (
        lambda: nn.Sequential(
            nn.Conv2D(3, 8, 3), nn.BatchNorm2D(8), nn.ReLU(), nn.MaxPool2D(2, 2, 0), nn.Conv2D(8, 4, 3, 2, "VALID"),
            nn.GELU(), nn.Flatten(), nn.Linear(36, 5),
        ),
        (2, 16, 16, 3),
    ),
    "channels first": (
        lambda: nn.Sequential(
            nn.Conv2D(3, 8, 3, 1, "SAME", data_format="NCHW"), nn.BatchNorm2D(8, data_format="NCS"), nn.SiLU(),
            nn.AvgPool2D(2, 2, 0, data_format="NCHW"), nn.GroupNorm(2, 8, data_format="NCS"),
        ),
        (2, 3, 16, 16),
    ),
    "transposed": (lambda: nn.Sequential(nn.Conv2DTranspose(3, 6, 3, 2), nn.LeakyReLU(), nn.RMSNorm(6)), (2, 8, 8, 3)),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 4, 32, norm_first=True, activation="gelu"), (2, 6, 16)),
    "lstm": (lambda: nn.LSTM(5, 7, num_layers=2, bidirectional=True, return_state=False), (2, 6, 5)),
    "gru": (lambda: nn.GRU(5, 7, return_state=False), (2, 6, 5)),
    "dropout": (lambda: nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.5), nn.LogSoftmax()), (3, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_agrees(name, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    make, shape = MODELS[name]
    path = tmp_path / "model.onnx"
    with cm.backend("native"):
        net = make()
        net.eval()
        to_onnx(net, path, _floats(*shape))
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        assert max(o.version for o in model.opset_import) >= 17
        assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        back = from_onnx(path)
        for size in (shape[0], 7):
            x = _floats(size, *shape[1:])
            want = np.asarray(net(cm.asarray(x)).to("numpy").native)
            (got,) = session.run(None, {model.graph.input[0].name: x})
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(np.asarray(back(cm.asarray(x)).to("numpy").native), want, rtol=1e-4, atol=1e-5)


def test_weights_keep_their_names_and_train():
    with cm.backend("native"):
        data = _linear()
        net = from_onnx(data)
        assert sorted(path for path, _ in net.v._entries()) == ["layer/bias", "layer/weight"]
        x = cm.asarray(_floats(4, 3))

        def loss(v):
            return cm.mean(net(x, v=v) ** 2)

        value, grads = cm.value_and_grad(loss)(net.v)
        assert float(value) > 0
        assert sorted(path for path, _ in grads._entries()) == ["layer/bias", "layer/weight"]


def _linear():
    weight, bias = _floats(2, 3), _floats(2)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "layer.weight", "layer.bias"], ["y"], transB=1)],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [numpy_helper.from_array(weight, "layer.weight"), numpy_helper.from_array(bias, "layer.bias")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString()


def test_runs_on_every_backend(backend):
    net = from_onnx(_linear())
    x = _floats(4, 3)
    out = net(cm.asarray(x))
    assert out.backend == backend
    with cm.backend("native"):
        want = from_onnx(_linear())(cm.asarray(x))
    np.testing.assert_allclose(np.asarray(out.to("numpy").native), np.asarray(want.to("numpy").native), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\x08\x09", _linear()[:-20]])
def test_damaged_files_are_refused(data):
    with pytest.raises(cm.ClematisError):
        from_onnx(data)


def test_what_is_missing_is_told(tmp_path):
    with pytest.raises(cm.ClematisError, match="none.onnx"):
        from_onnx(tmp_path / "none.onnx")
    with pytest.raises(cm.ArgumentError, match="path or bytes"):
        from_onnx(3)
    with pytest.raises(cm.ArgumentError, match="example inputs"):
        to_onnx(nn.Linear(3, 2), tmp_path / "x.onnx")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not there")
def test_torchs_own_exporter(tmp_path):
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(), torch.nn.Linear(8, 4), torch.nn.Softmax(-1),
    ).eval()  # fmt: skip
    x = torch.randn(2, 3, 8, 8)
    path = tmp_path / "torch.onnx"
    torch.onnx.export(net, (x,), path, input_names=["x"], dynamic_axes={"x": {0: "batch"}}, dynamo=False)
    with cm.backend("native"):
        ours = from_onnx(path)
        for n in (2, 5):
            x = torch.randn(n, 3, 8, 8)
            got = np.asarray(ours(cm.asarray(x.numpy())).to("numpy").native)
            np.testing.assert_allclose(got, net(x).detach().numpy(), rtol=1e-4, atol=1e-6)
