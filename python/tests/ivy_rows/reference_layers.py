"""Layers as slow, plain float64 NumPy, written from the formulas alone: nothing of the engine is used here."""

import math

import numpy as np


def listed(value, dims):
    """One number per spatial axis."""
    values = [value] if isinstance(value, int) else list(value)
    return values * dims if len(values) == 1 else values


def same_total(size, stride, kernel):
    """How many zeros SAME adds to an axis of this size; `kernel` is the dilated one."""
    rest = size % stride
    return max(kernel - (rest or stride), 0)


def spread(x, axis, step):
    """Puts `step - 1` zeros between neighbours."""
    size = x.shape[axis]
    shape = list(x.shape)
    shape[axis] = (size - 1) * step + 1 if size else 0
    out = np.zeros(shape)
    place = [slice(None)] * x.ndim
    place[axis] = slice(None, None, step)
    out[tuple(place)] = x
    return out


def offsets(kernel):
    return np.ndindex(*kernel)


def forward(x, w, strides, padding, x_dilations, dilations, groups):
    """Cross-correlation of channels-last `x` with `w` of `[*spatial, c_in / groups, c_out]`."""
    dims = w.ndim - 2
    strides, dilations = listed(strides, dims), listed(dilations, dims)
    for axis, step in enumerate(listed(x_dilations, dims)):
        x = spread(x, 1 + axis, step)
    wide = [(w.shape[a] - 1) * dilations[a] + 1 for a in range(dims)]
    if padding == "VALID":
        pads = [(0, 0)] * dims
    elif padding == "SAME":
        totals = [same_total(x.shape[1 + a], strides[a], wide[a]) for a in range(dims)]
        pads = [(t // 2, t - t // 2) for t in totals]
    elif isinstance(padding, int):
        pads = [(padding, padding)] * dims
    else:
        pads = [tuple(p) for p in padding]
    x = np.pad(x, [(0, 0), *pads, (0, 0)])
    sizes = [(x.shape[1 + a] - wide[a]) // strides[a] + 1 for a in range(dims)]
    c_in, c_out = x.shape[-1] // groups, w.shape[-1] // groups
    y = np.zeros((x.shape[0], *sizes, w.shape[-1]))
    for k in offsets(w.shape[:dims]):
        window = tuple(
            slice(k[a] * dilations[a], k[a] * dilations[a] + (sizes[a] - 1) * strides[a] + 1, strides[a])
            for a in range(dims)
        )
        part = x[(slice(None), *window)]
        for g in range(groups):
            ins, outs = slice(g * c_in, (g + 1) * c_in), slice(g * c_out, (g + 1) * c_out)
            y[..., outs] += part[..., ins] @ w[k][:, outs]
    return y


def default_length(size, stride, kernel, padding):
    """The length of a transposed convolution's axis when none is asked for."""
    return size * stride + (max(kernel - stride, 0) if padding == "VALID" else 0)


def backward(x, w, strides, padding, output_shape, dilations, groups):
    """The transpose: each place of channels-last `x` adds its multiple of `w`, `[*spatial, c_in, c_out / groups]`."""
    dims = w.ndim - 2
    strides, dilations = listed(strides, dims), listed(dilations, dims)
    wide = [(w.shape[a] - 1) * dilations[a] + 1 for a in range(dims)]
    if output_shape is None:
        lengths = [default_length(x.shape[1 + a], strides[a], wide[a], padding) for a in range(dims)]
    else:
        lengths = list(output_shape)[1:-1] if len(output_shape) == dims + 2 else list(output_shape)
    lows = [same_total(lengths[a], strides[a], wide[a]) // 2 if padding == "SAME" else 0 for a in range(dims)]
    c_in, c_out = x.shape[-1] // groups, w.shape[-1]
    y = np.zeros((x.shape[0], *lengths, c_out * groups))
    for i in offsets(x.shape[1 : 1 + dims]):
        for k in offsets(w.shape[:dims]):
            o = tuple(i[a] * strides[a] + k[a] * dilations[a] - lows[a] for a in range(dims))
            if any(not 0 <= o[a] < lengths[a] for a in range(dims)):
                continue
            for g in range(groups):
                ins, outs = slice(g * c_in, (g + 1) * c_in), slice(g * c_out, (g + 1) * c_out)
                y[(slice(None), *o, outs)] += x[(slice(None), *i, ins)] @ w[k][ins]
    return y


def last(x, data_format):
    """Converts to channels-last and back."""
    if data_format in ("NCW", "NCHW", "NCDHW", "channel_first"):
        return np.moveaxis(x, 1, -1), lambda y: np.moveaxis(y, -1, 1)
    return x, lambda y: y


def spatial_first(w, filter_format):
    """`[c_out, c_in, *spatial]` as `[*spatial, c_in, c_out]`."""
    return np.moveaxis(w, (0, 1), (-1, -2)) if filter_format == "channel_first" else w


def spatial_first_transposed(w, filter_format):
    """`[c_in, c_out, *spatial]` as `[*spatial, c_in, c_out]`."""
    return np.moveaxis(w, (0, 1), (-2, -1)) if filter_format == "channel_first" else w


def conv(
    x, filters, strides, padding, data_format="channel_last", filter_format="channel_last", x_dilations=1,
    dilations=1, bias=None, feature_group_count=1, dims=None,
):  # fmt: skip
    x, back = last(x, data_format)
    w = spatial_first(filters, filter_format)
    y = forward(x, w, strides, padding, x_dilations, dilations, feature_group_count)
    return back(y if bias is None else y + bias)


def conv_transpose(
    x, filters, strides, padding, output_shape=None, data_format="channel_last", filter_format="channel_last",
    dilations=1, bias=None, feature_group_count=1, dims=None,
):  # fmt: skip
    x, back = last(x, data_format)
    w = spatial_first_transposed(filters, filter_format)
    y = backward(x, w, strides, padding, output_shape, dilations, feature_group_count)
    return back(y if bias is None else y + bias)


def depthwise_conv2d(x, filters, strides, padding, data_format="NHWC", dilations=1):
    x, back = last(x, data_format)
    w = filters[..., 0] if filters.ndim == 4 else filters
    each = [
        forward(x[..., c : c + 1], w[:, :, c].reshape(*w.shape[:2], 1, 1), strides, padding, 1, dilations, 1)
        for c in range(x.shape[-1])
    ]
    return back(np.concatenate(each, -1))


def linear(x, weight, bias=None):
    outer = weight.shape[:-2]
    y = np.zeros(x.shape[:-1] + weight.shape[-2:-1])
    for place in np.ndindex(*outer):
        y[place] = x[place] @ weight[place].T
        if bias is not None:
            y[place] = y[place] + bias[place]
    return y


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def scaled_dot_product_attention(q, k, v, scale, mask=None):
    sim = q @ np.swapaxes(k, -1, -2) * scale
    if mask is not None:
        # Finite: a row that is masked whole becomes the plain mean of `v`.
        sim = np.where(mask == 0, -np.finfo(np.float64).max, sim)
    return softmax(sim) @ v


def multi_head_attention(
    x, scale, num_heads, context=None, mask=None, to_q_fn=None, to_kv_fn=None, to_out_fn=None, to_q_v=None,
    to_kv_v=None, to_out_v=None,
):  # fmt: skip
    q = x if to_q_fn is None else to_q_fn(x, v=to_q_v)
    context = x if context is None else context
    kv = context if to_kv_fn is None else to_kv_fn(context, v=to_kv_v)
    k, v = kv if isinstance(kv, tuple | list) else np.split(kv, 2, -1)
    heads = [
        scaled_dot_product_attention(*parts, scale, mask)
        for parts in zip(*(np.split(a, num_heads, -1) for a in (q, k, v)), strict=True)
    ]
    y = np.concatenate(heads, -1)
    return y if to_out_fn is None else to_out_fn(y, v=to_out_v)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_update(x, init_h, init_c, kernel, recurrent_kernel, bias=None, recurrent_bias=None):
    h, c, hs = init_h, init_c, []
    for t in range(x.shape[-2]):
        z = x[..., t, :] @ kernel + h @ recurrent_kernel
        z = z + (0 if bias is None else bias) + (0 if recurrent_bias is None else recurrent_bias)
        i, f, g, o = np.split(z, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        hs.append(h)
    return np.stack(hs, -2), c


def legal_lengths(size, stride, kernel, padding):
    """Those lengths of which a forward convolution makes `size`."""
    if padding == "SAME":
        return [length for length in range(1, size * stride + 1) if math.ceil(length / stride) == size]
    top = size * stride + kernel
    return [length for length in range(kernel, top) if (length - kernel) // stride + 1 == size]
