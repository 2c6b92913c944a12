//! Tests of `composed`.

use super::*;
use crate::choice::DrafterChoice;
use gorgon_core::tree::{ChainTree, OwnTree};

fn composed(text: &str) -> Composed {
    match text.parse() {
        Ok(DrafterChoice::Composed(composed)) => composed,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn names_are_read_and_written() {
    for text in [
        "specinfer:one",
        "specinfer:one+a folder/two",
        "specinfer:one,with commas+two,expand=2,1,3",
        "cascade:one,then=none",
        "cascade:one,then=ngram:3",
        "cascade:one,then=ngram:3,ahead=5",
        "cascade:one,then=model:two,ahead=2,tail=3",
        "cascade:one,then=lookahead:3,4,5,window",
        "cascade:a,b,then=early-exit:2,tail=1",
        "ouroboros:one",
        "ouroboros:a,b,gamma=4,k=0,w=3,n=4,g=2",
        "partial:64,8,small=a folder",
        "partial:64,8,random,small=a,b,sinks=0,window=8,ahead=3",
    ] {
        assert_eq!(composed(text).to_string(), text);
    }
    assert_eq!(composed("multi:one+two"), composed("specinfer:one+two"));
    let name = composed("cascade:a,b=c,then=lookahead:3,4,5,window");
    assert_eq!(name.models(), [&PathBuf::from("a,b=c")]);
    let moved = composed("cascade:one,then=model:two").with_models(|model| Ok::<_, String>(model.join("model")));
    assert_eq!(moved.unwrap().to_string(), "cascade:one/model,then=model:two/model");
}

#[test]
fn a_small_model_goes_with_a_part() {
    assert!(matches!("partial:64,8".parse(), Ok(DrafterChoice::TrainingFree(_))));
    let name = composed("partial:64,8,small=one,window=32");
    assert_eq!(name.models(), [&PathBuf::from("one")]);
    assert_eq!(name.default_tree(), TreeChoice::Chain(ChainTree::new(6).unwrap()));
    assert!(name.check_tree(&TreeKind::Chain(4)).is_ok());
    assert!(name.check_tree(&TreeKind::Own(OwnTree::new(9, 4).unwrap())).unwrap_err().contains("chain:N"));
    for (wrong, words) in [
        ("partial:64,8,sinks=4", "small=DIR"),
        ("partial:64,8,small=", "small= is empty"),
        ("partial:8,64,small=one", "expected B,C"),
        ("partial:64,8,small=one,window=7", "window=7 is no whole number from 8"),
        ("partial:64,8,small=one,ahead=0", "ahead=0 is no whole number from 1 to 128"),
        ("partial:64,8,small=one,sinks=x", "sinks=x is no whole number"),
        ("partial:64,8,small=one,small=two", "small= is given twice"),
    ] {
        let message = wrong.parse::<DrafterChoice>().unwrap_err();
        assert!(message.contains(words), "{wrong}: {message}");
    }
}

#[test]
fn trees_are_those_that_can_be_drafted() {
    let two = composed("specinfer:one+two");
    assert_eq!(two.default_tree(), TreeChoice::Own(OwnTree::new(23, 5).unwrap()));
    assert_eq!(two.trees(), 2);
    assert!(two.check_tree(&TreeKind::Chain(4)).is_ok());
    for (nodes, depth, fits) in [(23, 5, true), (22, 5, false), (23, 4, false), (64, 8, true)] {
        assert_eq!(two.check_tree(&TreeKind::Own(OwnTree::new(nodes, depth).unwrap())).is_ok(), fits);
    }
    let wide = composed("specinfer:one,expand=2,2");
    assert_eq!(wide.default_tree(), TreeChoice::Own(OwnTree::new(7, 2).unwrap()));
    assert!(wide.check_tree(&TreeKind::Chain(4)).is_err(), "expand names the tree");
    let cascade = composed("cascade:one,then=ngram:3,tail=2");
    assert_eq!(cascade.default_tree(), TreeChoice::Chain(ChainTree::new(10).unwrap()));
    assert!(cascade.check_tree(&TreeKind::Chain(3)).is_ok());
    assert!(cascade.check_tree(&TreeKind::Chain(2)).is_err(), "the draft model drafts too");
    assert!(cascade.check_tree(&TreeKind::Own(OwnTree::new(9, 4).unwrap())).is_err());
    // A draft of 12 tokens and 3 phrases of 6.
    let ouroboros = composed("ouroboros:one");
    assert_eq!(ouroboros.default_tree(), TreeChoice::Own(OwnTree::new(31, 18).unwrap()));
    assert_eq!(ouroboros.trees(), 1);
    for (nodes, depth, fits) in [(31, 18, true), (30, 18, false), (31, 17, false), (64, 20, true)] {
        assert_eq!(ouroboros.check_tree(&TreeKind::Own(OwnTree::new(nodes, depth).unwrap())).is_ok(), fits);
    }
    assert!(ouroboros.check_tree(&TreeKind::Chain(12)).is_err());
}

#[test]
fn wrong_names_are_refused_in_one_line() {
    let many = ["m"; 9].join("+");
    let deep = vec!["1"; 129].join(",");
    for (text, word) in [
        ("ouroboros:", "folder"),
        ("ouroboros:one,gamma=0", "gamma=0"),
        ("ouroboros:one,n=1", "n=1"),
        ("ouroboros:one,k=x", "k=x"),
        ("ouroboros:one,w=128,n=128", "1024"),
        ("ouroboros:one,gamma=128,n=12", "139 drafts deep"),
        ("specinfer", "folders"),
        ("specinfer:", "folders"),
        ("specinfer:one+", "folders"),
        ("specinfer:one,expand=0", "expand=0"),
        ("specinfer:one,expand=", "expand="),
        ("specinfer:one,expand=2,x", "expand=x"),
        ("specinfer:one,expand=65", "expand=65"),
        ("specinfer:one,expand=64,64,64", "at most 4096"),
        ("specinfer:one,expand=1,expand=2", "twice"),
        ("specinfer:one+two,expand=64,60", "nodes"),
        (&format!("specinfer:{many}"), "9 draft models"),
        (&format!("specinfer:m,expand={deep}"), "deep"),
        ("cascade", "folder"),
        ("cascade:one", "then="),
        ("cascade:one,then=", "then="),
        ("cascade:one,then=medusa", "then=medusa"),
        ("cascade:one,then=cascade:two", "then=cascade"),
        ("cascade:one,then=model:", "then=model:"),
        ("cascade:one,then=ngram:99", "99"),
        ("cascade:one,then=ngram:2,ahead=0", "ahead=0"),
        ("cascade:one,then=ngram:2,ahead=1000", "ahead=1000"),
        ("cascade:one,then=ngram:2,tail=-1", "tail=-1"),
        ("cascade:one,then=none,ahead=2", "nothing"),
        ("cascade:one,then=none,tail=2", "nothing"),
        ("cascade:one,then=lookahead:3,3,3,tail=2", "own"),
        (",then=none", "no drafter"),
    ] {
        let error = text.parse::<DrafterChoice>().unwrap_err();
        assert!(error.contains(word) && !error.contains('\n'), "{text}: {error}");
    }
}
