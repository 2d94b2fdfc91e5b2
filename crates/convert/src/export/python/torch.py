class Part(torch.nn.Module):
    """A submodule that holds parameters."""


WORDS = {word for path in WEIGHTS for word in path.split(".")}
TAKEN = set(vars(torch.nn.Module())) | {f"constant_{i}" for i in range(len(CONSTANTS))}


def attribute(word):
    """A component of a path as an attribute name: reserved names get underscores."""
    own = word
    while hasattr(Model, own) or own in TAKEN or (own != word and own in WORDS):
        own += "_"
    return own


def words(path):
    """The attributes of a path, from the outermost one on."""
    return [attribute(word) for word in path.split(".")]


class Model(torch.nn.Module):
    """The model; its `state_dict` has the names of the weights."""

    def __init__(self):
        super().__init__()
        values = files.weights(__file__)
        for path, (role, word) in WEIGHTS.items():
            x = files.from_numpy(ops, word, values[path])
            if role in ("param", "frozen"):
                x = torch.nn.Parameter(x, requires_grad=role == "param" and x.is_floating_point())
            holder, (*above, last) = self, words(path)
            for name in above:
                if name not in holder._modules:
                    holder.add_module(name, Part())
                holder = holder._modules[name]
            if isinstance(x, torch.nn.Parameter):
                holder.register_parameter(last, x)
            else:
                holder.register_buffer(last, x)
        for i, (path, word) in enumerate(CONSTANTS.items()):
            self.register_buffer(f"constant_{i}", files.from_numpy(ops, word, values[path]), persistent=False)

    def held(self, path):
        """A weight."""
        found = self
        for word in words(path):
            found = getattr(found, word)
        return found

    def forward(self, *inputs):
        """Returns the output, or a tuple of several."""
        keys = [torch.randint(0, 1 << 32, (2,)).to(torch.uint32) for _ in range(KEYS)]
        constants = [getattr(self, f"constant_{i}") for i in range(len(CONSTANTS))]
        outs = program(ops, *map(self.held, WEIGHTS), *inputs, *keys, *constants)
        return outs[0] if len(OUTPUTS) == 1 else outs


def call(*arrays):
    """Runs the model on NumPy arrays."""
    given = [files.from_numpy(ops, word, x) for (word, _), x in zip(INPUTS.values(), arrays, strict=True)]
    with torch.no_grad():
        outs = Model().eval()(*given)
    outs = (outs,) if len(OUTPUTS) == 1 else outs
    return [files.to_numpy(ops, word, x) for word, x in zip(OUTPUTS.values(), outs, strict=True)]
