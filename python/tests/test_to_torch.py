"""Modules of ours as modules of torch."""

import copy
import io
import itertools
import pickle
import sys

import clematis as cm
import numpy as np
import pytest
import torch
from nets_to_convert import NETS, Image, Shared, Text, agree, cases, floats, leaves


def given(args, kwargs):
    return tuple(map(torch.tensor, args)), {k: torch.tensor(x) for k, x in kwargs.items()}


def host(x):
    return [y.detach().numpy() for y in leaves(x)]


@pytest.mark.parametrize("name", NETS)
def test_gives_what_the_module_gives(name):
    net, examples = cases(name)
    made = net.to_torch_module()
    for args, kwargs, want in examples:
        args, kwargs = given(args, kwargs)
        agree(host(made(*args, **kwargs)), want)
    # One program serves every batch.
    assert len(made._programs.known) == 1


@pytest.mark.parametrize("name", NETS)
def test_compiles(name):
    net, examples = cases(name)
    made = net.to_torch_module(examples[0][0], example_kwargs=examples[0][1])
    torch._dynamo.reset()
    # Branches and loops on values are torch's own matter.
    compiled = torch.compile(made, backend="eager", fullgraph=name != "control")
    for args, kwargs, want in examples:
        args, kwargs = given(args, kwargs)
        agree(host(compiled(*args, **kwargs)), want)


@pytest.mark.parametrize("name", [n for n in NETS if not NETS[n][2] and n != "control"])
def test_exports_for_every_batch(name):
    net, [(args, _, want), (more, _, more_want)] = cases(name)
    made = net.to_torch_module()
    auto = tuple({0: torch.export.Dim.AUTO} for _ in args)
    program = torch.export.export(made, given(more, {})[0], dynamic_shapes={"args": auto}).module()
    agree(host(program(*given(args, {})[0])), want)
    agree(host(program(*given(more, {})[0])), more_want)


def test_exports_keyword_arguments():
    net, [(args, kwargs, want), _] = cases("text")
    args, kwargs = given(args, kwargs)
    agree(host(torch.export.export(net.to_torch_module(), args, kwargs).module()(*args, **kwargs)), want)


def test_names_parameters_and_buffers():
    net = Image().eval()
    made = net.to_torch_module()
    names = [name for name, _ in made.named_parameters()]
    assert names == [path.replace("/", ".") for path in net.v.paths()]
    assert [name for name, _ in made.named_buffers()] == ["norm.running_mean", "norm.running_var"]
    assert sorted(made.state_dict()) == sorted([*names, "norm.running_mean", "norm.running_var"])
    assert all(p.requires_grad for p in made.parameters()) and not made.training
    net.freeze("first")
    frozen = net.to_torch_module()
    assert {n for n, p in frozen.named_parameters() if not p.requires_grad} == {"first.w", "first.b"}


def test_one_parameter_under_two_names_is_one():
    made = Shared().to_torch_module()
    assert [name for name, _ in made.named_parameters()] == ["layer.w", "layer.b"]


def test_shares_memory_where_it_can(backend):
    net = cm.nn.Linear(3, 2)
    before = [x.numpy().copy() for _, x in net.v._entries()]
    made = net.to_torch_module()
    assert all(np.array_equal(p.detach().numpy(), b) for p, b in zip(made.parameters(), before, strict=True))
    with torch.no_grad():
        made.w.fill_(7.0)
    shared = bool(np.all(net.v["w"].numpy() == 7.0))
    assert shared or backend != "torch"
    assert shared == (backend in ("native", "numpy", "torch"))
    assert shared or np.array_equal(net.v["w"].numpy(), before[0])


