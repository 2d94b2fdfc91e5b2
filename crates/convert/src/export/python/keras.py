class Model(keras.Model):
    """The model on any Keras backend; its variables have the names of the weights, with `__` for dots."""

    def __init__(self):
        super().__init__(name="model")
        values = files.weights(__file__)
        self.held = {}
        for path, (role, word) in WEIGHTS.items():
            x = values[path]
            self.held[path] = self.add_weight(
                name=path.replace(".", "__"), shape=x.shape, dtype=files.WORDS[word], initializer="zeros",
                trainable=role == "param", autocast=False,
            )
            self.held[path].assign(x)
        self.constants = [values[name] for name in CONSTANTS]
        self.seeds = keras.random.SeedGenerator()
        self.built = True

    def build(self, *args, **kwargs):
        """Does nothing: all weights exist already."""

    def call(self, *inputs):
        """Returns the output, or a tuple of several."""
        tensor = keras.ops.convert_to_tensor
        held = [tensor(self.held[name].value) for name in WEIGHTS]
        keys = [keras.ops.cast(self.seeds.next(), "uint32") for _ in range(KEYS)]
        outs = program(ops, *held, *map(tensor, inputs), *keys, *map(tensor, self.constants))
        return outs[0] if len(OUTPUTS) == 1 else outs

    def compute_output_spec(self, *inputs):
        """The specs of the outputs, as recorded in the program."""
        size = next((x.shape[0] for x in inputs if len(x.shape)), None)
        known = lambda i, n: n if isinstance(n, int) else size if i == 0 else None  # noqa: E731
        specs = [(tuple(known(i, n) for i, n in enumerate(shape)), files.WORDS[word]) for word, shape in SHAPES]
        outs = tuple(keras.KerasTensor(shape, dtype) for shape, dtype in specs)
        return outs[0] if len(outs) == 1 else outs


def call(*arrays):
    """Runs the model on NumPy arrays."""
    given = [np.ascontiguousarray(x, files.dtype(word)) for (word, _), x in zip(INPUTS.values(), arrays, strict=True)]
    outs = Model()(*given)
    outs = (outs,) if len(OUTPUTS) == 1 else outs
    return [keras.ops.convert_to_numpy(x) for x in outs]
