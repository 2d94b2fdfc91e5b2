"""Layers are plain modules: constructors by position and by name, formulas in `__call__`, the Ivy recipe only where it is used."""

import copy
import inspect
import pickle
import subprocess
import sys

import clematis as cm
import numpy as np
import pytest

LAYERS = [x for x in vars(cm.nn).values() if inspect.isclass(x) and issubclass(x, cm.Module) and x is not cm.Module]
RECIPE = ("_create_variables", "_build", "_forward")

PLAIN = """
import sys
import clematis as cm

class Net(cm.Module):
    def __init__(self):
        self.first = cm.nn.Linear(3, 4)
        self.rest = cm.nn.Sequential(cm.nn.BatchNorm(4), cm.nn.ReLU(), cm.nn.Dropout(0.1))
        self.scale = cm.ones((4,))

    def __call__(self, x):
        return self.rest(self.first(x)) * self.scale

net, x = Net(), cm.ones((2, 3))
net(x)
cm.grad(lambda v: cm.sum(net(x, v=v)))(net.v)
cm.grad(lambda net: cm.sum(net(x)))(net)
cm.jit(net)(x)
net.eval().summary(x)
net.save(sys.argv[1])
net.load(sys.argv[1])
str(net)
assert not [name for name in sys.modules if name.startswith("clematis._module.ivy")]
net.built_
assert "clematis._module.ivy" in sys.modules
"""


def test_a_plain_module_does_not_load_the_ivy_recipe(tmp_path):
    subprocess.run([sys.executable, "-c", PLAIN, str(tmp_path / "net.safetensors")], check=True, timeout=120)


@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
def test_layers_are_plain_and_short(kind):
    assert kind._recipe is None and "__call__" in dir(kind)
    assert not any(
        name in vars(base) for base in kind.__mro__ if base.__module__.startswith("clematis.nn") for name in RECIPE
    )
    for own in (x for base in kind.__mro__ if base.__module__.startswith("clematis.nn") for x in vars(base).values()):
        if inspect.isfunction(own):
            source = inspect.getsource(inspect.unwrap(own))
            assert source.count("\n") <= 40, own
    # Sizes and settings may be given by position or by name.
    kinds = {p.kind for p in inspect.signature(kind).parameters.values()}
    assert inspect.Parameter.POSITIONAL_ONLY not in kinds


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda k: cm.nn.Linear(3, 2, key=k), lambda k: cm.nn.Linear(output_channels=2, input_channels=3, key=k)),
        (
            lambda k: cm.nn.Conv2D(3, 4, (3, 2), 2, "VALID", key=k),
            lambda k: cm.nn.Conv2D(
                input_channels=3, output_channels=4, filter_shape=(3, 2), strides=2, padding="VALID", key=k
            ),
        ),
        (
            lambda k: cm.nn.Conv1DTranspose(3, 4, 3, 2, "VALID", key=k),
            lambda k: cm.nn.Conv1DTranspose(
                input_channels=3, output_channels=4, filter_shape=3, strides=2, padding="VALID", key=k
            ),
        ),
        (
            lambda k: cm.nn.LSTM(3, 4, 2, key=k),
            lambda k: cm.nn.LSTM(input_channels=3, output_channels=4, num_layers=2, key=k),
        ),
        (lambda k: cm.nn.BatchNorm(3, 1e-3), lambda k: cm.nn.BatchNorm(channels=3, epsilon=1e-3)),
        (
            lambda k: cm.nn.TransformerEncoder(1, 4, 2, 8, key=k),
            lambda k: cm.nn.TransformerEncoder(num_layers=1, model_dim=4, num_heads=2, hidden_dim=8, key=k),
        ),
    ],
)
def test_arguments_by_position_and_by_name_are_the_same(one, other):
    a, b = one(cm.random.key(3)), other(cm.random.key(3))
    assert repr(a) == repr(b) and a.v.paths() == b.v.paths() and len(a.v.paths())
    for path in a.v.paths():
        assert a.v[path].numpy().tobytes() == b.v[path].numpy().tobytes()


def test_a_layer_that_waits_keeps_its_arguments_and_can_be_copied():
    waits = cm.nn.Linear(3, 2, key=cm.random.key(0), build_mode="on_call")
    assert (waits.input_channels, waits.with_bias, waits.built_) == (3, True, False)
    assert repr(waits) == "Linear(input_channels=3, output_channels=2)  # not built yet"
    x = cm.ones((1, 3), dtype="float64")
    copies = [copy.deepcopy(waits), pickle.loads(pickle.dumps(waits))]
    want = waits(x).numpy()
    assert waits.w.dtype == cm.float64 and waits.built_
    for other in copies:
        assert not other.built_
        assert np.array_equal(other(x).numpy(), want)
    with pytest.raises(TypeError, match="output_channels"):
        cm.nn.Linear(3, build_mode="on_call")
    explicit = cm.nn.Linear(3, 2, key=cm.random.key(0), build_mode="explicit")
    with pytest.raises(cm.StructureError, match="build"):
        explicit(cm.ones((1, 3)))
    assert explicit.build().paths() == ["w", "b"] and explicit.build_mode == "explicit"


def test_a_subclass_of_a_layer_hands_its_options_on():
    class Scaled(cm.nn.Linear):
        def __init__(self, n, **options):
            super().__init__(n, n, **options)
            self.scale = cm.ones(n)

        def __call__(self, x):
            return super().__call__(x) * self.scale

    given = {"w": cm.eye(2), "b": cm.zeros(2), "scale": cm.asarray([1.0, 3.0])}
    layer = Scaled(2, v=given)
    assert layer.v.paths() == ["w", "b", "scale"] and layer.w is given["w"]
    assert layer(cm.ones((1, 2))).tolist() == [[1.0, 3.0]]
    with pytest.raises(TypeError, match="colour"):
        Scaled(2, colour="red")


def test_parameters_of_a_layer_stay_parameters():
    layer = cm.nn.Conv2D(3, 4, 1, with_bias=False)
    assert layer.b is None and layer.v.paths() == ["w"]
    for value in (None, 3, cm.ones((1,))):
        with pytest.raises(cm.StructureError, match="w"):
            layer.w = value
