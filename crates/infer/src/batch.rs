//! Several sequences at once: the weights are read once for the rows of all of them.
//!
//! Each sequence has a session of its own. A row sees its own sequence and its own tree's ancestors. On the CPU neither
//! a row nor a draft depends on which others it is computed with, so a text is the same whatever the batch.

use crate::error::DecodeError;
use crate::generate::{Feed, Launched, run};
use crate::session::{Method, Session};
use gorgon_core::accept::AcceptanceRule;
use gorgon_core::tree::{ChainTree, TreeBuilder};
use gorgon_draft::drafter::{DraftError, Drafter, NoDrafter};
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use std::sync::Arc;

/// Drafters, trees and rule of a batch.
#[derive(Clone, Copy)]
pub struct Drafts<'a> {
    /// Makes a drafter for a sequence. Drafters of one batch share their weights.
    pub drafter: &'a dyn Fn() -> Box<dyn Drafter>,
    /// Arranges drafts into trees.
    pub tree: &'a dyn TreeBuilder,
}

/// Sequences that are decoded together.
pub struct Batch<'a> {
    sessions: Vec<Session>,
    tree: &'a dyn TreeBuilder,
}

impl<'a> Batch<'a> {
    /// `slots` empty sequences of at most `context` tokens each, decoded with drafts or plainly.
    ///
    /// # Errors
    /// When the drafter runs layers of the target itself, which several sequences cannot do yet.
    pub fn new(
        decoder: &Arc<Decoder>,
        slots: usize,
        context: usize,
        drafts: Option<Drafts<'a>>,
    ) -> Result<Self, DecodeError> {
        let session = |_| {
            let drafter = drafts.map_or_else(|| Box::new(NoDrafter) as Box<dyn Drafter>, |drafts| (drafts.drafter)());
            let needs = drafter.needs();
            if needs.lends_target && slots > 1 {
                return Err(DraftError::NotLent { drafter: drafter.name().to_owned(), place: "a batch" }.into());
            }
            let hooks = if drafts.is_some() { needs.hooks } else { Hooks::none() };
            Ok(Session::new(DecoderTarget::new(decoder.clone(), context, hooks), drafter))
        };
        let sessions = (0..slots).map(session).collect::<Result<_, DecodeError>>()?;
        Ok(Self { sessions, tree: drafts.map_or(&ChainTree::ROOT, |drafts| drafts.tree) })
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.sessions.len()
    }

    /// The sequence in a slot.
    pub fn session(&mut self, slot: usize) -> &mut Session {
        &mut self.sessions[slot]
    }

    /// Serves a feed's requests until there are none left and all that were begun have ended.
    ///
    /// # Errors
    /// The feed's, or decoding's. No sequence has uncommitted rows then.
    pub fn serve<'r, E>(&mut self, rule: &dyn AcceptanceRule, feed: &mut dyn Feed<'r, Error = E>) -> Result<(), E> {
        run(&mut Launched { sessions: &mut self.sessions, method: Method { tree: self.tree, rule } }, feed)
    }
}
