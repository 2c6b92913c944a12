//! Tests of `json`.

use super::*;
use serde_json::Value;

#[test]
fn a_key_that_is_there_twice_is_named() {
    for document in [r#"{"a": 1, "a": 1}"#, r#"[{"b": {"a": [], "c": 1, "\u0061": 2}}]"#] {
        let error = read::<Value>(document.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("the key \"a\" is there twice at line 1"), "{error}");
    }
}

#[test]
fn other_documents_are_read_as_ever() {
    let document = r#"{"a": {"a": [1, -2, 2.5e3, true, null, "ä\n"]}, "b": [{"a": 1}, {"a": 2}], "": {}}"#;
    let plain: Value = serde_json::from_str(document).unwrap();
    assert_eq!(read::<Value>(document.as_bytes()).unwrap(), plain);
    assert!(read::<Value>(b"{\"a\": }").is_err());
    assert!(read::<Vec<u8>>(b"{}").is_err());
    for nothing in [&b""[..], b" \n"] {
        assert_eq!(read::<Value>(nothing).unwrap_err().to_string(), "it is empty");
    }
}
