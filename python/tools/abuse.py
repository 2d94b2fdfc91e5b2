"""Random calls of every public function on every backend: nothing may crash, raise a foreign exception, or differ in silence.

    python python/tools/abuse.py --calls 100000 --seed 0 --report abuse.json

Each call is made from its number alone, so a finding is repeated with `--only NUMBER`. Worker processes make the calls; a
worker that dies, or takes longer than `--patience` seconds for one call, is a finding and is replaced.
"""

import argparse
import collections
import inspect
import json
import os
import random
import subprocess
import sys
import time
import warnings
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np

BACKENDS = ["native", "numpy", "torch", "jax", "tensorflow"]

# What reads or writes files, takes models or functions, or changes the process.
LEFT_OUT = frozenset({
    "backend", "backends", "bind_custom_gradient_function", "convert", "current_backend", "custom_vjp", "deserialize", "empty",
    "empty_like", "execute_with_gradients", "explain", "fomaml_step", "from_backend_module", "from_dlpack", "from_file",
    "from_flax_module", "from_haiku_module", "from_jax", "from_keras_module", "from_onnx", "from_torch", "from_torch_module",
    "get", "get_state", "load", "maml_step", "register", "register_backend", "reptile_step", "save", "seed", "serialize",
    "set_backend", "set_default_backend", "set_state", "set_with_grads", "source", "to_flax_module", "to_haiku_module",
    "to_keras_module", "to_onnx", "to_torch_module", "unset_with_grads", "with_grads", "is_array", "map", "bits", "key",
    "to_file", "check", "from_jax_module", "use", "default_backend", "grad", "jac", "hessian", "jvp", "vjp", "linearize",
    "value_and_grad", "vmap", "jit", "checkpoint", "cond", "switch", "while_loop", "scan", "meta", "set_default_dtype", "home",
})  # fmt: skip

# Results that are not determined: signs and orders of vectors, what solves a singular system, what amplifies rounding.
AMBIGUOUS = frozenset({
    "qr", "svd", "eig", "eigh", "eigvals", "lu", "pinv", "solve", "inv", "matrix_rank", "matrix_power", "orthogonal", "det",
    "slogdet", "cholesky", "svdvals", "eigvalsh",
})  # fmt: skip

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip
USUAL = ["float32", "float32", "float32", "float64", "int64", "int32", "bool"]
# Nothing between what is small and what no memory holds: calls are to be many.
HUGE = [2**40, 2**47, 2**62, 2**63 - 1, 2**63, 2**64, -(2**40), -(2**62), -(2**63), -(2**63) - 1]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, float("inf"), float("-inf"), float("nan"), 1e-45, 1e-310, 3e38, 1e308]
WORDS = [
    "same", "SAME", "VALID", "none", "sum", "mean", "NHWC", "NCHW", "NWC", "NSC", "fro", "nuc", "forward", "ortho", "left",
    "right", "", "x", "é\0", "channel_first",
]  # fmt: skip
EQUATIONS = [
    "ij,jk->ik",
    "i,i->",
    "ii->i",
    "ij->ji",
    "...i,...i->...",
    "ij,j",
    "i,j->ij",
    "ij->",
    "i->ii",
    "ij,kj",
    "->",
    "i->j",
]
# What a parameter of this name is likely to be.
KINDS = {
    "axis": "axis", "axes": "axes", "dtype": "dtype", "shape": "shape", "output_shape": "shape", "size": "shape", "n": "count",
    "k": "count", "depth": "count", "num": "count", "num_samples": "count", "population_size": "count", "batch_size": "count",
    "indices": "indices", "true": "indices", "device": "none", "out": "none", "keepdims": "truth", "training": "truth",
    "key": "none", "seed": "seed", "prob": "number", "epsilon": "number", "eps": "number", "alpha": "mixed", "momentum": "number",
    "strides": "window", "kernel": "window", "padding": "padding", "dilations": "window", "x_dilations": "window",
    "output_size": "window", "offset": "mixed", "equation": "equation", "reduction": "word", "data_format": "word",
    "filter_format": "word", "norm": "word", "ord": "mixed", "mode": "word", "start_dim": "axis", "end_dim": "axis",
    "normalized_idxs": "axes", "shift": "mixed", "repeats": "count", "repetitions": "shape", "pad_width": "pads", "num_groups":
    "count", "num_heads": "count", "feature_group_count": "count", "dims": "count", "shapes": "shape", "from_": "dtype", "type":
    "dtype", "kind": "word", "xs": "array", "arrays": "arrays", "tree": "array", "copy": "truth", "n_rows": "count", "n_cols":
    "count", "start": "mixed", "stop": "mixed", "step": "mixed", "fill_value": "mixed", "source": "axis", "destination": "axis",
    "indices_or_sections": "axes", "noise_shape": "shape", "lr": "number", "most": "number", "delta": "number", "rtol": "number",
}  # fmt: skip


