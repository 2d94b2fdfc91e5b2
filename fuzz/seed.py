"""Writes the first files of the corpus: `python fuzz/seed.py`, with the package installed. Small ones: mutations of long
inputs rarely reach anything new."""

import json
import pathlib
import tempfile

import clematis as cm
import numpy as np
from clematis import _clematis as core
from clematis import nn

HERE = pathlib.Path(__file__).parent / "corpus"


def put(target, name, data):
    """One file."""
    folder = HERE / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def nets():
    """Modules and their inputs."""
    cm.seed(0)
    yield "linear", nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Dropout(0.5)), (4, 3)
    yield "conv", nn.Sequential(nn.Conv2D(2, 3, 3), nn.BatchNorm2D(3), nn.MaxPool2D(2, 2, 0), nn.Flatten()), (1, 6, 6, 2)
    yield "lstm", nn.LSTM(2, 3, return_state=False), (1, 3, 2)
    yield "attention", nn.MultiHeadAttention(4, num_heads=2), (1, 3, 4)


def onnx_nodes():
    """A model for each of some nodes with many attributes."""
    from onnx import TensorProto, helper

    def tensor(values, dtype="float32"):
        values = np.asarray(values, dtype)
        return helper.make_tensor("", helper.np_dtype_to_tensor_dtype(values.dtype), values.shape, values.flatten().tolist())

    cases = {
        "pad": ("Pad", ["x", "p"], {"p": tensor([0, 1, 0, 2], "int64")}, {"mode": "reflect"}),
        "convtranspose": ("ConvTranspose", ["x4", "w"], {"w": tensor(np.ones((2, 1, 2, 2)))}, {"dilations": [2, 1], "strides": [2, 1]}),
        "einsum": ("Einsum", ["x", "x"], {}, {"equation": "ij,kj->ik"}),
        "resize": ("Resize", ["x4", "", "s"], {"s": tensor([1, 1, 2, 1.5])}, {"mode": "linear"}),
        "attention": ("Attention", ["q", "q", "q"], {}, {"q_num_heads": 2, "kv_num_heads": 1}),
        "slice": ("Slice", ["x", "a", "b"], {"a": tensor([1], "int64"), "b": tensor([-1], "int64")}, {}),
        "reshape": ("Reshape", ["x", "a"], {"a": tensor([-1, 2], "int64")}, {}),
        "range": ("Range", ["a", "b", "c"], {k: tensor(v, "int64") for k, v in (("a", 0), ("b", 9), ("c", 2))}, {}),
        "constantofshape": ("ConstantOfShape", ["a"], {"a": tensor([2, 3], "int64")}, {"value": tensor([1.0])}),
        "gru": ("GRU", ["q", "w", "r"], {"w": tensor(np.ones((1, 6, 4))), "r": tensor(np.ones((1, 6, 2)))}, {"hidden_size": 2}),
        "tile": ("Tile", ["x", "a"], {"a": tensor([2, 3], "int64")}, {}),
        "topk": ("TopK", ["x", "a"], {"a": tensor([2], "int64")}, {"axis": -1}),
        "cast": ("Cast", ["x"], {}, {"to": 10}),
        "quantize": ("QuantizeLinear", ["x", "s"], {"s": tensor(0.5)}, {"output_dtype": 22}),
        "dft": ("DFT", ["x"], {}, {}),
        "unfold": ("Col2Im", ["q", "a", "b"], {"a": tensor([2, 2], "int64"), "b": tensor([2, 2], "int64")}, {}),
    }
    inputs = {"x": ["n", 4], "x4": [1, 2, 4, 4], "q": [1, 4, 4]}
    for name, (op, operands, held, attributes) in cases.items():
        given = [
            helper.make_tensor_value_info(x, TensorProto.FLOAT, inputs[x]) for x in dict.fromkeys(operands) if x in inputs
        ]
        for key, value in held.items():
            value.name = key
        outs = ["y"] if op != "TopK" else ["y", "at"]
        node = helper.make_node(op, operands, outs, **attributes)
        out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph([node], "g", given, [out], list(held.values()))
        version = 24 if op == "Attention" else 21
        yield name, helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)]).SerializeToString()
    # Functions that call functions, a branch and a loop.
    a, b = helper.make_opsetid("own", 1), helper.make_opsetid("", 21)
    one = helper.make_function("own", "One", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])], [b])
    calls = [helper.make_node("One", ["x"], ["z"], domain="own"), helper.make_node("One", ["z"], ["y"], domain="own")]
    two = helper.make_function("own", "Two", ["x"], ["y"], calls, [a, b])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Two", ["x"], ["y"], domain="own")], "g", [x], [y])
    yield "functions", helper.make_model(graph, functions=[one, two], opset_imports=[a, b]).SerializeToString()
    body = helper.make_graph([helper.make_node("Exp", ["x"], ["z"])], "b", [], [helper.make_tensor_value_info("z", 1, None)])
    flag = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    node = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    graph = helper.make_graph([node], "g", [flag, x], [y])
    yield "if", helper.make_model(graph, opset_imports=[b]).SerializeToString()


