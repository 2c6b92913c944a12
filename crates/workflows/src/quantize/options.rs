//! Options of the job.

use crate::failure::Failure;
use gorgon_core::suggest::did_you_mean;
use gorgon_kernels::quantised_matmul::{CodeBits, ScaleSearch};
use gorgon_model::quantisation::Scheme;
use std::path::PathBuf;
use std::str::FromStr;

/// Value of `--to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integers {
    /// 8 bits with a scale per output.
    Int8,
    /// 4 bits with a scale per group of inputs.
    Int4,
}

impl FromStr for Integers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "int8" => Ok(Self::Int8),
            "int4" => Ok(Self::Int4),
            other => Err(format!("{}expected int8 or int4", did_you_mean(other, ["int8", "int4"]))),
        }
    }
}

impl Integers {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Int4 => "int4",
        }
    }
}

/// Inputs of a scale, if nothing is said.
const GROUP: usize = 128;

/// The model, the format and the folder.
#[derive(Clone, Debug)]
pub struct Options {
    /// A folder or a repo id.
    pub model: String,
    /// The folder to write.
    pub out: PathBuf,
    /// The format.
    pub to: Integers,
    /// Inputs of a scale at most, if that was said.
    pub group: Option<usize>,
    /// How scales are chosen.
    pub search: ScaleSearch,
    /// Prompts on which the result is compared with the model.
    pub prompts: Option<PathBuf>,
    /// Prompts at most.
    pub limit: usize,
    /// Whether all matrices are hashed as they are read back.
    pub hashes: bool,
    /// Whether the plan is all that is wanted.
    pub dry_run: bool,
}

impl Options {
    /// The scheme.
    ///
    /// # Errors
    /// When a size of groups is given for one scale per output.
    pub(super) fn scheme(&self) -> Result<Scheme, Failure> {
        let (bits, group) = match (self.to, self.group) {
            (Integers::Int8, None) => (CodeBits::Eight, None),
            (Integers::Int4, group) => (CodeBits::Four, Some(group.unwrap_or(GROUP))),
            (Integers::Int8, Some(group)) => {
                let failure = Failure::input(format!("--group {group}: --to int8 has one scale per output"));
                return Err(failure.hint("leave it out"));
            }
        };
        Ok(Scheme { bits, group, search: self.search })
    }
}

#[cfg(test)]
mod tests;
