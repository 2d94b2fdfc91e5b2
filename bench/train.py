"""Training steps (forward, gradients, Adam; f32, 2 threads) on the engine and in the frameworks, in turns.

python bench/train.py [mlp64 mlp1024 cnn64 lstm tfm] [--peers torch,jax,...] [--rounds N] [--seconds S]

Every runner is a process that waits for its turn, so all of them see the same machine: in each round each one steps for
a moment. `--lowered` adds the step as `cm.jit` runs it on each framework. Printed are the least and the median time, the processor time of all threads, ratios to the best peer, the bound
by floating-point operations and the most memory of each process. `--threads 1` compares processor times on a busy machine.
"""

import argparse
import json
import os
import subprocess
import sys
import time

WORKLOADS = ["mlp64", "mlp1024", "cnn64", "lstm", "tfm"]
PEERS = ["torch", "torch.compile", "jax", "tensorflow"]
# The same step written once for Clematis and jitted on a framework, to be held against that framework's own.
LOWERED = ["clematis:torch", "clematis:jax", "clematis:tensorflow"]
SHAPES = {
    "mlp64": (64, 784),
    "mlp1024": (1024, 784),
    "cnn64": (64, 28, 28, 1),
    "lstm": (32, 50, 128),
    "tfm": (8, 128, 256),
}
THREADS = int(os.environ.get("BENCH_THREADS", "2"))
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def torch_step(workload, x, y, compiled):
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(THREADS)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(256, 768), nn.Linear(256, 256)
            self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)
            self.first, self.second = nn.LayerNorm(256), nn.LayerNorm(256)

        def forward(self, x):
            q, k, v = self.qkv(x).view(8, 128, 3, 4, 64).permute(2, 0, 3, 1, 4)
            o = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(8, 128, 256)
            x = self.first(x + self.out(o))
            return self.second(x + self.down(F.gelu(self.up(x))))

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks, self.head = nn.Sequential(Block(), Block()), nn.Linear(256, 10)

        def forward(self, x):
            return self.head(self.blocks(x).mean(1))

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.head = nn.LSTM(128, 128, batch_first=True), nn.Linear(128, 10)

        def forward(self, x):
            return self.head(self.cell(x)[1][0][0])

    def mlp():
        sizes = [(784, 256), (256, 256)]
        hidden = [m for i, o in sizes for m in (nn.Linear(i, o), nn.ReLU())]
        return nn.Sequential(*hidden, nn.Linear(256, 10))

    def cnn():
        convs = [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)]
        return nn.Sequential(*convs, nn.Flatten(), nn.Linear(9216, 10))

    model = {"mlp64": mlp, "mlp1024": mlp, "cnn64": cnn, "lstm": Recurrent, "tfm": Encoder}[workload]()
    x = torch.from_numpy(x.transpose(0, 3, 1, 2).copy() if workload == "cnn64" else x)
    y = torch.from_numpy(y)
    adam = torch.optim.Adam(model.parameters(), 1e-3, fused=True)

    def loss(x, y):
        return F.cross_entropy(model(x), y)

    run = torch.compile(loss) if compiled else loss

    def step():
        adam.zero_grad(set_to_none=True)
        value = run(x, y)
        value.backward()
        adam.step()
        return value.item()

    return step


