"""What an eager call costs over the raw framework, with keras and array-api-compat beside it.

`cargo xtask bench dispatch` runs it, one process per framework, every contender of one op in turn in the same process.
Prints nanoseconds: the raw call, and what each contender adds to it; the best of many rounds.
"""

import os
import subprocess
import sys
import timeit

FRAMEWORKS = ("numpy", "torch", "jax", "tensorflow")
ROUNDS = int(os.environ.get("ROUNDS", "800"))
# Seconds of one round: short, so that on a busy machine some rounds run undisturbed.
ROUND = 0.0005


def raw(name):
    """The framework's own spellings, as expressions over x, y (4 floats or 64x64), m, n, w, b."""
    if name == "numpy":
        import numpy as np

        def softmax(x):
            e = np.exp(x - np.max(x, axis=-1, keepdims=True))
            return e / np.sum(e, axis=-1, keepdims=True)

        names = {"np": np, "softmax": softmax}
        return np.asarray, names, {
            "add": "np.add(x, y)", "mul": "np.multiply(x, y)", "exp": "np.exp(x)", "sum": "np.sum(x)",
            "reshape": "np.reshape(x, s)", "matmul": "np.matmul(m, n)", "softmax": "softmax(x)",
            "linear": "np.matmul(m, w.T) + b",
        }
    if name == "torch":
        import torch
        import torch.nn.functional as F

        torch.set_num_threads(2)
        torch.set_grad_enabled(False)
        return torch.from_numpy, {"torch": torch, "F": F}, {
            "add": "torch.add(x, y)", "mul": "torch.mul(x, y)", "exp": "torch.exp(x)", "sum": "torch.sum(x)",
            "reshape": "torch.reshape(x, s)", "matmul": "torch.matmul(m, n)", "softmax": "torch.softmax(x, -1)",
            "linear": "F.linear(m, w, b)",
        }
    if name == "jax":
        import jax
        import jax.numpy as jnp

        return jnp.asarray, {"jax": jax, "jnp": jnp}, {
            "add": "jnp.add(x, y)", "mul": "jnp.multiply(x, y)", "exp": "jnp.exp(x)", "sum": "jnp.sum(x)",
            "reshape": "jnp.reshape(x, s)", "matmul": "jnp.matmul(m, n)", "softmax": "jax.nn.softmax(x)",
            "linear": "jnp.matmul(m, w.T) + b",
        }
    import tensorflow as tf

    return tf.convert_to_tensor, {"tf": tf}, {
        "add": "tf.add(x, y)", "mul": "tf.multiply(x, y)", "exp": "tf.exp(x)", "sum": "tf.reduce_sum(x)",
        "reshape": "tf.reshape(x, s)", "matmul": "tf.matmul(m, n)", "softmax": "tf.nn.softmax(x)",
        "linear": "tf.matmul(m, w, transpose_b=True) + b",
    }


OURS = {
    "add": "cm.add(x, y)", "mul": "cm.multiply(x, y)", "exp": "cm.exp(x)", "sum": "cm.sum(x)",
    "reshape": "cm.reshape(x, s)", "matmul": "cm.matmul(m, n)", "softmax": "cm.softmax(x)",
    "linear": "cm.linear(m, w, bias=b)",
}
KERAS = {
    "add": "K.add(x, y)", "mul": "K.multiply(x, y)", "exp": "K.exp(x)", "sum": "K.sum(x)",
    "reshape": "K.reshape(x, s)", "matmul": "K.matmul(m, n)", "softmax": "K.softmax(x)",
    "linear": "K.add(K.matmul(m, K.transpose(w)), b)",
}
COMPAT = {
    "add": "xp.add(x, y)", "mul": "xp.multiply(x, y)", "exp": "xp.exp(x)", "sum": "xp.sum(x)",
    "reshape": "xp.reshape(x, s)", "matmul": "xp.matmul(m, n)",
}


