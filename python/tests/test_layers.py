"""Every layer with parameters against torch, on each backend: results, gradients of each parameter, bad input."""

import copy
import pickle

import clematis as cm
import numpy as np
import pytest
import torch
from layer_cases import CASES, flat, numbers


def host(x):
    return np.asarray(cm.asarray(x).numpy(), "float64")


def reference(case, v):
    """Torch's results, and the gradients of the sum of their squares, by path."""
    leaves = {path: torch.tensor(v[path].numpy(), requires_grad=True) for path in v.paths()}
    outs = flat(case.torch(leaves, *(torch.tensor(x) for x in case.inputs)))
    sum((x**2).sum() for x in outs).backward()
    return [x.detach().numpy() for x in outs], {path: x.grad.numpy() for path, x in leaves.items()}


def loss(outs):
    return sum((cm.sum(x * x) for x in flat(outs)), 0.0)


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_torch(backend, name):
    case = CASES[name]
    layer = case.make(cm.random.key(7))
    # Zero biases and unit scales would hide mistakes.
    moved = iter(range(100))
    layer.v = layer.v.map(lambda x: x + cm.asarray(numbers(*x.shape, seed=next(moved)) * 0.1))
    inputs = [cm.asarray(x) for x in case.inputs]
    want, expected_grads = reference(case, layer.v)
    got = [host(x) for x in flat(layer(*inputs, **case.call))]
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    grads = cm.grad(lambda v: loss(layer(*inputs, v=v, **case.call)))(layer.v)
    assert grads.paths() == layer.v.paths()
    for path in grads.paths():
        np.testing.assert_allclose(host(grads[path]), expected_grads[path], rtol=1e-3, atol=1e-4, err_msg=path)


@pytest.mark.parametrize("name", CASES)
def test_one_key_gives_the_same_parameters_everywhere(backend, name):
    layer = CASES[name].make(cm.random.key(3))
    with cm.backend("native"):
        native = CASES[name].make(cm.random.key(3))
    assert layer.v.paths() == native.v.paths()
    for path in layer.v.paths():
        assert layer.v[path].backend == backend
        assert layer.v[path].numpy().tobytes() == native.v[path].numpy().tobytes(), path


@pytest.mark.parametrize("name", ["Linear", "Conv2D", "LSTM", "MultiHeadAttention", "LayerNorm", "TransformerEncoder"])
def test_half_precision_is_kept(backend, name):
    case = {
        "Linear": lambda: cm.nn.Linear(3, 2, dtype="float16"),
        "Conv2D": lambda: cm.nn.Conv2D(3, 2, 1, dtype="float16"),
        "LSTM": lambda: cm.nn.LSTM(3, 2, dtype="float16", return_state=False),
        "MultiHeadAttention": lambda: cm.nn.MultiHeadAttention(3, num_heads=1, head_dim=2, dtype="float16"),
        "LayerNorm": lambda: cm.nn.LayerNorm(3, dtype="float16"),
        "TransformerEncoder": lambda: cm.nn.TransformerEncoder(1, 3, 1, 4, dtype="float16"),
    }[name]()
    x = cm.ones((1, 2, 2, 3) if name == "Conv2D" else (1, 2, 3), dtype="float16")
    assert all(case.v[path].dtype == cm.float16 for path in case.v.paths())
    assert case(x).dtype == cm.float16


def test_the_framework_s_arrays_come_back(framework, make_raw):
    with cm.backend(framework):
        x = make_raw(framework, np.ones((2, 4, 3)))
        for layer in (
            cm.nn.Linear(3, 2),
            cm.nn.GRU(3, 2, return_state=False),
            cm.nn.BatchNorm(3),
            cm.nn.Conv1D(3, 2, 3),
        ):
            assert type(layer(x)) is type(x), layer


