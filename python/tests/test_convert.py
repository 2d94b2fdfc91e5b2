"""`cm.convert`: any model to any framework, compared on the way."""

import subprocess
import sys

import clematis as cm
import numpy as np
import pytest
import torch

TARGETS = ["torch", "keras", "haiku", "flax", "clematis", "native", "numpy", "jax", "tensorflow"]
X = np.linspace(-1, 1, 2 * 3 * 6 * 6, dtype="float32").reshape(2, 3, 6, 6)
ROWS = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)


def network():
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten()]
    return torch.nn.Sequential(*layers, torch.nn.Dropout(), torch.nn.Linear(64, 5))


@pytest.mark.parametrize("to", TARGETS)
def test_torch_to_each(to):
    made = cm.convert(network(), to, X)
    report = made.report
    assert report.ok and report.relative < 1e-5 and report.target == to
    assert [row.inputs for row in report.rows] == ["the example", "a random input", "another batch size"]
    assert "absolute" in str(report) and "float32[2, 5]" in str(report)


def test_linen():
    from flax import linen

    made = cm.convert(network(), "flax", X, style="linen")
    assert isinstance(made, linen.Module) and made.report.ok


def sources():
    import haiku as hk
    import keras
    from flax import linen, nnx

    yield hk.nets.MLP, {"constructor_args": ([4, 2],)}
    yield nnx.Linear(3, 2, rngs=nnx.Rngs(0)), {}
    yield linen.Dense(2), {}
    yield cm.nn.Linear(3, 2), {}
    yield keras.layers.Dense(2), {}
    yield torch.nn.Linear, {"constructor_args": (3, 2)}


@pytest.mark.parametrize("to", ["torch", "native"])
@pytest.mark.parametrize("number", range(6))
def test_each_to_torch_and_native(number, to):
    model, options = list(sources())[number]
    made = cm.convert(model, to, ROWS, **options)
    assert made.report.relative < 1e-5


def test_an_onnx_file(tmp_path):
    net = cm.nn.Linear(3, 2)
    cm.to_onnx(net, tmp_path / "net.onnx", ROWS)
    made = cm.convert(tmp_path / "net.onnx", "torch", ROWS)
    np.testing.assert_allclose(made(torch.tensor(ROWS)).detach().numpy(), net(cm.asarray(ROWS)).numpy(), rtol=1e-6)


def test_the_source_stays_as_it_was():
    net = network()
    net[1].eval()
    before = {name: x.clone() for name, x in net.state_dict().items()}
    modes = [m.training for m in net.modules()]
    cm.convert(net, "keras", X)
    assert modes == [m.training for m in net.modules()]
    assert all(torch.equal(x, before[name]) for name, x in net.state_dict().items())


def test_a_model_that_computes_something_else_is_refused(monkeypatch):
    from clematis._convert import run_model

    honest = run_model.of_torch

    def wrong(module):
        run = honest(module)
        return (lambda args, kwargs: run(args, kwargs) * 1.01) if isinstance(module, torch.nn.Sequential) else run

    monkeypatch.setattr(run_model, "of_torch", wrong)
    with pytest.raises(cm.ConvertError, match=r"computes something else(.|\n)*more than 1e-03"):
        cm.convert(network(), "torch", X)
    assert cm.convert(network(), "torch", X, tolerance=0.1).report.relative > 5e-3
    assert not hasattr(cm.convert(network(), "torch", X, verify=False), "report")


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: cm.convert(network(), "mxnet", X), cm.ArgumentError, "one of torch, keras.*got 'mxnet'"),
        (lambda: cm.convert(3, "torch", X), cm.ArgumentError, "ONNX file, got int"),
        (lambda: cm.convert(network(), "torch"), cm.ArgumentError, "example inputs are needed"),
        (lambda: cm.convert(network(), "torch", X[:, :2]), cm.ConvertError, "3 channels, but got 2"),
        (lambda: cm.convert(cm.nn.Linear(3, 2), "torch", ROWS, rng_seed=3), cm.ArgumentError, "rng_seed"),
    ],
)
def test_bad_input(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


class Chosen(torch.nn.Module):
    """Looks at a value, which no capture can follow."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())

    def forward(self, x):
        return self.inner(x) if x.sum() > 0 else self.inner(-x)


def test_what_cannot_be_captured_may_stay():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), Chosen(), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
    with pytest.raises(cm.ConvertError):
        cm.convert(net, "torch", ROWS)
    made = cm.convert(net, "torch", ROWS, allow_wrapped=True)
    assert made.wrapped == ["", "1"] and made.report.ok
    assert isinstance(made[1], Chosen) and not isinstance(made[1].inner, torch.nn.Sequential)
    assert sorted(made.state_dict()) == sorted(net.state_dict())
    # It trains, and the source does not move with it.
    before = {name: x.clone() for name, x in net.state_dict().items()}
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    x, losses = torch.tensor(ROWS), []
    for _ in range(4):
        optimizer.zero_grad()
        loss = (made(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert all(torch.equal(x, before[name]) for name, x in net.state_dict().items())
    with pytest.raises(cm.ArgumentError, match="allow_wrapped needs a torch module"):
        cm.convert(net, "keras", ROWS, allow_wrapped=True)


def test_source_of_a_model_of_torch():
    code = cm.source(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), "keras", ROWS)
    assert "layers.Dense(2" in code


def test_converters_are_loaded_when_they_are_used_and_look_like_functions():
    code = "import sys, clematis as cm; assert not [m for m in sys.modules if m.startswith('clematis._convert.any')]; "
    code += "import inspect, pickle; assert 'example_inputs' in inspect.signature(cm.convert).parameters; "
    code += "assert cm.convert.__doc__ and pickle.loads(pickle.dumps(cm.convert)) is cm.convert; print(cm.convert.__name__)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["convert"]
    with pytest.raises(AttributeError, match="no_such_name"):
        cm.no_such_name  # noqa: B018
