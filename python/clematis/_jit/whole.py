"""Which programs tensorflow's compiler is given whole.

Products of turned operands are slower there than in tensorflow, and all else is as fast or faster: small programs take less
time than tensorflow does to go from op to op, and loops run without going back to tensorflow at each step.
"""

import math
import re

from .clusters import DTYPES, KNOWN

# So many multiplications take as long in both: below, the way from op to op counts, above, products of turned operands do.
_LARGE = 1 << 26
_PRODUCTS = frozenset({"dot_general", "linear"})

_RESULT = re.compile(r"%(\d+): (\w+)\[([\d,]*)\]")
_OP = re.compile(r" = (\w+)\(([^)]*)\)")


def _size(sizes: str) -> int:
    return math.prod(int(n) for n in sizes.split(",") if n)


def is_whole(text: str) -> bool:
    """Whether a graph, given as text, is for the compiler as it is: small, or with loops of small products."""
    # How many elements each value has, of this graph and of those that it stands in.
    sizes: list[dict[str, int]] = []
    outside, inside, loops = 0.0, 0.0, False
    for line in text.splitlines():
        line = line.strip()
        results, op = _RESULT.findall(line.partition(" = ")[0]), _OP.search(line)
        if any(dtype not in DTYPES for _, dtype, _ in results) or op is not None and op[1] not in KNOWN and op[1] != "scan":
            return False
        if sizes:
            sizes[-1].update((name, _size(shape)) for name, _, shape in results)
        if op is not None and op[1] in _PRODUCTS:
            # The root of m·k, k·n and m·n.
            known = [sizes[-1].get(name, 1) for name in re.findall(r"%(\d+)", op[2])[:2]]
            work = math.sqrt(math.prod(known) * sum(_size(shape) for _, _, shape in results))
            outside, inside = (outside + work, inside) if len(sizes) == 1 else (outside, inside + work)
        loops = loops or op is not None and op[1] == "scan"
        if line.endswith("graph {"):
            sizes.append({})
        elif line.startswith("}"):
            sizes.pop()
    return (inside if loops else outside) < _LARGE
