class Model(tf.Module):
    """The model; its variables have the names of the weights, with `/` for dots."""

    def __init__(self):
        super().__init__("model")
        values = files.weights(__file__)
        self.held = {}
        for path, (role, word) in WEIGHTS.items():
            x = files.from_numpy(ops, word, values[path])
            self.held[path] = tf.Variable(x, trainable=role == "param", name=path.replace(".", "/"))
        self.constants = [files.from_numpy(ops, word, values[name]) for name, word in CONSTANTS.items()]

    def __call__(self, *inputs):
        """Returns the output, or a tuple of several. Works with `tf.function` and `tf.GradientTape`."""
        keys = [tf.random.uniform((2,), maxval=None, dtype=tf.uint32) for _ in range(KEYS)]
        held = [tf.convert_to_tensor(self.held[name]) for name in WEIGHTS]
        outs = program(ops, *held, *inputs, *keys, *self.constants)
        return outs[0] if len(OUTPUTS) == 1 else outs


def call(*arrays):
    """Runs the model on NumPy arrays."""
    given = [files.from_numpy(ops, word, x) for (word, _), x in zip(INPUTS.values(), arrays, strict=True)]
    outs = tf.function(Model(), autograph=False)(*given)
    outs = (outs,) if len(OUTPUTS) == 1 else outs
    return [files.to_numpy(ops, word, x) for word, x in zip(OUTPUTS.values(), outs, strict=True)]
