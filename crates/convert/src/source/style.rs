//! The file layout of each framework: imports, classes, utility functions, and how weights are loaded.

use super::deduplicate::Parts;
use super::target::Target;
use super::text::laid_out;

/// Functions that a file may define besides the model's own: those of `functions.txt` and the loaders.
pub const FUNCTIONS: [&str; 22] = [
    "_conv",
    "_listed",
    "_windows",
    "avg_pool",
    "batch_norm",
    "conv1d",
    "conv1d_nwc",
    "conv2d",
    "conv2d_nhwc",
    "conv3d",
    "conv3d_ndhwc",
    "embedding",
    "erf",
    "gelu",
    "layer_norm",
    "linear",
    "max_pool",
    "scan",
    "sigmoid",
    "softmax",
    "switch",
    "while_loop",
];

fn line(out: &mut String, text: &str, indent: usize) {
    // Lines of nested functions have their own indentation.
    let own = text.len() - text.trim_start().len();
    out.push_str(&laid_out(text.trim_start(), indent + own));
}

/// The source of a class or function.
pub fn definition(target: &Target, parts: &Parts, root: bool) -> String {
    let mut out = String::new();
    if !target.classes {
        let mut words = parts.arguments.clone();
        let holds = parts.body.iter().any(|l| l.contains("p["));
        if holds || !root {
            words.push("p".into());
        }
        words.extend(parts.inputs.iter().cloned());
        line(
            &mut out,
            &format!("def {}({}):", parts.name, words.join(", ")),
            0,
        );
        body(&mut out, target, &parts.body, 4);
        return out;
    }
    let base = match target.name {
        "torch" => "nn.Module",
        "keras" if root => "keras.Model",
        "keras" => "layers.Layer",
        "haiku" => "hk.Module",
        "flax" => "nnx.Module",
        _ => "cm.Module",
    };
    line(&mut out, &format!("class {}({base}):", parts.name), 0);
    let mut words: Vec<String> = vec!["self".into()];
    words.extend(parts.arguments.iter().cloned());
    let start = match target.name {
        "torch" => "super().__init__()",
        "keras" => {
            words.push("**options".into());
            "super().__init__(**options)"
        }
        "haiku" => {
            words.push("name=None".into());
            "super().__init__(name)"
        }
        "flax" => {
            words.push("*".into());
            words.push("rngs".into());
            ""
        }
        _ => "",
    };
    let empty = parts.made.is_empty() && parts.kept.is_empty();
    if !(empty && parts.arguments.is_empty() && target.name != "flax") {
        line(&mut out, &format!("def __init__({}):", words.join(", ")), 4);
        if !start.is_empty() {
            line(&mut out, start, 8);
        }
        for name in &parts.kept {
            line(&mut out, &format!("self.{name} = {name}"), 8);
        }
        for (name, makers, is_list) in &parts.made {
            line(&mut out, &made(target, name, makers, *is_list), 8);
        }
        if empty && start.is_empty() {
            line(&mut out, "pass", 8);
        }
        out.push('\n');
    }
    let call = match target.name {
        "torch" => "forward",
        "keras" => "call",
        _ => "__call__",
    };
    let mut words: Vec<String> = vec!["self".into()];
    words.extend(parts.inputs.iter().cloned());
    line(&mut out, &format!("def {call}({}):", words.join(", ")), 4);
    body(&mut out, target, &parts.body, 8);
    out
}

fn body(out: &mut String, target: &Target, lines: &[String], indent: usize) {
    for (i, text) in lines.iter().enumerate() {
        let is_def = text.starts_with("def ");
        let after_def =
            i > 0 && lines[i - 1].starts_with("    ") && !text.starts_with(' ') && in_def(lines, i);
        if (is_def && i > 0) || (after_def && !is_def) {
            out.push('\n');
        }
        // flax variables behave as their values in arithmetic, but not in every function.
        let _ = target;
        line(out, text, indent);
    }
}

/// Whether the indented lines before this one belong to a function.
fn in_def(lines: &[String], at: usize) -> bool {
    let before = lines[..at].iter().rev().find(|l| !l.starts_with(' '));
    before.is_some_and(|l| l.starts_with("def "))
}

