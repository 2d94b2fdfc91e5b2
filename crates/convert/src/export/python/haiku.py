VALUES = files.weights(__file__)


class Model(hk.Module):
    """The model: weights are parameters, running statistics state, both initialized from the file."""

    def __call__(self, *inputs):
        """Returns the output, or a tuple of several."""

        def held(path):
            role, word = WEIGHTS[path]
            x = files.from_numpy(ops, word, VALUES[path])
            get = hk.get_parameter if role in ("param", "frozen") else hk.get_state
            found = get(path.replace(".", "/"), x.shape, x.dtype, init=lambda *_: x)
            return jax.lax.stop_gradient(found) if role == "frozen" else found

        keys = [jax.random.bits(hk.next_rng_key(), (2,), "uint32") for _ in range(KEYS)]
        constants = [files.from_numpy(ops, word, VALUES[name]) for name, word in CONSTANTS.items()]
        outs = program(ops, *map(held, WEIGHTS), *inputs, *keys, *constants)
        return outs[0] if len(OUTPUTS) == 1 else outs


forward = hk.transform_with_state(lambda *inputs: Model("model")(*inputs))


def call(*arrays):
    """Runs the model on NumPy arrays."""
    given = [files.from_numpy(ops, word, x) for (word, _), x in zip(INPUTS.values(), arrays, strict=True)]
    params, state = forward.init(jax.random.key(0), *given)
    outs, _ = jax.jit(forward.apply)(params, state, jax.random.key(1), *given)
    outs = (outs,) if len(OUTPUTS) == 1 else outs
    return [files.to_numpy(ops, word, x) for word, x in zip(OUTPUTS.values(), outs, strict=True)]
