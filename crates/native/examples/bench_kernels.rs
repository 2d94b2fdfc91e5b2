//! How fast the native kernels are, beside the crates `gemm` and `faer` for matrix products.
//!
//! `cargo run --release -p clematis-native --example bench_kernels -- [--json] [--cpu] [filter]`
//!
//! `--cpu` runs on one thread and counts processor time, which a busy machine distorts far less.
//! Competing entries are timed in turns, so that a noisy machine slows all of them alike.
//! `bench/peers_kernels.py` times the same work in Python's frameworks.
// The crate `gemm` has no safe door, and here it is a peer; nor has the clock.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use clematis_core::host::Bytes;
use clematis_core::random::{self, Key};
use clematis_core::{DType, Result, Spec, Tensor, ops};
use clematis_native::kernel::conv::{
    Axis, Step, View, Window, conv, conv_backward_filter, conv_backward_input,
};
use clematis_native::kernel::dot::{Operand, Sizes, matmul};
use clematis_native::kernel::window::{Reduction, WindowAxis, reduce_window, window_scatter};
use clematis_native::simd::{self, Strides};
use clematis_native::{memory, parallel};

/// One line of the table.
struct Row {
    name: String,
    by: &'static str,
    min: f64,
    median: f64,
    gflops: f64,
}

/// One competitor for a piece of work.
type Entry<'a> = (&'static str, Box<dyn FnMut() + 'a>);

struct Bench {
    filter: String,
    clock: fn() -> f64,
    rows: Vec<Row>,
}

impl Bench {
    /// Times the entries in turns for about a second.
    fn time(&mut self, name: &str, flops: f64, entries: &mut [Entry<'_>]) {
        if !name.contains(&self.filter) {
            return;
        }
        for (_, run) in entries.iter_mut() {
            run();
            run();
        }
        let start = Instant::now();
        let mut times = vec![Vec::new(); entries.len()];
        while start.elapsed() < Duration::from_millis(800) || times[0].len() < 5 {
            for ((_, run), times) in entries.iter_mut().zip(&mut times) {
                // Short work is repeated until the clock can see it.
                let begin = (self.clock)();
                let mut count = 0;
                while count == 0 || (self.clock)() - begin < 2.0 {
                    run();
                    count += 1;
                }
                times.push(((self.clock)() - begin) / f64::from(count));
            }
        }
        for ((by, _), mut times) in entries.iter().zip(times) {
            times.sort_by(f64::total_cmp);
            let min = times[0];
            self.rows.push(Row {
                name: name.to_owned(),
                by,
                min,
                median: times[times.len() / 2],
                gflops: flops / min / 1e6,
            });
        }
    }

    fn print(&self, json: bool) {
        if json {
            let rows: Vec<String> = self.rows.iter().map(Row::json).collect();
            println!("[\n{}\n]", rows.join(",\n"));
            return;
        }
        println!(
            "{} threads, {}\n{:<52} {:<9} {:>9} {:>9} {:>9}",
            parallel::threads(),
            simd::level().name(),
            "",
            "by",
            "min ms",
            "median",
            "GFLOP/s"
        );
        for row in &self.rows {
            println!(
                "{:<52} {:<9} {:>9.4} {:>9.4} {:>9.1}",
                row.name, row.by, row.min, row.median, row.gflops
            );
        }
    }
}

impl Row {
    fn json(&self) -> String {
        format!(
            r#"  {{"name": "{}", "by": "{}", "min_ms": {:.5}, "median_ms": {:.5}, "gflops": {:.2}}}"#,
            self.name, self.by, self.min, self.median, self.gflops
        )
    }
}

/// Milliseconds on the wall since the first call.
fn wall_clock() -> f64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64() * 1e3
}

/// Milliseconds that this thread has spent on a processor.
#[cfg(target_os = "linux")]
fn processor_clock() -> f64 {
    #[repr(C)]
    struct Time {
        seconds: i64,
        nanoseconds: std::ffi::c_long,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Time) -> i32;
    }
    const THREAD_CLOCK: i32 = 3;
    let mut time = Time {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: the C library fills in the structure behind the pointer, which is laid out as its own.
    unsafe { clock_gettime(THREAD_CLOCK, &mut time) };
    time.seconds as f64 * 1e3 + time.nanoseconds as f64 / 1e6
}

