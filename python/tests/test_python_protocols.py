"""Tensors and modules in Python's own protocols: format, round, numbers, printing."""

import math
import operator

import clematis as cm
import numpy as np
import pytest


def test_one_element_is_formatted_as_its_number(backend):
    loss = cm.mean(cm.asarray([0.5, 0.25]))
    assert f"{loss:.3f}" == "0.375"
    assert f"{cm.asarray([[2.0]]):6.1f}" == "   2.0"
    assert f"{cm.asarray(7):05d}" == "00007"
    assert f"{cm.asarray(True):d}" == "1"
    assert f"{cm.asarray(1.5):e} {loss}" == f"1.500000e+00 {loss!s}"
    assert f"{loss!r:>50}" == f"{loss!r:>50}"


def test_several_elements_have_no_format_of_their_own(backend):
    x = cm.asarray([1.0, 2.0])
    assert f"{x}" == str(x) == format(x)
    with pytest.raises(TypeError, match=r"format: expected a tensor of one element for the format \"\.3f\", got f32\[2\]"):
        f"{x:.3f}"
    with pytest.raises(ValueError, match="format"):
        f"{x[0]:q}"


def test_a_traced_value_is_not_formatted():
    with pytest.raises(cm.TraceError):
        cm.jit(lambda x: f"{x:.2f}" and x)(cm.asarray(1.0))


def test_numbers_of_python():
    assert complex(cm.asarray(1 + 2j)) == 1 + 2j and complex(cm.asarray(2.0)) == 2 + 0j
    assert int(cm.asarray(3)) == 3 and float(cm.asarray(2)) == 2.0 and math.floor(cm.asarray(2.5)) == 2
    assert [10, 20, 30][cm.asarray(1)] == 20 and operator.index(cm.asarray(2**40, dtype=cm.int64)) == 2**40
    assert list(range(cm.asarray(3))) == [0, 1, 2]
    for x in (cm.asarray(1.0), cm.asarray([1]), cm.asarray(True)):
        with pytest.raises(TypeError, match="index"):
            operator.index(x)


def test_round_is_that_of_numpy(backend):
    values = np.array([2.5, 3.5, -1.234, 1234.5678], np.float32)
    x = cm.asarray(values)
    for n in (None, 0, 1, 2, -2):
        np.testing.assert_allclose(round(x, n).numpy(), np.round(values, n or 0), rtol=1e-6)
    assert round(x).dtype == cm.float32 and round(cm.asarray([7, 8])).tolist() == [7, 8]


class Net(cm.Module):
    def __init__(self):
        self.hidden = cm.nn.Linear(4, 3)
        self.steps = [cm.nn.Conv2D(3, 8, (3, 3), 1, "VALID", with_bias=False), cm.nn.Dropout(0.5)]
        self.scale = cm.ones(3)

    def __call__(self, x):
        return self.hidden(x)


TREE = """\
Net(
  (hidden): Linear(input_channels=4, output_channels=3)
  (steps/v0): Conv2D(input_channels=3, output_channels=8, filter_shape=(3, 3), padding='VALID', with_bias=False)
  (steps/v1): Dropout(prob=0.5)
)"""


def test_a_module_prints_as_a_tree(capsys):
    net = Net()
    net(cm.ones((2, 4)))
    print(net)
    assert capsys.readouterr().out == f"{TREE}  # {4 * 3 + 3 + 3 * 3 * 3 * 8 + 3:,} parameters\n"
    assert repr(cm.nn.Linear(3, 1)).startswith("Linear(input_channels=3, output_channels=1)")


def test_to_print_a_module_draws_and_builds_nothing():
    cm.seed(3)
    state = cm.random.get_state()
    net = Net()
    before = cm.random.get_state()
    text = repr(net)
    assert text.startswith(TREE)
    assert np.array_equal(np.array(cm.random.get_state()), np.array(before)) and state is not None
    lazy = cm.nn.Linear(3, 1, build_mode="explicit")
    assert repr(lazy) == "Linear(input_channels=3, output_channels=1)  # not built yet"
    assert not lazy.built_


def test_layers_within_themselves_print_once():
    class Loop(cm.Module):
        def __call__(self, x):
            return x

    a, b = Loop(), Loop()
    a.next, b.next = b, a
    assert repr(a).count("Loop(") <= 3
