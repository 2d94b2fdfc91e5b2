"""Arrays that are no tensors follow the module: numpy arrays, lists and other frameworks' arrays are moved to its backend."""

import clematis as cm
import numpy as np
import pytest
import torch
from conftest import FRAMEWORKS, raw

X = np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3)


class Net(cm.Module):
    def __init__(self):
        self.layer = cm.nn.Linear(3, 2, key=cm.random.key(0))

    def __call__(self, batch, scale=1.0):
        x = batch["x"] if isinstance(batch, dict) else batch
        # What a call makes is made where the module is.
        return self.layer(x) * scale + cm.zeros((2,))


def arrays():
    return [raw(name, X) for name in FRAMEWORKS] + [X.tolist()]


def test_whatever_is_no_tensor_follows_the_module(backend):
    net = Net()
    want = net(cm.asarray(X)).numpy()
    with cm.backend("native"):
        for x in arrays():
            for out in (net(x), net({"x": x})) if not isinstance(x, list) else (net(x),):
                got = np.asarray(out if not isinstance(out, cm.Tensor) else out.numpy())
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
                assert not isinstance(out, cm.Tensor) or out.backend == backend


def test_arrays_of_the_module_s_own_framework_stay_what_they_are():
    net = Net().to("torch")
    assert isinstance(net.layer(torch.tensor(X)), torch.Tensor)


@pytest.mark.parametrize("other", ["numpy", "torch"])
def test_tensors_of_two_backends_are_an_error(other):
    with cm.backend(other):
        x = cm.asarray(X)
    with pytest.raises(cm.BackendError, match=other):
        Net()(x)


def test_a_compiled_function_follows_the_module(backend):
    net = Net()
    step, closed = cm.jit(lambda net, x: cm.sum(net(x))), cm.jit(lambda x: cm.sum(net(x)))
    want = float(step(net, cm.asarray(X)))
    with cm.backend("native"):
        for x in arrays()[:-1]:
            for out in (step(net, x), step(net, x), closed(x), closed(x)):
                assert abs(float(out) - want) < 1e-4
                assert not isinstance(out, cm.Tensor) or out.backend == backend


def test_a_compiled_function_moves_arrays_to_the_tensors_beside_them():
    add = cm.jit(lambda x, y: x + y)
    out = add(torch.tensor(X), cm.asarray(X))
    assert isinstance(out, cm.Tensor) and out.backend == "native"
    np.testing.assert_array_equal(out.numpy(), 2 * X)
    with cm.backend("torch"):
        y = cm.asarray(X)
    with pytest.raises(cm.BackendError, match="native and torch|torch and native"):
        add(cm.asarray(X), y)


def test_a_compiled_function_without_tensors_stays_on_its_framework(framework):
    out = cm.jit(lambda x: x * 2)(raw(framework, X))
    assert type(out) is type(raw(framework, X))


@pytest.mark.parametrize("jit", [False, True])
def test_a_torch_data_loader_feeds_a_trainer_on_any_backend(backend, jit):
    y = X.sum(axis=1, keepdims=True).astype("float32")
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(y)), batch_size=2)
    net = cm.nn.Linear(3, 1, key=cm.random.key(0))
    trainer = cm.Trainer(net, lambda net, batch: cm.mean((net(batch[0]) - batch[1]) ** 2), cm.optim.SGD(0.1), jit=jit)
    with cm.backend("native"):
        history = trainer.fit(loader, epochs=3)
        assert history[-1]["loss"] < history[0]["loss"]
        assert abs(trainer.evaluate(loader)["loss"] - trainer.evaluate([(X, y)])["loss"]) < 1e-5
    assert net.w.backend == backend
