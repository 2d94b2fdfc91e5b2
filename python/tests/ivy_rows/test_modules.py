"""Stateful modules: the rows of the dashboard `modules`, each on every backend."""

import clematis as cm
import numpy as np
import pytest
from hypothesis import strategies as st

from .arrays import doubles, tensor
from .networks import BaseFirst, InDict, InList, Nested, Net, Plain

pytestmark = pytest.mark.row("modules")


def each(cell, strategy, test, count=3):
    """Some examples in float32, which is what modules are trained in."""
    cell._some(strategy, lambda dtype, drawn: test(*drawn), "float32", 20 if cell.full else count)


sizes = st.tuples(st.lists(st.integers(1, 2), min_size=2, max_size=2), st.integers(2, 5), st.integers(2, 5))


def inputs(batch, channels, backend):
    x = np.linspace(np.zeros(batch), np.ones(batch), channels, axis=-1)
    return tensor(backend, x, "float32")


def trained(module, x, steps=10):
    """Gradients of the last step; the loss goes down with each."""
    before = 1e12
    for _ in range(steps):
        loss, grads = cm.execute_with_gradients(lambda v: cm.mean(module(x, v=v)), module.v)
        module.v = cm.gradient_descent_update(module.v, grads, 1e-3)
        assert loss < before
        before = loss
    assert cm.tree.is_array(loss) and loss.shape == () and isinstance(grads, cm.Container)
    assert all(np.isfinite(doubles(x)).all() for _, x in module.v._entries())
    return grads


def nonzero(grads, *paths):
    for path in paths:
        assert np.max(np.abs(doubles(grads[path]))) > 0, path
    assert sorted(grads.paths()) == sorted(paths)


def of_layers(*layers):
    return [f"{layer}/{name}" for layer in layers for name in "wb"]


@pytest.mark.parametrize("kind", [Net, BaseFirst, Plain])
def test_module_training(cell, kind):
    def test(batch, n, m):
        x = inputs(batch, n, cell.backend)
        module = kind(n, m)
        grads = trained(module, x)
        nonzero(grads, *of_layers("linear0", "linear1", "linear2"))
        assert all(p.backend == cell.backend for _, p in module.v._entries())
        assert module(x).shape == (*batch, m)
        # As a tree it has the same gradients.
        net = cm.grad(lambda net: cm.mean(net(x)))(module)
        _, grads = cm.execute_with_gradients(lambda v: cm.mean(module(x, v=v)), module.v)
        assert isinstance(net, kind) and net.v.identical(grads)

    each(cell, sizes, test)


@pytest.mark.parametrize("same_layer", [True, False])
def test_module_training_with_duplicate(cell, same_layer):
    class Twice(cm.Module):
        def __init__(self, channels):
            if same_layer:
                self._linear0 = self._linear1 = cm.nn.Linear(channels, channels)
            else:
                w = cm.ones((channels, channels))
                b0, b1 = cm.ones((channels,)), cm.ones((channels,))
                self._linear0 = cm.nn.Linear(channels, channels, v={"w": w, "b": b0})
                self._linear1 = cm.nn.Linear(channels, channels, v={"w": w, "b": b1})
            cm.Module.__init__(self)

        def _forward(self, x):
            return self._linear1(self._linear0(x))

    def test(batch, channels):
        x = inputs(batch, channels, cell.backend)
        module = Twice(channels)
        grads = trained(module, x)
        nonzero(grads, *of_layers("linear0"), *(() if same_layer else ("linear1/b",)))
        assert module._linear0.v.w is module._linear1.v.w
        # One gradient, the sum of both.
        w, b0, b1 = module._linear0.v.w, module._linear0.v.b, module._linear1.v.b

        def apart(u, v):
            return cm.mean(cm.linear(cm.linear(x, u, bias=b0), v, bias=b1))

        one, two = cm.grad(apart, argnums=(0, 1))(w, w)
        _, grads = cm.execute_with_gradients(lambda v: cm.mean(module(x, v=v)), module.v)
        np.testing.assert_allclose(doubles(grads.linear0.w), doubles(one) + doubles(two), rtol=2e-5)

    batches = st.lists(st.integers(1, 2), min_size=1, max_size=2)
    each(cell, st.tuples(batches, st.integers(1, 64)), test)


def test_module_w_dict_training(cell):
    def test(batch, n, m):
        grads = trained(InDict(n, m), inputs(batch, n, cell.backend))
        nonzero(grads, *of_layers("layers/linear0", "layers/linear1", "layers/linear2"))

    each(cell, sizes, test)


