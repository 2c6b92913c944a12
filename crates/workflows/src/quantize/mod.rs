//! A model with its matrices in 8 or 4 bits, for other engines and for this one: compressed-tensors, `pack-quantized`.

mod agreement;
mod card;
mod options;
mod report;
mod stop;

pub use self::options::{Integers, Options};

use self::agreement::Texts;
use self::report::{Preview, Report, Source};
use self::stop::Stop;
use crate::console::BarStyle;
use crate::failure::Failure;
use crate::hub_id;
use crate::settings::Settings;
use crate::{files, load};
use gorgon_model::config::ModelConfig;
use gorgon_model::quantisation::{Plan, PlannedMatrix, WriteError, Written};
use gorgon_model::weights::Checkpoint;
use gorgon_runs::provenance::hash_bytes;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Instant;

/// Bytes of tensors in a file.
const LARGEST_FILE: usize = 5_000_000_000;

/// Writes the model in integers into a new folder, with a report. Returns the report as a document.
///
/// # Errors
/// When the model is missing, damaged or quantised already, the folder holds something or cannot be written, or there
/// are no prompts in their file. The folder is not there then.
pub fn execute(args: &Options, settings: &Settings) -> Result<Value, Failure> {
    let begun = Instant::now();
    let scheme = args.scheme()?;
    let dir = load::decoder_only(&args.model, "quantize", settings)?;
    let config = ModelConfig::read(&dir)?;
    let checkpoint = Checkpoint::open(&dir)?.finite();
    check_floats(&args.model, &checkpoint)?;
    checkpoint.check(&config)?;
    files::check_empty(&args.out)?;
    let plan = Plan::new(&config, &checkpoint, scheme);
    if plan.matrices.is_empty() {
        return Err(Failure::input(format!("{}: no matrix has a width that 32 divides", dir.display())));
    }
    let id = hub_id::hub_id(&args.model, &dir);
    let source = Source { name: hub_id::stem(&args.model, &dir), id, bytes: checkpoint.bytes() };
    let texts = args.prompts.as_deref().map(|path| Texts::read(path, args.limit, (&dir, &config), settings));
    let texts = texts.transpose()?;
    if args.dry_run {
        settings.console.result(Preview(&plan).text());
        return Ok(Preview(&plan).document(args.to.name()));
    }
    let mut report = Report::new(args, source, &plan, &settings.build);
    let stop = Stop::new(settings.console.stop_flag());
    let staged = files::staging(&args.out)?;
    report.written = write(&plan, &checkpoint, (&dir, staged.path()), (&args.out, &stop), settings)?;
    if args.hashes {
        report.sha256 = Some(hashes(&plan, staged.path())?);
    }
    report.agreement = texts.map(|texts| texts.compare(&dir, staged.path(), &stop, settings)).transpose()?;
    report.seconds = begun.elapsed().as_secs_f64();
    files::write_json(&staged.path().join("quantize.json"), &report.document())?;
    card::write(&report, &staged.path().join("README.md"))?;
    files::publish(staged, &args.out)?;
    settings.console.result(report.text());
    if args.prompts.is_none() {
        settings.console.say("note: no --prompts were given, so the result was not compared with the model");
    }
    settings.console.say(format!("{} in {}", args.to.name(), args.out.display()));
    Ok(report.document())
}

/// Refuses a model that is quantised already.
fn check_floats(named: &str, checkpoint: &Checkpoint) -> Result<(), Failure> {
    let Some(quantisation) = checkpoint.quantisation() else { return Ok(()) };
    let (method, formats) = (quantisation.method(), quantisation.formats().join("; "));
    let failure = Failure::input(format!("{named}: it is quantised already ({method}: {formats})"));
    Err(failure.hint("name the model that it was made from"))
}

/// Writes everything but the report into a folder that is there, and reads it back as a stranger would.
fn write(
    plan: &Plan,
    checkpoint: &Checkpoint,
    (dir, staged): (&Path, &Path),
    (out, stop): (&Path, &Stop),
    settings: &Settings,
) -> Result<Written, Failure> {
    let mut config = report::config(dir)?;
    config["quantization_config"] = plan.settings();
    files::copy_tokenizer(dir, staged)?;
    files::copy_licence(dir, staged)?;
    let bar = settings.console.bar(BarStyle::Transfer, "rounding", checkpoint.bytes() as u64);
    let written = plan.write(checkpoint, staged, LARGEST_FILE, &|tensor, bytes| {
        bar.inc(bytes);
        bar.set_message(tensor);
        stop.check().map_err(|failure| io::Error::other(failure.message().to_owned()))
    });
    stop.check()?;
    let written = written.map_err(|error| failed(error, out))?;
    bar.finish();
    files::write_json(&staged.join("config.json"), &config)?;
    Checkpoint::open(staged)?.check(&ModelConfig::read(staged)?)?;
    Ok(written)
}

/// SHA-256 of the matrices as they are read back: `f32`, little-endian, row after row.
fn hashes(plan: &Plan, folder: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let checkpoint = Checkpoint::open(folder)?;
    let hash = |matrix: &PlannedMatrix| {
        let values = checkpoint.read_all(&format!("{}.weight", matrix.module))?;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Ok((matrix.module.clone(), hash_bytes(&bytes)))
    };
    plan.matrices.iter().map(hash).collect()
}

/// Errors about tensors name their file; others are about the one that was being written, by the name that it was to get.
fn failed(error: WriteError, out: &Path) -> Failure {
    if error.source.get_ref().is_some() {
        return error.source.into();
    }
    Failure::io(&out.join(error.path.file_name().unwrap_or_default()), &error.source)
}
