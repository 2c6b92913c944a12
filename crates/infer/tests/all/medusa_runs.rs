//! Whole generations with Medusa heads, step by step, against another implementation.

use crate::shared;

use gorgon_core::Token;
use gorgon_core::accept::RuleChoice;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::Transform;
use gorgon_core::tree::{FixedTree, TreeShape};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::medusa::{MedusaDrafter, MedusaModel};
use gorgon_infer::{Generation, Limits, Method, Request, Session};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use serde_json::Value;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Writes down what another drafter proposes.
struct Recorder {
    inner: MedusaDrafter,
    trees: Vec<Vec<Token>>,
}

impl Drafter for Recorder {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn reset(&mut self) {
        self.inner.reset();
    }

    fn observe(&mut self, committed: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.inner.observe(committed)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let proposal = self.inner.draft(root, context)?;
        self.trees.push(proposal.draft.tree().tokens().to_vec());
        Ok(proposal)
    }
}

fn tokens(value: &Value) -> Vec<Token> {
    value.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as Token).collect()
}

/// Repeats a recorded run: what was generated, and the trees of all steps.
fn repeat(run: &Value, folder: &HeadsFolder, decoder: &Arc<Decoder>) -> (Generation, Vec<Vec<Token>>) {
    let builder = FixedTree::new(TreeShape::from_json(&run["tree_choices"].to_string()).unwrap());
    let choice: RuleChoice = if run["mode"] == "typical" { "typical" } else { "greedy" }.parse().unwrap();
    let transform = Transform::new(run["temperature"].as_f64().unwrap_or(0.0), None, None).unwrap();
    let rule = choice.rule(transform);
    let (prompt, output) = (tokens(&run["prompt"]), tokens(&run["output"]));
    let model = MedusaModel::load(folder, decoder.clone()).unwrap();
    let mut recorder = Recorder { inner: MedusaDrafter::new(model), trees: vec![] };
    let room = prompt.len() + output.len() + 1;
    let mut target = DecoderTarget::new(decoder.clone(), room, Hooks::none());
    let limits = Limits { max_new_tokens: output.len() + 1, end_tokens: vec![] };
    let generation = Session::new(&mut target, &mut recorder)
        .generate(
            Method { tree: &builder, rule: rule.as_ref() },
            Request::new(&prompt, &limits, &mut SeededRandom::new(0)),
            &mut |_| ControlFlow::Continue(()),
        )
        .unwrap();
    (generation, recorder.trees)
}

#[test]
fn recorded_generations_are_reproduced_step_by_step() {
    let test = "recorded_generations_are_reproduced_step_by_step";
    let Some(dir) = shared::shared("fixtures/medusa/run_llama_mha", test) else { return };
    let Some(backbone) = shared::shared("fixtures/backbones/llama_mha", test) else { return };
    let decoder = Arc::new(Decoder::load(&backbone, &Compute::cpu(FloatFormat::F32)).unwrap());
    let folder = HeadsFolder::open(&dir).unwrap();
    let expected: Value = serde_json::from_slice(&std::fs::read(dir.join("expected.json")).unwrap()).unwrap();
    let runs = expected["runs"].as_array().unwrap();
    assert!(!runs.is_empty());
    for run in runs {
        let name = run["name"].as_str().unwrap();
        let (generation, trees) = repeat(run, &folder, &decoder);
        // The recorded output leaves out the last step's bonus, which would be the next step's root.
        let output = tokens(&run["output"]);
        assert_eq!(generation.ids[..output.len()], output, "{name}");
        let steps = run["steps"].as_array().unwrap();
        assert_eq!(generation.accepted.len(), steps.len(), "{name}");
        for (i, step) in steps.iter().enumerate() {
            if let Some(tree) = step.get("tree_tokens") {
                assert_eq!(trees[i], tokens(tree), "{name} step {i}");
            }
            assert_eq!(generation.accepted[i], step["accept_length"].as_u64().unwrap() as usize, "{name} step {i}");
        }
    }
}
