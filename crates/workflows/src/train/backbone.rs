//! A frozen backbone and the conversations that heads are fitted to.

mod own_layers;

pub use self::own_layers::probes;

use super::job::Job;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::{absent, files, load};
use gorgon_core::accept::random::SeededRandom;
use gorgon_data::manifest;
use gorgon_data::pack::Packing;
use gorgon_data::shard::{self, Row, ShardError};
use gorgon_draft::block::BlockConfig;
use gorgon_draft::eagle::three::{Eagle3Config, vocabulary_of};
use gorgon_draft::eagle::{EagleConfig, EagleNetwork, EagleShape};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::kangaroo::KangarooConfig;
use gorgon_kernels::{Frozen, Table};
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::weights::Checkpoint;
use gorgon_train::config::{Labels, TrainConfig};
use gorgon_train::methods::{
    self, BlockFitting, Conversations, Eagle3Fitting, EagleFitting, Features, HeadFitting, HeadStack, KangarooFitting,
    Windows,
};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// A backbone on its device, and the conversations that heads for it are fitted to.
pub struct Backbone {
    /// Hash of its files; empty in a copy.
    pub hash: String,
    pub(super) checkpoint: Checkpoint,
    pub(super) model: ModelConfig,
    pub(super) data: Conversations,
    pub(super) longest: usize,
    /// The first replica's LM head, where all share it.
    lm_head: Option<Table>,
}

impl Backbone {
    /// Reads the conversations, then the model.
    ///
    /// # Errors
    /// When one of them is missing or wrong, or they do not belong together.
    pub fn load(config: &TrainConfig, dir: &Path, settings: &Settings) -> Result<Self, Failure> {
        Self::under(conversations(config, dir, settings)?, None, config, dir, settings)
    }

    /// Copy on another device, for conversations that were read before. Replicas on the CPU share what stays as it is.
    ///
    /// # Errors
    /// When the model cannot be loaded there.
    pub fn copy(
        data: &Conversations,
        lm_head: &Table,
        config: &TrainConfig,
        dir: &Path,
        settings: &Settings,
    ) -> Result<Self, Failure> {
        let decoder = &data.features.decoder;
        let shared = decoder.compute().is_host().then(|| (decoder.clone(), lm_head.clone()));
        Self::under((data.whole().to_vec(), data.held_out.clone(), String::new()), shared, config, dir, settings)
    }

    fn under(
        (rows, held_out, hash): (Vec<Row>, Vec<Row>, String),
        shared: Option<(Arc<Decoder>, Table)>,
        config: &TrainConfig,
        dir: &Path,
        settings: &Settings,
    ) -> Result<Self, Failure> {
        let longest = rows.iter().chain(&held_out).map(|row| row.example.ids.len()).max().unwrap_or(0);
        let (decoder, lm_head) = match shared {
            Some((decoder, lm_head)) => (decoder, Some(lm_head)),
            None => (load::decoder(dir, longest, settings)?, None),
        };
        let model = decoder.config().clone();
        let checkpoint = Checkpoint::open(dir)?;
        let training = &config.training;
        let lengths = rows.iter().map(|row| row.example.ids.len()).collect();
        let packing = Packing::new(lengths, training.micro_batch_tokens, training.gradient_accumulation, config.seed);
        let data = Conversations {
            features: Features { decoder, cache: None },
            rows,
            held_out,
            packing,
            base: config.model.clone(),
            decoded_prompts: config.eval_decoded_prompts,
            decoded_tokens: config.eval_decoded_tokens,
            init_from: None,
            windows: Windows::default(),
        };
        let data = match training.window_tokens {
            Some(tokens) => data.in_windows(tokens),
            None => data,
        };
        Ok(Self { hash, checkpoint, model, data, longest, lm_head })
    }

    /// The LM head, held so.
    pub(super) fn lm_head(&self, held: Option<Frozen>) -> Result<Table, Failure> {
        let device = self.data.features.decoder.compute().device();
        match &self.lm_head {
            Some(shared) => Ok(shared.clone()),
            None => methods::lm_head(&self.checkpoint, &self.model, device, held).map_err(Failure::training),
        }
    }

