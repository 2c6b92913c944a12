//! Tests of `choice`.

use super::*;

#[test]
fn every_form_parses_and_prints_back() {
    let forms = [
        "auto",
        "greedy",
        "coupled",
        "sampling",
        "block",
        "traversal",
        "k-seq",
        "typical:0.2,0.45",
        "lossy:0.25,1",
        "lossy:0.25,0.8",
        "lossy:0,balanced",
        "chow:0.5",
        "diff:0",
        "opt:1.5",
        "token-v1:0.1",
        "token-v2:1",
        "token-v3:0.3",
        "bild:0.6,5",
        "top-beta:3,1.5",
    ];
    for form in forms {
        let choice: RuleChoice = form.parse().unwrap();
        assert_eq!(choice.to_string(), form);
        let json = serde_json::to_string(&choice).unwrap();
        assert_eq!(serde_json::from_str::<RuleChoice>(&json).unwrap(), choice);
    }
    assert_eq!("typical".parse(), Ok(RuleChoice::Typical { epsilon: 0.09, delta: 0.3 }));
    assert_eq!("lossy:0.2".parse(), Ok(RuleChoice::Lossy { alpha: 0.2, beta: Beta::Fixed(1.0) }));
    assert_eq!("bild:0.6, 5".parse::<RuleChoice>().unwrap().fallback(), Some(0.6));
}

#[test]
fn errors_name_the_value_and_what_is_allowed() {
    let message = |text: &str| text.parse::<RuleChoice>().unwrap_err().to_string();
    assert!(message("gready").contains("'gready'") && message("").contains("token-v3:A"));
    for (text, part) in [
        ("greedy:1", "written greedy"),
        ("auto:", "written auto"),
        ("typical:0.1", "typical:EPSILON,DELTA"),
        ("typical:1.5,0.3", "epsilon = 1.5"),
        ("typical:0.1,-1", "delta = -1"),
        ("lossy", "lossy:ALPHA"),
        ("lossy:1", "alpha = 1"),
        ("lossy:0.2,0.7", "beta = 0.7"),
        ("lossy:0.2,x", "'x'"),
        ("chow:", "''"),
        ("chow:1.1", "alpha = 1.1"),
        ("opt:-1", "alpha = -1"),
        ("diff:0.1,2", "diff:A"),
        ("diff:NaN", "'NaN'"),
        ("bild:2,1", "threshold = 2"),
        ("bild:0.5", "bild:FB,RB"),
        ("bild:0.5,-1", "threshold = -1"),
        ("top-beta:0,1", "beta = 0"),
        ("top-beta:1.5,1", "a whole number"),
        ("top-beta:2,-1", "tau = -1"),
        ("opt:inf", "finite"),
        ("k-seq:2", "written k-seq"),
        ("block:1", "written block"),
        ("nucleus", "now called 'coupled'"),
    ] {
        assert!(message(text).contains(part), "{text}: {}", message(text));
    }
}

#[test]
fn names_resolve_by_temperature() {
    let warm = Transform::new(0.7, None, None).unwrap();
    assert_eq!(RuleChoice::Auto.resolve(&Transform::GREEDY), RuleChoice::Greedy);
    assert_eq!(RuleChoice::Auto.resolve(&warm), RuleChoice::Coupled);
    let is_lossless = |text: &str, transform| text.parse::<RuleChoice>().unwrap().rule(transform).is_lossless();
    for name in ["auto", "greedy", "coupled", "sampling", "block", "traversal", "k-seq"] {
        assert!(is_lossless(name, warm) && is_lossless(name, Transform::GREEDY));
    }
    for name in ["typical", "lossy:0.1", "chow:0.1", "token-v3:0.1", "bild:0.5,2", "top-beta:2,1"] {
        assert!(!is_lossless(name, warm) && !is_lossless(name, Transform::GREEDY));
    }
    assert!(is_lossless("lossy:0", warm) && !is_lossless("lossy:0,1.5", warm));
}

#[test]
fn drafts_are_taken_as_the_rule_compares_them() {
    let scheme = |rule: &str, temperature: f64| {
        let transform = Transform::new(temperature, None, None).unwrap();
        rule.parse::<RuleChoice>().unwrap().draft_scheme(&transform)
    };
    let drawn = |scheme| DraftScheme { scheme, rows: true, stop: None };
    for rule in ["sampling", "block", "traversal", "lossy:0.1"] {
        assert_eq!(scheme(rule, 0.7), drawn(SamplingScheme::WithoutReplacement), "{rule}");
        assert_eq!(scheme(rule, 0.0), DraftScheme::TOP_K, "{rule}");
    }
    assert_eq!(scheme("k-seq", 1.0), drawn(SamplingScheme::Independent));
    assert_eq!(scheme("k-seq", 0.0), DraftScheme::TOP_K);
    assert_eq!(scheme("chow:0.1", 1.0), drawn(SamplingScheme::WithoutReplacement));
    assert_eq!(scheme("chow:0.1", 0.0), drawn(SamplingScheme::Deterministic));
    for rule in ["auto", "greedy", "coupled", "typical", "top-beta:2,1"] {
        assert_eq!(scheme(rule, 0.7), DraftScheme::TOP_K, "{rule}");
    }
    for temperature in [0.0, 0.7] {
        assert_eq!(scheme("bild:0.4,2", temperature), DraftScheme { stop: Some(0.4), ..DraftScheme::TOP_K });
    }
}
