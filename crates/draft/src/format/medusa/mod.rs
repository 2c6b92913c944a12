//! Medusa heads: `x + SiLU(linear(x))`, once per block, then a projection to the vocabulary.

mod naming;
mod vllm;

pub use naming::MedusaNaming;
pub(super) use naming::{HEADS, IN_MODEL, Part};

use super::HeadsFormat;
use super::config_hints::ConfigHints;
use super::head_spec::{LmHeads, MedusaSpec};
use super::specs::{Size, SizeHint, Sizes, Specs};
use super::tensor_index::{Report, TensorIndex, is_backbone, report_gap};
use std::collections::{BTreeMap, BTreeSet};

/// V1 if heads have projections of their own, V2 if they do not; where a file is damaged, what most heads have.
pub(super) fn plain_format(index: &TensorIndex<'_>) -> HeadsFormat {
    let heads = Heads::read(MedusaNaming::Sequential { prefix: "" }, index);
    let own = heads.0.values().filter(|head| head.lm_head).count();
    if own > 0 && 2 * own >= heads.0.len() { HeadsFormat::MedusaV1 } else { HeadsFormat::MedusaV2 }
}

/// Tensors of one head in a file.
#[derive(Default)]
struct Head {
    blocks: BTreeSet<usize>,
    bias: bool,
    lm_head: bool,
}

/// Heads by number.
struct Heads(BTreeMap<usize, Head>);

impl Heads {
    fn read(naming: MedusaNaming, index: &TensorIndex<'_>) -> Self {
        let mut heads: BTreeMap<usize, Head> = BTreeMap::new();
        for part in index.names().filter_map(|name| naming.part(name)) {
            match part {
                Part::Block { head, block, bias } => {
                    let head = heads.entry(head).or_default();
                    head.blocks.insert(block);
                    head.bias |= bias;
                }
                Part::LmHead { head } => heads.entry(head).or_default().lm_head = true,
            }
        }
        Self(heads)
    }

    fn report_blocks(&self, report: &mut Report) {
        let counts: Vec<(usize, usize)> = self.0.iter().map(|(&head, parts)| (head, parts.blocks.len())).collect();
        report_uneven(&counts, report);
    }
}

/// The number of blocks per head: the lower median, so that at least half of the heads have that many and an expected
/// list of tensors is at most about twice as long as the file's.
pub(super) fn blocks_per_head(counts: impl Iterator<Item = usize>) -> usize {
    let mut counts: Vec<usize> = counts.collect();
    counts.sort_unstable();
    counts.get(counts.len().saturating_sub(1) / 2).copied().unwrap_or(0).max(1)
}

/// Reports heads with different numbers of blocks, given as head and count.
pub(super) fn report_uneven(counts: &[(usize, usize)], report: &mut Report) {
    let Some(&(first, blocks)) = counts.first() else { return };
    if let Some(&(head, other)) = counts.iter().find(|(_, count)| *count != blocks) {
        report.problem(format!("heads differ: head {first} has {blocks} blocks, head {head} has {other}"));
    }
}

/// Compares Medusa heads with their format and config.
pub(super) fn check(
    format: HeadsFormat,
    index: &TensorIndex<'_>,
    hints: &ConfigHints<'_>,
    report: &mut Report,
) -> MedusaSpec {
    let vllm = format == HeadsFormat::MedusaVllm;
    let naming = MedusaNaming::of(format, index);
    let heads = Heads::read(naming, index);
    let blocks = blocks_per_head(heads.0.values().map(|head| head.blocks.len()));
    report_gap("head", 0, heads.0.keys().copied(), report);
    heads.report_blocks(report);

    let lm_heads = match format {
        HeadsFormat::MedusaV2 => LmHeads::Target,
        HeadsFormat::MedusaVllm => vllm::lm_heads(naming, index, hints),
        HeadsFormat::MedusaV1 | HeadsFormat::MedusaModelOpt | HeadsFormat::MedusaInModel => LmHeads::PerHead,
        // These are no Medusa heads.
        HeadsFormat::Eagle1
        | HeadsFormat::Eagle3
        | HeadsFormat::Eagle3Speculators
        | HeadsFormat::Eagle3ModelOpt
        | HeadsFormat::Hydra
        | HeadsFormat::HydraPlusPlus
        | HeadsFormat::Mtp
        | HeadsFormat::DFlash
        | HeadsFormat::DFlashSpeculators
        | HeadsFormat::Kangaroo
        | HeadsFormat::Probes(_) => LmHeads::Target,
    };
    // Only vLLM knows heads without biases.
    let bias = !vllm || heads.0.values().any(|head| head.bias);
    let layout = Layout { naming, blocks, bias, lm_heads };
    let specs = layout.specs(format, &heads);
    let mut named: Vec<SizeHint> = hints.size("hidden_size", Size::Hidden, report).into_iter().collect();
    if !vllm {
        named.extend(hints.size("vocab_size", Size::Vocab, report));
    }
    let sizes = specs.sizes(index, &named);
    let beside_model = matches!(format, HeadsFormat::MedusaInModel | HeadsFormat::MedusaModelOpt);
    specs.check(index, &sizes, |name| beside_model && is_backbone(name), report);
    sizes.check_hints(&named, report);
    let mut spec = layout.spec(heads.0.len(), &sizes);
    if vllm {
        vllm::check(&mut spec, &sizes, hints, report);
    }
    check_counts(format, &spec, hints, report);
    add_notes(format, &spec, index, hints, report);
    spec
}

