//! Tests of `recycle`.

use super::*;
use crate::coupled::CoupledTree;
use gorgon_core::accept::TargetRows;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::softmax;
use gorgon_core::tree::{Candidate, ChainTree, DraftTree, DynamicTree, FixedTree, TreeShape};
use gorgon_model::device::FloatFormat;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::{HookedStates, PassOutput};
use gorgon_model::random::LlamaShape;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const VOCAB: usize = 13;

/// Tells a drafter of a verified tree with these logits `[nodes · V]`, of which a path was committed.
fn observe(drafter: &mut RecycleDrafter, tree: &TokenTree, path: &[usize], logits: &[f32]) {
    observe_before(drafter, tree, (path, 0), logits);
}

/// As [`observe`], with the token behind the path.
fn observe_before(drafter: &mut RecycleDrafter, tree: &TokenTree, (path, next): (&[usize], Token), logits: &[f32]) {
    let hidden = HiddenStates::Host { values: vec![].into(), width: 1 };
    let output = PassOutput { hidden, hooks: HookedStates::new(), stream: None };
    let tokens: Vec<Token> = path.iter().map(|&node| tree.token(node)).collect();
    let target = Some(TargetRows::Logits { data: logits, vocab: logits.len() / tree.len() });
    let verified = Some(VerifiedTree { tree, path, next, target });
    drafter.observe(VerifiedPass { tokens: &tokens, output: &output, rows: path, verified, is_source: false }).unwrap();
}

fn successors(drafter: &RecycleDrafter, token: Token) -> Vec<Candidate> {
    drafter.table.after(token).collect()
}

/// The successors by sorting the whole row.
fn sorted(logits: &[f32], successors: usize) -> Vec<(Token, f64)> {
    let probabilities = softmax(logits, 1.0);
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
    order.into_iter().take(successors).map(|at| (at as Token, probabilities[at])).collect()
}

#[test]
fn the_table_is_the_last_row_of_each_token() {
    for seed in 0..30 {
        let mut random = SeededRandom::new(seed);
        let mut below = |limit: usize| (random.uniform() * limit as f64) as usize;
        let k = 1 + below(20);
        let (mut drafter, mut slow) = (RecycleDrafter::new(k), BTreeMap::new());
        for _ in 0..12 {
            let mut tree = TokenTree::root(below(VOCAB) as Token);
            for node in 1..1 + below(7) {
                tree.push(below(node), below(VOCAB) as Token);
            }
            let path = tree.path(below(tree.len()));
            let logits: Vec<f32> = (0..tree.len() * VOCAB).map(|_| below(9) as f32 - 4.0).collect();
            observe(&mut drafter, &tree, &path, &logits);
            let row = |node: usize| sorted(&logits[node * VOCAB..(node + 1) * VOCAB], k);
            let off = (0..tree.len()).filter(|node| !path.contains(node));
            for node in off.chain(path.iter().copied()) {
                slow.insert(tree.token(node), row(node));
            }
            for token in 0..VOCAB as Token {
                let want = slow.get(&token).cloned().unwrap_or_default();
                let found = successors(&drafter, token);
                let tokens = |row: &[(Token, f64)]| row.iter().map(|pair| pair.0).collect::<Vec<_>>();
                assert_eq!(found.iter().map(|one| one.token).collect::<Vec<_>>(), tokens(&want), "seed {seed}");
                let near = |(one, pair): (&Candidate, &(Token, f64))| (one.probability - pair.1).abs() < 1e-5;
                assert!(found.iter().zip(&want).all(near), "seed {seed}: {found:?}, {want:?}");
            }
        }
    }
}

