"""Torch modules as modules of ours: what has no gradient there, boxes, names of sizes, ops that are read whole."""

import clematis as cm
import numpy as np
import pytest
import torch
from clematis.errors import ArgumentError, UnsupportedError
from torch import nn
from torchvision.ops import nms, roi_align, roi_pool

BACKENDS = ["native", "numpy", "torch", "jax", "tensorflow"]
DIFFERENTIABLE = ["native", "torch", "jax", "tensorflow"]


class Stopped(nn.Module):
    """Two layers, of which the second is used without gradients."""

    def __init__(self, how, capture="exported"):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.how, self.capture = how, capture

    def forward(self, x):
        y = self.a(x)
        if self.capture == "decomposed":
            y = y.clone()
            y[:, 0] = y[:, 1] * 2
        if self.capture == "run" and float(x.sum()) < -1e9:
            y = y * 2
        return y * getattr(self, self.how)(x)

    def detach(self, x):
        return self.b(x).detach()

    def data(self, x):
        return self.b(x).data

    def region(self, x):
        with torch.no_grad():
            return self.b(x) * 2

    def through(self, x):
        y = self.a(x)
        with torch.no_grad():
            z = self.b(x) * y
            t = y
        return t + z

    def region_in_region(self, x):
        with torch.no_grad():
            t = self.b(x)
            with torch.enable_grad():
                return self.a(t) + t


def gradients_of(net, x, backend="native"):
    """Ours and torch's, by path."""
    ours = cm.from_torch_module(net, x, specialise=True).eval().to(backend)
    with cm.backend(backend):
        given = cm.asarray(x.numpy()).to(backend)
        grads = cm.grad(lambda v: cm.sum(ours(given, v=v)))(ours.parameters())
    net(x).sum().backward()
    got = {path.replace("/", "."): g.numpy() for path, g in grads._entries()}
    want = {k: np.zeros(p.shape) if p.grad is None else p.grad.numpy() for k, p in net.named_parameters()}
    return got, want


@pytest.mark.filterwarnings("ignore:.*specialised on your example")
@pytest.mark.parametrize("capture", ["exported", "decomposed", "run"])
@pytest.mark.parametrize("how", ["detach", "data", "region", "region_in_region", "through"])
def test_what_torch_computes_without_gradients_has_none(how, capture):
    torch.manual_seed(0)
    got, want = gradients_of(Stopped(how, capture).eval(), torch.rand(2, 3))
    for path, g in want.items():
        np.testing.assert_allclose(got[path], g, rtol=1e-5, atol=1e-5, err_msg=path)
    if not how.startswith("region_in"):
        assert not got["b.weight"].any()


@pytest.mark.parametrize("backend", DIFFERENTIABLE)
def test_regions_without_gradients_on_backends(backend):
    torch.manual_seed(0)
    got, want = gradients_of(Stopped("region").eval(), torch.rand(2, 3), backend)
    for path, g in want.items():
        np.testing.assert_allclose(got[path], g, rtol=1e-5, atol=1e-5, err_msg=path)


def test_the_live_module_stops_gradients_as_well():
    torch.manual_seed(0)
    net, x = Stopped("region").eval(), torch.rand(2, 3)
    made = cm.to_torch_module(cm.from_torch_module(net, x), x.numpy())
    made.eval()(x).sum().backward()
    assert made.b.weight.grad is None or not made.b.weight.grad.any()
    assert made.a.weight.grad.any()


