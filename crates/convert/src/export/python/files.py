"""Loads weights and runs the model on .npy files."""

import argparse
import json
import pathlib

import numpy as np

WORDS = {
    "bool": "bool", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "c64": "complex64", "c128": "complex128",
}


def dtype(word):
    """The NumPy dtype of a short name."""
    if word == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(WORDS[word])


def weights(place):
    """The tensors of model.safetensors by name, as NumPy arrays."""
    path = pathlib.Path(place).with_name("model.safetensors")
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = memoryview(file.read())
    header.pop("__metadata__", None)
    found = {}
    for name, x in header.items():
        start, end = x["data_offsets"]
        found[name] = np.frombuffer(data[start:end], dtype(x["dtype"].lower())).reshape(x["shape"])
    return found


def from_numpy(ops, word, x):
    """Converts a NumPy array to the framework, in the dtype of this short name."""
    x = np.ascontiguousarray(x, dtype(word))
    return ops.from_bytes(x.tobytes(), word, x.shape)


def to_numpy(ops, word, x):
    """Converts an array of the framework to NumPy."""
    return np.frombuffer(ops.to_bytes(x), dtype(word)).reshape(tuple(x.shape))


def random_input(word, shape):
    """Random input; a symbolic size is 2."""
    shape = [n if isinstance(n, int) else 2 for n in shape]
    rng = np.random.default_rng(0)
    kind = dtype(word)
    return rng.integers(0, 2, shape).astype(kind) if kind.kind in "biu" else rng.standard_normal(shape).astype(kind)


def main(call, inputs, outputs):
    """Runs `call` on .npy files."""
    parser = argparse.ArgumentParser(description="Runs the model.")
    parser.add_argument("files", nargs="*", metavar="x.npy", help=f"one file per input: {', '.join(inputs)}")
    parser.add_argument("--out", help="the .npz file for the outputs")
    options = parser.parse_args()
    if options.files and len(options.files) != len(inputs):
        parser.error(f"expected {len(inputs)} files ({', '.join(inputs)}), got {len(options.files)}")
    if options.files:
        arrays = [np.load(path) for path in options.files]
    else:
        arrays = [random_input(*spec) for spec in inputs.values()]
    results = dict(zip(outputs, call(*arrays), strict=True))
    for name, x in results.items():
        print(f"{name}: {x.dtype} {x.shape}")
    if options.out:
        np.savez(options.out, **results)
