"""Captures a torch module as plain data.

The first attempt is torch.export with a symbolic batch size. If it specializes a size, the module is captured at
two batch sizes and both programs are merged to a symbolic one; if it fails, the module is run on the example and its ops are
recorded. The module itself is not modified: flags, values, hooks.
"""

import inspect
import json
import warnings
from collections.abc import Callable
from typing import Any

from ..errors import ClematisError, ConvertError, UnsupportedError
from .captured import Arguments, Capture, Part, ImportedProgram, flattened
from .tree_structure import flatten
from .torch_decompose import plain, plain_table, table_for, with_plain_results
from .torch_example import device, ordered, quiet, rebatched, tensors, untouched, values_read
from .torch_inplace import without_writes
from .torch_program import Held, Traced, Writer, first_line, merged, rules, text
from .torch_no_grad import stopping, with_stops

# The two batch sizes to capture at: neither is likely to be another size of the model.
_SIZES = (3, 5, 7)


def read(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, dynamic: bool = True, allow_training: bool = True,
    specialise: bool = False,
) -> Capture:  # fmt: skip
    """Captures a torch module in evaluation and in training mode."""
    import torch

    args, kwargs = ordered(module, *tensors(torch, args, kwargs, device(module)))
    flags = [m.training for m in module.modules()]
    with untouched(module) as own:
        reader = _Reader(torch, own, args, kwargs, dynamic, specialise)

        def part_or_error() -> Part | ConvertError:
            try:
                return reader.part()
            except ClematisError as e:
                return ConvertError(str(e))
            except Exception as e:  # noqa: BLE001 - torch raises anything
                return ConvertError(f"{type(module).__name__}: {first_line(e)}")

        own.eval()
        evaluation = reader.part()
        training: Part | ConvertError = evaluation
        initial: Part | ConvertError | None = None
        if allow_training:
            own.train()
            training = part_or_error()
            if flags_differ(module):
                for m, flag in zip(own.modules(), flags, strict=True):
                    m.training = flag
                initial = part_or_error()
    if reader.warning:
        warnings.warn(reader.warning, stacklevel=4)
    values = dict(evaluation.values)
    for part in (training, initial):
        if isinstance(part, Part):
            values = part.values | values
    return Capture("torch", values, evaluation, training, type(module).__name__, module.training, initial)


def flags_differ(module: Any) -> bool:
    """Whether the training flags of the submodules differ."""
    return len({m.training for m in module.modules()}) > 1


def read_function(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, dynamic: bool,
    specialise: bool = False,
) -> Capture:  # fmt: skip
    """Captures a torch function."""
    import torch

    class Function(torch.nn.Module):
        pass

    Function.forward = staticmethod(function)
    Function.__name__ = getattr(function, "__name__", type(function).__name__)
    return read(Function(), args, kwargs, dynamic=dynamic, allow_training=False, specialise=specialise)


def held(module: Any) -> dict[str, tuple[str, Any]]:
    """Role and value of the parameters and buffers, by path."""
    transient = _transient(module)
    found = {path: ("param" if x.requires_grad else "frozen", x.detach()) for path, x in module.named_parameters()}
    buffers = {path: ("transient" if path in transient else "state", x) for path, x in module.named_buffers()}
    return found | buffers