class Written(nn.Module):
    """Weights that are updated in place in each call."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)

    def forward(self, x):
        with torch.no_grad():
            self.a.weight.div_(4)
        return self.a(x) ** 2


def test_weights_updated_in_place_keep_their_gradients():
    torch.manual_seed(0)
    net, x = Written(), torch.rand(2, 3)
    before = net.a.weight.detach().clone()
    got, want = gradients_of(net, x)
    # Only torch's own call has written.
    np.testing.assert_array_equal(net.a.weight.detach().numpy(), (before / 4).numpy())
    for path, g in want.items():
        np.testing.assert_allclose(got[path], g, rtol=1e-5, atol=1e-6, err_msg=path)


class Boxes(nn.Module):
    def __init__(self, points, aligned, size=(3, 2), scale=0.5):
        super().__init__()
        self.w = nn.Parameter(torch.ones(1, 2, 1, 1))
        self.options = {"output_size": size, "spatial_scale": scale, "sampling_ratio": points, "aligned": aligned}

    def forward(self, x, boxes):
        return roi_align(x * self.w, boxes, **self.options)


# Inside, over the edges, outside, wider than the image, of no size, reversed.
BOXES = [[0, 1, 2, 9, 11], [1, -6, -3, 5, 4], [1, 40, 40, 50, 60], [0, -100, -50, 200, 300], [1, 3, 3, 3, 3],
         [0, 9, 9, 2, 1], [1, 0, 0, 19.5, 15.7]]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("points", [2, -1])
def test_means_over_boxes(points, aligned, backend):
    torch.manual_seed(0)
    net = Boxes(points, aligned)
    x, boxes = torch.randn(2, 2, 8, 10), torch.tensor(BOXES)
    ours = cm.from_torch_module(net, (x, boxes)).eval().to(backend)
    for count in (7, 4):
        got = ours(cm.asarray(x.numpy()).to(backend), cm.asarray(boxes[:count].numpy()).to(backend))
        np.testing.assert_allclose(got.numpy(), net(x, boxes[:count]).detach().numpy(), rtol=0, atol=2e-5)


def test_gradients_of_means_over_boxes():
    torch.manual_seed(0)
    net, x, boxes = Boxes(-1, True), torch.randn(2, 2, 8, 10), torch.tensor(BOXES)
    ours = cm.from_torch_module(net, (x, boxes)).eval()
    probe = torch.randn(7, 2, 3, 2)
    weight = cm.asarray(probe.numpy()).to("native")
    grads = cm.grad(lambda v: cm.sum(ours(x.numpy(), boxes.numpy(), v=v) * weight))(ours.parameters())
    (net(x, boxes) * probe).sum().backward()
    np.testing.assert_allclose(grads["w"].numpy(), net.w.grad.numpy(), rtol=1e-4, atol=1e-4)


def test_how_many_boxes_are_kept_depends_on_values():
    class Kept(nn.Module):
        def forward(self, boxes, scores):
            return boxes[nms(boxes, scores, 0.5)]

    with pytest.raises(
        UnsupportedError, match="(?s)the number of boxes that `nms` keeps depends on their values.*torchvision.nms"
    ):
        cm.from_torch_module(Kept(), (torch.rand(4, 4), torch.rand(4)))


def test_an_op_of_another_family_bears_its_own_name():
    class Pooled(nn.Module):
        def forward(self, x, boxes):
            return roi_pool(x, boxes, 2)

    with pytest.raises(UnsupportedError, match=r" torchvision\.roi_pool \(1 times"):
        cm.from_torch_module(Pooled(), (torch.rand(2, 2, 8, 8), torch.tensor(BOXES)))


def test_sizes_have_readable_names(tmp_path):
    class Two(nn.Module):
        def forward(self, x, y, z):
            return x + y, z * 2, x.reshape(-1)

    example = torch.ones(2, 3), torch.ones(2, 3), torch.ones(4, 3)
    net = cm.from_torch_module(Two(), example)
    shapes = [shape[0] for _, role, _, shape in net._programs[0].graph.inputs() if role == "input"]
    assert shapes == ["batch", "batch", "batch_2"]

    import onnx

    cm.to_onnx(net, tmp_path / "net.onnx", tuple(x.numpy() for x in example))
    graph = onnx.load(tmp_path / "net.onnx").graph
    names = [x.type.tensor_type.shape.dim[0].dim_param for x in graph.input]
    assert names == ["batch", "batch", "batch_2"]


def test_no_part_of_ours_stays_of_torch():
    with pytest.raises(ArgumentError, match=r'cm\.convert\(net, to="torch", allow_wrapped=True\)'):
        cm.from_torch_module(nn.Linear(2, 2), torch.ones(2, 2), allow_wrapped=True)


WHOLE = {
    "differences": lambda x: torch.diff(x),
    "differences of differences": lambda x: torch.diff(x, n=2, dim=1, prepend=x[:, :1]),
    "differences of truths": lambda x: torch.diff(x > 0, dim=-1),
    "differences until nothing is left": lambda x: torch.diff(x, n=9, dim=1),
    "repeated": lambda x: torch.repeat_interleave(x, 3, dim=1),
    "repeated flat": lambda x: torch.repeat_interleave(x[0], 2),
    "rrelu as leaky_relu of the mean bound": lambda x: nn.functional.rrelu(x),
    "multiples": lambda x: torch.lcm((x * 5).to(torch.int64), (x[0] * 3).to(torch.int64)),
    "instance norm": lambda x: nn.functional.instance_norm(x),
    "instance norm with scale": lambda x: nn.functional.instance_norm(x, weight=x[0, :, 0], bias=x[0, :, 1]),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WHOLE)
def test_ops_that_are_read_whole(name, backend):
    x = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0))
    ours = cm.from_torch(WHOLE[name], x).to(backend)
    want = WHOLE[name](x).numpy()
    got = ours(cm.asarray(x.numpy()).to(backend)).numpy()
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-5)


def test_rrelu_draws_in_training():
    x = -np.ones((64, 8), "float32")
    net = cm.from_torch_module(nn.RReLU(0.25, 0.5), torch.ones(2, 8)).train()
    y = -np.asarray(net(x))
    assert 0.25 <= y.min() < 0.3 and 0.45 < y.max() <= 0.5


def test_weights_of_a_given_length():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 4, 3), dim=2),
        nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 2, 3)),
    )
    got, want = gradients_of(net, torch.randn(2, 3, 9))
    for path, g in want.items():
        np.testing.assert_allclose(got[path], g, rtol=1e-4, atol=1e-4, err_msg=path)


def test_instance_norm_moves_its_statistics():
    torch.manual_seed(0)
    net, x = nn.InstanceNorm1d(3, track_running_stats=True, affine=True), torch.randn(4, 3, 6)
    ours = cm.from_torch_module(net, x).train()
    np.testing.assert_allclose(ours(x.numpy()), net(x).detach().numpy(), rtol=0, atol=2e-5)
    buffers = {path: t.numpy() for path, t in ours.buffers()._entries()}
    np.testing.assert_allclose(buffers["running_mean"], net.running_mean.numpy(), rtol=0, atol=1e-5)
    np.testing.assert_allclose(ours.eval()(x.numpy()), net.eval()(x).detach().numpy(), rtol=0, atol=2e-5)


def test_arguments_that_are_called_as_functions_of_python():
    class Named(nn.Module):
        def forward(self, input, min):
            y = input * 2
            y += min
            return y

    net = cm.from_torch_module(Named(), (torch.ones(2, 3), torch.ones(2, 3)))
    np.testing.assert_array_equal(net(np.ones((4, 3), "float32"), np.ones((4, 3), "float32")), np.full((4, 3), 3.0))


def test_draws_in_place_need_no_second_trace():
    class Dropped(nn.Module):
        def forward(self, x):
            return x * x.new_empty(x.shape[0], 1).bernoulli_(0.5)

    net = cm.from_torch_module(Dropped(), torch.ones(2, 3))
    seen = np.unique(np.asarray(net(np.ones((64, 3), "float32"))))
    assert set(seen) == {0.0, 1.0}


def test_variables_may_be_arrays_of_a_framework():
    import jax

    net = cm.from_torch_module(nn.Linear(3, 2), torch.ones(2, 3)).to("jax")
    v = net.v.map(lambda x, path: x.native)
    out = jax.jit(lambda v, x: net(x, v=net.v.map(lambda _, path: v[path])))(
        {k: x for k, x in v._entries()}, np.ones((4, 3), "float32")
    )
    np.testing.assert_allclose(out, net(cm.ones((4, 3)).to("jax")).numpy(), rtol=1e-6)


def _one_place(a, x):
    y = a(x)
    y[:, 0] = y[:, 1] * 2
    return y


def _several_places(a, x):
    y = a(x)
    y[:, :2] += x[:, 2:]
    y[:, 1:3] *= 2
    y[:, 3] = 0
    return y, y.sum(1)


def _read_before_and_after(a, x):
    y = torch.zeros(x.shape[0], 4)
    y[:, 0] = x[:, 1]
    z = y * 2
    y[:, 2:] = a(x)[:, :2]
    return y, z, y[:, 2]


def _part_of_a_part(a, x):
    y = a(x)[None].clone()
    y[0, :, 1:3].mul_(3)
    y[0, :, 1:3][:, 0].add_(x[:, 0])
    return y


def _part_is_read_later(a, x):
    y = a(x)
    v = y[:, :2]
    v.add_(1)
    return y, v


def _other_part_is_read_later(a, x):
    y = a(x)
    v, w = y[:, :2], y[:, 1:]
    v.add_(1)
    return y, w


def _part_between_is_read_later(a, x):
    y = a(x)
    t = y[:, 1:]
    t[:, 0] = 5
    return y, t


def _table(a, x):
    m = torch.zeros(4, 4)
    for i, rows in enumerate((slice(0, 2), slice(2, 4))):
        for j, columns in enumerate((slice(0, 1), slice(1, 4))):
            m[rows, columns] = i * 2 + j
    return a(x) @ m


WRITES = [
    _one_place, _several_places, _read_before_and_after, _part_of_a_part, _part_is_read_later, _other_part_is_read_later,
    _part_between_is_read_later, _table,
]  # fmt: skip


@pytest.mark.parametrize("f", WRITES, ids=lambda f: f.__name__[1:])
def test_writing_into_parts(f):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x):
            out = f(self.a, x)
            return sum((part**2).sum() for part in out) if isinstance(out, tuple) else (out**2).sum()

    torch.manual_seed(0)
    net, x = Net(), torch.randn(3, 4)
    ours = cm.from_torch_module(net, torch.randn(2, 4))
    np.testing.assert_allclose(ours(x.numpy()), net(x).detach().numpy(), rtol=1e-5)
    got, want = gradients_of(net, x)
    for path, g in want.items():
        np.testing.assert_allclose(got[path], g, rtol=1e-4, atol=1e-4, err_msg=path)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_places_within_the_jit_of_jax(dtype):
    import jax

    x = torch.tensor([[3, 7, 7, -2], [5, -9, 5, 5]]).to(dtype)
    net = cm.from_torch(lambda x: (x.argmax(1), x.argmin(0), x.sort(1)[1]), x, dynamic_batch=False).to("jax")
    given = cm.asarray(x.numpy()).to("jax").native
    for got, want in zip(jax.jit(lambda x: net(x))(given), net(given), strict=True):
        assert got.dtype == want.dtype == np.int64
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(net(given)[0], x.numpy().argmax(1))
