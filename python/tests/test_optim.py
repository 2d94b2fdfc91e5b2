"""Optimisers: torch's values, any tree, groups, state, mistakes that change nothing."""

import dataclasses
import pickle

import clematis as cm
import numpy as np
import pytest
import torch

RNG = np.random.default_rng(0)
W = RNG.normal(size=(3, 4))
GRADS = [RNG.normal(size=(3, 4)) for _ in range(20)]
ALL = [cm.optim.SGD, cm.optim.Adam, cm.optim.AdamW, cm.optim.LARS, cm.optim.LAMB, cm.optim.RMSprop,
       cm.optim.Adagrad, cm.optim.Lion]  # fmt: skip

SAME = {
    "sgd": (lambda: cm.optim.SGD(0.1), torch.optim.SGD, {"lr": 0.1}),
    "momentum": (lambda: cm.optim.SGD(0.1, momentum=0.9), torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "nesterov": (
        lambda: cm.optim.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    ),
    "adam": (lambda: cm.optim.Adam(0.1), torch.optim.Adam, {"lr": 0.1, "eps": 1e-7}),
    "adam decay": (
        lambda: cm.optim.Adam(0.1, 0.8, 0.95, 1e-3, weight_decay=0.1),
        torch.optim.Adam,
        {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1},
    ),
    "adamw": (
        lambda: cm.optim.AdamW(0.1, weight_decay=0.2),
        torch.optim.AdamW,
        {"lr": 0.1, "eps": 1e-7, "weight_decay": 0.2},
    ),
    "rmsprop": (lambda: cm.optim.RMSprop(0.1), torch.optim.RMSprop, {"lr": 0.1, "eps": 1e-7}),
    "rmsprop centered": (
        lambda: cm.optim.RMSprop(0.1, centered=True, momentum=0.5, weight_decay=0.1, epsilon=1e-3),
        torch.optim.RMSprop,
        {"lr": 0.1, "eps": 1e-3, "centered": True, "momentum": 0.5, "weight_decay": 0.1},
    ),
    "adagrad": (
        lambda: cm.optim.Adagrad(0.1, weight_decay=0.1),
        torch.optim.Adagrad,
        {"lr": 0.1, "eps": 1e-7, "weight_decay": 0.1},
    ),
}


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_twenty_steps_are_those_of_torch(backend, name, dtype):
    make, other, options = SAME[name]
    p = torch.tensor(W, dtype=getattr(torch, dtype), requires_grad=True)
    theirs = other([p], **options)
    ours = make()
    v = cm.Container(w=cm.asarray(W.astype(dtype)))
    for grad in GRADS:
        p.grad = torch.tensor(grad, dtype=p.dtype)
        theirs.step()
        ours.step(v, {"w": cm.asarray(grad.astype(dtype))})
    assert v.w.backend == backend and v.w.dtype.name == dtype
    far = 2e-6 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(v.w.numpy(), p.detach().numpy(), rtol=far, atol=far)


def reference(kind, w, grads, lr, **o):
    """LARS, LAMB and Lion by the formulas of their papers."""
    w, m, s, v = w.copy(), np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(grads, 1):
        length = np.linalg.norm(w)
        if kind == "lars":
            ratio = o["trust"] * length / (np.linalg.norm(g) + o["decay"] * length)
            v = o["momentum"] * v + lr * ratio * (g + o["decay"] * w)
            w = w - v
        elif kind == "lamb":
            m, s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * g * g
            step = m / (1 - 0.9**t) / (np.sqrt(s / (1 - 0.999**t)) + 1e-7) + o["decay"] * w
            w = w - lr * min(length / np.linalg.norm(step), 10) * step
        else:
            w = w - lr * (np.sign(0.9 * m + 0.1 * g) + o["decay"] * w)
            m = 0.99 * m + 0.01 * g
    return w


@pytest.mark.parametrize(
    ("make", "kind", "options"),
    [
        (lambda: cm.optim.LARS(0.1, decay_lambda=0.1, momentum=0.9, trust=0.02), "lars",
         {"decay": 0.1, "momentum": 0.9, "trust": 0.02}),
        (lambda: cm.optim.LARS(0.1), "lars", {"decay": 0.0, "momentum": 0.0, "trust": 1.0}),
        (lambda: cm.optim.LAMB(0.1, decay_lambda=0.1), "lamb", {"decay": 0.1}),
        (lambda: cm.optim.Lion(0.1, weight_decay=0.1), "lion", {"decay": 0.1}),
    ],
)  # fmt: skip
def test_those_that_torch_has_not_follow_their_papers(backend, make, kind, options):
    v = {"w": cm.asarray(W)}
    optimizer = make()
    for grad in GRADS:
        optimizer.step(v, {"w": cm.asarray(grad)})
    np.testing.assert_allclose(v["w"].numpy(), reference(kind, W, GRADS, 0.1, **options), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", ALL)
def test_a_parameter_of_zeros_moves_and_a_gradient_of_zeros_is_no_mistake(backend, kind):
    v = cm.Container(w=cm.zeros((2,)))
    optimizer = kind(0.1)
    optimizer.step(v, {"w": cm.asarray([1.0, -2.0])})
    moved = v.w.numpy()
    assert moved[0] < 0 < moved[1] and np.isfinite(moved).all()
    optimizer.step(v, {"w": cm.zeros((2,))})
    assert np.isfinite(v.w.numpy()).all()


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("dtype", [cm.float16, cm.bfloat16])
def test_half_precision_is_rounded_once_and_its_moments_are_not(backend, kind, dtype):
    # One step of a half is that of float32, rounded.
    half = cm.asarray(W, dtype=dtype)
    grad = cm.asarray(GRADS[0], dtype=dtype)
    v, wide = {"w": half}, {"w": cm.astype(half, cm.float32)}
    optimizer, other = kind(0.1), kind(0.1)
    optimizer.step(v, {"w": grad})
    other.step(wide, {"w": cm.astype(grad, cm.float32)})
    assert v["w"].dtype == dtype
    np.testing.assert_array_equal(
        cm.astype(v["w"], cm.float32).numpy(), cm.astype(cm.astype(wide["w"], dtype), cm.float32).numpy()
    )
    assert all(x.dtype == cm.float32 for x in cm.tree.leaves({k: x for k, x in optimizer.state.items() if k != "step"}))


def test_the_defaults_are_those_of_the_catalogue():
    for kind in ALL:
        optimizer = kind(inplace=True, stop_gradients=True, compile_on_next_step=False, device=None)
        assert optimizer.lr == 1e-4
        assert getattr(optimizer, "epsilon", 1e-7) == 1e-7
        assert pickle.loads(pickle.dumps(optimizer)).lr == 1e-4
    assert (cm.optim.Adam().beta1, cm.optim.Adam().beta2) == (0.9, 0.999)
    assert cm.optim.LAMB().max_trust_ratio == 10
    assert repr(cm.optim.SGD(1)) == "SGD(lr=1, momentum=0.0, nesterov=False, weight_decay=0.0)"


@dataclasses.dataclass
class Pair:
    w: object
    b: object


def test_any_tree_is_moved_in_its_place(backend):
    one = lambda: cm.asarray([1.0, 2.0])
    for tree in [
        cm.Container(a=one(), b={"c": one()}),
        {"a": one(), "b": [one(), (one(), one())]},
        [one(), {"x": one()}],
        {"p": Pair(one(), one()), "name": "net", "none": None, "n": 3},
    ]:
        optimizer = cm.optim.SGD(0.5)
        out = optimizer.step(tree, cm.tree.map(cm.ones_like, tree))
        assert out is tree
        moved = [x for x in cm.tree.leaves(tree) if x.shape]
        assert all(x.numpy().tolist() == [0.5, 1.5] for x in moved), tree
    single = cm.optim.Adam(0.5).step(one(), one())
    np.testing.assert_allclose(single.numpy(), [0.5, 1.5], rtol=1e-5)


def test_without_inplace_nothing_of_the_old_tree_changes(backend):
    v = cm.Container(a=cm.asarray([1.0]), b={"c": cm.asarray([2.0])})
    before = v.copy()
    out = cm.optim.SGD(1.0, inplace=False).step(v, cm.Container(a=cm.asarray([1.0]), b={"c": cm.asarray([1.0])}))
    assert out is not v and v.identical(before, same_arrays=True)
    assert (float(out.a[0]), float(out.b.c[0])) == (0.0, 1.0)


def test_a_framework_has_its_own_arrays_back(framework, make_raw):
    v = {"w": make_raw(framework, [1.0, 2.0])}
    kind = type(v["w"])
    optimizer = cm.optim.Adam(0.5)
    optimizer.step(v, {"w": make_raw(framework, [1.0, -1.0])})
    assert isinstance(v["w"], kind)
    np.testing.assert_allclose(np.asarray(v["w"]), [0.5, 2.5], rtol=1e-5)


def test_a_module_is_trained_without_its_frozen_parameters(backend):
    cm.random.seed(0)
    net = cm.nn.Sequential(cm.nn.Linear(3, 4), cm.nn.Linear(4, 1))
    net.freeze("submodules/v0")
    x = cm.ones((2, 3))
    still, v = net.v.submodules.v0.w, net.v
    optimizer = cm.optim.Adam(0.1)
    losses = []
    for _ in range(5):
        loss, grads = cm.value_and_grad(lambda net: cm.mean((net(x) - 1) ** 2))(net)
        assert optimizer.step(net, grads) is net
        losses.append(float(loss))
    assert losses[-1] < losses[0] and net.v is v and net.v.submodules.v0.w is still
    # Its container holds the new values, and gradients of frozen ones are left aside.
    loss, grads = cm.execute_with_gradients(lambda v: cm.mean((net(x, v=v) - 1) ** 2), net.v)
    optimizer.step(net, grads)
    assert net.v.submodules.v0.w is still
    net.unfreeze()
    loss, grads = cm.value_and_grad(lambda net: cm.mean((net(x) - 1) ** 2))(net)
    optimizer.step(net, grads)
    assert net.v.submodules.v0.w is not still
    # The late parameter counts its own steps, as in torch.
    assert optimizer.state.missed["submodules/v0/w"] == 6
    assert net.v.submodules.v0.w.backend == backend


def test_the_live_container_of_a_module_is_its_store(backend):
    net = cm.nn.Linear(3, 2)
    x = cm.ones((2, 3))
    before = net(x).numpy()
    _, grads = cm.execute_with_gradients(lambda v: cm.sum(net(x, v=v)), net.v)
    assert cm.optim.SGD(0.1).step(net.v, grads) is net.v
    assert (net(x).numpy() < before).all()


def test_groups_have_other_numbers(backend):
    v = cm.Container(body={"w": cm.asarray([1.0]), "b": cm.asarray([1.0])}, head={"w": cm.asarray([1.0])})
    grads = {"body": {"w": cm.asarray([1.0]), "b": cm.asarray([1.0])}, "head": {"w": cm.asarray([1.0])}}
    groups = {"*/b": {"weight_decay": 0.0}, "head/*": {"lr": 0.5}}
    optimizer = cm.optim.SGD(0.25, weight_decay=1.0, groups=groups)
    optimizer.step(v, grads)
    assert [float(x[0]) for x in (v.body.w, v.body.b, v.head.w)] == [0.5, 0.75, 0.0]
    with pytest.raises(cm.ArgumentError, match="sets `rate`"):
        cm.optim.SGD(0.1, groups={"x": {"rate": 1}})
    with pytest.raises(cm.ArgumentError, match="lr"):
        cm.optim.SGD(0.1, groups={"x": {"lr": -1}})
    with pytest.raises(cm.ArgumentError, match="other moments"):
        cm.optim.SGD(0.1, groups={"x": {"momentum": 0.9}})


def test_rates_are_numbers_schedules_or_functions():
    def moved(lr, steps=3):
        v = {"w": cm.asarray([0.0])}
        optimizer = cm.optim.SGD(lr)
        out = []
        for _ in range(steps):
            before = float(v["w"][0])
            optimizer.step(v, {"w": cm.asarray([1.0])})
            out.append(before - float(v["w"][0]))
        return out

    assert moved(1) == [1.0, 1.0, 1.0]
    assert moved(np.float32(0.5)) == [0.5, 0.5, 0.5]
    assert moved(cm.asarray(0.5)) == [0.5, 0.5, 0.5]
    assert moved(cm.optim.schedules.Exponential(1.0, 0.5)) == [1.0, 0.5, 0.25]
    rates = iter([0.5, 1.5, 2.0])
    assert moved(lambda: next(rates)) == [0.5, 1.5, 2.0]


@pytest.mark.parametrize("kind", ALL)
def test_state_is_complete(backend, kind, tmp_path):
    """Three steps, a file, three more, against six."""
    start = {"w": cm.asarray(W, dtype="float32"), "deep": [cm.asarray(W[0], dtype="float32")]}
    schedule = cm.optim.schedules.Warmup(4, cm.optim.schedules.Cosine(0.1, 10))
    grads = [{"w": cm.asarray(s, dtype="float32"), "deep": [cm.asarray(s[0], dtype="float32")]} for s in GRADS[:6]]
    options = {"momentum": 0.9} if kind in (cm.optim.SGD, cm.optim.LARS, cm.optim.RMSprop) else {}
    whole, v = kind(schedule, **options), cm.tree.map(lambda x: x, start)
    for grad in grads:
        whole.step(v, grad)
    first, w = kind(schedule, **options), cm.tree.map(lambda x: x, start)
    for grad in grads[:3]:
        first.step(w, grad)
    cm.save(tmp_path / "state.safetensors", {"v": w, "optimizer": first.state})
    loaded = cm.load(tmp_path / "state.safetensors")
    second = kind(schedule, **options)
    second.set_state(loaded["optimizer"])
    w = loaded["v"]
    for grad in grads[3:]:
        second.step(w, grad)
    assert second.state.step == whole.state.step == second.steps == 6
    for one, two in zip(cm.tree.leaves([v, whole.state]), cm.tree.leaves([w, second.state]), strict=True):
        assert one.numpy().tobytes() == two.numpy().tobytes()
        assert two.backend == backend or not two.shape


def test_state_follows_the_parameters_to_another_backend():
    v = cm.Container(w=cm.asarray([1.0, 2.0]))
    optimizer = cm.optim.Adam(0.1)
    optimizer.step(v, {"w": cm.asarray([1.0, 2.0])})
    with cm.backend("numpy"):
        v = cm.Container(w=v.w.to("numpy"))
        optimizer.step(v, {"w": cm.asarray([1.0, 2.0])})
    assert optimizer.state.mean.w.backend == v.w.backend == "numpy"


def test_init_makes_the_moments(backend):
    v = cm.Container(w=cm.asarray([1.0], dtype="float16"), b=cm.asarray([2.0]))
    optimizer = cm.optim.Adam(0.1).init(v)
    assert optimizer.state.step == 0 and optimizer.state.mean.w.dtype == cm.float32
    assert optimizer.state.square.b.backend == backend


MISTAKES = [
    (lambda g: g.pop("b"), cm.StructureError, "`b` has no gradient"),
    (lambda g: g.update(c=cm.asarray([1.0])), cm.StructureError, "`c` has a gradient, but is no parameter"),
    (lambda g: g.update(b=cm.asarray([1.0, 2.0])), cm.ShapeError, "`b` is"),
    (lambda g: g.update(b=cm.asarray([1.0], dtype="float64")), cm.DTypeError, "`b` is"),
    (lambda g: g.update(b=cm.asarray([1], dtype="int32")), cm.DTypeError, "`b` is"),
]


@pytest.mark.parametrize(("spoil", "error", "match"), MISTAKES)
def test_after_a_mistake_nothing_is_changed(backend, spoil, error, match):
    v = cm.Container(w=cm.asarray([1.0]), b=cm.asarray([2.0]))
    grads = {"w": cm.asarray([1.0]), "b": cm.asarray([1.0])}
    optimizer = cm.optim.Adam(0.1)
    optimizer.step(v, grads)
    before, state = v.copy(), optimizer.state
    spoil(grads)
    with pytest.raises(error, match=match):
        optimizer.step(v, grads)
    assert v.identical(before, same_arrays=True)
    assert optimizer.state.identical(state, same_arrays=True)


def test_gradients_of_another_backend_are_a_mistake():
    v = cm.Container(w=cm.asarray([1.0]))
    with pytest.raises(cm.BackendError, match="`w` lives on native, its gradient on numpy"):
        cm.optim.Adam(0.1).step(v, {"w": np.asarray([1.0], dtype="float32")})


def test_two_arrays_of_one_path_are_a_mistake():
    v = {1: cm.asarray([1.0]), "1": cm.asarray([1.0])}
    with pytest.raises(cm.StructureError, match="two arrays have the path `1`"):
        cm.optim.SGD(0.1).step(v, v)


def test_missing_gradients_can_be_ignored(backend):
    v = cm.Container(w=cm.asarray([1.0]), b=cm.asarray([2.0]))
    optimizer = cm.optim.Adam(0.5)
    optimizer.step(v, {"w": cm.asarray([1.0])}, ignore_missing=True)
    assert float(v.w[0]) == pytest.approx(0.5) and float(v.b[0]) == 2.0
    optimizer.step(v, {"w": cm.asarray([1.0]), "b": cm.asarray([1.0])})
    # The first step of `b` is as long as the first of `w` was.
    assert float(v.b[0]) == pytest.approx(1.5)
    with pytest.raises(cm.StructureError, match="is no parameter"):
        optimizer.step(v, {"x": cm.asarray([1.0])}, ignore_missing=True)


@pytest.mark.parametrize("lr", [-1, float("nan"), float("inf"), "fast", None, True, [1]])
def test_a_rate_that_is_none_is_refused(lr):
    with pytest.raises(cm.ArgumentError, match="lr"):
        cm.optim.Adam(lr)
    v = {"w": cm.asarray([1.0])}
    w = v["w"]
    with pytest.raises(cm.ArgumentError, match="lr"):
        cm.optim.Adam(lambda: lr).step(v, {"w": cm.asarray([1.0])})
    assert v["w"] is w


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: cm.optim.Adam(beta1=1.0), "expected beta1 in \\[0, 1\\), got 1"),
        (lambda: cm.optim.Adam(beta2=-0.1), "beta2"),
        (lambda: cm.optim.Adam(epsilon=-1), "epsilon"),
        (lambda: cm.optim.Adam(beta1="much"), "beta1 is a number"),
        (lambda: cm.optim.LAMB(max_trust_ratio=0), "max_trust_ratio"),
        (lambda: cm.optim.SGD(nesterov=True), "nesterov needs a momentum"),
        (lambda: cm.optim.SGD(momentum=float("nan")), "momentum"),
        (lambda: cm.optim.RMSprop(alpha=2), "alpha"),
        (lambda: cm.optim.Lion(beta2=float("nan")), "beta2"),
        (lambda: cm.optim.LARS(trust=-1), "trust"),
    ],
)
def test_numbers_out_of_range_are_refused(make, match):
    with pytest.raises(cm.ArgumentError, match=match):
        make()
    with pytest.raises(TypeError):
        cm.optim.Adam(speed=1)


