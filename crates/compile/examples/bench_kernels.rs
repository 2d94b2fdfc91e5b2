//! Single ops and their derivatives on the engine, compiled: our side of `cargo xtask bench kernels`.
//!
//! `--serve` answers each line `SECONDS NAME` with the times of that row, in turns with the peers of `bench/kernels.py`;
//! without it all rows whose name holds a given word are timed and printed.

use clematis_core::autodiff::vjp;
use clematis_core::jit::{Program, Recorder};
use clematis_core::ops::{self, ConvOptions, Ops, Padding};
use clematis_core::pass::Options;
use clematis_core::random::Key;
use clematis_core::{DType, Result, Role, Shape, Tensor, bail};
use clematis_nn::functional::conv::{ConvConfig, conv_transpose};
use clematis_nn::init;
use std::time::{Duration, Instant};

#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What is differentiated by which of its operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    /// The value and the gradients by all operands.
    Both,
    /// The gradient by one operand alone.
    By(usize),
}

impl Way {
    fn parse(name: &str) -> Option<(&str, Way)> {
        let ways = [
            (" forward and back", Way::Both),
            (" forward", Way::Forward),
            (" by input", Way::By(0)),
            (" by filter", Way::By(1)),
        ];
        ways.into_iter()
            .find_map(|(end, way)| Some((name.strip_suffix(end)?, way)))
    }
}

type Function = Box<dyn Fn(&[Tensor]) -> Result<Tensor>>;

/// A row without its way: the shapes of its operands, and what is made of them.
struct Kernel {
    shapes: Vec<Vec<usize>>,
    dtype: DType,
    call: Function,
}

fn kernel(shapes: &[&[usize]], call: impl Fn(&[Tensor]) -> Result<Tensor> + 'static) -> Kernel {
    Kernel {
        shapes: shapes.iter().map(|shape| shape.to_vec()).collect(),
        dtype: DType::F32,
        call: Box::new(call),
    }
}

/// Batch, channels, size of the image, window, stride, groups, and whether transposed.
type Convolution = (usize, usize, &'static [usize], usize, usize, usize, bool);

const CONVOLUTIONS: [(&str, Convolution); 7] = [
    (
        "conv2d 3x3 (8,64,56,56)",
        (8, 64, &[56, 56], 3, 1, 1, false),
    ),
    (
        "conv2d 3x3 (8,256,14,14)",
        (8, 256, &[14, 14], 3, 1, 1, false),
    ),
    (
        "conv2d 3x3 s2 (8,64,56,56)",
        (8, 64, &[56, 56], 3, 2, 1, false),
    ),
    (
        "conv2d 1x1 (8,64,56,56)",
        (8, 64, &[56, 56], 1, 1, 1, false),
    ),
    (
        "depthwise 3x3 (8,64,56,56)",
        (8, 64, &[56, 56], 3, 1, 64, false),
    ),
    (
        "conv_transpose k4 s2 (8,64,28,28)",
        (8, 64, &[28, 28], 4, 2, 1, true),
    ),
    (
        "conv3d 3x3x3 (2,16,16,32,32)",
        (2, 16, &[16, 32, 32], 3, 1, 1, false),
    ),
];

const OTHERS: [&str; 7] = [
    "attention (8,8,256,64)",
    "softmax 4096x1024",
    "layer norm 4096x1024",
    "gelu chain 4M",
    "exp 4M",
    "add 4M",
    "sum 4M",
];

/// All rows, as the peers name them.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    for n in [64, 256, 512, 1024, 2048] {
        names.extend([
            format!("matmul {n} forward"),
            format!("matmul {n} forward and back"),
        ]);
    }
    for n in [512, 1024] {
        names.extend([
            format!("matmul bf16 {n} forward"),
            format!("matmul bf16 {n} forward and back"),
        ]);
    }
    for (name, _) in CONVOLUTIONS {
        for layout in ["first", "last"] {
            for way in ["forward", "by input", "by filter"] {
                names.push(format!("{name} channels {layout} {way}"));
            }
        }
    }
    for name in OTHERS {
        names.extend([
            format!("{name} forward"),
            format!("{name} forward and back"),
        ]);
    }
    names
}

