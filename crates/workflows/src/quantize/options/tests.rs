//! Tests of names and groups.

use super::*;

fn options(to: Integers, group: Option<usize>) -> Options {
    Options {
        model: "m".into(),
        out: "o".into(),
        to,
        group,
        search: ScaleSearch::Clipped,
        prompts: None,
        limit: 1,
        hashes: false,
        dry_run: false,
    }
}

#[test]
fn formats_have_names() {
    for format in [Integers::Int8, Integers::Int4] {
        assert_eq!(format.name().parse(), Ok(format));
    }
    assert!("int5".parse::<Integers>().unwrap_err().contains("int8 or int4"));
}

#[test]
fn groups_are_for_four_bits() {
    let group = |to, group| options(to, group).scheme().map(|scheme| scheme.group);
    assert_eq!(group(Integers::Int4, None).unwrap(), Some(128));
    assert_eq!(group(Integers::Int4, Some(32)).unwrap(), Some(32));
    assert_eq!(group(Integers::Int8, None).unwrap(), None);
    let refused = group(Integers::Int8, Some(32)).unwrap_err();
    assert!(refused.message().contains("--group 32"), "{}", refused.message());
}
