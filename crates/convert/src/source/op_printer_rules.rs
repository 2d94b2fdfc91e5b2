//! Expressions of ops whose source depends on their parameters: reshape, slice, dot, pooling, padding.

use super::expr::{Expr, hole};
use super::op_printer::{OpPrinter, letter, number, real, tuple};
use super::program::{Operand, Program, Step, value};
use clematis_core::op::{Composite, Dot, Op};
use clematis_core::{DType, Dim, Result, Shape};

/// The op as an expression, or `None` if the framework has no template for it.
pub fn print(w: &OpPrinter, program: &Program, step: &Step, op: &Op) -> Result<Option<Expr>> {
    let spec = |i: usize| program.spec(&step.args[i]);
    let out = || &program.specs[step.outs[0] as usize];
    Ok(match op {
        Op::Reshape(shape) => Some(reshape(w, &spec(0).shape, step, shape)),
        Op::Broadcast(p) => Some(broadcast(w, program, step, &p.shape, &p.axes)),
        Op::Slice(p) => {
            let shape = spec(0).shape;
            let mut parts = Vec::new();
            for (i, size) in shape.dims().iter().enumerate() {
                let (start, limit, stride) = (p.start[i], p.limit[i], p.strides[i]);
                let a = if start == Dim::number(0) {
                    String::new()
                } else {
                    bound(w, start)
                };
                let b = if limit == *size {
                    String::new()
                } else {
                    bound(w, limit)
                };
                let c = if stride == 1 {
                    String::new()
                } else {
                    format!(":{}", hole("step", stride))
                };
                parts.push(format!("{a}:{b}{c}"));
            }
            while parts.len() > 1 && parts.last().is_some_and(|p| p == ":") {
                parts.pop();
            }
            if parts == [":"] {
                return Ok(Some(Expr {
                    text: w.operand(&step.args[0], 0),
                    precedence: 0,
                }));
            }
            if parts.is_empty() {
                return Ok(None);
            }
            Some(Expr::atom(format!(
                "{}[{}]",
                w.operand(&step.args[0], 10),
                parts.join(", ")
            )))
        }
        Op::Full(p) => Some(full(w, &number(p.value), p.dtype, &p.shape)),
        // `arange` does not support all unsigned dtypes in either.
        Op::Iota(p) if matches!(w.name, "torch" | "tensorflow") && letter(p.dtype) == 'u' => None,
        Op::Iota(p) => {
            let n = w.size(p.shape.dims()[p.axis]);
            let dtype = w.dtype(p.dtype);
            let device = device(w);
            let flat = match w.name {
                "tensorflow" => format!("tf.range({n}, dtype={dtype})"),
                "keras" => format!("ops.arange({n}, dtype={dtype})"),
                np => format!(
                    "{}.arange({n}, dtype={dtype}{device})",
                    if np == "jax" { "jnp" } else { w.np }
                ),
            };
            if p.shape.rank() == 1 {
                return Ok(Some(Expr::atom(flat)));
            }
            let ones = p.shape.dims().iter().enumerate();
            let ones: Vec<String> = ones
                .map(|(i, _)| if i == p.axis { "-1" } else { "1" }.to_string())
                .collect();
            Some(Expr::atom(expand(w, &shaped(w, &flat, &ones), &p.shape)))
        }
        Op::Pad(p) => {
            let Operand::Num(n, _) = &step.args[1] else {
                return Ok(None);
            };
            let sizes: Option<Vec<(i64, i64)>> = p
                .low
                .iter()
                .zip(&p.high)
                .map(|(a, b)| Some((a.value()?, b.value()?)))
                .collect();
            let Some(sizes) = sizes else { return Ok(None) };
            if p.interior.iter().any(|i| *i != 0) || sizes.iter().any(|(a, b)| *a < 0 || *b < 0) {
                return Ok(None);
            }
            Some(Expr::atom(pad(
                w,
                &w.operand(&step.args[0], 0),
                &sizes,
                &number(*n),
            )))
        }
        Op::Dot(p) => dot(w, program, step, p),
        Op::TopK(k) if w.name == "jax" => Some(Expr::atom(format!(
            "lax.top_k({}, {})",
            w.operand(&step.args[0], 0),
            w.size(*k)
        ))),
        Op::Call(c) => match &**c {
            Composite::MaxPool {
                size,
                strides,
                padding,
                dilation,
            } => {
                let pads: Option<Vec<(i64, i64)>> = padding
                    .iter()
                    .map(|(a, b)| Some((a.value()?, b.value()?)))
                    .collect();
                let plain = dilation.iter().all(|d| *d == 1);
                let (Some(pads), true) = (pads, plain) else {
                    return Ok(None);
                };
                pool(w, program, step, size, strides, &pads, "max")
            }
            Composite::AvgPool {
                size,
                strides,
                padding,
                dilation,
                count_padding,
            } => {
                let pads: Option<Vec<(i64, i64)>> = padding
                    .iter()
                    .map(|(a, b)| Some((a.value()?, b.value()?)))
                    .collect();
                let plain = dilation.iter().all(|d| *d == 1);
                let (Some(pads), true) = (pads, plain) else {
                    return Ok(None);
                };
                // Frameworks differ in whether average pooling counts padding.
                if pads.iter().any(|p| *p != (0, 0)) && !(*count_padding && w.name == "torch") {
                    return Ok(None);
                }
                pool(w, program, step, size, strides, &pads, "avg")
            }
            Composite::LayerNorm { axis, epsilon }
                if w.name == "torch" && letter(out().dtype) == 'f' =>
            {
                let shape: Vec<String> = spec(0).shape.dims()[*axis..]
                    .iter()
                    .map(|d| w.size(*d))
                    .collect();
                let mut parts = vec![w.operand(&step.args[0], 0), tuple(&shape)];
                parts.extend(step.args[1..].iter().map(|x| w.operand(x, 0)));
                parts.push(format!("eps={}", real(epsilon.0)));
                Some(Expr::atom(format!("F.layer_norm({})", parts.join(", "))))
            }
            Composite::OneHot { depth, dtype } if w.name != "numpy" && w.name != "clematis" => {
                let (x, n, dtype) = (w.operand(&step.args[0], 0), w.size(*depth), w.dtype(*dtype));
                Some(Expr::atom(match w.name {
                    "torch" => return Ok(None),
                    "jax" => format!("jax.nn.one_hot({x}, {n}, dtype={dtype})"),
                    "tensorflow" => format!("tf.one_hot({x}, {n}, dtype={dtype})"),
                    _ => format!("ops.one_hot({x}, {n}, dtype={dtype})"),
                }))
            }
            _ => None,
        },
        _ => None,
    })
}

