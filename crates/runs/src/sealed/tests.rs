//! Tests of `sealed`.

use super::*;
use serde_json::json;

#[test]
fn what_was_changed_is_seen() {
    let document = json!({"b": [1, 0.1 + 0.2, 1e-300, "text"], "a": {"z": null}});
    let text = serde_json::to_string_pretty(&seal(&document)).unwrap();
    let read = |text: &str| serde_json::from_str::<Value>(text).map(open);
    assert_eq!(read(&text).unwrap(), Ok(document.clone()));
    assert_eq!(seal(&seal(&document)), seal(&document));
    let (mut refused, mut same, mut broken) = (0, 0, 0);
    for at in 0..text.len() {
        for bit in 0..7 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            match String::from_utf8(bytes).ok().and_then(|text| read(&text).ok()) {
                None => broken += 1,
                Some(Err(_)) => refused += 1,
                // White space, or the name of the key that the hash stands under: what is told is what was written.
                Some(Ok(found)) => {
                    let told: Vec<_> = ["b", "a"].iter().map(|key| found.get(key)).collect();
                    assert_eq!(told, ["b", "a"].map(|key| document.get(key)), "{at} {bit}");
                    same += 1;
                }
            }
        }
    }
    assert!(refused > 300 && broken > 100 && same < 200, "{refused} {broken} {same}");
}

#[test]
fn what_has_no_hash_is_taken() {
    for document in [json!({"a": 1}), json!([1, 2]), json!(null)] {
        assert_eq!(open(document.clone()), Ok(document));
    }
    assert!(open(json!({"a": 1, "sha256": 3})).unwrap_err().to_string().contains("and 3 when"));
    assert_eq!(seal(&json!([1])), json!([1]));
}
