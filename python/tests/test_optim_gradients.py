"""Gradient transformations: clipping, accumulation, loss scaling."""

import clematis as cm
import numpy as np
import pytest
import torch


def tree():
    return {"w": cm.asarray([3.0, 0.0]), "deep": [cm.asarray(4.0), {"x": cm.zeros((2, 2))}]}


def test_the_length_is_that_of_one_vector(backend):
    norm = cm.tree.global_norm(tree())
    assert float(norm) == 5.0 and norm.backend == backend and norm.shape == ()
    assert float(cm.tree.global_norm({})) == 0.0
    assert float(cm.tree.global_norm(cm.asarray([3, 4]))) == 5.0
    # Squares of these are beyond float32, and squares of float16 values beyond float16.
    assert float(cm.tree.global_norm([cm.asarray([3e30]), cm.asarray([4e30])])) == pytest.approx(5e30)
    half = cm.tree.global_norm([cm.asarray([300.0, 400.0], dtype=cm.float16)])
    assert float(half) == 500.0 and half.dtype == cm.float32
    assert cm.tree.global_norm([cm.asarray([1.0]), cm.asarray([1.0], dtype="float64")]).dtype == cm.float64


def test_clipping_is_that_of_torch(backend):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(3, 4)), rng.normal(size=(5,))]
    params = [torch.zeros(p.shape) for p in parts]
    for p, g in zip(params, parts, strict=True):
        p.grad = torch.tensor(g, dtype=torch.float32)
    torch.nn.utils.clip_grad_norm_(params, 1.5)
    out = cm.tree.clip_by_global_norm([cm.asarray(p, dtype="float32") for p in parts], 1.5)
    for x, p in zip(out, params, strict=True):
        # torch adds 1e-6 to the length.
        np.testing.assert_allclose(x.numpy(), p.grad.numpy(), rtol=2e-6)
    assert float(cm.tree.global_norm(out)) == pytest.approx(1.5)


def test_what_is_short_enough_stays_to_the_bit(backend):
    grads = {"w": cm.asarray([-0.0, 1e-30, 0.3])}
    out = cm.tree.clip_by_global_norm(grads, 1.0)
    assert out["w"].numpy().tobytes() == grads["w"].numpy().tobytes()
    # What is not finite is not hidden.
    bad = cm.tree.clip_by_global_norm({"w": cm.asarray([1.0, cm.inf])}, 1.0)
    assert bad["w"].numpy().tolist() == [1.0, np.inf]
    half = cm.tree.clip_by_global_norm([cm.asarray([300.0, 400.0], dtype=cm.float16)], 5.0)
    assert half[0].dtype == cm.float16 and half[0].numpy().tolist() == [3.0, 4.0]


def test_elements_are_held_between_two_numbers(backend):
    out = cm.tree.clip_by_value({"w": cm.asarray([-3.0, 0.5, 9.0])}, -1, 2)
    assert out["w"].numpy().tolist() == [-1.0, 0.5, 2.0]
    with pytest.raises(cm.ArgumentError):
        cm.tree.clip_by_value({}, 2, 1)
    with pytest.raises(cm.ArgumentError):
        cm.tree.clip_by_global_norm({}, 0)
    with pytest.raises(cm.ArgumentError):
        cm.tree.clip_by_global_norm({}, float("nan"))


def test_containers_and_modules_are_trees_too(backend):
    net = cm.nn.Linear(3, 2)
    grads = cm.grad(lambda net: cm.sum(net(cm.ones((4, 3)))))(net)
    out = cm.tree.clip_by_global_norm(grads, 0.5)
    assert type(out) is type(grads) and float(cm.tree.global_norm(out)) == pytest.approx(0.5)
    assert isinstance(cm.tree.clip_by_value(net.v, -1, 1), cm.Container)
    assert cm.tree.all_finite(net.v)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_accumulated_gradients_are_their_mean(backend, dtype):
    grads = [cm.asarray([float(i), 1.0], dtype=dtype) for i in range(4)]
    v = cm.Container(w=cm.asarray([0.0, 0.0], dtype=dtype))
    optimizer = cm.optim.Accumulate(cm.optim.SGD(1.0), every=4)
    for i, grad in enumerate(grads):
        before = v.w
        out = optimizer.step(v, {"w": grad})
        assert out is v and (v.w is before) is (i < 3)
    assert v.w.numpy().tolist() == [-1.5, -1.0] and optimizer.steps == 1
    assert v.w.dtype.name == dtype


