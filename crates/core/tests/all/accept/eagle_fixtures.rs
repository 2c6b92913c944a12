//! Reference values of EAGLE's stochastic verification of a tree, with given uniforms.

use gorgon_core::Token;
use gorgon_core::accept::random::Given;
use gorgon_core::accept::{AcceptanceRule, DraftRows, RandomSource, Sampling, TargetRows};
use gorgon_core::dist::{Transform, normalise};
use gorgon_core::tree::TokenTree;
use safetensors::SafeTensors;

use crate::accept::medusa_fixtures::{floats, integers, load};
use crate::accept::settings::distance;

/// The given uniforms for flips; the distribution of the bonus is noted and nothing drawn from it.
struct NotesBonus {
    flips: Given,
    bonus: Vec<f64>,
}

impl RandomSource for NotesBonus {
    fn flip(&mut self, probability: f64) -> bool {
        self.flips.flip(probability)
    }

    fn pick(&mut self, weights: &[f64]) -> usize {
        self.bonus = weights.to_vec();
        assert!(normalise(&mut self.bonus));
        0
    }
}

/// The tree whose nodes appear in the order in which the rows of `retrieve` (-1 pads) name them, which is the order in
/// which the reference tries siblings; and for each of its nodes the fixture's number.
fn tree_of(retrieve: &[i64], length: usize, tokens: &[Token], parents: &[i64]) -> (TokenTree, Vec<usize>) {
    let mut tree = TokenTree::root(tokens[0]);
    let mut numbers = vec![0];
    for row in retrieve.chunks(length) {
        for number in row.iter().skip(1).filter_map(|&number| usize::try_from(number).ok()) {
            if !numbers.contains(&number) {
                let parent = numbers.iter().position(|&known| known as i64 == parents[number]).unwrap();
                tree.push(parent, tokens[number]);
                numbers.push(number);
            }
        }
    }
    (tree, numbers)
}

#[test]
fn tree_posterior_sampled() {
    let Some((cases, bytes)) = load("eagle/tree_posterior_sampled", "tree_posterior_sampled") else { return };
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        let list = |key: &str| case[key].as_array().unwrap().iter().map(|v| v.as_i64().unwrap()).collect::<Vec<_>>();
        let index = |key: &str| case[key].as_u64().unwrap() as usize;
        let tokens: Vec<Token> = list("node_tokens").iter().map(|&token| Token::try_from(token).unwrap()).collect();
        let (shape, retrieve) = integers(&tensors, &format!("{id}.retrieve_indices"));
        let (tree, numbers) = tree_of(&retrieve, shape[1], &tokens, &list("parents"));
        let (logit_shape, logits) = floats(&tensors, &format!("{id}.node_logits"));
        let vocab = logit_shape[1];
        let target: Vec<f32> = numbers.iter().flat_map(|&number| logits[number * vocab..][..vocab].to_vec()).collect();

        let uniforms: Vec<f64> = case["uniforms"].as_array().unwrap().iter().map(|u| u.as_f64().unwrap()).collect();
        let mut random = NotesBonus { flips: Given::new(uniforms.clone()), bonus: Vec::new() };
        let transform = Transform::new(case["temperature"].as_f64().unwrap(), None, None).unwrap();
        let target = TargetRows::Logits { data: &target, vocab };
        let path = Sampling { transform }.accept(&tree, DraftRows::NONE, target, &mut random).unwrap().path;

        assert_eq!(random.flips.asked(), uniforms.len(), "case {id}: uniforms used");
        assert_eq!(path.len() - 1, index("accept_length"), "case {id}");
        let accepted: Vec<i64> = path.iter().map(|&node| i64::from(tree.token(node))).collect();
        assert_eq!(accepted, list("accepted_tokens"), "case {id}");
        let named: Vec<i64> = path.iter().map(|&node| numbers[node] as i64).collect();
        let best = retrieve.chunks(shape[1]).position(|row| row.starts_with(&named)).unwrap();
        assert_eq!(best, index("best_candidate"), "case {id}");
        let (_, expected) = floats(&tensors, &format!("{id}.sample_p"));
        let expected: Vec<f64> = expected.into_iter().map(f64::from).collect();
        assert!(distance(&random.bonus, &expected) < 1e-5, "case {id}");
    }
}
