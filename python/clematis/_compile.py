"""Lets torch.compile take our functions whole into its graphs, as soon as its compiler is imported.

The compiler reads Python and stops at compiled functions that it does not know. It is slow to import, and may be
imported long after us, so we wait for it instead of importing it.
"""

import sys
from types import BuiltinFunctionType, ModuleType

from . import _clematis as _core

COMPILER = "torch._dynamo"

# What returns no arrays, takes functions, or draws, which the engine does: there the compiler goes back to Python.
OUTSIDE = frozenset(
    "bernoulli beta bits categorical dirichlet dropout dropout1d dropout2d dropout3d exponential gamma gumbel laplace multinomial"
    " normal permutation poisson randint random_normal random_orthogonal random_uniform shuffle truncated_normal uniform"
    " allclose backends broadcast_shapes can_cast cond current_backend custom_vjp deserialize finfo get get_state grad hessian"
    " iinfo is_array isdtype jac jvp key leaves linearize map multi_head_attention paths register_backend result_type"
    " scan seed set_backend set_state switch value_and_grad vjp while_loop".split()
)


def allow() -> None:
    """Tells the compiler about our functions, which it then calls with its own stand-ins for arrays."""
    from torch.compiler import allow_in_graph

    # Now: later a stand-in may be the first array of torch that we meet, and nothing can be loaded while it is used.
    _core.backend("torch")
    for part in (_core, *(x for x in vars(_core).values() if isinstance(x, ModuleType))):
        for name, function in vars(part).items():
            if isinstance(function, BuiltinFunctionType) and name not in OUTSIDE and not name.startswith("_"):
                allow_in_graph(function)


class Watch:
    """Waits for the compiler among the finders of modules; gone once it has been seen."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != COMPILER:
            return None
        sys.meta_path.remove(Watch)
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                allow()

            spec.loader.exec_module = exec_module
        return spec


def watch() -> None:
    """Waits for the compiler, or tells it at once if it is there."""
    if COMPILER in sys.modules:
        allow()
    elif Watch not in sys.meta_path:
        sys.meta_path.insert(0, Watch)


watch()
