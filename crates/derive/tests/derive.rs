//! Runs the derive against a miniature of the core's trait.
#![allow(missing_docs)]

use clematis_derive::Tree;
use tree::{Path, Role, Tree as _};

#[derive(Clone, Debug, PartialEq)]
pub struct Tensor(f64);

pub mod tree {
    use super::Tensor;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Role {
        Param,
    }

    #[derive(Default)]
    pub struct Path(Vec<String>);

    impl Path {
        pub fn within<R>(&mut self, name: impl ToString, f: impl FnOnce(&mut Self) -> R) -> R {
            self.0.push(name.to_string());
            let out = f(self);
            self.0.pop();
            out
        }
    }

    impl std::fmt::Display for Path {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(&self.0.join("."))
        }
    }

    pub trait Tree {
        fn visit(&self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &Tensor));
        fn visit_mut(&mut self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &mut Tensor));
    }

    impl Tree for Tensor {
        fn visit(&self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &Tensor)) {
            f(at, Role::Param, self);
        }
        fn visit_mut(&mut self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &mut Tensor)) {
            f(at, Role::Param, self);
        }
    }
}

#[derive(Tree)]
#[tree(crate = "crate")]
struct Linear {
    #[tree(rename = "w")]
    weight: Tensor,
    // Named like the expansion's own variables, to check hygiene.
    at: Tensor,
    f: Tensor,
    #[tree(skip)]
    outputs: usize,
}

#[derive(Tree)]
#[tree(crate = "crate")]
struct Pair<A, B>(A, #[tree(skip)] &'static str, B);

#[derive(Tree)]
#[tree(crate = "crate")]
enum Layer<T> {
    Full(T),
    Named { inner: T, field_0: Tensor },
    Nothing,
}

#[derive(Tree)]
#[tree(crate = "crate")]
struct Unit;

#[derive(Tree)]
#[tree(crate = "crate")]
enum Never {}

fn linear() -> Linear {
    Linear {
        weight: Tensor(1.0),
        at: Tensor(2.0),
        f: Tensor(3.0),
        outputs: 4,
    }
}

fn seen(tree: &dyn tree::Tree) -> Vec<String> {
    let mut seen = Vec::new();
    tree.visit(&mut Path::default(), &mut |at, _, x| {
        seen.push(format!("{at}={}", x.0));
    });
    seen
}

#[test]
fn fields_are_seen_in_order_under_their_names() {
    assert_eq!(seen(&linear()), ["w=1", "at=2", "f=3"]);
    assert_eq!(linear().outputs, 4);
}

#[test]
fn tuples_and_generics_can_be_nested() {
    let pair = Pair(linear(), "between", Tensor(9.0));
    assert_eq!(seen(&pair), ["0.w=1", "0.at=2", "0.f=3", "2=9"]);
    assert_eq!(pair.1, "between");
}

#[test]
fn an_enum_shows_the_fields_of_its_variant() {
    assert_eq!(seen(&Layer::Full(Tensor(1.0))), ["0=1"]);
    let named = Layer::Named {
        inner: Tensor(1.0),
        field_0: Tensor(2.0),
    };
    assert_eq!(seen(&named), ["inner=1", "field_0=2"]);
    assert!(seen(&Layer::<Tensor>::Nothing).is_empty());
    assert!(seen(&Unit).is_empty());
    assert!(None::<Never>.as_ref().map(|n| seen(n)).is_none());
}

#[test]
fn tensors_can_be_changed_in_place() {
    let mut net = Pair(linear(), "", Layer::Full(Tensor(5.0)));
    net.visit_mut(&mut Path::default(), &mut |_, role, x| {
        assert_eq!(role, Role::Param);
        x.0 *= 10.0;
    });
    assert_eq!(seen(&net), ["0.w=10", "0.at=20", "0.f=30", "2.0=50"]);
}
