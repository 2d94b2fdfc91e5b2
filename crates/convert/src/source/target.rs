//! Target frameworks of generated source: their styles, and how each constructs and calls a layer.

use super::expr::hole;
use super::legalize::Channels;
use super::op_printer::{real, tuple};
use super::op_printer_rules::{is_same, short};
use super::program::{Change, Layer};

/// A target framework.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// The framework whose functions are called.
    pub ops: &'static str,
    /// Whether models are classes; otherwise they are functions of parameters.
    pub classes: bool,
    /// The channel axis of convolutions.
    pub channels: Channels,
    /// The channel axis of pooling.
    pub pools: Channels,
    /// The channel axis of norms.
    pub norms: Channels,
    /// Names that attributes cannot have.
    pub taken: &'static [&'static str],
}

use Channels::{Any, First, Last};

/// All targets.
pub const TARGETS: [Target; 8] = [
    target(
        "torch",
        "torch",
        true,
        First,
        First,
        First,
        &[
            "training",
            "forward",
            "train",
            "eval",
            "float",
            "half",
            "type",
            "to",
            "apply",
            "children",
            "modules",
            "parameters",
            "buffers",
            "register_buffer",
            "T_destination",
        ],
    ),
    target("jax", "jax", false, Any, Any, Any, &[]),
    target("tensorflow", "tensorflow", false, Last, Last, Any, &[]),
    target(
        "keras",
        "keras",
        true,
        Last,
        Last,
        Last,
        &[
            "layers",
            "name",
            "call",
            "build",
            "inputs",
            "outputs",
            "input",
            "output",
            "weights",
            "metrics",
            "variables",
            "dtype",
            "path",
            "losses",
            "loss",
            "optimizer",
            "trainable",
        ],
    ),
    target(
        "haiku",
        "jax",
        true,
        Last,
        Any,
        Last,
        &["name", "module_name", "params_dict", "state_dict"],
    ),
    target("flax", "jax", true, Last, Any, Last, &["rngs"]),
    target("numpy", "numpy", false, Any, Any, Any, &[]),
    target(
        "clematis",
        "clematis",
        true,
        Any,
        Any,
        Any,
        &[
            "v",
            "training",
            "train",
            "eval",
            "modules",
            "build",
            "buffers",
            "parameters",
            "load",
            "save",
            "to",
        ],
    ),
];

const fn target(
    name: &'static str,
    ops: &'static str,
    classes: bool,
    channels: Channels,
    pools: Channels,
    norms: Channels,
    taken: &'static [&'static str],
) -> Target {
    Target {
        name,
        ops,
        classes,
        channels,
        pools,
        norms,
        taken,
    }
}

impl Target {
    /// Whether the framework's module class itself has an attribute of this name.
    pub fn has_attribute(&self, word: &str) -> bool {
        let lines = include_str!("tables/attributes.txt").lines();
        let mut own = lines.filter_map(|line| line.strip_prefix(self.name)?.strip_prefix(' '));
        self.classes
            && (self.taken.contains(&word)
                || own.any(|words| words.split(' ').any(|known| known == word)))
    }
}

/// A layer in a target framework.
pub struct LayerCall {
    /// The constructor call, or the function that computes it.
    pub maker: String,
    /// The arguments after the input in a call.
    pub more: String,
    /// Its parameters: the name there, the slot here, the changes in between.
    pub values: Vec<(String, &'static str, Vec<Change>)>,
}

struct Call {
    head: String,
    parts: Vec<String>,
}

impl Call {
    fn new(head: impl Into<String>) -> Call {
        Call {
            head: head.into(),
            parts: Vec::new(),
        }
    }

    fn arg(mut self, text: String) -> Call {
        self.parts.push(text);
        self
    }

    fn when(self, is: bool, text: String) -> Call {
        if is { self.arg(text) } else { self }
    }

