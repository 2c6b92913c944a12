//! Fitting probes: what they are compared with, what they see and where they stand, against another implementation.

use crate::probes::{Fixture, close, flat, soft_cases};
use crate::shared;

use gorgon_core::Token;
use gorgon_core::dist::Row as Distribution;
use gorgon_core::tree::{DraftTree, NodeInput};
use gorgon_draft::probes::{Arrangement, arranged};
use gorgon_model::target::read;
use serde_json::Value;

/// The continuations are those that the model itself takes, and the distributions that the loss compares with are its
/// own behind them.
#[test]
fn targets_are_the_fixtures() {
    let Some(root) = shared::shared("fixtures/probes", "probes") else { return };
    let fixture = Fixture::open(&root);
    let (ids, at) = (fixture.tokens("input_ids"), fixture.tokens("positions"));
    for (case, training, _) in soft_cases(&fixture) {
        let (places, vocab) = (training.shape.places, fixture.decoder.config().vocab_size);
        let (batch, want) = (fixture.batch(&training, case), fixture.floats(&format!("{case}.target_logits")));
        let continuation = fixture.tokens(&format!("{case}.continuation"));
        for (place, originals) in batch.originals.into_iter().enumerate() {
            let logits = read(fixture.lm_head.logits(originals));
            let want = want.chunks_exact(places * vocab).flat_map(|row| &row[place * vocab..][..vocab]);
            close(&logits, &want.copied().collect::<Vec<_>>(), (0.0, 1e-3), case);
        }
        for (&t, expected) in at.iter().zip(continuation.chunks_exact(places)) {
            let mut text = ids[..=t as usize].to_vec();
            for &token in expected {
                let (_, hidden) = fixture.states(&text);
                let logits = read(fixture.lm_head.logits(hidden.narrow(0, text.len() - 1, 1)));
                text.push(Distribution::Logits(&logits).argmax() as Token);
                assert_eq!(text.last(), Some(&token), "{case} behind {t}");
            }
        }
    }
}

/// True if one row of the attention mask sees another.
fn sees(expected: &Value, row: usize, other: usize) -> bool {
    expected["visible_among_probe_rows"][row].as_str().unwrap().as_bytes()[other] == b'1'
}

/// The tree of a step, as the drafter lays it out.
#[test]
fn probes_of_a_step_stand_as_in_the_fixtures() {
    let Some(root) = shared::shared("fixtures/probes", "probes") else { return };
    let fixture = Fixture::open(&root);
    for (case, training, expected) in soft_cases(&fixture) {
        let (shape, rows) = (training.shape, training.shape.rows());
        let how = Arrangement { gains: &vec![1.0; shape.places], members: shape.members, rows: 1 + rows, drops: true };
        let tree = arranged(&DraftTree::root(7), &how, |place, member| NodeInput::Embedding(shape.row(place, member)));
        let tree = tree.into_tree();
        let node = |row: usize| (0..tree.len()).find(|&node| tree.input(node) == NodeInput::Embedding(row)).unwrap();
        let offsets = expected["position_offsets"].as_array().unwrap();
        assert_eq!((tree.len(), offsets.len()), (1 + rows, rows));
        for (row, offset) in offsets.iter().enumerate() {
            assert_eq!(tree.depths()[node(row)] as u64, offset.as_u64().unwrap(), "{case}: row {row}");
            for other in 0..rows {
                let visible = tree.path(node(row)).contains(&node(other));
                assert_eq!(visible, sees(&expected, row, other), "{case}: row {row}, {other}");
            }
        }
    }
}

/// In a pass of a fitting, other values of a probe change the states of the places that see it, and no others.
#[test]
fn probes_of_a_fitting_see_as_in_the_fixtures() {
    let Some(root) = shared::shared("fixtures/probes", "probes") else { return };
    let fixture = Fixture::open(&root);
    for (case, training, expected) in soft_cases(&fixture) {
        let (shape, batch) = (training.shape, fixture.batch(&training, case));
        let (d, network, values) =
            (shape.hidden_size, fixture.network(&training), fixture.floats(&format!("{case}.P")));
        let states = |values: Vec<f32>| {
            let (hooks, probes) = (batch.hooks.clone().autodiff(), flat(values).autodiff());
            read(network.forward(&probes, &hooks, &batch.context, &batch.positions).inner())
        };
        let before = states(values.clone());
        for other in 0..shape.rows() {
            let mut changed = values.clone();
            changed[other * d..][..d].iter_mut().for_each(|value| *value += 0.5);
            for (i, (before, after)) in before.chunks_exact(d).zip(states(changed).chunks_exact(d)).enumerate() {
                let place = i % shape.places;
                let reached = (0..shape.members).any(|member| sees(&expected, shape.row(place, member), other));
                assert_eq!(before != after, reached, "{case}: place {place}, row {other}");
            }
        }
    }
}
