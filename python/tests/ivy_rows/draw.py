"""How arguments are drawn. The first choice of each list is a typical one: it is what the first example has."""

import numpy as np
from hypothesis import strategies as st

from .reference_layers import default_length, legal_lengths, listed


def one_of(draw, *choices):
    return draw(st.sampled_from(choices))


def content(draw, *shape, low=-127, high=127, unit=64):
    """Numbers with seven digits in base two, which every float type holds exactly."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    return np.asarray(rng.integers(low, high + 1, shape) / unit)


def positive(draw, *shape):
    return content(draw, *shape, low=8, high=127)


def axis_numbers(draw, dims, *choices):
    """One number for all axes, a list of one, or one for each."""
    form = one_of(draw, "each", "number", "single")
    if form == "number":
        return one_of(draw, *choices)
    if form == "single":
        return [one_of(draw, *choices)]
    return [one_of(draw, *choices) for _ in range(dims)]


FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}
GENERAL = ("channel_last", "channel_first")


def laid_out(x, first):
    return np.ascontiguousarray(np.moveaxis(x, -1, 1)) if first else x


def sizes(draw, dims, jax):
    """Kernel, strides, dilations; few of them on jax, which compiles for each."""
    kernels = (2, 3, 1) if dims < 3 else (2, 1)
    kernel = [one_of(draw, *kernels) for _ in range(dims)]
    strides = axis_numbers(draw, dims, *((2, 1) if jax else (2, 1, 3)))
    dilations = axis_numbers(draw, dims, *((1, 2) if jax else (1, 2, 3)))
    wide = [(k - 1) * d + 1 for k, d in zip(kernel, listed(dilations, dims), strict=True)]
    return kernel, strides, dilations, wide


def conv(backend, dims, general=False):
    """Arguments of `conv1d`, `conv2d`, `conv3d` and `conv_general_dilated`."""

    @st.composite
    def cases(draw):
        d = one_of(draw, 2, 1, 3) if general else dims
        kernel, strides, dilations, wide = sizes(draw, d, backend == "jax")
        groups = one_of(draw, 2, 1, 3) if general else 1
        c_in, c_out = groups * one_of(draw, 2, 1), groups * one_of(draw, 2, 1, 3)
        x_dilations = axis_numbers(draw, d, 1, 2)
        spatial = [w + one_of(draw, 1, 0, 2) for w in wide]
        padding = one_of(draw, "SAME", "VALID", "pairs", 1, 0)
        if padding == "pairs":
            padding = [(one_of(draw, 1, 0, 2), one_of(draw, 0, 2, 1)) for _ in range(d)]
        first, filters_first = draw(st.booleans()), draw(st.booleans())
        batch = one_of(draw, 2, 1, 0)
        x = content(draw, batch, *spatial, c_in)
        w = content(draw, *kernel, c_in // groups, c_out)
        if filters_first:
            w = np.ascontiguousarray(np.moveaxis(w, (-1, -2), (0, 1)))
        arguments = {"x": laid_out(x, first), "filters": w, "strides": strides, "padding": padding}
        if general:
            arguments["dims"] = d
        arguments["data_format"] = (GENERAL if general else FORMATS[d])[first]
        arguments["filter_format"] = GENERAL[filters_first]
        if general:
            arguments["feature_group_count"] = groups
        arguments["x_dilations"] = x_dilations
        arguments["dilations"] = dilations
        arguments["bias"] = content(draw, c_out) if draw(st.booleans()) else None
        return arguments

    return cases()


def conv_transpose(backend, dims, general=False):
    """Arguments of the transposed ones, with every legal output shape."""

    @st.composite
    def cases(draw):
        d = one_of(draw, 2, 1, 3) if general else dims
        kernel, strides, dilations, wide = sizes(draw, d, backend == "jax")
        groups = one_of(draw, 2, 1, 3) if general else 1
        c_in, c_out = groups * one_of(draw, 2, 1), groups * one_of(draw, 2, 1, 3)
        spatial = [one_of(draw, 2, 3, 1) for _ in range(d)]
        padding = one_of(draw, "SAME", "VALID")
        batch = one_of(draw, 2, 1, 0)
        form = one_of(draw, "none", "default", "full", "other")
        steps = listed(strides, d)
        lengths = [default_length(n, s, k, padding) for n, s, k in zip(spatial, steps, wide, strict=True)]
        if form == "other":
            legal = [legal_lengths(n, s, k, padding) for n, s, k in zip(spatial, steps, wide, strict=True)]
            lengths = [one_of(draw, *some) for some in legal]
        full = [batch, *lengths, c_out]
        first, filters_first = draw(st.booleans()), draw(st.booleans())
        x = content(draw, batch, *spatial, c_in)
        w = content(draw, *kernel, c_in, c_out // groups)
        if filters_first:
            w = np.ascontiguousarray(np.moveaxis(w, (-2, -1), (0, 1)))
        arguments = {"x": laid_out(x, first), "filters": w, "strides": strides, "padding": padding}
        if general:
            arguments["dims"] = d
        arguments["output_shape"] = None if form == "none" else full if form == "full" else lengths
        arguments["data_format"] = (GENERAL if general else FORMATS[d])[first]
        arguments["filter_format"] = GENERAL[filters_first]
        arguments["dilations"] = dilations
        if general:
            arguments["feature_group_count"] = groups
        arguments["bias"] = content(draw, c_out) if draw(st.booleans()) else None
        return arguments

    return cases()


def depthwise(backend):
    @st.composite
    def cases(draw):
        kernel, strides, dilations, wide = sizes(draw, 2, backend == "jax")
        channels = one_of(draw, 2, 3, 1)
        spatial = [w + one_of(draw, 1, 0, 2) for w in wide]
        padding = one_of(draw, "SAME", "VALID", 1, [(1, 0), (0, 2)])
        first = draw(st.booleans())
        w = content(draw, *kernel, channels)
        return {
            "x": laid_out(content(draw, one_of(draw, 2, 1, 0), *spatial, channels), first),
            "filters": w[..., None] if draw(st.booleans()) else w,
            "strides": strides,
            "padding": padding,
            "data_format": FORMATS[2][first],
            "dilations": dilations,
        }

    return cases()


def linear(backend):
    @st.composite
    def cases(draw):
        outer = one_of(draw, (2,), (), (2, 1), (0,))
        inner = one_of(draw, (3,), (), (2, 2), (0,))
        ins, outs = one_of(draw, 3, 2, 1), one_of(draw, 2, 1)
        bias = content(draw, *outer, outs) if draw(st.booleans()) else None
        return {"x": content(draw, *outer, *inner, ins), "weight": content(draw, *outer, outs, ins), "bias": bias}

    return cases()


def mask(draw, *shape):
    """None, or zeros and others; truths, integers or floats."""
    kind = one_of(draw, "float", "none", "bool", "int")
    if kind == "none":
        return None
    rng = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    values = rng.integers(0, 3, shape)
    return values.astype({"float": np.float64, "bool": np.bool_, "int": np.int32}[kind])


def attention(backend):
    @st.composite
    def cases(draw):
        batch = one_of(draw, (2,), (), (2, 1), (0,))
        q, k = one_of(draw, 2, 3, 1), one_of(draw, 3, 2, 1)
        f, fv = one_of(draw, 2, 1), one_of(draw, 3, 2)
        # A mask may lack the batch or share it.
        over = one_of(draw, batch, (), (1,) * len(batch))
        return {
            "q": content(draw, *batch, q, f),
            "k": content(draw, *batch, k, f),
            "v": content(draw, *batch, k, fv),
            "scale": one_of(draw, 0.5, 1.0, 0.125),
            "mask": mask(draw, *over, q, k),
        }

    return cases()


def multiply(x, v):
    y = x @ v
    # NumPy's own product of two arrays of bfloat16 is one of float32.
    return y.astype(x.dtype) if isinstance(y, np.ndarray) else y


def pair(x, v):
    return multiply(x, v), x + x


def multi_head(backend):
    @st.composite
    def cases(draw):
        batch = one_of(draw, (2,), (), (0,))
        heads, f = one_of(draw, 2, 1, 3), one_of(draw, 2, 1)
        q, k, width = one_of(draw, 2, 3, 1), one_of(draw, 3, 2), heads * f
        form = one_of(draw, "context", "functions", "self", "pair")
        arguments = {"x": content(draw, *batch, q, width), "scale": one_of(draw, 0.5, 1.0), "num_heads": heads}
        context = form in ("context", "functions")
        arguments["context"] = content(draw, *batch, k, 2 * width) if context else None
        arguments["mask"] = mask(draw, q, k if context else q) if one_of(draw, True, False) else None
        functions = form == "functions"
        arguments["to_q_fn"] = multiply if functions else None
        arguments["to_kv_fn"] = {"self": multiply, "pair": pair}.get(form)
        arguments["to_out_fn"] = multiply if functions else None
        arguments["to_q_v"] = content(draw, width, width) if functions else None
        arguments["to_kv_v"] = {
            "self": lambda: content(draw, width, 2 * width), "pair": lambda: content(draw, width, width)
        }.get(form, lambda: None)()  # fmt: skip
        arguments["to_out_v"] = content(draw, width, 2) if functions else None
        return arguments

    return cases()


def lstm(backend):
    @st.composite
    def cases(draw):
        batch = one_of(draw, (2,), (), (1, 2), (0,))
        t, ins, outs = one_of(draw, 2, 3, 1), one_of(draw, 2, 1), one_of(draw, 2, 1)
        return {
            "x": content(draw, *batch, t, ins),
            "init_h": content(draw, *batch, outs),
            "init_c": content(draw, *batch, outs),
            "kernel": content(draw, ins, 4 * outs),
            "recurrent_kernel": content(draw, outs, 4 * outs),
            "bias": content(draw, 4 * outs) if draw(st.booleans()) else None,
            "recurrent_bias": content(draw, 4 * outs) if draw(st.booleans()) else None,
        }

    return cases()


def dropout(backend):
    @st.composite
    def cases(draw):
        shape = one_of(draw, (3, 4), (5,), (2, 1, 3), (0, 2), ())
        noise = [one_of(draw, None, 1, n) for n in shape]
        return {
            "x": content(draw, *shape),
            "prob": one_of(draw, 0.5, 0.25, 0.0, 0.75, 1.0),
            "scale": draw(st.booleans()),
            "dtype": one_of(draw, None, "float32", "float64"),
            "training": one_of(draw, True, True, False),
            "seed": one_of(draw, 3, 0, 77, (1 << 63) - 1),
            "noise_shape": one_of(draw, None, tuple(noise)),
        }

    return cases()


def shape_of(draw):
    return one_of(draw, (3,), (2, 2), (), (1, 3), (0, 2))


def rate(draw, shape):
    """A number, a number as an array, or an array of the weights' shape."""
    form = one_of(draw, "array", "number", "scalar")
    if form == "number":
        return one_of(draw, 0.125, 1.0, 0.01)
    return positive(draw, *(shape if form == "array" else ()))


