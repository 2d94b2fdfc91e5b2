//! Checkpoints round-trip bit by bit, and hostile files do no harm.

use clematis_core::tree::{State, entries};
use clematis_core::{DType, Element, Kind, Result, Shape, Tensor, ops, with_element};
use clematis_derive::Tree;
use clematis_native as _;
use clematis_nn::checkpoint::{self, Difference, Key, Reader, Structure};
use proptest::prelude::*;
use safetensors::SafeTensors;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

struct Place {
    _folder: TempDir,
    path: PathBuf,
}

fn place() -> Place {
    let folder = tempfile::tempdir().expect("it works");
    let path = folder.path().join("x.safetensors");
    Place {
        _folder: folder,
        path,
    }
}

/// A tensor of each dtype, of several shapes.
fn all_types() -> Result<Vec<(String, Tensor)>> {
    let mut out = Vec::new();
    for dtype in DType::ALL {
        for sizes in [vec![], vec![0], vec![3], vec![2, 0, 3], vec![2, 1, 3]] {
            let count: usize = sizes.iter().product();
            let x = with_element!(dtype, T => {
                let values: Vec<T> = (0..count)
                    .map(|i| <T as Element>::from_scalar(clematis_core::Scalar::from(i as f64 * 0.37)))
                    .collect();
                ops::from_host(clematis_core::Host::from_slice(&values, Shape::from_sizes(&sizes))?)?
            });
            let shape: Vec<_> = sizes.iter().map(usize::to_string).collect();
            out.push((format!("{dtype}.s{}", shape.join("x")), x));
        }
    }
    Ok(out)
}

fn same(a: &Tensor, b: &Tensor) -> bool {
    let bytes = |x: &Tensor| {
        x.to_host()
            .expect("it works")
            .bytes()
            .as_slice::<u8>()
            .to_vec()
    };
    a.spec() == b.spec() && bytes(a) == bytes(b)
}

#[test]
fn every_dtype_and_shape_round_trips() {
    let p = place();
    let pairs = all_types().unwrap();
    checkpoint::save_pairs(&p.path, &pairs).unwrap();
    let back = checkpoint::load(&p.path).unwrap();
    assert_eq!(back.tensors.len(), pairs.len());
    for ((name, x), (own, y)) in pairs.iter().zip(&back.tensors) {
        assert_eq!(name, own);
        assert!(same(x, y), "{name}");
    }
    // The same tensors give the same bytes.
    let first = fs::read(&p.path).unwrap();
    checkpoint::save_pairs(&p.path, &pairs).unwrap();
    assert!(first == fs::read(&p.path).unwrap());
}

#[test]
fn the_reference_reads_what_is_written_and_we_read_what_it_writes() {
    let p = place();
    let pairs = all_types().unwrap();
    checkpoint::save_pairs(&p.path, &pairs).unwrap();
    let file = fs::read(&p.path).unwrap();
    let theirs = SafeTensors::deserialize(&file).unwrap();
    assert_eq!(theirs.len(), pairs.len());
    for (name, x) in &pairs {
        let view = theirs.tensor(name).unwrap();
        let host = x.to_host().unwrap();
        assert_eq!(view.data(), host.bytes().as_slice::<u8>(), "{name}");
        let start = view.data().as_ptr().addr() - file.as_ptr().addr();
        assert!(start.is_multiple_of(x.dtype().real().size()), "{name}");
    }
    let written = safetensors::serialize(theirs.iter(), None).unwrap();
    fs::write(&p.path, written).unwrap();
    let back = checkpoint::load(&p.path).unwrap();
    for (name, y) in &back.tensors {
        let x = &pairs.iter().find(|(own, _)| own == name).unwrap().1;
        // The reference crate has no name for complex128.
        assert!(same(x, y) || x.dtype() == DType::C128, "{name}");
    }
}

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
    b: Option<Tensor>,
    mean: State,
}

fn net() -> Result<Vec<Layer>> {
    (0..2)
        .map(|i| {
            Ok(Layer {
                w: ops::full([2usize, 3], i as f64 + 0.5, DType::F32).done()?,
                b: Some(ops::full([3usize], 2.0, DType::F64).done()?),
                mean: State(ops::full([3usize], 7, DType::I64).done()?),
            })
        })
        .collect()
}

#[test]
fn a_tree_is_filled_from_a_file() {
    let p = place();
    let saved = net().unwrap();
    checkpoint::save(&p.path, &saved).unwrap();
    let mut other = net().unwrap();
    other[0].w = ops::full([2usize, 3], 9.0, DType::F32).done().unwrap();
    other[1].mean = State(ops::full([3usize], 0, DType::I64).done().unwrap());
    assert_eq!(
        checkpoint::load_into(&p.path, &mut other, true).unwrap(),
        []
    );
    for ((name, _, x), (_, _, y)) in entries(&saved).iter().zip(entries(&other)) {
        assert!(same(x, &y), "{name}");
    }
    let file = Reader::open(&p.path).unwrap();
    assert_eq!(file.structure().tensors()[..2], ["0.w", "0.b"]);
}

