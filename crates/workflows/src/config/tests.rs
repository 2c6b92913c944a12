//! Tests of `config`.

use super::*;

#[test]
fn overrides_are_toml_or_text() {
    let mut table: Table = "a = 1\n[b]\nc = 2".parse().unwrap();
    for given in ["a=3", "b.c=[1, 2]", "b.d=some/path", "e.f.g=true", "x=\"7\""] {
        apply(&mut table, given).unwrap();
    }
    let want = "a = 3\nx = \"7\"\n[b]\nc = [1, 2]\nd = \"some/path\"\n[e.f]\ng = true".parse::<Table>().unwrap();
    assert_eq!(table, want);
    for wrong in ["a", "=1", "a.b=1", "b..c=1"] {
        assert!(apply(&mut table, wrong).is_err(), "{wrong}");
    }
}
