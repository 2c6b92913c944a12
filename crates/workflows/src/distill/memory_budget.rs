//! The drafter of a distillation, and how many conversations fit into memory at a time.

use crate::drafting::{DrafterChoice, Drafting};
use crate::failure::Failure;
use crate::load;
use crate::settings::Settings;
use crate::units::bytes;
use gorgon_core::accept::RuleChoice;
use gorgon_core::dist::Transform;
use gorgon_core::tree::TreeChoice;
use gorgon_data::config::{Answers, BatchSize, DistillConfig};
use gorgon_model::cache::KvCache;
use gorgon_model::config::ModelConfig;
use gorgon_model::device::{Compute, DraftWeights};
use gorgon_model::layout;
use gorgon_model::weights::Checkpoint;
use std::path::Path;

/// Rows of a step beyond which decoding gets hardly faster: on a CPU, arithmetic bounds it from a few dozen rows on.
const USEFUL_ROWS: (usize, usize) = (32, 512);
/// Conversations at a time where nothing bounds them: servers, and devices that do not say what memory they have.
pub const UNBOUNDED: usize = 16;
/// Share of what is available that is taken, in percent: other programs live too.
const TAKEN: u128 = 90;

/// The drafter, or `None` for plain decoding.
///
/// # Errors
/// When names or heads are wrong, or there is nothing to draft for.
pub fn drafting(
    config: &DistillConfig,
    model: &Path,
    transform: Transform,
    settings: &Settings,
) -> Result<Option<Drafting>, Failure> {
    let wrong = |key: &str, reason: String| Failure::input(format!("{key}: {reason}"));
    let choice = config.drafter.as_deref().map_or(Ok(DrafterChoice::Auto), str::parse);
    let choice = match choice.map_err(|reason| wrong("drafter", reason))? {
        // Steps of many sequences say nothing of what one drafter takes.
        DrafterChoice::Auto if config.heads.is_none() => DrafterChoice::None,
        choice => choice,
    };
    let tree = config.tree.as_deref().map(|name| name.parse::<TreeChoice>().map_err(|e| wrong("tree", e.to_string())));
    let tree = tree.transpose()?;
    let named = config.heads.is_some() || !matches!(choice, DrafterChoice::Auto | DrafterChoice::None);
    if named && config.is_served() {
        return Err(wrong("drafter", "servers draft for themselves; this needs the model here".into()));
    }
    if named && config.answers == Answers::Data {
        return Err(wrong("drafter", "given answers are not decoded".into()));
    }
    if let DrafterChoice::Oracle(_) = choice {
        return Err(wrong("drafter", "an oracle has to know the answers; it is for measuring".into()));
    }
    if settings.formats.integers.draft_weights != DraftWeights::Stored
        && config.heads.is_none()
        && !choice.has_weights()
    {
        return Err(Failure::input(format!("--draft-weights has no effect: drafter {choice} has no weights")));
    }
    let drafting = Drafting::resolve(config.heads.as_deref(), &choice, tree.as_ref(), &settings.console)?;
    if drafting.live_store().is_some() && !transform.is_greedy() {
        let reason =
            format!("{choice}: a live store makes sampled answers depend on the ones before; sample without it");
        return Err(wrong("drafter", reason));
    }
    let drafting = drafting.for_text_of(model, (RuleChoice::Auto, transform), &settings.console)?;
    Ok(Some(drafting).filter(|drafting| !drafting.is_plain()))
}

/// Memory of a job.
pub struct MemoryBudget {
    /// Conversations at a time.
    pub slots: usize,
    /// Bytes of weights, those that draft included.
    pub weights: u128,
    /// Bytes that copies of LM heads may take, which find top tokens.
    pub copies: u64,
    /// Bytes that each conversation takes at most: caches, and the logits of its rows.
    pub each: u128,
    /// Bytes of a token in a cache.
    pub per_token: u64,
}

