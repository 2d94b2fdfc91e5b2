"""Captured models of other frameworks as Clematis modules."""

import contextlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError, ClematisError, ConvertError, TraceError
from .._module.info import info_of
from ..module import Module, State
from .tree_structure import LEAF, _has_keys, unflatten, flatten


@dataclass
class Arguments:
    """Maps the arguments of a call to the arrays that a program takes.

    Arguments are passed as in the example, by position or by name; those that are not arrays must have the same values.
    """

    names: list[str]
    args: list[Any]
    kwargs: dict[str, Any]
    # The argument that switches training mode: its name, its position (or None), and the value for training.
    switch: tuple[str, int | None, bool] | None = None

    @classmethod
    def of(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> "Arguments":
        """From the arguments of an example."""
        try:
            known = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            known = []  # type: ignore[assignment]
        plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [p.name for p in known if p.kind in plain]
        return cls(names, [flatten(x)[1] for x in args], {k: flatten(x)[1] for k, x in kwargs.items()})

    def without_switch(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[bool | None, tuple[Any, ...], dict[str, Any]]:
        """The training mode that a call passes (None if it passes none), and its other arguments."""
        if self.switch is None:
            return None, args, kwargs
        word, at, on = self.switch
        if word in kwargs:
            given = kwargs[word]
            kwargs = {key: x for key, x in kwargs.items() if key != word}
        elif at is not None and at < len(args) and isinstance(args[at], bool):
            given, args = args[at], (*args[:at], *args[at + 1 :])
        else:
            return None, args, kwargs
        if given is None:
            return None, args, kwargs
        if not isinstance(given, (bool, int)):
            raise ArgumentError(f"{word}: expected True or False for the training mode, got {_short(given)}")
        return bool(given) is on, args, kwargs

    def leaves(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arrays among the arguments of a call."""
        kwargs = dict(kwargs)
        given = list(args[: len(self.args)])
        for at, x in enumerate(args[len(self.args) :], len(self.args)):
            if at >= len(self.names) or self.names[at] in kwargs:
                raise ArgumentError(f"{name}: expected {len(self.args)} arguments as captured, got {len(args)}")
            kwargs[self.names[at]] = x
        for at in range(len(given), len(self.args)):
            word = self.names[at] if at < len(self.names) else ""
            if word not in kwargs:
                raise ArgumentError(f"{name}: argument {word or at!r} is missing; it was captured with it")
            given.append(kwargs.pop(word))
        out: list[Any] = []
        for at, (shape, x) in enumerate(zip(self.args, given, strict=True)):
            _matched(shape, x, out, f"{name}: {self.names[at] if at < len(self.names) else f'argument {at}'}")
        for word, shape in self.kwargs.items():
            if word not in kwargs and _is_open(shape):
                raise ArgumentError(f"{name}: argument {word!r} is missing; it was captured with it")
            if word in kwargs:
                _matched(shape, kwargs.pop(word), out, f"{name}: {word}")
        strange = [word for word, x in kwargs.items() if x is not None]
        if strange:
            raise ArgumentError(f"{name}: it was captured without {', '.join(strange)}; add it to the example inputs")
        return out


def _is_open(shape: Any) -> bool:
    """Whether it contains arrays."""
    if shape == LEAF:
        return True
    kind, inside = shape
    if kind == "value":
        return False
    return any(_is_open(x[1] if _has_keys(kind) else x) for x in inside)


def _matched(shape: Any, x: Any, out: list[Any], where: str) -> None:
    """Appends the arrays of an argument that has the example's structure."""
    if shape == LEAF:
        if x is None or isinstance(x, str):
            raise ArgumentError(f"{where} is {x!r}, and was an array when the model was captured")
        out.append(x)
        return
    kind, inside = shape
    if kind == "value":
        same = x is inside or type(x) is type(inside) and x == inside
        if not same and not (isinstance(x, (int, float)) and isinstance(inside, (int, float)) and x == inside):
            raise ArgumentError(f"{where} is {_short(x)}, and the model was captured with {inside!r}; capture it again")
        return
    keys = isinstance(x, dict)
    if not isinstance(x, (dict, list, tuple)) or len(x) != len(inside):
        raise ArgumentError(f"{where} is {_short(x)}, and was a {kind} of {len(inside)} when the model was captured")
    if keys:
        for word, part in inside:
            if word not in x:
                raise ArgumentError(f"{where} has no {word!r}, which the model was captured with")
            _matched(part, x[word], out, f"{where}[{word!r}]")
        return
    for i, (part, y) in enumerate(zip(inside, x, strict=True)):
        _matched(part, y, out, f"{where}[{i}]")


def _short(x: Any) -> str:
    return f"an array of shape {tuple(x.shape)}" if hasattr(x, "shape") else repr(x)[:60]


@dataclass
class Part:
    """A captured program as JSON, with the specs of its inputs and outputs."""

    text: str
    # Path to (role, the framework's own array).
    values: dict[str, tuple[str, Any]]
    # The indices of arrays among the flat arguments.
    order: list[bool]
    # For each output None, or its constant value.
    constants: list[Any]
    in_spec: Any
    out_spec: Any
    # Whether the last input is a key, drawn at each call.
    takes_key: bool = False
    # Maps a call's arguments to arrays; without it they are flattened.
    arguments: Arguments | None = None
    # The imported program, if the front end has imported it already.
    program: Any = None


@dataclass
class Capture:
    """The programs and the parameters of a captured model."""

    framework: str
    values: dict[str, tuple[str, Any]]
    evaluation: Part
    training: "Part | ConvertError"
    # The name of the source model's class.
    name: str = ""
    # The training flag of the source's root module.
    flag: bool = True
    # The program in which each submodule keeps its own training flag, if these differ: the initial mode.
    initial: "Part | ConvertError | None" = None


class ImportedProgram:
    """An imported program that can be called."""

    def __init__(self, framework: str, part: Part) -> None:
        self.graph, self.constants, self.draws = _core._import_program(part.text, framework)  # type: ignore[attr-defined]
        self.arguments = part.arguments
        self._at: dict[str, list[Any]] = {}
        self.order, self.fixed = part.order, part.constants
        self.in_spec, self.out_spec = part.in_spec, part.out_spec
        self.draws = self.draws or part.takes_key
        inputs = self.graph.inputs()
        # The program's own constants have no names.
        self.paths = [name for name, role, _, _ in inputs if role in _HELD and name]
        self.dtypes = [dtype for _, role, dtype, _ in inputs if role == "input"]
        self.updates = self.graph.updates()

    def constants_at(self, backend: str | None) -> list[Any]:
        """The constants on a backend."""
        if backend is None:
            return list(self.constants)
        if backend not in self._at:
            self._at[backend] = [x if x.backend == backend else x.to(backend) for x in self.constants]
        return self._at[backend]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_at": {}}


_HELD = ("param", "frozen", "state", "transient", "constant")


def flattened(x: Any) -> list[Any]:
    """The leaves of nested arguments, in torch's order."""
    if isinstance(x, (list, tuple)):
        return [leaf for part in x for leaf in flattened(part)]
    if isinstance(x, dict):
        return [leaf for part in x.values() for leaf in flattened(part)]
    return [x]


class Captured(Module):
    """A captured model of another framework as a Clematis module.

    Its variables have the names of the source. In training mode, batch norms update their running statistics and dropout
    is active.
    """

    _at_root = "_state"
    # Returns the same kind of array as its arguments.
    _moves_arguments = False

    def __init__(self, capture: Capture, **options: Any) -> None:
        self._programs = _programs(capture)
        self._name = capture.name or type(self).__name__
        self._hold(capture.values, options)
        self._start(capture.flag, capture.initial is not None)

    def _start(self, flag: bool, differ: bool) -> None:
        """Sets the training flags of the source: that of its root, or one per submodule."""
        self._root_flag = flag
        info_of(self).training = None if differ else flag

    @property
    def training(self) -> bool:
        """Whether this module is in training mode; until `train` or `eval` is called, the flag of the source's root."""
        flag = info_of(self).training
        return self._root_flag if flag is None else flag

    @training.setter
    def training(self, mode: bool) -> None:
        info_of(self).training = bool(mode)

    def _hold(self, values: dict[str, tuple[str, Any]], options: dict[str, Any]) -> None:
        """Creates the parameters and buffers."""
        self._fresh: Any = {}
        self._state: dict[str, Any] = {}
        frozen = []
        for path, (role, x) in values.items():
            if role in ("param", "frozen"):
                _put(self._fresh, path, _owned(x))
                if role == "frozen":
                    frozen.append(path.replace(".", "/"))
            else:
                _put(self._state, path, State(_owned(x)))
        super().__init__(**options)
        for path in frozen:
            self.freeze(path)

    def _create_variables(self, *, device: Any = None, dtype: Any = None) -> Any:
        fresh, self._fresh = self._fresh, {}
        return fresh

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        mode = info_of(self).training
        switch = self._programs[False].arguments
        if switch is not None and switch.switch is not None:
            given, args, kwargs = switch.without_switch(args, kwargs)
            mode = mode if given is None else given
        program = self._programs[mode]
        if isinstance(program, ConvertError):
            raise ConvertError(f"in training: {program}; call eval() first") from program
        return _run(self, program, args, kwargs)


class LazyModule(Captured):
    """A module that captures its source model at the first call."""

    def __init__(self, read: Any, held: dict[str, tuple[str, Any]], name: str, **options: Any) -> None:
        self._read, self._name = read, name
        self._programs: Any = None
        self._hold(held, options)

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._programs is None:
            capture = self._read(*_examples((args, kwargs)))
            for path, (_, x) in capture.values.items():
                # The constants are known only now.
                if path.replace(".", "/") not in self.v and not _has(self._state, path):
                    _put(self._state, path, State(_owned(x)))
            self._programs, self._read = _programs(capture), None
        return super()._forward(*args, **kwargs)


def _has(state: Any, path: str) -> bool:
    for word in path.split("."):
        if word not in state:
            return False
        state = state[word]
    return True


def _examples(x: Any) -> Any:
    """Arguments as examples: tracers are replaced by zeros."""
    if isinstance(x, dict):
        return {k: _examples(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(map(_examples, x)) if type(x) in (list, tuple) else x
    if isinstance(x, _core.Tensor):
        try:
            return x.numpy()
        except ClematisError:
            import numpy as np

            return np.zeros(x.shape, str(x.dtype).rpartition(".")[2])
    return x


def _owned(x: Any) -> Any:
    """A tensor on the current backend that shares no memory with the source: either may be updated later."""
    return _core.asarray(_core.asarray(x).to(_core.current_backend()), copy=True)


def _programs(capture: Capture) -> "dict[bool | None, ImportedProgram | ConvertError]":
    """The programs by training flag; that of None is for models whose submodules' flags differ."""
    made: dict[int, ImportedProgram | ConvertError] = {}

    def imported(part: "Part | ConvertError") -> "ImportedProgram | ConvertError":
        if not isinstance(part, Part):
            return part
        if id(part) not in made:
            try:
                made[id(part)] = part.program or ImportedProgram(capture.framework, part)
            except ClematisError as e:
                made[id(part)] = ConvertError(str(e))
        return made[id(part)]

    evaluation = capture.evaluation.program or ImportedProgram(capture.framework, capture.evaluation)
    made[id(capture.evaluation)] = evaluation
    programs = {False: evaluation, True: imported(capture.training)}
    if capture.initial is not None:
        programs[None] = imported(capture.initial)
    return programs  # type: ignore[return-value]


def _put(tree: dict[str, Any], path: str, x: Any) -> None:
    *above, last = path.split(".")
    for word in above:
        tree = tree.setdefault(word, {})
    tree[last] = x


_WIDTHS = ("bool", "uint8", "int8", "int16", "int32", "int64")


def _widened(x: Any, dtype: str) -> Any:
    """Casts integers to the captured width: frameworks differ in the dtype of Python integers."""
    own = str(x.dtype).rpartition(".")[2]
    if own == dtype or own not in _WIDTHS or dtype not in _WIDTHS or _WIDTHS.index(own) > _WIDTHS.index(dtype):
        return x
    return x if own == "bool" else x.astype(dtype)


def _own_array(x: Any) -> Any:
    """The framework's own array, or None for a tracer."""
    try:
        return x.native
    except TraceError:
        return x


def _state(module: Any, path: str) -> State:
    found = module._state
    for word in path.split("."):
        found = found[word]
    return found  # type: ignore[no-any-return]


def _run(module: Any, program: ImportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if program.arguments is not None:
        flat = program.arguments.leaves(module._name, args, kwargs)
    else:
        flat = [x for x, is_array in zip(flattened((args, kwargs)), program.order, strict=True) if is_array]
    raw = next((x for x in flat if not isinstance(x, _core.Tensor)), None)
    v, values, backend = module.v, [], None
    for path in program.paths:
        at = path.replace(".", "/")
        x = v[at] if at in v else _state(module, path).value
        # Variables may be the framework's own arrays, for example inside its transformations.
        x = x if isinstance(x, _core.Tensor) else _core.asarray(x)
        backend = backend or x.backend
        values.append(x)
    inputs = [_core.asarray(x) for x in flat]
    backend = backend or (inputs[0].backend if inputs else _core.current_backend())
    inputs = [x.to(backend) if backend is not None and x.backend != backend else x for x in inputs]
    inputs = [_widened(x, dtype) for x, dtype in zip(inputs, program.dtypes, strict=False)]
    # While the call is recorded as a program, there is no backend yet.
    key = [_core._next_key()] if program.draws else []
    # A traced key has no backend: the program that records it runs on the one of its other inputs.
    key = [x if backend is None or x.backend in (None, backend) else x.to(backend) for x in key]
    # A program without array inputs runs on the model's device.
    here = contextlib.nullcontext() if backend in (None, _core.current_backend()) else _core.backend(backend)
    with here:
        outs = program.graph([*values, *inputs, *key, *program.constants_at(backend)])
    results = []
    for x, at in zip(outs, program.updates, strict=True):
        if at is None:
            results.append(x if raw is None else _own_array(x))
        else:
            _state(module, program.paths[at]).value = x
    return unflatten(program.out_spec, results)
