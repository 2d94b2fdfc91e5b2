"""`from_jax`, `from_haiku_module` and `from_flax_module`: import jax functions and modules."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError, ClematisError, ConvertError
from . import read_jax
from .captured import Arguments, Capture, Captured, Part

# The names of training-mode arguments, with their values in training and in evaluation.
_MODES = {
    "is_training": (False, True),
    "training": (False, True),
    "train": (False, True),
    "deterministic": (True, False),
}


def _arrays(x: Any) -> Any:
    """Examples with jax arrays instead of Clematis tensors."""
    import jax.numpy as jnp

    if isinstance(x, dict):
        return {key: _arrays(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(*map(_arrays, x)) if hasattr(x, "_fields") else type(x)(map(_arrays, x))
    if isinstance(x, _core.Tensor):
        return x.to("jax").native
    return jnp.asarray(x) if _core._tree.is_array(x) else x


def _examples(op: str, example_inputs: Any, instance_args: Any, instance_kwargs: Any) -> tuple[Any, Any]:
    if example_inputs is not None and instance_args is not None:
        raise ArgumentError(f"{op}: expected either example_inputs or instance_args, got both")
    args = instance_args if example_inputs is None else example_inputs
    args = () if args is None else tuple(args) if isinstance(args, (list, tuple)) else (args,)
    if not args and not instance_kwargs:
        raise ConvertError(f"{op}: example inputs are needed to capture a module")
    return _arrays(args), _arrays(dict(instance_kwargs or {}))


@dataclass(frozen=True)
class _Switch:
    """The training-mode argument of a forward pass: both modes are captured."""

    word: str
    # Its position in the example, and its value there.
    position: int | None
    given: bool | None

    @property
    def flag(self) -> bool:
        """Whether the example is in training mode; the default if it does not say."""
        return self.given is None or self.given is _MODES[self.word][1]


def in_mode(
    switch: _Switch | None, training: bool | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call in a mode; None is the mode of the example."""
    if switch is None:
        return args, kwargs
    value = switch.given if training is None else _MODES[switch.word][training]
    if switch.position is None:
        return args, kwargs if value is None else {**kwargs, switch.word: value}
    return (*args[: switch.position], value, *args[switch.position :]), kwargs


