"""Modules of ours as models of Keras, under each of its backends in a process of its own."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import clematis as cm
import pytest

HERE = Path(__file__).parent
BACKENDS = ["tensorflow", "jax", "torch"]

# Each part prints one line of JSON for each of its cases; whatever is raised fails the case.
PROGRAM = """
import sys
import torch._dynamo  # tensorflow after it, not before
import clematis as cm
assert "keras" not in sys.modules
import numpy as np, json, keras, tempfile, os
sys.path.insert(0, {here!r})
from nets_to_convert import *
backend = {backend!r}
assert keras.backend.backend() == backend
host = keras.ops.convert_to_numpy
values = lambda out: [host(x) for x in leaves(out)]
def close(got, want):
    assert len(got) == len(want)
    for g, w in zip(got, want):
        # Without 64-bit types jax has none of them.
        assert g.shape == w.shape and (g.dtype == w.dtype or backend == "jax"), (g.dtype, w.dtype)
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)
folder = tempfile.mkdtemp()
{part}
"""

VALUES = """
for name in NETS:
    net, examples = cases(name)
    model = net.to_keras_module()
    for args, kwargs, want in examples:
        close(values(model(*args, **kwargs)), want)
    # Functional: the batch is not known.
    args, kwargs, want = examples[1]
    places = [keras.Input(x.shape[1:], dtype=x.dtype.name) for x in (*args, *kwargs.values())]
    named = dict(zip(kwargs, places[len(args):]))
    whole = keras.Model(places, model(*places[:len(args)], **named))
    assert all(None in x.shape for x in leaves(whole.output))
    close(values(whole([*args, *kwargs.values()])), want)
    for kind, made, call in (("model", model, lambda m: m(*args, **kwargs)), ("whole", whole, lambda m: m([*args, *kwargs.values()]))):
        path = os.path.join(folder, f"{kind}.keras")
        made.save(path)
        close(values(call(keras.models.load_model(path))), want)
    print(json.dumps(name))
"""

TRAINING = """
net = Image()
net.freeze("first/b")
model = net.to_keras_module()
assert [w.name.replace("__", "/") for w in model.trainable_weights] == [p for p in net.v.paths() if p != "first/b"]
assert len(model.non_trainable_weights) == 3
before = [host(w) for w in model.weights]
x, y = floats(70, 8, 8, 3), floats(70, 4)
model.compile(optimizer=keras.optimizers.SGD(1e-2), loss="mse")
losses = model.fit(x, y, epochs=5, batch_size=32, shuffle=False, verbose=0).history["loss"]
assert losses[-1] < losses[0], losses
after = [host(w) for w in model.weights]
names = [w.name for w in model.weights]
moved = {n for n, a, b in zip(names, before, after) if not np.array_equal(a, b)}
assert moved == set(names) - {"first__b"}, moved
assert not np.allclose(host(model(x[:4], training=True)), host(model(x[:4], training=True)))
want = model.predict(x, verbose=0, batch_size=16)
path = os.path.join(folder, "trained.keras")
model.save(path)
back = keras.models.load_model(path)
np.testing.assert_allclose(back.predict(x, verbose=0, batch_size=16), want, rtol=1e-5, atol=1e-6)
back.fit(x, y, epochs=1, verbose=0)
model.save_weights(os.path.join(folder, "w.weights.h5"))
# A loss that falls at every step, without drops.
net = Shared().eval()
model = net.to_keras_module()
inner = keras.Input((3,))
whole = keras.Model(inner, model(inner, inner * 2.0)[0])
whole.compile(optimizer=keras.optimizers.SGD(1e-2), loss="mae")
x, y = floats(16, 3), floats(16, 4)
losses = []
for _ in range(8):
    losses.append(float(whole.evaluate(x, y, verbose=0, batch_size=16)))
    whole.fit(x, y, verbose=0, batch_size=16)
print(json.dumps(losses))
"""

ERRORS = """
try:
    cm.nn.Linear(2, 2).to_keras_module().save(os.path.join(folder, "x.keras"))
except cm.ConvertError as e:
    assert "example_inputs" in str(e)
else:
    raise AssertionError("no error")
