//! Logits of another implementation at probes in trees.

use super::{load, probes};
use crate::shared;
use gorgon_core::Token;
use gorgon_core::tree::{NodeInput, TokenTree};
use gorgon_draft::format::ProbeKind;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::Decoder;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::{Inputs, PassPlan};
use gorgon_model::target::{DecoderTarget, Target};
use safetensors::SafeTensors;
use serde_json::Value;
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
