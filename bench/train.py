"""Training steps (forward, gradients, Adam; f32, 2 threads) on the engine and in the frameworks, in turns.

python bench/train.py [mlp64 mlp1024 cnn64 lstm tfm] [--peers torch,jax,...] [--rounds N] [--seconds S]

Every runner is a process that waits for its turn, so all of them see the same machine: in each round each one steps for
a moment. `--lowered` adds the step as `cm.jit` runs it on each framework, or on those that are named. Printed are the least
and the median time, the processor time of all threads, ratios to the best peer, the bound by floating-point operations and the
most memory of each process. `--threads 1` compares processor times on a busy machine.
"""

import argparse
import os
import sys

import train_peers
from turns import ROOT, Runner, answer, example, measured

WORKLOADS = ["mlp64", "mlp1024", "cnn64", "lstm", "tfm"]
# Keras is what it runs on, so its best backend speaks for it; `keras:torch` can be asked for.
PEERS = ["torch", "torch.compile", "jax", "tensorflow", "keras:tensorflow", "keras:jax", "candle"]
# The same step written once for Clematis and jitted on a framework, to be held against that framework's own.
LOWERED = ["torch", "jax", "tensorflow"]
SHAPES = {
    "mlp64": (64, 784),
    "mlp1024": (1024, 784),
    "cnn64": (64, 28, 28, 1),
    "lstm": (32, 50, 128),
    "tfm": (8, 128, 256),
}
CANDLE = os.path.join(ROOT, "bench", "candle", "target", "release", "candle-train")


def step_of(peer, workload):
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.standard_normal(SHAPES[workload], dtype=np.float32)
    y = (np.arange(len(x)) % 10).astype(np.int64)
    match peer.split(":"):
        case ["torch" | "torch.compile"]:
            return train_peers.torch_step(workload, x, y, peer == "torch.compile")
        case ["jax"]:
            return train_peers.jax_step(workload, x, y, rng)
        case ["tensorflow"]:
            return train_peers.tensorflow_step(workload, x, y, rng)
        case ["keras", backend]:
            return train_peers.keras_step(workload, x, y, backend)
        case ["clematis", backend]:
            from train_ours import step_on

            return step_on(backend, workload, x, y, rng)
    raise ValueError(f"no peer {peer}")


def peak_memory():
    with open("/proc/self/status") as status:
        return next(int(row.split()[1]) for row in status if row.startswith("VmHWM:")) / 1024


def serve(peer, workload):
    """Steps for so many seconds at each line that comes in; answers with the times."""
    step = step_of(peer, workload)
    for _ in range(3):
        step()
    for line in sys.stdin:
        times = measured(step, float(line))
        answer(**times, mib=peak_memory())


def command(peer, workload):
    if peer == "clematis":
        return [example("bench_train"), workload, "--serve"]
    if peer == "candle":
        return [CANDLE, workload]
    return [sys.executable, os.path.abspath(__file__), "--serve", peer, workload]


def compare(workload, peers, rounds, seconds, threads):
    runners = [Runner(name, command(name, workload), threads) for name in ["clematis", *peers]]
    alive = [r for r in runners if r.turn(seconds)]
    for r in alive:
        r.clear()
    for _ in range(rounds):
        for r in alive:
            r.turn(seconds)
    rows = {}
    for r in runners:
        r.end()
        if r.times:
            times = sorted(r.times)
            rows[r.name] = ([times[0], times[len(times) // 2], r.busy / len(times)], r.answer)
        else:
            print(f"{workload:8} {r.name:19} did not answer: {' '.join(r.process.args)}", flush=True)
    show(workload, rows)


def show(workload, rows):
    """Prints a line per runner; `rows` are name: ((least, median, processors), what it said last)."""
    own = {name: row for name, row in rows.items() if not name.startswith("clematis")}
    best = [min((row[0][at], name) for name, row in own.items()) for at in range(3)] if own else []
    for name, (figures, said) in rows.items():
        least, median, busy = figures
        line = f"{workload:8} {name:19} least {least:8.3f}  median {median:8.3f}  processors {busy:8.3f} ms"
        line += f"  {said['mib']:5.0f} MiB"
        if name.startswith("clematis:"):
            family = [row[0] for other, row in own.items() if other.startswith(name.partition(":")[2])]
            if family:
                line += f"  to its own: {', '.join(f'{t / min(ts):.2f}' for t, ts in zip(figures, zip(*family)))}"
        if name == "clematis" and best:
            words = ("least", "median", "processors")
            ratios = [f"{w} {t / b[0]:.2f} ({b[1]})" for w, t, b in zip(words, figures, best)]
            line += f"  bound {said['bound']:.2f}  to the best peer: {', '.join(ratios)}"
        print(line, flush=True)


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=WORKLOADS)
    parser.add_argument("--peers", default=",".join(PEERS))
    every = ",".join(LOWERED)
    parser.add_argument("--lowered", nargs="?", const=every, default="", help="Clematis jitted on frameworks as well")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    peers = [p for p in args.peers.split(",") if p] + [f"clematis:{p}" for p in args.lowered.split(",") if p]
    if "candle" in peers and not os.path.exists(CANDLE):
        peers.remove("candle")
        print("without candle: `cargo build --release --manifest-path bench/candle/Cargo.toml` builds it", flush=True)
    os.environ["RAYON_NUM_THREADS"] = str(args.threads)  # what candle goes by; runners inherit it
    for workload in args.workloads or WORKLOADS:
        compare(workload, peers, args.rounds, args.seconds, args.threads)


if __name__ == "__main__":
    main()
