"""Norms with running state, and layers without parameters, on each backend."""

import copy
import pickle

import clematis as cm
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from layer_cases import first, last, numbers


def host(x):
    return np.asarray(cm.asarray(x).numpy(), "float64")


def close(a, b, tolerance=1e-5):
    np.testing.assert_allclose(host(a), np.asarray(b), rtol=tolerance, atol=tolerance)


class Net(cm.Module):
    def __init__(self):
        self.norm = cm.nn.BatchNorm(3, momentum=0.3)

    def __call__(self, x):
        return self.norm(x)


def step(net, x, how):
    """A step of training by one way of taking gradients."""
    if how == "grad":
        cm.grad(lambda v: cm.sum(net(x, v=v) ** 3))(net.v)
    elif how == "tree":
        cm.grad(lambda net: cm.sum(net(x) ** 3))(net)
    elif how == "execute":
        cm.execute_with_gradients(lambda v: cm.sum(net(x, v=v) ** 3), net.v)
    else:
        net(x)


@pytest.mark.parametrize("how", ["call", "grad", "tree", "execute"])
def test_running_statistics_move_once_a_step(backend, how):
    net, norm = Net(), torch.nn.BatchNorm1d(3, momentum=0.3)
    xs = [numbers(5, 2, 3, seed=i) + i for i in range(3)]
    for x in xs:
        norm(first(torch.tensor(x)))
        step(net, cm.asarray(x), how)
    assert net.v.paths() == ["norm/weight", "norm/bias"]
    assert net.buffers().paths() == ["norm/running_mean", "norm/running_var"]
    found = net.buffers()
    close(found["norm/running_mean"], norm.running_mean)
    close(found["norm/running_var"], norm.running_var)
    assert found["norm/running_mean"].backend == backend
    # In evaluation they count, and stay.
    net.eval()
    norm.eval()
    x = numbers(5, 2, 3, seed=9)
    close(net(cm.asarray(x)), last(norm(first(torch.tensor(x)))).detach())
    close(net.buffers()["norm/running_mean"], norm.running_mean)


def test_gradients_of_batch_norm_are_torch_s(backend):
    x, y = numbers(4, 3), numbers(4, 3, seed=1)
    layer = cm.nn.BatchNorm(3)
    got = cm.grad(lambda x: cm.sum(layer(x) * cm.asarray(y)))(cm.asarray(x))
    own = torch.tensor(x, requires_grad=True)
    (F.batch_norm(own, None, None, training=True) * torch.tensor(y)).sum().backward()
    close(got, own.grad)


def test_batch_norm_with_channels_second_and_without_state(backend):
    x = numbers(2, 3, 4, 5)
    layer = cm.nn.BatchNorm2D(3, data_format="NCHW", track_running_stats=False, affine=False)
    want = F.batch_norm(torch.tensor(x), None, None, training=True)
    assert layer.v.paths() == layer.buffers().paths() == []
    close(layer(cm.asarray(x)), want)
    close(layer.eval()(cm.asarray(x)), want)


def test_state_goes_with_copies_files_and_moves(backend, tmp_path):
    net = Net()
    net(cm.asarray(numbers(5, 3) + 2))
    before = host(net.buffers()["norm/running_mean"])
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(host(other.buffers()["norm/running_mean"]), before)
        other(cm.asarray(numbers(5, 3) - 7))
        np.testing.assert_array_equal(host(net.buffers()["norm/running_mean"]), before)
    for to in ("native", "numpy"):
        moved = copy.deepcopy(net).to(to)
        assert moved.buffers()["norm/running_mean"].backend == to
        for _ in range(2):
            assert moved(cm.asarray(numbers(5, 3)).to(to)).backend == to
        assert moved.buffers()["norm/running_mean"].backend == to


def test_state_does_not_move_into_a_framework_s_trace():
    import jax

    with cm.backend("jax"):
        layer, x = cm.nn.BatchNorm(3), jax.numpy.ones((4, 3))
        with pytest.raises(cm.TraceError, match="jax"):
            jax.jit(layer)(x)
        close(layer.buffers().running_mean, [0, 0, 0])
        jax.grad(lambda x: layer(x).sum())(x)
        close(layer.buffers().running_mean, [0.1, 0.1, 0.1])
        assert jax.jit(layer.eval())(x).shape == (4, 3)
    import tensorflow as tf

    with cm.backend("tensorflow"):
        layer, x = cm.nn.BatchNorm(3), tf.ones((4, 3))
        with pytest.raises(cm.TraceError, match="tensorflow"):
            tf.function(lambda x: layer(x), autograph=False)(x)
        assert tf.function(layer.eval(), autograph=False)(x).shape == (4, 3)


