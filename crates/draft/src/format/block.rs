//! Block drafters as z-lab publishes DFlash, and as speculators writes them: Qwen 3 decoder layers behind a projection
//! `fc` of the target's hidden states.
//!
//! | | z-lab | speculators |
//! |---|---|---|
//! | decoder layers | top of the config | `transformer_layer_config` |
//! | hooked layers | `dflash_config.target_layer_ids`, those that are left | `aux_hidden_state_layer_ids`, those that are entered: one more |
//! | slots | `block_size`, at the top or in `dflash_config` | `block_size` |
//! | sliding layers | causal unless `is_causal` or `dflash_config.causal` says otherwise | causal unless `sliding_window_non_causal` |
//! | embedding, LM head | the target's | copies of the target's, the LM head of the tokens that can be drafted |

use super::HeadsFormat;
use super::config_hints::ConfigHints;
use super::head_spec::BlockSpec;
use super::layer::{self, Layer};
use super::specs::{Kind, Size, Sizes, Specs};
use super::speculators;
use super::tensor_index::{Report, TensorIndex, numbered, report_gap, shown};
use serde_json::Value;
use std::collections::BTreeSet;

/// The config key of everything that is a block drafter's own.
const OWN: &str = "dflash_config";
/// Its keys.
const OWN_KEYS: [&str; 8] = [
    "mask_token_id",
    "target_layer_ids",
    "block_size",
    "causal",
    "conv_group_size",
    "conv_kernel_size",
    "selector_top_k",
    "selector_rank",
];
/// Prefix of the selector's tensors.
const SELECTOR: &str = "candidate_selector.";
/// Parts of the names of a layer's convolutions.
const CONVOLUTIONS: [&str; 2] = ["attention_conv", "mlp_conv"];
/// Channels of a convolution that share a coefficient, and its taps.
const CONVOLUTION: [(&str, usize); 2] = [("conv_group_size", 16), ("conv_kernel_size", 2)];
/// The most slots of a block.
const MOST_SLOTS: usize = 256;

/// Whether tensors that begin with a decoder layer are a block drafter. One stray or missing tensor must not decide, so
/// what only block drafters have is counted.
pub(super) fn is_block(index: &TensorIndex<'_>, hints: &ConfigHints<'_>) -> bool {
    let named =
        ["hidden_norm.weight", "layers.0.self_attn.q_norm.weight"].iter().filter(|name| index.has(name)).count();
    named + usize::from(hints.within(OWN).given()) >= 2
}

/// Who wrote a block drafter.
pub(super) fn format(hints: &ConfigHints<'_>) -> HeadsFormat {
    match hints.get("speculators_model_type").or(hints.get("speculators_config")) {
        Some(_) => HeadsFormat::DFlashSpeculators,
        None => HeadsFormat::DFlash,
    }
}

/// A config, sorted by who reads which part of it.
struct Config<'a> {
    /// The whole.
    top: ConfigHints<'a>,
    /// Keys that are a block drafter's own.
    own: ConfigHints<'a>,
    /// The decoder layers'.
    layers: ConfigHints<'a>,
    nested: bool,
}

impl<'a> Config<'a> {
    fn new(format: HeadsFormat, hints: &ConfigHints<'a>) -> Self {
        let nested = format == HeadsFormat::DFlashSpeculators;
        let (own, layers) = match nested {
            true => (hints.clone(), hints.within(speculators::LAYERS)),
            false => (hints.within(OWN), hints.clone()),
        };
        Self { top: hints.clone(), own, layers, nested }
    }
}

fn layers_of(index: &TensorIndex<'_>) -> BTreeSet<usize> {
    index.names().filter_map(|name| numbered(name.strip_prefix("layers.")?)).map(|(layer, _)| layer).collect()
}

fn layer_of(number: usize) -> Layer {
    Layer {
        prefix: format!("layers.{number}."),
        attention_input: Size::Hidden.into(),
        norms: &["input_layernorm", "post_attention_layernorm"],
    }
}