#[test]
fn all_differences_are_reported_and_nothing_is_changed() {
    let p = place();
    let mut saved = net().unwrap();
    saved[0].w = ops::full([3usize, 2], 1.0, DType::F32).done().unwrap();
    saved[0].b = None;
    saved[1].w = ops::full([2usize, 3], 1.0, DType::F64).done().unwrap();
    saved[1].mean = State(ops::full([3usize], 1, DType::I64).done().unwrap());
    let mut pairs: Vec<_> = entries(&saved)
        .into_iter()
        .map(|(n, _, x)| (n, x))
        .collect();
    pairs.push(("extra".into(), Tensor::scalar(1.0, DType::F16)));
    checkpoint::save_pairs(&p.path, &pairs).unwrap();

    let before = net().unwrap();
    let mut tree = net().unwrap();
    let e = checkpoint::load_into(&p.path, &mut tree, true).unwrap_err();
    assert_eq!(e.kind(), Kind::Io);
    for line in [
        "differ in 4 places",
        "`0.w`: f32[2,3] in the tree, f32[3,2] in the file",
        "`0.b`: f64[3] in the tree, nothing in the file",
        "`1.w`: f32[2,3] in the tree, f64[2,3] in the file",
        "`extra`: nothing in the tree, f16[] in the file",
    ] {
        assert!(e.message().contains(line), "{line}\n{e}");
    }
    for ((_, _, x), (_, _, y)) in entries(&before).iter().zip(entries(&tree)) {
        assert!(same(x, &y));
    }

    let skipped = checkpoint::load_into(&p.path, &mut tree, false).unwrap();
    let paths: Vec<_> = skipped
        .iter()
        .map(|d: &Difference| d.path.as_str())
        .collect();
    assert_eq!(paths, ["0.w", "0.b", "1.w", "extra"]);
    assert!(same(&tree[1].mean.0, &saved[1].mean.0));
    assert!(same(&tree[0].w, &before[0].w));
}

#[test]
fn a_failed_save_leaves_the_old_file() {
    let p = place();
    let one = || Tensor::scalar(1.0, DType::F32);
    checkpoint::save(&p.path, &one()).unwrap();
    let old = fs::read(&p.path).unwrap();
    let twice = [("a".to_owned(), one()), ("a".to_owned(), one())];
    let named = [("__metadata__".to_owned(), one())];
    for pairs in [&twice[..], &named] {
        assert_eq!(
            checkpoint::save_pairs(&p.path, pairs).unwrap_err().kind(),
            Kind::Io
        );
    }
    let elsewhere = Structure::Dict(vec![(Key::Text("b".into()), Structure::Tensor)]);
    let pairs = [("a".to_owned(), one())];
    assert!(checkpoint::save_structure(&p.path, &elsewhere, &pairs).is_err());
    assert!(old == fs::read(&p.path).unwrap());
    let back = checkpoint::load(&p.path).unwrap();
    assert_eq!(back.structure, Structure::Tensor);
    assert_eq!(back.tensors[0].0, "");
}

/// A small file with all features of the format.
fn sample() -> Vec<u8> {
    let p = place();
    let pairs = [
        (
            "a.w".to_owned(),
            ops::full([2usize, 3], 0.5, DType::F32)
                .done()
                .expect("it works"),
        ),
        (
            "a.c".to_owned(),
            ops::full([2usize], 1.0, DType::C128)
                .done()
                .expect("it works"),
        ),
        (
            "b".to_owned(),
            ops::full([5usize], true, DType::Bool)
                .done()
                .expect("it works"),
        ),
    ];
    let part = |name: &str| (Key::Text(name.into()), Structure::Tensor);
    let structure = Structure::Dict(vec![
        (
            Key::Text("a".into()),
            Structure::Dict(vec![part("w"), part("c")]),
        ),
        part("b"),
        (
            Key::Int(3),
            Structure::Tuple(vec![Structure::Float(0.1), Structure::Text("x".into())]),
        ),
    ]);
    checkpoint::save_structure(&p.path, &structure, &pairs).expect("it works");
    fs::read(&p.path).expect("it works")
}

fn read(bytes: &[u8]) -> Result<checkpoint::Checkpoint> {
    let p = place();
    fs::write(&p.path, bytes).expect("it works");
    checkpoint::load(&p.path)
}

#[test]
fn every_bit_flip_and_truncation_is_detected() {
    let good = sample();
    assert!(read(&good).is_ok());
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        let e = read(&bad).err();
        assert!(e.is_some_and(|e| e.kind() == Kind::Io), "byte {at}");
        assert!(
            read(&good[..at]).is_err_and(|e| e.kind() == Kind::Io),
            "{at} bytes"
        );
    }
    let longer = [&good[..], &[0]].concat();
    assert!(read(&longer).is_err());
}

