//! Logits of another implementation at probes in trees, and the rows of SPACE's trees.

use super::decoding::{PROMPT, decoder, limits};
use super::{load, probes};
use crate::shared;
use gorgon_core::Token;
use gorgon_core::accept::Greedy;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::{ChainTree, NodeInput, TokenTree};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use gorgon_draft::format::ProbeKind;
use gorgon_draft::probes::ProbeDrafter;
use gorgon_infer::{Method, Request, Session};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::Decoder;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::{Inputs, PassPlan};
use gorgon_model::target::{DecoderTarget, Target};
use safetensors::SafeTensors;
use serde_json::Value;
use std::ops::ControlFlow;
use std::sync::Arc;

struct Fixture {
    bytes: Vec<u8>,
    json: Value,
    decoder: Arc<Decoder>,
}

impl Fixture {
    fn open() -> Option<Self> {
        let root = shared::shared("fixtures/probes", "probes")?;
        Some(Self {
            bytes: std::fs::read(root.join("probes.safetensors")).unwrap(),
            json: serde_json::from_slice(&std::fs::read(root.join("probes.json")).unwrap()).unwrap(),
            decoder: load(&root.join("model")),
        })
    }

    fn data(&self, name: &str) -> Vec<u8> {
        SafeTensors::deserialize(&self.bytes).unwrap().tensor(name).unwrap().data().to_vec()
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        self.data(name).chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    fn tokens(&self, name: &str) -> Vec<Token> {
        self.data(name).chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as Token).collect()
    }

    /// States after the final norm at the nodes of a tree behind a prefix, with a table of embeddings.
    fn verify(&self, prefix: &[Token], tree: &TokenTree, table: &HiddenStates) -> HiddenStates {
        let mut target = DecoderTarget::new(self.decoder.clone(), 128, Hooks::none());
        if !prefix.is_empty() {
            target.extend(prefix).unwrap();
        }
        let rows: Vec<NodeInput> = (0..tree.len()).map(|node| tree.input(node)).collect();
        let mask = AttentionMask::in_tree(tree.parents());
        let inputs = Inputs::Rows { rows: &rows, table };
        target.verify(&PassPlan { inputs, ..PassPlan::of_tokens(tree.tokens(), &mask) }).unwrap().hidden
    }

    fn logits(&self, states: &HiddenStates) -> Vec<f32> {
        self.decoder.logits(states).into_vec()
    }
}

fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
}

fn close(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let worst = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-3, "{what}: {worst}");
}

#[test]
fn probes_of_an_ensemble_are_the_fixtures() {
    let Some(fixture) = Fixture::open() else { return };
    let (ids, d) = (fixture.tokens("input_ids"), fixture.decoder.config().hidden_size);
    for (case, members) in [("ppd_e1", 1), ("ppd_e2", 2)] {
        let values = fixture.floats(&format!("{case}.P"));
        let places = values.len() / d / members;
        let model = probes(&fixture.decoder, (ProbeKind::Ppd, places, members, false), values);
        let mut logits = vec![];
        for t in fixture.tokens("positions") {
            let t = t as usize;
            let mut tree = TokenTree::root(ids[t]);
            for member in 0..members {
                let input = |place| NodeInput::Embedding(model.shape().row(place, member));
                (0..places).fold(0, |above, place| tree.push_probe(above, input(place)));
            }
            let states = fixture.verify(&ids[..t], &tree, model.table());
            let probed = model.mean(states.narrow(1, places * members));
            logits.extend_from_slice(&model.logits(&probed));
        }
        close(&logits, &fixture.floats(&format!("{case}.logits")), case);
    }
}

#[test]
fn probes_in_a_tree_are_the_fixtures() {
    let Some(fixture) = Fixture::open() else { return };
    let (ids, json, d) = (fixture.tokens("input_ids"), &fixture.json["tree"], fixture.decoder.config().hidden_size);
    let tokens = fixture.tokens("tree.tokens");
    let (parents, carried) = (numbers(&json["parents"]), numbers(&json["probes_carried"]));
    let mut tree = TokenTree::root(tokens[0]);
    for (node, &token) in tokens.iter().enumerate().skip(1) {
        tree.push(parents[node] as usize, token);
    }
    for (node, &count) in carried.iter().enumerate() {
        (0..count as usize).fold(node, |above, place| tree.push_probe(above, NodeInput::Embedding(place)));
    }
    let table = HiddenStates::Host { values: fixture.floats("tree.P").into(), width: d };
    let states = fixture.verify(&ids[..json["prefix_length"].as_u64().unwrap() as usize], &tree, &table);
    let nodes = tokens.len();
    close(&fixture.logits(&states.narrow(0, nodes)), &fixture.floats("tree.node_logits"), "nodes");
    let probed = states.narrow(nodes, states.rows() - nodes);
    close(&fixture.logits(&probed), &fixture.floats("tree.probe_logits"), "probes");
}