#[test]
fn rows_that_are_no_distribution_are_left_out() {
    let mut drafter = RecycleDrafter::new(3);
    let tree = TokenTree::root(1);
    observe(&mut drafter, &tree, &[0], &[0.0, 2.0, 1.0, f32::NEG_INFINITY]);
    let want: Vec<Token> = vec![1, 2, 0];
    let tokens = |drafter: &RecycleDrafter| successors(drafter, 1).iter().map(|one| one.token).collect::<Vec<_>>();
    assert_eq!(tokens(&drafter), want);
    for wrong in [f32::NAN, f32::INFINITY] {
        observe(&mut drafter, &tree, &[0], &[0.0, wrong, 1.0, 5.0]);
        assert_eq!(tokens(&drafter), want);
    }
    observe(&mut drafter, &tree, &[0], &[f32::NEG_INFINITY; 4]);
    assert_eq!(tokens(&drafter), want);
    // Tokens that cannot follow are not drafted.
    observe(&mut drafter, &tree, &[0], &[f32::NEG_INFINITY, f32::NEG_INFINITY, 1.0, f32::NEG_INFINITY]);
    assert_eq!(tokens(&drafter), [2]);
    // A token outside the vocabulary has no row; a row of another vocabulary begins a new table.
    observe(&mut drafter, &TokenTree::root(9), &[0], &[1.0, 0.0, 0.0, 0.0]);
    assert!(successors(&drafter, 9).is_empty() && tokens(&drafter) == [2]);
    observe(&mut drafter, &TokenTree::root(0), &[0], &[0.0, 1.0]);
    assert_eq!((tokens(&drafter), successors(&drafter, 0).len()), (vec![], 2));
}

/// The logits of a target that knows the last token only.
fn markov(token: Token) -> Vec<f32> {
    (0..VOCAB).map(|next| ((token as usize * 5 + next * 7 + 3) % VOCAB) as f32).collect()
}

fn verify(drafter: &mut RecycleDrafter, draft: &DraftTree) -> usize {
    let tree = draft.tree();
    let logits: Vec<f32> = tree.tokens().iter().flat_map(|&token| markov(token)).collect();
    let target = TargetRows::Logits { data: &logits, vocab: VOCAB };
    let mut path = vec![0];
    while let Some(child) = {
        let last = path[path.len() - 1];
        tree.children(last).find(|&child| tree.token(child) == target.argmax(last).unwrap())
    } {
        path.push(child);
    }
    observe(drafter, tree, &path, &logits);
    path.len() - 1
}

#[test]
fn a_full_table_of_a_markov_target_drafts_its_text() {
    let trees: [&dyn TreeBuilder; 4] = [
        &ChainTree::new(6).unwrap(),
        &FixedTree::new(TreeShape::cartesian(&[3, 2, 2]).unwrap()),
        &DynamicTree::new(14, 3, 4).unwrap(),
        &OwnTree::new(9, 4).unwrap(),
    ];
    let mut drafter = RecycleDrafter::new(4);
    assert_eq!(drafter.propose(3, trees[0]).unwrap().draft.tree().len(), 1, "nothing is known yet");
    for token in 0..VOCAB as Token {
        verify(&mut drafter, &DraftTree::root(token));
    }
    drafter.reset();
    assert!(drafter.truncate(0), "the table is of no text");
    for tree in trees {
        for root in 0..VOCAB as Token {
            let proposal = drafter.propose(root, tree).unwrap();
            let deepest = proposal.draft.tree().max_depth();
            let accepted = verify(&mut drafter, &proposal.draft);
            assert!(deepest > 0 && accepted == deepest.min(tree.max_depth()), "{:?}: {accepted}", tree.kind());
        }
    }
}

#[test]
fn a_tree_beyond_what_is_known_is_smaller() {
    let mut drafter = RecycleDrafter::new(2);
    verify(&mut drafter, &DraftTree::root(3));
    let mut random = SeededRandom::new(0);
    let chain = ChainTree::new(5).unwrap();
    let mut context = DraftContext { tree: CoupledTree::plain(&chain), random: &mut random, target: None };
    let proposal = drafter.draft(3, &mut context).unwrap();
    assert_eq!(proposal.draft.tree().len(), 2);
    assert_eq!(drafter.draft(4, &mut context).unwrap().draft.tree().tokens(), [4]);
}

#[test]
fn arguments_are_checked() {
    assert_eq!(Recycle::parse(""), Ok(Recycle { successors: SUCCESSORS }));
    assert_eq!(Recycle::parse(" 32"), Ok(Recycle { successors: 32 }));
    assert_eq!(Recycle { successors: 5 }.name(), "recycle:5");
    for wrong in ["0", "33", "-1", "x", "8,4", " ", "99999999999999999999999"] {
        assert!(Recycle::parse(wrong).unwrap_err().starts_with(&format!("recycle:{wrong}: ")), "{wrong}");
    }
}

