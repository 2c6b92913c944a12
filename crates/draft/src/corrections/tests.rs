//! Tests of `corrections`.

use super::*;
use crate::ngram::NgramDrafter;
use crate::toy::{Toy, choose};
use std::sync::Mutex;

/// Tokens, which of them are the target's, and corrected positions.
type Text = (Vec<Token>, Vec<bool>, Vec<usize>);

#[derive(Default)]
struct Taken(Mutex<Vec<Text>>);

impl Corrections for Taken {
    fn take(&self, text: CorrectedText<'_>) {
        self.0.lock().unwrap().push((text.ids.to_vec(), text.own.to_vec(), text.corrected.to_vec()));
    }
}

/// Corrected positions are those whose token was drafted wrongly, by definition; the text is the same with and without.
#[test]
fn first_rejections_are_noted() {
    let taken = Arc::new(Taken::default());
    let prompt: Vec<Token> = vec![1, 4, 2, 8, 5];
    let mut toy = Toy::new(CorrectedDrafter::new(NgramDrafter::new(2), taken.clone()), &prompt);
    let mut plain = Toy::new(NgramDrafter::new(2), &prompt);
    let mut expected = vec![];
    for _ in 0..60 {
        let before = toy.text.len();
        let step = toy.step();
        assert_eq!(step.emitted, plain.step().emitted);
        let at = before + step.accepted;
        assert_eq!(toy.text[at], choose(&toy.text[..at]));
        let path = (0..step.accepted).fold(0, |node, i| {
            let tree = step.draft.tree();
            tree.children(node).find(|&child| tree.token(child) == toy.text[before + i]).unwrap()
        });
        if step.draft.tree().children(path).next().is_some() {
            expected.push(at);
        }
    }
    assert!(expected.len() > 3, "{expected:?}");
    let text = toy.text.clone();
    drop(toy);
    let taken = taken.0.lock().unwrap();
    assert_eq!(taken.len(), 1);
    let (ids, own, corrected) = &taken[0];
    assert_eq!(*corrected, expected);
    assert_eq!(*ids, text, "the last token was not read");
    assert!(corrected.iter().all(|&at| at < ids.len()));
    assert_eq!(*own, (0..ids.len()).map(|at| at + 1 >= prompt.len()).collect::<Vec<_>>(), "the root is the first");
}

/// A token that a prompt replaces is no correction: the text is the one that was read.
#[test]
fn a_prompt_takes_the_last_token_back() {
    let taken = Arc::new(Taken::default());
    let mut toy = Toy::new(CorrectedDrafter::new(NgramDrafter::new(2), taken.clone()), &[1, 4, 2, 8, 5]);
    while toy.drafter.corrected.last() != Some(&toy.drafter.text.len()) {
        toy.step();
    }
    let (noted, length) = (toy.drafter.corrected.clone(), toy.drafter.text.len());
    let output = crate::toy::nothing();
    toy.drafter.observe(VerifiedPass::prompt(&[toy.text[length] + 1, 3], &output, &[0, 1])).unwrap();
    drop(toy);
    let taken = taken.0.lock().unwrap();
    let (ids, own, corrected) = &taken[0];
    assert_eq!((ids.len(), own[length - 1], own[length]), (length + 2, true, false));
    assert_eq!(corrected[..], noted[..noted.len() - 1]);
}

/// A text that goes another way is handed over as it was; positions are handed over once.
#[test]
fn texts_are_handed_over_when_they_end() {
    let taken = Arc::new(Taken::default());
    let mut toy = Toy::new(CorrectedDrafter::new(NgramDrafter::new(2), taken.clone()), &[1, 4, 2, 8, 5]);
    (0..40).for_each(|_| drop(toy.step()));
    let length = toy.text.len() - 1;
    toy.drafter.truncate(length);
    assert!(taken.0.lock().unwrap().is_empty(), "nothing was dropped");
    toy.drafter.truncate(length - 2);
    let known = taken.0.lock().unwrap().clone();
    assert_eq!(known.len(), 1);
    toy.drafter.reset();
    toy.drafter.reset();
    drop(toy);
    assert_eq!(*taken.0.lock().unwrap(), known);
}