def functions(cm: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for prefix, module in (("", cm), ("linalg.", cm.linalg), ("fft.", cm.fft), ("tree.", cm.tree)):
        for name in sorted(dir(module)):
            f = getattr(module, name)
            if name.startswith("_") or name in LEFT_OUT or inspect.isclass(f) or not callable(f) or inspect.ismodule(f):
                continue
            found[prefix + name] = f
    return found


class Draw:
    """One call: a function's name and arguments as plain data, which each backend makes its own arrays of."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        # Sizes that occur again fit each other more often.
        self.sizes = [rng.choice([0, 1, 1, 2, 3, 3, 4, 5]) for _ in range(4)]
        self.dtype = rng.choice(USUAL if rng.random() < 0.7 else DTYPES)

    def shape(self) -> list[int]:
        rng = self.rng
        rank = rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 5])
        return [rng.choice(self.sizes) for _ in range(rank)]

    def array(self, dtype: str | None = None) -> Any:
        rng = self.rng
        dtype = dtype or (self.dtype if rng.random() < 0.8 else rng.choice(DTYPES))
        kind = rng.choice(["plain", "plain", "plain", "special", "zeros", "large"])
        return {"array": {"dtype": dtype, "shape": self.shape(), "kind": kind, "seed": rng.randrange(2**32)}}

    def count(self) -> Any:
        rng = self.rng
        return rng.choice([0, 1, 2, 3, 4, 5]) if rng.random() < 0.8 else rng.choice([*HUGE, -1, -2, 1.5, True, None])

    def value(self, kind: str) -> Any:
        rng = self.rng
        if rng.random() < 0.04:
            return self.wrong()
        if kind == "array":
            return self.array() if rng.random() < 0.9 else self.number()
        if kind == "indices":
            return self.array(rng.choice(["int64", "int32", "uint8", "int8", self.dtype]))
        if kind == "arrays":
            return {"list": [self.array() for _ in range(rng.choice([0, 1, 2, 3]))]}
        if kind == "axis":
            return rng.choice([0, 1, -1, -2, 2, None, 3, -4, *HUGE])
        if kind == "axes":
            return rng.choice(
                [
                    None,
                    0,
                    -1,
                    {"tuple": [rng.choice([0, 1, -1, 2, *HUGE[:4]]) for _ in range(rng.choice([0, 1, 2, 3]))]},
                ]
            )
        if kind == "dtype":
            return {"dtype": rng.choice(DTYPES)} if rng.random() < 0.9 else rng.choice([None, "nonsense", 3])
        if kind == "shape":
            if rng.random() < 0.2:
                return {"tuple": [self.count() for _ in range(rng.choice([0, 1, 2, 3]))]}
            return {"tuple": self.shape()}
        if kind == "count":
            return self.count()
        if kind == "truth":
            return rng.choice([True, False])
        if kind == "none":
            return None
        if kind == "seed":
            return rng.choice([0, 1, 7, 2**62, -1, 2**63])
        if kind == "number":
            return self.number()
        if kind == "window":
            return rng.choice(
                [1, 2, 3, {"tuple": [rng.choice([1, 2, 3]) for _ in range(rng.choice([1, 2, 3]))]}, 0, -1, *HUGE[:4]]
            )
        if kind == "padding":
            pair = lambda: {"tuple": [rng.choice([0, 1, 2, -1, *HUGE[2:4]]) for _ in range(2)]}
            return rng.choice(["SAME", "VALID", {"list": [pair() for _ in range(rng.choice([1, 2, 3]))]}])
        if kind == "pads":
            pair = lambda: {"tuple": [rng.choice([0, 1, 2, *HUGE[2:5]]) for _ in range(2)]}
            return rng.choice([pair(), {"list": [pair() for _ in range(rng.choice([1, 2, 3]))]}])
        if kind == "equation":
            return rng.choice(EQUATIONS)
        if kind == "word":
            return rng.choice(WORDS)
        return self.value(rng.choice(["array", "number", "count"]))

    def number(self) -> Any:
        rng = self.rng
        return (
            {"float": repr(rng.choice(SPECIAL))}
            if rng.random() < 0.5
            else rng.choice([0, 1, 2, -1, 0.5, 0.1, 3, *HUGE])
        )

    def wrong(self) -> Any:
        rng = self.rng
        return rng.choice(
            [
                None,
                "x",
                {"list": []},
                {"dict": {"a": self.array()}},
                {"list": [1, {"list": [2, 3]}]},
                True,
                {"object": 1},
            ]
        )


def drawn(
    number: int, seed: int, names: list[str], signatures: dict[str, list[tuple[str, str, bool]]]
) -> dict[str, Any]:
    rng = random.Random(f"{seed}:{number}")
    name = names[number % len(names)] if rng.random() < 0.9 else rng.choice(names)
    draw = Draw(rng)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter, how, has_default in signatures[name]:
        if parameter == "out":
            continue
        kind = KINDS.get(parameter, "array" if not has_default else "mixed")
        if how == "star":
            args.extend(draw.value(KINDS.get(parameter, "array")) for _ in range(rng.choice([0, 1, 2, 2, 3])))
        elif how == "position" and not has_default:
            args.append(draw.value(kind))
        elif rng.random() < 0.35 or not has_default:
            if how == "position":
                # Those before it have to be given, too.
                if len(args) != [p for p, h, _ in signatures[name] if h == "position"].index(parameter):
                    continue
                args.append(draw.value(kind))
            else:
                kwargs[parameter] = draw.value(kind)
    return {"name": name, "args": args, "kwargs": kwargs, "jit": rng.random() < 0.02}


def array_of(spec: dict[str, Any]) -> Any:
    import ml_dtypes

    rng = np.random.default_rng(spec["seed"])
    dtype = np.dtype(ml_dtypes.bfloat16) if spec["dtype"] == "bfloat16" else np.dtype(spec["dtype"])
    shape, kind = spec["shape"], spec["kind"]
    if kind == "zeros":
        return np.zeros(shape, dtype)
    x = rng.normal(size=shape) * 2
    if kind == "special":
        x = rng.choice(np.array(SPECIAL), size=shape)
    if kind == "large":
        x = x * 1e6
    if dtype.kind == "c":
        y = rng.normal(size=shape) * 2 if kind != "special" else rng.choice(np.array(SPECIAL), size=shape)
        z = np.empty(shape, dtype)
        z.real, z.imag = x, y
        return z
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        whole = rng.integers(0 if dtype.kind == "u" else -4, 6, size=shape)
        if kind in ("special", "large"):
            whole = rng.choice(np.array([limits.min, limits.max, 0, 1], dtype=dtype), size=shape)
        return np.asarray(whole).astype(dtype)
    if dtype.kind == "b":
        return x > 0
    return x.astype(dtype)


def made(x: Any, cm: Any) -> Any:
    """An argument on the current backend."""
    if not isinstance(x, dict):
        return x
    ((kind, inside),) = x.items()
    if kind == "array":
        return cm.asarray(array_of(inside))
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(made(y, cm) for y in inside)
    if kind == "dict":
        return {name: made(y, cm) for name, y in inside.items()}
    if kind == "float":
        return float(inside)
    if kind == "dtype":
        return getattr(cm, inside)
    return object()


def values(x: Any, cm: Any) -> list[Any]:
    if isinstance(x, cm.Tensor):
        return [np.asarray(x.numpy())]
    if isinstance(x, dict):
        return [v for y in x.values() for v in values(y, cm)]
    if isinstance(x, (list, tuple)):
        return [v for y in x for v in values(y, cm)]
    return [] if x is None or not isinstance(x, (bool, int, float)) else [np.asarray(x)]


def outcome(call: dict[str, Any], backend: str, cm: Any, all_: dict[str, Any]) -> dict[str, Any]:
    f = all_[call["name"]]
    try:
        with cm.backend(backend):
            cm.seed(7)
            try:
                args = [made(x, cm) for x in call["args"]]
                kwargs = {name: made(x, cm) for name, x in call["kwargs"].items()}
            except cm.ClematisError as e:
                # A framework without such an element type.
                return {"skipped": type(e).__name__}
            if call["jit"]:
                f = cm.jit(f, compiler=False)
            return {"values": values(f(*args, **kwargs), cm)}
    except Exception as e:  # noqa: BLE001  which exception it is, is what is asked
        kind = type(e)
        ours = isinstance(e, cm.ClematisError) or kind in (TypeError, ValueError)
        name = kind.__name__ if ours else f"{kind.__module__}.{kind.__name__}"
        return {
            "error": name,
            "foreign": not ours or kind.__name__ in ("InternalError", "FrameworkError"),
            "text": str(e)[:300],
        }
    except BaseException as e:
        if isinstance(e, (KeyboardInterrupt, SystemExit)):
            raise
        return {"error": type(e).__name__, "foreign": True, "panic": True, "text": str(e)[:300]}


def tolerance(dtype: np.dtype) -> float:
    name = dtype.name
    return {"float16": 2e-2, "bfloat16": 1e-1, "float32": 2e-3, "complex64": 2e-3}.get(
        name, 1e-6 if dtype.kind in "fc" else 0.0
    )


def difference(a: np.ndarray, b: np.ndarray) -> str | None:
    if a.dtype.name != b.dtype.name or a.shape != b.shape:
        return f"{a.dtype.name}{list(a.shape)} and {b.dtype.name}{list(b.shape)}"
    if a.dtype.kind not in "fc" and a.dtype.name != "bfloat16":
        wrong = np.argwhere(a != b)
    else:
        complex_ = a.dtype.kind == "c"
        parts = [(a.real, b.real), (a.imag, b.imag)] if complex_ else [(a, b)]
        close = np.ones(a.shape, bool)
        size = np.abs(np.nan_to_num(a.astype("complex128" if complex_ else "float64"), posinf=0, neginf=0))
        scale = size.max(initial=0.0) if size.size else 0.0
        for x, y in parts:
            x, y = x.astype("float64"), y.astype("float64")
            with np.errstate(all="ignore"):
                near = np.abs(x - y) <= tolerance(a.dtype) * (np.abs(x) + min(scale, 1e30) + 1e-3)
            close &= near | (x == y) | (np.isnan(x) & np.isnan(y))
        wrong = np.argwhere(~close)
    if not len(wrong):
        return None
    at = tuple(wrong[0])
    return f"{a[at]!r} and {b[at]!r} at {[int(i) for i in at]}"


def judged(call: dict[str, Any], found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What is wrong with the outcomes of one call."""
    out = []
    for backend, one in found.items():
        if one.get("foreign"):
            what = "panic" if one.get("panic") else "foreign"
            out.append({"what": what, "backend": backend, "error": one["error"], "text": one["text"]})
    known = {b: o for b, o in found.items() if "skipped" not in o}
    if not known:
        return out
    first_name, first = next(iter(known.items()))
    for backend, one in list(known.items())[1:]:
        if ("error" in first) != ("error" in one) or first.get("error") != one.get("error"):
            if "UnsupportedError" in (first.get("error"), one.get("error")):
                continue
            shown = [
                f"{b}: {o.get('error', 'no error')}: {o.get('text', '')}"
                for b, o in ((first_name, first), (backend, one))
            ]
            out.append({"what": "class", "backend": backend, "error": "", "text": " | ".join(shown)})
        elif "values" in first:
            if len(first["values"]) != len(one["values"]):
                out.append({"what": "value", "backend": backend, "error": "", "text": "another number of results"})
                continue
            for a, b in zip(first["values"], one["values"]):
                if call["name"].rpartition(".")[2] in AMBIGUOUS and a.shape == b.shape and a.dtype.name == b.dtype.name:
                    continue
                told = difference(a, b)
                if told:
                    out.append(
                        {
                            "what": "value",
                            "backend": backend,
                            "error": "",
                            "text": f"{first_name} and {backend}: {told}",
                        }
                    )
                    break
    return out


def signatures(all_: dict[str, Any]) -> dict[str, list[tuple[str, str, bool]]]:
    known = {}
    for name, f in all_.items():
        try:
            parameters = inspect.signature(f).parameters.values()
        except (TypeError, ValueError):
            continue
        how = {"VAR_POSITIONAL": "star", "KEYWORD_ONLY": "word", "VAR_KEYWORD": "rest"}
        each = [(p.name, how.get(p.kind.name, "position"), p.default is not p.empty) for p in parameters]
        known[name] = [one for one in each if one[1] != "rest"]
    return known


def work(first: int, last: int, step: int, seed: int, backends: list[str], only: str) -> None:
    warnings.simplefilter("ignore")
    # Libraries in C write to the standard output, too.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    # Before tensorflow, or the process aborts.
    import torch._dynamo  # noqa: F401  isort: skip
    import clematis as cm

    def tell(**what: Any) -> None:
        print(json.dumps(what), file=channel, flush=True)

    all_ = functions(cm)
    if only:
        all_ = {name: f for name, f in all_.items() if name == only}
    known = signatures(all_)
    names = sorted(known)
    for backend in backends:
        # Loading may take longer than a call may.
        with cm.backend(backend):
            cm.sum(cm.ones((2,)))
    for number in range(first, last, step):
        call = drawn(number, seed, names, known)
        found = {}
        for backend in backends:
            tell(begin=number, name=call["name"], backend=backend)
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                found[backend] = outcome(call, backend, cm, all_)
        kinds = [next(iter(found[b])) for b in backends]
        findings = judged(call, found)
        tell(done=number, kinds=kinds, findings=findings, call=call if findings else None)
    tell(end=True)


def run(
    calls: int, seed: int, backends: list[str], workers: int, patience: float, seconds: float, only: str = ""
) -> dict[str, Any]:
    """All calls by worker processes; findings and counts."""
    import selectors

    counts: collections.Counter[str] = collections.Counter()
    findings: list[dict[str, Any]] = []
    selector = selectors.DefaultSelector()
    end = time.monotonic() + seconds

    def start(first: int) -> None:
        command = [sys.executable, __file__, "--work", str(first), str(calls), str(workers), "--seed", str(seed)]
        command += ["--backends", ",".join(backends), "--function", only]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=dict(os.environ))
        os.set_blocking(process.stdout.fileno(), False)
        state = {
            "process": process,
            "rest": b"",
            "at": None,
            "next": first,
            "since": time.monotonic() + 600,
            "over": False,
        }
        selector.register(process.stdout, selectors.EVENT_READ, state)

    for i in range(workers):
        start(i)
    while selector.get_map() and time.monotonic() < end:
        for key, _ in selector.select(1.0):
            state = key.data
            data = key.fileobj.read()
            if data:
                *lines, state["rest"] = (state["rest"] + data).split(b"\n")
                for line in lines:
                    told = json.loads(line)
                    if "begin" in told:
                        state["at"], state["since"] = told, time.monotonic()
                    elif "done" in told:
                        state["next"] = told["done"] + workers
                        for backend, kind in zip(backends, told["kinds"]):
                            counts[f"{backend}: {kind}"] += 1
                        for one in told["findings"]:
                            findings.append({"number": told["done"], "call": told["call"], **one})
                    else:
                        state["over"] = True
            elif data == b"":
                selector.unregister(key.fileobj)
                state["process"].wait()
                if not state["over"] and state["at"]:
                    at = state["at"]
                    findings.append({"what": "crash", "number": at["begin"], "backend": at["backend"], "error": "",
                                     "text": f"exit {state['process'].returncode}", "call": {"name": at["name"]}})  # fmt: skip
                    if at["begin"] + workers < calls:
                        start(at["begin"] + workers)
        for key in list(selector.get_map().values()):
            state = key.data
            if time.monotonic() - state["since"] > patience:
                at = state["at"]
                if at:
                    findings.append({"what": "hang", "number": at["begin"], "backend": at["backend"], "error": "",
                                     "text": f"over {patience} s", "call": {"name": at["name"]}})  # fmt: skip
                    state["over"] = True
                    if at["begin"] + workers < calls:
                        start(at["begin"] + workers)
                state["process"].kill()
                state["since"] = time.monotonic() + 1e9
    for key in list(selector.get_map().values()):
        key.data["process"].kill()
    return {"counts": dict(counts), "findings": findings}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--patience", type=float, default=60.0)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--function", default="", help="only this one")
    parser.add_argument("--only", type=int, help="one call, with its outcomes")
    parser.add_argument("--report")
    parser.add_argument("--work", type=int, nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    backends = given.backends.split(",")
    if given.work:
        import resource

        limit = 24 << 30
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        work(*given.work, given.seed, backends, given.function)
        return 0
    if given.only is not None:
        import torch._dynamo  # noqa: F401  isort: skip
        import clematis as cm

        all_ = functions(cm)
        known = signatures(all_)
        call = drawn(given.only, given.seed, sorted(known), known)
        print(json.dumps(call, indent=1))
        found = {backend: outcome(call, backend, cm, all_) for backend in backends}
        for backend, one in found.items():
            print(backend, one)
        print(judged(call, found))
        return 0
    report = run(given.calls, given.seed, backends, given.workers, given.patience, given.seconds, given.function)
    by: collections.Counter[str] = collections.Counter()
    for one in report["findings"]:
        by[f"{one['what']} {one['call']['name']} {one['backend']} {one['error']}"] += 1
    for line, count in by.most_common():
        print(count, line)
    print(json.dumps(report["counts"], indent=1))
    print(len(report["findings"]), "findings")
    if given.report:
        with open(given.report, "w") as f:
            json.dump(report, f)
    return 1 if report["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