def jax_step(workload, x, y, rng):
    import functools

    import jax
    import jax.numpy as jnp

    def normal(*shape):
        fan = 1
        for n in shape[:-1]:
            fan *= n
        return jnp.asarray(rng.standard_normal(shape, dtype="float32") * fan**-0.5)

    def dense(i, o):
        return [normal(i, o), jnp.zeros(o)]

    def norm(x, g, b):
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g + b

    def mlp(p, x):
        x = jax.nn.relu(x @ p[0] + p[1])
        return jax.nn.relu(x @ p[2] + p[3]) @ p[4] + p[5]

    def cnn(p, x):
        def conv(x, w):
            return jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))

        x = jax.nn.relu(conv(jax.nn.relu(conv(x, p[0]) + p[1]), p[2]) + p[3])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return x.reshape(64, -1) @ p[4] + p[5]

    def lstm(p, x):
        inputs = jnp.swapaxes(x, 0, 1) @ p[0] + p[2]

        def cell(carry, u):
            h, c = carry
            i, f, g, o = jnp.split(u + h @ p[1], 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zero = jnp.zeros((32, 128))
        (h, _), _ = jax.lax.scan(cell, (zero, zero), inputs)
        return h @ p[3] + p[4]

    def block(p, x):
        qkv = (x @ p[0] + p[1]).reshape(8, 128, 3, 4, 64).transpose(2, 0, 3, 1, 4)
        a = jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", qkv[0], qkv[1]) / 8.0, -1)
        o = jnp.einsum("bhqk,bhkd->bhqd", a, qkv[2]).transpose(0, 2, 1, 3).reshape(8, 128, 256)
        x = norm(x + o @ p[2] + p[3], p[8], p[9])
        return norm(x + jax.nn.gelu(x @ p[4] + p[5], approximate=False) @ p[6] + p[7], p[10], p[11])

    def tfm(p, x):
        return block(p[12:24], block(p[:12], x)).mean(1) @ p[24] + p[25]

    def block_params():
        parts = [dense(256, 768), dense(256, 256), dense(256, 1024), dense(1024, 256)]
        norms = [make(256) for _ in range(2) for make in (jnp.ones, jnp.zeros)]
        return [w for part in parts for w in part] + norms

    def params():
        if workload.startswith("mlp"):
            return dense(784, 256) + dense(256, 256) + dense(256, 10)
        if workload == "cnn64":
            return [normal(3, 3, 1, 32), jnp.zeros(32), normal(3, 3, 32, 64), jnp.zeros(64), *dense(9216, 10)]
        if workload == "lstm":
            return [normal(128, 512), normal(128, 512), jnp.zeros(512), *dense(128, 10)]
        return block_params() + block_params() + dense(256, 10)

    model = {"mlp64": mlp, "mlp1024": mlp, "cnn64": cnn, "lstm": lstm, "tfm": tfm}[workload]
    x, y = jnp.asarray(x), jnp.asarray(y)

    def loss(p):
        return -jnp.take_along_axis(jax.nn.log_softmax(model(p, x)), y[:, None], 1).mean()

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def train(p, m, v, t):
        value, g = jax.value_and_grad(loss)(p)
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
        v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g)]
        c1, c2 = 1 - 0.9**t, 1 - 0.999**t
        p = [w - 1e-3 * (a / c1) / (jnp.sqrt(b / c2) + 1e-8) for w, a, b in zip(p, m, v)]
        return p, m, v, t + 1, value

    p = params()
    state = [p, [jnp.zeros_like(w) for w in p], [jnp.zeros_like(w) for w in p], jnp.float32(1)]

    def step():
        *state[:], value = train(*state)
        jax.block_until_ready(state[0])
        return float(value)

    return step


def tensorflow_step(workload, x, y, rng):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)

    def normal(*shape):
        fan = 1
        for n in shape[:-1]:
            fan *= n
        return tf.Variable(rng.standard_normal(shape, dtype="float32") * fan**-0.5)

    def zeros(n):
        return tf.Variable(tf.zeros(n))

    def dense(i, o):
        return [normal(i, o), zeros(o)]

    def norm(x, g, b):
        mean, var = tf.nn.moments(x, -1, keepdims=True)
        return (x - mean) * tf.math.rsqrt(var + 1e-5) * g + b

    def mlp(p, x):
        x = tf.nn.relu(x @ p[0] + p[1])
        return tf.nn.relu(x @ p[2] + p[3]) @ p[4] + p[5]

    def cnn(p, x):
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, p[0], 1, "VALID"), p[1]))
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, p[2], 1, "VALID"), p[3]))
        return tf.reshape(tf.nn.max_pool2d(x, 2, 2, "VALID"), (64, 9216)) @ p[4] + p[5]

    def lstm(p, x):
        inputs = tf.reshape(x, (1600, 128)) @ p[0] + p[2]
        h = c = tf.zeros((32, 128))
        for u in tf.unstack(tf.transpose(tf.reshape(inputs, (32, 50, 512)), (1, 0, 2))):
            i, f, g, o = tf.split(u + h @ p[1], 4, -1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            h = tf.sigmoid(o) * tf.tanh(c)
        return h @ p[3] + p[4]

    def block(p, x):
        qkv = tf.transpose(tf.reshape(x @ p[0] + p[1], (8, 128, 3, 4, 64)), (2, 0, 3, 1, 4))
        a = tf.nn.softmax(tf.matmul(qkv[0], qkv[1], transpose_b=True) / 8.0)
        o = tf.reshape(tf.transpose(tf.matmul(a, qkv[2]), (0, 2, 1, 3)), (1024, 256))
        x = norm(x + o @ p[2] + p[3], p[8], p[9])
        return norm(x + tf.nn.gelu(x @ p[4] + p[5]) @ p[6] + p[7], p[10], p[11])

    def tfm(p, x):
        x = block(p[12:24], block(p[:12], tf.reshape(x, (1024, 256))))
        return tf.reduce_mean(tf.reshape(x, (8, 128, 256)), 1) @ p[24] + p[25]

    def block_params():
        parts = [dense(256, 768), dense(256, 256), dense(256, 1024), dense(1024, 256)]
        ends = [tf.Variable(tf.ones(256)), zeros(256), tf.Variable(tf.ones(256)), zeros(256)]
        return [w for part in parts for w in part] + ends

    def params():
        if workload.startswith("mlp"):
            return dense(784, 256) + dense(256, 256) + dense(256, 10)
        if workload == "cnn64":
            return [normal(3, 3, 1, 32), zeros(32), normal(3, 3, 32, 64), zeros(64), *dense(9216, 10)]
        if workload == "lstm":
            return [normal(128, 512), normal(128, 512), zeros(512), *dense(128, 10)]
        return block_params() + block_params() + dense(256, 10)

    model = {"mlp64": mlp, "mlp1024": mlp, "cnn64": cnn, "lstm": lstm, "tfm": tfm}[workload]
    x, y, p = tf.constant(x), tf.constant(y), params()
    m = [tf.Variable(tf.zeros_like(w)) for w in p]
    v = [tf.Variable(tf.zeros_like(w)) for w in p]
    t = tf.Variable(0.0)

    @tf.function
    def train():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(p, x)))
        t.assign_add(1.0)
        powers = {"beta1_power": tf.pow(0.9, t), "beta2_power": tf.pow(0.999, t)}
        fixed = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
        for w, a, b, g in zip(p, m, v, tape.gradient(loss, p)):
            tf.raw_ops.ResourceApplyAdam(var=w.handle, m=a.handle, v=b.handle, grad=g, **powers, **fixed)
        return loss

    return lambda: float(train())


