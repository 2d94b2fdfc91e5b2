"""Keras models under each of its backends as modules of ours. Keras takes one backend for a process, so each has its own."""

import os
import subprocess
import sys
from pathlib import Path

import clematis as cm
import pytest

HERE = Path(__file__).parent

START = """
import sys
sys.path.insert(0, {here!r})
import torch._dynamo  # tensorflow after it, not before
import clematis as cm
import keras
import numpy as np
from keras_cases import CASES, IMAGE, ROWS, SIGNAL

L, tree = keras.layers, keras.tree
host = lambda x: [keras.ops.convert_to_numpy(keras.ops.stop_gradient(y)) for y in tree.flatten(x)]
ours = lambda x: tree.map_structure(cm.asarray, x)
captured = lambda model, args, **more: cm.from_keras_module(model, args, **more)

def close(got, want, words):
    got = [x.numpy() for x in tree.flatten(got)]
    assert [x.shape for x in got] == [x.shape for x in want], words
    for g, w in zip(got, want):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5, err_msg=words)
"""

# Values at two sizes of the batch; in training, a gradient for each parameter.
LAYERS = """
names = {names!r} or list(CASES)
for name in names:
    model, args = CASES[name]()
    model(*args)
    made = captured(model, args).eval()
    for times in (1, 3):
        more = tree.map_structure(lambda x: np.concatenate([x] * times), args)
        close(made(*ours(more)), host(model(*more, training=False)), name)
    made.train()
    if not model.trainable_variables:
        assert [y.shape for y in tree.flatten(made(*ours(args)))] == [y.shape for y in host(model(*args))], name
        continue
    loss = lambda v: sum(cm.sum(y * y) for y in tree.flatten(made(*ours(args), v=v)))
    grads = cm.grad(loss)(made.v)
    assert len(grads.paths()) == len(model.trainable_variables), name
    assert all(np.isfinite(g.numpy()).all() for _, g in grads._entries()), name
print("layers", len(names))
"""

# Gradients as the framework's own, through loops, attention and convolutions.
GRADIENTS = """
import tensorflow as tf
for name in ("lstm", "gru", "bidirectional", "masked", "conv_lstm2d", "mha_causal", "gqa", "conv2d_transpose", "dot"):
    model, args = CASES[name]()
    with tf.GradientTape() as tape:
        out = model(*args, training=False)
        loss = tf.add_n([tf.reduce_sum(tf.sin(y)) for y in tree.flatten(out)])
    want = tape.gradient(loss, [v.value for v in model.trainable_variables])
    made = captured(model, args).eval()
    loss = lambda v: sum(cm.sum(cm.sin(y)) for y in tree.flatten(made(*ours(args), v=v)))
    grads = [g.numpy() for _, g in cm.grad(loss)(made.v)._entries()]
    for g, w, path in zip(grads, want, made.v.paths(), strict=True):
        np.testing.assert_allclose(g, tf.convert_to_tensor(w), rtol=1e-3, atol=1e-4, err_msg=name + path)
print("gradients")
"""

# State that a call in training moves, weights that are not trained, arguments by name.
STATE = """
for make, x in (
    (lambda: keras.Sequential([L.Conv2D(4, 3), L.BatchNormalization(momentum=0.7), L.Flatten(), L.Dense(2)]), IMAGE),
    (lambda: keras.Sequential([L.SpectralNormalization(L.Dense(3))]), ROWS),
):
    model = make()
    model(x)
    made = captured(model, (x,))
    assert made.training
    model(x, training=True)
    made(cm.asarray(x))
    own = {{path: y.numpy() for path, y in made.buffers()._entries()}}
    for v in model.non_trainable_variables:
        if "seed" not in v.path:
            np.testing.assert_allclose(own[v.path], host(v.value)[0], rtol=1e-4, atol=1e-5, err_msg=v.path)
drop = captured(keras.Sequential([L.Dropout(0.5)]), (ROWS,))
x = cm.ones((40, 6))
assert not np.array_equal(drop(x).numpy(), drop(x).numpy()) and np.array_equal(drop.eval()(x).numpy(), x.numpy())
model = keras.Sequential([L.Dense(3), L.Dense(2)])
model(ROWS)
model.layers[0].trainable = False
made = captured(model, (ROWS,))
assert len(made.parameters().paths()) == 2 and len(made.v.paths()) == 4 and not made.buffers().paths()


class Net(keras.Model):
    def __init__(self, width=5):
        super().__init__()
        self.dense, self.drop = L.Dense(width), L.Dropout(0.2)

    def call(self, x, scale=None, training=False):
        y = self.drop(self.dense(x["rows"]), training=training)
        return {{"y": y if scale is None else y * scale, "x": x["more"]}}


pytree = {{"rows": ROWS, "more": ROWS[:, :2]}}
made = captured(Net, (pytree,), constructor_kwargs={{"width": 4}}, instance_kwargs={{"scale": ROWS[:, :1]}}).eval()
out = made(ours(pytree), scale=cm.asarray(ROWS[:, :1]))
assert out["y"].shape == (2, 4) and np.array_equal(out["x"].numpy(), ROWS[:, :2])
for call, words in ((lambda: made(ours(pytree)), "scale"), (lambda: made(ours({{"rows": ROWS}}), scale=1.0), "more|dict")):
    try:
        call()
    except cm.ArgumentError as e:
        assert any(word in str(e) for word in words.split("|")), e
    else:
        raise AssertionError(words)
print("state")
"""

# What is refused says which op, where and how often.
REFUSED = """
class Odd(keras.Model):
    def call(self, x):
        return tf.boolean_mask(x, x[:, 0] > 0)
try:
    captured(Odd(), (ROWS,))
except cm.ClematisError as e:
    assert "Where" in str(e) and "1 times" in str(e), e
else:
    raise AssertionError("no error")
net = keras.Sequential([L.LSTM(3)])
net(SIGNAL)
before = [host(v.value)[0] for v in net.variables]
captured(net, (SIGNAL,))
assert all(np.array_equal(a, host(v.value)[0]) for a, v in zip(before, net.variables))
print("refused")
"""

SOME = ["conv2d", "batch_norm", "mha_causal", "masked", "upsampling2d"]


def run(backend, *parts, names=()):
    env = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(cm.__file__).parents[1]), env.get("PYTHONPATH", "")])
    code = "".join([START, *parts]).format(here=str(HERE), names=list(names))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_under_tensorflow():
    out = run("tensorflow", LAYERS, GRADIENTS, STATE, REFUSED)
    assert all(word in out for word in ("layers 83", "gradients", "state", "refused")), out


@pytest.mark.parametrize("name", ["jax", "torch"])
def test_under_other_backends(name):
    out = run(name, LAYERS, STATE, names=SOME)
    assert f"layers {len(SOME)}" in out and "state" in out, out
