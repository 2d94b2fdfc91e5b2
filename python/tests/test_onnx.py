"""ONNX in and out: the node tests of the package `onnx`, and models that onnxruntime runs."""

import itertools

import clematis as cm
import numpy as np
import onnx
import onnx_cases
import pytest
from clematis import nn
from clematis._convert.onnx import from_onnx, to_onnx
from onnx import TensorProto, helper, numpy_helper

CASES = [c for c in onnx_cases.known() if c.name not in onnx_cases.LIMITS]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_node(case):
    onnx_cases.check(case)


def test_only_what_is_no_tensor_is_left_out():
    names = {c.name for c in onnx_cases.known()}
    assert set(onnx_cases.LIMITS) <= names
    for case in onnx_cases.known():
        if case.name in onnx_cases.LIMITS:
            with pytest.raises((cm.ClematisError, TypeError)):
                onnx_cases.check(case)


def test_at_least_120_ops_have_all_their_cases():
    # An op counts if no case of it is left out.
    alone = [(op, c.name) for c in onnx_cases.known() if len(ops := onnx_cases.ops(c.model)) == 1 for op in ops]
    partly = {op for op, name in alone if name in onnx_cases.LIMITS}
    whole = {op for op, _ in alone} - partly
    assert len(whole) >= 170
    assert partly == {"Equal", "Identity"}


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
    import onnxruntime as ort
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


@pytest.mark.parametrize("name", ["resnet", "encoder", "lstm"])
def test_models_of_torch_go_on_to_onnx(name, tmp_path):
    import onnxruntime as ort
    import torch

    torch.manual_seed(0)
    net, example = _torch_models()[name]
    path = tmp_path / "model.onnx"
    with cm.backend("native"):
        ours = cm.from_torch_module(net, example(2))
        ours.eval()
        to_onnx(ours, path)
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        assert max(o.version for o in model.opset_import) >= 17
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        back = from_onnx(path)
        for n in (2, 5):
            x = example(n)
            want = [y.detach().numpy() for y in torch.utils._pytree.tree_leaves(net(x))]
            again = back(cm.asarray(x.numpy()))
            again = again if isinstance(again, tuple) else (again,)
            got = session.run(None, {model.graph.input[0].name: x.numpy()})
            for a, b, c in zip(want, got, again, strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(c.numpy(), a, rtol=1e-4, atol=1e-5)


def _torch_models():
    import torch
    from torch import nn as tnn

    class Block(tnn.Module):
        def __init__(self, i, o, stride):
            super().__init__()
            self.inner = tnn.Sequential(
                tnn.Conv2d(i, o, 3, stride, 1, bias=False), tnn.BatchNorm2d(o), tnn.ReLU(),
                tnn.Conv2d(o, o, 3, 1, 1, bias=False), tnn.BatchNorm2d(o),
            )  # fmt: skip
            self.down = tnn.Sequential(tnn.Conv2d(i, o, 1, stride, bias=False), tnn.BatchNorm2d(o))

        def forward(self, x):
            return torch.relu(self.inner(x) + self.down(x))

    resnet = tnn.Sequential(
        tnn.Conv2d(3, 8, 7, 2, 3, bias=False), tnn.BatchNorm2d(8), tnn.ReLU(), tnn.MaxPool2d(3, 2, 1),
        Block(8, 8, 1), Block(8, 16, 2), tnn.AdaptiveAvgPool2d(1), tnn.Flatten(), tnn.Linear(16, 10),
    ).eval()  # fmt: skip
    for m in resnet.modules():
        if isinstance(m, tnn.BatchNorm2d):
            m.running_mean.normal_()
            m.running_var.uniform_(0.5, 2.0)
    layer = tnn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")
    encoder = tnn.Sequential(tnn.Embedding(50, 16), tnn.TransformerEncoder(layer, 2), tnn.Linear(16, 50)).eval()
    lstm = tnn.LSTM(5, 7, 2, bidirectional=True, batch_first=True).eval()
    return {
        "resnet": (resnet, lambda n: torch.randn(n, 3, 32, 32)),
        "encoder": (encoder, lambda n: torch.randint(0, 50, (n, 6))),
        "lstm": (lstm, lambda n: torch.randn(n, 6, 5)),
    }


def test_a_model_is_saved_and_loaded(tmp_path):
    with cm.backend("native"):
        first, second = from_onnx(_linear()), from_onnx(_linear())
        second.v["layer/bias"] = cm.zeros(2)
        first.save(tmp_path / "net.safetensors")
        second.load(tmp_path / "net.safetensors")
        x = cm.asarray(_floats(4, 3))
        np.testing.assert_array_equal(first(x).numpy(), second(x).numpy())


def test_weights_keep_their_names_and_train():
    with cm.backend("native"):
        data = _linear()
        net = from_onnx(data)
        assert sorted(path for path, _ in net.v._entries()) == ["layer/bias", "layer/weight"]
        x = cm.asarray(_floats(4, 3))

        def loss(v):
            return cm.mean(net(x, v=v) ** 2)

        losses = []
        for _ in range(5):
            value, grads = cm.value_and_grad(loss)(net.v)
            assert sorted(path for path, _ in grads._entries()) == ["layer/bias", "layer/weight"]
            net.v = cm.gradient_descent_update(net.v, grads, 0.1)
            losses.append(float(value))
        assert all(a > b for a, b in itertools.pairwise(losses))


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
    np.testing.assert_allclose(
        np.asarray(out.to("numpy").native), np.asarray(want.to("numpy").native), rtol=1e-5, atol=1e-6
    )


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