class _Reader:
    """Captures one module, once for each of its modes."""

    def __init__(self, torch: Any, module: Any, args: Any, kwargs: Any, dynamic: bool, specialise: bool) -> None:
        self.torch, self.module, self.dynamic, self.specialise = torch, module, dynamic, specialise
        self.args, self.kwargs = args, kwargs
        self.known = rules()
        self.name = type(module).__name__
        self.warning = ""
        # The index of the first strategy that worked: the next capture starts with it.
        self.first = 0
        self.plain = False
        self.last: Any = None

    def part(self) -> Part:
        """Captures the module in its current mode."""
        # Gradients are enabled, so that torch records where a model disables them.
        with quiet(), self.torch.enable_grad():
            return self._capture()

    def _capture(self) -> Part:
        strategies = [self._named, self._between, self._fixed, self._run_between, self._run]
        error: BaseException | None = None
        for i, strategy in enumerate(strategies):
            if i < self.first or not self.dynamic and strategy in (self._named, self._between, self._run_between):
                continue
            # A program that torch can export is not recorded by running it.
            if isinstance(error, ClematisError) and strategy in (self._run_between, self._run):
                break
            try:
                part = strategy()
                if part is not None:
                    part.program = part.program or ImportedProgram("torch", part)
                    self.first = i
                    return part
            except ClematisError as e:
                if "unsupported operator" in str(e) or "depends on values" in str(e):
                    raise
                error = error or e
            except Exception as e:  # noqa: BLE001 - torch raises anything
                error = error or e
        if isinstance(error, ClematisError):
            raise error
        raise ConvertError(f"{self.name}: torch cannot capture it: {first_line(error or ValueError())}") from error

    # Capture strategies, best first.

    def _named(self) -> Part | None:
        """With a symbolic batch size."""
        torch = self.torch
        arrays = [x for x in flattened((self.args, self.kwargs)) if isinstance(x, torch.Tensor) and x.dim()]
        if not arrays:
            return None
        own = {x.shape[0] for x in arrays}
        # torch.export specializes a batch of one.
        changed = own == {1}
        error: BaseException | None = None
        example = (self.args, self.kwargs)
        if 1 in own:
            other = next(n for n in range(2, 99) if n not in own)
            tried = [rebatched(torch, example, {1: other})]
            if not changed:
                tried.append(example)
        else:
            tried = [example]
        for args, kwargs in tried:
            try:
                program = self._export(args, kwargs, named=True)
                if not self._is_open(program, (args, kwargs)):
                    continue
                # Without dropout and batch norm both modes share one program.
                code = str(program.graph_module.code)
                if self.last is None or self.last[0] != code:
                    self.last = (code, self._written(self._traced(program)))
                return self.last[1]
            except ClematisError:
                raise
            except Exception as e:  # noqa: BLE001 - torch raises anything
                error = error or e
        if error is not None:
            raise error
        return None

    def _between(self) -> Part | None:
        """At two batch sizes; the programs are merged."""
        return self._fitted(lambda args, kwargs: self._traced(self._export(args, kwargs, named=False)))

    def _fixed(self) -> Part | None:
        """With the sizes of the example."""
        part = self._written(self._traced(self._export(self.args, self.kwargs, named=False)))
        if self.dynamic:
            self._warn_of_sizes()
        return part

    def _run_between(self) -> Part | None:
        """Recorded on the example, at two batch sizes."""
        return self._fitted(self._recorded)

    def _run(self) -> Part | None:
        """Recorded on the example."""
        part = self._written(self._recorded(self.args, self.kwargs))
        if self.dynamic and not self.warning:
            self._warn_of_sizes()
        return part

    def _warn_of_sizes(self) -> None:
        if any(isinstance(x, self.torch.Tensor) and x.dim() for x in flattened((self.args, self.kwargs))):
            self.warning = (
                f"{self.name}: its sizes could not be made dynamic: the result takes inputs of the example's shapes only"
            )

    def _refuse_values(self, graph: Any, given: list[str], places: list[str]) -> None:
        """Raises or warns if the recorded ops depended on values of the example."""
        tags = self.torch.Tag
        # Values that depend on inputs, and values that depend on random draws.
        depends: dict[Any, str] = {}
        for node in graph.nodes:
            if node.name in given:
                depends[node] = "values of its inputs"
            elif tags.nondeterministic_seeded in getattr(node.target, "tags", ()):
                depends[node] = "random draws"
            else:
                found = [depends[x] for x in node.all_input_nodes if x in depends]
                if found:
                    depends[node] = max(found)
        asked = {x for node, x in depends.items() if tags.data_dependent_output in getattr(node.target, "tags", ())}
        if not asked:
            return
        place = f", first at {places[0]}" if places else ""
        if not self.specialise and max(asked) != "random draws":
            raise ConvertError(
                f"{self.name}: what its forward does depends on {max(asked)}{place}. Write it with torch.where or"
                " torch.cond, or pass specialise=True to keep the branches that your example takes"
            )
        self.warning = (
            f"{self.name}: what its forward does depends on {max(asked)}{place}. It was specialised on your example: branches that the"
            " example did not take are not in the result"
        )

    # How a program is captured.

    def _export(self, args: Any, kwargs: Any, named: bool) -> Any:
        from torch.export import Dim, export

        torch = self.torch

        def sizes(x: Any) -> Any:
            if isinstance(x, torch.Tensor):
                return {0: Dim.AUTO} if named and x.dim() and x.shape[0] >= 2 else None
            if isinstance(x, dict):
                return {k: sizes(v) for k, v in x.items()}
            if isinstance(x, (list, tuple)):
                return type(x)(map(sizes, x)) if type(x) in (list, tuple) else [sizes(v) for v in x]
            return None

        module = with_plain_results(torch, self.module) if self.plain else self.module
        shapes = None
        if named:
            bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
            shapes = {name: sizes(x) for name, x in bound.items()}
        try:
            with stopping(torch, regions=False):
                return export(module, args, kwargs, dynamic_shapes=shapes, strict=False)
        except Exception as e:
            if not self.plain and ("pytree" in str(e) or "output" in str(e) and "type" in str(e)):
                self.plain = True
                return self._export(args, kwargs, named)
            raise

    def _is_open(self, program: Any, example: Any) -> bool:
        """Whether every symbolic batch axis is still symbolic."""
        places = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
        given = [places[s.arg.name].meta.get("val") for s in program.graph_signature.input_specs
                 if s.kind.name == "USER_INPUT" and s.arg.name in places]  # fmt: skip
        arrays = [x for x in given if isinstance(x, self.torch.Tensor) and x.dim()]
        asked = [x for x in flattened(example) if isinstance(x, self.torch.Tensor) and x.dim()]
        pairs = list(zip(arrays, asked, strict=True))
        return all(not isinstance(x.shape[0], int) or y.shape[0] < 2 for x, y in pairs)

    def _traced(self, program: Any) -> Traced:
        with_stops(self.torch, program.graph_module)
        found = without_writes(self.torch, program.graph_module, self.known)
        if found is None:
            # torch's input guards refer to names that decomposition removes.
            program._example_inputs = None
            program = program.run_decompositions(table_for(self.torch, self.known, program.graph_module))
            found = program.graph_module, {}
        graph_module, new = found
        signature = program.graph_signature
        places = {n.name: n for n in graph_module.graph.nodes}
        held, given = [], []
        updates = {}
        for spec in signature.input_specs:
            kind, path = spec.kind.name, spec.target
            if kind == "BUFFER" and spec.arg.name in new:
                updates[self._path(path)] = new[spec.arg.name].name
            if kind == "USER_INPUT":
                node = places.get(getattr(spec.arg, "name", ""))
                if node is not None and isinstance(node.meta.get("val"), self.torch.Tensor):
                    given.append(spec.arg.name)
            elif kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
                x = program.constants[path] if path in program.constants else program.state_dict[path]
                trained = kind == "PARAMETER" and x.requires_grad and x.is_floating_point()
                role = "param" if trained else "frozen" if kind == "PARAMETER" else "constant"
                if kind == "BUFFER":
                    role = "state" if spec.persistent else "transient"
                held.append(Held(spec.arg.name, role, self._path(path), x))
            elif kind != "TOKEN":
                raise UnsupportedError(f"convert: an input that is {kind.lower().replace('_', ' ')}")
        results: list[Any] = []
        last = next(n for n in graph_module.graph.nodes if n.op == "output").args[0]
        for spec, node in zip(signature.output_specs, last, strict=True):
            kind = spec.kind.name
            if kind == "BUFFER_MUTATION":
                updates[self._path(spec.target)] = node.name
            elif kind == "USER_OUTPUT":
                is_value = hasattr(spec.arg, "name") and not hasattr(spec.arg, "value")
                results.append(node.name if is_value else ("fixed", getattr(spec.arg, "value", None)))
            elif kind not in ("USER_INPUT_MUTATION", "PARAMETER_MUTATION", "TOKEN"):
                raise UnsupportedError(f"convert: an output that is {kind.lower().replace('_', ' ')}")
            # In-place updates of inputs or weights are visible within the call only.
        return Traced(graph_module, held, given, results, updates, program.call_spec.out_spec)

    def _path(self, path: str) -> str:
        return path.removeprefix("inner.") if self.plain else path

    def _recorded(self, args: Any, kwargs: Any) -> Traced:
        """Records the ops of the module on these arguments."""
        from torch.func import functional_call, functionalize
        from torch.fx.experimental.proxy_tensor import make_fx
        from torch.utils._pytree import tree_flatten, tree_unflatten

        torch, module = self.torch, self.module
        params = dict(module.named_parameters(remove_duplicate=False))
        buffers = dict(module.named_buffers(remove_duplicate=False))
        leaves, spec = tree_flatten((args, kwargs))
        at = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        seen: dict[str, Any] = {}

        def run(*flat: Any) -> Any:
            # A forward may update the source's parameters and buffers in place.
            own = {k: x.clone() for k, x in zip(params, flat, strict=False)}
            state = {k: x.clone() for k, x in zip(buffers, flat[len(params) :], strict=False)}
            filled = list(leaves)
            for i, x in zip(at, flat[len(params) + len(buffers) :], strict=True):
                filled[i] = x
            a, k = tree_unflatten(filled, spec)
            with values_read(torch) as seen["places"], stopping(torch, regions=True):
                result = functional_call(module, own | state, a, k, tie_weights=False)
            outs, seen["spec"] = tree_flatten(plain(result))
            seen["outs"] = [None if isinstance(x, torch.Tensor) else (x,) for x in outs]
            return [x for x in outs if isinstance(x, torch.Tensor)], [state[k] for k in buffers]

        flat = [*params.values(), *buffers.values(), *(leaves[i] for i in at)]
        flat = [x.detach() for x in flat]
        whole = functionalize(run, remove="mutations_and_views")
        table = plain_table(torch, self.known)
        made = make_fx(whole, table, tracing_mode="real", _error_on_data_dependent_ops=False)(*flat)
        places = [n.name for n in made.graph.nodes if n.op == "placeholder"]
        self._refuse_values(made.graph, places[len(params) + len(buffers) :], seen["places"])
        made.graph.eliminate_dead_code()
        # torch's decompositions may update their intermediate values in place.
        if any(getattr(getattr(n.target, "_schema", None), "is_mutable", False) for n in made.graph.nodes):
            made = (without_writes(torch, made, self.known) or (made, {}))[0]
        for node in made.graph.nodes:
            if node.op == "placeholder":
                node.meta.setdefault("val", flat[places.index(node.name)])
        transient = _transient(module)
        held = [Held(name, "param" if x.requires_grad else "frozen", path, x)
                for name, (path, x) in zip(places, params.items(), strict=False)]  # fmt: skip
        held += [Held(name, "transient" if path in transient else "state", path, x)
                 for name, (path, x) in zip(places[len(params) :], buffers.items(), strict=False)]  # fmt: skip
        outs, state = next(n for n in made.graph.nodes if n.op == "output").args[0]
        given = iter(outs)
        results = [next(given).name if fixed is None else ("fixed", fixed[0]) for fixed in seen["outs"]]
        updates = {path: node.name for path, node in zip(buffers, state, strict=True) if not _is_same(torch, node)}
        return Traced(made, held, places[len(params) + len(buffers) :], results, updates, seen["spec"])

    # Creating the program.

    def _written(self, traced: Traced) -> Part:
        program, values = Writer(self.torch, traced, self.known).program()
        return self._part(json.dumps(program), values, traced)

    def _fitted(self, trace: Callable[[Any, Any], Traced]) -> Part | None:
        torch = self.torch
        arrays = [x for x in flattened((self.args, self.kwargs)) if isinstance(x, torch.Tensor) and x.dim()]
        if not arrays:
            return None
        own = arrays[0].shape[0]

        def at(size: int) -> Any:
            args, kwargs = rebatched(torch, (self.args, self.kwargs), {own: size})
            traced = trace(args, kwargs)
            return *Writer(torch, traced, self.known).program(), traced

        try:
            (one, values, traced), (two, others, _) = at(_SIZES[0]), at(_SIZES[1])
            if list(values) != list(others) or any(_differ(torch, values[k][1], others[k][1]) for k in values):
                return None
            whole = merged(one, two, _SIZES[:2])
            # Sizes are linear in the batch: a third batch size verifies it.
            if text(merged(one, at(_SIZES[2])[0], _SIZES[::2])) != text(whole):
                return None
        except ValueError:
            return None
        return self._part(text(whole), values, traced)

    def _part(self, written: str, values: Any, traced: Traced) -> Part:
        from torch.utils._pytree import tree_unflatten

        class Place:
            """Placeholder for an array."""

        leaves = [Place() if isinstance(x, str) else x[1] for x in traced.results]
        tree = tree_unflatten(leaves, traced.out_spec)
        _, shape = flatten(tree, lambda x: isinstance(x, Place))
        count = sum(isinstance(x, str) for x in traced.results)
        arguments = Arguments.of(self.module.forward, self.args, self.kwargs)
        return Part(written, values, [True] * len(traced.given), [None] * count, None, shape, False, arguments)


def _differ(torch: Any, x: Any, y: Any) -> bool:
    return x is not y and (x.shape != y.shape or x.dtype != y.dtype or not torch.equal(x, y))


def _transient(module: Any) -> set[str]:
    return {
        f"{path}.{name}" if path else name
        for path, m in module.named_modules()
        for name in m._non_persistent_buffers_set
    }


def _is_same(torch: Any, node: Any) -> bool:
    """Whether a new value is the old one."""
    while node.op == "call_function" and node.target in (torch.ops.aten.clone.default, torch.ops.aten.alias.default):
        node = node.args[0]
    return node.op == "placeholder"


__all__ = ["flags_differ", "held", "read", "read_function"]
