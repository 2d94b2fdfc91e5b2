"""Torch modules as modules of ours, on five backends."""

import collections
import copy
import pickle
import subprocess
import sys
import warnings

import clematis as cm
import numpy as np
import pytest
import torch
from clematis._convert.from_torch import from_torch, from_torch_module
from clematis.errors import ArgumentError, ClematisError, ConvertError
from torch import nn
from torch.nn import functional as F

BACKENDS = ["native", "numpy", "torch", "jax", "tensorflow"]


class Fn(nn.Module):
    """A function with layers and parameters."""

    def __init__(self, f, **parts):
        super().__init__()
        self.f = f
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args, **kwargs):
        return self.f(self, *args, **kwargs)


def floats(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def leaves(x):
    if isinstance(x, dict):
        return [leaf for part in x.values() for leaf in leaves(part)]
    if isinstance(x, (list, tuple)):
        return [leaf for part in x for leaf in leaves(part)]
    return [x]


def host(x):
    return x.detach().numpy() if isinstance(x, torch.Tensor) else x.numpy()


def agree(got, want, tolerance=2e-5):
    got, want = leaves(got), leaves(want)
    assert len(got) == len(want)
    for x, y in zip(got, want, strict=True):
        x, y = host(x), host(y)
        assert x.shape == y.shape and x.dtype == y.dtype
        scale = max(1.0, float(np.abs(y).max())) if y.size else 1.0
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * scale)


def on(backend, x):
    """The same arguments as tensors of ours."""
    if isinstance(x, dict):
        return {k: on(backend, v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(on(backend, v) for v in x)
    return cm.asarray(x.numpy()).to(backend) if isinstance(x, torch.Tensor) else x


def converted(module, *args, **kwargs):
    return from_torch_module(module.eval(), args, instance_kwargs=kwargs)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        y = F.relu(self.norm(self.conv(x)))
        return self.head(F.adaptive_avg_pool2d(F.max_pool2d(y, 2), 1).flatten(1))


CASES = {
    "convolution": (Residual, [floats(2, 3, 8, 8)]),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), [floats(2, 5, 8)]),
    "recurrent": (lambda: Fn(lambda s, x: s.a(x)[0] + s.b(x)[0], a=nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True),
                             b=nn.GRU(4, 6, batch_first=True)), [floats(2, 3, 4)]),
    "projected": (lambda: Fn(lambda s, x: s.a(x)[1], a=nn.LSTM(4, 6, proj_size=3, batch_first=True)), [floats(2, 5, 4)]),
    "table": (lambda: Fn(lambda s, i: (s.e(i), s.b(i)), e=nn.Embedding(9, 4, padding_idx=0), b=nn.EmbeddingBag(9, 4)),
              [torch.arange(8).reshape(2, 4)]),
    "indices": (lambda: Fn(lambda s, x: (x[:, [2, 0]], x.gather(1, (x > 0).long()), x.index_add(1, torch.tensor([0, 2]), x[:, :2]),
                                         x.scatter_reduce(1, torch.zeros_like(x).long(), x, "amax"), x.sort(1)[0], x.cumsum(1))),
                [floats(2, 3)]),
    "images": (lambda: Fn(lambda s, x: (F.interpolate(x, scale_factor=1.7, mode="bilinear"), F.pixel_shuffle(x, 2),
                                        F.interpolate(x, size=(3, 5), mode="bicubic", antialias=True),
                                        F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1), align_corners=False),
                                        F.unfold(x, 2), F.adaptive_max_pool2d(x, (3, 2)))), [floats(2, 4, 6, 6)]),
    "spectra": (lambda: Fn(lambda s, x: (torch.fft.rfft(x).abs(), torch.stft(x, 8, 4, return_complex=True).real)),
                [floats(2, 32)]),
    "branches": (lambda: Fn(lambda s, x: torch.cond(x.sum() > 0, lambda x: s.a(x), lambda x: -x, (x,)), a=nn.Linear(3, 3)),
                 [floats(2, 3)]),
}  # fmt: skip


@pytest.fixture(scope="module")
def captured():
    """Each case, captured once."""
    made = {}

    def find(name):
        if name not in made:
            make, args = CASES[name]
            torch.manual_seed(1)
            module = make().eval()
            made[name] = module, converted(module, *args), args
        return made[name]

    return find