fn bound(w: &OpPrinter, d: Dim) -> String {
    match d.value() {
        Some(n) => hole("index", n),
        None => w.size(d),
    }
}

fn device(w: &OpPrinter) -> String {
    match (w.name, *w.beside.borrow()) {
        ("torch", Some(v)) => format!(", device={}.device", super::expr::place(v, 10)),
        _ => String::new(),
    }
}

/// The sizes of a shape; one symbolic size may become -1.
fn sizes(w: &OpPrinter, shape: &Shape) -> Vec<String> {
    let open = shape.dims().iter().filter(|d| d.is_symbolic()).count();
    let rest = open == 1 && !shape.dims().contains(&Dim::number(0));
    let size = |d: &Dim| match d.value() {
        Some(1) => "1".to_string(),
        Some(n) => hole("size", n),
        None if rest => "-1".to_string(),
        None => w.size(*d),
    };
    shape.dims().iter().map(size).collect()
}

fn shaped(w: &OpPrinter, x: &str, sizes: &[String]) -> String {
    match w.name {
        "torch" | "numpy" | "jax" if !sizes.is_empty() => {
            format!("{x}.reshape({})", sizes.join(", "))
        }
        "torch" | "numpy" | "jax" => format!("{x}.reshape(())"),
        _ => format!("{}.reshape({x}, {})", w.np, tuple(sizes)),
    }
}

fn reshape(w: &OpPrinter, from: &Shape, step: &Step, to: &Shape) -> Expr {
    let method = matches!(w.name, "torch" | "numpy" | "jax");
    let x = w.operand(&step.args[0], if method { 10 } else { 0 });
    if from.dims() == to.dims() {
        return Expr {
            text: w.operand(&step.args[0], 0),
            precedence: 0,
        };
    }
    // One more axis of size 1.
    if to.rank() == from.rank() + 1
        && let Some(at) = (0..to.rank())
            .rev()
            .find(|i| to.without(&[*i]).dims() == from.dims() && to.dims()[*i] == Dim::number(1))
    {
        return Expr::atom(match w.name {
            "torch" => format!("{x}.unsqueeze({at})"),
            "numpy" | "jax" => format!(
                "{}.expand_dims({}, {at})",
                w.np,
                w.operand(&step.args[0], 0)
            ),
            "clematis" => format!("cm.expand_dims({x}, axis={at})"),
            _ => format!("{}.expand_dims({x}, {at})", w.np),
        });
    }
    if w.name == "torch" && to.rank() == 2 && from.rank() > 2 && from.dims()[0] == to.dims()[0] {
        return Expr::atom(format!("{x}.flatten(1)"));
    }
    Expr::atom(shaped(w, &x, &sizes(w, to)))
}