def test_norms_with_channels_second(backend):
    x = numbers(2, 4, 5)
    close(cm.nn.GroupNorm(2, 4, data_format="NCW")(cm.asarray(x)), F.group_norm(torch.tensor(x), 2))
    close(cm.nn.InstanceNorm(4, data_format="NCS")(cm.asarray(x)), F.instance_norm(torch.tensor(x)))


def test_half_precision_norms_are_rounded_once(backend):
    x = numbers(64, 3).astype("float16")
    want = F.batch_norm(torch.tensor(x).double(), None, None, training=True).half()
    got = cm.nn.BatchNorm(3, dtype="float16")(cm.asarray(x))
    assert got.dtype == cm.float16
    np.testing.assert_allclose(host(got), want.double().numpy(), atol=2e-3)


POOLS = {
    "MaxPool1D": (lambda: cm.nn.MaxPool1D(3, 2, 1), (2, 8, 3), lambda x: F.max_pool1d(x, 3, 2, 1)),
    "MaxPool2D": (lambda: cm.nn.MaxPool2D((2, 3), ceil_mode=True), (2, 5, 7, 3), lambda x: F.max_pool2d(x, (2, 3), ceil_mode=True)),
    "MaxPool3D": (lambda: cm.nn.MaxPool3D(2), (1, 4, 5, 4, 2), lambda x: F.max_pool3d(x, 2)),
    "AvgPool1D": (lambda: cm.nn.AvgPool1D(3, 2, 1, count_include_pad=True), (2, 8, 3), lambda x: F.avg_pool1d(x, 3, 2, 1)),
    "AvgPool2D": (lambda: cm.nn.AvgPool2D(2, 1, divisor_override=3), (2, 5, 6, 3), lambda x: F.avg_pool2d(x, 2, 1, divisor_override=3)),
    "AvgPool3D": (lambda: cm.nn.AvgPool3D(2), (1, 4, 5, 4, 2), lambda x: F.avg_pool3d(x, 2)),
    "AdaptiveAvgPool1D": (lambda: cm.nn.AdaptiveAvgPool1D(3), (2, 7, 3), lambda x: F.adaptive_avg_pool1d(x, 3)),
    "AdaptiveAvgPool2D": (lambda: cm.nn.AdaptiveAvgPool2D((3, None)), (2, 7, 4, 3), lambda x: F.adaptive_avg_pool2d(x, (3, None))),
    "AdaptiveAvgPool3D": (lambda: cm.nn.AdaptiveAvgPool3D(2), (1, 5, 4, 3, 2), lambda x: F.adaptive_avg_pool3d(x, 2)),
    "AdaptiveMaxPool1D": (lambda: cm.nn.AdaptiveMaxPool1D(3), (2, 7, 3), lambda x: F.adaptive_max_pool1d(x, 3)),
    "AdaptiveMaxPool2D": (lambda: cm.nn.AdaptiveMaxPool2D((3, 2)), (2, 7, 4, 3), lambda x: F.adaptive_max_pool2d(x, (3, 2))),
    "AdaptiveMaxPool3D": (lambda: cm.nn.AdaptiveMaxPool3D(2), (1, 5, 4, 3, 2), lambda x: F.adaptive_max_pool3d(x, 2)),
    "GlobalAvgPool": (lambda: cm.nn.GlobalAvgPool(), (2, 5, 4, 3), lambda x: x.mean((2, 3))),
    "GlobalMaxPool": (lambda: cm.nn.GlobalMaxPool(), (2, 5, 4, 3), lambda x: x.amax((2, 3))),
}  # fmt: skip


@pytest.mark.parametrize("name", POOLS)
def test_pools_and_their_gradients_are_torch_s(backend, name):
    make, shape, function = POOLS[name]
    x = numbers(*shape)
    layer, own = make(), torch.tensor(x, requires_grad=True)
    want = function(first(own))
    want = last(want) if want.ndim > 2 else want
    close(layer(cm.asarray(x)), want.detach())
    (want**2).sum().backward()
    close(cm.grad(lambda x: cm.sum(layer(x) ** 2))(cm.asarray(x)), own.grad)


def test_pools_with_channels_second(backend):
    x = numbers(2, 3, 7, 4)
    close(cm.nn.AdaptiveMaxPool2D(2, data_format="NCHW")(cm.asarray(x)), F.adaptive_max_pool2d(torch.tensor(x), 2))
    close(cm.nn.AvgPool2D(2, data_format="NCHW")(cm.asarray(x)), F.avg_pool2d(torch.tensor(x), 2))
    got = cm.nn.GlobalMaxPool(data_format="NCHW", keepdims=True)(cm.asarray(x))
    close(got, torch.tensor(x).amax((2, 3), keepdim=True))