/// SPACE's chain of candidates with masks behind each of them is a tree with probes.
#[test]
fn masks_behind_a_chain_are_the_fixtures() {
    let Some(fixture) = Fixture::open() else { return };
    let ids = fixture.tokens("input_ids");
    for case in fixture.json["space"].as_array().unwrap() {
        let k = case["k"].as_u64().unwrap() as usize;
        let mask_id = case["mask_id"].as_u64().unwrap() as Token;
        let table = fixture.decoder.embed(&[mask_id]).unwrap();
        let mut tree = TokenTree::root(case["root"].as_u64().unwrap() as Token);
        let mut last = 0;
        for token in [None].into_iter().chain(numbers(&case["candidates"]).into_iter().map(Some)) {
            if let Some(token) = token {
                last = tree.push(last, token as Token);
            }
            (0..k).fold(last, |above, _| tree.push_probe(above, NodeInput::Embedding(0)));
        }
        let offsets: Vec<i64> = tree.depths().iter().map(|&depth| depth as i64).collect();
        assert_eq!(offsets, numbers(&case["position_offsets"]));
        let sees = |row: usize, other: usize| tree.path(row).contains(&other);
        let rows: Vec<String> = (0..tree.len())
            .map(|row| (0..tree.len()).map(|other| if sees(row, other) { '1' } else { '0' }).collect())
            .collect();
        let visible: Vec<&str> = case["visible"].as_array().unwrap().iter().map(|row| row.as_str().unwrap()).collect();
        assert_eq!(rows, visible);
        let prefix = &ids[..case["prefix_length"].as_u64().unwrap() as usize];
        let states = fixture.verify(prefix, &tree, &table);
        close(&fixture.logits(&states), &fixture.floats(&format!("space_k{k}.logits")), "space");
    }
}

/// Probes, and the trees that they drafted.
struct Kept {
    inner: ProbeDrafter,
    trees: Vec<TokenTree>,
}

impl Drafter for Kept {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn reset(&mut self) {
        self.inner.reset();
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.inner.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let proposal = self.inner.draft(root, context)?;
        self.trees.push(proposal.draft.tree().clone());
        Ok(proposal)
    }
}

/// A tree of SPACE by its definition: the root, `k` masks, the first candidate, `k` masks and so on, `(k + 1)²` rows. A
/// candidate sees those before it, and a mask sees what its candidate sees and the masks before it in its group.
fn is_space(tree: &TokenTree, k: usize) {
    assert_eq!(tree.len(), (k + 1) * (k + 1));
    // The number of a row's group, and its place in there; the candidate is in place 0.
    let place = |row: usize| (row / (k + 1), row % (k + 1));
    let sees = |row: usize, other: usize| match (place(row), place(other)) {
        ((group, _), (others, 0)) => others <= group,
        ((group, mask), (others, before)) => others == group && before <= mask,
    };
    let mask = AttentionMask::in_tree(tree.parents());
    assert_eq!(mask.rows(), tree.len());
    for row in 0..tree.len() {
        let want: Vec<usize> = (0..tree.len()).filter(|&other| sees(row, other)).collect();
        let seen: Vec<usize> = (0..mask.count(row)).map(|index| mask.nth(row, index)).collect();
        assert_eq!(seen, want, "row {row} of k = {k}");
        let (group, mask) = place(row);
        assert_eq!((tree.depths()[row], tree.is_probe(row)), (group + mask, mask > 0), "row {row} of k = {k}");
        // One embedding stands in all places.
        assert!(mask == 0 || tree.input(row) == NodeInput::Embedding(0), "row {row} of k = {k}");
    }
}

/// Behind the step that looks ahead, every step of decoding has the rows of the definition.
#[test]
fn rows_of_a_step_are_those_of_the_definition() {
    let decoder = decoder();
    for k in 1..=7 {
        let values = vec![0.1; decoder.config().hidden_size];
        let model = probes(&decoder, (ProbeKind::Space, k, 1, false), values);
        let mut drafter = Kept { inner: ProbeDrafter::new(model), trees: vec![] };
        let mut target = DecoderTarget::new(decoder.clone(), 96, drafter.needs().hooks);
        let (tree, limits, random) = (ChainTree::new(k).unwrap(), limits(12), &mut SeededRandom::new(1));
        Session::new(&mut target, &mut drafter)
            .generate(Method { tree: &tree, rule: &Greedy }, Request::new(&PROMPT, &limits, random), &mut |_| {
                ControlFlow::Continue(())
            })
            .unwrap();
        let [first, others @ ..] = &drafter.trees[..] else { panic!("no step") };
        assert_eq!((first.len(), first.probes()), (k + 1, k));
        assert!(!others.is_empty());
        others.iter().for_each(|tree| is_space(tree, k));
    }
}