/// Compares a block drafter with its format and config.
pub(super) fn check(
    format: HeadsFormat,
    index: &TensorIndex<'_>,
    hints: &ConfigHints<'_>,
    report: &mut Report,
) -> BlockSpec {
    let config = Config::new(format, hints);
    let numbers = layers_of(index);
    report_gap("layer", 0, numbers.iter().copied(), report);
    // speculators has no place for them.
    let second = |part: &str| !config.nested && index.names().any(|name| name.contains(part));
    let (conv, selects) = (CONVOLUTIONS.iter().any(|part| second(part)), second(SELECTOR));
    let specs = specs(&numbers, (conv, selects), config.nested, index);
    let (sizes, vocab_size) = check_sizes(&specs, index, &config, report);
    let own = Own::read(numbers.len(), &config, report);
    check_features(own.hook_layers.len(), &sizes, report);
    let selector = match config.nested {
        true => {
            check_speculators(format, vocab_size, &config, (index, &sizes), report);
            None
        }
        false => {
            check_convolutions(conv, &sizes, &config, report);
            selector(selects, &sizes, &config, report)
        }
    };
    BlockSpec {
        layers: numbers.len(),
        hidden_size: sizes.or_zero(Size::Hidden),
        vocab_size,
        target_layers: if config.nested { None } else { hints.count("num_target_layers", report) },
        hook_layers: own.hook_layers,
        slots: own.slots,
        mask_token: own.mask_token,
        causal: own.causal,
        windows: own.windows,
        conv,
        selector,
        own_embedding: config.nested && index.has("embed_tokens.weight"),
        draft_vocab_size: index.get("lm_head.weight").and_then(|_| sizes.get(Size::Draft)),
        vocab_map: config.nested && index.has("d2t"),
        layer: layer_of(0).spec(index, &sizes),
    }
}

/// Compares tensors and the sizes that a config names. Gives the sizes, and that of the vocabulary where anything tells.
fn check_sizes(
    specs: &Specs,
    index: &TensorIndex<'_>,
    config: &Config<'_>,
    report: &mut Report,
) -> (Sizes, Option<usize>) {
    let mut named = layer::hints(&config.layers, report);
    if config.nested {
        named.extend(config.top.size("draft_vocab_size", Size::Draft, report));
    }
    let sizes = specs.sizes(index, &named);
    specs.check(index, &sizes, |_| false, report);
    sizes.check_hints(&named, report);
    if !config.top.given() {
        report.problem("no config.json: the block size, the mask token and the hooked layers are unknown");
    }
    let hint = named.iter().find(|hint| hint.size == Size::Vocab).map(|hint| hint.value);
    let vocab_size = sizes.get(Size::Vocab).or(hint);
    (sizes, vocab_size)
}

/// The tensors of layers with these numbers, with convolutions and a selector if there are any, and with copies of the
/// target's embedding and LM head.
fn specs(numbers: &BTreeSet<usize>, (conv, selects): (bool, bool), has_copies: bool, index: &TensorIndex<'_>) -> Specs {
    let mut specs = Specs::default();
    specs.linear("fc", Size::Hidden, Size::Features, false);
    specs.vector("hidden_norm.weight", Size::Hidden);
    specs.vector("norm.weight", Size::Hidden);
    for &number in numbers {
        layer_of(number).add(&mut specs, index, false);
        for name in ["q_norm", "k_norm"].map(|norm| format!("layers.{number}.self_attn.{norm}.weight")) {
            specs.vector(name, Size::HeadDim);
        }
        for name in CONVOLUTIONS.map(|name| format!("layers.{number}.{name}.")).iter().filter(|_| conv) {
            specs.tensor(format!("{name}base_kernel"), &[Size::Pair, Size::Pair, Size::Hidden]);
            specs.matrix(format!("{name}kernel_projection.weight"), Size::Coefficients, Size::Hidden);
        }
    }
    if selects {
        specs.matrix(format!("{SELECTOR}predecessor_codebook"), Size::Vocab, Size::Rank);
        specs.matrix(format!("{SELECTOR}successor_codebook"), Size::Vocab, Size::Rank);
        specs.matrix(format!("{SELECTOR}hidden_projection.weight"), Size::Rank, Size::Hidden);
    }
    if has_copies {
        // Newer writers leave the LM head out where all tokens can be drafted.
        specs.optional_matrix("lm_head.weight", Size::Draft, Size::Hidden);
        specs.optional_matrix("embed_tokens.weight", Size::Vocab, Size::Hidden);
        specs.optional_list("d2t", Kind::Id, Size::Draft);
        specs.optional_list("t2d", Kind::Mask, Size::Vocab);
    }
    specs
}

