"""Single ops and their derivatives (f32, 2 threads) on the engine and in the frameworks, in turns.

python bench/kernels.py [WORD ...] [--peers torch,jax,tensorflow,numpy] [--rounds N] [--seconds S]

Rows whose name holds one of the words, all without any. `forward and back` is the value with the gradients by all operands,
in one call where a framework has a compiler. Printed are least and median milliseconds and the ratios to the best peer.
"""

import argparse
import os
import sys

from turns import Runner, answer, example, measured

PEERS = ["torch", "jax", "tensorflow", "numpy"]
THREADS = int(os.environ.get("BENCH_THREADS", "2"))
SIZES, HALF_SIZES = (64, 256, 512, 1024, 2048), (512, 1024)
# name: batch, channels, image, window, stride, groups, transposed
CONVOLUTIONS = {
    "conv2d 3x3 (8,64,56,56)": (8, 64, (56, 56), 3, 1, 1, False),
    "conv2d 3x3 (8,256,14,14)": (8, 256, (14, 14), 3, 1, 1, False),
    "conv2d 3x3 s2 (8,64,56,56)": (8, 64, (56, 56), 3, 2, 1, False),
    "conv2d 1x1 (8,64,56,56)": (8, 64, (56, 56), 1, 1, 1, False),
    "depthwise 3x3 (8,64,56,56)": (8, 64, (56, 56), 3, 1, 64, False),
    "conv_transpose k4 s2 (8,64,28,28)": (8, 64, (28, 28), 4, 2, 1, True),
    "conv3d 3x3x3 (2,16,16,32,32)": (2, 16, (16, 32, 32), 3, 1, 1, False),
}
ROWS, HEADS = (4096, 1024), (8, 8, 256, 64)
OTHERS = {
    "attention (8,8,256,64)": (HEADS, HEADS, HEADS),
    "softmax 4096x1024": (ROWS,),
    "layer norm 4096x1024": (ROWS, (1024,), (1024,)),
    "gelu chain 4M": (ROWS,),
    "exp 4M": (ROWS,),
    "add 4M": (ROWS, ROWS),
    "sum 4M": (ROWS,),
}
BOTH = ("forward", "forward and back")
# Calls of ours that a turn has time for, at least.
CALLS = 6


def names():
    rows = [f"matmul {n} {way}" for n in SIZES for way in BOTH]
    rows += [f"matmul bf16 {n} {way}" for n in HALF_SIZES for way in BOTH]
    layouts, ways = ("first", "last"), ("forward", "by input", "by filter")
    rows += [f"{name} channels {layout} {way}" for name in CONVOLUTIONS for layout in layouts for way in ways]
    return rows + [f"{name} {way}" for name in OTHERS for way in BOTH]


def parse(row):
    """What a row is: (name, way, layout); the layout is None where there is no choice."""
    way = next(w for w in ("forward and back", "forward", "by input", "by filter") if row.endswith(" " + w))
    name = row.removesuffix(" " + way)
    for layout in ("first", "last"):
        if name.endswith(f" channels {layout}"):
            return name.removesuffix(f" channels {layout}"), way, layout
    return name, way, None


class Data:
    def __init__(self):
        import numpy as np

        self.rng = np.random.default_rng(0)

    def __call__(self, *shape):
        return self.rng.standard_normal(shape, dtype="float32")

    def operands(self, name):
        if name.startswith("matmul "):
            n = int(name.split()[-1])
            return [self(n, n), self(n, n)]
        return [self(*shape) for shape in OTHERS[name]]


