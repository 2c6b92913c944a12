//! Keys that a run keeps for life.

/// Reason of a key that decides on the shape of what is trained.
const SHAPE: &str = "it is part of the shape of what the run's checkpoints hold";
/// Reason of a key that decides on the held-out split.
const SPLIT: &str = "it decides which conversations are held out, and some of them were trained on by now";

/// Keys of `gorgon train` and `gorgon dev pretrain` that cannot change while a run is resumed, with the reasons. A table
/// stands for all its keys.
const FIXED: &[(&str, &str)] = &[
    ("method", "the checkpoints hold another method's parameters"),
    ("model", "the checkpoints belong to this model"),
    ("init_from", "training has started from it"),
    ("keep_start", "the run's best checkpoint was found by it"),
    ("seed", SPLIT),
    ("held_out", SPLIT),
    ("medusa.heads", SHAPE),
    ("medusa.blocks", SHAPE),
    ("medusa.own_lm_heads", SHAPE),
    ("medusa2.lora", SHAPE),
    ("hydra.heads", SHAPE),
    ("hydra.blocks", SHAPE),
    ("hydra.tied_blocks", SHAPE),
    ("hydra.own_lm_heads", SHAPE),
    ("hydra.prefix_attention", SHAPE),
    ("eagle.fc_bias", SHAPE),
    ("eagle3.draft_vocab", SHAPE),
    ("eagle3.aux_hidden_state_layers", SHAPE),
    ("mtp.depths", SHAPE),
    ("kangaroo.exit_layer", SHAPE),
    ("block.layers", SHAPE),
    ("block.aux_hidden_state_layers", SHAPE),
    ("block.block_size", SHAPE),
    ("block.causal", SHAPE),
    ("block.window", SHAPE),
    ("block.conv", SHAPE),
    ("block.selector", SHAPE),
    ("block.mask_token", SHAPE),
    ("ppd.prompt_tokens", SHAPE),
    ("ppd.ensemble", SHAPE),
    ("pass.look_ahead", SHAPE),
    ("pass.two_pass", SHAPE),
    ("space.masks", SHAPE),
    ("space.mask_token", "training has started from it"),
    ("space_sft.weights", SHAPE),
    ("space_sft.lora", SHAPE),
    ("space_sft.masks", SHAPE),
    ("space_sft.mask_token", "training has started from it"),
    ("cllm.weights", SHAPE),
    ("cllm.lora", SHAPE),
    ("layerskip.weights", SHAPE),
    ("layerskip.lora", SHAPE),
    ("layerskip.curriculum", "the run's steps follow one curriculum"),
    ("distill_spec.draft", "the checkpoints hold this draft model"),
    ("distill_spec.earlier", "the draft model was fitted where these fail"),
    ("tokenizer", "the checkpoints belong to this tokenizer"),
    ("training.optimizer", "the checkpoints hold this optimizer's moments"),
];

/// The reason why a key cannot change while a run is resumed; `None` for a key that can.
pub fn fixed(key: &str) -> Option<&'static str> {
    let within = |table: &str| key == table || key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'));
    FIXED.iter().find(|(fixed, _)| within(fixed)).map(|(_, reason)| *reason)
}

/// Whether evaluations before and after a change of this key may measure different things. Steps, batches and the
/// optimizer do not, apart from the length at which conversations are cut off.
pub fn changes_evaluation(key: &str) -> bool {
    key == "training.max_seq_len" || !key.starts_with("training.")
}
