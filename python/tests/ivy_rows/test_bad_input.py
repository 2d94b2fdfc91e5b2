"""Bad input: a clear error that names the function, the same on every backend."""

import clematis as cm
import numpy as np
import pytest

from .arrays import tensor

CONVS = {"conv1d": 1, "conv2d": 2, "conv3d": 3, "conv_general_dilated": 2}
TRANSPOSED = {"conv1d_transpose": 1, "conv2d_transpose": 2, "conv3d_transpose": 3, "conv_general_transpose": 2}
CASES = []


def case(name, what, f, dashboard="layers"):
    CASES.append(pytest.param(name, f, marks=pytest.mark.row(dashboard, f"test_{name}"), id=f"{name}-{what}"))


def conv(name, axes, strides=1, padding="VALID", channels=2, **kwargs):
    def run(make):
        x, w = make(np.ones((1, *[4] * axes, 2))), make(np.ones((*[2] * axes, channels, 2)))
        return getattr(cm, name)(x, w, strides, padding, **kwargs)

    return run


for _name, _dims in [*CONVS.items(), *TRANSPOSED.items()]:
    case(_name, "an unknown layout", conv(_name, _dims, data_format="NWHC"))
    case(_name, "a layout in small letters", conv(_name, _dims, data_format="nhwc"))
    case(_name, "an unknown filter layout", conv(_name, _dims, filter_format="HWIO"))
    case(_name, "padding in small letters", conv(_name, _dims, padding="same"))
    case(_name, "an unknown padding", conv(_name, _dims, padding="FULL"))
    case(_name, "a stride of zero", conv(_name, _dims, strides=0))
    case(_name, "a negative stride", conv(_name, _dims, strides=[-1] * _dims))
    case(_name, "too many strides", conv(_name, _dims, strides=[1] * (_dims + 1)))
    case(_name, "a dilation of zero", conv(_name, _dims, dilations=0))
    case(_name, "channels that do not fit", conv(_name, _dims, channels=3))
for _name, _dims in CONVS.items():
    case(_name, "no place is left", conv(_name, _dims, dilations=9))
    case(_name, "an x_dilation of zero", conv(_name, _dims, x_dilations=0))
    case(_name, "negative padding", conv(_name, _dims, padding=-1))
    case(_name, "too many pairs", conv(_name, _dims, padding=[(1, 1)] * (_dims + 1)))
    case(_name, "a bias of another length", lambda make, n=_name, d=_dims: conv(n, d, bias=make(np.ones(5)))(make))
for _name, _dims in TRANSPOSED.items():
    case(_name, "pairs of padding", conv(_name, _dims, padding=[(1, 1)] * _dims))
    case(_name, "an output that none makes", conv(_name, _dims, output_shape=[50] * _dims))
    case(_name, "an output of too few axes", conv(_name, _dims, output_shape=[5] * (_dims + 1)))
    case(_name, "a bias of another length", lambda make, n=_name, d=_dims: conv(n, d, bias=make(np.ones(5)))(make))
case("conv_general_dilated", "groups that do not divide", conv("conv_general_dilated", 2, feature_group_count=3))
case("conv_general_dilated", "no groups", conv("conv_general_dilated", 2, feature_group_count=0))
case("conv_general_dilated", "four dims", conv("conv_general_dilated", 2, dims=4))
case("conv_general_transpose", "groups that do not divide", conv("conv_general_transpose", 2, feature_group_count=3))
case("conv2d", "a matrix", lambda make: cm.conv2d(make(np.ones((2, 2))), make(np.ones((1, 1, 1, 1))), 1, "SAME"))


def depthwise(**kwargs):
    def run(make):
        given = {"strides": 1, "padding": "VALID", "channels": 2, **kwargs}
        x, w = make(np.ones((1, 4, 4, 2))), make(np.ones((2, 2, given.pop("channels"))))
        return cm.depthwise_conv2d(x, w, given.pop("strides"), given.pop("padding"), **given)

    return run


for _what, _given in {
    "an unknown layout": {"data_format": "NHCW"},
    "an unknown padding": {"padding": "valid"},
    "a stride of zero": {"strides": (0, 1)},
    "channels that do not fit": {"channels": 3},
}.items():
    case("depthwise_conv2d", _what, depthwise(**_given))


def attention(q=(2, 3, 4), k=(2, 5, 4), v=(2, 5, 6), **kwargs):
    def run(make):
        more = {n: make(a) for n, a in kwargs.items()}
        return cm.scaled_dot_product_attention(make(np.ones(q)), make(np.ones(k)), make(np.ones(v)), 1.0, **more)

    return run


case("scaled_dot_product_attention", "a mask of another shape", attention(mask=np.ones((2, 3, 4))))
case("scaled_dot_product_attention", "a mask that would widen", attention(mask=np.ones((7, 2, 3, 5))))
case("scaled_dot_product_attention", "a mask of one query", attention(mask=np.ones((2, 1, 5))))
case("scaled_dot_product_attention", "widths of q and k", attention(k=(2, 5, 3)))
case("scaled_dot_product_attention", "lengths of k and v", attention(v=(2, 4, 6)))
case("scaled_dot_product_attention", "vectors", attention(q=(4,), k=(4,), v=(4,)))


