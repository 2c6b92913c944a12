//! Tests of `units`.

#[test]
fn kinds_hold() {
    super::super::lexicon::verify(super::KINDS);
}
