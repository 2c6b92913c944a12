//! `gorgon tree`: calibrating and showing trees.

use crate::args::{Calibrate, Sequoia, Show, TreeCommand};
use crate::commands::contest::Setup;
use crate::printer;
use crate::settings::Settings;
use gorgon_bench::calibrate::{self, Accuracies, Choice};
use gorgon_bench::probe;
use gorgon_bench::record::{self, CalibrationRecord};
use gorgon_bench::step_times::{self, StepTime};
use gorgon_core::tree::calibrated::Calibration;
use gorgon_core::tree::{PublishedTree, TreeChoice, TreeShape};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::format::HeadsMethod;
use gorgon_draft::medusa::MedusaModel;
use gorgon_runs::table::{Column, Table};
use gorgon_workflows::drafting::sequoia_choice;
use gorgon_workflows::drafting::stored_tree::{self, TREE_FILE};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::files;
use gorgon_workflows::load;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// What to do about heads that were not measured.
const CALIBRATE: &str = "gorgon tree calibrate measures it";

/// Sizes of which the step time is measured.
const SIZES: [usize; 17] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64];

/// Levels of a calibrated tree at most, for drafters that could go on without end.
const DEEPEST: usize = 8;

pub fn run(command: &TreeCommand, settings: &Settings) -> Result<ExitCode, Failure> {
    match command {
        TreeCommand::Calibrate(args) => calibrate(args, settings),
        TreeCommand::Sequoia(args) => sequoia(args, settings),
        TreeCommand::Show(args) => show(args, settings),
    }
}

fn sequoia(args: &Sequoia, settings: &Settings) -> Result<ExitCode, Failure> {
    let folder = HeadsFolder::open(&args.heads)?;
    let unmeasured = || Failure::input(format!("{}: not calibrated", folder.path.display())).hint(CALIBRATE);
    let record = CalibrationRecord::read(&folder.path)?.ok_or_else(unmeasured)?;
    let choice = sequoia_choice(&record, args.nodes.map(usize::from))?;
    let paths: Vec<&[usize]> = choice.shape.paths().iter().map(Vec::as_slice).filter(|p| !p.is_empty()).collect();
    let path = stored_tree::store(&folder.path, &paths)?;
    match settings.json {
        true => printer::document(
            &json!({"tree": paths, "nodes": choice.shape.len(), "acceptance": record.children,
                "expected_tokens_per_step": choice.tokens, "expected_speedup": choice.speedup})
            .to_string(),
        ),
        false => {
            printer::piece(&picture(&choice.shape));
            printer::line(&format!(
                "{} nodes, {:.2} tokens per step expected, {:.2} times as fast as plain decoding expected",
                choice.shape.len(),
                choice.tokens,
                choice.speedup
            ));
        }
    }
    settings.talk.say(format!("stored as {}", path.display()));
    Ok(ExitCode::SUCCESS)
}

fn calibrate(args: &Calibrate, settings: &Settings) -> Result<ExitCode, Failure> {
    let found = measure_and_store(&args.contest, args.rounds as usize, settings)?;
    if settings.json {
        printer::document(&found.document.to_string());
        return Ok(ExitCode::SUCCESS);
    }
    found.print();
    settings.talk.say(format!("stored as {}", found.path.display()));
    Ok(ExitCode::SUCCESS)
}

/// A finished calibration.
pub struct Calibrated {
    pub document: Value,
    path: PathBuf,
    accuracies: Accuracies,
    times: Vec<StepTime>,
    choice: Choice,
}

/// Measures, chooses a tree, and stores it with the heads.
///
/// # Errors
/// When the heads, the prompts or the model are wrong, or the folder cannot be written.
pub fn measure_and_store(
    args: &crate::args::Contest,
    rounds: usize,
    settings: &Settings,
) -> Result<Calibrated, Failure> {
    let heads = args.draft.heads.as_deref();
    let folder =
        HeadsFolder::open(heads.ok_or_else(|| Failure::input("--heads is needed: the tree is stored with them"))?)?;
    load::check_writable(&folder.path)?;
    let mut setup = Setup::new(args, settings)?;
    let (accuracies, times, choice) = match folder.detected.format.method() {
        // Heads that do not know each other's guesses can be measured at every position of a text.
        HeadsMethod::Medusa => {
            let model = MedusaModel::load(&folder, setup.decoder.clone())?;
            let accuracies = measure(&mut setup, &model, settings)?;
            let order = calibrate::order(&accuracies.heads, 64)?;
            let times = step_times(&mut setup, &order, rounds, settings)?;
            let choice = calibrate::choose(&accuracies.heads, &order, &times)?;
            (accuracies, times, choice)
        }
        HeadsMethod::Hydra | HeadsMethod::Eagle | HeadsMethod::Mtp => {
            let prompts = setup.prompts.clone();
            let probed = probe::probe(&mut setup.contest(settings.seed), &prompts, DEEPEST)?;
            let times = step_times(&mut setup, &probed.calibration()?, rounds, settings)?;
            let choice = probed.choose(&times)?;
            (probed.accuracies, times, choice)
        }
    };
    let compute = setup.decoder.compute();
    let on = (compute.choice().to_string(), compute.precision().to_owned(), rayon::current_num_threads());
    let record = CalibrationRecord::new(&accuracies, &times, &choice, on);
    let file = folder.path.join(record::FILE);
    let sealed = record.sealed().map_err(|error| Failure::run(format!("{}: {error}", file.display())))?;
    files::write_json(&file, &sealed)?;
    let (document, path) = (json!(record), stored_tree::store(&folder.path, &record.tree)?);
    Ok(Calibrated { document, path, accuracies, times, choice })
}

