"""Generates docs/ivy.md: the cells of Ivy's five dashboards beside the results of a run of our rows.

    python -m pytest python/tests/ivy_rows --rows-full --rows-out rows.jsonl
    python python/tests/ivy_rows/ivy_dashboard.py rows.jsonl > docs/ivy.md

The column `Clematis` is read from the results only: a cell that failed or was not run is shown as such.
"""

import json
import pathlib
import sys

IVY_BACKENDS = ("numpy", "tensorflow", "torch", "jax")
BACKENDS = ("native", "numpy", "torch", "jax", "tensorflow")
MARKS = {"passed": "✓", "failed": "✗", "limit": "△"}

#: Dashboard, row, Ivy's states in the order of IVY_BACKENDS, and what changed.
ROWS = [
    ("layers", "scaled_dot_product_attention", "✓✓✓✓",
     "A fully masked row is the mean of `v`, never NaN. Masks broadcast over batch axes; the shapes of `q` and `k` must match exactly. Integers are computed in float64."),
    ("layers", "dropout", "✓✓✓✓",
     "Values are tested, not only shapes. `prob=1` gives zeros. `seed=0` is a seed. `dtype` is the dtype of the random draw, not of the result."),
    ("layers", "linear", "✓✓✓✓",
     "Leading axes of `weight` broadcast with those of `x`, for every rank. Integers stay integers."),
    ("layers", "conv1d", "✓✓✓✓",
     "Adds `x_dilations`, `bias`, `filter_format` and integer padding. An empty output is an error."),
    ("layers", "conv2d", "✓✓✓✓",
     "As `conv1d`; unequal strides and dilations on every backend."),
    ("layers", "conv3d", "✓✓✓✓",
     "As `conv1d`; unequal strides and dilations on every backend."),
    ("layers", "conv1d_transpose", "✓✓✓✓",
     "Every valid `output_shape`, not only the default; an invalid one is an error. Dilations on tensorflow too. Adds `bias` and `filter_format`."),
    ("layers", "conv2d_transpose", "✓✓✓✓",
     "As `conv1d_transpose`."),
    ("layers", "conv3d_transpose", "✓✓✓✓",
     "As `conv1d_transpose`."),
    ("layers", "depthwise_conv2d", "✓✓✓✓",
     "Filters have three axes, or four of which the last is 1; no backend alone has a channel multiplier. Unequal strides on tensorflow."),
    ("layers", "conv_general_dilated", "✓✓✗✓",
     "Torch failed; no wrong result is known there, and the likely cause is Ivy's closed-source graph compiler. Here input dilation is a parameter of the convolution op."),
    ("layers", "conv_general_transpose", "✓✓✓✓",
     "Groups, bias and dilations on every backend, at the usual tolerance instead of 0.1."),
    ("layers", "lstm_update", "✓✓✓✓",
     "The gradients of both results are compared, in every float dtype."),
    ("layers", "multi_head_attention", "✓✓✓✓",
     "Widths that do not match are an error. Functions may return tensors or arrays, one or a pair."),
    ("gradients", "gradient_descent_update", "✗✗✗✗",
     "Began to fail on the day that half of the examples went through the closed-source graph compiler. The formula is the same here."),
    ("gradients", "optimizer_update", "✓✓✓✓",
     "With `stop_gradients=False` gradients are compared, not zeros with zeros."),
    ("gradients", "execute_with_gradients", "✓✗✗✗",
     "Gradients on numpy and native too; Ivy returned none on numpy. A loss that is not a scalar is an error on every backend. A dict gives a dict. Shared leaves work under any name."),
    ("gradients", "lamb_update", "✗✗✗✓",
     "Norms are scaled, so values of 1e20 do not overflow. The gradient is tested on jax too, where Ivy switched it off."),
    ("gradients", "adam_update", "✗✓✗✗",
     "Betas of exactly 1 are valid and tested. A change that overwrote its inputs broke it in Ivy for three days."),
    ("gradients", "grad", "✓✓✓✓",
     "`argnums`, higher orders and pytrees. On numpy, Ivy's test returned early and gradients were zeros; they are computed here."),
    ("gradients", "set_with_grads", "✓✓✓✓",
     "One list, changed in place; only `True` and `False` are accepted."),
    ("gradients", "unset_with_grads", "✓✓✓✓",
     "An empty list stays empty. Ivy rebound its list, so this row depended on the order of tests."),
    ("gradients", "jac", "✓✓✓✓",
     "Several arguments and pytrees: the output structure is outermost, the input structure inside. Works on numpy."),
    ("gradients", "lars_update", "✗✗✓✗",
     "Keeps Ivy's formula, in which weight decay divides. Zero weights with decay stay unchanged instead of becoming NaN. Norms are scaled; overflowing sums of squares were the likely cause of the failures."),
    ("gradients", "adam_step", "✓✓✗✓",
     "Epsilon is added in both places, as in Ivy. `step` may be a number or an array with one element."),
    ("gradients", "stop_gradient", "✓✓✓✓",
     "The test checks that gradients are zero."),
    ("gradients", "value_and_grad", "✓✓✓✓",
     "An unused argument has a gradient of zeros on every backend. Works on numpy."),
    ("gradients", "with_grads", "✓✓✓✓",
     "Reading the state does not change it."),
    ("random", "shuffle", "––✗–",
     "Whole rows are permuted; one Ivy backend permuted each column separately. Bit-identical on all backends."),
    ("random", "random_normal", "✗✗✗✗",
     "The result has the requested dtype; one Ivy backend promoted it. Differentiable in `mean` and `std`."),
    ("random", "multinomial", "✗✗✗✗",
     "int64, and rank 1 for rank-1 weights, on every backend; Ivy's reference differed from its backends. Rows are independent. Weights that sum to 0 are an error."),
    ("random", "random_uniform", "–✗––",
     "The upper bound is excluded, in half precision too. `low > high` is an error. Differentiable in both bounds."),
    ("custom-gradients", "bind_custom_gradient_function", "✓✓✓✗",
     "Several inputs and outputs; second derivatives differentiate the rule. Used on numpy, and inside each framework's own autodiff."),
    ("modules", "module_training", "✓✗✗✗",
     "Ivy's numpy cells returned early, because Ivy has no gradients there; ours train on every backend, numpy included. The loss must fall in each of 10 steps."),
    ("modules", "module_training_with_duplicate", "✓✓✗✓",
     "A shared weight appears once, and its gradient is the sum over its uses, whatever the attribute names are; Ivy compared key chains as substrings."),
    ("modules", "module_w_list_training", "✓✓✗✗",
     "As `module_training`, for layers in a list."),
    ("modules", "module_w_dict_training", "✓✓✓✓",
     "As `module_training`, for layers in a dict."),
    ("modules", "module_w_none_attribute", "✓✓✓✓",
     "A module without parameters has an empty container."),
    ("modules", "module_w_partial_v", "✓✓✓✓",
     "A wrong shape, an unknown key or a missing key is an error that names the key."),
    ("modules", "with_custom_var_structure", "✓✓✓✓",
     "Parameters may be renamed by `_create_variables`; the renamed ones replace those found on attributes."),
    ("modules", "top_module", "✓✓✓✓",
     "Same meaning."),
    ("modules", "top_variables", "✓✓✓✓",
     "Same meaning."),
    ("modules", "v_with_top_v_key_chains", "✓✓✓✓",
     "Same meaning; ambiguous or absent chains are reported."),
    ("modules", "module_depth", "✓✓✓✓",
     "Same meaning."),
    ("modules", "module_height", "✓✓✓✓",
     "Same meaning."),
    ("modules", "sub_modules", "✓✓✓✓",
     "Same meaning."),
    ("modules", "module_track_submod_rets", "✓✗✓✗",
     "A call that raises leaves no tracking state and no temporary `v` behind."),
    ("modules", "module_check_submod_rets", "✓✗✓✗",
     "A difference is an error that names the submodule and both values."),
    ("modules", "module_track_submod_call_order", "✓✗✓✗",
     "As `module_track_submod_rets`."),
    ("converters", "to_haiku_module", "✓✓✓✓",
     "Results and gradients are compared with the source module's; the parameters are trainable."),
    ("converters", "to_keras_module", "✓✓✓✓",
     "As `to_haiku_module`, with Keras 3 on each of its backends."),
    ("converters", "to_torch_module", "✓✓✓✓",
     "As `to_haiku_module`."),
    ("converters", "from_backend_module", "✓✓✓✗",
     "torch, Keras, Haiku and Flax modules are imported on every backend, not only on their own; trained there, compared in values and gradients."),
]  # fmt: skip