def rebatched(x, size):
    return torch.cat([x] * size)[:size].roll(1, 0) if x.dim() else x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_same_values_at_other_batch_sizes(captured, name, backend):
    module, net, args = captured(name)
    net = net.to(backend).eval()
    # Each new shape is compiled anew on the frameworks.
    for size in (2, 3, 1) if backend == "native" else (3,):
        inputs = [rebatched(x, size) for x in args]
        with torch.no_grad(), cm.backend(backend):
            agree(net(*on(backend, inputs)), module(*inputs))


GRADIENTS = [(name, backend) for name in ("convolution", "attention", "recurrent", "table")
             for backend in ("native", "torch", "jax") if backend != "jax" or name == "convolution"]  # fmt: skip


@pytest.mark.parametrize(("name", "backend"), GRADIENTS)
def test_same_gradients(captured, name, backend):
    module, net, args = captured(name)
    net = net.to(backend).eval()
    outs = [x for x in leaves(module(*args)) if x.requires_grad]
    want = torch.autograd.grad(sum((x * x).sum() for x in outs), list(module.parameters()))
    with cm.backend(backend):
        loss = lambda v: sum(cm.sum(x * x) for x in leaves(net(*on(backend, args), v=v)))
        got = cm.grad(loss)(net.parameters())
    by_path = {path.replace("/", "."): x for path, x in got._entries()}
    assert set(by_path) == {name for name, _ in module.named_parameters()}
    for (path, _), grad in zip(module.named_parameters(), want, strict=True):
        agree(by_path[path], grad, 1e-4)


def test_training_moves_state_and_drops():
    module = Fn(lambda s, x: s.norm(x), norm=nn.BatchNorm1d(3))
    net = from_torch_module(module, floats(4, 3))
    assert net.training
    x = floats(5, 3, seed=2) * 2 + 1
    own = copy.deepcopy(module)
    agree(net(on("native", x)), own(x))
    state = {path: value for path, value in net.buffers()._entries()}
    agree(state["norm/running_mean"], own.norm.running_mean)
    agree(state["norm/running_var"], own.norm.running_var)
    assert int(state["norm/num_batches_tracked"]) == 1
    agree(net.eval()(on("native", x)), own.eval()(x))

    net = from_torch_module(nn.Dropout(0.25), floats(2, 200))
    ones = cm.ones((200, 200))
    first, second = net(ones).numpy(), net(ones).numpy()
    assert abs((first == 0).mean() - 0.25) < 0.02 and np.allclose(first[first != 0], 1 / 0.75)
    assert (first != second).any()
    assert (net.eval()(ones).numpy() == 1).all()


def test_shared_weights_stay_shared():
    module = Fn(lambda s, i: s.out(s.table(i)), table=nn.Embedding(7, 4), out=nn.Linear(4, 7, bias=False))
    module.out.weight = module.table.weight
    net = converted(module, torch.tensor([[1, 2]]))
    assert [path for path, _ in net.parameters()._entries()] == ["table/weight"]
    grads = cm.grad(lambda v: cm.sum(net(cm.asarray([[1, 2]]), v=v)))(net.parameters())
    module(torch.tensor([[1, 2]])).sum().backward()
    agree(grads["table/weight"], module.table.weight.grad)


def test_unused_and_frozen_parameters():
    module = Fn(lambda s, x: s.a(x), a=nn.Linear(2, 2), b=nn.Linear(2, 2))
    module.a.bias.requires_grad_(False)
    net = converted(module, floats(2, 2))
    assert "b/weight" in net.v and "a/bias" in net.v
    assert "a/bias" not in net.parameters() or cm.grad(lambda v: cm.sum(net(cm.ones((2, 2)), v=v)))(net.parameters())
    agree(net(on("native", floats(3, 2))), module(floats(3, 2)))


Pair = collections.namedtuple("Pair", "left right")


class Nested(nn.Module):
    def forward(self, x, pair, scale=1.0, flag=True, *, more=None):
        out = {"sum": x + pair[0] * scale, "both": Pair(pair[1]["y"] * 2, None)}
        return (out, [x, 3, "word"]) if flag else x


