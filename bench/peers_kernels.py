"""Times the frameworks on the work of `bench_kernels` (f32, 2 threads), one JSON row per measurement.

python bench/peers_kernels.py [numpy] [torch] [jax] [--filter TEXT] [--cpu]

Rows carry the names that `cargo run --release -p clematis-native --example bench_kernels -- --json` prints,
so the two outputs join on `name`. Run both in one sitting: only ratios mean something on a shared machine.
"""
import argparse, json, os, sys, time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("frameworks", nargs="*", default=[])
parser.add_argument("--filter", default="", help="only names that contain this text")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--cpu", action="store_true", help="one thread, by processor time: for a busy machine")
args = parser.parse_args()
# Of the whole process: jax computes on threads of its own.
clock = time.process_time if args.cpu else time.perf_counter
if args.cpu:
    args.threads = 1
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = str(args.threads)
os.environ.update(JAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="")
import numpy as np

rng = np.random.default_rng(0)
rows = []


def array(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


def timed(by, name, run, flops=0.0):
    """Smallest and median time of `run` over about 0.8 s, short work repeated to at least 2 ms."""
    if args.filter not in name:
        return
    run(); run()
    times, start = [], time.perf_counter()
    while time.perf_counter() - start < 0.8 or len(times) < 5:
        begin, count = clock(), 0
        while count == 0 or clock() - begin < 0.002:
            run(); count += 1
        times.append((clock() - begin) * 1e3 / count)
    times.sort()
    rows.append(dict(name=name, by=by, min_ms=round(times[0], 5), median_ms=round(times[len(times) // 2], 5),
                     gflops=round(flops / times[0] / 1e6, 2)))
    print(f"{by:<6} {name:<56} {times[0]:9.4f} {times[len(times) // 2]:9.4f} {flops / times[0] / 1e6:8.1f}", file=sys.stderr)


SIZES = (64, 256, 512, 1024, 2048)
# name, batch, channels, spatial, window, stride, groups, transposed
CONVS = [
    ("conv2d 3x3 (8,64,56,56)", 8, 64, (56, 56), 3, 1, 1, False),
    ("conv2d 3x3 (8,256,14,14)", 8, 256, (14, 14), 3, 1, 1, False),
    ("conv2d 3x3 s2 (8,64,56,56)", 8, 64, (56, 56), 3, 2, 1, False),
    ("conv2d 1x1 (8,64,56,56)", 8, 64, (56, 56), 1, 1, 1, False),
    ("depthwise 3x3 (8,64,56,56)", 8, 64, (56, 56), 3, 1, 64, False),
    ("conv_transpose k4 s2 (8,64,28,28)", 8, 64, (28, 28), 4, 2, 1, True),
    ("conv3d 3x3x3 (2,16,16,32,32)", 2, 16, (16, 32, 32), 3, 1, 1, False),
]
POOL = (8, 64, 56, 56)


def conv_flops(batch, channels, places, window, groups, rank):
    return 2.0 * batch * channels * channels / groups * places * window ** rank


def run_numpy():
    for n in SIZES:
        a, b = array(n, n), array(n, n)
        out = np.empty_like(a)
        timed("numpy", f"matmul {n}", lambda: np.matmul(a, b, out=out), 2.0 * n ** 3)
    x, y, g, b = array(4096, 1024), array(4096, 1024), array(1024), array(1024)

    def softmax():
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def norm():
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b

    for name, run in (("add", lambda: x + y), ("exp", lambda: np.exp(x)), ("sum", x.sum), ("softmax", softmax), ("layer_norm", norm)):
        timed("numpy", f"{name} 4M", run)


def run_torch():
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(args.threads)
    tensor = torch.from_numpy
    for n in SIZES:
        a, b, out = tensor(array(n, n)), tensor(array(n, n)), torch.empty(n, n)
        timed("torch", f"matmul {n}", lambda: torch.mm(a, b, out=out), 2.0 * n ** 3)
    for name, batch, channels, spatial, window, stride, groups, transposed in CONVS:
        rank = len(spatial)
        pad = window // 2 if not transposed else 1
        for layout in ("first", "last"):
            memory = torch.contiguous_format if layout == "first" else (torch.channels_last if rank == 2 else torch.channels_last_3d)
            x = tensor(array(batch, channels, *spatial)).contiguous(memory_format=memory)
            w = tensor(array(channels, channels // groups, *(window,) * rank)).contiguous(memory_format=memory)
            one = lambda v: [v] * rank
            call = lambda: torch.convolution(x, w, None, one(stride), one(pad), one(1), transposed, one(0), groups)
            grad = torch.randn_like(call())
            back = lambda mask: torch.ops.aten.convolution_backward(
                grad, x, w, None, one(stride), one(pad), one(1), transposed, one(0), groups, mask)
            places = (x if transposed else grad).shape[2:].numel()
            flops = conv_flops(batch, channels, places, window, groups, rank)
            with torch.inference_mode():
                timed("torch", f"{name} channels {layout} forward", call, flops)
            timed("torch", f"{name} channels {layout} by input", lambda: back([True, False, False]), flops)
            timed("torch", f"{name} channels {layout} by filter", lambda: back([False, True, False]), flops)
    with torch.inference_mode():
        for layout, memory in (("first", torch.contiguous_format), ("last", torch.channels_last)):
            x = tensor(array(*POOL)).contiguous(memory_format=memory)
            timed("torch", f"max_pool 2x2 {POOL} channels {layout}".replace(", ", ","), lambda: F.max_pool2d(x, 2))
            timed("torch", f"max_pool 3x3 s2 {POOL} channels {layout}".replace(", ", ","), lambda: F.max_pool2d(x, 3, 2, 1))
            timed("torch", f"avg_pool 2x2 {POOL} channels {layout}".replace(", ", ","), lambda: F.avg_pool2d(x, 2))
        x, y, g, b = tensor(array(4096, 1024)), tensor(array(4096, 1024)), tensor(array(1024)), tensor(array(1024))
        for name, run in (("add", lambda: x + y), ("exp", lambda: torch.exp(x)), ("sum", lambda: x.sum()),
                          ("softmax", lambda: torch.softmax(x, -1)), ("layer_norm", lambda: F.layer_norm(x, (1024,), g, b))):
            timed("torch", f"{name} 4M", run)


def run_jax():
    import jax
    import jax.numpy as jnp
    from jax import lax
    ready = jax.block_until_ready
    for n in SIZES:
        a, b, f = jnp.asarray(array(n, n)), jnp.asarray(array(n, n)), jax.jit(jnp.matmul)
        timed("jax", f"matmul {n}", lambda: ready(f(a, b)), 2.0 * n ** 3)
    for name, batch, channels, spatial, window, stride, groups, transposed in CONVS:
        rank = len(spatial)
        letters = "DHW"[-rank:]
        for layout in ("first", "last"):
            if layout == "first":
                numbers, shape, taps = ("NC" + letters, "OI" + letters, "NC" + letters), (batch, channels, *spatial), (channels, channels // groups, *(window,) * rank)
            else:
                numbers, shape, taps = ("N" + letters + "C", letters + "IO", "N" + letters + "C"), (batch, *spatial, channels), (*(window,) * rank, channels // groups, channels)
            pad = [(2, 2) if transposed else (window // 2, window // 2)] * rank
            dilation = [stride if transposed else 1] * rank
            steps = [1 if transposed else stride] * rank
            conv = lambda x, w: lax.conv_general_dilated(x, w, steps, pad, dilation, [1] * rank, numbers, groups)
            x, w = jnp.asarray(array(*shape)), jnp.asarray(array(*taps))
            forward = jax.jit(conv)
            grad = ready(forward(x, w))
            places = x.size // channels // batch if transposed else grad.size // channels // batch
            flops = conv_flops(batch, channels, places, window, groups, rank)
            by_input = jax.jit(lambda x, w, g: jax.vjp(lambda x: conv(x, w), x)[1](g)[0])
            by_filter = jax.jit(lambda x, w, g: jax.vjp(lambda w: conv(x, w), w)[1](g)[0])
            timed("jax", f"{name} channels {layout} forward", lambda: ready(forward(x, w)), flops)
            timed("jax", f"{name} channels {layout} by input", lambda: ready(by_input(x, w, grad)), flops)
            timed("jax", f"{name} channels {layout} by filter", lambda: ready(by_filter(x, w, grad)), flops)
    x, y, g, b = (jnp.asarray(v) for v in (array(4096, 1024), array(4096, 1024), array(1024), array(1024)))

    def norm(x):
        d = x - x.mean(-1, keepdims=True)
        return d * lax.rsqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b

    for name, run in (("add", lambda x: x + y), ("exp", jnp.exp), ("sum", jnp.sum), ("softmax", lambda x: jax.nn.softmax(x, -1)), ("layer_norm", norm)):
        f = jax.jit(run)
        timed("jax", f"{name} 4M", lambda: ready(f(x)))


for framework in args.frameworks or ("numpy", "torch", "jax"):
    globals()[f"run_{framework}"]()
print(json.dumps(rows, indent=1))
