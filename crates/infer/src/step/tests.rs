//! Tests of `step`.

use super::*;
use gorgon_core::accept::Greedy;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::{
    Candidate, CandidateRows, CandidateSource, ChainTree, DraftTree, FixedTree, NodeInput, SourceError, TokenTree,
    TreeBuilder, TreeShape,
};
use gorgon_draft::drafter::NoDrafter;
use gorgon_draft::ngram::NgramDrafter;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::error::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::PlanError;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
use std::sync::Arc;

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 16,
    intermediate_size: 24,
    layers: 1,
    heads: 2,
    kv_heads: 1,
    vocab_size: 40,
    max_positions: 64,
};

/// A random model; a broken one has weights that are no numbers.
fn decoder(broken: bool) -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 3).unwrap();
    if broken {
        let path = dir.path().join("model.safetensors");
        let mut bytes = std::fs::read(&path).unwrap();
        let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[data..].chunks_exact_mut(4).for_each(|place| place.copy_from_slice(&f32::NAN.to_le_bytes()));
        std::fs::write(&path, bytes).unwrap();
    }
    Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap())
}

fn sessions<D: Drafter>(
    decoder: &Arc<Decoder>,
    count: usize,
    drafter: impl Fn() -> D,
) -> Vec<Session<DecoderTarget, D>> {
    let target = || DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
    (0..count).map(|_| Session::new(target(), drafter())).collect()
}

/// A step of the slots with their roots.
fn take_step<D: Drafter>(
    sessions: &mut [Session<DecoderTarget, D>],
    tree: &dyn TreeBuilder,
    slots: &[(usize, Token)],
    left: usize,
    end_tokens: &[Token],
) -> Result<Outcomes, DecodeError> {
    let mut random: Vec<SeededRandom> = slots.iter().map(|_| SeededRandom::new(0)).collect();
    let turns = slots.iter().zip(&mut random);
    let mut turns: Vec<Turn<'_>> = turns
        .map(|(&(slot, root), random)| Turn { slot, root, left, end_tokens, random, rule: None, drafts: true })
        .collect();
    step(sessions, &mut turns, Method { tree, rule: &Greedy }, &mut StepTimes::default())
}

fn lengths<D: Drafter>(sessions: &[Session<DecoderTarget, D>]) -> Vec<(usize, usize)> {
    sessions.iter().map(|session| (session.len(), session.target().len())).collect()
}

#[test]
fn turns_name_slots_that_there_are_once_and_in_order() {
    let decoder = decoder(false);
    let mut all = sessions(&decoder, 3, || NoDrafter);
    all.iter_mut().for_each(|session| drop(session.read(&[1, 2], 0).unwrap()));
    for slots in [&[1, 0][..], &[0, 2, 1], &[0, 0], &[2, 2], &[3], &[0, 3], &[]] {
        let turns: Vec<(usize, Token)> = slots.iter().map(|&slot| (slot, 5)).collect();
        let error = take_step(&mut all, &ChainTree::ROOT, &turns, 5, &[]).unwrap_err();
        let DecodeError::Turns { slots: named, count: 3 } = error else { panic!("{error}") };
        assert_eq!(named, slots);
        assert_eq!(lengths(&all), [(2, 2); 3]);
    }
    let outcomes = take_step(&mut all, &ChainTree::ROOT, &[(0, 5), (2, 5)], 5, &[]).unwrap();
    assert_eq!(outcomes.len(), 2);
    assert_eq!(lengths(&all), [(3, 3), (2, 2), (3, 3)]);
}

/// The error names the slot; nothing stays uncommitted, so the same step can be asked for again.
#[test]
fn scores_that_are_no_numbers_are_an_error() {
    let mut all = sessions(&decoder(true), 3, || NgramDrafter::new(2));
    all[1].read(&[1, 2, 1], 0).unwrap();
    for tree in [ChainTree::ROOT, ChainTree::new(2).unwrap()] {
        for (slots, wrong, at) in [(&[(1, 2), (2, 1)][..], 1, 4), (&[(2, 1)], 2, 1), (&[(1, 2)], 1, 4)] {
            for _ in 0..2 {
                let error = take_step(&mut all, &tree, slots, 5, &[]).unwrap_err();
                let DecodeError::NonFinite { slot, position } = error else { panic!("{error}") };
                assert_eq!((slot, position), (wrong, at));
                assert_eq!(lengths(&all), [(0, 0), (3, 3), (0, 0)]);
            }
        }
    }
}

