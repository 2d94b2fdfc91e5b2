//! The expansion as text, and its error messages. `tests/derive.rs` runs the expansion.

use super::expand;

fn expanded(source: &str) -> String {
    let tokens = source.parse().expect("the test's source is Rust");
    expand(tokens).expect("expands").to_string()
}

fn message(source: &str) -> String {
    let tokens = source.parse().expect("the test's source is Rust");
    expand(tokens).expect_err("is refused").to_string()
}

/// Whitespace depends on the printer, so it is ignored.
fn assert_has(text: &str, wanted: &str) {
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    assert!(
        bare(text).contains(&bare(wanted)),
        "{wanted}\nnot in\n{text}"
    );
}

#[test]
fn fields_are_visited_under_their_names() {
    let text = expanded("struct Linear { w: Tensor, r#type: Option<Tensor> }");
    assert_has(&text, "impl ::clematis_core::tree::Tree for Linear");
    assert_has(
        &text,
        r#"at.within("w", |at| ::clematis_core::tree::Tree::visit(field_0, at, f));"#,
    );
    assert_has(
        &text,
        r#"at.within("type", |at| ::clematis_core::tree::Tree::visit_mut(field_1, at, f));"#,
    );
    assert_has(
        &text,
        "f: &mut dyn ::core::ops::FnMut(&::clematis_core::tree::Path, ::clematis_core::tree::Role, &mut ::clematis_core::Tensor)",
    );
}

#[test]
fn the_root_can_be_chosen() {
    let text = expanded(r#"#[tree(crate = "clematis")] struct S { w: Tensor }"#);
    assert_has(&text, "impl clematis::tree::Tree for S");
    assert!(!text.contains("clematis_core"));
}

#[test]
fn only_parameters_that_are_visited_must_be_trees() {
    let text = expanded(
        "struct S<'a, T: Clone, U, const N: usize> where U: Copy { a: Vec<[T; N]>, #[tree(skip)] b: &'a U }",
    );
    assert_has(
        &text,
        "impl<'a, T: Clone + ::clematis_core::tree::Tree, U, const N: usize> ::clematis_core::tree::Tree for S<'a, T, U, N> where U: Copy",
    );
}

#[test]
fn a_union_is_refused() {
    assert!(message("union U { a: u8 }").contains("cannot be derived for a union"));
}

#[test]
fn unknown_attributes_are_refused() {
    assert!(message("struct S { #[tree(skipp)] a: u8 }").contains("`skip` or `rename"));
    assert!(message("#[tree(root = \"x\")] struct S;").contains("`crate = \"path\"`"));
    assert!(message("struct S { #[tree(rename)] a: u8 }").contains("expected `=`"));
    assert!(message("struct S { #[tree(rename = 3)] a: u8 }").contains("string literal"));
}

#[test]
fn names_that_would_confuse_a_path_are_refused() {
    assert!(message(r#"struct S { #[tree(rename = "a.b")] a: T }"#).contains("has no `.`"));
    assert!(message(r#"struct S { #[tree(rename = "")] a: T }"#).contains("not empty"));
    assert!(message(r#"struct S { #[tree(rename = "b")] a: T, b: T }"#).contains("two fields"));
}
