"""Converts models that others have written, and compares what they compute: keras.applications, hk.nets, flax's examples.

    python python/tools/proofs.py [--only WORD] [--quick] [--backend NAME]

prints a table: model, target, seconds, the largest error as a share of the largest value, at the example's batch size and
at another. Weights are random; those of batch norms are moved away from zero and one.
"""

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
warnings.filterwarnings("ignore")

import clematis as cm
import numpy as np
import torch._dynamo  # noqa: F401 - tensorflow after it, not before

# A share of the largest value: deep models in 32 bits differ by rounding.
TOLERANCE = 2e-4

Case = tuple[Any, tuple[np.ndarray, ...], Callable[..., list[np.ndarray]]]


def flat(x: Any) -> list[Any]:
    """The arrays of a tree, in order."""
    if isinstance(x, dict):
        return [leaf for key in sorted(x) for leaf in flat(x[key])]
    if isinstance(x, (list, tuple)):
        return [leaf for part in x for leaf in flat(part)]
    return [x]


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype("float32")


# Models of Keras.


def application(name: str, size: int, **options: Any) -> Callable[[], Case]:
    def make() -> Case:
        import keras

        keras.utils.set_random_seed(0)
        model = getattr(keras.applications, name)(
            weights=None, input_shape=(size, size, 3), classes=10, classifier_activation=None, **options
        )
        noise = np.random.default_rng(0)
        for v in model.variables:
            if len(v.shape) == 1 and "seed" not in v.path:
                move = 0.1 * noise.normal(size=v.shape).astype("float32")
                v.assign(keras.ops.convert_to_numpy(v.value) + np.abs(move))
        x = floats(2, size, size, 3)
        return cm.from_keras_module(model, (x,)), (x,), lambda x: [np.asarray(model.predict(x, verbose=0))]

    return make


APPLICATIONS = {
    "MobileNet": application("MobileNet", 32),
    "MobileNetV2": application("MobileNetV2", 32),
    "MobileNetV3Small": application("MobileNetV3Small", 32),
    "ResNet50": application("ResNet50", 32),
    "ResNet50V2": application("ResNet50V2", 32),
    "VGG16": application("VGG16", 32),
    "DenseNet121": application("DenseNet121", 32),
    "EfficientNetB0": application("EfficientNetB0", 32),
    "EfficientNetV2B0": application("EfficientNetV2B0", 32),
    "ConvNeXtTiny": application("ConvNeXtTiny", 32),
    "InceptionV3": application("InceptionV3", 75),
    "Xception": application("Xception", 71),
    "InceptionResNetV2": application("InceptionResNetV2", 75),
    "NASNetMobile": application("NASNetMobile", 32),
}


# Models of Haiku.


def moved(tree: Any) -> Any:
    """Other values than those that a model starts with, where these are all alike: heads of zeros, means and variances."""
    noise = np.random.default_rng(0)
    out: dict[str, Any] = {}
    for module, values in tree.items():
        out[module] = {}
        for name, x in values.items():
            move = 0.1 * noise.normal(size=x.shape).astype("float32")
            if "var_ema" in module and name in ("average", "hidden"):
                x = 1 + np.abs(move)
            elif "mean_ema" in module and name in ("average", "hidden"):
                x = move
            elif x.dtype == "float32" and np.ptp(x) == 0:
                x = x + move
            out[module][name] = x
    return out


def haiku(function: Callable[..., Any], *examples: np.ndarray, training: bool = True) -> Case:
    """`function(*arrays)` or `function(*arrays, is_training=)` with Haiku's modules inside."""
    import haiku as hk
    import jax

    both = hk.transform_with_state(function)
    words = [{"is_training": True}, {"is_training": False}] if training else [{}, {}]
    params, state = both.init(jax.random.PRNGKey(0), *examples, **words[0])
    params, state = moved(params), moved(state)
    made = cm.from_haiku_module(both, examples, params_hk=params, state_hk=state, instance_kwargs=words[1])
    apply = jax.jit(lambda *xs: both.apply(params, state, jax.random.PRNGKey(1), *xs, **words[1])[0])
    return made, examples, lambda *xs: [np.asarray(x) for x in flat(apply(*xs))]


