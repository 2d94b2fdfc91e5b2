"""Models of jax's libraries, made modules of ours: Haiku, Flax and functions."""

import inspect
from collections.abc import Callable
from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError, ClematisError, ConvertError
from . import read_jax
from .captured import Capture, Captured, Part

# What a forward pass is told about training, and what it is told then and otherwise.
_MODES = {
    "is_training": (False, True),
    "training": (False, True),
    "train": (False, True),
    "deterministic": (True, False),
}


def _arrays(x: Any) -> Any:
    """Examples with jax's arrays in the place of ours."""
    import jax.numpy as jnp

    if isinstance(x, dict):
        return {key: _arrays(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(map(_arrays, x))
    if isinstance(x, _core.Tensor):
        return x.to("jax").native
    return jnp.asarray(x) if _core._tree.is_array(x) else x


def _examples(op: str, example_inputs: Any, instance_args: Any, instance_kwargs: Any) -> tuple[Any, Any]:
    if example_inputs is not None and instance_args is not None:
        raise ArgumentError(f"{op}: example_inputs and instance_args are one and the same; give one")
    args = instance_args if example_inputs is None else example_inputs
    args = () if args is None else tuple(args) if isinstance(args, (list, tuple)) else (args,)
    if not args and not instance_kwargs:
        raise ConvertError(f"{op}: example inputs are needed: a module is captured on them")
    return _arrays(args), _arrays(dict(instance_kwargs or {}))


def _mode_word(function: Any, kwargs: dict[str, Any]) -> str | None:
    """The argument that tells a forward pass whether it is training."""
    try:
        known = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    return next((word for word in _MODES if word in known and word not in kwargs), None)


def _captured(ways: Callable[[bool], Part], modes: bool, options: dict[str, Any]) -> Captured:
    evaluation = ways(False)
    training: Part | ConvertError = evaluation
    if modes:
        try:
            training = ways(True)
        except ClematisError as e:
            training = ConvertError(str(e))
    values = dict(evaluation.values)
    if isinstance(training, Part):
        values |= training.values
    return Captured(Capture("jax", values, evaluation, training), **options)


def _flat(tree: Any, role: str, path: str = "") -> list[tuple[str, str, Any]]:
    """Path, role and array of all in nested mappings, whose names may have several words."""
    if hasattr(tree, "items"):
        out = []
        for key, value in tree.items():
            word = str(key).replace("/", ".")
            out += _flat(value, role, f"{path}.{word}" if path else word)
        return out
    return [(path, role, tree)]


def from_jax(function: Callable[..., Any], *args: Any, dynamic_batch: bool = True) -> Captured:
    """A module of ours, without parameters, that computes what a function of jax does.

    >>> import jax.numpy as jnp
    >>> net = cm.from_jax(lambda x: jnp.tanh(x) * 2, jnp.ones((2, 3)))
    >>> net(cm.zeros((5, 3))).shape
    (5, 3)
    """
    given = _arrays(tuple(args))
    part = read_jax.read(
        lambda _, key, *xs: function(*xs), [], lambda values: None, given, dynamic=dynamic_batch, with_key=False
    )
    return Captured(Capture("jax", part.values, part, part))


def from_haiku_module(
    native_module: Any, example_inputs: Any = None, *, params_hk: Any = None, state_hk: Any = None, rng_seed: int = 0,
    constructor_args: Any = None, constructor_kwargs: Any = None, instance_args: Any = None, instance_kwargs: Any = None,
    dynamic_batch: bool = True, **options: Any,
) -> Captured:  # fmt: skip
    """A module of ours that computes what a Haiku module does, on any backend.

    `native_module` is a class, made with the constructor's arguments and initialised with `rng_seed`, or what
    `hk.transform` returned, together with `params_hk` (and `state_hk`).
    """
    import haiku as hk
    import jax

    args, kwargs = _examples("from_haiku_module", example_inputs, instance_args, instance_kwargs)
    word = None
    if inspect.isclass(native_module):
        word = _mode_word(native_module.__call__, kwargs)
        made = (constructor_args or (), constructor_kwargs or {})
        kind: Any = native_module

        def forward(*a: Any, **k: Any) -> Any:
            return kind(*made[0], **made[1])(*a, **k)

        both = hk.transform_with_state(forward)
        told = {word: _MODES[word][1]} if word else {}
        params, state = both.init(jax.random.PRNGKey(rng_seed), *args, **kwargs, **told)
        params = params if params_hk is None else params_hk
        state = state if state_hk is None else state_hk
        apply = both.apply
    elif hasattr(native_module, "init") and hasattr(native_module, "apply"):
        if params_hk is None:
            raise ConvertError("from_haiku_module: a transformed function comes with params_hk")
        params, state = params_hk, state_hk or {}
        if isinstance(native_module, hk.TransformedWithState):
            apply = native_module.apply
        else:
            apply = lambda p, s, key, *a, **k: (native_module.apply(p, key, *a, **k), s)  # noqa: E731
    else:
        raise ArgumentError(f"from_haiku_module: a class or a transformed function, not {type(native_module).__name__}")
    held = _flat(params, "param") + _flat(state, "state")
    trees = [jax.tree_util.tree_flatten(params), jax.tree_util.tree_flatten(state)]
    # Mappings are flattened by sorted keys; ours keep their order.
    order = [path for path, _, _ in held]
    rows = [jax.tree_util.tree_leaves(_paths(params)), jax.tree_util.tree_leaves(_paths(state))]

    def build(values: list[Any]) -> Any:
        by_path = dict(zip(order, values, strict=True))
        return [jax.tree_util.tree_unflatten(t[1], [by_path[p] for p in r]) for t, r in zip(trees, rows, strict=True)]

    def ways(training: bool) -> Part:
        told = {word: _MODES[word][training]} if word else {}

        def run(own: Any, key: Any, *a: Any) -> Any:
            *positional, named = a
            return apply(own[0], own[1], key, *positional, **named, **told)

        def updates(out: Any) -> Any:
            result, new = out
            return result, [(path, x) for path, _, x in _flat(new, "state")]

        return read_jax.read(
            run,
            held,
            build,
            (*args, kwargs),
            dynamic=dynamic_batch,
            with_key=True,
            updates=updates,
            tag="train" if training else "eval",
        )

    return _captured(ways, word is not None, options)


def _paths(tree: Any, path: str = "") -> Any:
    """The same nest with paths in the place of arrays."""
    if hasattr(tree, "items"):
        out = {}
        for key, value in tree.items():
            word = str(key).replace("/", ".")
            out[key] = _paths(value, f"{path}.{word}" if path else word)
        return out
    return path


def from_flax_module(
    native_module: Any, example_inputs: Any = None, *, params: Any = None, rng_seed: int = 0, constructor_args: Any = None,
    constructor_kwargs: Any = None, instance_args: Any = None, instance_kwargs: Any = None, dynamic_batch: bool = True,
    **options: Any,
) -> Captured:  # fmt: skip
    """A module of ours that computes what a Flax module does, on any backend.

    `native_module` is a linen module with its variables as `params`, an nnx module, or a class of either.
    """
    from flax import linen, nnx

    args, kwargs = _examples("from_flax_module", example_inputs, instance_args, instance_kwargs)
    if inspect.isclass(native_module):
        made = dict(constructor_kwargs or {})
        if issubclass(native_module, nnx.Module) and "rngs" in inspect.signature(native_module.__init__).parameters:
            made.setdefault("rngs", nnx.Rngs(rng_seed))
        native_module = native_module(*(constructor_args or ()), **made)
    if isinstance(native_module, nnx.Module):
        return _from_nnx(nnx, native_module, args, kwargs, dynamic_batch, options)
    if not isinstance(native_module, linen.Module):
        raise ArgumentError(f"from_flax_module: a Flax module was expected, not {type(native_module).__name__}")
    return _from_linen(native_module, params, rng_seed, args, kwargs, dynamic_batch, options)


def _from_linen(
    module: Any, params: Any, seed: int, args: Any, kwargs: Any, dynamic: bool, options: dict[str, Any]
) -> Captured:
    import jax

    word = _mode_word(type(module).__call__, kwargs)
    told = {word: _MODES[word][0]} if word else {}
    if params is None:
        keys = dict(zip(("params", "dropout"), jax.random.split(jax.random.PRNGKey(seed)), strict=True))
        params = module.init(keys, *args, **kwargs, **told)
    variables = dict(params) if "params" in params else {"params": params}
    held = _flat(variables["params"], "param")
    rest = {name: x for name, x in variables.items() if name != "params"}
    held += _flat(rest, "state")
    rows = {"params": _paths(variables["params"]), **_paths(rest)}
    leaves, tree = jax.tree_util.tree_flatten(rows)

    def build(values: list[Any]) -> Any:
        by_path = dict(zip([path for path, _, _ in held], values, strict=True))
        return jax.tree_util.tree_unflatten(tree, [by_path[path] for path in leaves])

    def ways(training: bool) -> Part:
        told = {word: _MODES[word][training]} if word else {}

        def run(own: Any, key: Any, *a: Any) -> Any:
            *positional, named = a
            return module.apply(own, *positional, **named, **told, mutable=list(rest), rngs={"dropout": key})

        def updates(out: Any) -> Any:
            result, new = out
            return result, [(path, x) for path, _, x in _flat(new, "state")]

        return read_jax.read(
            run,
            held,
            build,
            (*args, kwargs),
            dynamic=dynamic,
            with_key=True,
            updates=updates,
            tag="train" if training else "eval",
        )

    return _captured(ways, word is not None, options)


def _from_nnx(nnx: Any, module: Any, args: Any, kwargs: Any, dynamic: bool, options: dict[str, Any]) -> Captured:
    import jax

    graph, trained, keys, rest = nnx.split(module, nnx.Param, nnx.RngState, ...)
    flat = [(".".join(map(str, path)), "param", x[...]) for path, x in trained.flat_state()]
    flat += [(".".join(map(str, path)), "state", x[...]) for path, x in rest.flat_state()]

    def merged(values: list[Any], key: Any) -> Any:
        by_path = iter(values)
        new = []
        for state in (trained, rest):
            leaves, tree = jax.tree_util.tree_flatten(state)
            new.append(jax.tree_util.tree_unflatten(tree, [next(by_path) for _ in leaves]))
        words = jax.random.wrap_key_data(key)
        drawn = jax.tree_util.tree_map(
            lambda x: jax.random.fold_in(words, 0) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x, keys
        )
        return nnx.merge(graph, new[0], drawn, new[1])

    def ways(training: bool) -> Part:
        def run(own: Any, key: Any, *a: Any) -> Any:
            *positional, named = a
            net = merged(own, key)
            net.train() if training else net.eval()
            out = net(*positional, **named)
            _, _, _, after = nnx.split(net, nnx.Param, nnx.RngState, ...)
            return out, [(".".join(map(str, path)), x[...]) for path, x in after.flat_state()]

        return read_jax.read(
            run,
            flat,
            lambda values: values,
            (*args, kwargs),
            dynamic=dynamic,
            with_key=True,
            updates=lambda out: out,
            tag="train" if training else "eval",
        )

    return _captured(ways, True, options)