/// Drafts given tokens.
struct Known(Vec<Token>);

impl Drafter for Known {
    fn name(&self) -> &str {
        "known"
    }

    fn reset(&mut self) {}

    fn observe(&mut self, _: VerifiedPass<'_>) -> Result<(), DraftError> {
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        Ok(Proposal::list(context.tree.build(root, self)?))
    }
}

impl CandidateSource for Known {
    /// A wrong token before each right one, so that paths have to be gathered.
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        assert!(widths.iter().all(|&width| width == 2));
        let rows = nodes.iter().map(|&node| {
            let right = self.0[tree.depths()[node]];
            let wrong = (right + 1) % SHAPE.vocab_size as Token;
            [wrong, right].map(|token| Candidate { token, probability: 0.5 }).to_vec()
        });
        Ok(rows.collect())
    }
}

/// Whatever is accepted, no more is read than is emitted: neither beyond an end token nor beyond the last token asked
/// for.
#[test]
fn what_is_cut_off_is_not_committed() {
    let decoder = decoder(false);
    let mut plain = sessions(&decoder, 1, || NoDrafter);
    plain[0].read(&[1, 2], 0).unwrap();
    let mut text: Vec<Token> = vec![5];
    for _ in 0..5 {
        let root = text[text.len() - 1];
        text.extend(&*take_step(&mut plain, &ChainTree::ROOT, &[(0, root)], 9, &[]).unwrap()[0].tokens);
    }
    // Both children of the root and of every second child.
    let paths = (0..4).flat_map(|depth| [0, 1].map(|rank| [vec![1; depth], vec![rank]].concat()));
    let tree = FixedTree::new(TreeShape::new(paths.collect()).unwrap());
    let ends: Vec<Option<Token>> = [None].into_iter().chain(text[1..].iter().copied().map(Some)).collect();
    for left in 1..=6 {
        for &end in &ends {
            let end_tokens: Vec<Token> = end.into_iter().collect();
            for count in [1, 2] {
                let mut all = sessions(&decoder, count, || Known(text[1..].to_vec()));
                all.iter_mut().for_each(|session| drop(session.read(&[1, 2], 0).unwrap()));
                let turns: Vec<(usize, Token)> = (0..count).map(|slot| (slot, 5)).collect();
                let outcomes = take_step(&mut all, &tree, &turns, left, &end_tokens).unwrap();
                let ended = text[1..].iter().position(|&token| Some(token) == end).map_or(5, |at| at + 1);
                let want = &text[1..=ended.min(left).min(5)];
                for outcome in &outcomes {
                    assert_eq!(
                        (outcome.tokens.as_slice(), outcome.accepted, outcome.nodes),
                        (want, 4, 9),
                        "{left} {end:?}"
                    );
                }
                assert_eq!(lengths(&all), vec![(2 + want.len(), 2 + want.len()); count], "{left} {end:?}");
            }
        }
    }
}

/// A token whose embedding probes read in these tests, behind another row of the table.
const PROBED: Token = 11;

/// Drafts a wrong token and two probes under the root, one below the other, and keeps the states of all rows of the
/// step.
struct Probing {
    probe: NodeInput,
    table: Option<Arc<HiddenStates>>,
    rows: Vec<f32>,
}

impl Probing {
    fn new(probe: NodeInput, table: Option<HiddenStates>) -> Self {
        Self { probe, table: table.map(Arc::new), rows: vec![] }
    }
}

impl Drafter for Probing {
    fn name(&self) -> &str {
        "probing"
    }

