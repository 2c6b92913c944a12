//! Tests of `swift`: settings, the first set, the width of the path. The search needs a model:
//! `infer/tests/all/training_free`.

use super::*;

#[test]
fn settings_are_checked() {
    assert_eq!(Swift::parse(""), Ok(Swift { share: 45, seed: 0, state: None }));
    assert_eq!(Swift::parse("30"), Ok(Swift { share: 30, seed: 0, state: None }));
    let seeded = Swift::parse("30,seed=7").unwrap();
    assert_eq!(seeded.name(), "swift:30,seed=7");
    assert_eq!(seeded, Swift { share: 30, seed: 7, state: None });
    assert_eq!(Swift::parse("seed=7").unwrap().name(), "swift:45,seed=7");
    for wrong in ["0", "101", "x", "30,40,x", "30,seed=x", "30,", "30,state="] {
        assert!(Swift::parse(wrong).unwrap_err().starts_with(&format!("swift:{wrong}: expected")), "{wrong}");
    }
}

#[test]
fn the_first_set_is_every_second_layer() {
    let lists = |layers: usize, share: u8| Search::new(layers, share, 0).left_out().lists();
    // 2 · 0.45 · 30 = 27 sub-layers of 32 layers.
    let [attention, mlp] = lists(32, 45);
    assert_eq!((attention.len(), mlp.len()), (14, 13));
    assert_eq!(attention[..3], [1, 3, 5]);
    assert!(attention.iter().chain(&mlp).all(|&layer| layer > 0 && layer < 31));
    assert_eq!(lists(6, 45), [vec![1, 3], vec![1]]);
    assert_eq!(lists(5, 100), [vec![1, 2, 3], vec![1, 2, 3]]);
    assert!(Search::new(2, 100, 0).has_ended() && Search::new(3, 45, 0).has_ended());
    let places = |widths| [0.99, 0.9, 0.6, 0.5, 0.1, f64::NAN].map(|first| spine::width(widths, first));
    assert_eq!(places(&spine::GREEDY), [3, 5, 8, 10, 10, 10]);
    assert_eq!(places(&spine::SAMPLED), [1, 3, 5, 10, 10, 10]);
}

/// A stored search goes on; files of another search, and files that are none, are named.
#[test]
fn a_search_is_stored_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a, b.json");
    let arguments = format!("40,seed=3,state={}", path.display());
    let method = Swift::parse(&arguments).unwrap();
    assert_eq!((method.name(), method.seed), (format!("swift:{arguments}"), 3));
    assert_eq!(method.state.as_ref().unwrap().stored, None);
    let set = |attention: &[usize], mlp: &[usize]| Stored {
        weights_sha256: None,
        layers: 5,
        vocab_size: 300,
        share: 40,
        attention: attention.into(),
        mlp: mlp.into(),
        tries: 17,
        since_better: 4,
        ended: false,
    };
    let stored = set(&[3], &[1]);
    method.state.as_ref().unwrap().write(&stored);
    let again = Swift::parse(&arguments).unwrap();
    assert_eq!(again.state.as_ref().unwrap().stored.as_ref(), Some(&stored));
    let search = Search::resumed(&stored, 3);
    assert_eq!((search.left_out().lists(), search.tries(), search.has_ended()), ([vec![3], vec![1]], 17, false));
    assert_eq!(search.stored(300, 40), stored);
    assert_eq!(stored.check(5, 300, 40), Ok(()));
    assert!(stored.check(6, 300, 40).unwrap_err().contains("5 layers and 300 tokens; this one has 6"));
    assert!(stored.check(5, 300, 41).unwrap_err().contains("40 percent, not 41"));
    for wrong in [set(&[3, 1], &[1]), set(&[0], &[1]), set(&[4], &[1]), set(&[1, 1], &[]), set(&[usize::MAX], &[1])] {
        method.state.as_ref().unwrap().write(&wrong);
        let said = Swift::parse(&arguments).unwrap_err();
        assert!(said.contains("a, b.json") && said.contains("2 sub-layers"), "{said}");
    }
    let endless = Stored { layers: usize::MAX, share: 0, ..set(&[], &[]) };
    method.state.as_ref().unwrap().write(&endless);
    assert!(Swift::parse(&arguments).unwrap_err().contains("a, b.json"));
    std::fs::write(&path, "{\"layers\": 5}").unwrap();
    assert!(Swift::parse(&arguments).unwrap_err().contains("a, b.json: missing field"));
}

/// A file of other weights is refused by its name; one that says of none is taken, and says so from then on.
#[test]
fn a_search_is_of_some_weights() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("swift.json");
    let arguments = format!("40,state={}", path.display());
    let (ours, theirs) = ("a".repeat(64), "b".repeat(64));
    let old = r#"{"layers": 5, "vocab_size": 300, "share": 40, "attention": [3], "mlp": [1], "tries": 17,
                  "since_better": 4, "ended": false}"#;
    std::fs::write(&path, old).unwrap();
    let mut method = Swift::parse(&arguments).unwrap();
    assert_eq!((method.bind(&ours), method.is_of_weights()), (Ok(()), true));
    let stored = |method: &Swift| {
        let mut drafter = SwiftDrafter::new(method.clone());
        let known = drafter.stored.clone().unwrap();
        drafter.search = Some(Search::resumed(&known, 0));
        drafter.vocab_size = known.vocab_size;
        drop(drafter);
        Swift::parse(&arguments).unwrap()
    };
    let mut method = stored(&method);
    assert_eq!(method.state.as_ref().unwrap().weights().as_ref(), Some(&ours));
    let said = method.bind(&theirs).unwrap_err();
    assert!(said.contains("swift.json") && said.contains("other weights"), "{said}");
    // Whoever does not bind it leaves the hash as it is.
    assert_eq!(stored(&method).bind(&ours), Ok(()));
    assert!(!Swift::parse("40").unwrap().is_of_weights());
}
