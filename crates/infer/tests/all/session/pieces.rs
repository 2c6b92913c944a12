//! Prompts that come in pieces.

use crate::every_drafter::{eagle, random_medusa};
use crate::session::kinds::{Sessions, go_on, limits, plain};
use gorgon_core::Token;
use gorgon_core::accept::Greedy;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::{FixedTree, TreeShape};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use gorgon_draft::fallback::FallbackDrafter;
use gorgon_draft::medusa::MedusaDrafter;
use gorgon_draft::oracle::OracleDrafter;
use gorgon_infer::{Generation, Method, Request, Session};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::PassOutput;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, PREFILL_CHUNK};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Makes a drafter.
type Make<'m> = &'m dyn Fn() -> Box<dyn Drafter>;

/// Shows a prompt that comes in pieces to another drafter at once.
struct AtOnce {
    inner: Box<dyn Drafter>,
    tokens: Vec<Token>,
    hidden: Vec<HiddenStates>,
    /// Pieces of the prompt that were seen.
    pieces: usize,
}

impl Drafter for AtOnce {
    fn name(&self) -> &str {
        "at once"
    }

    fn needs(&self) -> Needs {
        assert!(self.inner.needs().hooks.layers().is_empty());
        self.inner.needs()
    }

    fn reset(&mut self) {
        self.inner.reset();
        self.tokens.clear();
        self.hidden.clear();
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if pass.verified.is_some() {
            return self.inner.observe(pass);
        }
        self.tokens.extend(pass.tokens);
        self.hidden.push(pass.output.hidden.clone());
        self.pieces += 1;
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        if !self.tokens.is_empty() {
            let hidden = HiddenStates::concat(&std::mem::take(&mut self.hidden));
            let output = PassOutput { hidden, hooks: Default::default(), stream: None };
            let tokens = std::mem::take(&mut self.tokens);
            let rows: Vec<usize> = (0..tokens.len()).collect();
            self.inner.observe(VerifiedPass::prompt(&tokens, &output, &rows))?;
        }
        self.inner.draft(root, context)
    }
}

/// 40 tokens after a prompt that another drafter is shown at once.
fn read_at_once(decoder: &Arc<Decoder>, inner: Box<dyn Drafter>, tree: &FixedTree, prompt: &[Token]) -> Generation {
    let mut at_once = AtOnce { inner, tokens: vec![], hidden: vec![], pieces: 0 };
    let target = DecoderTarget::new(decoder.clone(), prompt.len() + 40, Hooks::none());
    let method = Method { tree, rule: &Greedy };
    let request = Request::new(prompt, &limits(40, &[]), SeededRandom::new(0));
    let go_on = &mut |_| ControlFlow::Continue(());
    let found = Session::new(target, &mut at_once).generate(method, request, go_on).unwrap();
    assert_eq!(at_once.pieces, prompt.len().div_ceil(PREFILL_CHUNK));
    found
}

/// A long prompt comes in pieces. What counts steps, or emitted tokens, counts none of them.
#[test]
fn wrappers_take_no_piece_of_a_prompt_for_a_step() {
    let shape = LlamaShape { max_positions: 4 * PREFILL_CHUNK, ..eagle::SHAPE };
    let dir = tempfile::tempdir().unwrap();
    shape.write(dir.path(), FloatFormat::F32, 3).unwrap();
    let decoder = Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
    let heads = Arc::new(random_medusa::model(&decoder, false, None));
    let medusa = || Box::new(MedusaDrafter::sharing(heads.clone())) as Box<dyn Drafter>;
    let tree = FixedTree::new(TreeShape::cartesian(&[2, 2, 1]).unwrap());
    for length in [2 * PREFILL_CHUNK + 40, 2 * PREFILL_CHUNK, PREFILL_CHUNK + 1, PREFILL_CHUNK, 9] {
        let prompt: Vec<Token> = (0..length).map(|i| (i * 37 + i / 7 + 11) as Token % 300).collect();
        let text = plain(&decoder, &prompt, 40);
        let oracle = |rates: &[f64]| {
            let mut oracle = OracleDrafter::new(medusa(), rates.to_vec(), 300, 7);
            oracle.reveal(text.clone());
            Box::new(oracle) as Box<dyn Drafter>
        };
        let wrappers: [(&str, Make<'_>); 4] = [
            ("fallback", &|| Box::new(FallbackDrafter::new(medusa(), 1.5))),
            ("fallback of drafts that pay", &|| Box::new(FallbackDrafter::new(oracle(&[0.6, 0.5]), 1.5))),
            ("oracle", &|| oracle(&[0.9, 0.8, 0.7])),
            ("oracle that is right", &|| oracle(&[1.0, 1.0, 1.0])),
        ];
        for (name, make) in wrappers {
            let run = |drafter: Box<dyn Drafter>| {
                let target = DecoderTarget::new(decoder.clone(), length + 40, Hooks::none());
                let mut session: Sessions = Session::new(target, drafter);
                go_on(&mut session, &tree, &Greedy, &prompt, &limits(40, &[]), 0).unwrap()
            };
            let want = read_at_once(&decoder, make(), &tree, &prompt);
            let found = run(make());
            assert_eq!((&found.ids, &want.ids), (&text, &text), "{name} after {length}");
            assert_eq!((&found.accepted, found.nodes), (&want.accepted, want.nodes), "{name} after {length}");
            match name {
                // Random heads may be right or not.
                "fallback" => {}
                "oracle that is right" => assert!(found.accepted.iter().rev().skip(1).all(|&n| n == 3)),
                _ => assert!(found.accepted.iter().sum::<usize>() > 0, "{name} after {length}"),
            }
        }
    }
}