fn expand(w: &OpPrinter, x: &str, shape: &Shape) -> String {
    let sizes: Vec<String> = shape.dims().iter().map(|d| w.size(*d)).collect();
    match w.name {
        "torch" => format!("{x}.expand({})", sizes.join(", ")),
        _ => format!("{}.broadcast_to({x}, {})", w.np, tuple(&sizes)),
    }
}

fn broadcast(
    w: &OpPrinter,
    program: &Program,
    step: &Step,
    shape: &Shape,
    axes: &clematis_core::Axes,
) -> Expr {
    if let Operand::Num(n, dtype) = &step.args[0] {
        return full(w, &number(*n), *dtype, shape);
    }
    let own = program.spec(&step.args[0]).shape;
    let trailing = axes
        .iter()
        .enumerate()
        .all(|(i, a)| *a == shape.rank() - own.rank() + i);
    let x = w.operand(&step.args[0], 10);
    if own.dims() == shape.dims() && trailing {
        return Expr {
            text: w.operand(&step.args[0], 0),
            precedence: 0,
        };
    }
    if trailing {
        return Expr::atom(expand(
            w,
            &w.operand(&step.args[0], if w.name == "torch" { 10 } else { 0 }),
            shape,
        ));
    }
    let mut ones = vec!["1".to_string(); shape.rank()];
    for (d, a) in own.dims().iter().zip(axes.iter()) {
        ones[*a] = w.size(*d);
    }
    Expr::atom(expand(w, &shaped(w, &x, &ones), shape))
}

fn full(w: &OpPrinter, value: &str, dtype: DType, shape: &Shape) -> Expr {
    let sizes: Vec<String> = shape.dims().iter().map(|d| w.size(*d)).collect();
    let (size, word) = (tuple(&sizes), w.dtype(dtype));
    let zero = matches!(value, "0" | "0.0" | "False");
    let one = matches!(value, "1" | "1.0" | "True");
    let short = if dtype == DType::F32 && w.name != "numpy" {
        String::new()
    } else {
        format!(", dtype={word}")
    };
    let device = device(w);
    Expr::atom(match (w.name, zero, one) {
        ("tensorflow", false, false) => format!("tf.fill({size}, tf.constant({value}, {word}))"),
        (_, true, _) => format!("{}.zeros({size}{short}{device})", w.np),
        (_, _, true) => format!("{}.ones({size}{short}{device})", w.np),
        _ => format!("{}.full({size}, {value}, dtype={word}{device})", w.np),
    })
}

/// Constant padding.
pub fn pad(w: &OpPrinter, x: &str, sizes: &[(i64, i64)], value: &str) -> String {
    let zero = matches!(value, "0" | "0.0");
    if w.name == "torch" {
        let mut flat: Vec<String> = Vec::new();
        let first = sizes
            .iter()
            .position(|p| *p != (0, 0))
            .unwrap_or(sizes.len());
        for (a, b) in sizes[first..].iter().rev() {
            flat.extend([hole("pad", a), hole("pad", b)]);
        }
        let more = if zero {
            String::new()
        } else {
            format!(", value={value}")
        };
        return format!("F.pad({x}, ({}){more})", flat.join(", "));
    }
    let pairs: Vec<String> = sizes
        .iter()
        .map(|(a, b)| format!("({}, {})", hole("pad", a), hole("pad", b)))
        .collect();
    let more = if zero {
        String::new()
    } else {
        format!(", constant_values={value}")
    };
    format!("{}.pad({x}, {}{more})", w.np, tuple(&pairs))
}

