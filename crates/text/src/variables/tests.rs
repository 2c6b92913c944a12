//! Tests of `variables`.

use super::*;

#[test]
fn variables_are_typed_as_toml_or_text() {
    for (text, value) in [("a=true", Value::from(true)), ("a=7", 7.into()), ("a=\"7\"", "7".into())] {
        assert_eq!(parse(text), Ok(("a".into(), value)));
    }
    assert_eq!(parse("effort=low").unwrap().1, Value::from("low"));
    for wrong in ["a", "=1", "1a=1", "a b=1", "messages=1", "bos_token=x", "a=[1]", "a={}", "a=null"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}
