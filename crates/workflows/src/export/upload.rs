//! Exported heads on the hub.

use crate::console::BarStyle;
use crate::failure::Failure;
use crate::load::{hub_failure, hub_options};
use crate::settings::Settings;
use gorgon_hub::{HubOptions, Push, Repo};
use std::path::Path;

/// Where an export is uploaded to.
#[derive(Clone, Debug)]
pub struct Upload {
    /// `owner/name`, or `owner/name@branch`.
    pub repo: String,
    /// Whether nobody else may see it.
    pub private: bool,
}

/// An upload that may be tried.
pub(super) struct Checked {
    repo: Repo,
    options: HubOptions,
    private: bool,
}

impl Upload {
    /// Fails before the export does its work, if the upload could not be tried after it.
    pub(super) fn check(&self, settings: &Settings) -> Result<Checked, Failure> {
        let wrong = |_| Failure::input(format!("--push {}: not of the form OWNER/NAME", self.repo));
        let repo = Repo::parse(&self.repo).map_err(wrong)?;
        let options = hub_options(settings)?;
        Push::check(&repo, &options).map_err(hub_failure)?;
        Ok(Checked { repo, options, private: self.private })
    }
}

impl Checked {
    /// Uploads the exported folder. Returns the address.
    pub(super) fn push(&self, out: &Path, message: &str, settings: &Settings) -> Result<String, Failure> {
        let push = Push { repo: &self.repo, folder: out, private: self.private, message };
        let mut bar = None;
        let pushed = gorgon_hub::push(&push, &self.options, &mut |done, total| {
            let name = self.repo.id();
            let bar = bar.get_or_insert_with(|| settings.console.bar(BarStyle::Transfer, &name, total));
            bar.set_position(done);
        });
        drop(bar);
        let hint = || format!("the export is in {}; export to a new folder to try again", out.display());
        let address = pushed.map_err(|error| hub_failure(error).hint(hint()))?;
        settings.console.say(format!("uploaded to {address}"));
        Ok(address)
    }
}
