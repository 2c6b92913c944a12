//! Reference values of Medusa's acceptance and of its one-token draws, in single precision.

use std::fs;

use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, Coupled, DraftRows, Greedy, TargetRows, Typical, longest};
use gorgon_core::dist::{Row, Transform, typical_filter};
use gorgon_core::tree::TokenTree;
use safetensors::SafeTensors;
use serde_json::Value;

use crate::accept::settings::distance;
use crate::shared::shared;

/// A fixture's cases and the bytes of its tensors, or `None` if it is not there.
pub fn load(name: &str, test: &str) -> Option<(Vec<Value>, Vec<u8>)> {
    let json = fs::read_to_string(shared(&format!("fixtures/{name}.json"), test)?).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let tensors = fs::read(shared(&format!("fixtures/{name}.safetensors"), test)?).unwrap();
    Some((json["cases"].as_array().unwrap().clone(), tensors))
}

/// The shape and values of a float32 tensor.
pub fn floats(tensors: &SafeTensors<'_>, name: &str) -> (Vec<usize>, Vec<f32>) {
    let view = tensors.tensor(name).unwrap();
    assert_eq!(view.dtype(), safetensors::Dtype::F32);
    let value = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
    (view.shape().to_vec(), view.data().chunks_exact(4).map(value).collect())
}

/// The shape and values of an int64 tensor.
pub fn integers(tensors: &SafeTensors<'_>, name: &str) -> (Vec<usize>, Vec<i64>) {
    let view = tensors.tensor(name).unwrap();
    assert_eq!(view.dtype(), safetensors::Dtype::I64);
    let value = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap());
    (view.shape().to_vec(), view.data().chunks_exact(8).map(value).collect())
}

/// Candidate rows `[candidates, length]` with a logit row `[vocab]` at each of their positions.
struct Candidates {
    tokens: Vec<Vec<Token>>,
    logits: Vec<Vec<Vec<f32>>>,
    vocab: usize,
}

impl Candidates {
    fn read(tensors: &SafeTensors<'_>, id: &str) -> Self {
        let (shape, tokens) = integers(tensors, &format!("{id}.candidates"));
        let (logit_shape, logits) = floats(tensors, &format!("{id}.logits"));
        let vocab = logit_shape[2];
        // A negative entry pads its row and must match nothing.
        let drafted = |row: &[i64]| row.iter().map_while(|&token| Token::try_from(token).ok()).collect();
        Self {
            tokens: tokens.chunks(shape[1]).map(drafted).collect(),
            logits: logits.chunks(shape[1] * vocab).map(|r| r.chunks(vocab).map(<[f32]>::to_vec).collect()).collect(),
            vocab,
        }
    }

    /// Whether rows that share a prefix share its logits too, as they do when they come from one tree.
    fn is_tree(&self) -> bool {
        (0..self.tokens.len()).all(|a| {
            (0..a).all(|b| {
                let mut pairs = self.tokens[a].iter().zip(&self.tokens[b]);
                let shared = pairs.by_ref().take_while(|(a, b)| a == b).count();
                shared > 0 && self.logits[a][..shared] == self.logits[b][..shared]
            })
        })
    }

    /// The tree of the rows from `rows` merged by prefix, the target's logits `[nodes, vocab]`, and each row's nodes.
    fn merge(&self, rows: std::ops::Range<usize>) -> (TokenTree, Vec<f32>, Vec<Vec<usize>>) {
        let mut tree = TokenTree::root(self.tokens[rows.start][0]);
        let mut target = self.logits[rows.start][0].clone();
        let mut nodes = Vec::new();
        for row in rows {
            let mut path = vec![0];
            for (position, &token) in self.tokens[row].iter().enumerate().skip(1) {
                let parent = path[position - 1];
                let known = tree.children(parent).find(|&child| tree.token(child) == token);
                path.push(known.unwrap_or_else(|| {
                    target.extend_from_slice(&self.logits[row][position]);
                    tree.push(parent, token)
                }));
            }
            nodes.push(path);
        }
        (tree, target, nodes)
    }

