//! Sessions with every kind of drafter.

use crate::composed::models;
use crate::every_drafter::{builders, drafters, eagle};
use crate::training_free::kinds::{and_skip, trees};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, Greedy};
use gorgon_core::tree::{ChainTree, TreeBuilder};
use gorgon_draft::drafter::{Drafter, NoDrafter};
use gorgon_infer::{DecodeError, Generation, Limits, Method, Request, Session, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
use std::ops::ControlFlow;
use std::sync::Arc;

pub const PROMPT: [Token; 7] = [256, 72, 105, 3, 72, 105, 9];
pub const NEW_TOKENS: usize = 13;

pub fn limits(max_new_tokens: usize, end_tokens: &[Token]) -> Limits {
    Limits { max_new_tokens, end_tokens: end_tokens.to_vec() }
}

pub type Sessions = Session<DecoderTarget, Box<dyn Drafter>>;

/// Decoders: plain, or with drafts in a tree.
pub struct Kind<'a> {
    pub name: &'a str,
    pub make: &'a dyn Fn() -> Box<dyn Drafter>,
    pub tree: &'a dyn TreeBuilder,
}

impl Kind<'_> {
    pub fn session(&self, decoder: &Arc<Decoder>, context: usize) -> Sessions {
        let drafter = (self.make)();
        Session::new(DecoderTarget::new(decoder.clone(), context, drafter.needs().hooks), drafter)
    }

    /// Sequences of a batch: one where layers of the target draft.
    pub fn slots(&self) -> usize {
        if (self.make)().needs().lends_target { 1 } else { 3 }
    }
}

/// Calls with plain decoding, and with every drafter and tree.
pub fn for_each_kind(decoder: &Arc<Decoder>, temperature: f64, check: impl Fn(&Kind<'_>)) {
    check(&Kind { name: "none", make: &|| Box::new(NoDrafter), tree: &ChainTree::ROOT });
    for (name, make) in drafters(decoder, temperature) {
        for tree in builders() {
            check(&Kind { name, make: make.as_ref(), tree: tree.as_ref() });
        }
    }
}

/// Drafters without weights of their own that keep more of a text than the text, or run layers of the target.
const TRAINING_FREE: &[&str] = &[
    "jacobi:5",
    "lookahead:4,3,3",
    "lookahead:5,5,4,window",
    "early-exit:2",
    "pipelined:1,3",
    "swift:50",
    "recycle:3",
    "partial:16,3",
];

/// A model with layers to leave out.
pub fn deep() -> Arc<Decoder> {
    models::decoder(LlamaShape { layers: 4, ..eagle::SHAPE }, 3)
}

/// As [`for_each_kind`], with drafters without weights of their own, in their own trees and some that they take.
pub fn for_each_training_free(check: impl Fn(&Kind<'_>)) {
    for method in and_skip(TRAINING_FREE) {
        for tree in trees(&method).into_iter().step_by(2) {
            check(&Kind { name: &method.to_string(), make: &|| method.drafter(), tree: tree.as_ref() });
        }
    }
}

/// A continuation, with chance of a seed.
pub fn go_on(
    session: &mut Sessions,
    tree: &dyn TreeBuilder,
    rule: &dyn AcceptanceRule,
    text: &[Token],
    limits: &Limits,
    seed: u64,
) -> Result<Generation, DecodeError> {
    let request = Request::new(text, limits, SeededRandom::new(seed));
    session.generate(Method { tree, rule }, request, &mut |_| ControlFlow::Continue(()))
}

pub fn plain(decoder: &Arc<Decoder>, prompt: &[Token], new: usize) -> Vec<Token> {
    let mut target = DecoderTarget::new(decoder.clone(), prompt.len() + new, Hooks::none());
    let observe = &mut |_| ControlFlow::Continue(());
    decode(&mut target, prompt, &Greedy, &mut SeededRandom::new(0), &limits(new, &[]), observe).unwrap().ids
}