fn convolution(c: Convolution, last: bool) -> Kernel {
    let (batch, channels, places, window, stride, groups, transposed) = c;
    let rank = places.len();
    let (mut x, mut w) = (vec![batch], vec![window; rank]);
    if last {
        x.extend(places);
        x.push(channels);
        w.extend([channels / groups, channels]);
    } else {
        x.push(channels);
        x.extend(places);
        w = [vec![channels, channels / groups], w].concat();
    }
    let shapes: [&[usize]; 2] = [&x, &w];
    if transposed {
        let sliding = ConvConfig {
            strides: std::iter::repeat_n(stride, rank).collect(),
            padding: Padding::Same,
            channels_first: !last,
            filter_channels_first: !last,
            ..ConvConfig::new("conv_transpose", rank)
        };
        return kernel(&shapes, move |x| {
            conv_transpose(&x[0], &x[1], None, None, &sliding).done()
        });
    }
    let pad = (window / 2) as i64;
    let options = ConvOptions {
        strides: vec![stride; rank],
        padding: Padding::Each(vec![(pad, pad); rank]),
        groups,
        channels_last: last,
        ..ConvOptions::new(rank)
    };
    kernel(&shapes, move |x| ops::conv(&x[0], &x[1], &options).done())
}

fn find(name: &str) -> Result<Kernel> {
    for (found, c) in CONVOLUTIONS {
        for (end, last) in [(" channels first", false), (" channels last", true)] {
            if name.strip_suffix(end) == Some(found) {
                return Ok(convolution(c, last));
            }
        }
    }
    if let Some(n) = name
        .strip_prefix("matmul bf16 ")
        .and_then(|n| n.parse().ok())
    {
        let product = |x: &[Tensor]| ops::matmul(&x[0], &x[1]).done();
        return Ok(Kernel {
            dtype: DType::BF16,
            ..kernel(&[&[n, n], &[n, n]], product)
        });
    }
    if let Some(n) = name.strip_prefix("matmul ").and_then(|n| n.parse().ok()) {
        return Ok(kernel(&[&[n, n], &[n, n]], |x| {
            ops::matmul(&x[0], &x[1]).done()
        }));
    }
    let rows: &[usize] = &[4096, 1024];
    let (heads, weights): (&[usize], &[usize]) = (&[8, 8, 256, 64], &[1024]);
    Ok(match name {
        "attention (8,8,256,64)" => kernel(&[heads, heads, heads], |x| {
            ops::attention(&x[0], &x[1], &x[2], None, 0.125, false).done()
        }),
        "softmax 4096x1024" => kernel(&[rows], |x| ops::softmax(&x[0], -1).done()),
        "layer norm 4096x1024" => kernel(&[rows, weights, weights], |x| {
            ops::layer_norm(&x[0], Some(&x[1]), Some(&x[2]), -1, 1e-5).done()
        }),
        "gelu chain 4M" => kernel(&[rows], |x| {
            let x = &x[0];
            let inner = (x * x * x * 0.044715 + x) * 0.7978845608;
            (x * 0.5 * (inner.tanh() + 1.0)).done()
        }),
        "exp 4M" => kernel(&[rows], |x| x[0].exp().done()),
        "add 4M" => kernel(&[rows, rows], |x| (&x[0] + &x[1]).done()),
        "sum 4M" => kernel(&[rows], |x| ops::sum(&x[0], ..).done()),
        _ => bail!(
            Value,
            "no kernel `{name}`; there are: {}",
            names().join(", ")
        ),
    })
}

