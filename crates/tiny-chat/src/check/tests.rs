//! Tests of `check`.

use super::*;

#[test]
fn numbers_are_the_last_ones() {
    let check = Check::number(91);
    for right in ["91", "The answer is 91.", "4 + 7 = 11, so it is 91 apples.", "91.0", "90-91"] {
        assert!(check.passes(right), "{right}");
    }
    for wrong in ["", "ninety-one", "19", "91 or 92", "-91", "it is -91.", "9 1", "191", "0.91", "91.5"] {
        assert!(!check.passes(wrong), "{wrong}");
    }
    assert!(Check::number(-3).passes("It is -3."));
    assert!(!Check::number(-3).passes("10-3"));
    assert!(Check::number("4.5").passes("about 4.5."));
    assert!(!Check::number("4.5").passes("4. 5"));
}

#[test]
fn lists_are_whole_and_in_order() {
    let check = Check::list(&["ant", "bear", "cat"]);
    let right =
        ["ant, bear, cat", "Sorted: Ant, Bear and Cat.", "Step: one\nSorted: ant, bear, and cat\n\n", "ant,bear,cat"];
    for right in right {
        assert!(check.passes(right), "{right}");
    }
    for wrong in ["", "ant, cat, bear", "ant, bear", "ant, bear, cat, dog", "ant bear cat", "ant, bear, cat\nDone."] {
        assert!(!check.passes(wrong), "{wrong}");
    }
}

#[test]
fn phrases_are_whole_words() {
    let check = Check::contains("8:00");
    assert!(check.passes("It opens at 8:00."));
    assert!(!check.passes("It opens at 18:00."));
    assert!(Check::contains("odd").passes("It is ODD"));
    assert!(!Check::contains("odd").passes("How oddly put."));
    let both = Check::Contains(vec!["2 hours".into(), "5 minutes".into()]);
    assert!(both.passes("5 minutes and 2 hours"));
    assert!(!both.passes("2 hours and 15 minutes"));
}

#[test]
fn exact_means_exact() {
    let check = Check::Exact("RED FOX".into());
    assert!(check.passes(" RED FOX\n"));
    assert!(!check.passes("red fox"));
    assert!(!check.passes("RED FOX."));
}

#[test]
fn of_several_the_one_named_last_counts() {
    let check = Check::choice("Rome", &["Oslo".to_owned(), "Rome".to_owned()]);
    for right in ["Rome", "I find Anna, Oslo, Rome, so it is rome.", "Not Oslo: Rome!"] {
        assert!(check.passes(right), "{right}");
    }
    for wrong in ["", "Paris", "Rome, not Oslo", "Oslo", "Romeo"] {
        assert!(!check.passes(wrong), "{wrong}");
    }
    assert_eq!(check, Check::Choice(vec!["Rome".into(), "Oslo".into()]));
}

#[test]
fn json_comes_back() {
    let checks = [
        Check::number(7),
        Check::list(&[1, 2]),
        Check::contains("it"),
        Check::Exact("a\nb".into()),
        Check::List(vec![]),
        Check::Choice(vec!["a".into()]),
    ];
    for check in checks {
        assert_eq!(Check::from_json(&check.to_json()), Some(check));
    }
    for bad in
        [json!(null), json!({}), json!({"number": 7}), json!({"list": [1]}), json!({"sum": "1"}), json!({"choice": []})]
    {
        assert_eq!(Check::from_json(&bad), None);
    }
}
