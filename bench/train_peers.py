"""The workloads of `train.py` as each framework's users would write them: a function makes a step of forward, gradients and
Adam, which returns the loss."""

import os

THREADS = int(os.environ.get("BENCH_THREADS", "2"))


def torch_step(workload, x, y, compiled):
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(THREADS)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(256, 768), nn.Linear(256, 256)
            self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)
            self.first, self.second = nn.LayerNorm(256), nn.LayerNorm(256)

        def forward(self, x):
            q, k, v = self.qkv(x).view(8, 128, 3, 4, 64).permute(2, 0, 3, 1, 4)
            o = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(8, 128, 256)
            x = self.first(x + self.out(o))
            return self.second(x + self.down(F.gelu(self.up(x))))

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks, self.head = nn.Sequential(Block(), Block()), nn.Linear(256, 10)

        def forward(self, x):
            return self.head(self.blocks(x).mean(1))

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.head = nn.LSTM(128, 128, batch_first=True), nn.Linear(128, 10)

        def forward(self, x):
            return self.head(self.cell(x)[1][0][0])

    def mlp():
        sizes = [(784, 256), (256, 256)]
        hidden = [m for i, o in sizes for m in (nn.Linear(i, o), nn.ReLU())]
        return nn.Sequential(*hidden, nn.Linear(256, 10))

    def cnn():
        convs = [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)]
        return nn.Sequential(*convs, nn.Flatten(), nn.Linear(9216, 10))

    model = {"mlp64": mlp, "mlp1024": mlp, "cnn64": cnn, "lstm": Recurrent, "tfm": Encoder}[workload]()
    x = torch.from_numpy(x.transpose(0, 3, 1, 2).copy() if workload == "cnn64" else x)
    y = torch.from_numpy(y)
    adam = torch.optim.Adam(model.parameters(), 1e-3, fused=True)

    def loss(x, y):
        return F.cross_entropy(model(x), y)

    run = torch.compile(loss) if compiled else loss

    def step():
        adam.zero_grad(set_to_none=True)
        value = run(x, y)
        value.backward()
        adam.step()
        return value.item()

    return step


def jax_step(workload, x, y, rng):
    import functools

    import jax
    import jax.numpy as jnp

    def normal(*shape):
        fan = 1
        for n in shape[:-1]:
            fan *= n
        return jnp.asarray(rng.standard_normal(shape, dtype="float32") * fan**-0.5)

    def dense(i, o):
        return [normal(i, o), jnp.zeros(o)]

    def norm(x, g, b):
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g + b

    def mlp(p, x):
        x = jax.nn.relu(x @ p[0] + p[1])
        return jax.nn.relu(x @ p[2] + p[3]) @ p[4] + p[5]

    def cnn(p, x):
        def conv(x, w):
            return jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))

        x = jax.nn.relu(conv(jax.nn.relu(conv(x, p[0]) + p[1]), p[2]) + p[3])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return x.reshape(64, -1) @ p[4] + p[5]

    def lstm(p, x):
        inputs = jnp.swapaxes(x, 0, 1) @ p[0] + p[2]

        def cell(carry, u):
            h, c = carry
            i, f, g, o = jnp.split(u + h @ p[1], 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zero = jnp.zeros((32, 128))
        (h, _), _ = jax.lax.scan(cell, (zero, zero), inputs)
        return h @ p[3] + p[4]

    def block(p, x):
        qkv = (x @ p[0] + p[1]).reshape(8, 128, 3, 4, 64).transpose(2, 0, 3, 1, 4)
        a = jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", qkv[0], qkv[1]) / 8.0, -1)
        o = jnp.einsum("bhqk,bhkd->bhqd", a, qkv[2]).transpose(0, 2, 1, 3).reshape(8, 128, 256)
        x = norm(x + o @ p[2] + p[3], p[8], p[9])
        return norm(x + jax.nn.gelu(x @ p[4] + p[5], approximate=False) @ p[6] + p[7], p[10], p[11])

    def tfm(p, x):
        return block(p[12:24], block(p[:12], x)).mean(1) @ p[24] + p[25]

    def block_params():
        parts = [dense(256, 768), dense(256, 256), dense(256, 1024), dense(1024, 256)]
        norms = [make(256) for _ in range(2) for make in (jnp.ones, jnp.zeros)]
        return [w for part in parts for w in part] + norms

    def params():
        if workload.startswith("mlp"):
            return dense(784, 256) + dense(256, 256) + dense(256, 10)
        if workload == "cnn64":
            return [normal(3, 3, 1, 32), jnp.zeros(32), normal(3, 3, 32, 64), jnp.zeros(64), *dense(9216, 10)]
        if workload == "lstm":
            return [normal(128, 512), normal(128, 512), jnp.zeros(512), *dense(128, 10)]
        return block_params() + block_params() + dense(256, 10)

    model = {"mlp64": mlp, "mlp1024": mlp, "cnn64": cnn, "lstm": lstm, "tfm": tfm}[workload]
    x, y = jnp.asarray(x), jnp.asarray(y)

    def loss(p):
        return -jnp.take_along_axis(jax.nn.log_softmax(model(p, x)), y[:, None], 1).mean()

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def train(p, m, v, t):
        value, g = jax.value_and_grad(loss)(p)
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
        v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g)]
        c1, c2 = 1 - 0.9**t, 1 - 0.999**t
        p = [w - 1e-3 * (a / c1) / (jnp.sqrt(b / c2) + 1e-8) for w, a, b in zip(p, m, v)]
        return p, m, v, t + 1, value

    p = params()
    state = [p, [jnp.zeros_like(w) for w in p], [jnp.zeros_like(w) for w in p], jnp.float32(1)]

    def step():
        *state[:], value = train(*state)
        jax.block_until_ready(state[0])
        return float(value)

    return step


