//! Greedy decoding that finds top tokens without all logits says what looking at all logits says: the same text,
//! drafts and accepted paths, alone and in a batch.

use crate::every_drafter;

use every_drafter::{eagle, hydra, mtp, random_medusa};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, DraftRows, Greedy, RandomSource, TargetError, TargetRows, Verdict};
use gorgon_core::tree::{
    BuildError, CandidateSource, DraftTree, FixedTree, TokenTree, TreeBuilder, TreeKind, TreeShape,
};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::eagle::EagleDrafter;
use gorgon_draft::hydra::HydraDrafter;
use gorgon_draft::medusa::MedusaDrafter;
use gorgon_draft::mtp::MtpDrafter;
use gorgon_infer::{Batch, DecodeError, Event, Feed, Generation, Limits, Method, Request, Session, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat, Products};
use gorgon_model::hooks::Hooks;
use gorgon_model::lm_head;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Enough weights in the LM head that a prefilter is made.
const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 64,
    intermediate_size: 96,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    vocab_size: 8200,
    max_positions: 128,
};
const PROMPT: [Token; 6] = [1, 700, 33, 8199, 5, 260];

/// Greedy acceptance that looks at all logits.
struct Looking;

impl AcceptanceRule for Looking {
    fn is_lossless(&self) -> bool {
        true
    }
    fn accept(
        &self,
        tree: &TokenTree,
        draft: DraftRows<'_>,
        target: TargetRows<'_>,
        random: &mut dyn RandomSource,
    ) -> Result<Verdict, TargetError> {
        Greedy.accept(tree, draft, target, random)
    }
}

/// A fixed tree that asks for probabilities.
struct Asking<'a>(&'a FixedTree);

impl TreeBuilder for Asking<'_> {
    fn max_nodes(&self) -> usize {
        self.0.max_nodes()
    }
    fn max_depth(&self) -> usize {
        self.0.max_depth()
    }
    fn kind(&self) -> TreeKind {
        self.0.kind()
    }
    fn build(&self, root: Token, source: &mut dyn CandidateSource) -> Result<DraftTree, BuildError> {
        self.0.build(root, source)
    }
}

/// Decoders of all kinds of weights. None where there are no prefilters, which is reported.
fn decoders() -> Vec<Arc<Decoder>> {
    let dir = tempfile::tempdir().unwrap();
    let formats = [FloatFormat::F32, FloatFormat::F16, FloatFormat::Bf16];
    let plain = formats.map(|format| Ok((format, Compute::cpu(format))));
    let feature_tokens = Compute::cpu(FloatFormat::Bf16).with_products(Products::Bf16);
    let mut found = vec![];
    for (format, compute) in
        plain.into_iter().chain([feature_tokens.map(|compute| (FloatFormat::Bf16, compute))]).flatten()
    {
        SHAPE.write(dir.path(), format, 3).unwrap();
        let decoder = Arc::new(Decoder::load(dir.path(), &compute).unwrap());
        let mut target = DecoderTarget::new(decoder.clone(), 128, Hooks::none());
        let hidden = target.prefill(&PROMPT).unwrap().hidden;
        if target.top_tokens(&hidden, &[1; PROMPT.len()]).is_none() {
            eprintln!("SKIPPED: no top tokens without all logits here");
            return vec![];
        }
        found.push(decoder);
    }
    found
}

fn limits() -> Limits {
    Limits { max_new_tokens: 40, end_tokens: vec![] }
}

fn plainly(decoder: &Arc<Decoder>, rule: &dyn AcceptanceRule, prompt: &[Token]) -> Vec<Token> {
    let mut target = DecoderTarget::new(decoder.clone(), 128, Hooks::none());
    let go_on = &mut |_| ControlFlow::Continue(());
    decode(&mut target, prompt, rule, &mut SeededRandom::new(0), &limits(), go_on).unwrap().ids
}

