//! Memory of a micro-batch at work, by formula: values and gradients of a draft layer or of heads, and logits.

use super::head_stack::HeadStack;
use gorgon_draft::block::BlockShape;
use gorgon_draft::layer::LayerShape;
use gorgon_draft::probes::ProbeShape;

/// Bytes for heads that read so many `rows`, with `at_once` rows of logits over a vocabulary.
pub fn of_heads(heads: &impl HeadStack, vocab_size: usize, at_once: usize, rows: usize, on_host: bool) -> usize {
    4 * (2 * at_once.min(rows) * vocab_size + rows * heads.values_per_row(on_host))
}

/// Bytes for an EAGLE layer over so many `tokens`: values and their gradients; logits of drafter and backbone, and a
/// product on the way.
pub fn of_eagle(layer: &LayerShape, at_once: usize, tokens: usize) -> usize {
    let values = 10 * layer.hidden_size + 2 * (layer.heads + layer.kv_heads) * layer.head_dim;
    let values = values + 4 * layer.intermediate_size;
    4 * (2 * tokens * values + 3 * at_once.min(tokens) * layer.vocab_size)
}

/// Bytes for an adapter on an early exit over so many `tokens`: values and their gradients; logits of adapter and
/// backbone, and a product on the way.
pub fn of_adapter(layer: &LayerShape, at_once: usize, tokens: usize) -> usize {
    let values = 8 * layer.hidden_size + 2 * (layer.heads + layer.kv_heads) * layer.head_dim;
    4 * (2 * tokens * values + 3 * at_once.min(tokens) * layer.vocab_size)
}

/// Bytes for an EAGLE-3 layer that is applied `steps` times over so many `tokens`: values and their gradients of every
/// application; logits of drafter and backbone, and a product on the way.
pub fn of_eagle3(layer: &LayerShape, draft_vocab: usize, steps: usize, at_once: usize, tokens: usize) -> usize {
    let values = 12 * layer.hidden_size + 2 * (layer.heads + layer.kv_heads) * layer.head_dim;
    let values = values + 4 * layer.intermediate_size;
    4 * (2 * tokens * values * steps + at_once.min(tokens) * (3 * draft_vocab + layer.vocab_size))
}

/// Bytes for a block drafter over so many `blocks` and `tokens`: values and their gradients of every slot in every
/// layer; hooked states, features, keys and values of the context; logits; pairs of the selector.
pub fn of_block(shape: &BlockShape, at_once: usize, blocks: usize, tokens: usize) -> usize {
    let (layer, slots) = (&shape.layer, blocks * shape.slots);
    let (d, keys) = (layer.hidden_size, layer.kv_heads * layer.head_dim);
    let values = if shape.conv { 32 * d } else { 12 * d };
    let values = values + 4 * (layer.heads * layer.head_dim + keys) + 4 * layer.intermediate_size;
    let pairs = shape.selector.map_or(0, |selector| 4 * slots * selector.k * selector.rank);
    let context = shape.hooks.len() * d + 2 * d + 3 * shape.layers * keys;
    4 * (2 * slots * values * shape.layers + 2 * tokens * context + 2 * at_once.min(slots) * layer.vocab_size + pairs)
}

/// Bytes for probes behind so many `positions` of so many `tokens` in a backbone of `layers` layers of this shape: values
/// and their gradients of every probe in every layer; states that enter the layers, keys and values of the context;
/// logits.
pub fn of_probes(
    shape: &ProbeShape,
    (layer, layers): (&LayerShape, usize),
    at_once: usize,
    positions: usize,
    tokens: usize,
) -> usize {
    let (d, keys) = (layer.hidden_size, layer.kv_heads * layer.head_dim);
    let (rows, values) = (positions * shape.places * shape.members, 12 * d + 4 * keys + 4 * layer.intermediate_size);
    let context = (layers + 1) * d + layers * (d + 4 * keys);
    let logits = 2 * at_once.min(positions) * layer.vocab_size;
    4 * (2 * rows * values * layers + 2 * tokens * context + logits)
}
