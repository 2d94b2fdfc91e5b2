"""What is saved comes back to the bit on each backend, and a file of the wanted name is always whole."""

import dataclasses
import json
import math
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections import OrderedDict, namedtuple

import clematis as cm
import numpy as np
import pytest

DTYPES = [
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
# How often the process that saves is killed; the full count takes some minutes.
KILLS = int(os.environ.get("CLEMATIS_KILLS", "40"))


def bits(x):
    return np.asarray(x).tobytes()


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b)


def header_of(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + size])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.safetensors"


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_element_type_comes_back_on_each_backend(backend, path, dtype):
    values = [0, 1, 1, 0, 1, 1] if dtype == "bool" else [0, 1, 2, 3, 100, 127]
    full = cm.reshape(cm.asarray(values, dtype=dtype), (2, 1, 3))
    tree = {"full": full, "none": cm.zeros((2, 0, 3), dtype=dtype), "one": cm.asarray(1, dtype=dtype)}
    cm.save(path, tree)
    back = cm.load(path)
    assert list(back) == list(tree)
    for name, x in tree.items():
        assert back[name].backend == backend
        assert same(back[name], x), name
    filled = cm.load(path, like=tree)
    assert all(same(filled[name], x) for name, x in tree.items())


def test_a_file_of_one_backend_is_read_on_the_others(backend, path):
    with cm.backend("native"):
        x = cm.sin(cm.reshape(cm.arange(15.0), (5, 3)))
        cm.save(path, [x])
    (y,) = cm.load(path)
    assert y.backend == backend
    assert same(x, y)


def test_the_same_tree_gives_the_same_bytes_on_each_backend(backend, path):
    def tree():
        return {"layers": {"v0": {"w": cm.reshape(cm.arange(6.0), (2, 3)), "b": cm.zeros((3,))}}, "step": 3}

    cm.save(path, tree())
    own = path.read_bytes()
    with cm.backend("native"):
        cm.save(path, tree())
    assert own == path.read_bytes()
    assert {"layers.v0.w", "layers.v0.b"} < set(header_of(path))


Pair = namedtuple("Pair", "a b")


@dataclasses.dataclass
class Both:
    w: object
    rate: float


def test_plain_values_and_container_types_survive(path):
    tree = {
        "list": [1, (2.5, None, ()), [], {}],
        "texts": ["", 'é\0"\\', "🐢"],
        "numbers": (0, -1, 2**63, -(10**40), 1e308, -0.0, math.inf, 0.1, 1 - 2j, True, False),
        3: "int",
        None: {True: cm.ones((1,)), "a.b": cm.zeros((1,))},
        "": cm.asarray(7),
    }
    cm.save(path, tree)
    back = cm.load(path)
    assert list(back) == list(tree)
    for key in ("list", "texts", "numbers", 3):
        assert back[key] == tree[key]
    assert [type(x) for x in back["numbers"]] == [type(x) for x in tree["numbers"]]
    assert math.copysign(1, back["numbers"][5]) == -1
    assert list(back[None]) == [True, "a.b"]
    cm.save(path, [math.nan])
    assert math.isnan(cm.load(path)[0])
    cm.save(path, None)
    assert cm.load(path) is None
    cm.save(path, cm.asarray([1, 2]))
    assert same(cm.load(path), cm.asarray([1, 2]))


