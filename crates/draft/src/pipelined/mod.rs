//! Predictive pipelined decoding (Yang et al., 2023, <https://arxiv.org/abs/2307.05908>): at layer `E`, guess the next
//! token, and begin the token after it for the `K` best guesses while the layers above are still at work.
//!
//! On one device all rows of a pass go through a layer together, so this is a tree of one level: the `K` most likely
//! tokens of an early exit after `E` layers. One of them is right or none is; a step emits two tokens at most.

use crate::drafter::Drafter;
use crate::early_exit::{EarlyExit, EarlyExitDrafter};
use crate::method::TrainingFreeMethod;
use gorgon_core::tree::{MAX_NODES, TreeChoice, TreeKind};
use gorgon_model::config::ModelConfig;

/// Predictive pipelined decoding, `pipelined:E,K`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipelined {
    /// Layers that guess.
    pub layers: usize,
    /// Guesses.
    pub guesses: usize,
}

impl TrainingFreeMethod for Pipelined {
    const SYNTAX: &'static str = "pipelined:E,K";

    fn parse(arguments: &str) -> Result<Self, String> {
        let numbers: Option<Vec<usize>> = arguments.split(',').map(|part| part.trim().parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[layers, guesses]) if layers > 0 && (1..MAX_NODES).contains(&guesses) => Ok(Self { layers, guesses }),
            _ => Err(format!(
                "pipelined:{arguments}: expected a number of layers, at least 1, and 1 to {} guesses",
                MAX_NODES - 1
            )),
        }
    }

    fn name(&self) -> String {
        format!("pipelined:{},{}", self.layers, self.guesses)
    }

    fn default_tree(&self) -> TreeChoice {
        TreeChoice::Trellis(Some((self.guesses + 1, 1)))
    }

    fn check(&self, model: &ModelConfig) -> Result<(), String> {
        EarlyExit { layers: self.layers }
            .check(model)
            .map_err(|_| format!("{}: the model has {} layers, and fewer have to guess", self.name(), model.layers))
    }

    fn check_tree(&self, tree: &TreeKind) -> Result<(), String> {
        match tree {
            TreeKind::Own(own) if own.depth() == 1 => Ok(()),
            _ => Err(format!("{}: its tree has one level: leave --tree out", self.name())),
        }
    }

    fn drafter(&self) -> Box<dyn Drafter> {
        Box::new(EarlyExitDrafter::named(self.name(), self.layers))
    }
}

#[cfg(test)]
mod tests;