def tensorflow_threads():
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)


def tensorflow_step(workload, x, y, rng):
    import tensorflow as tf

    tensorflow_threads()

    def normal(*shape):
        fan = 1
        for n in shape[:-1]:
            fan *= n
        return tf.Variable(rng.standard_normal(shape, dtype="float32") * fan**-0.5)

    def zeros(n):
        return tf.Variable(tf.zeros(n))

    def dense(i, o):
        return [normal(i, o), zeros(o)]

    def norm(x, g, b):
        mean, var = tf.nn.moments(x, -1, keepdims=True)
        return (x - mean) * tf.math.rsqrt(var + 1e-5) * g + b

    def mlp(p, x):
        x = tf.nn.relu(x @ p[0] + p[1])
        return tf.nn.relu(x @ p[2] + p[3]) @ p[4] + p[5]

    def cnn(p, x):
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, p[0], 1, "VALID"), p[1]))
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, p[2], 1, "VALID"), p[3]))
        return tf.reshape(tf.nn.max_pool2d(x, 2, 2, "VALID"), (64, 9216)) @ p[4] + p[5]

    def lstm(p, x):
        inputs = tf.reshape(x, (1600, 128)) @ p[0] + p[2]
        h = c = tf.zeros((32, 128))
        for u in tf.unstack(tf.transpose(tf.reshape(inputs, (32, 50, 512)), (1, 0, 2))):
            i, f, g, o = tf.split(u + h @ p[1], 4, -1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            h = tf.sigmoid(o) * tf.tanh(c)
        return h @ p[3] + p[4]

    def block(p, x):
        qkv = tf.transpose(tf.reshape(x @ p[0] + p[1], (8, 128, 3, 4, 64)), (2, 0, 3, 1, 4))
        a = tf.nn.softmax(tf.matmul(qkv[0], qkv[1], transpose_b=True) / 8.0)
        o = tf.reshape(tf.transpose(tf.matmul(a, qkv[2]), (0, 2, 1, 3)), (1024, 256))
        x = norm(x + o @ p[2] + p[3], p[8], p[9])
        return norm(x + tf.nn.gelu(x @ p[4] + p[5]) @ p[6] + p[7], p[10], p[11])

    def tfm(p, x):
        x = block(p[12:24], block(p[:12], tf.reshape(x, (1024, 256))))
        return tf.reduce_mean(tf.reshape(x, (8, 128, 256)), 1) @ p[24] + p[25]

    def block_params():
        parts = [dense(256, 768), dense(256, 256), dense(256, 1024), dense(1024, 256)]
        ends = [tf.Variable(tf.ones(256)), zeros(256), tf.Variable(tf.ones(256)), zeros(256)]
        return [w for part in parts for w in part] + ends

    def params():
        if workload.startswith("mlp"):
            return dense(784, 256) + dense(256, 256) + dense(256, 10)
        if workload == "cnn64":
            return [normal(3, 3, 1, 32), zeros(32), normal(3, 3, 32, 64), zeros(64), *dense(9216, 10)]
        if workload == "lstm":
            return [normal(128, 512), normal(128, 512), zeros(512), *dense(128, 10)]
        return block_params() + block_params() + dense(256, 10)

    model = {"mlp64": mlp, "mlp1024": mlp, "cnn64": cnn, "lstm": lstm, "tfm": tfm}[workload]
    x, y, p = tf.constant(x), tf.constant(y), params()
    m = [tf.Variable(tf.zeros_like(w)) for w in p]
    v = [tf.Variable(tf.zeros_like(w)) for w in p]
    t = tf.Variable(0.0)

    @tf.function
    def train():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(p, x)))
        t.assign_add(1.0)
        powers = {"beta1_power": tf.pow(0.9, t), "beta2_power": tf.pow(0.999, t)}
        fixed = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
        for w, a, b, g in zip(p, m, v, tape.gradient(loss, p)):
            tf.raw_ops.ResourceApplyAdam(var=w.handle, m=a.handle, v=b.handle, grad=g, **powers, **fixed)
        return loss

    return lambda: float(train())


def keras_step(workload, x, y, backend):
    os.environ["KERAS_BACKEND"] = backend  # read when keras is imported
    if backend == "torch":
        import torch

        torch.set_num_threads(THREADS)
    if backend == "tensorflow":
        tensorflow_threads()
    import keras
    from keras import layers

    def block(x):
        x = layers.LayerNormalization(epsilon=1e-5)(x + layers.MultiHeadAttention(4, 64)(x, x))
        hidden = layers.Dense(1024, activation="gelu")(x)
        return layers.LayerNormalization(epsilon=1e-5)(x + layers.Dense(256)(hidden))

    def encoder():
        inputs = keras.Input(x.shape[1:])
        pooled = layers.GlobalAveragePooling1D()(block(block(inputs)))
        return keras.Model(inputs, layers.Dense(10)(pooled))

    def chain(*parts):
        return keras.Sequential([keras.Input(x.shape[1:]), *parts, layers.Dense(10)])

    def mlp():
        return chain(*(layers.Dense(256, activation="relu") for _ in range(2)))

    def cnn():
        convs = [layers.Conv2D(channels, 3, activation="relu") for channels in (32, 64)]
        return chain(*convs, layers.MaxPooling2D(2), layers.Flatten())

    def lstm():
        return chain(layers.LSTM(128))

    model = {"mlp64": mlp, "mlp1024": mlp, "cnn64": cnn, "lstm": lstm, "tfm": encoder}[workload]()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=loss)
    return lambda: float(model.train_on_batch(x, y))
