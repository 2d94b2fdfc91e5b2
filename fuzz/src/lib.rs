//! What is fuzzed: one function for each kind of file, each given any bytes.
//!
//! A function may refuse its input by an error. It may not panic, abort, take more than two seconds, or more memory than
//! four times the input and 64 MiB. What it accepts has to survive being written and read again where there is a writer.

use clematis::Graph;
use clematis::nn::checkpoint::{self, Reader};
use clematis_convert::export::{model, onnx as writer, python};
use clematis_convert::import::onnx as importer;
use clematis_convert::onnx::program::Options;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What is fed with bytes.
pub type Target = fn(&[u8]);

/// The targets by name.
pub const TARGETS: [(&str, Target); 6] = [
    ("safetensors", safetensors),
    ("model", clematis_model),
    ("onnx", onnx),
    ("graph", graph),
    ("npy", npy),
    ("manifest", manifest),
];

/// No input may take longer; instrumented code is given more by `FUZZ_SECONDS`.
const SECONDS: f64 = 2.0;
/// What an input may take beside four times its size.
const MEMORY: usize = 64 << 20;
/// What is read in less cannot have touched much memory.
const SHORT: Duration = Duration::from_millis(2);

/// Runs a target on an input and panics where it takes too long or too much memory.
pub fn run(target: &str, data: &[u8]) {
    let Some((_, function)) = TARGETS.iter().find(|(name, _)| *name == target) else {
        panic!("there is no target `{target}`");
    };
    static START: OnceLock<()> = OnceLock::new();
    START.get_or_init(|| {
        clematis::native::set_memory_limit(256 << 20);
        clematis::native::parallel::set_thread_limit(Some(1));
        // The engine and its tables are there before anything is measured.
        for (_, function) in TARGETS {
            function(b"");
        }
        reset_peak();
    });
    let before = resident("VmRSS:");
    let start = Instant::now();
    function(data);
    let took = start.elapsed();
    let seconds = std::env::var("FUZZ_SECONDS").ok();
    let seconds = seconds.and_then(|x| x.parse().ok()).unwrap_or(SECONDS);
    assert!(
        took.as_secs_f64() < seconds,
        "{target}: expected less than {seconds} s for {} bytes, got {took:?}",
        data.len()
    );
    if took < SHORT {
        return;
    }
    let peak = resident("VmHWM:").saturating_sub(before);
    reset_peak();
    let most = 4 * data.len() + MEMORY;
    assert!(
        peak <= most,
        "{target}: expected at most {most} bytes of memory for {} bytes, got {peak}",
        data.len()
    );
}

/// A number of the process's status in bytes; 0 where the system has none.
fn resident(key: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}

/// Makes the most memory that the process has had what it has now.
fn reset_peak() {
    // Elsewhere there is no such file, and nothing is measured.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The input as a file of this process.
fn file(name: &str, data: &[u8]) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let shared = PathBuf::from("/dev/shm");
        let base = if shared.is_dir() {
            shared
        } else {
            std::env::temp_dir()
        };
        let folder = base.join(format!("clematis-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for inputs");
        folder
    });
    let path = folder.join(name);
    std::fs::write(&path, data).expect("a file for the input");
    path
}

/// Tensors with names: what is read is written, and read as the same.
fn safetensors(data: &[u8]) {
    let path = file("x.safetensors", data);
    let Ok(mut reader) = Reader::open(&path) else {
        return;
    };
    let Ok(hosts) = reader.read(|_| true) else {
        return;
    };
    let pairs: Vec<_> = hosts
        .into_iter()
        .map(|(name, host)| (name, clematis::from_host(host).expect("a tensor")))
        .collect();
    let structure = reader.into_structure();
    let again = path.with_file_name("again.safetensors");
    match checkpoint::save_structure(&again, &structure, &pairs) {
        Ok(()) => {
            let back = checkpoint::load(&again).expect("what was written is read");
            assert_eq!(back.tensors.len(), pairs.len());
        }
        // Other writers' names and structures need not be ours.
        Err(e) => assert!(!e.message().is_empty()),
    }
}

/// A program with its weights in a file of our own.
fn clematis_model(data: &[u8]) {
    let path = file("x.clematis", data);
    if let Ok(reader) = Reader::open(&path) {
        // A glance does not need whole data.
        let _ = model::look(&reader, &path);
    }
    if let Ok((graph, names)) = model::load(&path) {
        written(&graph, &names);
    }
}

/// An ONNX model by its bytes alone.
fn onnx(data: &[u8]) {
    if let Ok(made) = importer::import(data, None, &Options::default())
        && let Ok((graph, names)) = made.ready()
    {
        written(&graph, &names);
    }
}

/// A model goes out in every form.
fn written(graph: &Graph, names: &writer::Names) {
    let _ = writer::export(graph, names).and_then(|made| made.to_bytes());
    for target in ["numpy", "keras"] {
        if let Some(target) = python::target(target) {
            let _ = python::package(graph, names, target, "model");
        }
    }
}

/// A graph as text: what is read is printed, and read as the same.
fn graph(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(graph) = Graph::parse(text) else {
        return;
    };
    let printed = graph.to_string();
    let again = Graph::parse(&printed).expect("what is printed is read");
    assert_eq!(again.to_string(), printed);
    let _ = python::package(
        &graph,
        &writer::Names::default(),
        python::target("numpy").expect("numpy"),
        "graph",
    );
}

/// An array of numpy's.
fn npy(data: &[u8]) {
    let _ = clematis_cli::parse_npy(data);
}

/// JSON and TOML that say what other files hold: programs of other frameworks, requests for source, results of checks.
fn manifest(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(rest) else {
        return;
    };
    match first % 4 {
        0 => {
            if let Ok(program) = clematis_convert::Program::parse(text) {
                let _ = clematis_convert::import(&program, "torch");
            }
        }
        1 => {
            let _ = clematis_convert::source::write(text);
        }
        2 => {
            let _ = clematis_conform::Cell::recover(text);
            let _ = clematis_conform::history::PastRun::read(text);
        }
        _ => {
            let _ = clematis::Dim::parse(text);
            let _ = text.parse::<clematis::DType>();
        }
    }
}