fn made(target: &Target, name: &str, makers: &[String], is_list: bool) -> String {
    if !is_list {
        let text = &makers[0];
        return match text.strip_prefix('\u{14}') {
            Some(text) => format!("self.register_buffer(\"{name}\", {text})"),
            None => format!("self.{name} = {text}"),
        };
    }
    // Names that contain the index in the list.
    let plain: Vec<String> = makers
        .iter()
        .enumerate()
        .map(|(i, m)| m.replace(&format!("\"{name}_{i}\""), "\u{7}"))
        .collect();
    let equal = plain.len() > 1 && plain.iter().all(|m| *m == plain[0]);
    let named = plain[0].contains('\u{7}');
    let inside = match equal {
        true => {
            let word = if named { "i" } else { "_" };
            let item = plain[0].replace('\u{7}', &format!("f\"{name}_{{i}}\""));
            format!("{item} for {word} in range({})", plain.len())
        }
        false => makers.join(", "),
    };
    match target.name {
        "torch" if equal => format!("self.{name} = nn.ModuleList({inside})"),
        "torch" => format!("self.{name} = nn.ModuleList([{inside}])"),
        "flax" => format!("self.{name} = nnx.List([{inside}])"),
        _ => format!("self.{name} = [{inside}]"),
    }
}

/// The utility functions that a text calls, and those that they call.
pub fn functions(target: &Target, text: &str) -> String {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for section in include_str!("functions.txt").split("\n# ") {
        let Some((head, body)) = section.split_once('\n') else {
            continue;
        };
        if let Some((ops, name)) = head.trim_start_matches("# ").split_once(' ')
            && ops == target.ops
        {
            all.push((name, body.trim_end_matches('\n')));
        }
    }
    let mut taken: Vec<usize> = Vec::new();
    loop {
        let found = (0..all.len()).find(|i| {
            let inside = taken.iter().any(|t| calls(all[*t].1, all[*i].0));
            !taken.contains(i) && (inside || calls(text, all[*i].0))
        });
        match found {
            Some(i) => taken.push(i),
            None => break,
        }
    }
    taken.sort_unstable();
    taken
        .iter()
        .map(|i| format!("{}\n\n\n", all[*i].1))
        .collect()
}

/// Whether a text calls a function of this name.
fn calls(text: &str, name: &str) -> bool {
    let call = format!("{name}(");
    text.match_indices(&call).any(|(i, _)| {
        let before = text[..i].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.')
            && !text[..i].ends_with("def ")
    })
}

/// The imports that a text needs.
pub fn imports(target: &Target, text: &str, with_weights: bool) -> String {
    let uses = |word: &str| {
        text.match_indices(word).any(|(i, _)| {
            !text[..i].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.')
        })
    };
    let mut standard = Vec::new();
    let mut out: Vec<String> = Vec::new();
    for word in ["functools", "math", "operator"] {
        if uses(&format!("{word}.")) {
            standard.push(format!("import {word}"));
        }
    }
    let mut add = |condition: bool, text: &str| {
        if condition {
            out.push(text.to_string());
        }
    };
    match target.name {
        "torch" => {
            add(uses("torch."), "import torch");
            add(uses("F."), "import torch.nn.functional as F");
            add(with_weights, "from safetensors.torch import load_file");
            add(uses("nn."), "from torch import nn");
        }
        "keras" => {
            add(uses("keras."), "import keras");
            add(
                uses("layers.") && uses("ops."),
                "from keras import layers, ops",
            );
            add(uses("layers.") && !uses("ops."), "from keras import layers");
            add(!uses("layers.") && uses("ops."), "from keras import ops");
            add(with_weights, "from safetensors.numpy import load_file");
        }
        "haiku" => {
            add(uses("hk."), "import haiku as hk");
            add(uses("jax."), "import jax");
            add(uses("jnp."), "import jax.numpy as jnp");
            add(uses("np."), "import numpy as np");
            add(uses("lax."), "from jax import lax");
            add(with_weights, "from safetensors.flax import load_file");
        }
        "flax" => {
            add(uses("jax."), "import jax");
            add(uses("jnp."), "import jax.numpy as jnp");
            add(uses("np."), "import numpy as np");
            add(uses("nnx."), "from flax import nnx");
            add(uses("lax."), "from jax import lax");
            add(with_weights, "from safetensors.flax import load_file");
        }
        "jax" => {
            add(uses("jax."), "import jax");
            add(uses("jnp."), "import jax.numpy as jnp");
            add(uses("np."), "import numpy as np");
            add(uses("lax."), "from jax import lax");
            add(with_weights, "from safetensors.flax import load_file");
        }
        "tensorflow" => {
            add(uses("np."), "import numpy as np");
            add(uses("tf."), "import tensorflow as tf");
            add(with_weights, "from safetensors.tensorflow import load_file");
        }
        "numpy" => {
            add(uses("np."), "import numpy as np");
            add(with_weights, "from safetensors.numpy import load_file");
        }
        _ => add(uses("cm."), "import clematis as cm"),
    }
    let mut text = standard.join("\n");
    if !standard.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(&out.join("\n"));
    text
}