    /// (best candidate, accepted drafts) of `rule` on the tree of all rows.
    fn on_tree(&self, rule: &dyn AcceptanceRule) -> (usize, usize) {
        let (tree, target, nodes) = self.merge(0..self.tokens.len());
        let target = TargetRows::Logits { data: &target, vocab: self.vocab };
        let path = rule.accept(&tree, DraftRows::NONE, target, &mut SeededRandom::new(0)).unwrap().path;
        let best = nodes.iter().position(|row| row.starts_with(&path)).unwrap();
        (best, path.len() - 1)
    }

    /// Row by row, for rows whose logits come from no tree. `score` is the log-probability of a draft.
    fn row_by_row(&self, rule: &dyn AcceptanceRule, score: &dyn Fn(&[f32], Token) -> f64) -> (usize, usize) {
        let mut candidates = Vec::new();
        for row in 0..self.tokens.len() {
            let (tree, target, _) = self.merge(row..row + 1);
            let target = TargetRows::Logits { data: &target, vocab: self.vocab };
            let accepted =
                rule.accept(&tree, DraftRows::NONE, target, &mut SeededRandom::new(0)).unwrap().path.len() - 1;
            let drafts = self.logits[row].iter().zip(&self.tokens[row][1..]).take(accepted);
            candidates.push((accepted, drafts.map(|(logits, &token)| score(logits, token)).sum()));
        }
        let best = longest(candidates.iter().copied());
        (best, candidates[best].0)
    }
}

#[test]
fn posterior() {
    let Some((cases, bytes)) = load("medusa/posterior", "posterior") else { return };
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        let number = |key: &str| case[key].as_f64().unwrap();
        let temperature = number("temperature");
        let transform = Transform::new(temperature, None, None).unwrap();
        let typical = Typical { epsilon: number("posterior_threshold"), delta: number("posterior_alpha"), transform };
        let nucleus = || Coupled { transform: Transform::new(temperature, None, Some(number("top_p"))).unwrap() };
        let (rule, is_scored): (Box<dyn AcceptanceRule>, bool) = match case["mode"].as_str().unwrap() {
            "greedy" => (Box::new(Greedy), false),
            "typical" => (Box::new(typical), true),
            "nucleus" => (Box::new(nucleus()), false),
            other => panic!("unknown mode {other}"),
        };
        let score = |logits: &[f32], token: Token| {
            if is_scored { typical.cut(Row::Logits(logits)).accepted(token).unwrap() } else { 0.0 }
        };
        let candidates = Candidates::read(&tensors, id);
        let index = |key: &str| case[key].as_u64().unwrap() as usize;
        let expected = (index("best_candidate"), index("accept_length"));
        assert_eq!(candidates.row_by_row(&*rule, &score), expected, "case {id}, row by row");
        if candidates.is_tree() {
            assert_eq!(candidates.on_tree(&*rule), expected, "case {id}, as a tree");
        }
    }
}

#[test]
fn one_token_distributions() {
    let Some((cases, bytes)) = load("medusa/one_token_distributions", "one_token_distributions") else { return };
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    for case in &cases {
        let id = format!("{:03}", case["id"].as_u64().unwrap());
        let number = |key: &str| case[key].as_f64().unwrap();
        let (_, logits) = floats(&tensors, &format!("{id}.logits"));
        let (_, expected) = floats(&tensors, &format!("{id}.probs"));
        let temperature = number("temperature");
        let p = match case["kind"].as_str().unwrap() {
            "nucleus" => Transform::new(temperature, None, Some(number("top_p"))).unwrap().apply(Row::Logits(&logits)),
            "typical" => {
                let p = Transform::new(temperature, None, None).unwrap().apply(Row::Logits(&logits));
                typical_filter(&p, number("posterior_threshold"), number("posterior_alpha"))
            }
            other => panic!("unknown kind {other}"),
        };
        let expected: Vec<f64> = expected.into_iter().map(f64::from).collect();
        assert!(distance(&p, &expected) < 1e-5, "case {id}");
        assert_eq!(p.iter().filter(|&&p| p > 0.0).count() as u64, case["kept"].as_u64().unwrap(), "case {id}");
    }
}
