//! Tests of `handover`.

use super::*;
use crate::choice::DrafterChoice;
use crate::jacobi::JacobiDrafter;
use crate::suffix::{Suffix, SuffixDrafter};
use crate::toy::{Toy, choose};

fn suffix(least: usize) -> Box<dyn Drafter> {
    Box::new(SuffixDrafter::new(Suffix { store: None, least }))
}

fn jacobi() -> Box<dyn Drafter> {
    Box::new(JacobiDrafter::new(4))
}

fn both(least: usize) -> HandoverDrafter {
    HandoverDrafter::new(suffix(least), jacobi(), tree().unwrap())
}

/// Without a match that is long enough, steps are the other drafter's.
#[test]
fn an_infinite_threshold_is_the_other_drafter() {
    let (mut both, mut alone) = (Toy::new(both(usize::MAX), &[3, 1, 4]), Toy::new(jacobi(), &[3, 1, 4]));
    for _ in 0..60 {
        let (one, other) = (both.step(), alone.step());
        assert_eq!((one.draft, one.emitted), (other.draft, other.emitted));
    }
}

/// A drafter that never declines hands over only where nothing matches at all.
#[test]
fn the_first_drafts_where_it_matches() {
    for least in [1, 3, 5] {
        let mut both = Toy::new(both(least), &[3, 1, 4, 1, 5]);
        let mut plain = both.text.clone();
        let (mut first, mut other) = (0, 0);
        for _ in 0..80 {
            // One that drafts alone, and reads the same text.
            let mut alone = Toy::new(suffix(least), &both.text);
            let (draft, wanted) = (both.step(), alone.step().draft);
            match wanted.tree().len() > 1 {
                true => {
                    first += 1;
                    // Toy's trees are larger than the first drafter's.
                    assert!(draft.draft.tree().len() <= 40);
                    assert_eq!(draft.draft.tree().token(1), wanted.tree().token(1));
                }
                false => {
                    other += 1;
                    assert_eq!(draft.draft.tree().len(), 5, "a guess of four tokens");
                }
            }
            draft.emitted.iter().for_each(|_| plain.push(choose(&plain)));
            assert_eq!(both.text, plain);
        }
        assert!(first > 0 && other > 0, "{least}: {first} {other}");
    }
}

#[test]
fn names_are_read_and_written() {
    for name in ["suffix,else=jacobi:4", "suffix:a/b,c,below=7,else=ngram:3", "rest:x,else=suffix,below=2,else=auto"] {
        let choice: DrafterChoice = name.parse().unwrap();
        assert_eq!(choice.to_string(), name);
    }
    assert_eq!("suffix,below=5,else=ngram:2".parse::<DrafterChoice>().unwrap().to_string(), "suffix,else=ngram:2");
    for (wrong, words) in [
        ("jacobi:4,else=suffix", "jacobi:4 drafts in any case"),
        ("medusa,else=suffix", "\"medusa\" hands over to no other drafter"),
        ("suffix,else=nobody", "no drafter is called \"nobody\""),
        ("suffix,below=0,else=ngram:2", "below=0"),
        ("suffix,below=x,else=ngram:2", "below=x"),
    ] {
        let message = wrong.parse::<DrafterChoice>().unwrap_err();
        assert!(message.contains(words), "{wrong}: {message}");
    }
    assert!("suffix,else=eagle".parse::<DrafterChoice>().unwrap().needs_heads());
}
