//! Training draft heads on a frozen backbone, or a draft model beside one.

mod backbone;
mod features;
mod job;
mod launch;
mod models;
mod parity;
mod published;
mod shape;
mod together;
mod trajectories;

pub(crate) use self::launch::PLOTS;
pub use self::launch::{Done, best, fitted};
pub use self::shape::{Assumed, by_formula};
pub(crate) use self::trajectories::are_there as has_trajectories;
pub use self::trajectories::{DEFAULT_BLOCK, TrajectoryCounts, TrajectoryOptions, write as write_trajectories};

use self::backbone::Backbone;
use self::launch::Launch;
use crate::config::Resume;
use crate::estimate::{Pool, Watch};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::{files, fitting, load};
use gorgon_draft::hydra::{HydraHeads, HydraShape};
use gorgon_draft::layer::LayerShape;
use gorgon_draft::medusa::Heads;
use gorgon_draft::mtp::{MtpHeads, MtpShape};
use gorgon_runs::run_dir::RunDir;
use gorgon_train::config::{MethodConfig, TrainConfig};
use gorgon_train::methods::FeatureFormat;
use gorgon_train::process_group::ProcessGroup;
use serde_json::Value;
use std::path::Path;

/// Does what a config says.
///
/// # Errors
/// When the config, the data or the model are wrong, a loss is no number, or the run folder cannot be written.
pub fn execute(
    config: &TrainConfig,
    resume: Option<Resume<'_>>,
    dry_run: bool,
    settings: &Settings,
) -> Result<Done, Failure> {
    launch(config, resume, dry_run, false, settings)
}

/// Plans what a config says, and does nothing: from a few discarded steps, or by formula where the model has no weights
/// or there are no shards yet. Returns the plan as a document.
///
/// # Errors
/// As of [`execute`].
pub fn plan(
    config: &TrainConfig,
    resume: Option<Resume<'_>>,
    assumed: Assumed,
    settings: &Settings,
) -> Result<Value, Failure> {
    check_feature_format(config)?;
    let dir = load::decoder_only(&config.model, "train", settings)?;
    if resume.is_none() && shape::is_needed(config, &dir) {
        return shape::plan(&config.clone().resolved(), &dir, assumed, settings);
    }
    if assumed.tokens.is_some() || assumed.teraflops.is_some() {
        let note =
            "note: model and data are here, so the plan is measured: --assume-tokens and --assume-tflops are not used";
        settings.console.say(note);
    }
    match execute(config, resume, true, settings)? {
        Done::Planned(plan) => Ok(plan),
        _ => Ok(Value::Null),
    }
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
    resume: Option<Resume<'_>>,
    dry_run: bool,
    only_features: bool,
    settings: &Settings,
) -> Result<Done, Failure> {
    let config = &config.clone().resolved();
    if config.data.is_file() {
        let message = format!("{}: it is a file, and a folder of shards is expected", config.data.display());
        return Err(Failure::input(message).hint("gorgon distill makes one"));
    }
    config.check().map_err(|errors| Failure::settings(&errors))?;
    if !only_features {
        check_feature_format(config)?;
    }
    let changes = fitting::changes(resume, config)?;
    resume.map_or(Ok(()), |resume| check_place(config, resume.run))?;
    if !dry_run && !only_features {
        files::check_writable(resume.map_or(&config.runs, |resume| resume.run))?;
    }
    if let Some(resume) = resume.filter(|_| !dry_run && ProcessGroup::current().is_root()) {
        // Before the model is loaded and steps are planned: another process may have the run.
        drop(RunDir::open(resume.run)?);
    }
    let replicas = &settings.divided();
    let settings = &replicas[0];
    let dir = load::decoder_only(&config.model, "train", settings)?;
    let backbone = Backbone::load(config, &dir, settings)?;
    let (before, watch, pool) = (backbone.hash.clone(), Watch::start(), Pool::of(&settings.compute()?));
    let resume = resume.map(|resume| (resume, changes.as_slice()));
    let launch = Launch { config, dir: &dir, before, resume, dry_run, only_features, watch, pool, settings, replicas };
    fit(&launch, backbone)
}