ACTIVATIONS = {
    "ReLU": (lambda: cm.nn.ReLU(), F.relu),
    "ReLU6": (lambda: cm.nn.ReLU6(), F.relu6),
    "SELU": (lambda: cm.nn.SELU(), F.selu),
    "Sigmoid": (lambda: cm.nn.Sigmoid(), torch.sigmoid),
    "LogSigmoid": (lambda: cm.nn.LogSigmoid(), F.logsigmoid),
    "Tanh": (lambda: cm.nn.Tanh(), torch.tanh),
    "SiLU": (lambda: cm.nn.SiLU(), F.silu),
    "Mish": (lambda: cm.nn.Mish(), F.mish),
    "HardSigmoid": (lambda: cm.nn.HardSigmoid(), F.hardsigmoid),
    "HardSwish": (lambda: cm.nn.HardSwish(), F.hardswish),
    "GEGLU": (lambda: cm.nn.GEGLU(), lambda x: x[..., :2] * F.gelu(x[..., 2:])),
    "GELU": (lambda: cm.nn.GELU(), F.gelu),
    "GELUTanh": (lambda: cm.nn.GELU(approximate=True), lambda x: F.gelu(x, approximate="tanh")),
    "LeakyReLU": (lambda: cm.nn.LeakyReLU(0.1), lambda x: F.leaky_relu(x, 0.1)),
    "ELU": (lambda: cm.nn.ELU(0.5), lambda x: F.elu(x, 0.5)),
    "ThresholdedReLU": (lambda: cm.nn.ThresholdedReLU(0.5), lambda x: F.threshold(x, 0.5, 0.0)),
    "Softplus": (lambda: cm.nn.Softplus(2.0, 1.0), lambda x: F.softplus(x, 2.0, 1.0)),
    "Logit": (lambda: cm.nn.Logit(0.1), lambda x: torch.logit(x, 0.1)),
    "Softmax": (lambda: cm.nn.Softmax(), lambda x: F.softmax(x, -1)),
    "LogSoftmax": (lambda: cm.nn.LogSoftmax(0), lambda x: F.log_softmax(x, 0)),
    "PReLU": (lambda: cm.nn.PReLU(), lambda x: F.prelu(x, torch.tensor([0.25]))),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_torch_s(backend, name):
    make, function = ACTIVATIONS[name]
    x = numbers(3, 4)
    close(make()(cm.asarray(x)), function(torch.tensor(x)))


def test_every_activation_by_name_has_a_class():
    known = {name.lower() for name in cm.nn.__all__}
    for name in ("relu", "gelu", "silu", "mish", "elu", "selu", "softmax", "tanh", "leaky_relu", "hard_swish", "prelu"):
        assert name.replace("_", "") in known
        assert callable(cm.get(name))


PROBS = np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]], "float32")
TARGET = np.array([[0.0, 1.0, 0.0], [0.3, 0.3, 0.4]], "float32")
CLASSES = np.array([2, 0], "int32")
LOSSES = {
    "L1Loss": (lambda r: cm.nn.L1Loss(reduction=r), TARGET, PROBS, lambda t, p, r: F.l1_loss(p, t, reduction=r)),
    "MSELoss": (lambda r: cm.nn.MSELoss(reduction=r), TARGET, PROBS, lambda t, p, r: F.mse_loss(p, t, reduction=r)),
    "HuberLoss": (lambda r: cm.nn.HuberLoss(delta=0.3, reduction=r), TARGET, PROBS, lambda t, p, r: F.huber_loss(p, t, reduction=r, delta=0.3)),
    "SmoothL1Loss": (lambda r: cm.nn.SmoothL1Loss(beta=0.3, reduction=r), TARGET, PROBS, lambda t, p, r: F.smooth_l1_loss(p, t, reduction=r, beta=0.3)),
    "BinaryCrossEntropyLoss": (lambda r: cm.nn.BinaryCrossEntropyLoss(reduction=r), TARGET, PROBS, lambda t, p, r: F.binary_cross_entropy(p, t, reduction=r)),
    "BinaryOfLogits": (lambda r: cm.nn.BinaryCrossEntropyLoss(from_logits=True, reduction=r), TARGET, PROBS * 9, lambda t, p, r: F.binary_cross_entropy_with_logits(p, t, reduction=r)),
    "CrossEntropyLoss": (lambda r: cm.nn.CrossEntropyLoss(reduction=r), TARGET, PROBS, lambda t, p, r: F.cross_entropy(p.log(), t, reduction=r)),
    "OfLogits": (lambda r: cm.nn.CrossEntropyLoss(from_logits=True, reduction=r), TARGET, PROBS * 9, lambda t, p, r: F.cross_entropy(p, t, reduction=r)),
    "OfClasses": (lambda r: cm.nn.CrossEntropyLoss(from_logits=True, reduction=r), CLASSES, PROBS * 900, lambda t, p, r: F.cross_entropy(p, t.long(), reduction=r)),
    "SparseCrossEntropyLoss": (lambda r: cm.nn.SparseCrossEntropyLoss(reduction=r), CLASSES, PROBS, lambda t, p, r: F.nll_loss(p.log(), t.long(), reduction=r)),
}  # fmt: skip


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_torch_s(backend, name, reduction):
    make, true, pred, function = LOSSES[name]
    close(
        make(reduction)(cm.asarray(true), cm.asarray(pred)), function(torch.tensor(true), torch.tensor(pred), reduction)
    )