/// Eight bytes for each successor and one for each token, of a vocabulary that may have fewer successors than are kept.
#[test]
fn bytes_are_those_of_the_table() {
    let bytes = |successors, vocab_size| {
        let shape = LlamaShape {
            hidden_size: 16,
            intermediate_size: 24,
            layers: 1,
            heads: 2,
            kv_heads: 2,
            vocab_size,
            max_positions: 64,
        };
        let config = ModelConfig::from_json(&shape.config(FloatFormat::F32)).unwrap();
        Recycle { successors }.bytes(&config, &Compute::cpu(FloatFormat::F32), 100)
    };
    assert_eq!(bytes(8, 300), 300 * (8 * 8 + 1));
    assert_eq!(bytes(32, 5), 5 * (8 * 5 + 1));
}

/// Tokens of a chain whose next token has the probabilities that [`markov`]'s logits, halved, say.
fn sampled(length: usize) -> Vec<Token> {
    let mut random = SeededRandom::new(5);
    let mut text = vec![0];
    while text.len() < length {
        let probabilities = softmax(&halved(text[text.len() - 1]), 1.0);
        let mut left = random.uniform();
        let next = probabilities.iter().position(|p| {
            left -= p;
            left < 0.0
        });
        text.push(next.unwrap_or(VOCAB - 1) as Token);
    }
    text
}

fn halved(token: Token) -> Vec<f32> {
    markov(token).iter().map(|logit| logit / 2.0).collect()
}

/// Tokens per time of a drafter along a text whose steps with `n` nodes last `1 + cost·(n - 1)`, and the mean nodes.
fn along(
    text: &[Token],
    drafter: &mut RecycleDrafter,
    time: &AtomicU64,
    cost: f64,
    tree: &dyn TreeBuilder,
) -> [f64; 2] {
    let (mut at, mut spent, mut nodes, mut steps) = (0, 0.0, 0, 0);
    while at + 8 < text.len() {
        let draft = drafter.propose(text[at], tree).unwrap().draft;
        let (tree, mut path) = (draft.tree(), vec![0]);
        while let Some(child) =
            tree.children(path[path.len() - 1]).find(|&child| tree.token(child) == text[at + path.len()])
        {
            path.push(child);
        }
        let lasts = 1.0 + cost * (tree.len() - 1) as f64;
        (spent, nodes, steps) = (spent + lasts, nodes + tree.len(), steps + 1);
        time.fetch_add((1e6 * lasts) as u64, Ordering::Relaxed);
        let logits: Vec<f32> = tree.tokens().iter().flat_map(|&token| halved(token)).collect();
        at += path.len();
        observe_before(drafter, tree, (&path, text[at]), &logits);
    }
    [at as f64 / spent, f64::from(nodes as u32) / f64::from(steps)]
}

#[test]
fn trees_have_the_size_that_emits_most_tokens_in_a_time() {
    let text = sampled(8000);
    for cost in [0.0, 0.01, 0.05, 0.2, 1.0] {
        let time = Arc::new(AtomicU64::new(0));
        let fixed = [2, 4, 8, 16, 32, 64]
            .map(|nodes| along(&text, &mut RecycleDrafter::new(8), &time, cost, &OwnTree::new(nodes, 6).unwrap())[0]);
        let best = fixed.into_iter().fold(0.0, f64::max);
        let clock = time.clone();
        let clock: Clock = Box::new(move || Duration::from_micros(clock.load(Ordering::Relaxed)));
        let mut drafter = RecycleDrafter::new(8).timed_by(clock);
        let [rate, nodes] = along(&text, &mut drafter, &time, cost, &OwnTree::new(64, 6).unwrap());
        println!("{cost}: {fixed:?}, chosen {rate} with {nodes} nodes");
        assert!(rate > 0.95 * best, "{cost}: {rate} of {fixed:?}");
        assert!(cost > 0.0 || nodes > 40.0, "{nodes}");
        assert!(cost < 1.0 || nodes < 3.0, "{nodes}");
        // Other trees are drafted whole, and no budget is exceeded.
        let [_, chain] = along(&text[..400], &mut drafter, &time, cost, &ChainTree::new(5).unwrap());
        let [_, small] = along(&text[..400], &mut drafter, &time, cost, &OwnTree::new(5, 4).unwrap());
        assert!(chain == 6.0 && small <= 5.0, "{chain}, {small}");
    }
}