fn dot(w: &OpPrinter, program: &Program, step: &Step, p: &Dot) -> Option<Expr> {
    let (a, b) = (program.spec(&step.args[0]), program.spec(&step.args[1]));
    let kind = letter(a.dtype);
    if !(kind == 'f' || kind == 'c' && w.name != "keras") {
        return None;
    }
    value(&step.args[0])?;
    value(&step.args[1])?;
    let n = p.lhs_batch.len();
    let aligned = p
        .lhs_batch
        .iter()
        .chain(p.rhs_batch.iter())
        .enumerate()
        .all(|(i, x)| *x == i % n.max(1));
    let single = p.lhs_contract.len() == 1 && aligned;
    let (x, y) = (w.operand(&step.args[0], 6), w.operand(&step.args[1], 7));
    let matmul = |x: &str, y: &str| match w.name {
        "keras" | "tensorflow" => Expr::atom(format!("{}.matmul({x}, {y})", w.np)),
        _ => Expr {
            text: format!("{x} @ {y}"),
            precedence: 6,
        },
    };
    let transposed = |i: usize, rank: usize| {
        let v = w.operand(&step.args[i], 10);
        let bare = w.operand(&step.args[i], 0);
        match w.name {
            "torch" | "numpy" | "jax" if rank == 2 => format!("{v}.T"),
            "torch" | "numpy" | "jax" => format!("{v}.mT"),
            "tensorflow" => format!("tf.linalg.matrix_transpose({bare})"),
            "clematis" => format!("cm.matrix_transpose({bare})"),
            _ => format!("ops.swapaxes({bare}, -1, -2)"),
        }
    };
    if single && b.rank() == n + 2 && (n == 0 || a.rank() == n + 2) && a.rank() >= 2 {
        let left = if p.lhs_contract[0] + 1 == a.rank() {
            x
        } else if a.rank() == n + 2 {
            transposed(0, a.rank())
        } else {
            return einsum(w, program, step, p);
        };
        let right = if p.rhs_contract[0] == n {
            y
        } else {
            transposed(1, b.rank())
        };
        return Some(matmul(&left, &right));
    }
    einsum(w, program, step, p)
}

fn einsum(w: &OpPrinter, program: &Program, step: &Step, p: &Dot) -> Option<Expr> {
    let (a, b) = (
        program.spec(&step.args[0]).rank(),
        program.spec(&step.args[1]).rank(),
    );
    let mut letters = ('a'..='z').chain('A'..='Z');
    let mut left = vec![' '; a];
    let mut right = vec![' '; b];
    let mut out = String::new();
    for (i, j) in p.lhs_batch.iter().zip(p.rhs_batch.iter()) {
        let c = letters.next()?;
        left[*i] = c;
        right[*j] = c;
        out.push(c);
    }
    for (i, j) in p.lhs_contract.iter().zip(p.rhs_contract.iter()) {
        let c = letters.next()?;
        left[*i] = c;
        right[*j] = c;
    }
    for side in [&mut left, &mut right] {
        for c in side.iter_mut().filter(|c| **c == ' ') {
            *c = letters.next()?;
            out.push(*c);
        }
    }
    let (left, right): (String, String) = (left.into_iter().collect(), right.into_iter().collect());
    let (x, y) = (w.operand(&step.args[0], 0), w.operand(&step.args[1], 0));
    Some(Expr::atom(format!(
        "{}.einsum(\"{left},{right}->{out}\", {x}, {y})",
        w.np
    )))
}

/// A single number if all are equal, else a tuple.
pub fn short(label: &str, xs: &[i64]) -> String {
    match xs {
        [first, rest @ ..] if rest.iter().all(|x| x == first) => hole(label, first),
        _ => hole(
            label,
            tuple(&xs.iter().map(ToString::to_string).collect::<Vec<_>>()),
        ),
    }
}

/// Whether the padding equals "SAME" padding.
pub fn is_same(size: Option<i64>, window: i64, stride: i64, pads: (i64, i64)) -> bool {
    let total = match size {
        Some(n) => ((n + stride - 1) / stride - 1) * stride + window - n,
        None if stride == 1 => window - 1,
        None => return false,
    };
    let total = total.max(0);
    pads == (total / 2, total - total / 2)
}

