//! The real thing in an evaluation: held-out prompts, decoded with the heads by the decoder that ships.

use super::HeadFitting;
use crate::checkpoint;
use crate::error::{TrainError, io};
use crate::parameters::Parameter;
use gorgon_core::accept::draws::Seeded;
use gorgon_core::accept::{AcceptanceRule, Greedy};
use gorgon_core::tree::{FixedTree, PublishedTree, TreeBuilder};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::medusa::{MedusaDrafter, MedusaModel};
use gorgon_infer::{Limits, Stepper, decode_with};
use gorgon_model::taps::Taps;
use gorgon_model::target::Target;
use std::ops::ControlFlow;

impl HeadFitting {
    /// Mean tokens per step over the first held-out prompts, greedy, with the tree `mc_sim_7b_63`; `None` where no prompt
    /// leaves room for a step.
    pub(super) fn decode(&self, parameters: &[Parameter]) -> Result<Option<f64>, TrainError> {
        let wrong = |error: &dyn std::fmt::Display| TrainError::Data(error.to_string());
        let decoder = &self.features.decoder;
        // Through files, as a user's heads come: what is measured is what will be loaded.
        let folder = tempfile::tempdir().map_err(|error| wrong(&error))?;
        checkpoint::write_parameters(folder.path(), parameters)?;
        let path = folder.path().join("config.json");
        let document = self.heads.config.document(self.heads.hidden_size, self.heads.vocab_size, &self.base);
        std::fs::write(&path, document.to_string()).map_err(io(&path))?;
        let heads = HeadsFolder::open(folder.path()).map_err(|error| wrong(&error))?;
        let model = MedusaModel::load(&heads, decoder.clone()).map_err(|error| wrong(&error))?;
        let mut drafter = MedusaDrafter::new(model);
        let published: PublishedTree = "mc_sim_7b_63".parse().map_err(|error| wrong(&error))?;
        let builder = FixedTree::new(published.shape().clone());
        let context = decoder.config().max_positions;
        let limits = Limits { max_new_tokens: self.decoded_tokens, end_tokens: decoder.config().eos_tokens.clone() };
        let mut target = Target::with_trees(decoder.clone(), context, builder.max_nodes(), Taps::none());
        let (rule, mut steps, mut tokens) = (Greedy, 0, 0);
        for row in self.held_out.iter().take(self.decoded_prompts) {
            let prompt = row.example.assistant.iter().position(|own| *own).unwrap_or(0);
            if prompt == 0 || prompt + self.decoded_tokens > context || self.decoded_tokens == 0 {
                continue;
            }
            let rule: &dyn AcceptanceRule = &rule;
            let draws = &mut Seeded::new(0);
            let mut stepper = Stepper { target: &mut target, drafter: &mut drafter, builder: &builder, rule, draws };
            let generation =
                decode_with(&mut stepper, &row.example.ids[..prompt], &limits, &mut |_| ControlFlow::Continue(()));
            let generation = generation.map_err(|error| wrong(&error))?;
            steps += generation.accepted.len();
            tokens += generation.accepted.iter().sum::<usize>() + generation.accepted.len();
        }
        Ok((steps > 0).then(|| tokens as f64 / steps as f64))
    }
}
