"""Actions to run once another package is imported: torch's compiler and Keras learn of our functions and classes.

Both packages are slow to import and may be imported after this one, so an import hook waits for them.
"""

import sys
from collections.abc import Callable
from types import BuiltinFunctionType, ModuleType
from typing import Any

from . import _clematis as _core

# Functions that return no arrays, take functions, or draw random numbers on the engine: torch.compile breaks its graph at
# them.
NOT_IN_GRAPH = frozenset(
    "bernoulli beta bits categorical dirichlet dropout dropout1d dropout2d dropout3d exponential gamma gumbel laplace multinomial"
    " normal permutation poisson randint random_normal random_orthogonal random_uniform shuffle truncated_normal uniform"
    " allclose backends broadcast_shapes can_cast cond current_backend custom_vjp deserialize finfo get get_state grad hessian"
    " iinfo is_array isdtype jac jvp key leaves linearize map multi_head_attention paths register_backend result_type"
    " scan seed set_backend set_state switch value_and_grad vjp while_loop".split()
)


def allow_in_torch_graphs() -> None:
    """Lets torch.compile put calls of our functions into its graphs: its compiler cannot trace compiled functions."""
    from torch.compiler import allow_in_graph

    # Loaded now: while torch traces, no framework can be loaded.
    _core.backend("torch")
    for part in (_core, *(x for x in vars(_core).values() if isinstance(x, ModuleType))):
        for name, function in vars(part).items():
            if isinstance(function, BuiltinFunctionType) and name not in NOT_IN_GRAPH and not name.startswith("_"):
                allow_in_graph(function)


def register_keras_class() -> None:
    """Registers our Keras class, so that Keras can load files that hold it."""
    from ._convert import to_keras  # noqa: F401


class _AfterImport:
    """A finder on `sys.meta_path` that runs an action after one module is imported, and then removes itself."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self.name, self.action = name, action

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                self.action()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def after_import(name: str, action: Callable[[], None], is_complete: Callable[[ModuleType], bool] = bool) -> None:
    """Runs an action once a module is imported: now, if it is already."""
    module = sys.modules.get(name)
    if module is not None and is_complete(module):
        action()
    else:
        sys.meta_path.insert(0, _AfterImport(name, action))  # type: ignore[arg-type]


after_import("torch._dynamo", allow_in_torch_graphs)
after_import("keras", register_keras_class, lambda keras: hasattr(keras, "Model"))