def test_nested_arguments_and_results():
    x, pair = floats(2, 3), (floats(3), {"y": floats(2, 2)})
    net = converted(Nested(), x, pair, 2.0, more=floats(2, 1))
    got = net(*on("native", (x, pair)), 2.0, more=on("native", floats(2, 1)))
    want = Nested()(x, pair, 2.0)
    agree(got[0]["sum"], want[0]["sum"])
    assert isinstance(got[0]["both"], Pair) and got[0]["both"].right is None and got[1][1:] == [3, "word"]
    # By name or by position, in any order.
    again = net(scale=2.0, more=on("native", floats(2, 1)), pair=on("native", pair), x=on("native", x))
    agree(again[0]["sum"], want[0]["sum"])
    with pytest.raises(ArgumentError, match=r"scale is 3\.0.*captured with 2\.0"):
        net(*on("native", (x, pair)), 3.0, more=on("native", floats(2, 1)))
    with pytest.raises(ArgumentError, match="'more' is missing"):
        net(*on("native", (x, pair)), 2.0)
    with pytest.raises(ArgumentError, match="tuple of 2"):
        net(on("native", x), on("native", pair[0]), 2.0, more=on("native", floats(2, 1)))


@pytest.mark.parametrize("kind", ["numpy", "ours", "torch"])
def test_examples_and_arguments_of_any_kind(kind):
    make = {"numpy": lambda x: x.numpy(), "ours": lambda x: cm.asarray(x.numpy()), "torch": lambda x: x}[kind]
    module = nn.Linear(3, 2)
    net = from_torch_module(module, make(floats(1, 3)))
    x = floats(4, 3)
    agree(cm.asarray(net(make(x))).to("numpy"), module(x))


def test_a_class_an_instance_and_a_function():
    net = from_torch_module(
        nn.Linear, instance_args=[cm.ones((2, 3))], constructor_kwargs={"in_features": 3, "out_features": 2}
    )
    assert net(cm.ones((4, 3))).shape == (4, 2)
    # Without examples it is captured when it is first called.
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    net = from_torch_module(module)
    assert sorted(path for path, _ in net.v._entries()) == ["0/bias", "0/weight"]
    agree(net(on("native", floats(2, 3))), module(floats(2, 3)))
    assert net(cm.ones((5, 3))).shape == (5, 4)
    double = from_torch(lambda x, times=2: torch.sin(x) * times, floats(2, 3), times=3)
    agree(double(on("native", floats(4, 3)), times=3), torch.sin(floats(4, 3)) * 3)


def test_the_source_is_left_alone():
    module = Fn(lambda s, x: s.drop(s.norm(x)), norm=nn.BatchNorm1d(3), drop=nn.Dropout(0.5))
    module.norm.eval()
    seen = []
    module.norm.register_forward_hook(lambda *a: seen.append(1))
    before = copy.deepcopy(module.state_dict())
    modes = {name: m.training for name, m in module.named_modules()}
    rng = torch.get_rng_state()
    net = from_torch_module(module, floats(4, 3))
    net(cm.ones((4, 3)))
    assert modes == {name: m.training for name, m in module.named_modules()}
    assert len(module.norm._forward_hooks) == 1 and torch.equal(rng, torch.get_rng_state())
    for name, x in module.state_dict().items():
        assert torch.equal(x, before[name])
    # No memory is shared, on torch itself neither.
    with cm.backend("torch"):
        own = from_torch_module(module, floats(4, 3))
    module.norm.weight.data.add_(1)
    assert float(own.v["norm/weight"][0]) == 1


class Branch(nn.Module):
    def forward(self, x):
        total = x.sum()
        return x + 1 if total > 0 else x - 1


def test_what_depends_on_values():
    module = Branch()
    with pytest.raises(
        ConvertError, match=r"test_from_torch\.py:\d+: `return x \+ 1 if total > 0 .*torch\.where or torch\.cond"
    ):
        from_torch_module(module, torch.ones(2, 3))
    # After an error the source is as it was, too.
    assert module.training and not module._forward_hooks
    with pytest.warns(UserWarning, match="specialised on your example"):
        net = from_torch_module(module, torch.ones(2, 3), specialise=True)
    agree(net(cm.ones((5, 3))), torch.ones(5, 3) + 1)
    with pytest.raises(ClematisError, match="depends on values"):
        converted(Fn(lambda s, x: x[x > 0]), floats(2, 3))


def test_values_that_do_not_come_of_inputs_may_be_asked_for():
    net = converted(Fn(lambda s, x: x * s.scale.item(), scale=nn.Parameter(torch.tensor(2.0))), floats(2, 3))
    agree(net(on("native", floats(4, 3))), floats(4, 3) * 2)