/// Fails where a run is resumed in another folder than it was begun in, so that the paths of its config lead nowhere.
fn check_place(config: &TrainConfig, run: &Path) -> Result<(), Failure> {
    let data = &config.data;
    if data.is_absolute() || data.symlink_metadata().is_ok() {
        return Ok(());
    }
    let message = format!("{}: its data in {} is not here", run.display(), data.display());
    Err(Failure::input(message).hint("paths in a config count from the current folder: resume where the run was begun"))
}

/// Fails for a number format of hidden states that are not kept on disk.
fn check_feature_format(config: &TrainConfig) -> Result<(), Failure> {
    if config.caches_features() || config.feature_format == FeatureFormat::default() {
        return Ok(());
    }
    let format = config.feature_format.name();
    let reason = "hidden states are not kept on disk";
    Err(Failure::input(format!("feature_format = \"{format}\": {reason}"))
        .hint("set cache_features = true or features = FOLDER too, or leave it out"))
}

/// Makes what the config's method fits, and fits it.
fn fit(launch: &Launch<'_>, backbone: Backbone) -> Result<Done, Failure> {
    let (&Launch { config, dir, .. }, chunk_rows) = (launch, launch.config.chunk_rows);
    match &config.method {
        MethodConfig::Medusa { medusa } => launch.fit(backbone, |backbone| {
            backbone.heads(config, |model, _| {
                let (hidden_size, vocab_size) = (model.hidden_size, model.vocab_size);
                Heads { config: *medusa, hidden_size, vocab_size, chunk_rows }
            })
        }),
        MethodConfig::MedusaTwo { medusa, medusa2 } => {
            launch.fit(backbone, |backbone| backbone.medusa_two(config, *medusa, medusa2))
        }
        MethodConfig::Eagle { eagle } => launch.fit(backbone, |backbone| backbone.eagle(config, *eagle)),
        MethodConfig::Eagle3 { eagle3 } => launch.fit(backbone, |backbone| backbone.eagle3(config, eagle3)),
        MethodConfig::Hydra { hydra } => launch.fit(backbone, |backbone| {
            backbone.heads(config, |model, longest| {
                let shape = HydraShape { config: *hydra, layer: LayerShape::of(model) };
                HydraHeads::new(shape, longest, chunk_rows)
            })
        }),
        MethodConfig::Mtp { mtp } => launch.fit(backbone, |backbone| {
            backbone.heads(config, |model, longest| {
                let shape = MtpShape { config: *mtp, layer: LayerShape::of(model), first_layer: model.layers };
                MtpHeads::new(shape, longest, chunk_rows)
            })
        }),
        MethodConfig::Kangaroo { kangaroo } => launch.fit(backbone, |backbone| backbone.kangaroo(config, *kangaroo)),
        MethodConfig::Ppd { .. } | MethodConfig::Pass { .. } | MethodConfig::Space { .. } => {
            launch.fit(backbone, |backbone| backbone.probes(config))
        }
        MethodConfig::Block { block } => launch.fit(backbone, |backbone| backbone.block(config, block)),
        MethodConfig::LayerSkip { layerskip } => {
            launch.fit(backbone, |backbone| backbone.layerskip(config, layerskip, dir))
        }
        MethodConfig::SpaceSft { space_sft } => launch.fit(backbone, |backbone| backbone.space_sft(config, space_sft)),
        MethodConfig::Cllm { cllm } => launch.fit(backbone, |backbone| backbone.cllm(config, cllm)),
        MethodConfig::DistillSpec { distill_spec } => {
            launch.fit(backbone, |backbone| backbone.distill_spec(config, distill_spec, dir))
        }
    }
}