def torch_row(name, way, layout, data):
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(THREADS)
    if layout:
        batch, channels, places, window, stride, groups, transposed = CONVOLUTIONS[name]
        rank = len(places)
        memory = {"first": torch.contiguous_format, "last": (None, None, torch.channels_last, torch.channels_last_3d)[rank]}
        x = torch.from_numpy(data(batch, channels, *places)).contiguous(memory_format=memory[layout])
        w = torch.from_numpy(data(channels, channels // groups, *(window,) * rank))
        w = w.contiguous(memory_format=memory[layout])
        pad = [1 if transposed else window // 2] * rank
        rest = ([stride] * rank, pad, [1] * rank, transposed, [0] * rank, groups)
        if way == "forward":
            return lambda: torch.convolution(x, w, None, *rest)
        grad = torch.randn_like(torch.convolution(x, w, None, *rest))
        mask = [way == "by input", way == "by filter", False]
        return lambda: torch.ops.aten.convolution_backward(grad, x, w, None, *rest, mask)
    x = [torch.from_numpy(a) for a in data.operands(name)]
    x = [a.bfloat16() for a in x] if "bf16" in name else x
    call = {
        "attention": F.scaled_dot_product_attention,
        "softmax": lambda x: torch.softmax(x, -1),
        "layer": lambda x, g, b: F.layer_norm(x, (1024,), g, b),
        "gelu": lambda x: F.gelu(x, approximate="tanh"),
        "exp": torch.exp,
        "add": torch.add,
        "sum": torch.sum,
        "matmul": torch.mm,
    }[name.split()[0]]
    if way == "forward":
        return lambda: call(*x)
    grad = torch.randn_like(call(*x))
    for a in x:
        a.requires_grad_()

    def both():
        value = call(*x)
        return value, torch.autograd.grad(value, x, grad)

    return both


def gelu(x, tanh):
    return 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def jax_row(name, way, layout, data):
    import jax
    import jax.numpy as jnp

    if layout:
        batch, channels, places, window, stride, groups, transposed = CONVOLUTIONS[name]
        rank = len(places)
        letters, taps = "DHW"[-rank:], (window,) * rank
        if layout == "first":
            numbers = ("NC" + letters, "OI" + letters, "NC" + letters)
            shapes = (batch, channels, *places), (channels, channels // groups, *taps)
        else:
            numbers = ("N" + letters + "C", letters + "IO", "N" + letters + "C")
            shapes = (batch, *places, channels), (*taps, channels // groups, channels)
        x = [jnp.asarray(data(*shape)) for shape in shapes]
        pad = [(2, 2) if transposed else (window // 2, window // 2)] * rank
        steps, gaps = [1 if transposed else stride] * rank, [stride if transposed else 1] * rank

        def call(x, w):
            return jax.lax.conv_general_dilated(x, w, steps, pad, gaps, [1] * rank, numbers, groups)

    else:
        x = [jnp.asarray(a, jnp.bfloat16 if "bf16" in name else jnp.float32) for a in data.operands(name)]

        def norm(x, g, b):
            d = x - x.mean(-1, keepdims=True)
            return d * jax.lax.rsqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b

        def attention(q, k, v):
            return jax.nn.softmax(q @ k.swapaxes(-1, -2) * 0.125, -1) @ v

        call = {
            "attention": attention,
            "softmax": lambda x: jax.nn.softmax(x, -1),
            "layer": norm,
            "gelu": lambda x: gelu(x, jnp.tanh),
            "exp": jnp.exp,
            "add": jnp.add,
            "sum": jnp.sum,
            "matmul": jnp.matmul,
        }[name.split()[0]]
    if way == "forward":
        run, given = jax.jit(call), x
    else:
        given = [*x, jnp.asarray(data(*call(*x).shape), x[0].dtype)]

        def back(*given):
            if way == "forward and back":
                value, pull = jax.vjp(call, *given[:-1])
                return value, pull(given[-1])
            one = (lambda x: call(x, given[1])) if way == "by input" else (lambda w: call(given[0], w))
            return jax.vjp(one, given[0 if way == "by input" else 1])[1](given[-1])

        run = jax.jit(back)
    return lambda: jax.block_until_ready(run(*given))


def tensorflow_row(name, way, layout, data):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)
    compiled = False
    if layout:
        batch, channels, places, window, stride, groups, transposed = CONVOLUTIONS[name]
        rank = len(places)
        if layout == "first":
            return None  # its convolutions on processors take channels last only
        x = [tf.constant(data(batch, *places, channels))]
        if groups > 1:
            x.append(tf.constant(data(*(window,) * rank, channels, 1)))
        else:
            x.append(tf.constant(data(*(window,) * rank, channels, channels)))

        def call(x, w):
            if transposed:
                shape = (batch, *(n * stride for n in places), channels)
                return tf.nn.conv2d_transpose(x, w, shape, stride, "SAME")
            if groups > 1:
                return tf.nn.depthwise_conv2d(x, w, (1, stride, stride, 1), "SAME")
            if rank == 3:
                return tf.nn.conv3d(x, w, (1,) * 5, "SAME")
            return tf.nn.conv2d(x, w, stride, [[0, 0]] + [[window // 2] * 2] * 2 + [[0, 0]])

    else:
        x = [tf.cast(a, tf.bfloat16 if "bf16" in name else tf.float32) for a in data.operands(name)]
        # Its compiler fuses these.
        compiled = name.split()[0] in ("layer", "gelu")

        def norm(x, g, b):
            mean, var = tf.nn.moments(x, -1, keepdims=True)
            return (x - mean) * tf.math.rsqrt(var + 1e-5) * g + b

        call = {
            "attention": lambda q, k, v: tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * 0.125), v),
            "softmax": tf.nn.softmax,
            "layer": norm,
            "gelu": lambda x: gelu(x, tf.tanh),
            "exp": tf.exp,
            "add": tf.add,
            "sum": tf.reduce_sum,
            "matmul": tf.matmul,
        }[name.split()[0]]
    if way == "forward":
        run, given = tf.function(call, jit_compile=compiled), x
    else:
        given = [*x, tf.cast(data(*call(*x).shape), x[0].dtype)]

        def back(*given):
            chosen = {"by input": given[:1], "by filter": given[1:2], "forward and back": given[:-1]}[way]
            with tf.GradientTape() as tape:
                tape.watch(chosen)
                value = call(*given[:-1])
            grads = tape.gradient(value, chosen, given[-1])
            return (value, grads) if way == "forward and back" else grads

        run = tf.function(back, jit_compile=compiled)
    return lambda: run(*given)


def numpy_row(name, way, layout, data):
    import numpy as np

    if layout or way != "forward" or "bf16" in name:
        return None
    x = data.operands(name)

    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def norm(x, g, b):
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b

    call = {
        "attention": lambda q, k, v: softmax(q @ k.swapaxes(-1, -2) * 0.125) @ v,
        "softmax": softmax,
        "layer": norm,
        "gelu": lambda x: gelu(x, np.tanh),
        "exp": np.exp,
        "add": np.add,
        "sum": np.sum,
        "matmul": np.matmul,
    }[name.split()[0]]
    return lambda: call(*x)


def serve(peer):
    """Answers lines `SECONDS ROW`."""
    make = {"torch": torch_row, "jax": jax_row, "tensorflow": tensorflow_row, "numpy": numpy_row}[peer]
    current, step, data = None, None, Data()
    for line in sys.stdin:
        seconds, _, row = line.strip().partition(" ")
        if row != current:
            current, step = row, make(*parse(row), data)
            for _ in range(2 * bool(step)):
                step()
        answer(**(measured(step, float(seconds), 0.001) if step else {"times": []}))


def compare(row, runners, rounds, seconds):
    """Prints a row; the ratios to the best peer, (least, median)."""
    for r in runners:
        r.clear()
    alive = [r for r in runners if r.turn(f"0 {row}") and r.times]
    # One or two calls in a turn would make the least time a matter of luck.
    own = next((min(r.times) for r in alive if r.name == "clematis"), 0.0)
    seconds = max(seconds, CALLS * own / 1e3)
    for r in alive:
        r.clear()
    for _ in range(rounds):
        for r in alive:
            r.turn(f"{seconds} {row}")
    figures = {}
    for r in alive:
        times = sorted(r.times)
        figures[r.name] = (times[0], times[len(times) // 2])
    own = figures.pop("clematis", None)
    if own is None or not figures:
        print(f"{row:56} not measured: {', '.join(figures) or 'no peers'}", flush=True)
        return None
    best = [min((f[at], name) for name, f in figures.items()) for at in range(2)]
    ratios = [t / b[0] for t, b in zip(own, best)]
    peers = "  ".join(f"{name} {f[1]:.3f}" for name, f in figures.items())
    line = f"{row:56} {own[0]:8.4f} {own[1]:8.4f} ms  least {ratios[0]:.2f}  median {ratios[1]:.2f} ({best[1][1]})  {peers}"
    print(line, flush=True)
    return ratios


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    chosen = [row for row in names() if not args.words or any(word in row for word in args.words)]
    if not chosen:
        parser.error(f"no row holds any of {args.words}; there are: {', '.join(names())}")
    runners = [Runner("clematis", [example("bench_kernels"), "--serve"], args.threads)]
    for peer in filter(None, args.peers.split(",")):
        command = [sys.executable, os.path.abspath(__file__), "--serve", peer]
        runners.append(Runner(peer, command, args.threads))
    ratios = [r for r in (compare(row, runners, args.rounds, args.seconds) for row in chosen) if r]
    for r in runners:
        r.end()
    for at, what in enumerate(("least", "median")):
        above = sum(r[at] > 1.0 for r in ratios)
        print(f"by {what} times: {len(ratios) - above} of {len(ratios)} rows at or below the best peer")


if __name__ == "__main__":
    main()
