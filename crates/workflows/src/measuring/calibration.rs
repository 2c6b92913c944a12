//! Calibration: measured accuracies and step times, and the tree that follows from them.

use super::{Options, Setup};
use crate::console::{BarStyle, Console};
use crate::drafting::{ngrams, stored_tree};
use crate::failure::Failure;
use crate::files;
use crate::load;
use crate::settings::Settings;
use gorgon_bench::calibrate::{self, Accuracies, Choice};
use gorgon_bench::measure::{Summary, summarise};
use gorgon_bench::probe;
use gorgon_bench::record::{self, CalibrationRecord, DecodedTree};
use gorgon_bench::step_times::{self, StepTime};
use gorgon_core::tree::TreeChoice;
use gorgon_core::tree::calibrated::Calibration;
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::format::HeadsMethod;
use gorgon_draft::medusa::MedusaModel;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Sizes of which the step time is measured.
const SIZES: [usize; 17] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64];

/// Prompts that the trees of a calibration decode, at most.
const DECODED_PROMPTS: usize = 12;

/// Levels of a calibrated tree at most, for drafters that could go on without end.
const DEEPEST: usize = 8;

/// A finished calibration.
pub struct Calibrated {
    /// The record, as it is stored.
    pub record: CalibrationRecord,
    /// Accuracies of the drafter's guesses.
    pub accuracies: Accuracies,
    /// Step times by the number of nodes.
    pub times: Vec<StepTime>,
    /// The tree that should decode fastest.
    pub choice: Choice,
}

impl Calibrated {
    /// Whether a tree is expected to beat plain decoding.
    pub fn has_tree(&self) -> bool {
        self.choice.shape.len() > 1
    }

    /// Whether heads will draft: a tree was, or is expected to be, faster than plain decoding.
    pub fn pays(&self) -> bool {
        self.has_tree() || self.record.decoded.first().is_some_and(|decoded| decoded.speedup > 1.0)
    }

    /// As a JSON document.
    pub fn document(&self) -> Value {
        json!(self.record)
    }
}

/// The folder of the heads that are to be calibrated.
fn heads_folder(options: &Options) -> Result<HeadsFolder, Failure> {
    let missing = || Failure::input("--heads is needed: the tree is stored with them");
    load::heads(options.heads.as_deref().ok_or_else(missing)?, &Console::silent())
}

/// Measures, chooses a tree, and stores it with the heads. Returns where it is stored too.
///
/// # Errors
/// When the heads, the prompts or the model are wrong, or the folder cannot be written.
pub fn measure_and_store(
    options: &Options,
    rounds: usize,
    settings: &Settings,
) -> Result<(Calibrated, PathBuf), Failure> {
    let folder = heads_folder(options)?;
    load::check_writable(&folder.path)?;
    let mut found = measure(options, rounds, settings)?;
    store_record(&folder.path, &found.record)?;
    let path = stored_tree::store(&folder.path, &found.record.tree)?;
    found.record.decoded = decoded(options, &found, settings)?;
    store_record(&folder.path, &found.record)?;
    Ok((found, path))
}

/// Stores a record with the heads in a folder.
///
/// # Errors
/// When it cannot be written.
pub fn store_record(folder: &Path, record: &CalibrationRecord) -> Result<(), Failure> {
    let file = folder.join(record::FILE);
    let sealed = record.sealed().map_err(|error| Failure::run(format!("{}: {error}", file.display())))?;
    files::write_json(&file, &sealed)
}

/// Decodes some of the prompts with the tree of the calibration, if it has one, and with the trellis tree of its step
/// times, each beside plain decoding. The fastest is first.
fn decoded(options: &Options, found: &Calibrated, settings: &Settings) -> Result<Vec<DecodedTree>, Failure> {
    let calibrated = found.has_tree().then_some(TreeChoice::Calibrated);
    let mut decoded = vec![];
    for tree in calibrated.into_iter().chain([TreeChoice::Trellis(None)]) {
        let name = tree.to_string();
        let options = Options { tree: Some(tree), limit: options.limit.min(DECODED_PROMPTS), ..options.clone() };
        let mut setup = Setup::recorded(&options, settings)?;
        let prompts = setup.prompts.clone();
        let runs = setup.run_round(&prompts, 0, settings.seed, &mut || ())?;
        if let Some(Summary { tokens_per_step, speedup, .. }) = summarise(&runs) {
            decoded.push(DecodedTree { tree: name, tokens_per_step, speedup });
        }
    }
    decoded.sort_by(|a, b| b.speedup.total_cmp(&a.speedup));
    Ok(decoded)
}

/// Measures, and chooses a tree.
///
/// # Errors
/// When the heads, the prompts or the model are wrong.
pub fn measure(options: &Options, rounds: usize, settings: &Settings) -> Result<Calibrated, Failure> {
    let folder = heads_folder(options)?;
    let mut setup = Setup::new(options, settings)?;
    let (accuracies, times, choice) = match folder.detected.format.method() {
        // Heads that do not know each other's guesses can be measured at every position of a text.
        HeadsMethod::Medusa => {
            let model = MedusaModel::load(&folder, setup.decoder.clone())?;
            let accuracies = accuracies(&mut setup, &model, settings)?;
            let order = calibrate::order(&accuracies.heads, 64)?;
            let times = step_times(&mut setup, &order, rounds, settings)?;
            let choice = calibrate::choose(&accuracies.heads, &order, &times)?;
            (accuracies, times, choice)
        }
        HeadsMethod::Hydra
        | HeadsMethod::Eagle
        | HeadsMethod::Mtp
        | HeadsMethod::Block
        | HeadsMethod::Kangaroo
        | HeadsMethod::Probes(_) => {
            let prompts = setup.prompts.clone();
            let probed = probe::probe(&mut setup.comparison(settings.seed), &prompts, DEEPEST)?;
            let times = step_times(&mut setup, &probed.calibration()?, rounds, settings)?;
            let choice = probed.choose(&times)?;
            (probed.accuracies, times, choice)
        }
    };
    let compute = setup.decoder.compute();
    let on = (compute.choice().to_string(), compute.precision().to_owned(), rayon::current_num_threads());
    let prompts = setup.prompts.clone();
    let table = ngrams(&folder)?;
    let rows = gorgon_bench::rows::corrections(&mut setup.comparison(settings.seed), &prompts, table)?;
    let record = CalibrationRecord { rows, ..CalibrationRecord::new(&accuracies, &times, &choice, on) };
    Ok(Calibrated { record, accuracies, times, choice })
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
    Ok(step_times::measure(&mut setup.comparison(settings.seed), order, &prompts, &sizes, rounds)?)
}

/// Lets the model answer the prompts, and looks where the heads would have guessed right.
fn accuracies(setup: &mut Setup, model: &MedusaModel, settings: &Settings) -> Result<Accuracies, Failure> {
    let prompts = setup.prompts.clone();
    let mut comparison = setup.comparison(settings.seed);
    let longest = prompts.iter().map(|p| p.ids.len()).max().unwrap_or(0);
    let mut target = comparison.target(longest);
    let bar = settings.console.bar(BarStyle::Count, "answers", prompts.len() as u64);
    let mut texts = vec![];
    for prompt in &prompts {
        let answer = comparison.plain(&mut target, &prompt.ids)?.ids;
        texts.push(([&prompt.ids[..], &answer].concat(), prompt.ids.len()));
        bar.inc(1);
    }
    drop(bar);
    Ok(calibrate::accuracies(&mut target, model, &texts)?)
}
