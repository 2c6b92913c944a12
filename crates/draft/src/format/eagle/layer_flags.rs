//! Config flags of a draft's one layer.

use crate::format::config_hints::ConfigHints;
use crate::format::tensor_index::Report;

/// The names hold one layer. Loaders construct biases on its query, key and value projections only if a flag says so,
/// and skip them otherwise.
pub(super) fn check_layer(qkv_bias: bool, hints: &ConfigHints<'_>, report: &mut Report) {
    if let Some(layers) = hints.count("num_hidden_layers", report).filter(|layers| *layers != 1) {
        let key = hints.path("num_hidden_layers");
        report.problem(format!("config.json: {key} is {layers}, but a draft has one layer"));
    }
    let key = hints.path("qkv_bias");
    let own = hints.flag("qkv_bias", report);
    // `attention_bias` may be left over from the target's config, which heads are derived from.
    let inherited = hints.flag("attention_bias", report);
    if qkv_bias && hints.given() && own != Some(true) && (own == Some(false) || inherited != Some(true)) {
        report.problem(format!("config.json: without \"{key}\": true the query, key and value biases are dropped"));
    }
    if !qkv_bias && own == Some(true) {
        report.problem(format!("config.json: {key} is true, but the file has no query, key and value biases"));
    }
}