SECTIONS = {
    "layers": ("Layers", """Convolutions accept strides, filter and input dilations, groups, both data layouts and both filter layouts on every
backend. Padding names are upper case; an unknown name or layout is an error."""),
    "gradients": ("Gradients", "The core computes derivatives, so they are the same on every backend, numpy included."),
    "random": ("Random numbers", """Ivy listed these rows among the gradients, by an error of its database. One counter-based generator in
Rust draws for every backend. A call with a seed is a pure function: it does not advance the implicit stream, and 0 is a seed. `randint`,
`bernoulli`, `beta`, `gamma`, `dirichlet`, `poisson` and `seed` are tested in the same way. `gamma` takes a rate; `bernoulli` applies a
sigmoid to logits, not a softmax; `dirichlet` without a size returns one vector."""),
    "custom-gradients": ("Custom gradients", """The rule receives the inputs first and the outputs second, as Ivy's code did, whatever its
documentation said."""),
    "modules": ("Modules", """Ivy's tests of modules return early on numpy, where Ivy has no gradients; its numpy cells are therefore green without
a computation."""),
    "converters": ("Converters", "Every conversion is compared with its source: outputs, gradients, and outputs after training steps."),
}  # fmt: skip

PAGE = pathlib.Path(__file__).with_name("ivy_dashboard.md")