def _names(function: Any) -> list[str]:
    """The parameters of a forward pass that can be passed by position; empty if unknown."""
    try:
        known = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    names = [p.name for p in known if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return names[names[:1] == ["self"] :]


def mode_switch(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[_Switch | None, tuple[Any, ...], dict[str, Any]]:
    """The training-mode argument, and the other arguments."""
    word = next((word for word in _MODES if isinstance(kwargs.get(word), bool)), None)
    if word:
        return _Switch(word, None, kwargs[word]), args, {key: x for key, x in kwargs.items() if key != word}
    names = _names(function)
    for at, word in enumerate(names):
        if (
            word in _MODES
            and word not in kwargs
            and at < len(args)
            and (args[at] is None or isinstance(args[at], bool))
        ):
            return _Switch(word, at, args[at]), (*args[:at], *args[at + 1 :]), kwargs
    try:
        known = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None, args, kwargs
    word = next((word for word in _MODES if word in known and word not in kwargs), None)
    if word is None or word in names[: len(args)]:
        return None, args, kwargs
    return _Switch(word, None, None), args, kwargs


def _arguments(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], switch: _Switch | None) -> Arguments:
    """The mapping of a call's arguments to arrays."""
    found = Arguments.of(function, args, kwargs)
    names = _names(function)
    if switch is not None:
        # Callers may pass it in the position where the source takes it.
        at = names.index(switch.word) if switch.word in names else None
        found.switch = (switch.word, at, _MODES[switch.word][1])
    found.names = [name for name in names if switch is None or name != switch.word]
    return found


def _captured(
    part_of: Callable[[bool | None], Part], modes: bool, arguments: Arguments, name: str, options: dict[str, Any],
    *, flag: bool = True, differ: bool = False,
) -> Captured:  # fmt: skip
    """A module of the programs in both modes, and of the one with each submodule's own flag if these differ."""

    def part_or_error(mode: bool | None) -> Part | ConvertError:
        try:
            part = part_of(mode)
        except ClematisError as e:
            return ConvertError(str(e))
        part.arguments = arguments
        return part

    evaluation = part_of(False)
    evaluation.arguments = arguments
    training = part_or_error(True) if modes else evaluation
    initial = part_or_error(None) if differ else None
    values = dict(evaluation.values)
    for part in (training, initial):
        if isinstance(part, Part):
            values |= part.values
    return Captured(Capture("jax", values, evaluation, training, name, flag, initial), **options)


_TAGS = {False: "eval", True: "train", None: "initial"}


def _flat(tree: Any, role: str, path: str = "") -> list[tuple[str, str, Any]]:
    """Path, role and array of all leaves of nested mappings, whose keys may contain separators."""
    if hasattr(tree, "items"):
        out = []
        for key, value in tree.items():
            word = str(key).replace("/", ".")
            out += _flat(value, role, f"{path}.{word}" if path else word)
        return out
    return [(path, role, tree)]


def from_jax(function: Callable[..., Any], *args: Any, dynamic_batch: bool = True) -> Captured:
    """Converts a jax function to a Clematis module without parameters.

    >>> import jax.numpy as jnp
    >>> net = cm.from_jax(lambda x: jnp.tanh(x) * 2, jnp.ones((2, 3)))
    >>> net(cm.zeros((5, 3))).shape
    (5, 3)
    """
    given = _arrays(tuple(args))
    part = read_jax.read(
        lambda _, key, *xs: function(*xs), [], lambda values: None, given, dynamic=dynamic_batch, with_key=False
    )
    part.arguments = _arguments(function, tuple(given), {}, None)
    return Captured(Capture("jax", part.values, part, part, getattr(function, "__name__", "")))


def from_haiku_module(
    native_module: Any, example_inputs: Any = None, *, params_hk: Any = None, state_hk: Any = None, rng_seed: int = 0,
    constructor_args: Any = None, constructor_kwargs: Any = None, instance_args: Any = None, instance_kwargs: Any = None,
    dynamic_batch: bool = True, **options: Any,
) -> Captured:  # fmt: skip
    """Converts a Haiku module to a Clematis module that runs on any backend.

    `native_module` is a class, constructed with the constructor's arguments and initialized with `rng_seed`, or the result
    of `hk.transform`, together with `params_hk` (and `state_hk`).

    >>> import haiku as hk
    >>> net = cm.from_haiku_module(hk.Linear, cm.ones((4, 3)), constructor_args=(2,))
    >>> net(cm.ones((5, 3))).shape
    (5, 2)
    """
    import haiku as hk
    import jax

    args, kwargs = _examples("from_haiku_module", example_inputs, instance_args, instance_kwargs)
    function = haiku_function(native_module)
    switch, args, kwargs = mode_switch(function, args, kwargs)
    if inspect.isclass(native_module):
        made = (constructor_args or (), constructor_kwargs or {})
        kind: Any = native_module

        def forward(*a: Any, **k: Any) -> Any:
            return kind(*made[0], **made[1])(*a, **k)

        both = hk.transform_with_state(forward)
        first, named = in_mode(switch, True, args, kwargs)
        params, state = both.init(jax.random.PRNGKey(rng_seed), *first, **named)
        params = params if params_hk is None else params_hk
        state = state if state_hk is None else state_hk
        apply = both.apply
    elif hasattr(native_module, "init") and hasattr(native_module, "apply"):
        if params_hk is None:
            raise ConvertError("from_haiku_module: a transformed function needs params_hk")
        params, state = params_hk, state_hk or {}
        if isinstance(native_module, hk.TransformedWithState):
            apply = native_module.apply
        else:
            apply = lambda p, s, key, *a, **k: (native_module.apply(p, key, *a, **k), s)
    else:
        raise ArgumentError(
            f"from_haiku_module: expected a class or a transformed function, got {type(native_module).__name__}"
        )
    held = _flat(params, "param") + _flat(state, "state")
    trees = [jax.tree_util.tree_flatten(params), jax.tree_util.tree_flatten(state)]
    # jax flattens mappings by sorted keys; ours keep their order.
    order = [path for path, _, _ in held]
    rows = [jax.tree_util.tree_leaves(_paths(params)), jax.tree_util.tree_leaves(_paths(state))]

    def build(values: list[Any]) -> Any:
        by_path = dict(zip(order, values, strict=True))
        return [jax.tree_util.tree_unflatten(t[1], [by_path[p] for p in r]) for t, r in zip(trees, rows, strict=True)]

    def part_of(training: bool | None) -> Part:
        def run(own: Any, key: Any, *a: Any) -> Any:
            *positional, named = a
            positional, named = in_mode(switch, training, tuple(positional), named)
            return apply(own[0], own[1], key, *positional, **named)

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
            tag=_TAGS[training],
        )

    name = getattr(native_module, "__name__", "")
    arguments = _arguments(function, args, kwargs, switch)
    return _captured(part_of, switch is not None, arguments, name, options, flag=switch is None or switch.flag)


def haiku_function(module: Any) -> Any:
    """The forward pass of a Haiku class, or the function passed to `hk.transform`."""
    if inspect.isclass(module):
        return module.__call__  # type: ignore[attr-defined]
    return getattr(getattr(module, "init", None), "_original_fn", None)


def _paths(tree: Any, path: str = "") -> Any:
    """The same pytree with paths instead of arrays."""
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
    """Converts a Flax module to a Clematis module that runs on any backend.

    `native_module` is a linen module with its variables as `params`, an nnx module, or a class of either.

    >>> from flax import nnx
    >>> net = cm.from_flax_module(nnx.Linear(3, 2, rngs=nnx.Rngs(0)), cm.ones((4, 3)))
    >>> net(cm.ones((5, 3))).shape
    (5, 2)
    """
    from flax import linen, nnx

    args, kwargs = _examples("from_flax_module", example_inputs, instance_args, instance_kwargs)
    native_module = flax_instance(native_module, constructor_args, constructor_kwargs, rng_seed)
    if isinstance(native_module, nnx.Module):
        return _from_nnx(nnx, native_module, args, kwargs, dynamic_batch, options)
    if not isinstance(native_module, linen.Module):
        raise ArgumentError(f"from_flax_module: expected a Flax module, got {type(native_module).__name__}")
    return _from_linen(native_module, params, rng_seed, args, kwargs, dynamic_batch, options)


