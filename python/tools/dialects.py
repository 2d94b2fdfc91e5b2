"""Writes the table of each dialect's functions for source printers that run without Python: `python python/tools/dialects.py`."""

import inspect
import json
from pathlib import Path

from clematis import _clematis as core
from clematis._convert import lowered

PLACE = Path(__file__).parents[2] / "crates" / "convert" / "src" / "export" / "python" / "dialects.json"
FRAMEWORKS = ("numpy", "torch", "jax", "tensorflow")


def known(framework):
    """The functions of a dialect, those that may decline, and its properties."""
    ops = core._dialect(framework)
    names = sorted(
        name for name, f in vars(ops).items() if callable(f) and not name.startswith("_") and not inspect.isclass(f)
    )
    return {
        "functions": names,
        "refuses": sorted(lowered._refuses(framework) & set(names)),
        "numbers": sorted(getattr(ops, "NUMBERS", ())),
        "numberless": sorted(getattr(ops, "NUMBERLESS", ())),
        "asks_for_64": hasattr(ops, "in_64"),
        "dynamic_sizes": hasattr(ops, "for_source"),
        "wraps_scalars": hasattr(ops, "scalar_to_array"),
    }


def text():
    """The file as it should be."""
    lines = [f"{json.dumps(name)}: {json.dumps(known(name))}" for name in FRAMEWORKS]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.write_text(text())
    print(f"{PLACE}: {len(FRAMEWORKS)} dialects")