impl MemoryBudget {
    /// For a config's batch size, with conversations of so many tokens; `greedy` if only top-1 tokens are
    /// needed.
    ///
    /// # Errors
    /// When the weights and one conversation, or as many as were requested, do not fit the memory that the config
    /// grants.
    pub fn new(
        config: &DistillConfig,
        (dir, model): (&Path, &ModelConfig),
        capacity: usize,
        (drafting, greedy): (Option<&Drafting>, bool),
        compute: &Compute,
    ) -> Result<Self, Failure> {
        let nodes = drafting.map_or(1, Drafting::max_nodes);
        let cache = KvCache::bytes(model, compute, capacity + nodes);
        let (draft_weights, cached) = match drafting {
            Some(drafting) => drafting.memory(model, compute, capacity + nodes)?,
            None => (0, 0),
        };
        let by_shape = || match config.is_served() {
            true => 0,
            false => 2 * layout::tensors(model).iter().map(|spec| spec.shape.iter().product::<usize>()).sum::<usize>(),
        };
        // Before there are weights, a plan counts them in 16 bits.
        let loaded = Checkpoint::open(dir).map_or_else(|_| by_shape(), |checkpoint| checkpoint.loaded_bytes(compute));
        let (weights, each) = (loaded as u128 + draft_weights, cache + cached + 4 * (nodes * model.vocab_size) as u128);
        let granted = config.memory_mib.map(|mib| u128::from(mib) << 20);
        let available = load::available_memory(compute);
        let memory = granted.or(available.map(|bytes| u128::from(bytes) * TAKEN / 100));
        let left = memory.map(|memory| memory.saturating_sub(weights));
        let rows = if compute.is_host() { USEFUL_ROWS.0 } else { USEFUL_ROWS.1 };
        let copies = Drafting::copies(drafting, model, greedy, compute);
        let Shared { slots, copies, fits } = Shared::of(left, each, copies, config.batch_size, rows / nodes);
        match (granted, fits) {
            (Some(granted), Some(fits)) if fits < slots => Err(Self::too_small(granted, weights, each, slots, fits)),
            _ => {
                let per_token = u64::try_from((cache + cached) / (capacity + nodes).max(1) as u128).unwrap_or(u64::MAX);
                Ok(Self { slots, weights, copies, each, per_token })
            }
        }
    }

    /// Bytes with so many conversations at a time.
    pub fn bytes(&self, slots: usize) -> u64 {
        u64::try_from(self.weights + u128::from(self.copies) + self.each * slots as u128).unwrap_or(u64::MAX)
    }

    fn too_small(granted: u128, weights: u128, each: u128, slots: usize, fits: usize) -> Failure {
        let size = |n: u128| bytes(u64::try_from(n).unwrap_or(u64::MAX));
        let needed = weights + each * slots as u128;
        let message = format!(
            "memory_mib = {}: {} of weights and {slots} conversations of {} each take {}; {} fit",
            granted >> 20,
            size(weights),
            size(each),
            size(needed),
            if fits == 0 { "none".to_owned() } else { fits.to_string() }
        );
        let hint = match fits {
            0 => "one conversation does not fit: lower max_tokens, or grant more".to_owned(),
            fits => format!("batch_size = {fits} fits, and batch_size = \"auto\" finds it"),
        };
        Failure::input(message).hint(hint)
    }
}

/// How memory is shared between conversations and copies of LM heads.
#[derive(Debug, PartialEq)]
struct Shared {
    slots: usize,
    copies: u64,
    /// Conversations that fit, where that is known.
    fits: Option<usize>,
}

impl Shared {
    /// Shares what is left beside the weights, where that is known. As when a model is loaded, copies may take a
    /// quarter of it; and none is made that would take a conversation's place, since decoding goes without.
    fn of(left: Option<u128>, each: u128, wanted: [u64; 2], size: BatchSize, useful: usize) -> Self {
        let quarter = left.map_or(u128::MAX, |left| left / 4);
        let taken = |sum: u64, bytes: u64| sum + if u128::from(sum) + u128::from(bytes) <= quarter { bytes } else { 0 };
        let with = |copies: u64| {
            let held = |left: u128| left.saturating_sub(copies.into()) / each.max(1);
            let fits = left.map(|left| usize::try_from(held(left)).unwrap_or(usize::MAX));
            let slots = match (size, fits) {
                (BatchSize::Conversations(n), _) => n,
                (BatchSize::Auto, None) => UNBOUNDED,
                (BatchSize::Auto, Some(fits)) => fits.min(useful).max(1),
            };
            Self { slots, copies, fits }
        };
        let shared = with(wanted.into_iter().fold(0, taken));
        if shared.fits.is_some_and(|fits| fits < shared.slots) { with(0) } else { shared }
    }
}

#[cfg(test)]
mod tests;
