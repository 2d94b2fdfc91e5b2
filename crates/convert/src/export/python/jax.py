def load():
    """Loads the weights by name, and the constants, which are not trained."""
    values = files.weights(__file__)
    every = {name: word for name, (_, word) in WEIGHTS.items()} | CONSTANTS
    found = {name: files.from_numpy(ops, word, values[name]) for name, word in every.items()}
    return {name: found[name] for name in WEIGHTS}, {name: found[name] for name in CONSTANTS}


def model(params, constants, *inputs, key=None):
    """Returns the output, or a tuple of several. Works with `jax.jit`, `jax.grad` and `jax.vmap`."""
    keys = list(jax.random.bits(key, (KEYS, 2), "uint32")) if KEYS else []
    outs = program(ops, *[params[name] for name in WEIGHTS], *inputs, *keys, *[constants[name] for name in CONSTANTS])
    return outs[0] if len(OUTPUTS) == 1 else outs


def call(*arrays):
    """Runs the model on NumPy arrays."""
    given = [files.from_numpy(ops, word, x) for (word, _), x in zip(INPUTS.values(), arrays, strict=True)]
    outs = jax.jit(model)(*load(), *given, key=jax.random.key(0))
    outs = (outs,) if len(OUTPUTS) == 1 else outs
    return [files.to_numpy(ops, word, x) for word, x in zip(OUTPUTS.values(), outs, strict=True)]