def operands(size):
    """Arrays of one size, and the shape that x is brought to."""
    import numpy as np

    draw = np.random.default_rng(0)

    def f(*shape):
        return draw.standard_normal(shape, dtype=np.float32)

    if size == 4:
        return {"x": f(4), "y": f(4), "m": f(2, 2), "n": f(2, 2), "w": f(2, 2), "b": f(2)}, (2, 2)
    return {"x": f(64, 64), "y": f(64, 64), "m": f(64, 64), "n": f(64, 64), "w": f(64, 64), "b": f(64)}, (32, 128)


def measure(contenders):
    """Nanoseconds of each expression, all taken in turn so that a busy moment hits all alike."""
    timers, best = {}, {}
    for label, (expression, names) in contenders.items():
        timer = timeit.Timer(expression, globals=names)
        number, took = timer.autorange()
        timers[label] = (timer, max(1, int(number * ROUND / max(took, 1e-9))))
        best[label] = float("inf")
    for _ in range(ROUNDS):
        for label, (timer, number) in timers.items():
            best[label] = min(best[label], timer.timeit(number) / number * 1e9)
    return best


def one(framework):
    """All ops and sizes of one framework, as lines of a table."""
    import clematis as cm

    convert, names, spelled = raw(framework)
    os.environ["KERAS_BACKEND"] = framework
    from keras import ops as K

    compat = None
    if framework in ("numpy", "torch"):
        import importlib

        compat = importlib.import_module(f"array_api_compat.{framework}")
    print(f"\n{framework:<12}{'op':<10}{'size':<8}{'raw ns':>9}{'arrays':>9}{'tensors':>9}{'keras':>9}{'compat':>9}")
    for size in (4, 64):
        arrays, shape = operands(size)
        plain = {name: convert(x) for name, x in arrays.items()}
        with cm.backend(framework):
            tensors = {name: cm.wrap(x) for name, x in plain.items()}
        for op, expression in spelled.items():
            contenders = {
                "raw": (expression, {**names, **plain, "s": shape}),
                "arrays": (OURS[op], {"cm": cm, **plain, "s": shape}),
                "tensors": (OURS[op], {"cm": cm, **tensors, "s": shape}),
                "keras": (KERAS[op], {"K": K, **plain, "s": shape}),
            }
            if compat is not None and op in COMPAT:
                contenders["compat"] = (COMPAT[op], {"xp": compat, **plain, "s": shape})
            best = measure(contenders)
            cells = [f"{best['raw']:9.0f}"]
            for label in ("arrays", "tensors", "keras", "compat"):
                cells.append(f"{best[label] - best['raw']:+9.0f}" if label in best else f"{'-':>9}")
            print(f"{'':<12}{op:<10}{'4' if size == 4 else '64x64':<8}{''.join(cells)}", flush=True)


def native():
    """The built-in engine, which has no framework below it."""
    import clematis as cm

    arrays, shape = operands(4)
    tensors = {name: cm.asarray(x) for name, x in arrays.items()}
    expressions = {**OURS, "x + y": "x + y", "x + 1.0": "x + 1.0"}
    best = measure({op: (e, {"cm": cm, **tensors, "s": shape}) for op, e in expressions.items()})
    print(f"\n{'native':<12}{'op':<10}{'size':<8}{'ns':>9}")
    for op, ns in best.items():
        print(f"{'':<12}{op:<10}{'4':<8}{ns:9.0f}", flush=True)


def main():
    """One process for each framework, since two of them in one disturb each other."""
    chosen = [a for a in sys.argv[1:] if not a.startswith("-")]
    if len(chosen) == 1 and os.environ.get("CLEMATIS_BENCH_INNER"):
        native() if chosen[0] == "native" else one(chosen[0])
        return
    environment = {**os.environ, "CLEMATIS_BENCH_INNER": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu",
                   "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "2"}
    print("nanoseconds: the raw call, and what each contender adds to it (arrays: a framework's own in and out)")
    for framework in chosen or ("native", *FRAMEWORKS):
        subprocess.run([sys.executable, __file__, framework], env=environment, check=True)


if __name__ == "__main__":
    main()
