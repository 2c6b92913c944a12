//! Times of passes, from a file or from a model.

use crate::failure::Failure;
use crate::load;
use crate::settings::Settings;
use gorgon_bench::pass_times::{StepCurve, measure};
use gorgon_bench::step_times::StepTime;
use gorgon_runs::file;
use serde::Deserialize;
use std::path::Path;

/// Rounds of a measurement.
const ROUNDS: usize = 5;
/// Tokens that a measurement has room for.
const TOKENS: usize = 512;
/// The largest file that is read.
const MOST_BYTES: u64 = 1 << 28;

/// A document with times: a calibration's record, or one that a replay wrote.
#[derive(Deserialize)]
struct Document {
    step_times: Vec<StepTime>,
}

/// Reads times from a JSON file, or measures those of a model.
///
/// # Errors
/// When there is neither, or times are wrong.
pub(super) fn read(from: &str, settings: &Settings) -> Result<StepCurve, Failure> {
    let path = Path::new(from);
    let is_file = path.is_file() && path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    if is_file {
        let bytes = file::read(path, MOST_BYTES).map_err(|error| Failure::io(path, &error))?;
        let wrong = |reason: String| Failure::input(format!("{from}: {reason}"));
        let document: Document = gorgon_runs::json::read(&bytes).map_err(|error| wrong(error.to_string()))?;
        return StepCurve::new(document.step_times).map_err(|error| wrong(error.to_string()));
    }
    let decoder = load::decoder(&load::folder(from, settings)?, TOKENS, settings)?;
    settings.console.say(format!("times of passes are measured with {from}"));
    Ok(StepCurve::new(measure(&decoder, ROUNDS)?)?)
}
