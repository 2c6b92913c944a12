//! Hydra heads, and Hydra++'s prefix-attention layer.

mod naming;

pub use naming::HydraNaming;
pub(super) use naming::PREFIX_LAYER;

use super::HeadsFormat;
use super::config_hints::ConfigHints;
use super::head_spec::{HydraSpec, LmHeads};
use super::layer::Layer;
use super::medusa::{blocks_per_head, report_uneven};
use super::specs::{Dim, Size, SizeHint, Specs};
use super::tensor_index::{Report, TensorIndex, number, numbered, report_gap, shown};
use std::collections::{BTreeMap, BTreeSet};

/// The reference implementation registers the target's embedding table as a part of the heads, so files hold a copy.
const EMBEDDING_COPY: &str = "input_embed_fn.weight";

/// Tensors of one head in a file.
#[derive(Default)]
struct Head {
    /// Numbers as they stand in the names: in Hydra++ every other one, since dropouts are counted too.
    blocks: BTreeSet<usize>,
    res_connection: bool,
    lm_head: bool,
}

/// Whether `hydra_lm_head.{i}.` is followed by the 1 of a projection behind a dropout.
fn lm_head(name: &str) -> Option<(usize, bool)> {
    let (head, rest) = numbered(name.strip_prefix("hydra_lm_head.")?)?;
    Some((head, rest.starts_with("1.")))
}

/// Hydra++ if there is a prefix layer, or most projections are behind a dropout.
pub(super) fn format(index: &TensorIndex<'_>) -> HeadsFormat {
    let prefix = index.names().any(|name| name.starts_with(PREFIX_LAYER));
    let (behind, plain): (Vec<_>, Vec<_>) =
        index.names().filter_map(lm_head).partition(|(_, behind_dropout)| *behind_dropout);
    if prefix || behind.len() > plain.len() { HeadsFormat::HydraPlusPlus } else { HeadsFormat::Hydra }
}

fn read(index: &TensorIndex<'_>) -> BTreeMap<usize, Head> {
    let mut heads: BTreeMap<usize, Head> = BTreeMap::new();
    for name in index.names() {
        if let Some((head, _)) = lm_head(name) {
            heads.entry(head).or_default().lm_head = true;
        }
        let Some((head, rest)) = name.strip_prefix("hydra_mlp.").and_then(numbered) else { continue };
        let head = heads.entry(head).or_default();
        if let Some(block) = rest.strip_suffix(".linear.weight").and_then(number) {
            head.blocks.insert(block);
        }
        head.res_connection |= rest.ends_with(".res_connection.weight");
    }
    heads
}

/// Compares Hydra heads with their format and config.
pub(super) fn check(
    format: HeadsFormat,
    index: &TensorIndex<'_>,
    hints: &ConfigHints<'_>,
    report: &mut Report,
) -> HydraSpec {
    let heads = read(index);
    let blocks = blocks_per_head(heads.values().map(|head| head.blocks.len()));
    report_gap("head", 0, heads.keys().copied(), report);
    let counts: Vec<_> = heads.iter().map(|(&head, parts)| (head, parts.blocks.len())).collect();
    report_uneven(&counts, report);

    // Only grounded heads need a way around the first block's change of width.
    let grounded = 2 * heads.values().filter(|head| head.res_connection).count() >= heads.len().max(1);
    let own = heads.values().any(|head| head.lm_head);
    let prefix_layer = (format == HeadsFormat::HydraPlusPlus).then(prefix_layer);
    let layout = Layout { blocks, grounded, own, prefix_layer };
    let specs = layout.specs(heads.keys().copied(), index);
    let sizes_of = [("hidden_size", Size::Hidden), ("vocab_size", Size::Vocab)];
    let named: Vec<SizeHint> = sizes_of.iter().filter_map(|(key, size)| hints.size(key, *size, report)).collect();
    let sizes = specs.sizes(index, &named);
    specs.check(index, &sizes, |_| false, report);
    sizes.check_hints(&named, report);
    let spec = HydraSpec {
        heads: heads.len(),
        blocks,
        hidden_size: sizes.or_zero(Size::Hidden),
        vocab_size: sizes.get(Size::Vocab),
        lm_heads: if own { LmHeads::PerHead } else { LmHeads::Target },
        grounded,
        prefix_layer: layout.prefix_layer.map(|layer| layer.spec(index, &sizes)),
    };
    check_config(&spec, hints, report);
    add_notes(&spec, index, report);
    spec
}