def test_logits_along_another_axis_and_of_a_wrong_shape(backend):
    x, t = numbers(2, 3, 4), np.array([[0, 1, 2, 0], [2, 2, 1, 0]], "int32")
    got = cm.nn.CrossEntropyLoss(from_logits=True, axis=1)(cm.asarray(t), cm.asarray(x))
    close(got, F.cross_entropy(torch.tensor(x), torch.tensor(t).long()))
    with pytest.raises(cm.ShapeError, match=r"\[2,3,4\].*\[2,4\]"):
        cm.nn.CrossEntropyLoss(from_logits=True)(cm.asarray(t), cm.asarray(x))


def test_layers_without_parameters_have_none_and_take_the_usual_words(backend):
    for kind in (cm.nn.ReLU, cm.nn.Flatten, cm.nn.Identity, cm.nn.MSELoss, cm.nn.GlobalAvgPool):
        assert kind(key=cm.random.key(0), dtype="float32", device=None, v=None).v.paths() == []


def test_flatten(backend):
    x = cm.asarray(numbers(2, 3, 4, 5))
    assert cm.nn.Flatten()(x).shape == (2, 60)
    assert cm.nn.Flatten(1, 2)(x).shape == (2, 12, 5)
    assert cm.flatten(cm.zeros((0, 3, 2)), start_dim=1).shape == (0, 6)
    assert cm.flatten(cm.asarray(3.0)).shape == (1,)
    with pytest.raises(cm.ArgumentError, match="2.*1"):
        cm.nn.Flatten(2, 1)(x)


@pytest.mark.parametrize(
    ("make", "std"),
    [
        (lambda: cm.nn.GlorotUniform(), (2 / 300) ** 0.5),
        (lambda: cm.nn.GlorotNormal(), (2 / 300) ** 0.5),
        (lambda: cm.nn.KaimingNormal(), (2 / 100) ** 0.5),
        (lambda: cm.nn.KaimingUniform(), (2 / 100) ** 0.5),
        (lambda: cm.nn.KaimingUniform("fan_out", 1.0), (1 / 200) ** 0.5),
        (lambda: cm.nn.LecunNormal(), 0.1),
        (lambda: cm.nn.LecunUniform(), 0.1),
        (lambda: cm.nn.Normal(1.0, 0.3), 0.3),
        (lambda: cm.nn.TruncatedNormal(std=0.5), 0.5 * 0.8796),
    ],
)
def test_initialisers_have_their_spread(backend, make, std):
    x = make().create_variables((200, 100), None, 200, 100, key=cm.random.key(1))
    assert x.backend == backend
    assert abs(host(x).std() / std - 1) < 0.02
    cm.seed(4)
    a = make().create_variables((5,), None, 200, 100)
    cm.seed(4)
    assert host(a).tobytes() == host(make().create_variables((5,), None, 200, 100)).tobytes()


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 2, 3)])
def test_orthogonal_matrices_are_the_same_everywhere(backend, shape):
    w = cm.nn.Orthogonal(2.0).create_variables(shape, key=cm.random.key(2))
    with cm.backend("native"):
        native = cm.nn.Orthogonal(2.0).create_variables(shape, key=cm.random.key(2))
    assert w.backend == backend
    assert w.numpy().tobytes() == native.numpy().tobytes()
    m = host(w).reshape(-1, shape[-1])
    small = m @ m.T if m.shape[0] < m.shape[1] else m.T @ m
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)
    with pytest.raises(cm.ShapeError, match="two axes"):
        cm.nn.Orthogonal().create_variables((3,))


def test_fans_of_a_convolution_count_its_field():
    w = cm.nn.Conv2D(8, 16, (3, 5), key=cm.random.key(0)).v.w
    bound = (6 / (15 * 8 + 15 * 16)) ** 0.5
    assert 0.99 * bound < float(cm.max(cm.abs(w))) < bound
    with pytest.raises(cm.ArgumentError, match="fan"):
        cm.nn.GlorotNormal().create_variables((2, 2))
