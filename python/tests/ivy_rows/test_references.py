"""The references against frameworks, where one has the function: who checks the checkers."""

import hypothesis
import jax
import numpy as np
import torch
from hypothesis import given, settings

from . import draw
from . import reference_gradients as gradients
from . import reference_layers as layers

EXAMPLES = settings(
    max_examples=30, deadline=None, database=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck)
)
NUMBERS = {1: ("NWC", "WIO"), 2: ("NHWC", "HWIO"), 3: ("NDHWC", "DHWIO")}


def lax_conv(x, w, strides, padding, x_dilations, dilations, groups):
    """XLA's convolution of channels-last arrays."""
    dims = w.ndim - 2
    strides, dilations, x_dilations = (layers.listed(v, dims) for v in (strides, dilations, x_dilations))
    if isinstance(padding, int):
        padding = [(padding, padding)] * dims
    if padding == "VALID":
        padding = [(0, 0)] * dims
    if padding == "SAME":
        sizes = [(n - 1) * d + 1 for n, d in zip(x.shape[1:-1], x_dilations, strict=True)]
        wide = [(k - 1) * d + 1 for k, d in zip(w.shape, dilations, strict=False)]
        padding = jax.lax.padtype_to_pads(sizes, wide, strides, "SAME")
    numbers = (NUMBERS[dims][0], NUMBERS[dims][1], NUMBERS[dims][0])
    with jax.enable_x64(True):
        return np.asarray(jax.lax.conv_general_dilated(x, w, strides, padding, x_dilations, dilations, numbers, groups))


@EXAMPLES
@given(draw.conv("numpy", None, general=True))
def test_conv(arguments):
    want = layers.conv(**arguments)
    x, back = layers.last(arguments["x"], arguments["data_format"])
    w = layers.spatial_first(arguments["filters"], arguments["filter_format"])
    y = lax_conv(
        x, w, arguments["strides"], arguments["padding"], arguments["x_dilations"], arguments["dilations"],
        arguments["feature_group_count"],
    )  # fmt: skip
    bias = arguments["bias"]
    np.testing.assert_allclose(want, back(y if bias is None else y + bias), rtol=0, atol=1e-12)


@EXAMPLES
@given(draw.conv_transpose("numpy", None, general=True))
def test_conv_transpose(arguments):
    """The transpose is the derivative of XLA's forward convolution, for every legal output shape."""
    y = layers.conv_transpose(**arguments)
    x, _ = layers.last(arguments["x"], arguments["data_format"])
    y, _ = layers.last(y, arguments["data_format"])
    bias, groups = arguments["bias"], arguments["feature_group_count"]
    w = layers.spatial_first_transposed(arguments["filters"], arguments["filter_format"])
    # `[c_in, c_out / g]` of the transpose is `[c_out / g, c_in]` of the forward one, group by group.
    w = np.swapaxes(w, -1, -2)
    with jax.enable_x64(True):
        zeros = jax.numpy.zeros(y.shape)
        dims = w.ndim - 2
        numbers = (NUMBERS[dims][0], NUMBERS[dims][1], NUMBERS[dims][0])

        def forward(z):
            return jax.lax.conv_general_dilated(
                z, jax.numpy.asarray(w), layers.listed(arguments["strides"], dims), arguments["padding"], None,
                layers.listed(arguments["dilations"], dims), numbers, groups,
            )  # fmt: skip

        if y.size:
            out, back = jax.vjp(forward, zeros)
            assert out.shape == x.shape
            want = np.asarray(back(jax.numpy.asarray(x))[0])
            np.testing.assert_allclose(y, want if bias is None else want + bias, rtol=0, atol=1e-12)


@EXAMPLES
@given(draw.attention("numpy"))
def test_attention(arguments):
    want = layers.scaled_dot_product_attention(**arguments)
    mask = arguments["mask"]
    kept = None if mask is None else torch.tensor(mask != 0)
    q, k, v = (torch.tensor(arguments[n]) for n in "qkv")
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, kept, scale=arguments["scale"]).numpy()
    if mask is not None:
        # A row that is masked whole is ours to define.
        some = np.broadcast_to((mask != 0).any(-1), want.shape[:-1])
        want, y = want[some], y[some]
    np.testing.assert_allclose(want, y, rtol=0, atol=1e-12)


