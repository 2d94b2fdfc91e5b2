"""`cm.Trainer(jit=True)`."""

import clematis as cm
import numpy as np
import pytest
from conftest import BACKENDS


def made(jit, **options):
    net = cm.nn.Sequential(
        cm.nn.Linear(3, 8, key=cm.random.key(0)), cm.nn.Tanh(), cm.nn.Linear(8, 1, key=cm.random.key(1))
    )

    def loss(net, batch):
        x, y = batch
        off = net(x) - y
        return cm.mean(off**2), {"largest": cm.max(cm.abs(off))}

    return cm.Trainer(net, loss, cm.optim.Adam(0.02), jit=jit, progress=False, **options)


def batches():
    x = np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)
    return cm.data.Batches((cm.asarray(x), cm.asarray(x[:, :1] * 2)), 8, key=cm.random.key(3))


def test_history_equals_the_eager_one(backend):
    plain, own = made(False, clip_norm=1.0), made(True, clip_norm=1.0)
    want, got = plain.fit(batches(), epochs=3), own.fit(batches(), epochs=3)
    for a, b in zip(want, got, strict=True):
        assert a.keys() == b.keys()
        for name in ("loss", "largest"):
            np.testing.assert_allclose(b[name], a[name], rtol=1e-3)
    assert own.steps == plain.steps == own.optimizer.steps == 12
    assert own._program.compilations == 1


def test_a_failed_step_changes_nothing():
    trainer = made(True)
    x = cm.ones((4, 3))
    trainer.step((x, cm.ones((4, 1))))
    before = {path: v.numpy().copy() for path, v in trainer.model.v._entries()}
    moments = {path: [m.numpy().copy() for m in slots] for path, slots in trainer.optimizer._moments.items()}
    with pytest.raises(cm.errors.ArgumentError, match="the loss of step 2 is nan"):
        trainer.step((x * cm.nan, cm.ones((4, 1))))
    assert trainer.steps == trainer.optimizer.steps == 1
    for path, v in trainer.model.v._entries():
        assert (v.numpy() == before[path]).all()
        assert all(
            (m.numpy() == old).all() for m, old in zip(trainer.optimizer._moments[path], moments[path], strict=True)
        )


def test_a_dict_of_parameters_is_a_model():
    model = {"w": cm.zeros((2,))}
    trainer = cm.Trainer(model, lambda m, x: cm.sum((m["w"] - x) ** 2), cm.optim.SGD(0.1), jit=True, progress=False)
    for _ in range(60):
        trainer.step(cm.asarray([1.0, -2.0]))
    np.testing.assert_allclose(model["w"].numpy(), [1.0, -2.0], atol=1e-4)


def test_optimizers_with_python_state_raise():
    with pytest.raises(cm.errors.ArgumentError, match="not LossScale"):
        cm.Trainer({"w": cm.ones(())}, lambda m, b: m["w"], cm.optim.LossScale(cm.optim.SGD(1.0)), jit=True)
    optimizer = cm.optim.Accumulate(cm.optim.SGD(1.0), every=2)
    with pytest.raises(cm.TraceError, match=r"Accumulate.step.*outside"):
        cm.jit(lambda v: optimizer.step(v, {"w": v["w"]}))({"w": cm.ones((2,))})


@pytest.mark.parametrize("backend", BACKENDS)
def test_batched_step_scalars_equal_those_of_the_step(backend):
    def trained(jitted):
        with cm.backend(backend):
            v, adam, out = {"w": cm.asarray([1.0, -2.0, 3.0])}, cm.optim.Adam(1e-1), []

            def step(v):
                adam.step(v, cm.grad(lambda v: cm.sum(v["w"] ** 2))(v))

            run = cm.jit(step) if jitted else step
            for i in range(40):
                if i == 9:
                    adam.lr = 3e-2
                if i == 21:
                    adam.lr = cm.optim.schedules.Cosine(1e-1, 20)
                if i == 30:
                    # As if restored from a checkpoint: the step count continues from there.
                    adam.lr, adam._step = 1e-2, 4
                run(v)
                out.append(np.asarray(v["w"]))
            return out

    np.testing.assert_allclose(trained(True), trained(False), rtol=1e-5, atol=1e-7)
