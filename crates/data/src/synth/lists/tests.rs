//! Tests of `lists`.

#[test]
fn kinds_hold() {
    super::super::lexicon::verify(super::KINDS);
}
