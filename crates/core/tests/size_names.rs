//! Names of symbolic dimensions are kept for the whole process: files with ever new names must not fill memory. A
//! process of its own, since the table stays full.

use clematis_core::Dim;

#[test]
fn new_names_hit_the_limit_and_known_ones_stay_usable() {
    let first = Dim::symbol("first").unwrap();
    let refused = (0..1 << 20).find_map(|i| Dim::symbol(&format!("n{i}")).err());
    let message = refused.expect("the table is bounded").to_string();
    assert!(message.contains("at most 65536"), "{message}");
    // Known names stay usable.
    assert_eq!(Dim::symbol("first").unwrap(), first);
    assert_eq!(Dim::parse("first").unwrap(), first);
    let message = Dim::parse("2*other+1").unwrap_err().to_string();
    assert!(message.contains("at most 65536"), "{message}");
}