def haiku_net(name: str, *examples: np.ndarray, **options: Any) -> Callable[[], Case]:
    def make() -> Case:
        import haiku as hk

        return haiku(lambda x, is_training: getattr(hk.nets, name)(**options)(x, is_training), *examples)

    return make


def haiku_mlp() -> Case:
    import haiku as hk

    return haiku(lambda x: hk.nets.MLP([16, 16, 4])(x), floats(3, 8), training=False)


def haiku_quantizer(name: str) -> Callable[[], Case]:
    """An autoencoder with a table of codes in its middle."""

    def make() -> Case:
        import haiku as hk
        import jax

        def function(x: Any, is_training: bool) -> Any:
            code = jax.nn.relu(hk.Conv2D(8, 4, 2)(x))
            found = getattr(hk.nets, name)(**QUANTIZERS[name])(hk.Conv2D(4, 3)(code), is_training)
            return hk.Conv2DTranspose(3, 4, 2)(found["quantize"]), found["loss"], found["perplexity"]

        return haiku(function, floats(2, 8, 8, 3))

    return make


QUANTIZERS = {
    "VectorQuantizer": {"embedding_dim": 4, "num_embeddings": 10, "commitment_cost": 0.25},
    "VectorQuantizerEMA": {"embedding_dim": 4, "num_embeddings": 10, "commitment_cost": 0.25, "decay": 0.9},
}


def haiku_recurrent() -> Case:
    import haiku as hk

    def function(x: Any) -> Any:
        cells = hk.DeepRNN([hk.LSTM(6), hk.GRU(5)])
        out, _ = hk.dynamic_unroll(cells, x, cells.initial_state(x.shape[0]), time_major=False)
        return out

    return haiku(function, floats(2, 7, 3), training=False)


def haiku_transformer() -> Case:
    import haiku as hk
    import jax

    def function(x: Any) -> Any:
        h = hk.LayerNorm(-1, True, True)(x)
        x = x + hk.MultiHeadAttention(2, 4, model_size=8, w_init=hk.initializers.VarianceScaling())(h, h, h)
        h = hk.LayerNorm(-1, True, True)(x)
        return x + hk.Linear(8)(jax.nn.gelu(hk.Linear(32)(h)))

    return haiku(function, floats(2, 5, 8), training=False)


HAIKU = {
    "MLP": haiku_mlp,
    "ResNet18": haiku_net("ResNet18", floats(2, 32, 32, 3), num_classes=10),
    "ResNet50": haiku_net("ResNet50", floats(2, 32, 32, 3), num_classes=10),
    "MobileNetV1": haiku_net("MobileNetV1", floats(2, 32, 32, 3), num_classes=10),
    "VectorQuantizer": haiku_quantizer("VectorQuantizer"),
    "VectorQuantizerEMA": haiku_quantizer("VectorQuantizerEMA"),
    "recurrent": haiku_recurrent,
    "transformer": haiku_transformer,
}


# Models of Flax.


def linen(make_module: Callable[[], Any], *examples: np.ndarray) -> Callable[[], Case]:
    def make() -> Case:
        import jax

        module = make_module()
        params = module.init(jax.random.PRNGKey(0), *examples)
        made = cm.from_flax_module(module, examples, params=params)
        return made, examples, lambda *xs: [np.asarray(x) for x in flat(module.apply(params, *xs))]

    return make