class Surgery(nn.Module):
    """Writes through views of what others read."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        y = x.clone()
        half, row = y[:, :2], y.view(-1, 3)[0]
        half.mul_(2)
        row.add_(1)
        y[:, 2] = half.sum(1)
        self.seen[1:].add_(y.detach().sum(0)[1:])
        z = x * 1
        same = z.view_as(z)
        z.relu_()
        return y, half, same + 1


def test_writing_through_views():
    module = Surgery().eval()
    net = converted(module, floats(2, 3))
    x = floats(4, 3, seed=3)
    own = copy.deepcopy(module)
    agree(net(on("native", x)), own(x.clone()))
    agree(net.buffers()["seen"], own.seen)


def test_writing_over_values():
    def f(s, x):
        y = F.relu_(s.a(x))
        y += x
        z = y.clone()
        y.mul_(2).clamp_(max=3)
        return y, z, F.hardtanh(z, inplace=True)

    module = Fn(f, a=nn.Linear(3, 3)).eval()
    net = converted(module, floats(2, 3))
    agree(net(on("native", floats(5, 3))), module(floats(5, 3)))


def test_loops_states_and_complex_numbers():
    from torch._higher_order_ops.while_loop import while_loop

    def loop(s, x):
        return while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * 1.5 + i), (torch.tensor(0), x))[1]

    agree(converted(Fn(loop), floats(2, 3))(on("native", floats(2, 3))), Fn(loop)(floats(2, 3)))

    states = Fn(lambda s, x, h, c: s.cell(x, (h, c)), cell=nn.LSTM(3, 4, batch_first=True)).eval()
    given = [floats(2, 5, 3), floats(1, 2, 4), floats(1, 2, 4, seed=1)]
    with torch.no_grad():
        agree(converted(states, *given)(*on("native", given)), states(*given))

    def rotated(s, x):
        z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * torch.polar(torch.ones(2), torch.arange(2.0))).flatten(-2)

    agree(converted(Fn(rotated), floats(2, 4))(on("native", floats(5, 4))), Fn(rotated)(floats(5, 4)))


def test_element_types_that_we_do_not_have():
    with pytest.raises(ClematisError, match="float8_e4m3fn"):
        converted(Fn(lambda s, x: x.to(torch.float8_e4m3fn).float()), floats(2, 3))


def test_refusals():
    with pytest.raises(ArgumentError, match="expected a torch.nn.Module"):
        from_torch_module(3, floats(2))
    with pytest.raises(ArgumentError, match="got both"):
        from_torch_module(nn.Linear(2, 2), floats(2, 2), instance_args=[floats(2, 2)])
    with pytest.raises(ConvertError, match="do not fit its forward"):
        from_torch_module(nn.Linear(2, 2), (floats(2, 2), floats(2, 2)))
    module = nn.Linear(2, 2)
    with pytest.raises(ConvertError, match="cannot capture it"):
        from_torch_module(module, floats(2, 3))
    assert module.training and not list(module.children())
    net = converted(nn.Linear(2, 2), floats(2, 2))
    with pytest.raises(ClematisError, match="f32"):
        net(cm.ones((2, 3)))
    with pytest.raises(ArgumentError, match="captured without"):
        net(cm.ones((2, 2)), other=1)


def test_an_unknown_op_names_itself():
    @torch.library.custom_op("clematis_test::strange", mutates_args=())
    def strange(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.sort(x.numpy()))

    strange.register_fake(torch.empty_like)
    with pytest.raises(ClematisError, match="clematis_test.strange|strange"):
        converted(Fn(lambda s, x: strange(x) + strange(x)), floats(2, 3))


def test_an_op_with_a_body_is_decomposed():
    @torch.library.custom_op("clematis_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    net = converted(Fn(lambda s, x: twice(x) + 1), floats(2, 3))
    agree(net(cm.ones((4, 3))), torch.full((4, 3), 3.0))


def test_the_result_is_an_ordinary_module(tmp_path):
    module = Residual().eval()
    net = converted(module, floats(1, 3, 8, 8))
    x = floats(3, 3, 8, 8)
    agree(net(on("native", x)), module(x))
    again = pickle.loads(pickle.dumps(net))
    agree(again(on("native", x)), module(x))
    losses = []
    v = net.train().parameters()
    for _ in range(5):
        loss, grads = cm.value_and_grad(lambda v: cm.mean(cm.square(net(on("native", x), v=v))))(v)
        v = cm.tree.map(lambda w, g: w - 0.05 * g, v, grads)
        losses.append(float(loss))
    assert losses == sorted(losses, reverse=True) and losses[0] > losses[-1]


def test_no_warning_and_no_framework_on_import():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_torch_module(nn.Linear(2, 2), floats(1, 2))
    code = "import sys, clematis; assert not {'torch', 'jax', 'tensorflow', 'keras'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
