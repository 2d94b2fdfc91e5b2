"""Decides which TensorFlow programs XLA compiles as a whole.

XLA's CPU matmul is slower than TensorFlow's for transposed operands; everything else is as fast or faster. Small programs
save TensorFlow's per-op dispatch, and loops save a return to the TensorFlow executor at each step.
"""

import math
import re

from .clusters import DTYPES, XLA_OPS

# Below this many multiply-accumulates dispatch dominates; above it matmuls with transposed operands do.
_MAX_MACS = 1 << 26
_MATMULS = frozenset({"dot_general", "linear"})

_RESULT = re.compile(r"%(\d+): (\w+)\[([\d,]*)\]")
_OP = re.compile(r" = (\w+)\(([^)]*)\)")


def _size(sizes: str) -> int:
    return math.prod(int(n) for n in sizes.split(",") if n)


def compile_whole(text: str) -> bool:
    """Whether XLA compiles a graph, given as text, as one program: it is small, or its loops have small matmuls."""
    # The element count of each value, for this graph and each graph that encloses it.
    sizes: list[dict[str, int]] = []
    outside, inside, loops = 0.0, 0.0, False
    for line in text.splitlines():
        line = line.strip()
        results, op = _RESULT.findall(line.partition(" = ")[0]), _OP.search(line)
        if any(dtype not in DTYPES for _, dtype, _ in results) or op is not None and op[1] not in XLA_OPS and op[1] != "scan":
            return False
        if sizes:
            sizes[-1].update((name, _size(shape)) for name, _, shape in results)
        if op is not None and op[1] in _MATMULS:
            # macs = m·k·n = sqrt(m·k · k·n · m·n)
            known = [sizes[-1].get(name, 1) for name in re.findall(r"%(\d+)", op[2])[:2]]
            macs = math.sqrt(math.prod(known) * sum(_size(shape) for _, _, shape in results))
            outside, inside = (outside + macs, inside) if len(sizes) == 1 else (outside, inside + macs)
        loops = loops or op is not None and op[1] == "scan"
        if line.endswith("graph {"):
            sizes.append({})
        elif line.startswith("}"):
            sizes.pop()
    return (inside if loops else outside) < _MAX_MACS