    /// Heads with a loss each on it; `heads` makes them of its config and the longest conversation's length.
    ///
    /// # Errors
    /// When the LM head cannot be read or the settings of the training are wrong.
    pub fn heads<S: HeadStack>(
        self,
        config: &TrainConfig,
        heads: impl FnOnce(&ModelConfig, usize) -> S,
    ) -> Result<Job<HeadFitting<S>>, Failure> {
        let lm_head = self.lm_head(held_for_heads(config))?;
        let Self { model, data, longest, .. } = self;
        let fitting = HeadFitting { heads: heads(&model, longest), lm_head, data, shuffle: None };
        let fitting = match config.shuffle_buffer() {
            0 => fitting,
            buffer => fitting.shuffled(buffer, config.training.gradient_accumulation, config.seed),
        };
        Job::new(fitting, config)
    }

    /// An EAGLE draft layer on it.
    ///
    /// # Errors
    /// When the LM head cannot be read or the settings of the training are wrong.
    pub fn eagle(self, config: &TrainConfig, eagle: EagleConfig) -> Result<Job<EagleFitting>, Failure> {
        let lm_head = self.lm_head(Some(held(config, true)))?;
        let Self { model, data, longest, .. } = self;
        let network = EagleNetwork::new(EagleShape::of(&model, eagle.fc_bias), longest);
        let chunk_rows = config.chunk_rows;
        let objective = EagleFitting { network, config: eagle, lm_head, chunk_rows, seed: config.seed, data };
        Job::new(objective, config)
    }

    /// An EAGLE-3 draft layer on it.
    ///
    /// # Errors
    /// When the LM head cannot be read, the model has not the layers that are to be read, or the settings of
    /// the training are wrong.
    pub fn eagle3(self, config: &TrainConfig, eagle3: &Eagle3Config) -> Result<Job<Eagle3Fitting>, Failure> {
        let lm_head = self.lm_head(Some(held(config, false)))?;
        let Self { data, model, .. } = self;
        // A layer that is fitted further drafts the tokens that it drafted before.
        let start = config.init_from.as_deref().map(HeadsFolder::open).transpose()?;
        let vocabulary = start.map(|heads| vocabulary_of(&heads, model.vocab_size)).transpose()?.flatten();
        let objective = Eagle3Fitting::new(eagle3.clone(), data, lm_head, vocabulary, config.chunk_rows);
        Job::new(objective.map_err(Failure::training)?, config)
    }

    /// An adapter on an early exit of it.
    ///
    /// # Errors
    /// When the LM head cannot be read, the model has too few layers, or the settings of the training are wrong.
    pub fn kangaroo(self, config: &TrainConfig, kangaroo: KangarooConfig) -> Result<Job<KangarooFitting>, Failure> {
        let lm_head = self.lm_head(Some(held(config, true)))?;
        let objective = KangarooFitting::new(kangaroo, self.data, lm_head, config.chunk_rows);
        Job::new(objective.map_err(Failure::training)?, config)
    }

    /// A block drafter on it.
    ///
    /// # Errors
    /// When the LM head cannot be read, the model has not the layers that are to be read, or the settings of
    /// the training are wrong.
    pub fn block(self, config: &TrainConfig, block: &BlockConfig) -> Result<Job<BlockFitting>, Failure> {
        let lm_head = self.lm_head(Some(held(config, true)))?;
        let objective = BlockFitting::new(block.clone(), self.data, lm_head, config.chunk_rows, config.seed);
        Job::new(objective.map_err(Failure::training)?, config)
    }
}

/// Refuses weights that are to be fitted and are stored in a few bits, or in a GGUF file.
pub(super) fn refuse_quantised(dir: &Path, model: &ModelConfig) -> Result<(), Failure> {
    if gorgon_gguf::find(dir).map_err(Failure::input)?.is_some() {
        let message = format!("{}: weights in a GGUF file cannot be trained", dir.display());
        return Err(Failure::input(message).hint(FROZEN));
    }
    let Some(quantisation) = &model.quantisation else { return Ok(()) };
    let (dir, method) = (dir.display(), quantisation.method());
    let message = format!("{dir}: the checkpoint is quantised ({method}); only weights in floats can be trained");
    Err(Failure::input(message).hint(FROZEN))
}

/// The advice where a backbone's weights cannot be fitted.
const FROZEN: &str = "train heads that leave the backbone as it is, such as method = \"medusa\"";