def serve(peer, workload):
    """Steps for so many seconds at each line that comes in; answers with the times."""
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.standard_normal(SHAPES[workload], dtype=np.float32)
    y = (np.arange(len(x)) % 10).astype(np.int64)
    if peer.startswith("clematis:"):
        from train_ours import step_on

        step = step_on(peer.partition(":")[2], workload, x, y, rng)
    elif peer.startswith("torch"):
        step = torch_step(workload, x, y, peer.endswith("compile"))
    else:
        step = {"jax": jax_step, "tensorflow": tensorflow_step}[peer](workload, x, y, rng)
    for _ in range(3):
        step()
    for line in sys.stdin:
        times, end, busy = [], time.perf_counter() + float(line), time.process_time()
        while time.perf_counter() < end or not times:
            start = time.perf_counter()
            step()
            times.append((time.perf_counter() - start) * 1e3)
        with open("/proc/self/status") as status:
            kib = next(int(row.split()[1]) for row in status if row.startswith("VmHWM:"))
        busy = (time.process_time() - busy) * 1e3
        print(json.dumps({"times": times, "busy": busy, "mib": kib / 1024}), flush=True)


class Runner:
    def __init__(self, name, command, threads):
        env = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", JAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="")
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS", "BENCH_THREADS")
        env.update(dict.fromkeys(names, str(threads)))
        if threads == 1:
            env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        pipe = subprocess.PIPE
        self.name, self.times, self.busy, self.answer = name, [], 0.0, {}
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=env)

    def turn(self, seconds):
        try:
            self.process.stdin.write(f"{seconds}\n")
            self.process.stdin.flush()
            self.answer = json.loads(self.process.stdout.readline())
            self.times += self.answer.pop("times")
            self.busy += self.answer.pop("busy")
        except (ValueError, OSError):
            return False
        return True

    def end(self):
        try:
            self.process.stdin.close()
        except OSError:
            print(f"{self.name} ended early", flush=True)
        self.process.wait()


def compare(workload, peers, rounds, seconds, threads):
    ours = os.path.join(ROOT, "target", "release", "examples", "bench_train")
    runners = [Runner("clematis", [ours, workload, "--serve"], threads)]
    runners += [Runner(p, [sys.executable, os.path.abspath(__file__), "--serve", p, workload], threads) for p in peers]
    alive = [r for r in runners if r.turn(seconds)]
    for r in alive:
        r.times.clear()
        r.busy = 0.0
    for _ in range(rounds):
        for r in alive:
            r.turn(seconds)
    rows = {}
    for r in runners:
        r.end()
        if r.times:
            r.times.sort()
            rows[r.name] = ([r.times[0], r.times[len(r.times) // 2], r.busy / len(r.times)], r.answer)
    own = {name: row for name, row in rows.items() if not name.startswith("clematis")}
    best = [min((row[0][at], name) for name, row in own.items()) for at in range(3)] if own else []
    for name, (figures, answer) in rows.items():
        least, median, busy = figures
        line = f"{workload:8} {name:14} least {least:8.3f}  median {median:8.3f}  processors {busy:8.3f} ms"
        line += f"  {answer['mib']:5.0f} MiB"
        if name.startswith("clematis:"):
            family = [row[0] for other, row in own.items() if other.startswith(name.partition(":")[2])]
            if family:
                line += f"  to its own: {', '.join(f'{t / min(ts):.2f}' for t, ts in zip(figures, zip(*family)))}"
        if name == "clematis" and best:
            words = ("least", "median", "processors")
            ratios = [f"{w} {t / b[0]:.2f} ({b[1]})" for w, t, b in zip(words, figures, best)]
            line += f"  bound {answer['bound']:.2f}  to the best peer: {', '.join(ratios)}"
        print(line, flush=True)


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=WORKLOADS)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--lowered", action="store_true", help="Clematis jitted on each framework as well")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    for workload in args.workloads or WORKLOADS:
        peers = [p for p in args.peers.split(",") if p] + LOWERED * args.lowered
        compare(workload, peers, args.rounds, args.seconds, args.threads)


if __name__ == "__main__":
    main()