    fn end(self) -> String {
        format!("{}({})", self.head, self.parts.join(", "))
    }
}

fn plain(name: &str, slot: &'static str) -> (String, &'static str, Vec<Change>) {
    (name.to_string(), slot, Vec::new())
}

fn kernel(name: &str, n: usize) -> (String, &'static str, Vec<Change>) {
    let mut axes: Vec<usize> = (2..n + 2).collect();
    axes.extend([1, 0]);
    (name.to_string(), "weight", vec![Change::Transpose(axes)])
}

fn pairs(pads: &[(i64, i64)]) -> String {
    let all: Vec<String> = pads.iter().map(|(a, b)| format!("({a}, {b})")).collect();
    hole("padding", tuple(&all))
}

/// Whether a target's layer supports the padding of this one.
pub fn pads(target: &Target, sizes: &[Option<i64>], layer: &Layer) -> bool {
    let pads = layer.pads();
    let none = pads.iter().all(|p| *p == (0, 0));
    let (kernel, strides, dilation) = (
        layer.ints("kernel"),
        layer.ints("strides"),
        layer.ints("dilation"),
    );
    match target.name {
        "torch" => pads.iter().all(|(a, b)| a == b && *a >= 0),
        "keras" | "tensorflow" => {
            none || pads.iter().enumerate().all(|(i, p)| {
                let window = (kernel[i] - 1) * dilation[i] + 1;
                is_same(sizes[i], window, strides[i], *p)
            })
        }
        _ => pads.iter().all(|(a, b)| *a >= 0 && *b >= 0),
    }
}

fn eps(layer: &Layer, word: &str, default: f64) -> (bool, String) {
    let x = layer.float("epsilon");
    (x != default, format!("{word}={}", hole("epsilon", real(x))))
}

/// The layer in a target framework, or `None` if it has no equivalent.
pub fn layer(target: &Target, layer: &Layer, name: &str) -> Option<LayerCall> {
    let bias = layer.has("bias");
    let scaled = layer.has("weight");
    let n = layer.ints("kernel").len();
    let (inputs, outputs) = (hole("in", layer.int("in")), hole("out", layer.int("out")));
    let (strides, dilation, groups) = (
        layer.ints("strides"),
        layer.ints("dilation"),
        layer.int("groups"),
    );
    let plain_stride = strides.iter().all(|s| *s == 1);
    let plain_dilation = dilation.iter().all(|s| *s == 1);
    let no_pads = layer.pads().iter().all(|p| *p == (0, 0));
    let shape = layer.ints("shape");
    let rank = layer.int("rank");
    let last_axis = layer.int("axis") == rank - 1;
    let named = format!("name={name}");
    let mut values = Vec::new();
    let mut more = String::new();
    let maker = match (target.name, layer.kind) {
        ("torch", "linear") => {
            values.extend([plain("weight", "weight"), plain("bias", "bias")]);
            Call::new("nn.Linear")
                .arg(inputs)
                .arg(outputs)
                .when(!bias, "bias=False".into())
                .end()
        }
        ("torch", "conv") => {
            values.extend([plain("weight", "weight"), plain("bias", "bias")]);
            let p: Vec<i64> = layer.pads().iter().map(|p| p.0).collect();
            Call::new(format!("nn.Conv{n}d"))
                .arg(inputs)
                .arg(outputs)
                .arg(format!(
                    "kernel_size={}",
                    short("kernel_size", &layer.ints("kernel"))
                ))
                .when(
                    !plain_stride,
                    format!("stride={}", short("stride", &strides)),
                )
                .when(!no_pads, format!("padding={}", short("padding", &p)))
                .when(
                    !plain_dilation,
                    format!("dilation={}", short("dilation", &dilation)),
                )
                .when(groups != 1, format!("groups={}", hole("groups", groups)))
                .when(!bias, "bias=False".into())
                .end()
        }
        ("torch", "batch_norm") => {
            values.extend([
                plain("weight", "weight"),
                plain("bias", "bias"),
                plain("running_mean", "mean"),
                plain("running_var", "var"),
            ]);
            let (other, text) = eps(layer, "eps", 1e-5);
            let d = match rank {
                2 | 3 => 1,
                4 => 2,
                5 => 3,
                _ => return None,
            };
            Call::new(format!("nn.BatchNorm{d}d"))
                .arg(hole("features", layer.int("features")))
                .when(other, text)
                .when(!scaled, "affine=False".into())
                .end()
        }
        ("torch", "layer_norm" | "rms_norm") => {
            values.extend([plain("weight", "weight"), plain("bias", "bias")]);
            let (other, text) = eps(layer, "eps", 1e-5);
            let rms = layer.kind == "rms_norm";
            Call::new(if rms { "nn.RMSNorm" } else { "nn.LayerNorm" })
                .arg(sizes("features", &shape))
                .when(other || rms, text)
                .when(!bias && !rms, "bias=False".into())
                .end()
        }
        ("torch", "group_norm") if bias => {
            values.extend([plain("weight", "weight"), plain("bias", "bias")]);
            let (other, text) = eps(layer, "eps", 1e-5);
            Call::new("nn.GroupNorm")
                .arg(hole("groups", groups))
                .arg(hole("channels", shape[0]))
                .when(other, text)
                .end()
        }
        ("torch", "embedding") => {
            values.push(plain("weight", "weight"));
            Call::new("nn.Embedding")
                .arg(hole("num", layer.int("num")))
                .arg(hole("dim", layer.int("dim")))
                .end()
        }
        ("keras", "linear") => {
            values.extend([kernel("kernel", 0), plain("bias", "bias")]);
            Call::new("layers.Dense")
                .arg(outputs)
                .when(!bias, "use_bias=False".into())
                .arg(named)
                .end()
        }
        ("keras", "conv") => {
            values.extend([kernel("kernel", n), plain("bias", "bias")]);
            Call::new(format!("layers.Conv{n}D"))
                .arg(outputs)
                .arg(short("kernel_size", &layer.ints("kernel")))
                .when(
                    !plain_stride,
                    format!("strides={}", short("strides", &strides)),
                )
                .when(!no_pads, "padding=\"same\"".into())
                .when(
                    !plain_dilation,
                    format!("dilation_rate={}", short("dilation", &dilation)),
                )
                .when(groups != 1, format!("groups={}", hole("groups", groups)))
                .when(!bias, "use_bias=False".into())
                .arg(named)
                .end()
        }
        ("keras", "batch_norm") if last_axis => {
            values.extend([
                plain("gamma", "weight"),
                plain("beta", "bias"),
                plain("moving_mean", "mean"),
                plain("moving_variance", "var"),
            ]);
            let (other, text) = eps(layer, "epsilon", 1e-3);
            Call::new("layers.BatchNormalization")
                .when(other, text)
                .when(!scaled, "center=False, scale=False".into())
                .arg(named)
                .end()
        }
        ("keras", "layer_norm") if shape.len() == 1 => {
            values.extend([plain("gamma", "weight"), plain("beta", "bias")]);
            let (other, text) = eps(layer, "epsilon", 1e-3);
            Call::new("layers.LayerNormalization")
                .when(other, text)
                .when(!bias, "center=False".into())
                .arg(named)
                .end()
        }
        ("keras", "rms_norm") if shape.len() == 1 => {
            values.push(plain("scale", "weight"));
            let (other, text) = eps(layer, "epsilon", 1e-6);
            Call::new("layers.RMSNormalization")
                .when(other, text)
                .arg(named)
                .end()
        }
        ("keras", "group_norm") if bias && last_axis => {
            values.extend([plain("gamma", "weight"), plain("beta", "bias")]);
            let (other, text) = eps(layer, "epsilon", 1e-3);
            Call::new("layers.GroupNormalization")
                .arg(hole("groups", groups))
                .when(other, text)
                .arg(named)
                .end()
        }
        ("keras", "embedding") => {
            values.push(plain("embeddings", "weight"));
            Call::new("layers.Embedding")
                .arg(hole("num", layer.int("num")))
                .arg(hole("dim", layer.int("dim")))
                .arg(named)
                .end()
        }
        ("haiku", "linear") => {
            values.extend([kernel("w", 0), plain("b", "bias")]);
            Call::new("hk.Linear")
                .arg(outputs)
                .when(!bias, "with_bias=False".into())
                .arg(named)
                .end()
        }
        ("haiku", "conv") => {
            values.extend([kernel("w", n), plain("b", "bias")]);
            Call::new(format!("hk.Conv{n}D"))
                .arg(outputs)
                .arg(short("kernel_shape", &layer.ints("kernel")))
                .when(
                    !plain_stride,
                    format!("stride={}", short("stride", &strides)),
                )
                .when(
                    !plain_dilation,
                    format!("rate={}", short("rate", &dilation)),
                )
                .arg(if no_pads {
                    "padding=\"VALID\"".into()
                } else {
                    format!("padding={}", pairs(&layer.pads()))
                })
                .when(
                    groups != 1,
                    format!("feature_group_count={}", hole("groups", groups)),
                )
                .when(!bias, "with_bias=False".into())
                .arg(named)
                .end()
        }
        ("haiku", "batch_norm") if last_axis => {
            let mut size = vec![1; rank as usize];
            size[rank as usize - 1] = layer.int("features");
            let wide = vec![Change::Reshape(size)];
            for (word, slot) in [
                ("scale", "weight"),
                ("offset", "bias"),
                ("~/mean_ema.average", "mean"),
                ("~/var_ema.average", "var"),
            ] {
                values.push((word.to_string(), slot, wide.clone()));
            }
            let (other, text) = eps(layer, "eps", 1e-5);
            let word = if scaled { "True" } else { "False" };
            more = ", is_training=False".into();
            Call::new("hk.BatchNorm")
                .arg(word.into())
                .arg(word.into())
                .arg("decay_rate=0.9".into())
                .when(other, text)
                .arg(named)
                .end()
        }
        ("haiku", "layer_norm") if shape.len() == 1 => {
            values.extend([plain("scale", "weight"), plain("offset", "bias")]);
            let (other, text) = eps(layer, "eps", 1e-5);
            let word = if bias { "True" } else { "False" };
            Call::new("hk.LayerNorm")
                .arg("-1".into())
                .arg("True".into())
                .arg(word.into())
                .when(other, text)
                .arg(named)
                .end()
        }
        ("haiku", "rms_norm") if shape.len() == 1 => {
            values.push(plain("scale", "weight"));
            let (other, text) = eps(layer, "eps", 1e-5);
            Call::new("hk.RMSNorm")
                .arg("-1".into())
                .when(other, text)
                .arg(named)
                .end()
        }
        ("haiku", "embedding") => {
            values.push(plain("embeddings", "weight"));
            Call::new("hk.Embed")
                .arg(hole("num", layer.int("num")))
                .arg(hole("dim", layer.int("dim")))
                .arg(named)
                .end()
        }
        ("flax", "linear") => {
            values.extend([kernel("kernel", 0), plain("bias", "bias")]);
            Call::new("nnx.Linear")
                .arg(inputs)
                .arg(outputs)
                .when(!bias, "use_bias=False".into())
                .arg("rngs=rngs".into())
                .end()
        }
        ("flax", "conv") => {
            values.extend([kernel("kernel", n), plain("bias", "bias")]);
            let all: Vec<String> = layer
                .ints("kernel")
                .iter()
                .map(ToString::to_string)
                .collect();
            Call::new("nnx.Conv")
                .arg(inputs)
                .arg(outputs)
                .arg(format!("kernel_size={}", hole("kernel_size", tuple(&all))))
                .when(
                    !plain_stride,
                    format!("strides={}", short("strides", &strides)),
                )
                .arg(if no_pads {
                    "padding=\"VALID\"".into()
                } else {
                    format!("padding={}", pairs(&layer.pads()))
                })
                .when(
                    !plain_dilation,
                    format!("kernel_dilation={}", short("dilation", &dilation)),
                )
                .when(
                    groups != 1,
                    format!("feature_group_count={}", hole("groups", groups)),
                )
                .when(!bias, "use_bias=False".into())
                .arg("rngs=rngs".into())
                .end()
        }
        ("flax", "batch_norm") if last_axis => {
            values.extend([
                plain("scale", "weight"),
                plain("bias", "bias"),
                plain("mean", "mean"),
                plain("var", "var"),
            ]);
            let (other, text) = eps(layer, "epsilon", 1e-5);
            Call::new("nnx.BatchNorm")
                .arg(hole("features", layer.int("features")))
                .when(other, text)
                .when(!scaled, "use_scale=False, use_bias=False".into())
                .arg("use_running_average=True".into())
                .arg("rngs=rngs".into())
                .end()
        }
        ("flax", "layer_norm" | "rms_norm") if shape.len() == 1 => {
            values.extend([plain("scale", "weight"), plain("bias", "bias")]);
            let (other, text) = eps(layer, "epsilon", 1e-6);
            let rms = layer.kind == "rms_norm";
            Call::new(if rms { "nnx.RMSNorm" } else { "nnx.LayerNorm" })
                .arg(hole("features", shape[0]))
                .when(other, text)
                .when(!bias && !rms, "use_bias=False".into())
                .arg("rngs=rngs".into())
                .end()
        }
        ("flax", "group_norm") if bias && last_axis => {
            values.extend([plain("scale", "weight"), plain("bias", "bias")]);
            let (other, text) = eps(layer, "epsilon", 1e-6);
            Call::new("nnx.GroupNorm")
                .arg(hole("features", shape[0]))
                .arg(format!("num_groups={}", hole("groups", groups)))
                .when(other, text)
                .arg("rngs=rngs".into())
                .end()
        }
        ("flax", "embedding") => {
            values.push(plain("embedding", "weight"));
            Call::new("nnx.Embed")
                .arg(hole("num", layer.int("num")))
                .arg(hole("dim", layer.int("dim")))
                .arg("rngs=rngs".into())
                .end()
        }
        ("clematis", "linear") => {
            values.extend([plain("w", "weight"), plain("b", "bias")]);
            Call::new("cm.nn.Linear")
                .arg(inputs)
                .arg(outputs)
                .when(!bias, "with_bias=False".into())
                .end()
        }
        ("clematis", "conv") => {
            let last = layer.int("last") == 1;
            let mut size = vec![1; n + 2];
            size[if last { n + 1 } else { 1 }] = layer.int("out");
            values.push(kernel("w", n));
            values.push(("b".into(), "bias", vec![Change::Reshape(size)]));
            let format =
                [["NCW", "NCHW", "NCDHW"], ["NWC", "NHWC", "NDHWC"]][usize::from(last)][n - 1];
            Call::new(format!("cm.nn.Conv{n}D"))
                .arg(inputs)
                .arg(outputs)
                .arg(short("filter_shape", &layer.ints("kernel")))
                .arg(short("strides", &strides))
                .arg(if no_pads {
                    "\"VALID\"".into()
                } else {
                    pairs(&layer.pads())
                })
                .when(!bias, "with_bias=False".into())
                .when(!last, format!("data_format={format:?}"))
                .when(
                    !plain_dilation,
                    format!("dilations={}", short("dilations", &dilation)),
                )
                .when(groups != 1, format!("groups={}", hole("groups", groups)))
                .end()
        }
        ("clematis", "batch_norm") => {
            values.extend([
                plain("weight", "weight"),
                plain("bias", "bias"),
                plain("running_mean", "mean"),
                plain("running_var", "var"),
            ]);
            let (other, text) = eps(layer, "epsilon", 1e-5);
            if !(last_axis || layer.int("axis") == 1) {
                return None;
            }
            Call::new("cm.nn.BatchNorm")
                .arg(hole("features", layer.int("features")))
                .when(other, text)
                .when(!scaled, "affine=False".into())
                .when(!last_axis, "data_format=\"NCS\"".into())
                .end()
        }
        ("clematis", "layer_norm" | "rms_norm") => {
            let rms = layer.kind == "rms_norm";
            if !bias && !rms {
                return None;
            }
            values.extend([plain("weight", "weight"), plain("bias", "bias")]);
            let (other, text) = eps(layer, "epsilon", 1e-5);
            Call::new(if rms {
                "cm.nn.RMSNorm"
            } else {
                "cm.nn.LayerNorm"
            })
            .arg(sizes("features", &shape))
            .when(other, text)
            .end()
        }
        ("clematis", "group_norm") if bias && (last_axis || layer.int("axis") == 1) => {
            values.extend([plain("weight", "weight"), plain("bias", "bias")]);
            let (other, text) = eps(layer, "epsilon", 1e-5);
            Call::new("cm.nn.GroupNorm")
                .arg(hole("groups", groups))
                .arg(hole("channels", shape[0]))
                .when(other, text)
                .when(!last_axis, "data_format=\"NCS\"".into())
                .end()
        }
        ("clematis", "embedding") => {
            values.push(plain("w", "weight"));
            Call::new("cm.nn.Embedding")
                .arg(hole("num", layer.int("num")))
                .arg(hole("dim", layer.int("dim")))
                .end()
        }
        ("jax" | "numpy" | "tensorflow", "linear") => {
            values.extend([kernel("weight", 0), plain("bias", "bias")]);
            "linear".into()
        }
        ("jax" | "numpy" | "tensorflow", "conv") => {
            let last = layer.int("last") == 1;
            if target.name == "tensorflow" && groups != 1 {
                return None;
            }
            values.push(if last {
                kernel("weight", n)
            } else {
                plain("weight", "weight")
            });
            values.push(plain("bias", "bias"));
            let mut parts = String::new();
            if !plain_stride {
                parts.push_str(&format!(", strides={}", short("strides", &strides)));
            }
            if target.name == "tensorflow" {
                if !no_pads {
                    parts.push_str(", padding=\"SAME\"");
                }
            } else if !no_pads {
                parts.push_str(&format!(", padding={}", pairs(&layer.pads())));
            }
            if !plain_dilation {
                parts.push_str(&format!(", dilation={}", short("dilation", &dilation)));
            }
            if groups != 1 {
                parts.push_str(&format!(", groups={}", hole("groups", groups)));
            }
            more = parts;
            let kind = if target.name == "tensorflow" {
                ""
            } else if last {
                "_nhwc"
            } else {
                ""
            };
            match (n, target.name, kind) {
                (_, "tensorflow", _) => format!("conv{n}d"),
                (2, _, "_nhwc") => "conv2d_nhwc".into(),
                (2, ..) => "conv2d".into(),
                (1, _, "_nhwc") => "conv1d_nwc".into(),
                (1, ..) => "conv1d".into(),
                (_, _, "_nhwc") => "conv3d_ndhwc".into(),
                _ => "conv3d".into(),
            }
        }
        ("jax" | "numpy" | "tensorflow", "batch_norm") => {
            values.extend([
                plain("scale", "weight"),
                plain("bias", "bias"),
                plain("mean", "mean"),
                plain("var", "var"),
            ]);
            if !scaled {
                return None;
            }
            let axis = if last_axis {
                String::new()
            } else {
                format!(", axis={}", layer.int("axis"))
            };
            let (other, text) = eps(layer, "eps", 1e-5);
            more = if other {
                format!("{axis}, {text}")
            } else {
                axis
            };
            "batch_norm".into()
        }
        ("jax" | "numpy" | "tensorflow", "layer_norm") if shape.len() == 1 && bias => {
            values.extend([plain("scale", "weight"), plain("bias", "bias")]);
            let (other, text) = eps(layer, "eps", 1e-5);
            more = if other {
                format!(", {text}")
            } else {
                String::new()
            };
            "layer_norm".into()
        }
        ("jax" | "numpy" | "tensorflow", "embedding") => {
            values.push(plain("weight", "weight"));
            "embedding".into()
        }
        _ => return None,
    };
    values.retain(|(_, slot, _)| layer.has(slot));
    Some(LayerCall {
        maker,
        more,
        values,
    })
}

fn sizes(label: &str, xs: &[i64]) -> String {
    match xs {
        [one] => hole(label, one),
        _ => hole(
            label,
            tuple(&xs.iter().map(ToString::to_string).collect::<Vec<_>>()),
        ),
    }
}