#[cfg(not(target_os = "linux"))]
fn processor_clock() -> f64 {
    wall_clock()
}

/// Numbers in memory as tensors have it: on cache lines, and in large pages where there are many.
struct Array(Bytes);

impl Array {
    fn zeros(len: usize) -> Result<Array> {
        let mut bytes = memory::alloc("bench", &Spec::of(DType::F32, [len])?)?;
        bytes.as_mut_slice::<f32>().fill(0.0);
        Ok(Array(bytes))
    }

    fn random(len: usize) -> Result<Array> {
        let mut array = Array::zeros(len)?;
        array.copy_from_slice(&random(len));
        Ok(array)
    }
}

impl std::ops::Deref for Array {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        self.0.as_slice()
    }
}

impl std::ops::DerefMut for Array {
    fn deref_mut(&mut self) -> &mut [f32] {
        self.0.as_mut_slice()
    }
}

fn random(len: usize) -> Vec<f32> {
    let mut state = 88172645463325252u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

fn bench_matmul(bench: &mut Bench, n: usize) -> Result<()> {
    let (a, b) = (Array::random(n * n)?, Array::random(n * n)?);
    let mut out = [
        Array::zeros(n * n)?,
        Array::zeros(n * n)?,
        Array::zeros(n * n)?,
    ];
    let [ours, by_gemm, by_faer] = &mut out;
    let matrix = Strides {
        offset: 0,
        row: n as isize,
        col: 1,
    };
    let operand = |data| Operand {
        data,
        matrix,
        batch: &[],
    };
    let sizes = Sizes {
        batch: &[],
        m: n,
        n,
        k: n,
    };
    // Each crate at its best: one thread for the smallest size.
    let threads = if n <= 64 { 1 } else { parallel::threads() };
    let gemm_threads = match threads {
        1 => gemm::Parallelism::None,
        threads => gemm::Parallelism::Rayon(threads),
    };
    let faer_threads = match threads {
        1 => faer::Par::Seq,
        threads => faer::Par::rayon(threads),
    };
    let (left, right) = (
        faer::MatRef::from_row_major_slice(&a, n, n),
        faer::MatRef::from_row_major_slice(&b, n, n),
    );
    let mut entries: [Entry<'_>; 3] = [
        (
            "clematis",
            Box::new(|| matmul(ours, sizes, operand(&a), operand(&b))),
        ),
        (
            "gemm",
            Box::new(|| {
                let (n1, row) = (1, n as isize);
                // SAFETY: three contiguous matrices of n by n elements.
                unsafe {
                    gemm::gemm(
                        n,
                        n,
                        n,
                        by_gemm.as_mut_ptr(),
                        n1,
                        row,
                        false,
                        a.as_ptr(),
                        n1,
                        row,
                        b.as_ptr(),
                        n1,
                        row,
                        1.0,
                        1.0,
                        false,
                        false,
                        false,
                        gemm_threads,
                    );
                }
            }),
        ),
        (
            "faer",
            Box::new(|| {
                let out = faer::MatMut::from_row_major_slice_mut(by_faer, n, n);
                faer::linalg::matmul::matmul(
                    out,
                    faer::Accum::Replace,
                    left,
                    right,
                    1.0,
                    faer_threads,
                );
            }),
        ),
    ];
    bench.time(
        &format!("matmul {n}"),
        2.0 * (n as f64).powi(3),
        &mut entries,
    );
    Ok(())
}

/// A contiguous array with features before or after the spatial axes.
fn view(outer: usize, inner: usize, spatial: &[usize], last: bool) -> View {
    let places: usize = spatial.iter().product();
    let mut stride = if last { inner } else { 1 };
    let mut axes: Vec<Axis> = spatial
        .iter()
        .rev()
        .map(|&size| {
            let axis = Axis {
                size,
                stride: stride as isize,
            };
            stride *= size;
            axis
        })
        .collect();
    axes.reverse();
    View {
        offset: 0,
        outer: Axis {
            size: outer,
            stride: (inner * places) as isize,
        },
        inner: Axis {
            size: inner,
            stride: if last { 1 } else { places as isize },
        },
        spatial: axes.into_iter().collect(),
    }
}

/// A filter as torch (features first) or jax (features last, outputs innermost) lays it out.
fn filter_view(outputs: usize, inputs: usize, spatial: &[usize], last: bool) -> View {
    let swapped = view(inputs, outputs, spatial, last);
    if !last {
        return view(outputs, inputs, spatial, false);
    }
    let axes = swapped.spatial.iter().map(|axis| Axis {
        stride: axis.stride * inputs as isize,
        ..*axis
    });
    View {
        offset: 0,
        outer: Axis {
            size: outputs,
            stride: 1,
        },
        inner: Axis {
            size: inputs,
            stride: outputs as isize,
        },
        spatial: axes.collect(),
    }
}

struct Shape<'a> {
    name: &'a str,
    batch: usize,
    inputs: usize,
    outputs: usize,
    size: &'a [usize],
    window: usize,
    step: Step,
    groups: usize,
}

