//! The demo's last part: decoding in a body whose weights come from memory.

use super::decoding::{Counts, Decoded, compare, heading, measured_on, print_bodies};
use crate::args::Demo;
use crate::commands::{bench, tree};
use crate::printer;
use crate::settings::Settings;
use gorgon_model::config::ModelConfig;
use gorgon_runs::table::{Column, Table};
use gorgon_workflows::demo::equality::{self, Equality};
use gorgon_workflows::demo::formats::{PlainSpeed, plain_speeds};
use gorgon_workflows::demo::grow;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::measuring::calibration::measure_and_store;
use gorgon_workflows::measuring::side_by_side;
use gorgon_workflows::units::bytes;
use gorgon_workflows::{files, load};
use serde_json::{Value, json};
use std::path::Path;

/// Folder of the grown model and heads.
pub(super) const FOLDER: &str = "grown";
/// Rounds of plain decoding in each number format, of step times, and of plain beside drafted decoding.
const FORMAT_ROUNDS: usize = 3;
const CALIBRATION_ROUNDS: usize = 3;
const BENCH_ROUNDS: usize = 3;

/// Measurements of the grown body.
pub struct Grown {
    /// All of them.
    pub document: Value,
    equality: Equality,
    counts: Counts,
}

impl Grown {
    /// Whether all texts are equal: those of both bodies, and those with and without heads.
    pub fn is_equal(&self) -> bool {
        self.counts.all() && self.equality.same_text == self.equality.prompts
    }
}

/// Grows the model and its heads, calibrates a tree for them in the fastest number format, and measures and verifies;
/// `None` where the model is not to be or cannot be grown.
///
/// # Errors
/// When the model cannot be read, or a part fails.
pub fn run(
    args: &Demo,
    run: &Path,
    (first, second): (&Path, &Path),
    small: &Decoded,
    settings: &Settings,
) -> Result<Option<Grown>, Failure> {
    if args.grow == 0 {
        return Ok(None);
    }
    let dir = load::folder(&args.model, settings)?;
    if let Some(reason) = grow::obstacle(&dir, args.grow.into())? {
        settings.console.say(format!("note: there is no part with a larger body: {reason}"));
        return Ok(None);
    }
    let (body, equality) = grown(args, &dir, run, second, settings)?;
    let speeds = fastest(&body, second, settings)?;
    let Some(best) = speeds.first() else { return Err(Failure::run("no number format could be measured")) };
    let settings = &settings.with_formats(best.formats);
    heading("a tree is calibrated for the grown body in that format", settings);
    let model = body.model.display().to_string();
    let on = |prompts: &Path| measured_on(&model, &body.heads, prompts);
    let (calibrated, _) = measure_and_store(&on(first), CALIBRATION_ROUNDS, settings)?;
    if !settings.json {
        tree::report(&calibrated);
    }
    heading("plain and drafted decoding in the grown body, side by side", settings);
    let measured = side_by_side::execute(&on(second), BENCH_ROUNDS, settings)?;
    if !settings.json {
        bench::print(&measured, false);
    }
    let large = Decoded::new(&measured, compare(&on(second), settings)?, settings);
    if !settings.json {
        let own = ModelConfig::read(&dir)?.parameters();
        let before = settings.with_formats(small.formats).compute()?.precision();
        heading(&grow::described(body.parameters), settings);
        print_bodies([("small model", own, before, small), ("grown body", body.parameters, best.name, &large)]);
    }
    let document = json!({
        "model": body.model, "heads": body.heads, "parameters": u64::try_from(body.parameters).ok(),
        "equality": equality, "formats": speeds, "calibration": calibrated.document(), "bench": measured.document,
        "same_text": large.counts.same, "compared": large.counts.compared,
    });
    Ok(Some(Grown { document, equality, counts: large.counts }))
}

/// Grows model and heads, and compares the grown model's logits and texts with the small one's.
fn grown(
    args: &Demo,
    dir: &Path,
    run: &Path,
    prompts: &Path,
    settings: &Settings,
) -> Result<(grow::Grown, Equality), Failure> {
    heading("the model and its heads are grown until their weights come from memory", settings);
    let heads = load::heads(run, &settings.console)?;
    let body = grow::write(dir, &heads, args.grow.into(), &args.dir.join(FOLDER))?;
    let equality =
        equality::compare(&measured_on(&args.model, run, prompts), &body.model.display().to_string(), settings)?;
    if !settings.json {
        let disk = bytes(files::folder_bytes(&args.dir.join(FOLDER)));
        printer::line(&format!("{}: {} ({disk})", body.model.display(), grow::described(body.parameters)));
        let Equality { prompts, same_text, positions, greatest_difference } = equality;
        let difference = if greatest_difference == 0.0 { "0".into() } else { format!("{greatest_difference:e}") };
        printer::line(&format!(
            "{same_text} of {prompts} answers have the same text in both bodies; over {positions} positions logits differ \
             by at most {difference}"
        ));
    }
    Ok((body, equality))
}

/// Plain decoding of the grown body in every number format, the fastest first.
fn fastest(body: &grow::Grown, prompts: &Path, settings: &Settings) -> Result<Vec<PlainSpeed>, Failure> {
    heading("the number format in which the grown body decodes fastest without drafts", settings);
    let options = measured_on(&body.model.display().to_string(), &body.heads, prompts);
    let speeds = plain_speeds(&options, FORMAT_ROUNDS, settings)?;
    if !settings.json {
        let mut table =
            Table::new([Column::text("format"), Column::text("options"), Column::number("plain, tokens/s")]);
        for speed in &speeds {
            let options = speed.options.clone().unwrap_or_else(|| "none".into());
            table.row([speed.name.to_owned(), options, format!("{:.1}", speed.tokens_per_second)]);
        }
        printer::table(&table);
    }
    Ok(speeds)
}
