//! Jacobi trajectories beside shards: written once, and read by consistency training.

use crate::console::BarStyle;
use crate::failure::Failure;
use crate::files;
use crate::load;
use crate::settings::Settings;
use gorgon_data::manifest;
use gorgon_data::shard::{self, Row};
use gorgon_data::trajectory::{self, Trajectory};
use gorgon_kernels::team;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use gorgon_runs::provenance::hash_file;
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Keys of a file's metadata.
const MODEL: &str = "gorgon.model_sha256";
const SHARD: &str = "gorgon.shard_sha256";
const BLOCK: &str = "gorgon.block";
const SEED: &str = "gorgon.seed";

/// Tokens of a block where nothing else is said.
pub const DEFAULT_BLOCK: u32 = 16;

/// Shards, and the model whose answers are in them.
#[derive(Clone, Debug)]
pub struct TrajectoryOptions {
    /// The folder of shards.
    pub data: PathBuf,
    /// A model folder, a GGUF file or a repo id.
    pub model: String,
    /// Tokens of a block.
    pub block: usize,
}

/// Counts of written trajectories.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrajectoryCounts {
    /// Files.
    pub shards: usize,
    /// Files that were there.
    pub kept: usize,
    /// Blocks.
    pub blocks: usize,
    /// Iterations of all blocks, without those that only confirm.
    pub iterations: usize,
}

/// Computes the trajectories of every shard's answers and writes them beside it. Files of the same shard, model, block and
/// seed are kept. `None` if it was asked to stop.
///
/// # Errors
/// When shards or model are wrong, or a file cannot be written.
pub fn write(options: &TrajectoryOptions, settings: &Settings) -> Result<Option<TrajectoryCounts>, Failure> {
    let dir = load::decoder_only(&options.model, "dev trajectories", settings)?;
    let hash = files::weights_hash(&dir)?;
    manifest::verify(&options.data)?;
    let paths = shard::files(&options.data)?;
    files::check_writable(&options.data)?;
    let config = gorgon_model::config::ModelConfig::read(&dir)?;
    let decoder = load::decoder(&dir, config.max_positions.min(LONGEST), settings)?;
    let (mut counts, stop) = (TrajectoryCounts::default(), settings.console.stop_flag());
    for (index, path) in paths.iter().enumerate() {
        let out = path.with_file_name(trajectory::file_name(index));
        let metadata = metadata(path, &hash, options.block, settings.seed)?;
        counts.shards += 1;
        if let Ok((known, _)) =
            trajectory::read(&out, config.vocab_size).and_then(|read| matching(&out, read, &metadata))
        {
            counts.kept += 1;
            counts.add(&known);
            continue;
        }
        let (rows, _) = shard::read(path, config.vocab_size)?;
        let bar = settings.console.bar(BarStyle::Count, "conversations", rows.len() as u64);
        let one = |row: &Row| {
            if stop.load(Ordering::Relaxed) {
                return Ok(vec![]);
            }
            let mut target = DecoderTarget::new(decoder.clone(), row.example.ids.len(), Hooks::none());
            let block = (options.block, &config.eos_tokens[..]);
            let found = team::one_of(rows.len(), || trajectory::of_row(&mut target, row, block, settings.seed));
            bar.inc(1);
            found
        };
        let found: Vec<Vec<Trajectory>> = rows.par_iter().map(one).collect::<Result<_, _>>().map_err(Failure::run)?;
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let found = found.concat();
        counts.add(&found);
        trajectory::write(&out, &found, &metadata).map_err(|error| Failure::io(&out, &error))?;
    }
    Ok(Some(counts))
}

/// Whether there is a file of trajectories for each shard in a folder.
///
/// # Errors
/// When the folder cannot be read.
pub fn are_there(data: &Path) -> Result<bool, Failure> {
    let shards = shard::files(data)?;
    let file = |(index, path): (usize, &PathBuf)| path.with_file_name(trajectory::file_name(index));
    Ok(shards.iter().enumerate().map(file).all(|file| file.is_file()))
}

/// Positions that the model is loaded for, at most: no conversation in shards is longer by default.
const LONGEST: usize = 4096;

impl TrajectoryCounts {
    fn add(&mut self, found: &[Trajectory]) {
        self.blocks += found.len();
        self.iterations += found.iter().map(|one| one.states.len() - 1).sum::<usize>();
    }
}

/// Everything that a shard's trajectories are a function of.
fn metadata(shard: &Path, model: &str, block: usize, seed: u64) -> Result<BTreeMap<String, String>, Failure> {
    let hash = hash_file(shard).map_err(|error| Failure::io(shard, &error))?;
    let pairs = [(MODEL, model.to_owned()), (SHARD, hash), (BLOCK, block.to_string()), (SEED, seed.to_string())];
    Ok(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Trajectories with this metadata.
fn matching(
    path: &Path,
    (found, theirs): trajectory::Read,
    ours: &BTreeMap<String, String>,
) -> Result<trajectory::Read, shard::ShardError> {
    let other = ours.iter().find(|(key, value)| theirs.get(*key) != Some(value));
    match other {
        None => Ok((found, theirs)),
        Some((key, value)) => {
            let was = theirs.get(key).map_or("nothing", String::as_str);
            let reason = format!("{key} is {was}, expected {value}");
            Err(shard::ShardError::Invalid { path: path.into(), reason })
        }
    }
}

/// The trajectories of some conversations.
pub(super) struct Trajectories {
    /// Tokens of a block.
    pub block: usize,
    /// By conversation.
    pub by_row: Vec<Vec<Trajectory>>,
}

impl Trajectories {
    /// Reads those of a folder's shards, and checks that they belong to them and to the model.
    ///
    /// # Errors
    /// When they are missing, damaged, or those of other shards or another model.
    pub fn read(folder: &Path, model: &Path, rows: &[Row], vocab_size: usize) -> Result<Self, Failure> {
        let model_hash = files::weights_hash(model)?;
        let hint = format!("gorgon dev trajectories {} --model {}", folder.display(), model.display());
        let (mut known, mut block) = (HashMap::<u64, Vec<Trajectory>>::new(), None);
        for (index, path) in shard::files(folder)?.iter().enumerate() {
            let file = path.with_file_name(trajectory::file_name(index));
            if !file.is_file() {
                return Err(Failure::input(format!("{}: no trajectories are here", file.display())).hint(hint.clone()));
            }
            let (found, theirs) = trajectory::read(&file, vocab_size)?;
            let number =
                theirs.get(BLOCK).and_then(|text| text.parse::<usize>().ok()).filter(|n| (2..=256).contains(n));
            let wrong = |reason: String| Failure::input(format!("{}: {reason}", file.display())).hint(hint.clone());
            let number = number.ok_or_else(|| wrong(format!("{BLOCK} names no length of blocks")))?;
            if *block.get_or_insert(number) != number {
                return Err(wrong(format!("blocks of {number} tokens, where other shards have {block:?}")));
            }
            let mut ours = metadata(path, &model_hash, number, 0)?;
            ours.remove(SEED);
            let (found, _) =
                matching(&file, (found, theirs), &ours).map_err(|error| Failure::from(error).hint(hint.clone()))?;
            found.into_iter().for_each(|one| known.entry(one.row).or_default().push(one));
        }
        let by_row = rows.iter().map(|row| known.remove(&row.row).unwrap_or_default()).collect();
        Ok(Self { block: block.unwrap_or(2), by_row })
    }
}