/// Measures steps with the first nodes of an order.
fn step_times(
    setup: &mut Setup,
    order: &Calibration,
    rounds: usize,
    settings: &Settings,
) -> Result<Vec<StepTime>, Failure> {
    let sizes: Vec<usize> = SIZES.into_iter().filter(|&n| n <= order.order.len() + 1).collect();
    let prompts = setup.prompts.clone();
    Ok(step_times::measure(&mut setup.contest(settings.seed), order, &prompts, &sizes, rounds)?)
}

impl Calibrated {
    /// Whether a tree is expected to beat plain decoding.
    pub fn has_tree(&self) -> bool {
        self.choice.shape.len() > 1
    }

    /// The tables and the picture.
    pub fn print(&self) {
        report(&self.accuracies, &self.times, &self.choice);
    }
}

/// Lets the model answer the prompts, and looks where the heads would have guessed right.
fn measure(setup: &mut Setup, model: &MedusaModel, settings: &Settings) -> Result<Accuracies, Failure> {
    let prompts = setup.prompts.clone();
    let mut contest = setup.contest(settings.seed);
    let longest = prompts.iter().map(|p| p.ids.len()).max().unwrap_or(0);
    let mut target = contest.target(longest);
    let bar = crate::progress::count(settings.progress, "answers", prompts.len() as u64);
    let mut texts = vec![];
    for prompt in &prompts {
        let answer = contest.plain(&mut target, &prompt.ids)?.ids;
        texts.push(([&prompt.ids[..], &answer].concat(), prompt.ids.len()));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(calibrate::accuracies(&mut target, model, &texts)?)
}

fn report(accuracies: &Accuracies, times: &[StepTime], choice: &Choice) {
    let mut table = Table::new(["depth", "1st guess", "2nd", "3rd", "4th", "5th"].map(Column::number));
    for (head, row) in accuracies.heads.heads().iter().enumerate() {
        let shares = row.iter().take(5).map(|share| format!("{share:.3}"));
        table.row(std::iter::once((head + 1).to_string()).chain(shares));
    }
    printer::piece(&table.to_text());
    let plain = times.iter().find(|time| time.nodes == 1).map_or(f64::NAN, |time| time.seconds);
    let mut table = Table::new(["nodes", "step, ms", "over plain", "spread, %"].map(Column::number));
    for time in times {
        let name = if time.nodes == 1 { "plain".to_owned() } else { time.nodes.to_string() };
        let (milliseconds, ratio) = (format!("{:.3}", time.seconds * 1e3), format!("{:.2}", time.seconds / plain));
        table.row([name, milliseconds, ratio, format!("{:.0}", time.spread * 100.0)]);
    }
    printer::piece(&table.to_text());
    if let Some((nodes, speedup)) = choice.doubtful {
        printer::line(&format!(
            "{nodes} nodes might be {speedup:.2} times as fast as plain decoding, but the times spread by more than that gain: \
             they are not used (on an idle machine, or with more --rounds, times spread less)"
        ));
    }
    if choice.shape.len() < 2 {
        printer::line("no tree is expected to beat plain decoding here: generate will decode plainly with these heads");
        return;
    }
    printer::piece(&picture(&choice.shape));
    printer::line(&format!(
        "{} nodes, {:.2} tokens per step expected, {:.2} times as fast as plain decoding expected",
        choice.shape.len(),
        choice.expected_tokens,
        choice.expected_speedup
    ));
}

/// A tree as indented lines: each node with its rank.
fn picture(shape: &TreeShape) -> String {
    let mut lines = vec!["root".to_owned()];
    draw(shape, 0, "", &mut lines);
    lines.join("\n") + "\n"
}

fn draw(shape: &TreeShape, node: usize, indent: &str, lines: &mut Vec<String>) {
    let children: Vec<usize> = (1..shape.len()).filter(|&child| shape.parents()[child] == node).collect();
    for (i, &child) in children.iter().enumerate() {
        let last = i + 1 == children.len();
        let rank = shape.path(child).last().copied().unwrap_or(0);
        lines.push(format!("{indent}{} {rank}", if last { "└─" } else { "├─" }));
        draw(shape, child, &format!("{indent}{}  ", if last { " " } else { "│" }), lines);
    }
}

fn show(args: &Show, settings: &Settings) -> Result<ExitCode, Failure> {
    let shape = match (&args.heads, &args.tree) {
        (_, Some(TreeChoice::Published(published))) => published.shape().clone(),
        (_, Some(TreeChoice::File(path))) => stored_tree::file(path)?,
        (Some(heads), _) => {
            let folder = HeadsFolder::open(heads)?;
            stored_tree::file(&folder.path.join(TREE_FILE))?
        }
        (None, None) => "mc_sim_7b_63".parse::<PublishedTree>().map_err(Failure::input)?.shape().clone(),
        (None, Some(other)) => {
            return Err(Failure::input(format!("{other}: this tree has no shape until it is built")));
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