def test_a_state_of_something_else_is_refused(backend):
    v = cm.Container(w=cm.asarray([1.0, 2.0]), b=cm.asarray([1.0]))
    optimizer = cm.optim.Adam(0.1)
    optimizer.step(v, cm.Container(w=cm.asarray([1.0, 2.0]), b=cm.asarray([1.0])))
    state = optimizer.state
    other = cm.optim.Adam(0.1)
    small = cm.Container(w=cm.asarray([1.0]), c=cm.asarray([1.0]))
    other.set_state(state)
    with pytest.raises(cm.StructureError) as e:
        other.step(small, cm.Container(w=cm.asarray([1.0]), c=cm.asarray([1.0])))
    assert all(part in str(e.value) for part in ("`b` is in the state", "`c` is a parameter", "`w` has the shape (1,)"))
    assert float(small.w[0]) == 1.0 and other.steps == 1
    # One that knows its parameters says so at once.
    other = cm.optim.Adam(0.1)
    other.init(small)
    with pytest.raises(cm.StructureError) as e:
        other.set_state(state)
    assert all(
        part in str(e.value) for part in ("`b` has moments", "`c` is a parameter", "`mean/w` has the shape (1,)")
    )
    assert other.steps == 0
    with pytest.raises(cm.StructureError, match="`square` is not part of this"):
        cm.optim.SGD(0.1, momentum=0.9).set_state(state)
    with pytest.raises(cm.StructureError, match="`step` is missing"):
        cm.optim.SGD(0.1).set_state({})
    with pytest.raises(cm.StructureError, match="a dict was expected"):
        cm.optim.SGD(0.1).set_state(None)
    with pytest.raises(cm.ArgumentError, match="step"):
        cm.optim.SGD(0.1).set_state({"step": -1})


def test_a_step_can_be_differentiated(backend):
    """What a meta-learner needs: the derivative of the result by the gradient."""
    w = cm.asarray([1.0, 2.0])

    def after(g):
        optimizer = cm.optim.SGD(0.5, stop_gradients=False, inplace=False)
        return cm.sum(optimizer.step({"w": w}, {"w": g})["w"])

    assert cm.grad(after)(cm.asarray([1.0, 1.0])).numpy().tolist() == [-0.5, -0.5]


def test_complex_numbers_are_for_plain_descent(backend):
    v = {"w": cm.asarray([1 + 1j])}
    cm.optim.SGD(0.5, momentum=0.9).step(v, {"w": cm.asarray([2j])})
    assert v["w"].numpy().tolist() == [1 + 0j]
    with pytest.raises(cm.DTypeError, match="`w` is"):
        cm.optim.Adam(0.5).step(v, {"w": cm.asarray([2j])})