/// The function that creates the model with weights from a file.
pub fn loader(target: &Target, name: &str, example: &str, inputs: &str, stateful: bool) -> String {
    let tree = r#"def load(path):
    """Loads the parameters as nested dicts and lists."""
    params = {}
    for name, value in load_file(path).items():
        *above, last = name.split(".")
        part = params
        for word in above:
            part = part.setdefault(word, {})
        part[last] = VALUE
    return _listed(params)


def _listed(part):
    if not isinstance(part, dict):
        return part
    part = {name: _listed(inner) for name, inner in part.items()}
    if all(name.isdigit() for name in part):
        return [part[name] for name in sorted(part, key=int)]
    return part
"#;
    match target.name {
        "tensorflow" => return tree.replace("VALUE", "tf.Variable(value)"),
        _ if !target.classes => return tree.replace("VALUE", "value"),
        _ => {}
    }
    match target.name {
        "torch" => format!(
            r#"def load(path):
    """The model with the weights of a file."""
    model = {name}()
    model.load_state_dict(load_file(path))
    return model.eval()
"#
        ),
        "keras" => format!(
            r#"def load(path):
    """The model with the weights of a file."""
    model = {name}(name="model")
    model({example})
    values = load_file(path)
    for variable in model.variables:
        name = variable.path.removeprefix("model/")
        if name in values:
            variable.assign(values[name])
    return model
"#
        ),
        "haiku" if stateful => format!(
            r#"model = hk.transform_with_state(lambda {inputs}: {name}(name="model")({inputs}))


def load(path):
    """Parameters and state from a file, for `model.apply(params, state, None, ...)`."""
    params, state = {{}}, {{}}
    for key, value in load_file(path).items():
        module, _, name = f"model{{key}}".rpartition(".")
        part = state if module.endswith("_ema") else params
        part.setdefault(module, {{}})[name] = value
    return params, state
"#
        ),
        "haiku" => format!(
            r#"model = hk.transform(lambda {inputs}: {name}(name="model")({inputs}))


def load(path):
    """Parameters from a file, for `model.apply(params, None, ...)`."""
    params = {{}}
    for key, value in load_file(path).items():
        module, _, name = f"model{{key}}".rpartition(".")
        params.setdefault(module, {{}})[name] = value
    return params
"#
        ),
        "flax" => format!(
            r#"def load(path):
    """The model with the weights of a file."""
    model = {name}(rngs=nnx.Rngs(0))
    values = load_file(path)
    state = nnx.state(model)
    for words, variable in nnx.to_flat_state(state):
        name = ".".join(map(str, words))
        if name in values:
            variable.set_value(values[name])
    nnx.update(model, state)
    return model
"#
        ),
        "clematis" => format!(
            r#"def load(path):
    """The model with the weights of a file."""
    model = {name}()
    model.load(path)
    return model.eval()
"#
        ),
        _ => tree.replace("VALUE", "value"),
    }
}
