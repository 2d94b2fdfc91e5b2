//! `convert`, `inspect` and `run` from a user's view, on valid and invalid files.

use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use clematis::graph::Role;
use clematis::trace::Trace;
use clematis::{DType, Dim, Graph, Host, Shape, Spec};
use clematis_convert::export::onnx::{Names, export};
use tempfile::TempDir;

fn floats(shape: &[usize], from: usize) -> Host {
    let count = shape.iter().product();
    let value = |i: usize| ((i * 37 + from) % 19) as f32 / 10.0 - 0.9;
    let values: Vec<f32> = (0..count).map(value).collect();
    Host::from_slice(&values, Shape::from_sizes(shape)).expect("it fits")
}

/// Two layers, and the maximum of the result as a second output.
fn program() -> (Graph, Names) {
    let batch = Dim::symbol("batch").expect("a name");
    let open = Trace::open(false);
    let hosts = [floats(&[8, 5], 1), floats(&[8], 2), floats(&[3, 8], 3)];
    let held: Vec<clematis::Tensor> = ["first.w", "first.b", "second.w"]
        .iter()
        .zip(&hosts)
        .map(|(name, h)| open.trace.input(h.spec().clone(), Role::Param, name))
        .collect();
    let spec = Spec::new(DType::F32, Shape::from_dims([batch, 5.into()]));
    let x = open.trace.input(spec, Role::Input, "x");
    let y = clematis::relu(clematis::linear(&x, &held[0], Some(&held[1])));
    let y = clematis::softmax(clematis::linear(y, &held[2], None), -1)
        .done()
        .expect("it traces");
    let top = clematis::max(&y, -1i64).done().expect("it traces");
    let closed = Trace::close(open, &[y, top]);
    let names = Names {
        values: hosts.into_iter().enumerate().collect(),
        inputs: vec!["image".into()],
        outputs: vec!["share".into(), "top".into()],
    };
    (closed.graph.prune(), names)
}

/// A folder with a model and an input.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let (graph, names) = program();
    let bytes = export(&graph, &names).and_then(|m| m.to_bytes());
    let bytes = bytes.expect("it is written");
    std::fs::write(folder.path().join("net.onnx"), bytes).expect("written");
    write(
        folder.path(),
        "x.npy",
        "<f4",
        &[4, 5],
        floats(&[4, 5], 7).bytes().as_slice::<u8>(),
    );
    folder
}

fn write(folder: &Path, name: &str, kind: &str, shape: &[usize], data: &[u8]) {
    let sizes: String = shape.iter().map(|n| format!("{n}, ")).collect();
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({sizes}), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    std::fs::write(folder.join(name), bytes).expect("written");
}

