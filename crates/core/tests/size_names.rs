//! Names of sizes are kept for the process: files with ever new names must not fill memory. A process of its own, since
//! the table stays full.

use clematis_core::Dim;

#[test]
fn ever_new_names_of_sizes_end_in_an_error_and_known_ones_go_on() {
    let first = Dim::symbol("first").unwrap();
    let refused = (0..1 << 20).find_map(|i| Dim::symbol(&format!("n{i}")).err());
    let message = refused.expect("the table is bounded").to_string();
    assert!(message.contains("at most 65536"), "{message}");
    // What is known stays usable.
    assert_eq!(Dim::symbol("first").unwrap(), first);
    assert_eq!(Dim::parse("first").unwrap(), first);
    let message = Dim::parse("2*other+1").unwrap_err().to_string();
    assert!(message.contains("at most 65536"), "{message}");
}
