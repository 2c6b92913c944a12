//! Answers in a batch are those of each sequence alone.

use crate::batch::talks::{END, TOKENS, Talks, alone, questions, rule, together};
use crate::every_drafter::{builders, drafters, eagle};
use gorgon_infer::{Batch, Drafts};

#[test]
fn plain_decoding_in_a_batch_is_plain_decoding() {
    let (decoder, all) = (eagle::decoder(), questions(20));
    for temperature in [0.0, 1.0] {
        let rule = rule(temperature);
        let want = alone(&decoder, None, &all, rule.as_ref());
        // Some answers end by themselves and others do not, or the test would say little.
        let ends = want.iter().flatten().filter(|answer| answer.last().is_some_and(|last| END.contains(last))).count();
        assert!(ends > 3 && ends < want.iter().flatten().count() - 3, "{ends}");
        for slots in [1, 3, 16] {
            let mut batch = Batch::new(&decoder, slots, TOKENS, None).unwrap();
            let (found, beyond) = together(&mut batch, &all, rule.as_ref());
            assert_eq!((found, beyond), (want.clone(), 0), "{slots} slots at temperature {temperature}");
        }
    }
}

#[test]
fn drafted_decoding_in_a_batch_is_that_of_each_sequence_alone() {
    let (decoder, all) = (eagle::decoder(), questions(8));
    for temperature in [0.0, 1.0] {
        let rule = rule(temperature);
        let plain = alone(&decoder, None, &all, rule.as_ref());
        for (name, drafter) in drafters(&decoder, temperature) {
            for builder in builders() {
                let drafts = Drafts { drafter: drafter.as_ref(), tree: builder.as_ref() };
                let want = alone(&decoder, Some(drafts), &all, rule.as_ref());
                assert_eq!(want, plain, "{name} changes text at temperature {temperature}");
                for slots in [3, 16] {
                    let mut batch = Batch::new(&decoder, slots, TOKENS, Some(drafts)).unwrap();
                    let (found, beyond) = together(&mut batch, &all, rule.as_ref());
                    assert_eq!(found, want, "{name}, {slots} slots at temperature {temperature}");
                    assert!(beyond > 0 || name != "model", "nothing was accepted");
                }
            }
        }
    }
}

/// Sequences that begin with one text read it once. Texts, and what is drafted, are as if each had read it.
#[test]
fn a_text_that_several_sequences_begin_with_is_read_once() {
    let decoder = eagle::decoder();
    let question: Vec<u32> = (0..40).map(|i| (i * i + 7) % 60).collect();
    let all = vec![vec![question.clone()]; 5];
    for temperature in [0.0, 1.0] {
        let rule = rule(temperature);
        for (name, drafter) in drafters(&decoder, temperature) {
            for builder in builders() {
                let drafts = Drafts { drafter: drafter.as_ref(), tree: builder.as_ref() };
                let served = |slots: usize| {
                    let mut talks = Talks::new(&all, slots);
                    let mut batch = Batch::new(&decoder, slots, TOKENS, Some(drafts)).unwrap();
                    batch.serve(rule.as_ref(), &mut talks).unwrap();
                    (talks.read, talks.answers, talks.accepted)
                };
                let (read, answers, accepted) = served(5);
                assert_eq!(read, question.len(), "{name}");
                assert_eq!(answers, alone(&decoder, Some(drafts), &all, rule.as_ref()), "{name} at {temperature}");
                // One slot begins each answer where the last one left the cache.
                assert_eq!(accepted, served(1).2, "{name} at {temperature}");
            }
        }
    }
}