def test_module_w_list_training(cell):
    def test(batch, n, m):
        grads = trained(InList(n, m), inputs(batch, n, cell.backend))
        nonzero(grads, *of_layers("layers/v0", "layers/v1", "layers/v2"))
        assert grads.layers.v0.b.shape == (64,)

    each(cell, sizes, test)


def test_module_w_none_attribute(cell):
    class WithNone(cm.Module):
        def __init__(self):
            self.some_attribute = None
            cm.Module.__init__(self)

        def _forward(self, x):
            return x

    def test(batch, n, m):
        module, x = WithNone(), inputs(batch, n, cell.backend)
        assert module(x) is x and module(x, v={}) is x and module(x, with_grads=False) is x
        assert len(module.v) == 0 and module.built_

    each(cell, sizes, test)


def test_module_w_partial_v(cell):
    def test(batch, n, m):
        x = inputs(batch, n, cell.backend)
        ones = {"linear0": {"b": cm.ones((64,))}, "linear1": {"w": cm.ones((64, 64))}}
        wrong = [
            {"linear0": {"b": cm.ones((64,))}, "linear1": {"w": cm.ones((64, 64)), "extra": cm.ones((1,))}},
            {"linear0": {"w": cm.ones((1, 64))}},
        ]
        for v in wrong:
            with pytest.raises(cm.StructureError, match=r"linear1/extra|linear0/w"):
                Net(n, m, v=v, with_partial_v=True)
        with pytest.raises(cm.StructureError, match="with_partial_v"):
            Net(n, m, v=ones)
        module = Net(n, m, v=ones, with_partial_v=True)
        assert module.v.linear1.w is ones["linear1"]["w"] and module._linear0.v.b is ones["linear0"]["b"]
        assert module(x).shape == (*batch, m)
        # Parts of a call's variables, too; the rest is the module's own.
        part = {"linear2": {"b": cm.ones((m,))}}
        assert not np.array_equal(doubles(module(x, v=part)), doubles(module(x)))
        with pytest.raises(cm.StructureError, match="linear0"):
            Net(n, m)(x, v=part)

    each(cell, sizes, test)


def test_with_custom_var_structure(cell):
    class Custom(Net):
        def _create_variables(self, device=None, dtype=None):
            return cm.Container(x=self._linear0.v, y=self._linear1.v, z=self._linear2.v)

    def test(batch, n, m):
        module, x = Custom(n, m), inputs(batch, n, cell.backend)
        assert list(module.v) == ["x", "y", "z"] and module.v.x is module._linear0.v
        nonzero(trained(module, x), *of_layers("x", "y", "z"))

    each(cell, sizes, test)


def nested(cell, test):
    def one(batch, n, m):
        module = Nested(n)
        test(module, inputs(batch, n, cell.backend))

    each(cell, sizes, one, count=2)


def test_top_module(cell):
    def test(module, x):
        assert module.top_mod is None
        assert all(m.top_mod() is module for m in module.all())
        assert module._dl0._l0.top_mod(1) is module._dl0 and module._dl1._l1.top_mod(depth=1) is module._dl1
        assert module._dl0._l0.top_mod(2) is module and module._dl0._l0.top_mod(0) is module._dl0
        module(x)
        assert module._dl0.top_mod() is module

    nested(cell, test)


CHAINS = ["dl0", "dl1", "dl0/l0", "dl0/l1", "dl1/l0", "dl1/l1", *of_layers("dl0/l0", "dl0/l1", "dl1/l0", "dl1/l1")]


def test_top_variables(cell):
    def test(module, x):
        assert module.top_v is None
        for m in module.all():
            assert m.top_v() is module.v
            assert all(chain in m.top_v() for chain in CHAINS)
        assert module._dl0._l0.top_v(depth=1) is module._dl0.v
        assert "dl0__l0__w" in module._dl0.top_v(flatten_key_chains=True)

    nested(cell, test)


def test_v_with_top_v_key_chains(cell):
    def test(module, x):
        for name in ("dl0", "dl1"):
            part = getattr(module, f"_{name}")
            found = part.v_with_top_v_key_chains()
            assert list(found) == [name] and found[name] is part.v
            for inner in ("l0", "l1"):
                leaf = getattr(part, f"_{inner}")
                assert leaf.v_with_top_v_key_chains()[name][inner] is leaf.v
                assert leaf.v_with_top_v_key_chains(depth=1)[inner] is leaf.v
        assert module.v_with_top_v_key_chains() is module.v
        flat = module._dl0._l0.v_with_top_v_key_chains(flatten_key_chains=True)
        assert list(flat) == ["dl0__l0__w", "dl0__l0__b"]

    nested(cell, test)