def test_trains_with_its_own_optimiser(backend):
    net = Image().train()
    made = net.to_torch_module()
    assert made.training
    torch.manual_seed(0)
    x, y = torch.randn(8, 8, 8, 3), torch.randn(8, 4)
    optimizer, losses = torch.optim.SGD(made.parameters(), 1e-3), []
    made.eval()
    for _ in range(10):
        loss = torch.nn.functional.mse_loss(made(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(b < a for a, b in itertools.pairwise(losses)), losses
    assert all(p.grad is not None and bool((p.grad != 0).any()) for p in made.parameters())


def test_training_and_evaluation_follow_the_mode():
    net = Image().eval()
    made = net.to_torch_module()
    x = torch.randn(6, 8, 8, 3)
    still, mean = made(x), made.norm.running_mean.clone()
    assert torch.equal(made(x), still) and torch.equal(made.norm.running_mean, mean)
    made.train()
    torch.manual_seed(3)
    one = made(x)
    moved = made.norm.running_mean.clone()
    assert not torch.equal(moved, mean)
    two = made(x)
    assert not torch.equal(one, two)
    torch.manual_seed(3)
    assert torch.equal(made(x), one)


def test_running_statistics_move_as_ours():
    net = cm.nn.Sequential(cm.nn.Linear(5, 3), cm.nn.BatchNorm(3))
    x = floats(7, 5)
    made = copy.deepcopy(net).to_torch_module().train()
    y = made(torch.tensor(x))
    np.testing.assert_allclose(y.detach().numpy(), net.train()(cm.asarray(x)).numpy(), rtol=1e-5, atol=1e-6)
    buffers = dict(made.named_buffers())
    for path, value in net.buffers()._entries():
        np.testing.assert_allclose(buffers[path.replace("/", ".")].numpy(), value.numpy(), rtol=1e-5, atol=1e-6)


def test_copies_and_pickles():
    net = Image().eval()
    made = net.to_torch_module()
    x = torch.randn(2, 8, 8, 3)
    want = made(x)
    twin = copy.deepcopy(made)
    assert torch.equal(twin(x), want) and twin.out.w is not made.out.w
    with torch.no_grad():
        twin.out.w.zero_()
    assert torch.equal(made(x), want) and not torch.equal(twin(x), want)
    assert torch.equal(pickle.loads(pickle.dumps(made))(x), want)
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    back = torch.load(file, weights_only=False)
    assert torch.equal(back(x), want)
    with pytest.raises(cm.ConvertError, match="example_inputs"):
        back(torch.randn(2, 9, 9, 3))
    assert made(torch.randn(2, 9, 9, 3)).shape == (2, 4)


def test_stands_in_other_modules_and_has_hooks():
    net = cm.nn.Linear(4, 3)
    made = net.to_torch_module()
    whole = torch.nn.Sequential(made, torch.nn.ReLU(), torch.nn.Linear(3, 2))
    assert list(whole.state_dict()) == ["0.w", "0.b", "2.weight", "2.bias"]
    seen = []
    made.register_forward_hook(lambda module, args, out: seen.append(out.shape))
    whole(torch.ones(5, 4)).sum().backward()
    assert seen == [(5, 3)] and made.w.grad is not None
    assert whole.to(torch.float64)(torch.ones(5, 4, dtype=torch.float64)).dtype == torch.float64
    values = {name: torch.zeros_like(p) for name, p in made.named_parameters()}
    out = torch.func.functional_call(made, values, (torch.ones(2, 4, dtype=torch.float64),))
    assert not out.any()


def test_a_nested_capture_goes_out_with_the_rest():
    native = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Dropout(0.5), torch.nn.ReLU())

    class Outer(cm.Module):
        def __init__(self):
            self.inner = cm.Module.from_torch_module(native, cm.ones((2, 4)))
            self.last = cm.nn.Linear(6, 2)

        def __call__(self, x):
            return self.last(self.inner(x))

    net = Outer().eval()
    made = net.to_torch_module()
    x = floats(3, 4)
    np.testing.assert_allclose(made(torch.tensor(x)).detach().numpy(), net(cm.asarray(x)).numpy(), rtol=1e-5, atol=1e-6)
    made.train()
    assert made(torch.tensor(x)).shape == (3, 2)


def test_a_captured_model_goes_back():
    native = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(64, 5)
    )
    net = cm.Module.from_torch_module(native, torch.randn(2, 3, 6, 6))
    made = net.to_torch_module()
    assert [n for n, _ in made.named_parameters()] == [n for n, _ in native.named_parameters()]
    x = torch.randn(5, 3, 6, 6)
    for mode in (False, True):
        made.train(mode)
        native.train(mode)
        torch.testing.assert_close(made(x), native(x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(dict(made.named_buffers())["1.running_var"], native[1].running_var, rtol=1e-5, atol=1e-5)


def test_the_module_stays_as_it_was():
    net = Text()
    before = {path: x.numpy().copy() for path, x in net._whole()._entries()}
    net.norm.eval()
    modes = [m.training for m in net.modules()]
    cm.seed(5)
    state = cm.random.get_state().numpy()
    net.to_torch_module(cm.asarray(NETS["text"][1][0]))
    assert [m.training for m in net.modules()] == modes
    assert np.array_equal(cm.random.get_state().numpy(), state)
    assert all(np.array_equal(x.numpy(), before[path]) for path, x in net._whole()._entries())


def test_says_what_is_wrong(monkeypatch):
    with pytest.raises(cm.ArgumentError, match="expected a Clematis module"):
        cm.Module.to_torch_module(torch.nn.Linear(2, 2))

    class Late(cm.Module):
        def __init__(self):
            cm.Module.__init__(self, build_mode="on_call")

        def _create_variables(self, device=None, dtype=None):
            return {"w": cm.ones((3,))}

        def _forward(self, x):
            return x * self.v["w"]

    with pytest.raises(cm.StructureError, match="example_inputs"):
        Late().to_torch_module()
    assert Late().to_torch_module(cm.ones((2, 3)))(torch.ones(4, 3)).shape == (4, 3)

    class Reads(cm.Module):
        def __init__(self):
            self.w = cm.ones((2,))

        def __call__(self, x):
            return x * self.w if float(cm.sum(x)) > 0 else x

    with pytest.raises(cm.TraceError):
        Reads().to_torch_module()(torch.ones(2))
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(cm.BackendError, match="torch is not installed"):
        cm.nn.Linear(2, 2).to_torch_module()
