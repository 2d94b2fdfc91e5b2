"""Files, hooks and summaries of modules."""

import copy

import clematis as cm
import numpy as np
import pytest


class Net(cm.Module):
    def __init__(self):
        self.first = cm.nn.Linear(3, 5)
        self.rest = cm.nn.Sequential(cm.nn.Linear(5, 4), cm.relu, cm.nn.Dropout(0.5), cm.nn.Linear(4, 2))
        self.count = cm.State([0.0, 1.0])
        self.more = [cm.State([2.0])]

    def __call__(self, x):
        return self.rest(cm.tanh(self.first(x)))


def flat(module):
    return {path: x.numpy() for path, x in module._whole()._entries()}


def same(a, b):
    return list(a) == list(b) and all(np.array_equal(a[path], b[path]) for path in a)


def test_a_module_comes_back_from_its_file_with_its_buffers_and_frozen_parts(backend, tmp_path):
    net, other = Net(), Net()
    net.freeze("first/b")
    net.count = cm.asarray([3.0, 4.0])
    net.save(tmp_path / "net.safetensors")
    assert not same(flat(net), flat(other))
    assert other.load(tmp_path / "net.safetensors") == {}
    assert same(flat(net), flat(other))
    assert other.first.w.backend == backend
    assert cm.load(tmp_path / "net.safetensors")["more"]["v0"].numpy().tolist() == [2.0]


def test_a_file_that_differs_changes_nothing_and_says_what_differs(backend, tmp_path):
    class Other(Net):
        def __init__(self):
            super().__init__()
            self.first = cm.nn.Linear(3, 6)
            del self.count

    net = Net()
    Other().save(tmp_path / "other.safetensors")
    before = flat(net)
    with pytest.raises(cm.CheckpointError) as raised:
        net.load(tmp_path / "other.safetensors")
    for path in ("first.w", "first.b", "count"):
        assert path in str(raised.value)
    assert same(before, flat(net))
    skipped = net.load(tmp_path / "other.safetensors", strict=False)
    assert sorted(skipped) == ["count", "first.b", "first.w"]
    assert not np.array_equal(before["rest/submodules/v0/w"], flat(net)["rest/submodules/v0/w"])
    assert np.array_equal(before["first/w"], flat(net)["first/w"])


def test_a_module_in_a_pytree_is_saved_whole_and_loaded_as_a_new_one(tmp_path):
    net, like = Net(), Net()
    net.count = cm.asarray([7.0, 8.0])
    cm.save(tmp_path / "all.safetensors", {"net": net, "step": 3})
    before = flat(like)
    out = cm.load(tmp_path / "all.safetensors", like={"net": like, "step": 0})
    assert same(flat(out["net"]), flat(net)) and out["step"] == 3
    assert same(flat(like), before)


def test_hooks_see_and_change_what_goes_in_and_out(backend):
    net, x = cm.nn.Linear(3, 2, with_bias=False), cm.ones((1, 3))
    seen = []
    plain = net(x).numpy()
    first = net.hook(before=lambda m, args, kwargs: seen.append((m, len(args))))
    double = net.hook(before=lambda m, args, kwargs: ((args[0] * 2,), kwargs), after=lambda m, a, k, y: y + 1)
    assert np.allclose(net(x).numpy(), 2 * plain + 1)
    assert seen == [(net, 1)]
    first.remove()
    first.remove()
    assert net.hooks == (double,)
    assert np.allclose(copy.copy(net)(x).numpy(), 2 * plain + 1)
    grads = cm.grad(lambda n: cm.sum(n(x)))(net)
    assert np.allclose(grads.w.numpy(), 2.0)
    double.remove()
    with net.hook(after=lambda *_: None):
        assert np.array_equal(net(x).numpy(), plain)
    assert net.hooks == ()


def test_a_hook_that_raises_leaves_the_module_as_it_was():
    net = cm.nn.Linear(3, 2)

    def refuse(*_):
        raise RuntimeError("no")

    with net.hook(before=refuse), pytest.raises(RuntimeError, match="no"):
        net(cm.ones((1, 3)))
    assert net(cm.ones((1, 3))).shape == (1, 2)


@pytest.mark.parametrize(("before", "after"), [(None, None), (3, None), (None, "x")])
def test_a_hook_is_a_function(before, after):
    with pytest.raises(cm.ArgumentError, match="hook"):
        cm.nn.Linear(3, 2).hook(before, after)


def test_what_a_hook_returns_are_arguments():
    with cm.nn.Linear(3, 2).hook(before=lambda m, a, k: a) as hook, pytest.raises(cm.ArgumentError, match="hook: before"):
        hook.module(cm.ones((1, 3)))


def test_a_summary_counts_shapes_parameters_and_operations(backend):
    net = Net()
    net.freeze("first/b")
    cm.seed(3)
    told = net.summary(cm.ones((4, 3)))
    rows = {row.path: row for row in told.rows}
    assert list(rows) == ["", "first", "rest", "rest/submodules/v0", "rest/submodules/v2", "rest/submodules/v3"]
    assert rows["first"].output == (4, 5)
    assert rows["first"].flops == 2 * 4 * 3 * 5 + 20
    assert rows["rest"].parameters == 5 * 4 + 4 + 4 * 2 + 2
    assert told.parameters == 20 + 34 and told.trained == told.parameters - 5
    assert told.flops == rows["first"].flops + 20 + rows["rest"].flops
    assert told.bytes == 4 * (told.parameters + 3)
    assert net.training and net.rest[2].training
    first = cm.random_uniform(shape=(2,)).numpy()
    cm.seed(3)
    assert np.array_equal(first, cm.random_uniform(shape=(2,)).numpy())
    assert "rest (Sequential)" in repr(told) and "54" in repr(told)


def test_a_summary_of_what_reads_values_has_no_count():
    class Reads(cm.Module):
        def __init__(self):
            self.inner = cm.nn.Linear(2, 2)

        def __call__(self, x):
            return self.inner(x) if float(cm.sum(x)) > 0 else x

    told = Reads().summary(cm.ones((1, 2)))
    assert told.flops is None and told.rows[1].flops == 10
    assert "?" in repr(told)


def test_a_layer_that_is_called_twice_says_so():
    class Twice(cm.Module):
        def __init__(self):
            self.inner = cm.nn.Linear(2, 2)

        def __call__(self, x):
            return self.inner(self.inner(x))

    assert "inner (Linear) ×2" in repr(Twice().summary(cm.ones((1, 2))))