/// The conversations to fit to and to measure on, and the hash of the backbone's files.
fn conversations(
    config: &TrainConfig,
    dir: &Path,
    settings: &Settings,
) -> Result<(Vec<Row>, Vec<Row>, String), Failure> {
    let model = ModelConfig::read(dir)?;
    let hash = files::weights_hash(dir)?;
    let read = |folder: &Path| read_folder(folder, dir, &model, &hash, settings);
    let mut rows = read(&config.data)?;
    let mut held_out = match &config.eval_data {
        Some(folder) => read(folder)?,
        None => {
            let (held, kept) = rows.into_iter().partition(|row| is_held_out(row, config));
            rows = kept;
            held
        }
    };
    rows.truncate(config.train_conversations.unwrap_or(usize::MAX));
    held_out.truncate(config.eval_conversations);
    for row in rows.iter_mut().chain(&mut held_out) {
        row.example.truncate(config.training.max_seq_len);
    }
    let rows = choose_labels(config, rows, &mut held_out)?;
    Ok((rows, held_out, hash))
}

/// Leaves the labels that the config names, and conversations with labels. Held-out answers count whole.
fn choose_labels(config: &TrainConfig, mut rows: Vec<Row>, held_out: &mut [Row]) -> Result<Vec<Row>, Failure> {
    held_out.iter_mut().for_each(|row| row.example.corrected = None);
    match config.labels {
        Labels::Answers => rows.iter_mut().for_each(|row| row.example.corrected = None),
        Labels::Corrected => {
            if let Some(row) = rows.iter().find(|row| row.example.corrected.is_none()) {
                let path = config.data.join(&row.shard);
                let message = format!("{}: row {} tells no corrected tokens", path.display(), row.row);
                return Err(Failure::input(message).hint("labels = \"corrected\" is for a log of --learn"));
            }
            rows.retain(|row| (0..row.example.ids.len()).any(|at| row.example.is_label(at)));
        }
    }
    Ok(rows)
}

/// Whether a conversation is held out. That depends on its own record alone: other data does not reshuffle the parts.
fn is_held_out(row: &Row, config: &TrainConfig) -> bool {
    SeededRandom::stream(config.seed, row.key).uniform() < config.held_out
}

/// Fails for a folder of shards that does not exist.
///
/// # Errors
/// Then, with the folder that was probably meant.
pub(super) fn check_folder(folder: &Path) -> Result<(), Failure> {
    absent::check(folder, "folder of shards").map_err(|failure| {
        let hint = format!("{} (gorgon distill writes shards)", failure.advice().unwrap_or_default());
        failure.hint(hint)
    })
}

/// All rows of a folder of shards, checked against the backbone.
fn read_folder(
    folder: &Path,
    dir: &Path,
    model: &ModelConfig,
    backbone_hash: &str,
    settings: &Settings,
) -> Result<Vec<Row>, Failure> {
    let mut rows = vec![];
    let tokenizer_hash = files::tokenizer_hash(dir).ok();
    let mut other_model = false;
    check_folder(folder)?;
    manifest::verify(folder)?;
    for path in shard::files(folder)? {
        let (part, metadata) = match shard::read(&path, model.vocab_size) {
            // A log of corrections gives up its oldest files while it grows.
            Err(ShardError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => continue,
            read => read?,
        };
        let of = |key: &str| metadata.get(&format!("gorgon.{key}"));
        if let (Some(theirs), Some(ours)) = (of("tokenizer_sha256"), &tokenizer_hash)
            && theirs != ours
        {
            let message = format!("{}: its ids were made with another tokenizer", path.display());
            return Err(Failure::input(message).hint("distil again with this model"));
        }
        other_model |= of("model_sha256").is_some_and(|hash| hash != backbone_hash);
        rows.extend(part);
    }
    if let Some(row) = rows.iter().find(|row| row.example.labels() == 0) {
        let message = format!("{}: row {} ({}): its loss mask is empty", folder.display(), row.row, row.id);
        return Err(Failure::input(message));
    }
    if other_model {
        let folder = folder.display();
        settings.console.say(format!("note: {folder} was made with other weights than this backbone's"));
    }
    Ok(rows)
}

/// How the frozen LM head is held that losses are computed with, and gradients, where they go back through it.
pub(super) fn held(config: &TrainConfig, backward: bool) -> Frozen {
    // The other half is for what is at work. Without panels sums are rounded in another order, as on another processor.
    let budget = load::free_memory().map_or(u64::MAX, |bytes| bytes / 2);
    Frozen { format: config.lm_head_format.into(), backward, budget }
}

/// Frozen LM head for heads of a kind; none where each head has an LM head of its own.
fn held_for_heads(config: &TrainConfig) -> Option<Frozen> {
    (!config.method.has_own_lm_heads()).then(|| held(config, true))
}

#[cfg(test)]
mod tests;