fn prefix_layer() -> Layer {
    Layer {
        prefix: HydraNaming { dropouts: true }.prefix_layer(),
        attention_input: Size::Hidden.into(),
        norms: &["input_layernorm", "post_attention_layernorm"],
    }
}

/// Settings that decide which tensors heads have.
struct Layout {
    blocks: usize,
    grounded: bool,
    /// Whether heads have projections to the vocabulary.
    own: bool,
    /// The prefix-attention layer; with it, dropouts are counted in the names.
    prefix_layer: Option<Layer>,
}

impl Layout {
    fn specs(&self, heads: impl Iterator<Item = usize>, index: &TensorIndex<'_>) -> Specs {
        let mut specs = Specs::default();
        for head in heads {
            self.add_head(&mut specs, head);
        }
        specs.optional_matrix(EMBEDDING_COPY, Size::Vocab, Size::Hidden);
        if let Some(layer) = &self.prefix_layer {
            layer.add(&mut specs, index, false);
            specs.vector(HydraNaming { dropouts: true }.prefix_norm(), Size::Hidden);
            // The layer is fed hidden states, so its embedding table is never read.
            specs.optional_matrix(format!("{PREFIX_LAYER}embed_tokens.weight"), Size::Vocab, Size::Hidden);
        }
        specs
    }

    /// Head `i`, grounded, reads the hidden state and the embeddings of `i + 1` tokens: its first block is
    /// `[H, (i + 2) H]`.
    fn add_head(&self, specs: &mut Specs, head: usize) {
        let naming = HydraNaming { dropouts: self.prefix_layer.is_some() };
        for block in 0..self.blocks {
            let first = self.grounded && block == 0;
            let d_in: Dim = Size::Hidden.times(if first { head.saturating_add(2) } else { 1 });
            specs.linear(&naming.block(head, block), Size::Hidden, d_in, true);
            if first {
                specs.linear(&naming.residual(head), Size::Hidden, d_in, true);
            }
        }
        if self.own {
            specs.linear(&naming.lm_head(head), Size::Vocab, Size::Hidden, true);
        }
    }
}

fn check_config(spec: &HydraSpec, hints: &ConfigHints<'_>, report: &mut Report) {
    if let Some(heads) = hints.heads("hydra_num_heads", report).filter(|heads| *heads != spec.heads) {
        let found = spec.heads;
        report.note(format!("config.json: hydra_num_heads is {heads}, but there are {found} heads"));
    }
    if let Some(blocks) = hints.count("hydra_num_layers", report).filter(|blocks| *blocks != spec.blocks) {
        let found = spec.blocks;
        report.problem(format!("config.json: hydra_num_layers is {blocks}, but heads have {found} blocks"));
    }
    if let Some(grounded) = hints.flag("grounded_heads", report).filter(|grounded| *grounded != spec.grounded) {
        report.problem(format!("config.json: grounded_heads is {grounded}, but the tensors say {}", spec.grounded));
    }
    let arch = if spec.prefix_layer.is_some() { "prefix-mlp" } else { "mlp" };
    if let Some(named) = hints.text("hydra_head_arch").filter(|named| *named != arch) {
        report.problem(format!("config.json: hydra_head_arch is {}, but the tensors are {arch}", shown(named)));
    }
}

fn add_notes(spec: &HydraSpec, index: &TensorIndex<'_>, report: &mut Report) {
    // The first block of a grounded head is its own, all others are one shared object.
    let independent = if spec.grounded { 2 } else { 1 };
    if spec.blocks > independent {
        report.note(format!(
            "{} blocks per head: the original Hydra loader shares one block among {}, so independent blocks cannot be \
             exported to it.",
            spec.blocks,
            if spec.grounded { "all but the first" } else { "them" },
        ));
    }
    if spec.lm_heads == LmHeads::Target {
        report.note("no LM heads: the target's is used here, but the original Hydra loader needs one per head");
    }
    if index.has(EMBEDDING_COPY) {
        report.note(format!("{EMBEDDING_COPY} is a copy of the target's embedding and is ignored"));
    }
}