fn drafted(
    decoder: &Arc<Decoder>,
    drafter: &mut dyn Drafter,
    rule: &dyn AcceptanceRule,
    builder: &dyn TreeBuilder,
) -> Generation {
    let mut target = DecoderTarget::new(decoder.clone(), 128, drafter.needs().hooks);
    let random = &mut SeededRandom::new(0);
    Session::new(&mut target, drafter)
        .generate(Method { tree: builder, rule }, Request::new(&PROMPT, &limits(), random), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap()
}

#[test]
fn what_a_copy_takes_is_known_before_it_is_made() {
    for decoder in decoders() {
        let bytes = lm_head::prefilter_bytes_of(decoder.config(), decoder.compute());
        let made = decoder.lm_head().has_prefilter().then(|| decoder.lm_head().bytes_for_top_tokens());
        assert_eq!(bytes, made.unwrap_or(0) as u64, "{:?}", decoder.compute().precision());
    }
}

#[test]
fn plain_text_is_the_same() {
    for decoder in decoders() {
        for prompt in [&PROMPT[..], &[9], &[4000, 4001, 4002]] {
            let text = plainly(&decoder, &Greedy, prompt);
            assert_eq!(text, plainly(&decoder, &Looking, prompt), "{:?}", decoder.compute().precision());
            assert_eq!(text.len(), 40);
        }
    }
}

#[test]
fn drafts_and_paths_are_the_same() {
    let paths = [vec![0], vec![1], vec![3], vec![0, 0], vec![0, 2], vec![1, 0], vec![0, 0, 0], vec![0, 0, 1]];
    let tree = FixedTree::new(TreeShape::new(paths.to_vec()).unwrap());
    for decoder in decoders() {
        let mut drafters: Vec<Box<dyn Drafter>> = vec![
            Box::new(MedusaDrafter::new(random_medusa::model(&decoder, false, None))),
            Box::new(EagleDrafter::new(eagle::model(&decoder, true))),
            Box::new(MtpDrafter::sharing(Arc::new(mtp::model(&decoder, 2)))),
        ];
        for config in hydra::kinds() {
            drafters.push(Box::new(HydraDrafter::sharing(Arc::new(hydra::model(&decoder, config)))));
        }
        let plain = plainly(&decoder, &Looking, &PROMPT);
        for drafter in &mut drafters {
            let name = format!("{} in {}", drafter.name(), decoder.compute().precision());
            let prefiltered = drafted(&decoder, drafter.as_mut(), &Greedy, &tree);
            let looked = drafted(&decoder, drafter.as_mut(), &Looking, &Asking(&tree));
            assert_eq!((&prefiltered.ids, &prefiltered.accepted), (&looked.ids, &looked.accepted), "{name}");
            assert_eq!(prefiltered.ids, plain, "{name}");
            // One step's tree, token by token: few drafts of random heads are accepted.
            let mut proposed =
                |builder: &dyn TreeBuilder| drafter.propose(plain[39], builder).unwrap().draft.into_tree();
            assert_eq!(proposed(&tree), proposed(&Asking(&tree)), "{name}");
        }
    }
}

/// A request for each slot.
struct Each {
    prompts: Vec<Option<Vec<Token>>>,
    texts: Vec<Vec<Token>>,
}

impl Feed<'static> for Each {
    type Error = DecodeError;

    fn next(&mut self, slot: usize, _: usize) -> Result<Option<Request<'static>>, DecodeError> {
        Ok(self.prompts[slot].take().map(|prompt| Request::new(&prompt, &limits(), SeededRandom::new(0))))
    }

    fn event(&mut self, _: usize, _: Event) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn finished(&mut self, slot: usize, generation: Generation) -> Result<(), DecodeError> {
        self.texts[slot] = generation.ids;
        Ok(())
    }

    fn failed(&mut self, error: DecodeError) -> DecodeError {
        error
    }
}

#[test]
fn a_batch_says_the_same() {
    for decoder in decoders() {
        let prompts: Vec<Vec<Token>> = (0..5).map(|i| (0..=i).map(|j| 37 * i + 5 * j + 2).collect()).collect();
        let mut batch = Batch::new(&decoder, prompts.len(), 128, None).unwrap();
        let mut feed = Each { prompts: prompts.iter().cloned().map(Some).collect(), texts: vec![vec![]; 5] };
        batch.serve(&Greedy, &mut feed).unwrap();
        for (prompt, text) in prompts.iter().zip(feed.texts) {
            assert_eq!(text.len(), 40);
            assert_eq!(text, plainly(&decoder, &Looking, prompt));
        }
    }
}
