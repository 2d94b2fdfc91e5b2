"""Rewrites of a program before a framework compiles it, and module variables in lists."""

import clematis as cm
import numpy as np
import pytest
from clematis._jit.xla_policy import compile_whole

BACKENDS = [name for name in ("native", "torch", "jax", "tensorflow") if name in cm.backends()]


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("cut", [(3, 3), (3, 5), (5, 3)], ids=["adjacent", "gap", "overlap"])
def test_gradients_of_slices(name, cut):
    end, start = cut
    values = np.random.default_rng(0).standard_normal((2, 8)).astype("f")
    expected = 2 * np.pad(values[:, :end], ((0, 0), (0, 8 - end))) + np.pad(np.ones((2, 8 - start)), ((0, 0), (start, 0)))
    with cm.backend(name):
        f = cm.jit(cm.grad(lambda x: cm.sum(x[:, :end] ** 2) + cm.sum(x[:, start:])))
        np.testing.assert_allclose(np.asarray(f(cm.asarray(values)).tolist()), expected, rtol=1e-6)


def test_the_gradient_of_a_split_is_one_concat():
    def f(x):
        first, second, third = cm.split(x, 3, axis=1)
        return cm.sum(first * second) + cm.sum(third**2)

    program = cm.explain(cm.grad(f), cm.ones((2, 6)))
    assert "concat(" in str(program) and "pad(" not in str(program)


def test_xla_compiles_small_programs_whole():
    def graph(rows):
        head = f"graph {{\n  input %0: f32[{rows},512] input\n  input %1: f32[512,512] input\n"
        return head + f"  %2: f32[{rows},512] = dot_general(%0, %1) {{lhs_contract=[1]}}\n  return %2\n}}"

    assert compile_whole(graph(8))
    assert not compile_whole(graph(4096))
    assert not compile_whole(graph(8).replace("dot_general", "conv_general"))
    assert not compile_whole(graph(8).replace("f32", "bf16"))


@pytest.mark.parametrize("name", BACKENDS)
def test_lists_of_modules_hold_updated_variables(name):
    with cm.backend(name):

        class Net(cm.Module):
            def __init__(self):
                self.p = [cm.ones((3,)), cm.ones((2,))]

            def __call__(self, x):
                return cm.sum(self.p[0] * x) + cm.sum(self.p[1])

        net, sgd = Net(), cm.optim.SGD(0.5)

        @cm.jit
        def step(x):
            value, grads = cm.value_and_grad(lambda net: net(x))(net)
            sgd.step(net, grads)
            return value

        x, kept, numbers = cm.ones((3,)), net.p, net.p
        before = numbers[0]
        step(x)
        step(x)
        assert numbers[0].tolist() == [0.0] * 3 and before.tolist() == [1.0] * 3
        # An item that the user assigns becomes the variable's value.
        kept[0] = before
        assert float(step(x)) == 3.0
        assert net.p[0].tolist() == [0.5] * 3 and step.compilations == 1
