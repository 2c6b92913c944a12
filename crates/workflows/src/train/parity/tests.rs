//! Tests of `parity`.

use super::*;

#[test]
fn the_same_is_the_same_in_everything() {
    let measured = |tau: f64, depths: &[f64]| json!({"tau": tau, "accepted_by_depth": depths});
    let one = measured(2.5, &[0.9, 0.6]);
    assert!(is_same(&one, &one.clone(), 0.0));
    assert!(is_same(&json!({"tau": 2.5}), &one, 0.0));
    assert!(!is_same(&one, &measured(2.5 + 1e-15, &[0.9, 0.6]), 0.0));
    assert!(is_same(&one, &measured(2.52, &[0.9, 0.6]), 0.02));
    assert!(!is_same(&one, &measured(2.5, &[0.9, 0.5]), 0.02));
    assert!(!is_same(&one, &measured(2.5, &[0.9]), 0.02));
    assert!(!is_same(&one, &Value::Null, 0.0));
    assert!(is_same(&Value::Null, &Value::Null, 0.0) && !is_same(&Value::Null, &one, 0.0));
}
