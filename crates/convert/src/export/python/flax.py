class Part(nnx.Module):
    """A submodule that holds variables."""


class Frozen(nnx.Variable):
    """A parameter that is not trained."""


WORDS = {word for path in WEIGHTS for word in path.split(".")}


def attribute(word):
    """A component of a path as an attribute name: reserved names get underscores."""
    own = word
    while hasattr(Model, own) or own in ("rngs", "constants") or (own != word and own in WORDS):
        own += "_"
    return own


def words(path):
    """The attributes of a path, from the outermost one on."""
    return [attribute(word) for word in path.split(".")]


class Model(nnx.Module):
    """The model: weights are `nnx.Param`, running statistics `nnx.BatchStat`."""

    def __init__(self, rngs=None):
        self.rngs = rngs if rngs is not None else nnx.Rngs(0)
        values = files.weights(__file__)
        for path, (role, word) in WEIGHTS.items():
            kind = {"param": nnx.Param, "frozen": Frozen}.get(role, nnx.BatchStat)
            holder, (*above, last) = self, words(path)
            for name in above:
                if not hasattr(holder, name):
                    setattr(holder, name, Part())
                holder = getattr(holder, name)
            setattr(holder, last, kind(files.from_numpy(ops, word, values[path])))
        self.constants = nnx.data([Frozen(files.from_numpy(ops, word, values[name])) for name, word in CONSTANTS.items()])

    def held(self, path):
        """A weight."""
        found = self
        for word in words(path):
            found = getattr(found, word)
        return found[...]

    def __call__(self, *inputs):
        """Returns the output, or a tuple of several."""
        keys = [jax.random.bits(self.rngs(), (2,), "uint32") for _ in range(KEYS)]
        constants = [x[...] for x in self.constants]
        outs = program(ops, *map(self.held, WEIGHTS), *inputs, *keys, *constants)
        return outs[0] if len(OUTPUTS) == 1 else outs


def call(*arrays):
    """Runs the model on NumPy arrays."""
    given = [files.from_numpy(ops, word, x) for (word, _), x in zip(INPUTS.values(), arrays, strict=True)]
    outs = nnx.jit(lambda model, *xs: model(*xs))(Model(), *given)
    outs = (outs,) if len(OUTPUTS) == 1 else outs
    return [files.to_numpy(ops, word, x) for word, x in zip(OUTPUTS.values(), outs, strict=True)]