fn pool(
    w: &OpPrinter,
    program: &Program,
    step: &Step,
    size: &clematis_core::Axes,
    strides: &clematis_core::Axes,
    pads: &[(i64, i64)],
    kind: &str,
) -> Option<Expr> {
    let rank = size.len();
    let moved: Vec<usize> = (0..rank)
        .filter(|i| size[*i] != 1 || strides[*i] != 1 || pads[*i] != (0, 0))
        .collect();
    let (first, last) = (
        (2..rank).collect::<Vec<_>>(),
        (1..rank - 1).collect::<Vec<_>>(),
    );
    let n = rank.checked_sub(2).filter(|n| (1..=3).contains(n))?;
    let fits = |spatial: &[usize]| moved.iter().all(|i| spatial.contains(i));
    let pick = |spatial: &[usize], xs: &clematis_core::Axes| {
        spatial.iter().map(|i| xs[*i] as i64).collect::<Vec<_>>()
    };
    let x = w.operand(&step.args[0], 0);
    match w.name {
        "torch" if fits(&first) => {
            let (k, s) = (pick(&first, size), pick(&first, strides));
            let p: Vec<i64> = first.iter().map(|i| pads[*i].0).collect();
            let fair = first
                .iter()
                .all(|i| pads[*i].0 == pads[*i].1 && pads[*i].0 * 2 <= size[*i] as i64);
            if !fair {
                return None;
            }
            let mut text = format!("F.{kind}_pool{n}d({x}, {}", short("kernel_size", &k));
            if s != k {
                text.push_str(&format!(", stride={}", short("stride", &s)));
            }
            if p.iter().any(|p| *p != 0) {
                text.push_str(&format!(", padding={}", short("padding", &p)));
            }
            Some(Expr::atom(format!("{text})")))
        }
        "tensorflow" | "keras" if fits(&last) => {
            let (k, s) = (pick(&last, size), pick(&last, strides));
            let dims = program.spec(&step.args[0]).shape;
            let same = last.iter().all(|i| {
                is_same(
                    dims.dims()[*i].value(),
                    size[*i] as i64,
                    strides[*i] as i64,
                    pads[*i],
                )
            });
            let valid = pads.iter().all(|p| *p == (0, 0));
            let word = if valid {
                "valid"
            } else if same {
                "same"
            } else {
                return None;
            };
            let (k, s) = (short("pool_size", &k), short("strides", &s));
            Some(Expr::atom(match w.name {
                "keras" => {
                    let name = if kind == "avg" { "average" } else { "max" };
                    format!(
                        "ops.{name}_pool({x}, {k}, {s}, {word:?}, data_format=\"channels_last\")"
                    )
                }
                _ => format!(
                    "tf.nn.{kind}_pool{n}d({x}, {k}, {s}, {:?})",
                    word.to_uppercase()
                ),
            }))
        }
        "clematis" => {
            let (spatial, format) = if fits(&last) {
                (last, ["NWC", "NHWC", "NDHWC"][n - 1])
            } else if fits(&first) {
                (first, ["NCW", "NCHW", "NCDHW"][n - 1])
            } else {
                return None;
            };
            let (k, s) = (pick(&spatial, size), pick(&spatial, strides));
            let p: Vec<String> = spatial
                .iter()
                .map(|i| format!("({}, {})", pads[*i].0, pads[*i].1))
                .collect();
            let p = if pads.iter().all(|p| *p == (0, 0)) {
                "\"VALID\"".into()
            } else {
                format!("[{}]", p.join(", "))
            };
            let more = if format.ends_with('C') {
                String::new()
            } else {
                format!(", data_format={format:?}")
            };
            Some(Expr::atom(format!(
                "cm.{kind}_pool{n}d({x}, {}, {}, {p}{more})",
                short("kernel", &k),
                short("strides", &s)
            )))
        }
        "numpy" => {
            let all = |xs: &clematis_core::Axes| {
                tuple(&xs.iter().map(ToString::to_string).collect::<Vec<_>>())
            };
            let p: Vec<String> = pads.iter().map(|(a, b)| format!("({a}, {b})")).collect();
            let p = if pads.iter().all(|p| *p == (0, 0)) {
                "0".into()
            } else {
                tuple(&p)
            };
            Some(Expr::atom(format!(
                "{kind}_pool({x}, {}, {}, {p})",
                all(size),
                all(strides)
            )))
        }
        "jax" => {
            let all = |xs: &clematis_core::Axes| {
                tuple(&xs.iter().map(ToString::to_string).collect::<Vec<_>>())
            };
            let p = if pads.iter().all(|p| *p == (0, 0)) {
                "\"VALID\"".to_string()
            } else {
                tuple(
                    &pads
                        .iter()
                        .map(|(a, b)| format!("({a}, {b})"))
                        .collect::<Vec<_>>(),
                )
            };
            let (k, s) = (all(size), all(strides));
            Some(match kind {
                "max" => Expr::atom(format!(
                    "lax.reduce_window({x}, -jnp.inf, lax.max, {k}, {s}, {p})"
                )),
                _ => Expr {
                    text: format!(
                        "lax.reduce_window({x}, 0.0, lax.add, {k}, {s}, {p}) / {}",
                        size.iter().product::<usize>()
                    ),
                    precedence: 6,
                },
            })
        }
        _ => None,
    }
}
