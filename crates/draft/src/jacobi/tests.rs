//! Tests of `jacobi`.

use super::*;
use crate::toy::{Toy, choose};

#[test]
fn the_true_continuation_takes_one_pass() {
    let prompt = [3, 1, 4];
    let m = 5;
    let mut toy = Toy::new(JacobiDrafter::new(m), &prompt);
    toy.step();
    // The guess is the truth now: what follows the text by plain decoding.
    let mut truth = toy.text.clone();
    (0..m).for_each(|_| truth.push(choose(&truth)));
    toy.drafter.guess = truth[toy.text.len()..].to_vec();
    assert_eq!(toy.step().emitted.len(), m + 1);
}

/// Guesses are what a slow definition says that runs every prefix of a guess on its own.
#[test]
fn guesses_are_the_choices_behind_every_prefix() {
    for m in [1, 2, 5, 16] {
        let mut toy = Toy::new(JacobiDrafter::new(m), &[7, 7, 2, 9]);
        let mut plain = toy.text.clone();
        for _ in 0..40 {
            let text = toy.text.clone();
            let step = toy.step();
            assert!(!step.emitted.is_empty(), "every pass emits a token");
            let guess = step.draft.tree().tokens()[1..].to_vec();
            assert_eq!(guess.len(), m);
            let choices: Vec<Token> = (0..=m).map(|i| choose(&[&text[..], &guess[..i]].concat())).collect();
            let accepted = guess.iter().zip(&choices).take_while(|(token, choice)| token == choice).count();
            assert_eq!(step.emitted, choices[..=accepted]);
            assert_eq!(toy.drafter.guess, choices[accepted + 1..]);
            step.emitted.iter().for_each(|_| plain.push(choose(&plain)));
            assert_eq!(toy.text, plain, "greedy text is plain decoding's");
        }
    }
}

#[test]
fn settings_are_checked() {
    assert_eq!(Jacobi::parse("16"), Ok(Jacobi { m: 16 }));
    for wrong in ["", "0", "257", "-1", "x"] {
        assert!(Jacobi::parse(wrong).unwrap_err().contains(wrong));
    }
}
