//! Tests of `tables`.

#[test]
fn kinds_hold() {
    super::super::lexicon::verify(super::KINDS);
}