/// Keys of speculators, and those of other methods' that share its names.
fn check_speculators(
    format: HeadsFormat,
    vocab_size: Option<usize>,
    config: &Config<'_>,
    (index, sizes): (&TensorIndex<'_>, &Sizes),
    report: &mut Report,
) {
    speculators::check("dflash", &config.top, report);
    speculators::check_vocabularies(format, vocab_size, &config.top, (index, sizes), report);
    for key in ["sample_from_anchor", "shift_label"] {
        if config.top.flag(key, report) == Some(true) {
            let reason = "and slots that guess the token after them are not supported";
            report.problem(format!("config.json: {key} is true, {reason}"));
        }
    }
    let drafted = config.top.get("draft_vocab_size").and_then(Value::as_u64);
    if !index.has("lm_head.weight") && drafted.is_some_and(|drafted| Some(drafted) != vocab_size.map(|n| n as u64)) {
        report.problem("missing: lm_head.weight, as some tokens cannot be drafted");
    }
    let slides = config.layers.get("layer_types").is_some_and(|types| types.to_string().contains("sliding"));
    if slides && config.top.get("sliding_window_non_causal").is_none() {
        report.note("sliding_window_non_causal is absent: speculators reads it as false, some engines as true");
    }
    if let (Some(target), Some(hidden)) = (config.top.count("target_hidden_size", report), sizes.get(Size::Hidden))
        && target != hidden
    {
        report
            .problem(format!("config.json: target_hidden_size is {target}, but the drafter's hidden size is {hidden}"));
    }
}

/// `fc` reads all hidden states side by side.
fn check_features(hooks: usize, sizes: &Sizes, report: &mut Report) {
    let (Some(features), Some(hidden)) = (sizes.get(Size::Features), sizes.get(Size::Hidden)) else { return };
    if hooks > 0 && hidden.checked_mul(hooks) != Some(features) {
        report.problem(format!(
            "wrong shape: fc.weight reads {features} features, not {hooks} hidden states of hidden_size {hidden}"
        ));
    }
}

/// Convolutions have two sides of two taps, and a coefficient for every 16 channels.
fn check_convolutions(conv: bool, sizes: &Sizes, config: &Config<'_>, report: &mut Report) {
    let own = &config.own;
    for (key, expected) in CONVOLUTION {
        match own.count(key, report) {
            Some(found) if found != expected => {
                report.problem(format!("config.json: {OWN}.{key} is {found}, and {expected} is supported"));
            }
            Some(_) if !conv => {
                report.problem(format!("config.json: {OWN}.{key} belongs to convolutions, but the file has none"))
            }
            _ => {}
        }
    }
    if let Some(pair) = sizes.get(Size::Pair).filter(|pair| *pair != 2) {
        report.problem(format!("wrong shape: *_conv.base_kernel has {pair} sides or taps, not 2"));
    }
    if let (Some(coefficients), Some(hidden)) = (sizes.get(Size::Coefficients), sizes.get(Size::Hidden))
        && coefficients.checked_mul(4) != Some(hidden)
    {
        report.problem(format!(
            "wrong shape: *_conv.kernel_projection.weight has {coefficients} rows, not 4 for every 16 of {hidden} channels"
        ));
    }
}

/// Candidates and rank of the selector.
fn selector(selects: bool, sizes: &Sizes, config: &Config<'_>, report: &mut Report) -> Option<(usize, usize)> {
    let own = &config.own;
    let (k, rank) = (own.heads("selector_top_k", report), own.count("selector_rank", report));
    if !selects {
        if k.is_some() || rank.is_some() {
            report.problem(format!("config.json: {OWN} names a selector, but the file has no {SELECTOR}*"));
        }
        return None;
    }
    if let (Some(rank), Some(found)) = (rank, sizes.get(Size::Rank))
        && rank != found
    {
        report.problem(format!("config.json: {OWN}.selector_rank is {rank}, but the tensors say {found}"));
    }
    if k.is_none() && config.top.given() && own.get("selector_top_k").is_none() {
        report.problem(format!("config.json: {OWN}.selector_top_k is absent"));
    }
    Some((k.unwrap_or(0), sizes.or_zero(Size::Rank)))
}

/// Keys of the config that are a block drafter's own.
struct Own {
    hook_layers: Vec<usize>,
    slots: usize,
    mask_token: usize,
    causal: Vec<bool>,
    windows: Vec<Option<usize>>,
}

impl Own {
    fn read(layers: usize, config: &Config<'_>, report: &mut Report) -> Self {
        let own = &config.own;
        for key in own.keys().filter(|key| !config.nested && !OWN_KEYS.contains(key)) {
            report.problem(format!("config.json: {OWN}.{} is not supported", shown(key)));
        }
        if let Some(named) = config.layers.count("num_hidden_layers", report).filter(|named| *named != layers) {
            let key = config.layers.path("num_hidden_layers");
            report.problem(format!("config.json: {key} is {named}, but the tensors are of {layers} layers"));
        }
        let windows = windows(layers, config, report);
        Self {
            hook_layers: hook_layers(config, report),
            slots: slots(config, report),
            mask_token: required(mask_token(own, report), "mask_token_id", config, report).unwrap_or(0),
            causal: causal(config, &windows, report),
            windows,
        }
    }
}

/// The hooked layers, as those that are entered.
fn hook_layers(config: &Config<'_>, report: &mut Report) -> Vec<usize> {
    let (key, more) = if config.nested { ("aux_hidden_state_layer_ids", 0) } else { ("target_layer_ids", 1) };
    let named = required(config.own.layers(key, report), key, config, report);
    if named.as_ref().is_some_and(Vec::is_empty) {
        report.problem(format!("config.json: {} is empty", config.own.path(key)));
    }
    named.unwrap_or_default().iter().map(|layer| layer.saturating_add(more)).collect()
}

/// Reports a key that nothing can stand for.
fn required<T>(value: Option<T>, key: &str, config: &Config<'_>, report: &mut Report) -> Option<T> {
    if value.is_none() && config.top.given() && config.own.get(key).is_none() {
        let path = if config.nested { key.into() } else { format!("{OWN}.{key}") };
        report.problem(format!("config.json: {path} is absent"));
    }
    value
}

fn mask_token(own: &ConfigHints<'_>, report: &mut Report) -> Option<usize> {
    let value = own.get("mask_token_id")?;
    let token = value.as_u64().and_then(|token| u32::try_from(token).ok());
    if token.is_none() {
        let found = shown(&value.to_string());
        report.problem(format!("config.json: {} is {found}, not a token id", own.path("mask_token_id")));
    }
    token.map(|token| token as usize)
}

/// Slots of a block: at the top, or inside in newer files.
fn slots(config: &Config<'_>, report: &mut Report) -> usize {
    let Config { top: hints, own, nested, .. } = config;
    let inner = if *nested { None } else { own.count("block_size", report) };
    let top = hints.count("block_size", report);
    if let (Some(top), Some(inner)) = (top, inner)
        && top != inner
    {
        report.problem(format!("config.json: block_size is {top}, but {OWN}.block_size is {inner}"));
    }
    match top.or(inner) {
        Some(slots) if (2..=MOST_SLOTS).contains(&slots) => slots,
        Some(slots) => {
            report.problem(format!("config.json: block_size is {slots}, not from 2 to {MOST_SLOTS}"));
            0
        }
        None => {
            if hints.given() && hints.get("block_size").is_none() && own.get("block_size").is_none() {
                report.problem("config.json: block_size is absent");
            }
            0
        }
    }
}

/// The sliding window of each layer.
fn windows(layers: usize, config: &Config<'_>, report: &mut Report) -> Vec<Option<usize>> {
    let (hints, full) = (&config.layers, vec![None; layers]);
    let Some(types) = hints.get("layer_types") else { return full };
    let sliding = |kind: &Value| match kind.as_str() {
        Some("sliding_attention") => Some(true),
        Some("full_attention") => Some(false),
        _ => None,
    };
    let sliding: Option<Vec<bool>> = types.as_array().and_then(|types| types.iter().map(sliding).collect());
    let Some(sliding) = sliding.filter(|sliding| sliding.len() == layers) else {
        report.problem(format!(
            "config.json: layer_types is {}, not sliding_attention or full_attention for each of {layers} layers",
            shown(&types.to_string())
        ));
        return full;
    };
    let window = hints.count("sliding_window", report);
    if window.is_none() && sliding.contains(&true) && hints.get("sliding_window").is_none() {
        report.problem("config.json: layer_types has sliding_attention, but sliding_window is absent");
    }
    sliding.into_iter().map(|sliding| window.filter(|_| sliding)).collect()
}

/// Whether the slots of each layer see the slots before them only. Sliding layers are causal unless a key says
/// otherwise, as in vLLM; with speculators full ones never are.
fn causal(config: &Config<'_>, windows: &[Option<usize>], report: &mut Report) -> Vec<bool> {
    if config.nested {
        let sliding = !config.top.flag("sliding_window_non_causal", report).unwrap_or(false);
        return windows.iter().map(|window| sliding && window.is_some()).collect();
    }
    let named = config.top.flag("is_causal", report).or(config.own.flag("causal", report));
    windows.iter().map(|window| named.unwrap_or(window.is_some())).collect()
}
