"""Every Python example of the documents runs."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def examples():
    """Each block of Python in the README and in docs, with the place where it stands."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        for block in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            line = text.count("\n", 0, block.start()) + 2
            yield pytest.param(block.group(1), id=f"{path.relative_to(ROOT)}:{line}")


@pytest.mark.parametrize("source", list(examples()))
def test_an_example_runs(source):
    exec(compile(source, "example", "exec"), {})
