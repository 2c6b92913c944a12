//! Several sequences at once: the weights are read once for the rows of all of them.
//!
//! Each sequence has a session of its own. A row sees its own sequence and its own tree's ancestors. On the CPU neither
//! a row nor a draft depends on which others it is computed with, so a text is the same whatever the batch.

use crate::error::DecodeError;
use crate::generate::{Feed, run};
use crate::launched::Launched;
use crate::pace::Pace;
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
    renew: Box<dyn Fn() -> Session + 'a>,
    pace: Option<Pace>,
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
        let decoder = decoder.clone();
        let renew = move || {
            let drafter = drafts.map_or_else(|| Box::new(NoDrafter) as Box<dyn Drafter>, |drafts| (drafts.drafter)());
            let hooks = if drafts.is_some() { drafter.needs().hooks } else { Hooks::none() };
            Session::new(DecoderTarget::new(decoder.clone(), context, hooks), drafter)
        };
        let mut sessions: Vec<Session> = (0..slots).map(|_| renew()).collect();
        if let [session, _, ..] = sessions.as_mut_slice()
            && session.needs().lends_target
        {
            let drafter = session.drafter().name().to_owned();
            return Err(DraftError::NotLent { drafter, place: "a batch" }.into());
        }
        let tree = drafts.map_or(&ChainTree::ROOT as &dyn TreeBuilder, |drafts| drafts.tree);
        Ok(Self { sessions, tree, renew: Box::new(renew), pace: None })
    }

    /// With trees chosen by what steps of as many sequences have taken so far. The text stays the same.
    pub fn paced(self, pace: Pace) -> Self {
        Self { pace: Some(pace), ..self }
    }

    /// Measured times of steps, where trees are chosen by them.
    pub fn pace(&self) -> Option<&Pace> {
        self.pace.as_ref()
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
        let (method, pace) = (Method { tree: self.tree, rule }, self.pace.as_mut());
        run(&mut Launched { sessions: &mut self.sessions, method, renew: Some(&*self.renew), pace, chunk: None }, feed)
    }
}