/// Settings that decide which tensors heads have.
struct Layout {
    naming: MedusaNaming,
    blocks: usize,
    bias: bool,
    lm_heads: LmHeads,
}

impl Layout {
    fn specs(&self, format: HeadsFormat, heads: &Heads) -> Specs {
        let mut specs = Specs::default();
        for &head in heads.0.keys() {
            for block in 0..self.blocks {
                specs.linear(&self.naming.linear(head, block), Size::Hidden, Size::Hidden, self.bias);
            }
            if self.lm_heads == LmHeads::PerHead {
                specs.matrix(self.naming.lm_head(head, self.blocks), Size::Vocab, Size::Hidden);
            }
        }
        if let LmHeads::Shared { tensor } = &self.lm_heads {
            specs.matrix(tensor, Size::Vocab, Size::Hidden);
        }
        match format {
            HeadsFormat::MedusaVllm => vllm::add_token_map(self.naming, &mut specs),
            // The backbone beside the heads must be of their size.
            HeadsFormat::MedusaInModel | HeadsFormat::MedusaModelOpt => {
                specs.optional_matrix("model.embed_tokens.weight", Size::Vocab, Size::Hidden);
                specs.optional_matrix("lm_head.weight", Size::Vocab, Size::Hidden);
            }
            _ => {}
        }
        specs
    }

    fn spec(self, heads: usize, sizes: &Sizes) -> MedusaSpec {
        MedusaSpec {
            naming: self.naming,
            heads,
            blocks: self.blocks,
            hidden_size: sizes.or_zero(Size::Hidden),
            vocab_size: sizes.get(Size::Vocab),
            draft_vocab_size: None,
            lm_heads: self.lm_heads,
            bias: self.bias,
        }
    }
}

/// Compares the numbers of heads and blocks with the config. Published configs miscount heads (that of the vicuna-7b
/// heads says 2, the file has 5), so that is a note; another number of blocks moves the projection's name, so that
/// loaders which skip unknown names would leave it out.
fn check_counts(format: HeadsFormat, spec: &MedusaSpec, hints: &ConfigHints<'_>, report: &mut Report) {
    let vllm = format == HeadsFormat::MedusaVllm;
    let is = |key: &str, what: &str, names: &[&str]| {
        // vLLM takes any key with both words.
        names.contains(&key) || (vllm && key.contains("num") && key.contains(what))
    };
    let nested = hints.within("medusa");
    for hints in [hints, &nested] {
        for key in hints.keys() {
            if is(key, "heads", &["medusa_num_heads", "num_medusa_heads"]) {
                check_heads(key, spec, hints, report);
            } else if is(key, "layers", &["medusa_num_layers", "num_medusa_layers"]) {
                let named = hints.count(key, report).filter(|named| *named != spec.blocks);
                if let Some(named) = named {
                    let (key, found) = (hints.path(key), spec.blocks);
                    report.problem(format!("config.json: {key} is {named}, but heads have {found} blocks"));
                }
            }
        }
    }
}

fn check_heads(key: &str, spec: &MedusaSpec, hints: &ConfigHints<'_>, report: &mut Report) {
    let Some(named) = hints.heads(key, report).filter(|named| *named != spec.heads) else { return };
    let (path, found) = (hints.path(key), spec.heads);
    report.note(format!("config.json: {path} is {named}, but there are {found} heads; the tensors are believed"));
}

fn add_notes(
    format: HeadsFormat,
    spec: &MedusaSpec,
    index: &TensorIndex<'_>,
    hints: &ConfigHints<'_>,
    report: &mut Report,
) {
    if spec.blocks > 1 {
        let blocks = spec.blocks;
        let v2 = if format == HeadsFormat::MedusaV2 { " TGI takes V2 heads of one block only." } else { "" };
        report.note(format!(
            "{blocks} blocks per head: the original Medusa loader shares one block among them, so independent blocks \
             cannot be exported to it.{v2}"
        ));
    }
    match format {
        HeadsFormat::MedusaV1 | HeadsFormat::MedusaV2 if hints.given() => {
            if hints.get("architectures").is_some() {
                report.note("TGI will refuse these heads: config.json has `architectures`");
            }
            if hints.get("medusa_num_heads").is_none() {
                report.note("TGI will not recognise these heads: config.json has no `medusa_num_heads`");
            }
        }
        HeadsFormat::MedusaInModel if !index.names().any(is_backbone) => {
            report.note("the file holds the heads of a full model, but not the model");
        }
        _ => {}
    }
}