def update(names):
    """Arguments of the updates without moments."""

    def of(backend):
        @st.composite
        def cases(draw):
            shape = shape_of(draw)
            w, g = names
            return {
                w: content(draw, *shape), g: content(draw, *shape), "lr": rate(draw, shape),
                "stop_gradients": draw(st.booleans()),
            }  # fmt: skip

        return cases()

    return of


def lars(backend):
    @st.composite
    def cases(draw):
        shape = shape_of(draw)
        return {
            "w": positive(draw, *shape),
            "grads": positive(draw, *shape),
            "lr": rate(draw, shape),
            "decay_lambda": one_of(draw, 0.5, 0, 1.0),
            "stop_gradients": draw(st.booleans()),
        }

    return cases()


def step(draw, top):
    """A count: an integer, a float, or an array of one."""
    form = one_of(draw, int, float, np.int32, np.int64)
    number = draw(st.integers(1, top))
    if form in (int, float):
        return form(number)
    return np.full(one_of(draw, (), (1,)), number, form)


def betas(draw):
    # Exactly 1 is valid; the default of epsilon is too small to be distinguished from half-precision rounding.
    return {
        "beta1": one_of(draw, 0.5, 0.9, 1.0, 0.125),
        "beta2": one_of(draw, 0.75, 0.999, 1.0, 0.125),
        "epsilon": one_of(draw, 0.125, 0.5, 1e-3),
    }


def adam_step(backend):
    @st.composite
    def cases(draw):
        shape = shape_of(draw)
        own = one_of(draw, shape, (1,) if shape else ())
        return {
            "grads": content(draw, *shape), "mw": content(draw, *own), "vw": positive(draw, *own),
            "step": step(draw, 3), **betas(draw),
        }  # fmt: skip

    return cases()


def moments(lamb=False):
    def of(backend):
        @st.composite
        def cases(draw):
            shape = shape_of(draw)
            arguments = {
                "w": positive(draw, *shape), "grads": content(draw, *shape), "lr": rate(draw, shape),
                "mw_tm1": positive(draw, *shape), "vw_tm1": positive(draw, *shape), "step": step(draw, 10),
                **betas(draw),
            }  # fmt: skip
            if lamb:
                arguments["max_trust_ratio"] = one_of(draw, 10, 1, 2.5)
                arguments["decay_lambda"] = one_of(draw, 0, 0.5)
            return {**arguments, "stop_gradients": draw(st.booleans())}

        return cases()

    return of