def linen_modules() -> dict[str, Any]:
    import jax.numpy as jnp
    from flax import linen as nn

    class Mlp(nn.Module):
        @nn.compact
        def __call__(self, x):
            for width in (16, 16):
                x = nn.silu(nn.Dense(width)(x))
            return nn.Dense(4)(x)

    class Cnn(nn.Module):
        @nn.compact
        def __call__(self, x, train=False):
            for width in (8, 16):
                x = nn.Conv(width, (3, 3), use_bias=False)(x)
                x = nn.relu(nn.BatchNorm(use_running_average=not train)(x))
                x = nn.avg_pool(x, (2, 2), (2, 2))
            x = x.reshape((x.shape[0], -1))
            return nn.Dense(10)(nn.Dropout(0.2, deterministic=not train)(nn.relu(nn.Dense(32)(x))))

    class Block(nn.Module):
        @nn.compact
        def __call__(self, ids, deterministic=True):
            x = nn.Embed(20, 16)(ids) + nn.Embed(8, 16)(jnp.arange(ids.shape[1]))[None]
            mask = nn.make_causal_mask(ids)
            h = nn.MultiHeadDotProductAttention(4, dropout_rate=0.1)(
                nn.LayerNorm()(x), mask=mask, deterministic=deterministic
            )
            x = x + h
            h = nn.Dense(16)(nn.gelu(nn.Dense(64)(nn.LayerNorm()(x))))
            return nn.Dense(20)(x + nn.Dropout(0.1)(h, deterministic=deterministic))

    class Recurrent(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.RNN(nn.OptimizedLSTMCell(6))(x)
            return nn.Bidirectional(nn.RNN(nn.GRUCell(5)), nn.RNN(nn.GRUCell(5)))(x)

    return {"Mlp": Mlp, "Cnn": Cnn, "Block": Block, "Recurrent": Recurrent}


def nnx(name: str, *examples: np.ndarray) -> Callable[[], Case]:
    def make() -> Case:
        module = nnx_modules()[name]()
        made = cm.from_flax_module(module, examples)
        module.eval()
        return made, examples, lambda *xs: [np.asarray(x) for x in flat(module(*xs))]

    return make


def nnx_modules() -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    from flax import nnx as nn

    class Mlp(nn.Module):
        def __init__(self, rngs):
            self.layers = nn.List([nn.Linear(a, b, rngs=rngs) for a, b in ((8, 16), (16, 16), (16, 4))])

        def __call__(self, x):
            for layer in self.layers[:-1]:
                x = jax.nn.silu(layer(x))
            return self.layers[-1](x)

    class Cnn(nn.Module):
        def __init__(self, rngs):
            self.conv, self.norm = nn.Conv(3, 8, (3, 3), rngs=rngs), nn.BatchNorm(8, rngs=rngs)
            self.drop = nn.Dropout(0.2, rngs=rngs)
            self.out = nn.Linear(8 * 16, 10, rngs=rngs)

        def __call__(self, x):
            x = nn.max_pool(nn.relu(self.norm(self.conv(x))), (2, 2), (2, 2))
            return self.out(self.drop(x.reshape(x.shape[0], -1)))

    class Block(nn.Module):
        def __init__(self, rngs):
            self.embed = nn.Embed(20, 16, rngs=rngs)
            self.attention = nn.MultiHeadAttention(4, 16, decode=False, rngs=rngs)
            self.first, self.second = nn.LayerNorm(16, rngs=rngs), nn.RMSNorm(16, rngs=rngs)
            self.up, self.down = nn.Linear(16, 64, rngs=rngs), nn.Linear(64, 16, rngs=rngs)

        def __call__(self, ids):
            x = self.embed(ids)
            x = x + self.attention(self.first(x), mask=nn.make_causal_mask(ids))
            return self.embed.attend(x + self.down(jax.nn.gelu(self.up(self.second(x)))))

    class Recurrent(nn.Module):
        def __init__(self, rngs):
            self.rnn = nn.RNN(nn.LSTMCell(3, 6, rngs=rngs))
            self.out = nn.Linear(6, 2, rngs=rngs)

        def __call__(self, x):
            return jnp.tanh(self.out(self.rnn(x)))

    made = {"Mlp": Mlp, "Cnn": Cnn, "Block": Block, "Recurrent": Recurrent}
    return {name: lambda kind=kind: kind(nn.Rngs(0)) for name, kind in made.items()}


IDS = np.random.default_rng(0).integers(1, 20, (2, 8)).astype("int32")
EXAMPLES = {"Mlp": floats(3, 8), "Cnn": floats(2, 8, 8, 3), "Block": IDS, "Recurrent": floats(2, 7, 3)}
FLAX = {
    **{f"linen {n}": linen(lambda n=n: linen_modules()[n](), x) for n, x in EXAMPLES.items()},
    **{f"nnx {n}": nnx(n, x) for n, x in EXAMPLES.items()},
}


# Where they go.


def in_torch(made: Any, args: tuple[np.ndarray, ...]) -> Callable[..., list[np.ndarray]]:
    import torch

    net = made.to_torch_module().eval()

    def call(*xs: np.ndarray) -> list[np.ndarray]:
        with torch.no_grad():
            return [x.numpy() for x in flat(net(*map(torch.as_tensor, xs)))]

    return call


def in_haiku(made: Any, args: tuple[np.ndarray, ...]) -> Callable[..., list[np.ndarray]]:
    import haiku as hk
    import jax

    kind = made.to_haiku_module()
    both = hk.transform_with_state(lambda *xs: kind()(*xs, is_training=False))
    params, state = both.init(jax.random.PRNGKey(0), *args)
    run = jax.jit(lambda *xs: both.apply(params, state, None, *xs)[0])
    return lambda *xs: [np.asarray(x) for x in flat(run(*xs))]


def in_keras(made: Any, args: tuple[np.ndarray, ...]) -> Callable[..., list[np.ndarray]]:
    import keras

    model = made.to_keras_module()
    return lambda *xs: [keras.ops.convert_to_numpy(x) for x in flat(model(*xs, training=False))]


TARGETS = {"torch": in_torch, "haiku": in_haiku, "keras": in_keras}
SUITES: dict[str, tuple[dict[str, Callable[[], Case]], tuple[str, ...]]] = {
    "keras": (APPLICATIONS, ("torch", "haiku")),
    "haiku": (HAIKU, ("torch", "keras")),
    "flax": (FLAX, ("torch", "keras")),
}
QUICK = ("keras MobileNet", "haiku VectorQuantizer", "flax linen Block", "flax nnx Cnn")


def error(got: list[np.ndarray], want: list[np.ndarray]) -> float:
    """The largest difference as a share of the largest value."""
    if len(got) != len(want) or any(g.shape != w.shape for g, w in zip(got, want, strict=True)):
        return float("inf")
    shares = [np.abs(g - w).max() / max(np.abs(w).max(), 1e-6) for g, w in zip(got, want, strict=True)]
    return float(max(shares))


def prove(suite: str, name: str) -> Iterator[tuple[str, float, float, str]]:
    """For each target: its name, seconds, error, and what went wrong."""
    cases, targets = SUITES[suite]
    start = time.perf_counter()
    try:
        made, args, reference = cases[name]()
        made.eval()
        sizes = [args, tuple(np.concatenate([x[:1], x]) for x in args)]
        wants = [reference(*xs) for xs in sizes]
    except Exception as e:  # noqa: BLE001 - models raise anything
        yield "capture", time.perf_counter() - start, float("inf"), _words(e)
        return
    for target in targets:
        try:
            call = TARGETS[target](made, args)
            worst = max(error(call(*xs), want) for xs, want in zip(sizes, wants, strict=True))
            yield target, time.perf_counter() - start, worst, ""
        except Exception as e:  # noqa: BLE001 - frameworks raise anything
            yield target, time.perf_counter() - start, float("inf"), _words(e)
        start = time.perf_counter()


def _words(e: Exception) -> str:
    return f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="models whose name has this word")
    parser.add_argument("--quick", action="store_true", help="a few small ones")
    parser.add_argument("--backend", default="native", help="where our module lives in between")
    options = parser.parse_args()
    cm.set_backend(options.backend)
    bad = count = 0
    print(f"{'model':32} {'target':8} {'seconds':>8} {'error':>9}")
    for suite, (cases, _) in SUITES.items():
        for name in cases:
            full = f"{suite} {name}"
            if options.only not in full or options.quick and full not in QUICK:
                continue
            for target, seconds, worst, words in prove(suite, name):
                count += 1
                bad += not worst < TOLERANCE
                print(f"{full:32} {target:8} {seconds:8.1f} {worst:9.1e} {words}", flush=True)
    print(f"{count - bad} of {count} agree within {TOLERANCE}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