def read(path):
    """Reads one results file: the cell of each (dashboard, row, backend)."""
    cells = [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    return {(c["dashboard"], c["row"].removeprefix("test_"), c["backend"]): c for c in cells}


def mark(cell):
    return "–" if cell is None else MARKS.get(cell["state"], "–")


def table(dashboard, cells):
    lines = ["| row | Ivy | Clematis | what changed, and why |", "|---|:-:|:-:|---|"]
    for where, name, ivy, note in ROWS:
        if where == dashboard:
            ours = " ".join(mark(cells.get((where, name, backend))) for backend in BACKENDS)
            lines.append(f"| `{name}` | {' '.join(ivy)} | {ours} | {note} |")
    return "\n".join(lines)


def page(cells):
    """Returns the page for the given cells."""
    ours = [cells.get((where, name, backend)) for where, name, _, _ in ROWS for backend in BACKENDS]
    present = [c for c in ours if c is not None]
    passed = sum(c["state"] == "passed" for c in present)
    versions = {backend: next((c["version"] for c in present if c["backend"] == backend), "not run") for backend in BACKENDS}
    fields = {
        "results": f"{passed} of {len(ours)} cells passed, {len(present) - passed} failed, {len(ours) - len(present)} were not run",
        "versions": ", ".join(f"{backend} {version}" for backend, version in versions.items()),
        "tables": "\n\n".join(
            f"## {title}\n\n{lead}\n\n{table(name, cells)}" for name, (title, lead) in SECTIONS.items()
        ),
    }
    text = PAGE.read_text(encoding="utf-8")
    for name, value in fields.items():
        text = text.replace("{" + name + "}", value)
    return text


if __name__ == "__main__":
    results = {}
    for argument in sys.argv[1:]:
        results.update(read(argument))
    sys.stdout.write(page(results))
