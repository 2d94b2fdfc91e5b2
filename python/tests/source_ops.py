"""A line of a graph for each op, as its text has it, on small inputs."""

import pathlib
import re

import numpy as np

_PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "ops.md"


def _floats(*shape, low=0.2, high=0.9, seed=0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype("float32")


X, Y, Z = _floats(2, 3), _floats(2, 3, seed=1), _floats(2, 3, seed=2)
IMAGE, FILTER = _floats(1, 5, 5, 2), _floats(3, 3, 2, 4, seed=1)
SQUARE = _floats(3, 3) + 2 * np.eye(3, dtype="float32")
SYMMETRIC = (SQUARE + SQUARE.T) / 2
I, J = np.array([[1, 5, 3], [7, 2, 4]], "int32"), np.array([[2, 3, 2], [1, 3, 2]], "int32")
B, C = I > 2, J > 2
COMPLEX = (X + 1j * Y).astype("complex64")
_WINDOW = "size=[1,2,2,1], strides=[1,1,1,1], padding=[[0,0],[0,0],[0,0],[0,0]], base_dilation=[1,1,1,1], window_dilation=[1,1,1,1]"
_POOL = "size=[1,2,2,1], strides=[1,2,2,1], padding=[[0,0],[0,0],[0,0],[0,0]], dilation=[1,1,1,1]"
_SCATTER = "window_axes=[1], inserted=[0], index_map=[0], operand_batch=[], index_batch=[], mode=drop"
_WHOLE = {"bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right", "bitwise_not"}
_TRUTH = {"logical_and", "logical_or", "logical_xor", "logical_not"}
_BODY = "graph {\n    input %0: f32[2,3] input\n    %1: f32[2,3] = WHAT\n    return %1\n  }"

# Name: inputs, specs of the results, the call.
_OTHERS = {
    "select": ((B, X, Y), "f32[2,3]", "select(%0, %1, %2)"),
    "clamp": ((X,), "f32[2,3]", "clamp(0.3:f32, %0, 0.6:f32)"),
    "stop_gradient": ((X,), "f32[2,3]", "stop_gradient(%0)"),
    "dynamic_slice": ((X, np.array([0, 1], "int32")), "f32[2,2]", "dynamic_slice(%0, %1) {sizes=[2,2]}"),
    "dynamic_update_slice": (
        (X, Y[:, :2].copy(), np.array([0, 1], "int32")),
        "f32[2,3]",
        "dynamic_update_slice(%0, %1, %2)",
    ),
    "lu": ((SQUARE,), "f32[3,3], i32[3], i32[3]", "lu(%0)"),
    "cast": ((X,), "i32[2,3]", "cast(%0) {dtype=i32}"),
    "bitcast": ((X,), "i32[2,3]", "bitcast(%0) {dtype=i32}"),
    "reshape": ((X,), "f32[3,2]", "reshape(%0) {shape=[3,2]}"),
    "transpose": ((X,), "f32[3,2]", "transpose(%0) {axes=[1,0]}"),
    "concat": ((X, Y), "f32[2,6]", "concat(%0, %1) {axis=1}"),
    "reverse": ((X,), "f32[2,3]", "reverse(%0) {axes=[1]}"),
    "top_k": ((X,), "f32[2,2], i64[2,2]", "top_k(%0) {k=2}"),
    "nonzero": ((B,), "i64[4,2]", "nonzero(%0) {size=4}"),
    "searchsorted": ((np.sort(X[0]), Y[0]), "i64[3]", "searchsorted(%0, %1) {right=false}"),
    "full": ((), "f32[2,3]", "full() {value=0.5, dtype=f32, shape=[2,3]}"),
    "iota": ((), "i32[2,3]", "iota() {axis=1, dtype=i32, shape=[2,3]}"),
    "broadcast": ((X,), "f32[2,4,3]", "broadcast(%0) {shape=[2,4,3], axes=[0,2]}"),
    "slice": ((X,), "f32[1,2]", "slice(%0) {start=[1,0], limit=[2,3], strides=[1,2]}"),
    "pad": ((X,), "f32[4,5]", "pad(%0, 0.5:f32) {low=[1,0], high=[1,2], interior=[0,0]}"),
    "gather": (
        (X, np.array([[2], [0]], "int32")),
        "f32[2,2]",
        "gather(%0, %1) {offset_axes=[0], collapsed=[1], index_map=[1], operand_batch=[], index_batch=[], slice_sizes=[2,1], mode=clip}",
    ),
    "sort": ((X,), "f32[2,3]", "sort(%0) {axis=1, keys=1, descending=false, stable=true}"),
    "dot_general": (
        (X, Y),
        "f32[2,2]",
        "dot_general(%0, %1) {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[1]}",
    ),
    "conv_general": (
        (IMAGE, FILTER),
        "f32[1,5,5,4]",
        "conv_general(%0, %1) {strides=[1,1], padding=[[1,1],[1,1]], lhs_dilation=[1,1], rhs_dilation=[1,1], lhs_layout=[0,3,1,2], rhs_layout=[3,2,0,1], out_layout=[0,3,1,2], feature_groups=1, batch_groups=1}",
    ),
    "cholesky": ((SQUARE @ SQUARE.T,), "f32[3,3]", "cholesky(%0) {upper=false}"),
    "qr": ((SQUARE,), "f32[3,3], f32[3,3]", "qr(%0) {complete=false}"),
    "svd": ((SQUARE,), "f32[3]", "svd(%0) {complete=false, vectors=false}"),
    "eigh": ((SYMMETRIC,), "f32[3]", "eigh(%0) {vectors=false}"),
    "eig": ((np.triu(SQUARE),), "c64[3]", "eig(%0) {vectors=false}"),
    "triangular_solve": (
        (np.tril(SQUARE), SQUARE),
        "f32[3,3]",
        "triangular_solve(%0, %1) {left=true, lower=true, transpose=no, unit_diagonal=false}",
    ),
    "cond": (
        (np.array(1, "int32"), X),
        "f32[2,3]",
        f"cond(%0, %1) {{branches=[{_BODY.replace('WHAT', 'exp(%0)')}, {_BODY.replace('WHAT', 'tanh(%0)')}]}}",
    ),
    "while": (
        (X,),
        "f32[2,3]",
        "while(%0) {test=graph {\n    input %0: f32[2,3] input\n    %1: f32[] = reduce_sum(%0) {axes=[0,1]}\n"
        "    %2: bool[] = less(%1, 20.0:f32)\n    return %2\n  }, body="
        + _BODY.replace("WHAT", "mul(%0, 2.0:f32)")
        + ", test_consts=0, body_consts=0}",
    ),
    "scan": (
        (X[0], X),
        "f32[3], f32[2,3]",
        (
            "scan(%0, %1) {body=graph {\n    input %0: f32[3] input\n    input %1: f32[3] input\n"
            "    %2: f32[3] = add(%0, %1)\n    %3: f32[3] = mul(%2, %1)\n    return %2, %3\n  },"
            " consts=0, carries=1, length=2, reverse=true}"
        ),
    ),
    "reduce_any": ((B,), "bool[2]", "reduce_any(%0) {axes=[1]}"),
    "reduce_all": ((B,), "bool[2]", "reduce_all(%0) {axes=[1]}"),
    "argmax": ((X,), "i64[2]", "argmax(%0) {axis=1}"),
    "argmin": ((X,), "i64[2]", "argmin(%0) {axis=1}"),
    "fft": ((COMPLEX,), "c64[2,3]", "fft(%0) {axes=[1], length=3}"),
    "ifft": ((COMPLEX,), "c64[2,3]", "ifft(%0) {axes=[1], length=3}"),
    "rfft": ((X,), "c64[2,2]", "rfft(%0) {axes=[1], length=3}"),
    "irfft": ((COMPLEX,), "f32[2,4]", "irfft(%0) {axes=[1], length=4}"),
    "leaky_relu": ((X,), "f32[2,3]", "leaky_relu(%0) {negative_slope=0.1}"),
    "elu": ((X,), "f32[2,3]", "elu(%0) {alpha=0.5}"),
    "gelu": ((X,), "f32[2,3]", "gelu(%0) {approximate=false}"),
    "softmax": ((X,), "f32[2,3]", "softmax(%0) {axis=1}"),
    "log_softmax": ((X,), "f32[2,3]", "log_softmax(%0) {axis=1}"),
    "logsumexp": ((X,), "f32[2]", "logsumexp(%0) {axes=[1]}"),
    "mean": ((X,), "f32[2]", "mean(%0) {axes=[1]}"),
    "var": ((X,), "f32[2]", "var(%0) {axes=[1], correction=1.0}"),
    "layer_norm": ((X, X[0], Y[0]), "f32[2,3]", "layer_norm(%0, %1, %2) {axis=1, epsilon=1e-5}"),
    "layer_norm_grad": (
        (X, Y, X[0]),
        "f32[2,3], f32[3], f32[3]",
        "layer_norm_grad(%0, %1, %2) {axis=1, epsilon=1e-5}",
    ),
    "rms_norm": ((X, X[0]), "f32[2,3]", "rms_norm(%0, %1) {axis=1, epsilon=1e-5}"),
    "group_norm": (
        (IMAGE, X[0][:2], Y[0][:2]),
        "f32[1,5,5,2]",
        "group_norm(%0, %1, %2) {axis=3, groups=1, epsilon=1e-5}",
    ),
    "batch_norm": (
        (X, X[0], Y[0], Y[1], X[1]),
        "f32[2,3]",
        "batch_norm(%0, %1, %2, %3, %4) {axis=1, epsilon=1e-5}",
    ),
    "linear": ((X, Y, X[:, 0].copy()), "f32[2,2]", "linear(%0, %1, %2)"),
    "embedding": ((X, np.array([1, 0, 1], "int32")), "f32[3,3]", "embedding(%0, %1)"),
    "attention": ((X[None], Y[None], Z[None]), "f32[1,2,3]", "attention(%0, %1, %2) {scale=0.5, causal=true}"),
    "conv_transpose": (
        (_floats(1, 4, 4, 2), _floats(3, 3, 2, 3)),
        "f32[1,8,8,3]",
        "conv_transpose(%0, %1) {strides=[2,2], padding=[[0,1],[0,1]], rhs_dilation=[1,1], lhs_layout=[0,3,1,2], rhs_layout=[2,3,0,1], out_layout=[0,3,1,2], feature_groups=1}",
    ),
    "max_pool": ((IMAGE,), "f32[1,2,2,2]", f"max_pool(%0) {{{_POOL}}}"),
    "avg_pool": ((IMAGE,), "f32[1,2,2,2]", f"avg_pool(%0) {{{_POOL}, count_padding=false}}"),
    "einsum": ((X, Y), "f32[2,2]", 'einsum(%0, %1) {equation="ik,jk->ij"}'),
    "one_hot": ((I,), "f32[2,3,8]", "one_hot(%0) {depth=8, dtype=f32}"),
    "cross_entropy": ((X, np.array([0, 2], "int32")), "f32[2]", "cross_entropy(%0, %1)"),
    "lstm_cell": (
        (X, Y, Z, _floats(12, 3), _floats(12, 3, seed=1)),
        "f32[2,3], f32[2,3]",
        "lstm_cell(%0, %1, %2, %3, %4)",
    ),
    "gru_cell": ((X, Y, _floats(9, 3), _floats(9, 3, seed=1)), "f32[2,3]", "gru_cell(%0, %1, %2, %3)"),
    "solve": ((SQUARE, SYMMETRIC), "f32[3,3]", "solve(%0, %1)"),
    "inv": ((SQUARE,), "f32[3,3]", "inv(%0)"),
    "det": ((SQUARE,), "f32[]", "det(%0)"),
    "random_bits": ((np.array([1, 2], "uint32"),), "u32[2,3]", "random_bits(%0) {dtype=u32, shape=[2,3]}"),
    "dropout": ((X, np.array([1, 2], "uint32")), "f32[2,3]", "dropout(%0, %1) {rate=0.5}"),
    "function": ((X,), "f32[2,3]", f'function(%0) {{name="f", body={_BODY.replace("WHAT", "exp(%0)")}}}'),
    "complex": ((X, Y), "c64[2,3]", "complex(%0, %1)"),
    "polygamma": ((np.ones((2, 3), "float32"), X), "f32[2,3]", "polygamma(%0, %1)"),
}
# Over a group of devices: no file of one model can say that. A resize holds tables, which are opened before.
APART = {"all_reduce_sum", "all_gather", "reduce_scatter_sum", "all_to_all", "broadcast_from", "resize"}


def _spec(x):
    short = {"float32": "f32", "int32": "i32", "bool": "bool", "complex64": "c64", "uint32": "u32", "int64": "i64"}
    return f"{short[str(x.dtype)]}[{','.join(map(str, x.shape))}]"


def _row(name, section):
    if name in _OTHERS:
        return _OTHERS[name]
    if section in ("Unary", "Binary", "Comparisons"):
        many = section != "Unary"
        args = (I, J) if name in _WHOLE else (B, C) if name in _TRUTH else (X, Y)
        args = (X + 1, Y) if name == "acosh" else args
        args = args if many else args[:1]
        is_bool = name in _TRUTH or section == "Comparisons" or name.startswith(("is", "signbit"))
        out = "bool[2,3]" if is_bool else _spec(args[0])
        if name in ("real", "imag", "conj"):
            args, out = (COMPLEX,), "c64[2,3]" if name == "conj" else "f32[2,3]"
        return args, out, f"{name}({', '.join(f'%{i}' for i in range(len(args)))})"
    if name.startswith("reduce_window"):
        return (IMAGE,), "f32[1,4,4,2]", f"{name}(%0) {{{_WINDOW}}}"
    if name.startswith("window_scatter"):
        return (IMAGE, IMAGE[:, :4, :4].copy()), "f32[1,5,5,2]", f"{name}(%0, %1) {{{_WINDOW}}}"
    if name.startswith("window_gather"):
        return (IMAGE, IMAGE * 2), "f32[1,4,4,2]", f"{name}(%0, %1) {{{_WINDOW}}}"
    if name.startswith("scatter"):
        return (X, np.array([[1]], "int32"), Y[:1].copy()), "f32[2,3]", f"{name}(%0, %1, %2) {{{_SCATTER}}}"
    if name.startswith("cumulative"):
        return (X,), "f32[2,3]", f"{name}(%0) {{axis=1, reverse=false}}"
    if name.startswith("reduce"):
        return (X,), "f32[2]", f"{name}(%0) {{axes=[1]}}"
    return (X,), "f32[2,3]", f"{name}(%0)"


def _graph(args, outs, call):
    lines = [f'  input %{i}: {_spec(x)} input "x{i}"' for i, x in enumerate(args)]
    specs = re.findall(r"\w+\[[\d,]*\]", outs)
    names = [f"%{len(args) + i}" for i in range(len(specs))]
    left = ", ".join(f"{name}: {spec}" for name, spec in zip(names, specs, strict=True))
    return "graph {\n" + "\n".join([*lines, f"  {left} = {call}", f"  return {', '.join(names)}"]) + "\n}\n", len(specs)


def _all():
    section, found = "", {}
    for line in _PAGE.read_text(encoding="utf-8").splitlines():
        section = line[3:] if line.startswith("## ") else section
        name = re.match(r"\| `(\w+)` \|", line)
        # Only the largest and smallest of a window have a place.
        only = name and name[1].startswith(("window_", "reduce_window")) and name[1].endswith(("_sum", "_prod"))
        if name and name[1] not in APART and not (only and name[1].startswith("window_")):
            args, outs, call = _row(name[1], section)
            found[name[1]] = (args, *_graph(args, outs, call))
    return found


# Name: inputs, the text of a graph, how many results.
OPS = _all()
