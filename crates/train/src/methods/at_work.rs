//! Memory of a micro-batch at work, by formula: values and gradients of a draft layer or of heads, and logits.

use super::head_stack::HeadStack;
use gorgon_draft::layer::LayerShape;

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

/// Bytes for an EAGLE-3 layer that is applied `steps` times over so many `tokens`: values and their gradients of every
/// application; logits of drafter and backbone, and a product on the way.
pub fn of_eagle3(layer: &LayerShape, draft_vocab: usize, steps: usize, at_once: usize, tokens: usize) -> usize {
    let values = 12 * layer.hidden_size + 2 * (layer.heads + layer.kv_heads) * layer.head_dim;
    let values = values + 4 * layer.intermediate_size;
    4 * (2 * tokens * values * steps + at_once.min(tokens) * (3 * draft_vocab + layer.vocab_size))
}
