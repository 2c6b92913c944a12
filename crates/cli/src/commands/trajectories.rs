//! `gorgon dev trajectories`: Jacobi trajectories of the answers in shards.

use crate::args::Trajectories;
use crate::printer;
use crate::settings::Settings;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::train::{TrajectoryOptions, write_trajectories};
use serde_json::json;
use std::process::ExitCode;

pub fn run(args: &Trajectories, settings: &Settings) -> Result<ExitCode, Failure> {
    let options = TrajectoryOptions { data: args.data.clone(), model: args.model.clone(), block: args.block as usize };
    let Some(found) = write_trajectories(&options, settings)? else {
        settings.console.say("stopped; the same command resumes from here");
        return Ok(ExitCode::SUCCESS);
    };
    let mean = found.iterations as f64 / found.blocks.max(1) as f64;
    if settings.json {
        let document = json!({
            "shards": found.shards, "blocks": found.blocks, "iterations": found.iterations,
            "iterations_per_block": mean, "kept": found.kept,
        });
        printer::document(&document.to_string());
    } else {
        printer::line(&format!(
            "{} blocks of {} shards ({} were there), {mean:.2} iterations each",
            found.blocks, found.shards, found.kept
        ));
    }
    Ok(ExitCode::SUCCESS)
}