def test_module_depth(cell):
    def test(module, x):
        assert [m.mod_depth() for m in (module, *module.all())] == [0, 1, 1, 2, 2, 2, 2]

    nested(cell, test)


def test_module_height(cell):
    def test(module, x):
        assert [m.mod_height() for m in (module, *module.all())] == [2, 1, 1, 0, 0, 0, 0]

    nested(cell, test)


def test_sub_modules(cell):
    def test(module, x):
        assert module.sub_mods(depth=0) is module.v
        found = module.sub_mods(depth=1)
        assert module._dl0.v in found and module._dl1.v in found
        assert len(found) == 2
        found = module.sub_mods()
        assert all(m.v in found for m in module.all()[2:])
        assert set(module.sub_mods(depth=1, show_v=False).values()) == {""}

    nested(cell, test)


def variants(module):
    """Which modules each way of asking is about."""
    dl0, dl1 = module._dl0, module._dl1
    return [
        ({"submod_depth": 1}, [dl0, dl1]),
        ({}, module.all()),
        ({"submods_to_track": [dl1, dl0._l0]}, [dl1, dl0._l0]),
    ]


def test_module_track_submod_rets(cell):
    def test(module, x):
        shape = (*x.shape[:-1], 64)
        for words, tracked in variants(module):
            assert module(x, track_submod_rets=True, **words).shape == shape
            found = module.submod_rets
            assert set(found) == {m.get_mod_key() for m in tracked}
            for m in tracked:
                values = found[m.get_mod_key()]
                assert len(values) == (2 if m in (module._dl1, module._dl1._l0, module._dl1._l1) else 1)
                assert all(isinstance(v, np.ndarray) and v.shape == shape for v in values)
        # The numbers are those of the layers, and gradients do not mind being watched.
        module(x, track_submod_rets=True)
        np.testing.assert_array_equal(module.submod_rets[module._dl0.get_mod_key()][0], doubles(module._dl0(x)))
        _, grads = cm.execute_with_gradients(lambda v: cm.mean(module(x, v=v, track_submod_rets=True)), module.v)
        assert len(module.submod_rets) == 6 and len(grads.paths()) == 8
        module(x)
        assert len(module.submod_rets) == 0

    nested(cell, test)


def test_module_check_submod_rets(cell):
    def test(module, x):
        for words, _ in variants(module):
            module(x, track_submod_rets=True, **words)
            noted = module.submod_rets
            other = cm.Container({key: [v + 1 for v in values] for key, values in noted.items()}, **noted._config)
            for tolerance in (None, 1e-5, [1e-5, 1e-5]):

                def expected(values, tolerance=tolerance):
                    if tolerance is None:
                        return values
                    return cm.Container(
                        {k: {"val": v, "atol": tolerance, "rtol": tolerance} for k, v in values.items()}
                    )

                module(x, expected_submod_rets=expected(noted), **words)
                with pytest.raises(cm.ClematisError, match="not what was expected"):
                    module(x, expected_submod_rets=expected(other), **words)
        # A wide tolerance lets them pass, None passes always, and so do modules that nobody knows.
        wide = {key: {"val": values, "atol": 2.0} for key, values in other.items()}
        module(x, expected_submod_rets=wide)
        module(x, expected_submod_rets={key.strip(): [None] for key in other} | {"Nobody_7": [np.zeros(1)]})

    nested(cell, test)


def test_module_track_submod_call_order(cell):
    def name(m, at):
        return f"{cm.Container.flatten_key_chain(object.__repr__(m), '_')}_{at}"

    def leaf(m):
        return m.v.cont_flatten_key_chains().to_numpy()

    def layers(m, *which):
        return {name(l, 0): leaf(l) for l in which or (m._l0, m._l1)}

    def test(module, x):
        dl0, dl1 = module._dl0, module._dl1
        want = [
            {name(dl0, 0): leaf(dl0), name(dl1, 0): leaf(dl1), name(dl1, 1): leaf(dl1)},
            {name(dl0, 0): layers(dl0), name(dl1, 0): layers(dl1), name(dl1, 1): layers(dl1)},
            {name(dl0, 0): layers(dl0, dl0._l0), name(dl1, 0): leaf(dl1), name(dl1, 1): leaf(dl1)},
        ]
        for (words, _), expected in zip(variants(module), want, strict=True):
            assert module(x, track_submod_call_order=True, **words).shape == (*x.shape[:-1], 64)
            found, expected = module.submod_call_order, cm.Container({name(module, 0): expected})
            assert cm.Container.cont_identical([found, expected])
            assert [list(v) for v in found.values()] == [list(v) for v in expected.values()]

    nested(cell, test)