def test_layers_stay_in_order_beyond_ten(backend):
    layer = cm.nn.RNN(2, 2, num_layers=12, key=cm.random.key(0))
    assert list(layer.v["input"]) == [f"layer_{i}" for i in range(12)]
    x = cm.asarray(numbers(1, 3, 2))
    want = x
    for i in range(12):
        one = cm.nn.RNN(2, 2, v={kind: {"layer_0": layer.v[f"{kind}/layer_{i}"]} for kind in ("input", "recurrent")})
        want, _ = one(want)
    np.testing.assert_allclose(host(layer(x)[0]), host(want), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_sequence_in_two_parts_is_the_whole(backend, kind, bidirectional):
    layer = getattr(cm.nn, kind)(3, 4, num_layers=2, bidirectional=bidirectional, key=cm.random.key(1))
    x = cm.asarray(numbers(2, 6, 3))
    whole, end = layer(x)
    if not bidirectional:
        early, state = layer(x[:, :4])
        late, last = layer(x[:, 4:], initial_state=state)
        np.testing.assert_allclose(host(cm.concat([early, late], axis=1)), host(whole), rtol=1e-4, atol=1e-5)
        for a, b in zip(flat(last), flat(end), strict=True):
            np.testing.assert_allclose(host(a), host(b), rtol=1e-4, atol=1e-5)
    layer.return_sequence, layer.return_state = False, False
    ends = end[0] if kind == "LSTM" else end
    want = cm.concat(ends[-2:], axis=-1) if bidirectional else ends[-1]
    np.testing.assert_allclose(host(layer(x)), host(want), rtol=1e-5, atol=1e-6)
    layer.return_sequence = True
    zeros = layer.get_initial_state((2,))
    np.testing.assert_allclose(host(layer(x, initial_state=zeros)), host(whole), rtol=1e-5, atol=1e-6)


def test_embedding_of_padding_is_zero_and_gets_no_gradient(backend):
    layer = cm.nn.Embedding(4, 2, -1, key=cm.random.key(0))
    i = cm.asarray([[0, 3], [3, 1]])
    assert not host(layer(i))[:, :][[0, 1], [1, 0]].any()
    grads = cm.grad(lambda v: cm.sum(layer(i, v=v)))(layer.v)
    np.testing.assert_array_equal(host(grads.w), [[1, 1], [1, 1], [0, 0], [0, 0]])


def test_attention_may_leave_its_layers_out(backend):
    x = cm.asarray(numbers(1, 3, 4))
    plain = cm.nn.MultiHeadAttention(
        4, num_heads=2, head_dim=2, with_to_q_fn=False, with_to_kv_fn=False, with_to_out_fn=False
    )
    assert plain.v.paths() == []
    context = cm.concat([x, x], axis=-1)
    want = cm.multi_head_attention(x, 2**-0.5, 2, context=context)
    np.testing.assert_allclose(host(plain(x, context)), host(want), rtol=1e-6)


def test_a_mask_and_no_look_behind_go_together(backend):
    layer = cm.nn.MultiHeadAttention(4, num_heads=2, head_dim=2, key=cm.random.key(0))
    x = cm.asarray(numbers(1, 3, 4))
    mask = cm.asarray([[1, 1, 1], [0, 1, 1], [1, 1, 1]])
    both = cm.asarray([[1, 0, 0], [0, 1, 0], [1, 1, 1]])
    np.testing.assert_allclose(host(layer(x, mask=mask, causal=True)), host(layer(x, mask=both)), rtol=1e-5, atol=1e-6)
    # What comes later changes nothing before.
    other = cm.concat([x[:, :2], x[:, 2:] + 1], axis=1)
    np.testing.assert_allclose(host(layer(x, causal=True))[:, :2], host(layer(other, causal=True))[:, :2], rtol=1e-5)


def test_dropout_in_a_transformer_works_in_training_alone(backend):
    layer = cm.nn.TransformerEncoderLayer(4, 2, 8, dropout_rate=0.5, key=cm.random.key(0))
    x = cm.asarray(numbers(1, 3, 4))
    cm.seed(0)
    a, b = host(layer(x)), host(layer(x))
    assert not np.allclose(a, b)
    layer.eval()
    np.testing.assert_array_equal(host(layer(x)), host(layer(x)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: cm.nn.Linear(0, 2), ["Linear", "input_channels", "0"]),
        (lambda: cm.nn.Linear(2, -1), ["Linear", "output_channels", "-1"]),
        (lambda: cm.nn.Linear(2.5, 1), ["Linear", "input_channels", "2.5"]),
        (lambda: cm.nn.Conv2D(3, 4, (3, -3)), ["Conv2D", "filter_shape", "-3"]),
        (lambda: cm.nn.Conv2D(3, 4, (3, 3, 3)), ["Conv2D", "filter_shape", "(3, 3, 3)"]),
        (lambda: cm.nn.Conv2D(3, 4, 3, 0), ["Conv2D", "strides", "0"]),
        (lambda: cm.nn.Conv2D(3, 4, 3, 1, "FULL"), ["Conv2D", "padding", "FULL"]),
        (lambda: cm.nn.Conv2D(3, 4, 3, groups=2), ["Conv2D", "3", "2 groups"]),
        (lambda: cm.nn.Conv1D(3, 4, 3, data_format="NHWC"), ["Conv1D", "data_format", "NHWC"]),
        (lambda: cm.nn.Conv2DTranspose(3, 4, 3, 1, 2), ["Conv2DTranspose", "padding", "2"]),
        (lambda: cm.nn.Embedding(3, 2, 3), ["Embedding", "padding_idx 3", "3 rows"]),
        (lambda: cm.nn.LSTM(3, 4, num_layers=0), ["LSTM", "num_layers", "0"]),
        (lambda: cm.nn.RNN(3, 4, nonlinearity="sin"), ["RNN", "nonlinearity", "sin"]),
        (lambda: cm.nn.TransformerEncoderLayer(5, 2), ["TransformerEncoderLayer", "5", "2 heads"]),
        (lambda: cm.nn.TransformerEncoderLayer(4, 2, activation="sin"), ["sin"]),
        (lambda: cm.nn.GroupNorm(3, 4), ["GroupNorm", "4", "3 groups"]),
        (lambda: cm.nn.BatchNorm(4, momentum=2), ["BatchNorm", "momentum", "2"]),
        (lambda: cm.nn.BatchNorm(4, data_format="CN"), ["BatchNorm", "data_format", "CN"]),
        (lambda: cm.nn.Dropout(1.5), ["Dropout", "prob", "1.5"]),
        (lambda: cm.nn.MaxPool2D(0), ["MaxPool2D", "kernel_size", "0"]),
        (lambda: cm.nn.MSELoss(reduction="max"), ["MSELoss", "reduction", "max"]),
        (
            lambda: cm.nn.MultiHeadAttention(5, num_heads=2, head_dim=2, with_to_q_fn=False),
            ["MultiHeadAttention", "5", "2"],
        ),
    ],
)
def test_bad_settings_are_named(make, words):
    with pytest.raises(cm.ArgumentError) as e:
        make()
    for word in words:
        assert word in str(e.value), str(e.value)


