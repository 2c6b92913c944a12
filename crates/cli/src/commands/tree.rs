//! `gorgon tree`: calibrating and showing trees.

mod report;

pub use self::report::report;

use self::report::picture;
use crate::args::{Calibrate, Sequoia, Show, TreeCommand};
use crate::printer;
use crate::settings::Settings;
use gorgon_bench::record::CalibrationRecord;
use gorgon_core::tree::{PublishedTree, TreeBuilder, TreeChoice, TreeShape};
use gorgon_workflows::drafting::sequoia_choice;
use gorgon_workflows::drafting::stored_tree::{self, TREE_FILE};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::load;
use gorgon_workflows::measuring::calibration::{measure_and_store, store_record};
use gorgon_workflows::units;
use serde_json::{Value, json};
use std::process::ExitCode;

/// The hint about heads that were not measured.
const CALIBRATE: &str = "gorgon tree calibrate measures it";

pub fn run(command: &TreeCommand, settings: &Settings) -> Result<ExitCode, Failure> {
    match command {
        TreeCommand::Calibrate(args) => calibrate(args, settings),
        TreeCommand::Sequoia(args) => sequoia(args, settings),
        TreeCommand::Show(args) => show(args, settings),
        TreeCommand::Plan(args) => super::plan::run(args, settings),
    }
}

fn sequoia(args: &Sequoia, settings: &Settings) -> Result<ExitCode, Failure> {
    let folder = load::heads(&args.heads, &settings.console)?;
    let unmeasured = || Failure::input(format!("{}: not calibrated", folder.path.display())).hint(CALIBRATE);
    let record = CalibrationRecord::read(&folder.path)?.ok_or_else(unmeasured)?;
    let choice = sequoia_choice(&record, args.nodes.map(usize::from))?;
    let acceptance = record.children.clone();
    let paths: Vec<&[usize]> = choice.shape.paths().iter().map(Vec::as_slice).filter(|p| !p.is_empty()).collect();
    let path = stored_tree::store(&folder.path, &paths)?;
    // From now on the heads are decoded with this tree, whatever was faster in the calibration.
    store_record(&folder.path, &CalibrationRecord { decoded: vec![], ..record })?;
    match settings.json {
        true => printer::document(
            &json!({"tree": paths, "nodes": choice.shape.len(), "acceptance": acceptance,
                "expected_tokens_per_step": choice.tokens, "expected_speedup": choice.speedup})
            .to_string(),
        ),
        false => {
            printer::piece(&picture(&choice.shape));
            printer::line(&format!(
                "{}, {:.2} tokens per step expected, {:.2} times as fast as plain decoding expected",
                units::of(choice.shape.len() - 1, "draft"),
                choice.tokens,
                choice.speedup
            ));
        }
    }
    settings.console.say(format!("stored as {}", path.display()));
    if choice.speedup < 1.0 {
        settings.console.say(
            "warning: it is expected to be slower than plain decoding, and is the heads' tree from now on; \
             gorgon tree calibrate stores the fastest one",
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn calibrate(args: &Calibrate, settings: &Settings) -> Result<ExitCode, Failure> {
    let (found, path) = measure_and_store(&args.measure.options()?, args.rounds as usize, settings)?;
    if settings.json {
        printer::document(&found.document().to_string());
        return Ok(ExitCode::SUCCESS);
    }
    report(&found);
    settings.console.say(format!("stored as {}", path.display()));
    Ok(ExitCode::SUCCESS)
}

fn show(args: &Show, settings: &Settings) -> Result<ExitCode, Failure> {
    let shape = match (&args.heads, &args.tree) {
        (_, Some(TreeChoice::Published(published))) => published.shape().clone(),
        (_, Some(TreeChoice::Chain(chain))) => {
            let paths = (1..=chain.max_depth()).map(|depth| vec![0; depth]).collect();
            TreeShape::new(paths).map_err(Failure::input)?
        }
        (_, Some(TreeChoice::File(path))) => stored_tree::file(path)?,
        (Some(heads), None | Some(TreeChoice::Calibrated)) => {
            let folder = load::heads(heads, &settings.console)?;
            stored_tree::file(&folder.path.join(TREE_FILE))?
        }
        (None, None) => "mc_sim_7b_63".parse::<PublishedTree>().map_err(Failure::input)?.shape().clone(),
        (_, Some(other)) => {
            return Err(Failure::input(format!(
                "{other}: its shape depends on the drafts of each step; show draws chain:N, published lists, files and the stored tree of --heads"
            )));
        }
    };
    let paths: Vec<Value> = shape.paths().iter().filter(|p| !p.is_empty()).map(|p| json!(p)).collect();
    match settings.json {
        true => {
            printer::document(&json!({"nodes": shape.len(), "depth": shape.max_depth(), "paths": paths}).to_string())
        }
        false => printer::piece(&picture(&shape)),
    }
    Ok(ExitCode::SUCCESS)
}
