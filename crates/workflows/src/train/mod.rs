//! Training draft heads on a frozen backbone, or a draft model beside one.

mod backbone;
mod features;
mod job;
mod launch;
mod parity;
mod together;

pub use self::launch::{Done, best, fitted};

use self::backbone::Backbone;
use self::launch::Launch;
use crate::estimate::{Pool, Watch};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::{files, fitting, load};
use gorgon_draft::hydra::{HydraHeads, HydraShape};
use gorgon_draft::layer::LayerShape;
use gorgon_draft::medusa::Heads;
use gorgon_draft::mtp::{MtpHeads, MtpShape};
use gorgon_train::config::{HeadMethod, TrainConfig};
use std::path::Path;

/// Does what a config says.
///
/// # Errors
/// When the config, the data or the model are wrong, a loss is no number, or the run folder cannot be written.
pub fn execute(
    config: &TrainConfig,
    resume: Option<&Path>,
    dry_run: bool,
    settings: &Settings,
) -> Result<Done, Failure> {
    launch(config, resume, dry_run, false, settings)
}

/// Computes the hidden states that a training will read, ahead of it.
///
/// # Errors
/// As of [`execute`].
pub fn features(config: &TrainConfig, dry_run: bool, settings: &Settings) -> Result<Done, Failure> {
    launch(config, None, dry_run, true, settings)
}

fn launch(
    config: &TrainConfig,
    resume: Option<&Path>,
    dry_run: bool,
    only_features: bool,
    settings: &Settings,
) -> Result<Done, Failure> {
    let config = &config.clone().resolved();
    config.check().map_err(|errors| Failure::settings(&errors))?;
    fitting::check_resume(resume)?;
    if !dry_run && !only_features {
        files::check_writable(resume.unwrap_or(&config.runs))?;
    }
    let replicas = &settings.divided();
    let settings = &replicas[0];
    let dir = load::folder(&config.model, settings)?;
    let backbone = Backbone::load(config, &dir, settings)?;
    let (before, watch, pool) = (backbone.hash.clone(), Watch::start(), Pool::of(&settings.compute()?));
    let launch = Launch { config, dir: &dir, before, resume, dry_run, only_features, watch, pool, settings, replicas };
    fit(&launch, backbone)
}

/// Makes what the config's method fits, and fits it.
fn fit(launch: &Launch<'_>, backbone: Backbone) -> Result<Done, Failure> {
    let Launch { config, dir, .. } = *launch;
    let chunk_rows = config.chunk_rows.max(1);
    match config.method {
        HeadMethod::Medusa => launch.fit(backbone, |backbone| {
            backbone.heads(config, |model, _| Heads {
                config: config.medusa,
                hidden_size: model.hidden_size,
                vocab_size: model.vocab_size,
                chunk_rows,
            })
        }),
        HeadMethod::MedusaTwo => launch.fit(backbone, |backbone| backbone.medusa_two(config)),
        HeadMethod::Eagle => launch.fit(backbone, |backbone| backbone.eagle(config)),
        HeadMethod::Eagle3 => launch.fit(backbone, |backbone| backbone.eagle3(config)),
        HeadMethod::Hydra => launch.fit(backbone, |backbone| {
            backbone.heads(config, |model, longest| {
                let shape = HydraShape { config: config.hydra, layer: LayerShape::of(model) };
                HydraHeads::new(shape, longest, chunk_rows)
            })
        }),
        HeadMethod::Mtp => launch.fit(backbone, |backbone| {
            backbone.heads(config, |model, longest| {
                let shape = MtpShape { config: config.mtp, layer: LayerShape::of(model), first_layer: model.layers };
                MtpHeads::new(shape, longest, chunk_rows)
            })
        }),
        HeadMethod::DistillSpec => launch.fit(backbone, |backbone| backbone.distill_spec(config, dir)),
    }
}