def test_a_structure_comes_back_as_it_was_with_like(path):
    def tree(value):
        x = cm.full((2,), value)
        return {
            "c": cm.Container(w=x, inner={"b": x}),
            "p": Pair(x, value),
            "d": Both(x, value),
            "o": OrderedDict(z=x),
            "text": str(value),
            "none": None,
            "raw": np.full((2,), value),
            "kept": print,
        }

    saved = tree(1.0)
    del saved["kept"]
    cm.save(path, saved)
    back = cm.load(path, like=tree(2.0))
    assert type(back["c"]) is cm.Container and type(back["c"].inner) is cm.Container
    assert type(back["p"]) is Pair and type(back["d"]) is Both and type(back["o"]) is OrderedDict
    assert type(back["raw"]) is np.ndarray and back["raw"].tolist() == [1.0, 1.0]
    assert back["p"].b == 1.0 and back["d"].rate == 1.0 and back["text"] == "1.0"
    assert back["kept"] is print
    for x in (back["c"].w, back["c"].inner.b, back["p"].a, back["d"].w, back["o"]["z"]):
        assert same(x, cm.full((2,), 1.0))
    alone = cm.load(path)
    assert type(alone["c"]) is dict and type(alone["p"]) is tuple and type(alone["d"]) is dict


def test_like_decides_the_backend_of_each_leaf(backend, path):
    cm.save(path, {"w": cm.ones((2,))})
    with cm.backend("native"):
        like = {"w": cm.zeros((2,))}
    assert cm.load(path, like)["w"].backend == "native"
    assert cm.load(path)["w"].backend == backend


def test_all_differences_are_listed_at_once(path):
    one = cm.ones((2, 3))
    cm.save(
        path,
        {
            "shape": cm.ones((3, 2)),
            "dtype": cm.ones((2, 3), dtype="float64"),
            "same": one * 5,
            "extra": one,
            "number": 1,
            "kind": "text",
        },
    )
    like = {"shape": one, "dtype": one, "same": one, "missing": one, "number": 2.5, "kind": one}
    with pytest.raises(cm.CheckpointError) as caught:
        cm.load(path, like)
    text = str(caught.value)
    assert str(path) in text and "6 places" in text
    for line in (
        "`shape`: f32[2,3] in the tree, f32[3,2] in the file",
        "`dtype`: f32[2,3] in the tree, f64[2,3] in the file",
        "`missing`: f32[2,3] in the tree, nothing in the file",
        "`number`: float in the tree, int in the file",
        "`kind`: f32[2,3] in the tree, str in the file",
        "`extra`: nothing in the tree, f32[2,3] in the file",
    ):
        assert line in text
    tree, skipped = cm.load(path, like, strict=False)
    assert list(skipped) == ["shape", "dtype", "missing", "number", "kind", "extra"]
    assert list(tree) == list(like)
    assert same(tree["same"], one * 5) and same(tree["shape"], one) and tree["number"] == 2.5
    assert cm.load(path, strict=False)[1] == {}


def test_leaves_that_no_path_tells_apart_are_a_difference(path):
    tree = {1: "a", "1": "b"}
    cm.save(path, tree)
    assert cm.load(path) == tree
    with pytest.raises(cm.CheckpointError, match="two leaves of the file have this path"):
        cm.load(path, tree)
    cm.save(path, {"a": {"b": cm.ones(1)}})
    with pytest.raises(cm.CheckpointError, match="two leaves of the tree have this path"):
        cm.load(path, {"a.b": cm.ones(1), "a": {"b": cm.ones(1)}})


@pytest.mark.parametrize(
    ("tree", "where"),
    [
        ({"a": [1, object()]}, "a.1"),
        ({"a": b"bytes"}, "a"),
        ({"a": print}, "a"),
        ({"a": int}, "a"),
        ({"a": {1, 2}}, "a"),
        ({(1, 2): 3}, ""),
        ({"a": "\ud800"}, "a"),
    ],
)
def test_what_cannot_be_saved_is_named_and_the_old_file_stays(path, tree, where):
    cm.save(path, {"old": 1})
    with pytest.raises(cm.CheckpointError, match=f"at `{where}`"):
        cm.save(path, tree)
    assert cm.load(path) == {"old": 1}
    assert os.listdir(path.parent) == [path.name]


