"""Runs the node cases of the package `onnx` and prints figures: `python python/tools/onnx_nodes.py`."""

import collections
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import onnx_cases as own


def main():
    """Prints how many cases pass, and how many ops have all of theirs."""
    every, known = own.cases(), own.known()
    failed, limited = {}, {}
    for case in known:
        if case.name in own.LIMITS:
            limited[case.name] = own.LIMITS[case.name]
            continue
        try:
            own.check(case)
        except Exception as e:  # noqa: BLE001
            failed[case.name] = f"{type(e).__name__}: {str(e).strip().splitlines()[0][:120]}"
    by_op = collections.defaultdict(list)
    for case in known:
        names = own.ops(case.model)
        if len(names) == 1:
            by_op[next(iter(names))].append(case.name)
    whole = [op for op, names in by_op.items() if not any(n in failed or n in limited for n in names)]
    unknown = collections.Counter(op for c in every for op in own.ops(c.model) - own.KNOWN)
    print(
        f"{len(every)} cases; {len(known)} of ops that are known, of which {len(known) - len(failed) - len(limited)} pass"
    )
    print(f"{len(own.KNOWN)} ops are known; {len(by_op)} have cases of their own, {len(whole)} of them pass all")
    print(f"{len(limited)} cases cannot be run:", *(f"  {name}: {why}" for name, why in limited.items()), sep="\n")
    print(f"{len(failed)} cases fail:", *(f"  {name}: {why}" for name, why in failed.items()), sep="\n")
    print(f"{len(unknown)} ops are not known:", ", ".join(sorted(unknown)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