fn bench_conv(bench: &mut Bench, shape: &Shape<'_>, last: bool) -> Result<()> {
    let &Shape {
        name,
        batch,
        inputs,
        outputs,
        size,
        window: taps,
        step,
        groups,
    } = shape;
    let out_size: Vec<usize> = size
        .iter()
        .map(|&size| step.output_size(size, taps))
        .collect();
    let taps = vec![taps; size.len()];
    let lhs = view(batch, inputs, size, last);
    let rhs = filter_view(outputs, inputs / groups, &taps, last);
    let out = view(batch, outputs, &out_size, last);
    let window = Window {
        steps: size.iter().map(|_| step).collect(),
        feature_groups: groups,
        batch_groups: 1,
    };
    let count = |view: &View| {
        view.outer.size
            * view.inner.size
            * view.spatial.iter().map(|axis| axis.size).product::<usize>()
    };
    let (x, w, grad) = (
        Array::random(count(&lhs))?,
        Array::random(count(&rhs))?,
        Array::random(count(&out))?,
    );
    let (mut y, mut dx, mut dw) = (
        Array::zeros(grad.len())?,
        Array::zeros(x.len())?,
        Array::zeros(w.len())?,
    );
    // Products with the zeros of a dilated input do not count.
    let products = count(&out) * inputs / groups * taps.iter().product::<usize>();
    let flops = 2.0 * products as f64 / (step.lhs_dilation as f64).powi(size.len() as i32);
    let layout = if last { "last" } else { "first" };
    let mut one = |pass: &str, run: Box<dyn FnMut() + '_>| {
        bench.time(
            &format!("{name} channels {layout} {pass}"),
            flops,
            &mut [("clematis", run)],
        );
    };
    one(
        "forward",
        Box::new(|| conv((&mut y, &out), (&x, &lhs), (&w, &rhs), &window)),
    );
    one(
        "by input",
        Box::new(|| conv_backward_input((&mut dx, &lhs), (&grad, &out), (&w, &rhs), &window)),
    );
    one(
        "by filter",
        Box::new(|| conv_backward_filter((&mut dw, &rhs), (&x, &lhs), (&grad, &out), &window)),
    );
    Ok(())
}

/// Pooling of (8,64,56,56), and the gradient of its maximum.
fn bench_pool(
    bench: &mut Bench,
    name: &str,
    window: usize,
    step: Step,
    reduction: Reduction,
    last: bool,
) -> Result<()> {
    let size = step.output_size(56, window);
    let (from, to) = (
        view(8, 64, &[56, 56], last),
        view(8, 64, &[size, size], last),
    );
    let axis = |input, output, window, step| WindowAxis {
        input,
        output,
        window,
        step,
    };
    let axes = [
        axis(from.outer, to.outer, 1, Step::default()),
        axis(from.inner, to.inner, 1, Step::default()),
        axis(from.spatial[0], to.spatial[0], window, step),
        axis(from.spatial[1], to.spatial[1], window, step),
    ];
    let x = Array::random(8 * 64 * 56 * 56)?;
    let mut y = Array::zeros(8 * 64 * size * size)?;
    let mut dx = Array::zeros(x.len())?;
    let layout = if last { "last" } else { "first" };
    let name = format!("{name} (8,64,56,56) channels {layout}");
    let forward = || reduce_window((&mut y, 0), (&x, 0), &axes, reduction);
    bench.time(&name, 0.0, &mut [("clematis", Box::new(forward))]);
    if reduction == Reduction::Max {
        let backward = || window_scatter(&mut dx, (&y, 0), (&x, 0), &axes, reduction);
        let name = format!("{name} by input");
        bench.time(&name, 0.0, &mut [("clematis", Box::new(backward))]);
    }
    Ok(())
}