def test_two_leaves_of_one_path_are_refused(path):
    with pytest.raises(cm.CheckpointError, match=r"a\.b"):
        cm.save(path, {"a.b": cm.ones(1), "a": {"b": cm.ones(1)}})
    loop = []
    loop.append(loop)
    with pytest.raises(cm.CheckpointError, match="nested deeper"):
        cm.save(path, loop)
    deep = cm.ones((1,))
    for _ in range(100):
        deep = [deep]
    cm.save(path, deep)
    back = cm.load(path)
    for _ in range(100):
        (back,) = back
    assert same(back, cm.ones((1,)))


def test_a_folder_that_cannot_be_written_to(tmp_path):
    tree = {"w": cm.ones((2,))}
    for bad in (tmp_path, tmp_path / "no" / "x", "/proc/no/x", "/proc/x", ""):
        with pytest.raises(cm.CheckpointError):
            cm.save(bad, tree)
    for bad in (tmp_path, tmp_path / "no", "", "/dev/zero"):
        with pytest.raises(cm.CheckpointError):
            cm.load(bad)
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o500)
    if os.getuid():
        with pytest.raises(cm.CheckpointError, match="closed"):
            cm.save(closed / "x", tree)
    assert os.listdir(closed) == []
    with pytest.raises(TypeError):
        cm.save(3, tree)


def test_damaged_files_are_refused(path):
    cm.save(path, {"w": cm.ones((4, 4)), "n": 3})
    good = path.read_bytes()
    choose = random.Random(0)
    for _ in range(300):
        bad = bytearray(good)
        if choose.random() < 0.3:
            del bad[choose.randrange(len(bad)) :]
        else:
            bad[choose.randrange(len(bad))] ^= 1 << choose.randrange(8)
        path.write_bytes(bad)
        with pytest.raises(cm.CheckpointError):
            cm.load(path)


HUGE = '{"w":{"dtype":"F64","shape":[1099511627776],"data_offsets":[0,8796093022208]}}'


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        b"\xff" * 7 + b"\x00{}",
        struct.pack("<Q", 99_999_999) + b"{}",
        struct.pack("<Q", 2) + b"\xff\xff",
        struct.pack("<Q", len(HUGE)) + HUGE.encode(),
        b"\x80\x04\x95cposix\nsystem\n.",
        struct.pack("<Q", 50_000) + b"[" * 50_000,
    ],
)
def test_hostile_files_take_no_memory(path, content):
    import resource

    path.write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(cm.CheckpointError):
        cm.load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


SAVES = """
import sys
import clematis as cm
path, size = sys.argv[1], 200_000
print("ready", flush=True)
n = 0
while True:
    n += 1
    cm.save(path, {"n": n, "w": cm.full((size,), float(n)), "b": cm.full((3,), n)})
"""


def test_a_process_that_is_killed_while_it_saves_leaves_a_whole_file(path):
    choose = random.Random(1)
    cm.save(path, {"n": 0, "w": cm.zeros((200_000,)), "b": cm.zeros((3,), dtype="int32")})
    left = 0
    for _ in range(KILLS):
        process = subprocess.Popen([sys.executable, "-c", SAVES, str(path)], stdout=subprocess.PIPE)
        try:
            assert process.stdout.readline() == b"ready\n"
            time.sleep(choose.random() * 0.02)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
        back = cm.load(path)
        n = back["n"]
        assert (np.asarray(back["w"]) == n).all() and (np.asarray(back["b"]) == n).all()
        for other in path.parent.iterdir():
            if other == path:
                continue
            left += 1
            try:
                part = cm.load(other)
            except cm.CheckpointError:
                continue
            # Whole, but not renamed yet.
            assert (np.asarray(part["w"]) == part["n"]).all() and (np.asarray(part["b"]) == part["n"]).all()
    print(f"{left} temporary files were looked at")
    # What was left is removed by a later save.
    for other in path.parent.iterdir():
        os.utime(other, (time.time() - 600,) * 2)
    cm.save(path, {})
    assert os.listdir(path.parent) == [path.name]