#[test]
fn invalid_files_are_rejected() {
    let p = place();
    assert_eq!(checkpoint::load(&p.path).unwrap_err().kind(), Kind::Io);
    let folder = p.path.parent().unwrap();
    assert!(
        checkpoint::load(folder)
            .unwrap_err()
            .message()
            .contains("a directory")
    );
    if cfg!(unix) {
        assert!(checkpoint::load("/dev/zero").is_err());
    }
    let claims = [u64::MAX, u64::MAX - 7, 1 << 40, 99_999_999, 100_000_001, 9];
    for size in claims {
        let mut file = size.to_le_bytes().to_vec();
        file.extend(b"{}");
        assert_eq!(read(&file).unwrap_err().kind(), Kind::Io, "{size}");
    }
    assert_eq!(read(b"\x02\0\0\0\0\0\0\0{}").unwrap().tensors.len(), 0);
}

/// A header of another library, followed by data.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let size = (header.len() as u64).to_le_bytes();
    [&size[..], header.as_bytes(), data].concat()
}

#[test]
fn booleans_are_zero_or_one() {
    let header = r#"{"b":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}"#;
    assert!(read(&file(header, &[0, 1])).is_ok());
    let e = read(&file(header, &[0, 2])).unwrap_err();
    assert!(e.message().contains("expected booleans of 0 or 1"), "{e}");
}

/// Numbers and words for a hostile header.
fn hostile() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        (0u64..40).prop_map(|v| v.to_string()),
        any::<u64>().prop_map(|v| v.to_string()),
        prop::sample::select(vec![
            "-1",
            "1.5",
            "1e3",
            "18446744073709551616",
            "null",
            "[]",
            "\"x\"",
            "{}"
        ])
        .prop_map(str::to_owned),
    ];
    let numbers =
        prop::collection::vec(number.clone(), 0..4).prop_map(|v| format!("[{}]", v.join(",")));
    let dtype = prop::sample::select(vec![
        "U8", "F32", "BOOL", "C64", "F64", "F8_E4M3", "F4", "", "f32",
    ]);
    let entry = (dtype, numbers.clone(), number.clone(), number).prop_map(|(d, shape, a, b)| {
        format!(r#"{{"dtype":"{d}","shape":{shape},"data_offsets":[{a},{b}]}}"#)
    });
    let name = prop::sample::select(vec![
        "a",
        "a.b",
        "b",
        "",
        ".",
        "__metadata__",
        "\\ud800",
        "\\u0000",
    ]);
    prop::collection::vec((name, entry), 0..4).prop_map(|v| {
        let all: Vec<_> = v.iter().map(|(n, e)| format!("\"{n}\":{e}")).collect();
        format!("{{{}}}", all.join(","))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn modified_files_are_rejected(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 1..6),
    ) {
        let good = sample();
        let mut bad = good.clone();
        for (at, byte, how) in changes {
            let at = at.index(bad.len());
            match how {
                0 => bad[at] = byte,
                1 => bad.insert(at, byte),
                _ => { bad.remove(at); }
            }
        }
        if bad != good {
            prop_assert_eq!(read(&bad).unwrap_err().kind(), Kind::Io);
        }
    }

    #[test]
    fn any_bytes_are_handled(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
        let _ = read(&file(&String::from_utf8_lossy(&bytes), &[0; 8]));
    }

    #[test]
    fn headers_rejected_by_the_reference_are_rejected(header in hostile(), data in 0usize..40) {
        let bytes = file(&header, &vec![1; data]);
        match read(&bytes) {
            Ok(own) => {
                let theirs = SafeTensors::deserialize(&bytes).expect("the reference refuses it");
                prop_assert_eq!(own.tensors.len(), theirs.len());
            }
            Err(e) => prop_assert_eq!(e.kind(), Kind::Io),
        }
    }
}

#[test]
fn too_many_plain_values_are_rejected() {
    let p = place();
    checkpoint::save(&p.path, &Tensor::scalar(1.0, DType::F32)).unwrap();
    let many = Structure::List(vec![Structure::Nothing; 9_000_000]);
    let e = checkpoint::save_structure(&p.path, &many, &[]).unwrap_err();
    assert!(e.message().contains("too many plain values"), "{e}");
    assert!(checkpoint::load(&p.path).is_ok());
    let shape = "0,".repeat(1_000_000);
    let header = format!(r#"{{"a":{{"dtype":"U8","shape":[{shape}0],"data_offsets":[0,0]}}}}"#);
    let e = read(&file(&header, &[])).unwrap_err();
    assert!(e.message().contains("too many axes"), "{e}");
}