model = cm.nn.Linear(2, 2).to_keras_module(cm.ones((3, 2)))
model.save(os.path.join(folder, "x.keras"))
back = keras.models.load_model(os.path.join(folder, "x.keras"))
assert back(np.ones((5, 2), "float32")).shape == (5, 2)
try:
    back(np.ones((5, 4, 2), "float32"))
except cm.ConvertError as e:
    assert "example_inputs" in str(e)
else:
    raise AssertionError("no error")
print(json.dumps(True))
"""


# Gathers and scatters along the batch, traced with a batch size that is not known.
UNKNOWN_BATCH = """
import torch, tensorflow as tf
class Picks(torch.nn.Module):
    def forward(self, x, mask, order):
        rows, columns = torch.arange(x.shape[0])[:, None], torch.arange(x.shape[1])[None]
        kept = x * mask[rows, columns].unsqueeze(-1)
        first = torch.index_put(mask, (torch.arange(x.shape[0]), order % 4), mask[:, 0])
        added = torch.index_add(mask * 1, 1, torch.tensor([1, 0, 1, 3]), mask)
        return kept, first, added, mask.index_select(0, order), torch.take_along_dim(mask, order[:, None], 0)
def inputs(n):
    draws = np.random.default_rng(n)
    return draws.random((n, 4, 2), "float32"), draws.random((n, 4), "float32"), draws.integers(0, n, n)
source = Picks()
model = cm.convert(source, "keras", tuple(map(torch.tensor, inputs(3))))
assert [row.inputs for row in model.report.rows][-1] == "another batch size"
sizes = [tf.TensorSpec([None, 4, 2]), tf.TensorSpec([None, 4]), tf.TensorSpec([None], tf.int64)]
traced = tf.function(lambda *xs: model(*xs), input_signature=sizes)
for n in (1, 2, 3, 7):
    close(values(traced(*inputs(n))), [x.numpy() for x in source(*map(torch.tensor, inputs(n)))])
print(json.dumps(True))
"""


def test_an_unknown_batch_size_gathers_every_row():
    assert run(UNKNOWN_BATCH, "tensorflow") == [True]


def run(part, backend):
    code = PROGRAM.format(here=str(HERE), backend=backend, part=part)
    env = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(cm.__file__).parents[1]), env.get("PYTHONPATH", "")])
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False, text=True, timeout=600)
    assert out.returncode == 0, out.stderr[-4000:]
    return [json.loads(line) for line in out.stdout.splitlines() if line.strip()]


# Starting a process with Keras takes longer than what is tested in it.
@pytest.mark.parametrize("keras_backend", BACKENDS)
def test_under_each_backend_of_keras(keras_backend):
    *names, losses, said = run(VALUES + TRAINING + ERRORS, keras_backend)
    assert names == ["image", "text", "control", "recurrent", "shared", "shapes", "types"]
    assert len(losses) == 8 and all(b < a for a, b in itertools.pairwise(losses)), losses
    assert said is True


def test_a_file_is_read_by_another_backend_after_importing_us_alone(tmp_path):
    path = tmp_path / "net.keras"
    write = f"net = cm.nn.Linear(3, 2)\nm = net.to_keras_module(cm.ones((2, 3)))\nm.save({str(path)!r})\n"
    write += "print(json.dumps(host(m(np.ones((4, 3), 'float32'))).tolist()))"
    (want,) = run(write, "tensorflow")
    code = f"import clematis, keras, json, numpy as np\nm = keras.models.load_model({str(path)!r})\n"
    code += "print(json.dumps(keras.ops.convert_to_numpy(m(np.ones((4, 3), 'float32'))).tolist()))"
    env = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": str(Path(cm.__file__).parents[1])}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False, text=True, timeout=300)
    assert out.returncode == 0, out.stderr[-4000:]
    got = json.loads(out.stdout.splitlines()[-1])
    assert all(abs(a - b) < 1e-5 for r, s in zip(got, want, strict=True) for a, b in zip(r, s, strict=True))


def test_importing_us_imports_no_framework():
    code = "import clematis, sys; print([m for m in ('keras', 'torch', 'jax', 'tensorflow', 'haiku', 'flax') if m in sys.modules])"
    env = {**os.environ, "PYTHONPATH": str(Path(cm.__file__).parents[1])}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False, text=True, timeout=300)
    assert out.stdout.strip() == "[]", out.stdout + out.stderr