def heads(count, context=(2, 3, 8), **kwargs):
    def run(make):
        more = {n: make(a) for n, a in kwargs.items()}
        if context:
            more["context"] = make(np.ones(context))
        return cm.multi_head_attention(make(np.ones((2, 3, 4))), 1.0, count, **more)

    return run


case("multi_head_attention", "heads that do not divide", heads(3))
case("multi_head_attention", "no heads", heads(0))
case("multi_head_attention", "a mask of another shape", heads(2, mask=np.ones((2, 3, 9))))
case("multi_head_attention", "widths that do not fit", heads(2, context=None))
case("multi_head_attention", "an odd context", heads(2, context=(2, 3, 7)))
case("linear", "widths that do not fit", lambda make: cm.linear(make(np.ones((2, 3))), make(np.ones((4, 5)))))
case(
    "linear",
    "a bias of another length",
    lambda make: cm.linear(make(np.ones((2, 3))), make(np.ones((4, 3))), bias=make(np.ones(5))),
)
case("linear", "a batch that does not fit", lambda make: cm.linear(make(np.ones((3, 2, 3))), make(np.ones((2, 4, 3)))))


def lstm(**shapes):
    def run(make):
        own = {"x": (1, 2, 3), "h": (1, 4), "c": (1, 4), "k": (3, 16), "r": (4, 16), **shapes}
        return cm.lstm_update(*(make(np.ones(s)) for s in own.values()))

    return run


case("lstm_update", "a kernel of another width", lstm(k=(2, 16)))
case("lstm_update", "no four gates", lstm(k=(3, 15)))
case("lstm_update", "a state of another width", lstm(h=(1, 5)))


def of_ones(f):
    return lambda make: f(make(np.ones((2, 3))))


for _p in (1.5, -0.25, float("nan")):
    case("dropout", f"a probability of {_p}", of_ones(lambda x, p=_p: cm.dropout(x, p)))
case("dropout", "a noise shape of too few axes", of_ones(lambda x: cm.dropout(x, 0.5, noise_shape=(1,))))
case("dropout", "a noise shape that does not fit", of_ones(lambda x: cm.dropout(x, 0.5, noise_shape=(5, None))))
case("dropout", "a seed and a key", of_ones(lambda x: cm.dropout(x, 0.5, seed=1, key=cm.random.key(1))))


def random(name, what, f):
    case(name, what, f, "random")


random("random_uniform", "bounds in the wrong order", lambda make: cm.random_uniform(low=2.0, high=1.0, shape=(2,)))
random(
    "random_uniform",
    "one pair in the wrong order",
    lambda make: cm.random_uniform(low=make(np.array([0.0, 2.0])), high=1.0),
)
random("random_uniform", "an array and a shape", lambda make: cm.random_uniform(low=make(np.zeros(2)), shape=(2,)))
random("random_uniform", "two shapes", lambda make: cm.random_uniform(low=make(np.zeros(2)), high=make(np.ones(3))))
random("random_uniform", "a negative seed", lambda make: cm.random_uniform(seed=-1))
random("random_uniform", "a seed and a key", lambda make: cm.random_uniform(seed=1, key=cm.random.key(1)))
random("random_normal", "a negative scale", lambda make: cm.random_normal(std=-1.0, shape=(2,)))
random("random_normal", "a negative scale in an array", lambda make: cm.random_normal(std=make(np.array([1.0, -1.0]))))
random("multinomial", "weights that sum to 0", lambda make: cm.multinomial(2, 1, probs=make(np.zeros(2))))
random(
    "multinomial", "a row that sums to 0", lambda make: cm.multinomial(2, 1, probs=make(np.array([[1.0, 1], [0, 0]])))
)
random("multinomial", "a negative weight", lambda make: cm.multinomial(2, 1, probs=make(np.array([1.0, -0.5]))))
random("multinomial", "more than there are", lambda make: cm.multinomial(3, 4, replace=False))
random("multinomial", "nobody", lambda make: cm.multinomial(0, 4))
random("randint", "bounds in the wrong order", lambda make: cm.randint(3, 2))
random("randint", "floats", lambda make: cm.randint(make(np.array([1.0])), 2))
random("randint", "a dtype of floats", lambda make: cm.randint(1, 2, dtype="float32"))
random("bernoulli", "a probability of 2", lambda make: cm.bernoulli(2.0, shape=(2,)))
random("bernoulli", "a negative probability", lambda make: cm.bernoulli(make(np.array([0.5, -0.5]))))
random("bernoulli", "both", lambda make: cm.bernoulli(0.5, logits=0.0, shape=(2,)))
random("poisson", "a negative rate", lambda make: cm.poisson(-1.0, shape=(2,)))
random("beta", "a parameter of 0", lambda make: cm.beta(0.0, 1.0, shape=(2,)))
random("gamma", "a negative parameter", lambda make: cm.gamma(1.0, -1.0, shape=(2,)))
random("dirichlet", "a parameter of 0", lambda make: cm.dirichlet(make(np.array([1.0, 0.0]))))