def flax_instance(kind: Any, args: Any, kwargs: Any, seed: int) -> Any:
    """An instance of a class, with rngs from the seed if it takes them; an instance is returned unchanged."""
    from flax import nnx

    if not inspect.isclass(kind):
        return kind
    made = dict(kwargs or {})
    if issubclass(kind, nnx.Module) and "rngs" in inspect.signature(kind.__init__).parameters:
        made.setdefault("rngs", nnx.Rngs(seed))
    return kind(*(args or ()), **made)


def linen_field(module: Any) -> str | None:
    """The field that holds a linen module's training mode."""
    return next((word for word in _MODES if isinstance(getattr(module, word, None), bool)), None)


def _from_linen(
    module: Any, params: Any, seed: int, args: Any, kwargs: Any, dynamic: bool, options: dict[str, Any]
) -> Captured:
    import jax

    call = type(module).__call__
    switch, args, kwargs = mode_switch(call, args, kwargs)
    field = None if switch else linen_field(module)
    if params is None:
        keys = dict(zip(("params", "dropout"), jax.random.split(jax.random.PRNGKey(seed)), strict=True))
        first, words = in_mode(switch, False, args, kwargs)
        params = module.init(keys, *first, **words)
    variables = dict(params) if "params" in params else {"params": params}
    held = _flat(variables["params"], "param")
    rest = {name: x for name, x in variables.items() if name != "params"}
    held += _flat(rest, "state")
    rows = {"params": _paths(variables["params"]), **_paths(rest)}
    leaves, tree = jax.tree_util.tree_flatten(rows)

    def build(values: list[Any]) -> Any:
        by_path = dict(zip([path for path, _, _ in held], values, strict=True))
        return jax.tree_util.tree_unflatten(tree, [by_path[path] for path in leaves])

    def part_of(training: bool | None) -> Part:
        here = module.clone(**{field: _MODES[field][training]}) if field and training is not None else module

        def run(own: Any, key: Any, *a: Any) -> Any:
            *positional, named = a
            positional, named = in_mode(switch, training, tuple(positional), named)
            # rng streams of other names are derived from the first.
            rngs = {"params": jax.random.fold_in(key, 1), "dropout": key}
            return here.apply(own, *positional, **named, mutable=list(rest), rngs=rngs)

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
            tag=_TAGS[training],
        )

    flag = switch.flag if switch else field is None or getattr(module, field) is _MODES[field][1]
    arguments = _arguments(call, args, kwargs, switch)
    modes = switch is not None or field is not None
    return _captured(part_of, modes, arguments, type(module).__name__, options, flag=flag)


def _from_nnx(nnx: Any, module: Any, args: Any, kwargs: Any, dynamic: bool, options: dict[str, Any]) -> Captured:
    import jax

    call = type(module).__call__
    switch, args, kwargs = mode_switch(call, args, kwargs)
    draws = "rngs" in inspect.signature(call).parameters and "rngs" not in kwargs
    graph, trained, keys, rest = nnx.split(module, nnx.Param, nnx.RngState, ...)
    flat = [(_dotted(path), "param", x[...]) for path, x in nnx.to_flat_state(trained)]
    flat += [(_dotted(path), "state", x[...]) for path, x in nnx.to_flat_state(rest)]

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

    flags = _nnx_flags(nnx, module)

    def part_of(training: bool | None) -> Part:
        def run(own: Any, key: Any, *a: Any) -> Any:
            *positional, named = a
            net = merged(own, key)
            if training is not None:
                net.train() if training else net.eval()
            positional, named = in_mode(switch, training, tuple(positional), named)
            if draws:
                named = {**named, "rngs": nnx.Rngs(jax.random.wrap_key_data(key))}
            out = net(*positional, **named)
            _, _, _, after = nnx.split(net, nnx.Param, nnx.RngState, ...)
            return out, [(_dotted(path), x[...]) for path, x in nnx.to_flat_state(after)]

        return read_jax.read(
            run,
            flat,
            lambda values: values,
            (*args, kwargs),
            dynamic=dynamic,
            with_key=True,
            updates=lambda out: out,
            tag=_TAGS[training],
        )

    if switch is not None and switch.given is not None:
        flags.add(switch.flag)
    arguments = _arguments(call, args, kwargs, switch)
    return _captured(
        part_of, True, arguments, type(module).__name__, options, flag=flags != {False}, differ=len(flags) > 1
    )


def _nnx_flags(nnx: Any, module: Any) -> set[bool]:
    """The training flags of its submodules, if they have one."""
    found = set()
    for _, part in nnx.iter_modules(module):
        for word in ("deterministic", "use_running_average"):
            value = getattr(part, word, None)
            if isinstance(value, bool):
                found.add(not value)
    return found


def _dotted(path: Any) -> str:
    return ".".join(map(str, path))
