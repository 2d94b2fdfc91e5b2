"""The workloads of `train.py` written once for Clematis, as one jitted step on any backend."""


def step_on(backend, workload, x, y, rng):
    """A step of forward, gradients and Adam, which returns the loss."""
    import clematis as cm

    def normal(*shape):
        fan = 1
        for n in shape[:-1]:
            fan *= n
        return cm.asarray(rng.standard_normal(shape, dtype="float32") * fan**-0.5)

    def zeros(n):
        return cm.zeros((n,))

    def dense(i, o):
        return [normal(i, o), zeros(o)]

    def mlp(p, x):
        x = cm.relu(x @ p[0] + p[1])
        return cm.relu(x @ p[2] + p[3]) @ p[4] + p[5]

    def cnn(p, x):
        x = cm.relu(cm.conv2d(x, p[0], 1, "VALID") + p[1])
        x = cm.relu(cm.conv2d(x, p[2], 1, "VALID") + p[3])
        return cm.reshape(cm.max_pool2d(x, 2, 2, "VALID"), (64, 9216)) @ p[4] + p[5]

    def lstm(p, x):
        inputs = cm.permute_dims(x, (1, 0, 2)) @ p[0] + p[2]

        def cell(carry, u):
            h, c = carry
            gates = u + h @ p[1]
            i, f, g, o = (gates[:, n * 128 : (n + 1) * 128] for n in range(4))
            c = cm.sigmoid(f) * c + cm.sigmoid(i) * cm.tanh(g)
            return (cm.sigmoid(o) * cm.tanh(c), c), ()

        zero = cm.zeros((32, 128))
        (h, _), _ = cm.scan(cell, (zero, zero), inputs)
        return h @ p[3] + p[4]

    def block(p, x):
        qkv = cm.permute_dims(cm.reshape(x @ p[0] + p[1], (8, 128, 3, 4, 64)), (2, 0, 3, 1, 4))
        o = cm.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], 0.125)
        o = cm.reshape(cm.permute_dims(o, (0, 2, 1, 3)), (8, 128, 256))
        x = cm.layer_norm(x + o @ p[2] + p[3], [2], scale=p[8], b=p[9])
        return cm.layer_norm(x + cm.gelu(x @ p[4] + p[5]) @ p[6] + p[7], [2], scale=p[10], b=p[11])

    def tfm(p, x):
        return cm.mean(block(p[12:24], block(p[:12], x)), axis=1) @ p[24] + p[25]

    def block_params():
        parts = [dense(256, 768), dense(256, 256), dense(256, 1024), dense(1024, 256)]
        return [w for part in parts for w in part] + [cm.ones((256,)), zeros(256), cm.ones((256,)), zeros(256)]

    def params():
        if workload.startswith("mlp"):
            return dense(784, 256) + dense(256, 256) + dense(256, 10)
        if workload == "cnn64":
            return [normal(3, 3, 1, 32), zeros(32), normal(3, 3, 32, 64), zeros(64), *dense(9216, 10)]
        if workload == "lstm":
            return [normal(128, 512), normal(128, 512), zeros(512), *dense(128, 10)]
        return block_params() + block_params() + dense(256, 10)

    model = {"mlp64": mlp, "mlp1024": mlp, "cnn64": cnn, "lstm": lstm, "tfm": tfm}[workload]

    class Net(cm.Module):
        def __init__(self):
            self.p = params()

        def __call__(self, x):
            return model(self.p, x)

    cm.set_backend(backend)
    net, adam = Net(), cm.optim.Adam(1e-3)
    x, y = cm.asarray(x), cm.asarray(y)

    @cm.jit
    def train(x, y):
        def loss(net):
            rows = cm.log_softmax(net(x))
            return -cm.mean(cm.take_along_axis(rows, cm.expand_dims(y, axis=1), axis=1))

        value, grads = cm.value_and_grad(loss)(net)
        adam.step(net, grads)
        return value

    return lambda: float(train(x, y))