fn clematis(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("clematis").expect("the binary is built");
    let command = command.args(args).current_dir(folder);
    command.output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command line that must succeed, and returns its output.
fn done(folder: &Path, args: &[&str]) -> String {
    let out = clematis(folder, args);
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    // Progress bars are for terminals only.
    assert!(out.stderr.is_empty(), "{args:?}: {}", text(&out.stderr));
    text(&out.stdout)
}

/// Runs a command line that must fail without changing the folder, and returns its error message.
fn refused(folder: &Path, args: &[&str]) -> String {
    let before = listed(folder);
    let out = clematis(folder, args);
    let complaint = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{args:?}: {complaint}");
    assert!(out.stdout.is_empty(), "{args:?}: {}", text(&out.stdout));
    assert!(!complaint.contains("panicked"), "{args:?}: {complaint}");
    assert_eq!(listed(folder), before, "{args:?}");
    complaint
}

/// Every file below a folder.
fn listed(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("readable") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(listed(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

/// The data of a .npy file, after its header.
fn data(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).expect("it is there");
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[start..].to_vec()
}

#[test]
fn a_model_runs_on_numpy_files() {
    let folder = folder();
    let at = folder.path();
    let said = done(at, &["run", "net.onnx", "x.npy"]);
    assert_eq!(said, "share: f32[4,3]\ntop: f32[4]\n");
    let said = done(at, &["run", "net.onnx", "image=x.npy", "--out", "y.npz"]);
    assert!(said.ends_with("y.npz\n"), "{said}");
    let archive = std::fs::read(at.join("y.npz")).expect("it is there");
    for name in ["share.npy", "top.npy"] {
        let found = archive
            .windows(name.len())
            .filter(|w| *w == name.as_bytes());
        assert_eq!(found.count(), 2, "{name}");
    }
    // Our own file contains the same program.
    done(at, &["convert", "net.onnx", "--to", "clematis"]);
    done(at, &["run", "net.clematis", "x.npy", "--out", "z.npz"]);
    assert_eq!(
        std::fs::read(at.join("z.npz")).expect("it is there"),
        archive
    );
}

#[test]
fn a_program_is_the_same_in_each_file() {
    let folder = folder();
    let at = folder.path();
    let (graph, names) = program();
    let held: Vec<_> = (0..3)
        .map(|i| clematis::from_host(names.values[&i].clone()).expect("weights"))
        .collect();
    let x = clematis::from_host(floats(&[4, 5], 7)).expect("an input");
    let want = graph
        .call(&[&held[0], &held[1], &held[2], &x])
        .expect("it runs");
    let want = want[0].to_vec::<f32>().expect("floats");
    // A single output is written as one array.
    let mut one = graph.clone();
    one.outputs.truncate(1);
    clematis_convert::export::model::save(&at.join("one.clematis"), &one, &names)
        .expect("it is written");
    done(at, &["convert", "one.clematis", "--to", "onnx"]);
    for model in ["one.clematis", "one.onnx"] {
        done(at, &["run", model, "x.npy", "--out", "y.npy"]);
        let got: Vec<f32> = data(&at.join("y.npy"))
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        assert_eq!(got.len(), want.len());
        assert!(
            want.iter().zip(&got).all(|(a, b)| (a - b).abs() < 1e-6),
            "{want:?} {got:?}"
        );
    }
}

#[test]
fn inspect_lists_the_contents() {
    let folder = folder();
    let at = folder.path();
    done(at, &["convert", "net.onnx", "--to", "safetensors"]);
    done(
        at,
        &[
            "convert",
            "net.onnx",
            "--to",
            "clematis",
            "--out",
            "own.clematis",
        ],
    );
    let said = done(at, &["inspect", "net.onnx"]);
    for part in [
        "opset",
        "image float32[batch,5]",
        "share",
        "first.w",
        "Relu",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = done(at, &["inspect", "own.clematis"]);
    for part in [
        "format: clematis",
        "image f32[batch,5]",
        "top f32[batch]",
        "linear 2",
        "3 tensors",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = done(at, &["inspect", "net.safetensors", "--json"]);
    for part in ["\"format\":\"safetensors\"", "first.b", "\"elements\":72"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn python_folders_are_self_contained() {
    let folder = folder();
    let at = folder.path();
    for (name, dialects) in [
        ("torch", vec!["torch"]),
        ("numpy", vec!["numpy"]),
        ("jax", vec!["jax"]),
        ("haiku", vec!["jax"]),
        ("flax", vec!["jax"]),
        ("tensorflow", vec!["tensorflow"]),
        ("keras", vec!["torch", "jax", "tensorflow"]),
    ] {
        let said = done(at, &["convert", "net.onnx", "--to", name]);
        assert!(said.contains("model.py"), "{said}");
        let made = at.join(format!("net_{name}"));
        let text = std::fs::read_to_string(made.join("model.py")).expect("it is there");
        assert!(text.contains("\"first.w\": (\"param\", \"f32\")"), "{text}");
        for dialect in &dialects {
            let file = made.join(format!("clematis_ops/{dialect}.py"));
            let ops = std::fs::read_to_string(file).expect("it is there");
            assert!(!ops.contains("clematis._dialects"), "{dialect}");
        }
        let weights = done(at, &["inspect", &format!("net_{name}/model.safetensors")]);
        assert!(weights.contains("second.w"), "{weights}");
        // Again, into the existing folder.
        done(at, &["convert", "net.onnx", "--to", name]);
        let drafts = listed(at).into_iter().filter(|p| {
            let name = p.file_name().map(|n| n.to_string_lossy().into_owned());
            name.is_some_and(|n| n.starts_with('.'))
        });
        assert_eq!(drafts.count(), 0);
    }
}

#[test]
fn files_that_are_not_models_are_rejected() {
    let folder = folder();
    let at = folder.path();
    let good = std::fs::read(at.join("net.onnx")).expect("it is there");
    std::fs::write(at.join("cut.onnx"), &good[..good.len() / 2]).expect("written");
    std::fs::write(at.join("noise.onnx"), [0xffu8; 300]).expect("written");
    std::fs::write(at.join("empty.onnx"), []).expect("written");
    std::fs::write(at.join("noise.clematis"), [0xffu8; 300]).expect("written");
    std::fs::write(at.join("letter.txt"), "dear reader").expect("written");
    done(
        at,
        &[
            "convert",
            "net.onnx",
            "--to",
            "safetensors",
            "--out",
            "w.safetensors",
        ],
    );
    for file in [
        "none.onnx",
        "cut.onnx",
        "noise.onnx",
        "empty.onnx",
        "noise.clematis",
        "letter.txt",
        ".",
    ] {
        for command in [
            vec!["run", file, "x.npy", "--out", "y.npz"],
            vec!["convert", file, "--to", "torch"],
            vec!["convert", file, "--to", "onnx", "--out", "new.onnx"],
            vec!["inspect", file],
        ] {
            let complaint = refused(at, &command);
            assert!(complaint.contains(file), "{command:?}: {complaint}");
        }
    }
    let complaint = refused(at, &["run", "w.safetensors", "x.npy"]);
    assert!(complaint.contains("weights only"), "{complaint}");
    // A modified file of ours is rejected by its checksum.
    done(at, &["convert", "net.onnx", "--to", "clematis"]);
    let mut own = std::fs::read(at.join("net.clematis")).expect("it is there");
    let last = own.len() - 3;
    own[last] ^= 1;
    std::fs::write(at.join("changed.clematis"), own).expect("written");
    let complaint = refused(at, &["run", "changed.clematis", "x.npy"]);
    assert!(complaint.contains("changed.clematis"), "{complaint}");
}

#[test]
fn mismatched_inputs_are_reported_with_both_specs() {
    let folder = folder();
    let at = folder.path();
    write(at, "wide.npy", "<f8", &[4, 5], &[0; 160]);
    write(at, "long.npy", "<f4", &[4, 6], &[0; 96]);
    write(at, "flat.npy", "<f4", &[5], &[0; 20]);
    write(at, "cut.npy", "<f4", &[4, 5], &[0; 7]);
    done(at, &["convert", "net.onnx", "--to", "clematis"]);
    for model in ["net.onnx", "net.clematis"] {
        for (file, given) in [
            ("wide.npy", "f64[4,5]"),
            ("long.npy", "f32[4,6]"),
            ("flat.npy", "f32[5]"),
        ] {
            let complaint = refused(at, &["run", model, file, "--out", "y.npz"]);
            for part in [file, "image", "f32[batch,5]", given] {
                assert!(complaint.contains(part), "{part}: {complaint}");
            }
        }
        let complaint = refused(at, &["run", model, "cut.npy"]);
        assert!(complaint.contains("7 bytes"), "{complaint}");
        let complaint = refused(at, &["run", model, "none.npy"]);
        assert!(complaint.contains("none.npy"), "{complaint}");
        let complaint = refused(at, &["run", model]);
        assert!(complaint.contains("input image is missing"), "{complaint}");
        let complaint = refused(at, &["run", model, "picture=x.npy"]);
        assert!(
            complaint.contains("picture") && complaint.contains("image"),
            "{complaint}"
        );
        let complaint = refused(at, &["run", model, "x.npy", "x.npy"]);
        assert!(
            complaint.contains("2 files") && complaint.contains("1 inputs"),
            "{complaint}"
        );
        let complaint = refused(at, &["run", model, "x.npy", "--out", "y.npy"]);
        assert!(
            complaint.contains("2 outputs") && complaint.contains(".npz"),
            "{complaint}"
        );
    }
}

#[test]
fn unwritable_paths_are_rejected() {
    let folder = folder();
    let at = folder.path();
    std::fs::write(at.join("file"), "in the way").expect("written");
    for args in [
        vec!["convert", "net.onnx", "--to", "torch", "--out", "file"],
        vec![
            "convert",
            "net.onnx",
            "--to",
            "torch",
            "--out",
            "file/below",
        ],
        vec![
            "convert",
            "net.onnx",
            "--to",
            "onnx",
            "--out",
            "none/new.onnx",
        ],
        vec![
            "convert",
            "net.onnx",
            "--to",
            "clematis",
            "--out",
            "file/new.clematis",
        ],
        vec!["run", "net.onnx", "x.npy", "--out", "none/y.npz"],
        vec!["run", "net.onnx", "x.npy", "--out", "file/y.npz"],
    ] {
        let complaint = refused(at, &args);
        assert!(
            complaint.contains("cannot be written"),
            "{args:?}: {complaint}"
        );
    }
    let complaint = refused(
        at,
        &["convert", "net.onnx", "--to", "onnx", "--out", "net.onnx"],
    );
    assert!(complaint.contains("overwrite the model"), "{complaint}");
    assert_eq!(
        std::fs::read(at.join("file")).ok().as_deref(),
        Some(&b"in the way"[..])
    );
}

/// A model whose only node creates something of any size.
fn huge(op: &str, operands: &[(&str, &[i64])]) -> Vec<u8> {
    use clematis_convert::onnx::wire::Message;
    let (mut graph, mut node) = (Message::default(), Message::default());
    for (name, values) in operands {
        node.put(1, *name);
        let mut tensor = Message::default();
        tensor.int(1, values.len() as i64).int(2, 7).put(8, *name);
        for x in *values {
            tensor.int(7, *x);
        }
        graph.message(5, &tensor);
    }
    node.put(2, "y").put(4, op);
    let mut out = Message::default();
    out.put(1, "y");
    graph.message(1, &node).message(12, &out);
    let mut set = Message::default();
    set.int(2, 20);
    let mut model = Message::default();
    model.int(1, 9).message(7, &graph).message(8, &set);
    model.into_bytes()
}

/// A few bytes can request any size; such models must fail within a gigabyte of address space.
#[cfg(target_os = "linux")]
#[test]
fn small_files_take_little_memory() {
    let folder = folder();
    let at = folder.path();
    let program = assert_cmd::cargo::cargo_bin("clematis");
    let far = 1i64 << 40;
    for (op, operands) in [
        ("ConstantOfShape", vec![("a", &[far][..])]),
        ("Expand", vec![("a", &[1][..]), ("b", &[far, far])]),
        ("Tile", vec![("a", &[1, 2][..]), ("b", &[far])]),
        ("Range", vec![("a", &[0][..]), ("b", &[far]), ("c", &[1])]),
        (
            "OneHot",
            vec![("a", &[1][..]), ("b", &[far]), ("c", &[0, 1])],
        ),
        ("Pad", vec![("a", &[1, 2][..]), ("b", &[far, far])]),
        ("HannWindow", vec![("a", &[far][..])]),
    ] {
        std::fs::write(at.join("huge.onnx"), huge(op, &operands)).expect("written");
        for command in [
            "run huge.onnx",
            "convert huge.onnx --to numpy",
            "inspect huge.onnx",
        ] {
            let line = format!(
                "ulimit -v 1048576; RAYON_NUM_THREADS=1 exec {} {command}",
                program.display()
            );
            let out = std::process::Command::new("sh")
                .args(["-c", &line])
                .current_dir(at)
                .output();
            let out = out.expect("it runs");
            let said = text(&out.stderr);
            // An error or a result, but never a kill or a panic.
            assert!(
                matches!(out.status.code(), Some(0 | 1)),
                "{op} {command}: {:?} {said}",
                out.status
            );
            assert!(
                !said.contains("panicked") && !said.contains("memory allocation"),
                "{op} {command}: {said}"
            );
        }
    }
}
