//! Tests of `scheme`.

use super::*;
use crate::accept::random::{SeededRandom, enumerate};

#[test]
fn children_follow_their_scheme() {
    let draft = [0.5, 0.0, 0.25, 0.25];
    assert_eq!(SamplingScheme::Deterministic.children(&draft, 4, &mut SeededRandom::new(0)), [0, 2, 3]);
    let pairs = enumerate(|random| SamplingScheme::WithoutReplacement.children(&draft, 2, random));
    let probability_of =
        |tokens: &[Token]| pairs.iter().filter(|(_, pair)| pair == tokens).map(|(p, _)| p).sum::<f64>();
    assert_eq!(probability_of(&[0, 2]), 0.25);
    assert_eq!(probability_of(&[2, 0]), 0.25 * (0.5 / 0.75));
    assert_eq!(probability_of(&[0, 0]), 0.0);
    assert_eq!(SamplingScheme::WithoutReplacement.children(&draft, 9, &mut SeededRandom::new(0)).len(), 3);
    assert_eq!(enumerate(|random| SamplingScheme::Independent.children(&draft, 2, random)).len(), 9);
}