def test_unknown_settings_are_type_errors():
    for make in (cm.nn.Linear, cm.nn.Bilinear, cm.nn.MaxPool2D):
        with pytest.raises(TypeError):
            make(2, 2, colour="red")


@pytest.mark.parametrize(
    ("make", "shape", "words"),
    [
        (lambda: cm.nn.Linear(3, 2), (2, 4), ["4", "3"]),
        (lambda: cm.nn.Conv2D(3, 2, 1), (2, 4, 4, 5), ["5", "3"]),
        (lambda: cm.nn.Conv2D(3, 2, 1), (2, 4, 3), ["axes"]),
        (lambda: cm.nn.Conv2D(3, 2, 5, 1, "VALID"), (2, 4, 4, 3), ["5", "4"]),
        (lambda: cm.nn.LSTM(3, 2), (2, 4, 5), ["LSTM", "3", "5"]),
        (lambda: cm.nn.LayerNorm(3), (2, 4), ["LayerNorm", "(3,)", "(2, 4)"]),
        (lambda: cm.nn.RMSNorm(3, elementwise_affine=False), (2, 4), ["RMSNorm", "(3,)", "(2, 4)"]),
        (lambda: cm.nn.BatchNorm(3), (2, 4), ["BatchNorm", "3", "(2, 4)"]),
        (lambda: cm.nn.BatchNorm2D(3), (2, 4, 3), ["BatchNorm2D", "3 axes"]),
        (lambda: cm.nn.BatchNorm(3), (1, 3), ["variance"]),
        (lambda: cm.nn.MultiHeadAttention(3, num_heads=1, head_dim=2), (2, 4, 5), ["5", "3"]),
    ],
)
def test_bad_input_is_named(backend, make, shape, words):
    layer = make()
    with pytest.raises(cm.ShapeError) as e:
        layer(cm.ones(shape))
    for word in words:
        assert word in str(e.value), str(e.value)


