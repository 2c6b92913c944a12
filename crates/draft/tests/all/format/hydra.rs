//! Hydra and Hydra++ heads.

use crate::format::synthetic::{H, I, Tensors, V, assert_note, layer};
use gorgon_draft::format::{HeadSpec, HeadsFormat, HydraSpec, LmHeads};
use serde_json::json;

const PREFIX: &str = "prefix_embeding_layer.";

/// Heads as the reference implementation saves them: blocks and projections behind dropouts if `dropout`.
pub fn heads(blocks: usize, grounded: bool, own: bool, dropout: bool) -> Tensors {
    let mut tensors = Tensors::default();
    for head in 0..4 {
        for block in 0..blocks {
            let at = if dropout { 2 * block + 1 } else { block };
            let name = format!("hydra_mlp.{head}.{at}");
            let first = grounded && block == 0;
            let width = if first { (head + 2) * H } else { H };
            tensors = tensors.linear(&format!("{name}.linear"), H, width);
            if first {
                tensors = tensors.linear(&format!("{name}.res_connection"), H, width);
            }
        }
        if own {
            let at = if dropout { ".1" } else { "" };
            tensors = tensors.linear(&format!("hydra_lm_head.{head}{at}"), V, H);
        }
    }
    tensors
}

pub fn plus_plus() -> Tensors {
    heads(4, true, true, true)
        .and(layer(&format!("{PREFIX}layers.0."), H, &["input_layernorm", "post_attention_layernorm"]))
        .with(&format!("{PREFIX}embed_tokens.weight"), &[V, H])
        .with(&format!("{PREFIX}norm.weight"), &[H])
        .with(&format!("{PREFIX}layers.0.self_attn.rotary_emb.inv_freq"), &[8])
        .with("input_embed_fn.weight", &[V, H])
}

fn spec(spec: HeadSpec) -> HydraSpec {
    match spec {
        HeadSpec::Hydra(spec) => spec,
        other => panic!("{other:?}"),
    }
}

#[test]
fn plain_heads() {
    let config = json!({"hydra_num_heads": 4, "hydra_num_layers": 1, "hydra_head_arch": "mlp",
        "grounded_heads": true, "hidden_state_offset": 0, "base_model_name_or_path": "m"});
    let detected = heads(1, true, true, false).clean(HeadsFormat::Hydra, Some(&config));
    assert_eq!(detected.notes, [""; 0]);
    let found = spec(detected.spec);
    assert_eq!((found.heads, found.blocks, found.hidden_size, found.vocab_size), (4, 1, H, Some(V)));
    assert_eq!((found.grounded, &found.lm_heads, found.prefix_layer), (true, &LmHeads::PerHead, None));

    let ungrounded = heads(2, false, true, false).clean(HeadsFormat::Hydra, None);
    assert_note(&ungrounded, "shares one block among them");
    assert!(!spec(ungrounded.spec).grounded);
    let on_target = heads(1, true, false, false).clean(HeadsFormat::Hydra, None);
    assert_note(&on_target, "the target's is used");
    assert_eq!(spec(on_target.spec).lm_heads, LmHeads::Target);
}

#[test]
fn heads_behind_a_prefix_layer() {
    let config = json!({"hydra_num_heads": 4, "hydra_num_layers": 4, "hydra_head_arch": "prefix-mlp",
        "grounded_heads": true});
    let detected = plus_plus().clean(HeadsFormat::HydraPlusPlus, Some(&config));
    assert_note(&detected, "shares one block among all but the first");
    assert_note(&detected, "input_embed_fn.weight is a copy");
    let found = spec(detected.spec);
    assert_eq!((found.heads, found.blocks, found.hidden_size), (4, 4, H));
    let layer = found.prefix_layer.expect("there is one");
    assert_eq!((layer.intermediate_size, layer.query_size, layer.key_value_size), (I, H, H / 2));
}

#[test]
fn damage_is_named() {
    let broken = |tensors: Tensors, problem: &str| tensors.broken(HeadsFormat::Hydra, None, &[problem]);
    let whole = || heads(2, true, true, false);
    broken(whole().without("hydra_lm_head.2.bias"), "missing: hydra_lm_head.2.bias");
    broken(whole().without("hydra_mlp.1.0.res_connection.bias"), "missing: hydra_mlp.1.0.res_connection.bias");
    broken(
        whole().reshaped("hydra_mlp.2.0.linear.weight", &[H, 3 * H]),
        "wrong shape: hydra_mlp.2.0.linear.weight is [64, 192], expected [64, 256]",
    );
    broken(
        whole().linear("hydra_mlp.0.1.res", H, H).without("hydra_mlp.0.1.res.bias"),
        "unexpected: hydra_mlp.0.1.res.weight",
    );
    let broken = |tensors: Tensors, problem: &str| tensors.broken(HeadsFormat::HydraPlusPlus, None, &[problem]);
    broken(plus_plus().without("prefix_embeding_layer.norm.weight"), "missing: prefix_embeding_layer.norm.weight");
    let name = "prefix_embeding_layer.layers.0.mlp.up_proj.weight";
    broken(plus_plus().without(name), &format!("missing: {name}"));
    // An index that a dropout would have.
    let renamed = plus_plus().renamed("hydra_mlp.3.7.linear.bias", "hydra_mlp.3.6.linear.bias");
    let problems = &["missing: hydra_mlp.3.7.linear.bias", "unexpected: hydra_mlp.3.6.linear.bias"];
    renamed.broken(HeadsFormat::HydraPlusPlus, None, problems);
    let problems = heads(1, true, true, true).detect(HeadsFormat::HydraPlusPlus, None).problems;
    assert!(problems.contains(&format!("missing: {name}")), "{problems:?}");
}

#[test]
fn configs_are_held_against_the_tensors() {
    let tensors = heads(1, true, true, false);
    let broken = |config, problem: &str| tensors.broken(HeadsFormat::Hydra, Some(&config), &[problem]);
    broken(json!({"hydra_num_layers": 4}), "config.json: hydra_num_layers is 4, but heads have 1 blocks");
    broken(json!({"grounded_heads": false}), "config.json: grounded_heads is false, but the tensors say true");
    broken(
        json!({"hydra_head_arch": "prefix-mlp"}),
        "config.json: hydra_head_arch is prefix-mlp, but the tensors are mlp",
    );
    broken(
        json!({"medusa_num_heads": 4}),
        "config.json: medusa_num_heads belongs to medusa heads, but the tensors are hydra heads",
    );
    let detected = tensors.clean(HeadsFormat::Hydra, Some(&json!({"hydra_num_heads": 3})));
    assert_note(&detected, "hydra_num_heads is 3");
}