def main():
    """All of it."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        for name, net, shape in nets():
            net.eval()
            x = np.ones(shape, "float32")
            args = (x,)
            cm.to_file(net, place / "net", args)
            put("model", name, (place / "net").read_bytes())
            cm.to_onnx(net, place / "net", args)
            put("onnx", name, (place / "net").read_bytes())
            net.save(place / "net")
            put("safetensors", name, (place / "net").read_bytes())
        cm.save(place / "tree", {"a": [cm.ones(2), 1, "t", None, True, 1.5, 2j], 3: (cm.zeros((1, 2), dtype="complex128"),)})
        put("safetensors", "tree", (place / "tree").read_bytes())
        for at, x in enumerate([np.ones((2, 3), "f4"), np.asfortranarray(np.ones((2, 3), ">i2")), np.ones((), "c16"), np.ones(3, "?")]):
            with open(place / "x.npy", "wb") as file:
                np.save(file, x)
            put("npy", f"array{at}", (place / "x.npy").read_bytes())
    for name, data in onnx_nodes():
        put("onnx", name, data)
    foreign = '{"__metadata__":{"format":"pt"},"a.b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    put("safetensors", "foreign", len(foreign).to_bytes(8, "little") + foreign.encode() + bytes(8))
    graphs = {
        "plain": (
            'graph {\n  input %0: f32[b,64] input "x"\n  input %1: f32[64,10] param "layers.0.w"\n  input %2: u32[2] key\n'
            "  %3: f32[b,10] = dot_general(%0, %1) {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} "
            '@ "layers.0"\n  %4: f32[b,10] = maximum(%3, 0.0:f32)\n  %5: f32[b,3], %6: i64[b,3] = top_k(%4) {k=3}\n'
            "  return %5, %6, 1.5:f32\n}"
        ),
        "cond": (
            "graph {\n  input %0: bool[] input\n  input %1: f32[n,4] input\n  %2: f32[n,4] = cond(%0, %1) {branches=[graph {\n"
            "    input %0: f32[n,4] input\n    %1: f32[n,4] = exp(%0)\n    return %1\n  }, graph {\n"
            "    input %0: f32[n,4] input\n    return %0\n  }]}\n  return %2\n}"
        ),
        "sizes": (
            "graph {\n  input %0: f32[2*n+1,3] input\n  %1: f32[6*n+3] = reshape(%0) {shape=[6*n+3]}\n"
            "  %2: f32[3,2*n+1] = transpose(%0) {order=[1,0]}\n  return %1, %2\n}"
        ),
    }
    for name, text in graphs.items():
        put("graph", name, text)
        request = {"target": "numpy", "name": "f", "graph": text, "arguments": ["x"], "returns": "\x05", "function": True}
        put("manifest", f"source_{name}", b"\x01" + json.dumps(request).encode())
        request |= {"target": "torch", "function": False, "classes": {"layers.0": "Linear"}, "modules": ["", "layers.0"]}
        put("manifest", f"source_torch_{name}", b"\x01" + json.dumps(request).encode())
    program = {
        "inputs": [{"name": "x", "role": "input", "path": "", "spec": {"dtype": "f32", "shape": ["n", 4]}}],
        "nodes": [{"op": "aten.relu", "variant": "default", "args": [{"v": "x"}], "kwargs": {}, "out": "y"}],
        "outputs": [{"value": {"v": "y"}}],
    }
    put("manifest", "program", b"\x00" + json.dumps(program).encode())
    put("manifest", "sizes", b"\x03max(2*n+1,m)//3%4")
    put("manifest", "dtype", b"\x03bf16")
    put("manifest", "results", b"\x02" + b'{"row":"add","backend":"torch","dtype":"f32","check":"forward","state":"pass"}\n')
    assert core is not None


if __name__ == "__main__":
    main()
