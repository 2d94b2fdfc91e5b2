"""Writes docs/forerunner.md: the forerunner's cells as its dashboards had them, ours as a run of the rows found them.

    python -m pytest python/tests/rows --rows-full --rows-out rows.jsonl
    python python/tests/rows/forerunner.py rows.jsonl > docs/forerunner.md

Our column is read from the results and from nothing else: a cell that failed or was not run is shown so.
"""

import json
import pathlib
import sys

THEIRS = ("numpy", "tensorflow", "torch", "jax")
OURS = ("native", "numpy", "torch", "jax", "tensorflow")
MARKS = {"passed": "✓", "failed": "✗", "limit": "△"}

#: Dashboard, row, the forerunner's states in the order of THEIRS, and what changed.
ROWS = [
    ("layers", "scaled_dot_product_attention", "✓✓✓✓",
     "A row that is masked whole is the plain mean of `v`, never NaN. Masks broadcast over batch axes; `q` and `k` must fit exactly. Integers compute in float64."),
    ("layers", "dropout", "✓✓✓✓",
     "Values are tested, not shapes alone. `prob=1` gives zeros. `seed=0` is a seed. `dtype` is that of the draw, never of the result."),
    ("layers", "linear", "✓✓✓✓",
     "Leading axes of `weight` are matched with those of `x`; one meaning for every rank. Integers stay integers."),
    ("layers", "conv1d", "✓✓✓✓",
     "`x_dilations`, `bias`, `filter_format`, a number as padding. A result without places is an error."),
    ("layers", "conv2d", "✓✓✓✓",
     "As `conv1d`; unequal strides and dilations on every backend."),
    ("layers", "conv3d", "✓✓✓✓",
     "As `conv1d`; unequal strides and dilations on every backend."),
    ("layers", "conv1d_transpose", "✓✓✓✓",
     "Every legal `output_shape`, not the default alone; an illegal one is an error. Dilations on tensorflow too. `bias`, `filter_format`."),
    ("layers", "conv2d_transpose", "✓✓✓✓",
     "As `conv1d_transpose`."),
    ("layers", "conv3d_transpose", "✓✓✓✓",
     "As `conv1d_transpose`."),
    ("layers", "depthwise_conv2d", "✓✓✓✓",
     "Filters of three axes, or four with a last one of 1; no channel multiplier on one backend alone. Unequal strides on tensorflow."),
    ("layers", "conv_general_dilated", "✓✓✗✓",
     "Torch was red; no wrong number is known there, and the likely cause is the closed compiler. Here the dilation of the input is part of one op."),
    ("layers", "conv_general_transpose", "✓✓✓✓",
     "Groups, bias and dilations on every backend, at the usual tolerance instead of a tenth."),
    ("layers", "lstm_update", "✓✓✓✓",
     "Gradients of both results are compared, in every float type."),
    ("layers", "multi_head_attention", "✓✓✓✓",
     "Widths that do not fit are an error. Functions may return tensors or arrays, one or a pair."),
    ("gradients", "gradient_descent_update", "✗✗✗✗",
     "Turned red on the day that half of the examples began to go through a closed compiler. The formula is the same here."),
    ("gradients", "optimizer_update", "✓✓✓✓",
     "With `stop_gradients=False` gradients are compared, not zeros with zeros."),
    ("gradients", "execute_with_gradients", "✓✗✗✗",
     "Real gradients on numpy and native, where the forerunner gave none. A loss of several elements is an error on every backend. Dict in, dict out. Shared leaves work under any name."),
    ("gradients", "lamb_update", "✗✗✗✓",
     "Norms are scaled, so squares of 1e20 overflow nothing. The gradient is tested on jax, where it was switched off."),
    ("gradients", "adam_update", "✗✓✗✗",
     "Betas of exactly 1 are legal and tested. The forerunner broke it for three days by a change that overwrote its inputs."),
    ("gradients", "grad", "✓✓✓✓",
     "`argnums`, chains and trees. numpy gave zeros and returned early; it differentiates here."),
    ("gradients", "set_with_grads", "✓✓✓✓",
     "One list, changed in place; only `True` and `False` are taken."),
    ("gradients", "unset_with_grads", "✓✓✓✓",
     "An empty list stays empty. The forerunner rebound its list, so that this row depended on the order of tests."),
    ("gradients", "jac", "✓✓✓✓",
     "Several arguments and nests: the output is outside, the input inside. Works on numpy."),
    ("gradients", "lars_update", "✗✗✓✗",
     "The forerunner's formula is kept: decay divides. Weights of zero with decay stay where they are instead of becoming NaN. Norms are scaled; sums of squares that overflow were the likely cause of red cells."),
    ("gradients", "adam_step", "✓✓✗✓",
     "Epsilon stands in both places, as it did. `step` may be a number or an array of one."),
    ("gradients", "stop_gradient", "✓✓✓✓",
     "Gradients are looked at: they are zero."),
    ("gradients", "value_and_grad", "✓✓✓✓",
     "An argument that is not used has a gradient of zeros on every backend. Works on numpy."),
    ("gradients", "with_grads", "✓✓✓✓",
     "Asking changes nothing."),
    ("random", "shuffle", "––✗–",
     "Rows move as units; one backend moved each column by itself. Equal bits everywhere."),
    ("random", "random_normal", "✗✗✗✗",
     "The dtype asked for is the dtype given; one backend promoted it. Gradients reach `mean` and `std`."),
    ("random", "multinomial", "✗✗✗✗",
     "int64, and one axis for one-dimensional weights, on every backend; the forerunner's reference was the odd one out. Rows are independent. Weights that sum to 0 are an error."),
    ("random", "random_uniform", "–✗––",
     "The upper bound is never drawn, in halves either. `low > high` is an error. Gradients reach both bounds."),
    ("custom-gradients", "bind_custom_gradient_function", "✓✓✓✗",
     "Several inputs and outputs; second order differentiates the rule. Followed on numpy, and inside each framework's own autodiff."),
]  # fmt: skip