def test_states_of_a_wrong_number_are_named(backend):
    layer, x = cm.nn.LSTM(2, 3, num_layers=2), cm.ones((1, 2, 2))
    with pytest.raises(cm.ArgumentError, match="1 arrays, not 2"):
        layer(x, initial_state=([cm.zeros((1, 3))], [cm.zeros((1, 3))]))
    with pytest.raises(cm.ShapeError, match=r"\[1,3\]"):
        layer(x, initial_state=([cm.zeros((1, 4))] * 2, [cm.zeros((1, 4))] * 2))


@pytest.mark.parametrize("name", CASES)
def test_copies_pickles_and_files_give_the_same(name, tmp_path):
    case = CASES[name]
    layer = case.make(cm.random.key(5)).eval()
    inputs = [cm.asarray(x) for x in case.inputs]
    want = [host(x) for x in flat(layer(*inputs, **case.call))]
    layer.save(tmp_path / "layer.safetensors")
    other = case.make(cm.random.key(6)).eval()
    other.load(tmp_path / "layer.safetensors")
    for one in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), other):
        for a, b in zip(flat(one(*inputs, **case.call)), want, strict=True):
            np.testing.assert_array_equal(host(a), b)


def test_layers_can_wait_for_their_first_call():
    x = cm.ones((1, 2, 4), dtype="float64")
    for make in (
        lambda: cm.nn.Linear(4, 2, build_mode="on_call"),
        lambda: cm.nn.LayerNorm(4, build_mode="on_call"),
        lambda: cm.nn.LSTM(4, 2, build_mode="on_call"),
        lambda: cm.nn.MultiHeadAttention(4, num_heads=2, head_dim=2, build_mode="on_call"),
    ):
        layer = make()
        layer(x)
        assert layer.v.paths()
        assert {layer.v[path].dtype.name for path in layer.v.paths()} == {"float64"}


@pytest.mark.parametrize("kind", ["Conv2D", "Conv2DTranspose", "DepthwiseConv2D"])
def test_channels_may_be_second(backend, kind):
    channels = (3,) if kind == "DepthwiseConv2D" else (3, 4)
    words = {} if kind == "DepthwiseConv2D" else {"groups": 1}
    usual = getattr(cm.nn, kind)(*channels, (3, 2), 2, "SAME", key=cm.random.key(0), **words)
    other = getattr(cm.nn, kind)(*channels, [3, 2], (2,), "SAME", data_format="NCHW", key=cm.random.key(0), **words)
    assert other.v.b.shape == (1, channels[-1], 1, 1) and usual.v.b.shape == (1, 1, 1, channels[-1])
    np.testing.assert_array_equal(host(usual.v.w), host(other.v.w))
    other.v.b = usual.v.b = cm.asarray(numbers(channels[-1]))
    usual.v.b = cm.reshape(usual.v.b, (1, 1, 1, -1))
    other.v.b = cm.reshape(other.v.b, (1, -1, 1, 1))
    x = cm.asarray(numbers(2, 5, 6, 3))
    want = cm.permute_dims(usual(x), (0, 3, 1, 2))
    np.testing.assert_allclose(host(other(cm.permute_dims(x, (0, 3, 1, 2)))), host(want), rtol=1e-5, atol=1e-5)


def test_a_transposed_convolution_may_be_told_its_size(backend):
    layer = cm.nn.Conv1DTranspose(2, 3, 3, 2, "SAME", output_shape=(9,), with_bias=False, key=cm.random.key(0))
    assert layer.v.paths() == ["w"]
    assert layer(cm.ones((1, 5, 2))).shape == (1, 9, 3)
    with pytest.raises(cm.ShapeError, match="12"):
        cm.nn.Conv1DTranspose(2, 3, 3, 2, "SAME", output_shape=(12,))(cm.ones((1, 5, 2)))
