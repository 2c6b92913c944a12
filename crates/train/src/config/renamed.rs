//! Old spellings of config keys.

/// Keys that were renamed, each with its new name.
const RENAMED: &[(&str, &str)] = &[
    ("start", "init_from"),
    ("training.batches_per_step", "training.gradient_accumulation"),
    ("training.batch_tokens", "training.micro_batch_tokens"),
    ("training.max_tokens", "training.max_seq_len"),
    ("training.floor", "training.min_lr_ratio"),
    ("training.clip_norm", "training.max_grad_norm"),
    ("training.keep", "training.save_total_limit"),
    ("finish.batch_tokens", "finish.micro_batch_tokens"),
    ("hydra.teacher", "hydra.soft_targets"),
    ("distill_spec.keep_start", "keep_start"),
    ("eagle3.taps", "eagle3.aux_hidden_state_layers"),
];

/// The old spellings in a config, each with its new name. `has` returns true for the path of a key that the config
/// sets.
pub fn renamed(has: impl Fn(&str) -> bool) -> Vec<(&'static str, &'static str)> {
    RENAMED.iter().filter(|(old, _)| has(old)).copied().collect()
}

#[cfg(test)]
mod tests;