/// The row as a program, and what it is called with.
fn record(name: &str) -> Result<(Program, Vec<Tensor>)> {
    let Some((kernel, way)) = Way::parse(name) else {
        bail!(Value, "no row `{name}`; there are: {}", names().join(", "));
    };
    let kernel = find(kernel)?;
    let keys = Key::new(0).split_n(kernel.shapes.len() + 1);
    let mut given = Vec::new();
    for (shape, key) in kernel.shapes.iter().zip(&keys) {
        let x = init::normal(Shape::from_sizes(shape), 1.0, key)?;
        given.push(ops::materialize(&ops::cast(&x, kernel.dtype).done()?)?);
    }
    if way != Way::Forward {
        let result = (kernel.call)(&given)?;
        let key = &keys[kernel.shapes.len()];
        let grad = init::normal(result.shape().clone(), 1.0, key)?;
        given.push(ops::materialize(&ops::cast(&grad, kernel.dtype).done()?)?);
    }
    let recorder = Recorder::new("kernel");
    let mut traced = Vec::new();
    for (i, x) in given.iter().enumerate() {
        let name = format!("x{i}");
        traced.push(recorder.trace().input(x.spec().clone(), Role::Input, &name));
    }
    let outputs = recorder.run(|| -> Result<Vec<(Tensor, Option<usize>)>> {
        let count = kernel.shapes.len();
        let outputs = match way {
            Way::Forward => vec![(kernel.call)(&traced)?],
            Way::Both => {
                let (value, back) = vjp(
                    |x: &Vec<Tensor>| (kernel.call)(x),
                    &traced[..count].to_vec(),
                )?;
                let grads = back.call(&traced[count])?;
                std::iter::once(value).chain(grads).collect()
            }
            Way::By(i) => {
                let one = |x: &Tensor| {
                    let mut all = traced[..count].to_vec();
                    all[i] = x.clone();
                    (kernel.call)(&all)
                };
                vec![vjp(one, &traced[i])?.1.call(&traced[count])?]
            }
        };
        Ok(outputs.into_iter().map(|x| (x, None)).collect())
    })?;
    Ok((recorder.close(&outputs, Options::default())?, given))
}

/// Milliseconds of calls within so many seconds; short ones are repeated until the clock can see them.
fn times(program: &Program, given: &[Tensor], seconds: f64) -> Result<Vec<f64>> {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let mut times = Vec::new();
    while Instant::now() < until || times.is_empty() {
        let (start, mut count) = (Instant::now(), 0);
        while count == 0 || start.elapsed() < Duration::from_millis(1) {
            program.run(&mut given.to_vec())?;
            count += 1;
        }
        times.push(start.elapsed().as_secs_f64() * 1e3 / f64::from(count));
    }
    Ok(times)
}

fn serve() -> Result<()> {
    let mut current: Option<(String, Program, Vec<Tensor>)> = None;
    for line in std::io::stdin().lines().map_while(std::result::Result::ok) {
        let (seconds, name) = line.split_once(' ').unwrap_or(("0.2", &line));
        if current.as_ref().is_none_or(|(found, ..)| found != name) {
            let (program, given) = record(name)?;
            times(&program, &given, 0.0)?;
            current = Some((name.to_owned(), program, given));
        }
        if let Some((_, program, given)) = &current {
            let times = times(program, given, seconds.parse().unwrap_or(0.2))?;
            println!("{{\"times\": {times:?}}}");
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let _ = clematis_compile::Plan::new;
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--serve") {
        return serve();
    }
    let describe = words.iter().any(|word| word == "--describe");
    let word = words.iter().find(|word| !word.starts_with('-'));
    for name in names() {
        if word.is_some_and(|word| !name.contains(word.as_str())) {
            continue;
        }
        let (program, given) = record(&name)?;
        if describe {
            println!("{name}\n{}", program.explain(clematis_native::backend())?.1);
        }
        let mut times = times(&program, &given, 0.6)?;
        times.sort_by(f64::total_cmp);
        println!(
            "{name:56} least {:8.4}  median {:8.4} ms",
            times[0],
            times[times.len() / 2]
        );
    }
    Ok(())
}
