"""The node cases of the package `onnx`: which are run, how results are compared, and which cannot be run and why."""

import functools

import clematis as cm
import numpy as np
import onnx
from clematis import _clematis as core
from clematis._convert.onnx import from_onnx
from onnx import TensorProto, numpy_helper

KNOWN = frozenset(core._onnx_ops())
# Cases of ops that are known, which need what no tensor is.
LIMITS = {
    "test_equal_string": "text: no framework here has tensors of it",
    "test_equal_string_broadcast": "text: no framework here has tensors of it",
    "test_identity_sequence": "a sequence of tensors, which is no tensor",
    "test_identity_opt": "an optional sequence of tensors, which is no tensor",
}
# No framework here stores these, so their values are kept in a wider type; the values are compared there, all of them.
HELD = {
    TensorProto.FLOAT8E4M3FN: "float32", TensorProto.FLOAT8E4M3FNUZ: "float32", TensorProto.FLOAT8E5M2: "float32",
    TensorProto.FLOAT8E5M2FNUZ: "float32", TensorProto.FLOAT4E2M1: "float32", TensorProto.FLOAT8E8M0: "float32",
    TensorProto.UINT4: "uint8", TensorProto.INT4: "int8", TensorProto.UINT2: "uint8", TensorProto.INT2: "int8",
}  # fmt: skip
# Results that are drawn: element type and shape are all that can be the same.
DRAWN = ("bernoulli", "training_dropout")


def ops(model):
    """The names of all ops, those in bodies too."""

    def of(graph):
        for node in graph.node:
            yield f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    yield from of(attribute.g)

    return frozenset(of(model.graph))


@functools.cache
def cases():
    """All cases of the package."""
    from onnx.backend.test.loader import load_model_tests

    with np.errstate(all="ignore"):
        return load_model_tests(kind="node")


def known():
    """The cases of which every op is known."""
    return [c for c in cases() if ops(c.model) <= KNOWN]


def array(x, info):
    """A case's value as numpy's array, in the type that it is kept in."""
    x = numpy_helper.to_array(x) if isinstance(x, TensorProto) else np.asarray(x)
    wide = HELD.get(info.type.tensor_type.elem_type)
    return x if wide is None else x.astype(wide)


def outputs(data, feed):
    """The outputs, of a program if shapes allow for one: inputs that decide about them are given with the model."""

    def captured(values):
        net = from_onnx(data, values=values)
        names = net._programs[0].arguments.names
        out = net(*[cm.asarray(feed[name]) for name in names])
        return out if isinstance(out, tuple) else (out,)

    with cm.backend("native"):
        for values in ({}, dict(list(feed.items())[1:])):
            try:
                return captured(values)
            except cm.UnsupportedError as e:
                if "its value must be known" not in str(e) and "has no shape; give its value" not in str(e):
                    raise
        return [x for _, x in core._run_onnx(data, feed)]


def check(case):
    """Runs a case; an error if anything differs from what the package says."""
    graph, data = case.model.graph, case.model.SerializeToString()
    for given, wanted in case.data_sets:
        feed = {i.name: array(x, i) for i, x in zip(graph.input, given, strict=True)}
        got = outputs(data, feed)
        assert len(got) == len(wanted)
        for x, want, info in zip(got, wanted, graph.output, strict=True):
            x, want = np.asarray(x.to("numpy").native), array(want, info)
            assert x.shape == want.shape
            assert x.dtype == want.dtype
            if any(word in case.name for word in DRAWN) and "zero_ratio" not in case.name:
                continue
            narrow = info.type.tensor_type.elem_type in HELD
            close(x, want, 0.0 if narrow else case.rtol, 0.0 if narrow else case.atol)


def close(x, want, rtol, atol):
    """As the package's own runner of these cases compares, with its tolerances; narrow types are compared exactly."""
    wide = {"c": np.complex128, "f": np.float64, "V": np.float64}.get(want.dtype.kind)
    if wide is None:
        np.testing.assert_array_equal(x, want)
        return
    rtol = max(rtol, 2.0**-6) if want.dtype.name == "bfloat16" else rtol
    np.testing.assert_allclose(x.astype(wide), want.astype(wide), rtol=rtol, atol=atol)
