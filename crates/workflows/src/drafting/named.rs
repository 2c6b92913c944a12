//! From `--drafter` to a drafter whose files are found.

use crate::failure::Failure;
use crate::{absent, load};
use gorgon_draft::choice::DrafterChoice;
use gorgon_draft::folder::HeadsFolder;
use gorgon_model::config::ModelConfig;
use gorgon_model::weights::Checkpoint;
use std::path::{Path, PathBuf};

/// A drafter with what its name leaves open filled in, and its files opened.
///
/// # Errors
/// When it needs heads that are missing, or a file or folder is missing or wrong.
pub(super) fn named(choice: &DrafterChoice, heads: Option<&HeadsFolder>) -> Result<DrafterChoice, Failure> {
    Ok(match (choice, heads) {
        (DrafterChoice::Auto | DrafterChoice::Measured, None) => DrafterChoice::Measured,
        (DrafterChoice::Auto | DrafterChoice::Measured, Some(folder)) => {
            DrafterChoice::Heads(folder.detected.format.method())
        }
        (named, None) if named.needs_heads() => {
            return Err(Failure::input(format!("{named} needs heads")).hint("name their folder with --heads"));
        }
        (DrafterChoice::Heads(method), Some(folder)) if *method != folder.detected.format.method() => {
            let (path, found) = (folder.path.display(), folder.detected.format.method().name());
            let message = format!("{path}: these heads are {found}, not {}", method.name());
            return Err(Failure::input(message).hint(format!("leave --drafter out, or --drafter {found}")));
        }
        (DrafterChoice::Model(dir), _) => DrafterChoice::Model(draft_model(dir)?),
        (DrafterChoice::Composed(composed), _) => {
            DrafterChoice::Composed(composed.with_models(|dir| draft_model(dir))?.opened().map_err(Failure::input)?)
        }
        (DrafterChoice::TrainingFree(method), _) => {
            DrafterChoice::TrainingFree(method.clone().opened().map_err(Failure::input)?)
        }
        (DrafterChoice::Handover { first, below, other }, _) => {
            if matches!(**other, DrafterChoice::Oracle(_)) {
                return Err(Failure::input(format!("--drafter {choice}: an oracle is measured alone")));
            }
            let other = named(other, heads)?;
            if matches!(other, DrafterChoice::None | DrafterChoice::Measured) {
                let message = format!("--drafter {choice}: there is no other drafter");
                return Err(Failure::input(message).hint("name one, or the heads with --heads, or leave out else="));
            }
            let first = first.clone().opened().map_err(Failure::input)?;
            let mut both = DrafterChoice::Handover { first, below: *below, other: Box::new(other) };
            both.share_live_store();
            both
        }
        (named @ (DrafterChoice::None | DrafterChoice::Heads(_) | DrafterChoice::Oracle(_)), _) => named.clone(),
    })
}

/// The folder of a draft model that is named, once it is known to hold one.
fn draft_model(dir: &Path) -> Result<PathBuf, Failure> {
    let dir = load::fitted_model(dir);
    absent::check(&dir, "folder of a draft model")?;
    let is_gguf = gorgon_gguf::find(&dir).map_err(Failure::input)?.is_some();
    if !dir.is_dir() && !is_gguf {
        let message = format!("--drafter model:{}: this is no folder", dir.display());
        return Err(Failure::input(message).hint("gorgon dev pretrain -c configs/draft-tiny.toml makes a draft model"));
    }
    ModelConfig::read(&dir)?;
    Checkpoint::open(&dir)?;
    Ok(dir)
}

#[cfg(test)]
mod tests;