def test_an_accumulation_goes_on_from_a_file(backend, tmp_path):
    v = {"a": {"w": cm.asarray([1.0])}}
    one = cm.optim.Accumulate(cm.optim.Adam(0.1), every=3)
    for i in range(4):
        one.step(v, {"a": {"w": cm.asarray([float(i)])}})
    cm.save(tmp_path / "s", one.state)
    two = cm.optim.Accumulate(cm.optim.Adam(0.1), every=3)
    two.set_state(cm.load(tmp_path / "s"))
    w = {"a": {"w": v["a"]["w"]}}
    for i in range(4):
        one.step(v, {"a": {"w": cm.asarray([float(i)])}})
        two.step(w, {"a": {"w": cm.asarray([float(i)])}})
    assert v["a"]["w"].numpy().tobytes() == w["a"]["w"].numpy().tobytes()
    assert one.state.identical(two.state)


def test_other_gradients_than_before_are_not_added():
    optimizer = cm.optim.Accumulate(cm.optim.SGD(1.0), every=2)
    v = {"w": cm.asarray([1.0])}
    optimizer.step(v, {"w": cm.asarray([1.0])})
    state = optimizer.state
    for grads in ({"x": cm.asarray([1.0])}, {"w": cm.asarray([1.0, 2.0])}, {}, {"w": cm.asarray([1.0]), "x": v["w"]}):
        with pytest.raises(cm.StructureError, match="gradient `[wx]`"):
            optimizer.step(v, grads)
    assert optimizer.state.identical(state)
    with pytest.raises(cm.ArgumentError, match="every"):
        cm.optim.Accumulate(cm.optim.SGD(1.0), every=0)
    with pytest.raises(cm.StructureError, match="optimiser was expected"):
        cm.optim.Accumulate(3, every=2)


def test_loss_scaling_keeps_gradients_that_underflow_in_half_precision(backend):
    def train(optimizer):
        v = cm.Container(w=cm.asarray([1.0], dtype=cm.float16))
        x = cm.asarray([1e-4], dtype=cm.float16)

        def loss(v):
            out = cm.sum(v.w * x * x)
            return optimizer.scaled(out) if hasattr(optimizer, "scaled") else out

        optimizer.step(v, cm.grad(loss)(v))
        return float(v.w[0])

    plain, scaled = cm.optim.SGD(5e7), cm.optim.LossScale(cm.optim.SGD(5e7), scale=2.0**13)
    assert train(scaled) == pytest.approx(0.5, rel=0.02)
    # 1e-8 is nothing, or a number with one bit, in float16.
    assert train(plain) == 1.0 or abs(train(plain) - 0.5) > 0.05


def test_a_scale_shrinks_and_grows(backend):
    optimizer = cm.optim.LossScale(cm.optim.SGD(1.0), scale=8, growth=4, backoff=0.25, every=2)
    v = cm.Container(w=cm.asarray([1.0]))
    w = v.w
    for bad in (cm.inf, cm.nan):
        assert optimizer.step(v, {"w": cm.asarray([bad])}) is v
    assert v.w is w and optimizer.scale == 0.5 and optimizer.skipped == 2 and optimizer.steps == 0
    for _ in range(2):
        optimizer.step(v, {"w": cm.asarray([0.5])})
    assert float(v.w[0]) == -1.0 and optimizer.scale == 2.0 and optimizer.steps == 2
    other = cm.optim.LossScale(cm.optim.SGD(1.0))
    other.set_state(optimizer.state)
    assert (other.scale, other.skipped, other.steps) == (2.0, 2, 2)
    with pytest.raises(cm.StructureError, match="`good` is missing"):
        other.set_state(cm.optim.SGD(1.0).state)


@pytest.mark.parametrize("wrong", [{"scale": 0}, {"scale": cm.nan}, {"growth": 0.5}, {"backoff": 2}, {"every": -1}])
def test_scales_that_make_no_sense_are_refused(wrong):
    with pytest.raises(cm.ArgumentError, match="LossScale"):
        cm.optim.LossScale(cm.optim.SGD(1.0), **wrong)