def test_lstm():
    rng = np.random.default_rng(0)
    x, h, c = rng.standard_normal((2, 4, 3)), rng.standard_normal((2, 5)), rng.standard_normal((2, 5))
    kernel, recurrent = rng.standard_normal((3, 20)), rng.standard_normal((5, 20))
    b, rb = rng.standard_normal(20), rng.standard_normal(20)
    theirs = torch.nn.LSTM(3, 5, batch_first=True, dtype=torch.float64)
    values = [kernel.T, recurrent.T, b, rb]
    for p, value in zip(theirs.parameters(), values, strict=True):
        p.data = torch.tensor(value)
    hs, (_, last) = theirs(torch.tensor(x), (torch.tensor(h)[None], torch.tensor(c)[None]))
    got = layers.lstm_update(x, h, c, kernel, recurrent, b, rb)
    np.testing.assert_allclose(got[0], hs.detach().numpy(), atol=1e-12)
    np.testing.assert_allclose(got[1], last[0].detach().numpy(), atol=1e-12)


def test_adam():
    """As torch's, but for an epsilon in a second place: none at all is the same."""
    rng = np.random.default_rng(1)
    w, m, v = rng.standard_normal(4), np.zeros(4), np.zeros(4)
    theirs = torch.nn.Parameter(torch.tensor(w))
    optimiser = torch.optim.Adam([theirs], lr=0.1, betas=(0.8, 0.95), eps=0.0)
    for t in range(1, 4):
        g = rng.standard_normal(4)
        theirs.grad = torch.tensor(g)
        optimiser.step()
        w, m, v = gradients.adam_update(w, g, 0.1, m, v, t, 0.8, 0.95, 0.0)
        np.testing.assert_allclose(w, theirs.detach().numpy(), atol=1e-12)


def test_norm():
    x = np.array([3e200, 4e200])
    assert gradients.norm(x * 0) == 0
    np.testing.assert_allclose(gradients.norm(x), 5e200)
    np.testing.assert_allclose(gradients.norm([3e-200, 4e-200]), 5e-200)


def test_differences():
    x = np.array([0.5, -1.0])
    d = np.array([1.0, 2.0])
    np.testing.assert_allclose(gradients.directional_derivative(lambda x: np.sum(x**3), x, d, 1e-3), np.sum(3 * x**2 * d), rtol=1e-11)
    e = np.array([1.0, -1.0])
    np.testing.assert_allclose(
        gradients.curvature(lambda x: np.sum(x**3), x, d, e, 1e-3), np.sum(6 * x * d * e), rtol=1e-8
    )


def test_linear():
    rng = np.random.default_rng(2)
    x, w, b = rng.standard_normal((2, 5, 3)), rng.standard_normal((2, 4, 3)), rng.standard_normal((2, 4))
    want = np.einsum("bni,boi->bno", x, w) + b[:, None]
    np.testing.assert_allclose(layers.linear(x, w, b), want, atol=1e-12)


def test_multi_head():
    rng = np.random.default_rng(3)
    theirs = torch.nn.MultiheadAttention(6, 2, bias=False, batch_first=True, dtype=torch.float64)
    x = rng.standard_normal((2, 4, 6))
    w = theirs.in_proj_weight.detach().numpy()
    out = theirs.out_proj.weight.detach().numpy()
    want = theirs(*[torch.tensor(x)] * 3, need_weights=False)[0].detach().numpy()
    got = layers.multi_head_attention(
        x, 3**-0.5, 2, to_q_fn=draw.multiply, to_q_v=w[:6].T, to_kv_fn=draw.multiply, to_kv_v=w[6:].T,
        to_out_fn=draw.multiply, to_out_v=out.T,
    )  # fmt: skip
    np.testing.assert_allclose(got, want, atol=1e-12)