    fn reset(&mut self) {}

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if pass.verified.is_some() {
            self.rows = pass.output.hidden.on_host().unwrap().to_vec();
        }
        Ok(())
    }

    fn draft(&mut self, root: Token, _: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let mut draft = DraftTree::root(root);
        let child = draft.push(0, Candidate { token: 7, probability: 1.0 });
        let probe = draft.push_probe(0, self.probe);
        draft.push_probe(probe, self.probe);
        draft.push(child, Candidate { token: 8, probability: 1.0 });
        Ok(Proposal { probes: self.table.clone(), ..Proposal::list(draft) })
    }
}

fn embeddings(decoder: &Decoder, tokens: &[Token]) -> Option<HiddenStates> {
    Some(decoder.embed(tokens).unwrap())
}

/// The states of a step with these drafters, each behind a text of its own.
fn probed(decoder: &Arc<Decoder>, drafters: Vec<Probing>) -> Vec<f32> {
    let target = || DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
    let mut all: Vec<_> = drafters.into_iter().map(|drafter| Session::new(target(), drafter)).collect();
    let texts = [&[1, 2][..], &[3, 4, 9], &[6]];
    all.iter_mut().zip(texts).for_each(|(session, text)| drop(session.read(text, 0).unwrap()));
    let turns: Vec<(usize, Token)> = (0..all.len()).map(|slot| (slot, 5)).collect();
    let outcomes = take_step(&mut all, &ChainTree::ROOT, &turns, 9, &[]).unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.nodes == 5 && outcome.tokens.len() == outcome.accepted + 1));
    std::mem::take(&mut all[0].drafter().rows)
}

#[test]
fn a_probe_with_the_embedding_of_a_token_is_that_token() {
    let decoder = decoder(false);
    let token = || Probing::new(NodeInput::Token(PROBED), None);
    let embedding = || Probing::new(NodeInput::Embedding(1), embeddings(&decoder, &[3, PROBED]));
    let other = || Probing::new(NodeInput::Embedding(0), embeddings(&decoder, &[3, PROBED]));
    for count in 1..=3 {
        let plain = probed(&decoder, (0..count).map(|_| token()).collect());
        assert_eq!(plain.len(), count * 5 * SHAPE.hidden_size);
        assert_eq!(probed(&decoder, (0..count).map(|_| embedding()).collect()), plain, "{count}");
        // Sequences whose probes read embeddings share a pass with others.
        let mixed = |slot| if slot % 2 == 0 { embedding() } else { token() };
        assert_eq!(probed(&decoder, (0..count).map(mixed).collect()), plain, "{count}");
        assert_ne!(probed(&decoder, (0..count).map(|_| other()).collect()), plain, "the table is read");
    }
}

#[test]
fn probes_without_their_embeddings_are_an_error() {
    let decoder = decoder(false);
    for (count, failing) in [(1, 0), (2, 0), (2, 1)] {
        let target = || DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
        let probing = |slot: usize, table: Option<HiddenStates>| match slot == failing {
            true => Probing::new(NodeInput::Embedding(2), table),
            false => Probing::new(NodeInput::Token(PROBED), None),
        };
        for table in [None, embeddings(&decoder, &[3, PROBED])] {
            let session = |slot| Session::new(target(), probing(slot, table.clone()));
            let mut all: Vec<_> = (0..count).map(session).collect();
            all.iter_mut().for_each(|session| drop(session.read(&[1, 2], 0).unwrap()));
            let turns: Vec<(usize, Token)> = (0..count).map(|slot| (slot, 5)).collect();
            let error = take_step(&mut all, &ChainTree::ROOT, &turns, 9, &[]).unwrap_err();
            match (&table, error) {
                (None, DecodeError::Draft(DraftError::NoProbeTable { embedding: 2 })) => {}
                (Some(_), DecodeError::Model(ModelError::Plan(PlanError::Embedding { row: 2, .. }))) => {}
                (_, error) => panic!("{error}"),
            }
            assert_eq!(lengths(&all), vec![(2, 2); count]);
        }
    }
}
