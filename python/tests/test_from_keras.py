"""Keras models under each of its backends as modules of ours. Keras takes one backend for a process, so each has its own."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import torch._dynamo
import clematis as cm
import keras
import numpy as np
from clematis._convert.incoming_keras import from_keras_module

layers = keras.layers


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = layers.Conv2D(4, 3, padding="same"), layers.BatchNormalization()
        self.pool, self.flat = layers.MaxPooling2D(2), layers.Flatten()
        self.dense, self.drop = layers.Dense(5, activation="tanh"), layers.Dropout(0.2)

    def call(self, x, training=False):
        x = keras.ops.relu(self.norm(self.conv(x), training=training))
        return self.drop(self.dense(self.flat(self.pool(x))), training=training)


rng = np.random.default_rng(0)
images = rng.normal(size=(2, 8, 8, 3)).astype("float32")
rows = rng.normal(size=(2, 4)).astype("float32")
words = rng.integers(0, 10, (2, 6)).astype("int32")
cases = {
    "net": (Net(), images),
    "mlp": (keras.Sequential([layers.Dense(8, activation="gelu"), layers.LayerNormalization(), layers.Dense(3)]), rows),
    "words": (keras.Sequential([layers.Embedding(10, 8), layers.GlobalAveragePooling1D(), layers.Dense(2)]), words),
    "separable": (keras.Sequential([layers.SeparableConv2D(4, 3), layers.AveragePooling2D(2)]), images),
}
if keras.backend.backend() != "tensorflow":
    cases["recurrent"] = (keras.Sequential([layers.LSTM(6, return_sequences=True), layers.GRU(4)]), rows[:, :, None])
for name, (model, x) in cases.items():
    model(x)
    made = from_keras_module(model, (x,))
    made.eval()
    for given in (x, np.concatenate([x, x, x])):
        want = keras.ops.convert_to_numpy(keras.ops.stop_gradient(model(given, training=False)))
        np.testing.assert_allclose(made(cm.asarray(given)).numpy(), want, rtol=1e-4, atol=1e-5, err_msg=name)
    made.train()
    grads = cm.grad(lambda v: cm.sum(made(cm.asarray(x), v=v) ** 2))(made.v)
    assert len(grads.paths()) == len(model.trainable_variables), name
made = from_keras_module(Net, (images,))
before = made.buffers().copy()
made(cm.asarray(images))
path = next(path for path in before.paths() if path.endswith("moving_mean"))
assert not np.array_equal(before[path].numpy(), made.buffers()[path].numpy())
print("all of it")
"""


@pytest.mark.parametrize("name", ["jax", "tensorflow", "torch"])
def test_keras_models_under_each_backend(name):
    env = {**os.environ, "KERAS_BACKEND": name, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=env, check=False)
    assert done.stdout.strip().endswith("all of it"), done.stderr[-3000:]