/// An eager op with its operands.
type Work<'a> = dyn Fn() -> Result<Tensor> + 'a;

/// Eager ops on 4M elements, through dispatch as users call them.
fn bench_eager(bench: &mut Bench) -> Result<()> {
    let key = Key::new(0).split();
    let x = random::normal(&key.0, [4096usize, 1024], 0.0, 1.0, DType::F32).done()?;
    let y = random::normal(&key.1, [4096usize, 1024], 0.0, 1.0, DType::F32).done()?;
    let (scale, bias) = (
        ops::ones([1024usize], DType::F32).done()?,
        ops::zeros([1024usize], DType::F32).done()?,
    );
    let work: [(&str, Box<Work<'_>>); 5] = [
        ("add 4M", Box::new(|| (&x + &y).done())),
        ("exp 4M", Box::new(|| ops::exp(&x).done())),
        ("sum 4M", Box::new(|| ops::sum(&x, ..).done())),
        ("softmax 4M", Box::new(|| ops::softmax(&x, -1).done())),
        (
            "layer_norm 4M",
            Box::new(|| ops::layer_norm(&x, Some(&scale), Some(&bias), -1, 1e-5).done()),
        ),
    ];
    for (name, run) in work {
        run()?;
        let mut entry: [Entry<'_>; 1] = [("clematis", Box::new(|| drop(run())))];
        bench.time(name, 0.0, &mut entry);
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let json = arguments.iter().any(|argument| argument == "--json");
    let filter = arguments
        .iter()
        .find(|argument| !argument.starts_with("--"));
    let by_processor = arguments.iter().any(|argument| argument == "--cpu");
    if by_processor {
        parallel::set_thread_limit(Some(1));
    }
    let mut bench = Bench {
        filter: filter.cloned().unwrap_or_default(),
        clock: if by_processor {
            processor_clock
        } else {
            wall_clock
        },
        rows: Vec::new(),
    };
    for n in [64, 256, 512, 1024, 2048] {
        bench_matmul(&mut bench, n)?;
    }
    let same = Step {
        lo: 1,
        hi: 1,
        ..Step::default()
    };
    let transposed = Step {
        lo: 2,
        hi: 2,
        lhs_dilation: 2,
        ..Step::default()
    };
    let halving = Step { stride: 2, ..same };
    let image = |name, channels, size, window, step, groups| Shape {
        name,
        batch: 8,
        inputs: channels,
        outputs: channels,
        size,
        window,
        step,
        groups,
    };
    let cube = Shape {
        batch: 2,
        ..image(
            "conv3d 3x3x3 (2,16,16,32,32)",
            16,
            &[16, 32, 32],
            3,
            same,
            1,
        )
    };
    let shapes = [
        image("conv2d 3x3 (8,64,56,56)", 64, &[56, 56], 3, same, 1),
        image("conv2d 3x3 (8,256,14,14)", 256, &[14, 14], 3, same, 1),
        image("conv2d 3x3 s2 (8,64,56,56)", 64, &[56, 56], 3, halving, 1),
        image(
            "conv2d 1x1 (8,64,56,56)",
            64,
            &[56, 56],
            1,
            Step::default(),
            1,
        ),
        image("depthwise 3x3 (8,64,56,56)", 64, &[56, 56], 3, same, 64),
        image(
            "conv_transpose k4 s2 (8,64,28,28)",
            64,
            &[28, 28],
            4,
            transposed,
            1,
        ),
        cube,
    ];
    for shape in &shapes {
        for last in [false, true] {
            bench_conv(&mut bench, shape, last)?;
        }
    }
    let halving = |lo| Step {
        stride: 2,
        lo,
        hi: lo,
        ..Step::default()
    };
    for last in [false, true] {
        bench_pool(
            &mut bench,
            "max_pool 2x2",
            2,
            halving(0),
            Reduction::Max,
            last,
        )?;
        bench_pool(
            &mut bench,
            "max_pool 3x3 s2",
            3,
            halving(1),
            Reduction::Max,
            last,
        )?;
        bench_pool(
            &mut bench,
            "avg_pool 2x2",
            2,
            halving(0),
            Reduction::Sum,
            last,
        )?;
    }
    bench_eager(&mut bench)?;
    bench.print(json);
    Ok(())
}