def gradient(name, what, f):
    case(name, what, f, "gradients")


def pair(make, *shapes):
    return [make(np.ones(s)) for s in shapes]


def trees(f):
    """Containers that are not alike."""

    def run(make):
        x = make(np.ones(2))
        return f(cm.Container({"a": x, "b": x}), cm.Container({"a": x, "c": x}))

    return run


gradient("optimizer_update", "shapes that do not fit", lambda make: cm.optimizer_update(*pair(make, 3, 4), 0.1))
gradient("optimizer_update", "containers that are not alike", trees(lambda a, b: cm.optimizer_update(a, b, 0.1)))
gradient(
    "gradient_descent_update",
    "containers that are not alike",
    trees(lambda a, b: cm.gradient_descent_update(a, b, 0.1)),
)
gradient("adam_step", "containers that are not alike", trees(lambda a, b: cm.adam_step(a, b, b, 1)))
gradient("adam_update", "containers that are not alike", trees(lambda a, b: cm.adam_update(a, b, 0.1, a, a, 1)))
gradient("lars_update", "containers that are not alike", trees(lambda a, b: cm.lars_update(a, b, 0.1)))
gradient("lamb_update", "containers that are not alike", trees(lambda a, b: cm.lamb_update(a, b, 0.1, a, a, 1)))
gradient("adam_step", "several steps", lambda make: cm.adam_step(*pair(make, 2, 2, 2), make(np.ones(2))))
gradient("grad", "a loss of two elements", lambda make: cm.grad(lambda x: x * 2)(make(np.ones(2))))
gradient("value_and_grad", "a loss of two elements", lambda make: cm.value_and_grad(lambda x: x * 2)(make(np.ones(2))))
gradient(
    "execute_with_gradients",
    "a loss of two elements",
    lambda make: cm.execute_with_gradients(lambda x: x * 2, make(np.ones(2))),
)
gradient("set_with_grads", "a number", lambda make: cm.set_with_grads(1))
gradient("with_grads", "a number", lambda make: cm.with_grads(with_grads=1))


def bound(rule, inputs=1):
    def run(make):
        f = cm.bind_custom_gradient_function(lambda *xs: xs[0] * 2, rule)
        return cm.grad(lambda x: cm.sum(f(*[x] * inputs)))(make(np.ones((2, 3))))

    return run


for _what, _rule, _inputs in [
    ("of another shape", lambda args, up: cm.sum(up, axis=0), 1),
    ("of too many", lambda args, up: (up, up), 1),
    ("of too few", lambda args, up: (up,), 2),
    ("that is none", lambda args, up: "up", 1),
]:
    case("bind_custom_gradient_function", f"a gradient {_what}", bound(_rule, _inputs), "custom-gradients")


def error(f, backend):
    with cm.backend(backend), pytest.raises(Exception) as found:
        f(lambda a: tensor(backend, a))
    return found.value


#: Functions that are one with another.
NAMED_AS = {"value_and_grad": "grad", "set_with_grads": "with_grads"}


@pytest.mark.parametrize("name, f", CASES)
def test_bad_input(cell, name, f):
    got = error(f, cell.backend)
    assert isinstance(got, cm.ClematisError), repr(got)
    assert isinstance(got, ValueError | TypeError | IndexError), repr(got)
    want = error(f, "native")
    assert (type(got), str(got)) == (type(want), str(want)), "another error than on the native engine"
    assert NAMED_AS.get(name, name) in str(got), f"{name} is not named: {got}"


MISPLACED = [
    ("layers", "conv2d", lambda x: cm.conv2d(x=x, filters=x, strides=1, padding="SAME")),
    ("layers", "conv2d", lambda x: cm.conv2d(x, x, 1, "SAME", "NHWC")),
    ("layers", "linear", lambda x: cm.linear(x)),
    ("layers", "dropout", lambda x: cm.dropout(x, 0.5, chance=1)),
    ("gradients", "adam_step", lambda x: cm.adam_step(x, x, x, 1, 0.9)),
    ("random", "random_uniform", lambda x: cm.random_uniform(0.0, 1.0)),
    ("random", "shuffle", lambda x: cm.shuffle(x=x)),
]


@pytest.mark.parametrize("dashboard, name, f", MISPLACED)
def test_misplaced_arguments(cell, request, dashboard, name, f):
    request.node.add_marker(pytest.mark.row(dashboard, f"test_{name}"))
    with pytest.raises(TypeError):
        f(tensor(cell.backend, np.ones((1, 2, 2, 1))))
