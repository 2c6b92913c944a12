//! Tests of `arithmetic`.

#[test]
fn kinds_hold() {
    super::super::lexicon::verify(super::KINDS);
}