SECTIONS = {
    "layers": ("Layers", """Convolutions accept what any backend accepted: strides, dilations of the filter and of the input, groups, both
layouts, both filter layouts. Padding words are in capitals; an unknown word or layout is an error."""),
    "gradients": ("Gradients", "Derivatives are the core's own, so they are the same on each backend, numpy included."),
    "random": ("Random numbers", """The forerunner listed these among the gradients, by a mix-up of its database. One counter-based generator in
Rust draws for every backend. A seed is a pure function: it leaves the stream alone, and 0 is a seed. Beside these four stand
`randint`, `bernoulli`, `beta`, `gamma`, `dirichlet`, `poisson` and `seed`. `gamma` takes a rate; `bernoulli` takes logits through a
sigmoid, not a softmax; `dirichlet` without a size is one vector."""),
    "custom-gradients": ("Custom gradients", """The rule gets the input first and the output second, as it did, whatever its documentation
said."""),
}  # fmt: skip

PAGE = pathlib.Path(__file__).with_name("forerunner.md")


def read(path):
    """Our states and the smallest number of examples in a cell."""
    cells = [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    return {(c["dashboard"], c["row"].removeprefix("test_"), c["backend"]): c for c in cells}


def mark(cell):
    return "–" if cell is None else MARKS.get(cell["state"], "–")


def table(dashboard, cells):
    lines = ["| row | forerunner | ours | what changed, and why |", "|---|:-:|:-:|---|"]
    for where, name, theirs, note in ROWS:
        if where == dashboard:
            ours = " ".join(mark(cells.get((where, name, backend))) for backend in OURS)
            lines.append(f"| `{name}` | {' '.join(theirs)} | {ours} | {note} |")
    return "\n".join(lines)


def page(cells):
    """The whole page."""
    mine = [cells.get((where, name, backend)) for where, name, _, _ in ROWS for backend in OURS]
    there = [c for c in mine if c is not None]
    passed = sum(c["state"] == "passed" for c in there)
    versions = {backend: next((c["version"] for c in there if c["backend"] == backend), "not run") for backend in OURS}
    words = {
        "found": f"{passed} of {len(mine)} cells of ours passed, {len(there) - passed} failed, {len(mine) - len(there)} were not run",
        "versions": ", ".join(f"{backend} {version}" for backend, version in versions.items()),
        "tables": "\n\n".join(
            f"## {title}\n\n{lead}\n\n{table(name, cells)}" for name, (title, lead) in SECTIONS.items()
        ),
    }
    text = PAGE.read_text(encoding="utf-8")
    for name, value in words.items():
        text = text.replace("{" + name + "}", value)
    return text


if __name__ == "__main__":
    found = {}
    for argument in sys.argv[1:]:
        found.update(read(argument))
    sys.stdout.write(page(found))
