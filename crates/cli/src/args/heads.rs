//! The heads that a command names.

use super::{Command, DevCommand, TreeCommand};
use std::path::PathBuf;

impl Command {
    /// The heads among the arguments of the command, to be replaced by their folder if they name a repo.
    pub fn heads_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::Doctor(doctor) => doctor.heads.as_mut(),
            Self::Generate(generate) => generate.draft.heads.as_mut(),
            Self::Chat(chat) => chat.draft.heads.as_mut(),
            Self::Serve(serve) => serve.draft.heads.as_mut(),
            Self::Bench(bench) => bench.measure.draft.heads.as_mut(),
            Self::Verify(verify) => verify.measure.draft.heads.as_mut(),
            Self::Tree(TreeCommand::Calibrate(calibrate)) => calibrate.measure.draft.heads.as_mut(),
            Self::Tree(TreeCommand::Sequoia(sequoia)) => Some(&mut sequoia.heads),
            Self::Tree(TreeCommand::Show(show)) => show.heads.as_mut(),
            Self::Tree(TreeCommand::Plan(plan)) => plan.heads.as_mut(),
            Self::Export(export) => Some(&mut export.run),
            Self::Dev(DevCommand::Logits(logits)) => logits.heads.as_mut(),
            // These commands have no heads, or read them from a config.
            Self::Dev(_) | Self::Fetch(_) | Self::Inspect(_) | Self::Distill(_) | Self::Train(_) => None,
            Self::Config(_) | Self::Init(_) | Self::Compare(_) | Self::Quantize(_) | Self::Runs(_) => None,
            Self::Store(_) => None,
            Self::Demo(_) | Self::Completions(_) => None,
        }
    }
}
