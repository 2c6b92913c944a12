use super::*;

fn file(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("skip.json");
    std::fs::write(&path, text).unwrap();
    (folder, path.display().to_string())
}

#[test]
fn settings_are_checked() {
    let (_folder, path) = file(r#"{"attention": [1, 3], "mlp": [2]}"#);
    let skip = Skip::parse(&format!("{path},stop=50")).unwrap();
    assert_eq!((skip.stop, skip.sublayers.of(4).unwrap().count()), (Some(50), 3));
    assert_eq!(skip.sublayers.of(3).unwrap_err(), "layer 3 of a model with 3 layers, which are numbered from 0");
    for wrong in ["", ",stop=5"] {
        assert_eq!(Skip::parse(wrong).unwrap_err(), "skip: expected skip:FILE, a file of sub-layers to leave out");
    }
    assert!(Skip::parse(&format!("{path},stop=101")).unwrap_err().ends_with("stop is a number of percent, 0 to 100"));
    assert!(Skip::parse("missing.json").unwrap_err().starts_with("skip:missing.json: "));
}

#[test]
fn hostile_files_are_refused_in_one_line() {
    for text in
        ["", "[]", "{", "{\"attention\": [-1], \"mlp\": []}", "{\"attention\": [1], \"mlp\": [], \"x\": 1}", "{}"]
    {
        let (_folder, path) = file(text);
        let error = Skip::parse(&path).unwrap_err();
        assert!(error.starts_with(&format!("skip:{path}: ")) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn without_a_target_it_says_so() {
    let mut drafter = SkipDrafter::new("skip:f".into(), Sublayers::default(), None);
    let tree = ChainTree::new(2).unwrap();
    let error = drafter.propose(1, &tree).unwrap_err().to_string();
    assert!(error.starts_with("skip:f runs layers of the target itself"), "{error}");
}

/// The rule of the paper, step by step.
#[test]
fn the_threshold_follows_the_acceptance() {
    let [greedy, _] = THRESHOLDS;
    let mut threshold = Threshold::new(greedy);
    threshold.learn(0, 0, false);
    assert_eq!(threshold.value, greedy, "a step without drafts says nothing");
    threshold.learn(4, 0, true);
    assert!((threshold.acceptance - 0.45).abs() < 1e-12);
    assert!((threshold.value - (0.9 * 0.8 + 0.1 * 0.81)).abs() < 1e-12);
    let before = threshold.value;
    for _ in 0..10 {
        threshold.learn(4, 4, true);
    }
    let high = threshold.value;
    assert!(threshold.acceptance > 0.9 && high >= before);
    threshold.learn(3, 3, true);
    assert_eq!(threshold.value, 0.9 * high + 0.1 * high, "a full path keeps it");
    threshold.learn(3, 3, false);
    assert!(threshold.value < high, "a path that ended early, of right drafts, was ended too early");
}
