//! Tests of `law`.

use super::*;

#[test]
fn rules_get_what_they_compare_with() {
    let law = |rule: &str, temperature: f64| {
        DraftSampling::of(rule.parse().unwrap(), Transform::new(temperature, None, None).unwrap())
    };
    for rule in ["sampling", "lossy:0.1"] {
        assert_eq!((law(rule, 0.7).children, law(rule, 0.7).rows), (SamplingScheme::WithoutReplacement, true));
        assert_eq!((law(rule, 0.0).children, law(rule, 0.0).rows), (SamplingScheme::Deterministic, false));
    }
    assert_eq!((law("k-seq", 1.0).children, law("k-seq", 1.0).rows), (SamplingScheme::Independent, true));
    assert_eq!((law("chow:0.1", 1.0).children, law("chow:0.1", 1.0).rows), (SamplingScheme::WithoutReplacement, true));
    assert_eq!((law("chow:0.1", 0.0).children, law("chow:0.1", 0.0).rows), (SamplingScheme::Deterministic, true));
    for rule in ["auto", "greedy", "coupled", "typical", "top-beta:2,1", "bild:0.4,2"] {
        assert_eq!((law(rule, 0.7).children, law(rule, 0.7).rows), (SamplingScheme::Deterministic, false), "{rule}");
    }
    assert_eq!((law("bild:0.4,2", 0.0).stop, law("greedy", 0.0).stop), (Some(0.4), None));
}
