"""TensorFlow kernels that compiled programs call in place of several ops."""
from tensorflow.python.ops import gen_array_ops as array
from tensorflow.python.ops import gen_math_ops as math
from tensorflow.python.ops import gen_nn_ops as nn

from clematis._dialects import tensorflow_special as special
from clematis._dialects.tensorflow_special import F32, F64, const, order_back, permuted, zero_of


def bias_relu(x, bias):
    """`relu(x + bias)` of a convolution's result, channels last. tensorflow makes one op of the convolution and the sum; of its
    own `relu` as well it would make one that loses NaN. A sum with a zero that has no minus has none either."""
    y = nn.bias_add(x, math.select_v2(math.equal(bias, zero_of(bias.dtype)), zero_of(bias.dtype), bias))
    return math.maximum(y, zero_of(y.dtype))


def relu_grad(grad, y):
    """`grad * (y > 0)`."""
    return nn.relu_grad(grad, y)


def conv_transpose_input_grad(x, w, *, lhs_layout, rhs_layout, out_layout, padding, lhs_dilation, **how):
    """A convolution with a spatially reversed filter: the input gradient of a convolution, as one op where tensorflow has it."""
    sizes, kernel = [x.shape[a] for a in lhs_layout[2:]], [w.shape[a] for a in rhs_layout[2:]]
    is_known = None not in (*x.shape, *w.shape) and 0 not in (*x.shape, *w.shape) and x.dtype in (F32, F64)
    if is_known and len(kernel) == 2:
        # The padding of the forward convolution, and the input elements after its last window.
        around = [(k - 1 - low, max(0, k - 1 - high)) for k, (low, high) in zip(kernel, padding)]
        left = [max(0, high - (k - 1)) for k, (_, high) in zip(kernel, padding)]
        counts = [(n - 1) * s + sum(p) - k + 2 for n, s, p, k in zip(sizes, lhs_dilation, padding, kernel)]
        fits = all(r < s for r, s in zip(left, lhs_dilation)) and min(counts) > 0 and min(low for low, _ in around) >= 0
        if fits and max(how["strides"]) == max(how["rhs_dilation"]) == how["feature_groups"] == how["batch_groups"] == 1:
            x = permuted(x, (lhs_layout[0], *lhs_layout[2:], lhs_layout[1]))
            w = permuted(w, (*rhs_layout[2:], *rhs_layout[:2]))
            edges = [0, 0, *around[0], *around[1], 0, 0]
            y = nn.conv2d_backprop_input(
                const((x.shape[0], *counts, w.shape[2])), w, x, (1, *lhs_dilation, 1), "EXPLICIT" if any(edges) else "VALID",
                explicit_paddings=edges if any(edges) else [])
            return permuted(y, order_back((out_layout[0], *out_layout[2:], out_layout[1])))
    w = array.reverse_v2(w, const(tuple(rhs_layout[2:])))
    return special.conv_general(x, w, lhs_layout=lhs_layout, rhs_layout=rhs_layout, out_layout=out_layout, padding=padding,
                                lhs_dilation=lhs_dilation, **how)
