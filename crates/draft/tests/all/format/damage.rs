//! Every single damage to every format is noticed, and no amount of damage makes detection panic.

use crate::format::synthetic::{H, I, Tensors, V, medusa};
use crate::format::{block, eagle, hydra, kangaroo, mtp, probes, vllm};
use gorgon_draft::format::{HeadsFormat, TensorInfo, detect};
use serde_json::{Value, json};

/// Heads of a format without tensors that may be absent, and the config beside them.
fn sample(format: HeadsFormat) -> (Tensors, Value) {
    let counts = json!({"medusa_num_heads": 4, "medusa_num_layers": 2, "vocab_size": V});
    let modelopt = json!({"medusa": {"num_medusa_heads": 4, "num_medusa_layers": 2}});
    let backbone = json!({"num_hidden_layers": 2, "hidden_size": H, "vocab_size": V, "intermediate_size": I,
        "num_attention_heads": 4, "num_key_value_heads": 2});
    match format {
        HeadsFormat::MedusaV1 => (medusa("", 4, 2, true), counts),
        HeadsFormat::MedusaV2 => (medusa("", 4, 2, false), counts),
        HeadsFormat::MedusaVllm => (vllm::heads("", true, V), vllm::config(json!({"medusa_fc_bias": true}))),
        HeadsFormat::MedusaModelOpt => (medusa("medusa_heads.", 4, 2, true), modelopt),
        HeadsFormat::MedusaInModel => (medusa("medusa_head.", 4, 2, true), counts),
        HeadsFormat::Eagle1 => (eagle::one(true).without("embed_tokens.weight"), eagle::llama(json!({}))),
        HeadsFormat::Eagle3 => (eagle::three("midlayer."), eagle::llama3(json!({}))),
        HeadsFormat::Eagle3Speculators => (eagle::three("layers.0."), eagle::speculators(json!({}))),
        HeadsFormat::Eagle3ModelOpt => (eagle::three("layers.0.").without("t2d"), eagle::llama3(json!({}))),
        HeadsFormat::Hydra => (hydra::heads(2, true, true, false), json!({"hydra_num_heads": 4})),
        HeadsFormat::HydraPlusPlus => {
            let optional = ["input_embed_fn", "prefix_embeding_layer.embed_tokens"];
            let heads =
                optional.iter().fold(hydra::plus_plus(), |heads, name| heads.without(&format!("{name}.weight")));
            let heads = heads.without("prefix_embeding_layer.layers.0.self_attn.rotary_emb.inv_freq");
            (heads, json!({"hydra_head_arch": "prefix-mlp"}))
        }
        HeadsFormat::Mtp => (mtp::module(2).and(mtp::module(3)), backbone),
        HeadsFormat::Kangaroo => (kangaroo::adapter(), kangaroo::config()),
        HeadsFormat::DFlash => (block::second(2), block::second_config()),
        HeadsFormat::DFlashSpeculators => (block::drafter(2), block::speculators(json!({}))),
        HeadsFormat::Probes(kind) => (probes::probes(kind), probes::config(kind)),
    }
}

/// All ways to damage one tensor.
fn damages(tensors: &Tensors, name: &str) -> Vec<(String, Tensors)> {
    let shape = tensors.0.iter().find(|tensor| tensor.name == name).map(|tensor| tensor.shape.clone());
    let shape = shape.unwrap_or_default();
    let mut damages = vec![
        ("missing".to_owned(), tensors.clone().without(name)),
        ("stored twice".to_owned(), tensors.clone().with(name, &shape)),
        ("renamed".to_owned(), tensors.clone().renamed(name, &format!("{name}_"))),
        ("beside a stranger".to_owned(), tensors.clone().with(&format!("{name}.scale"), &[1])),
        ("of another type".to_owned(), tensors.clone().retyped(name, "F64")),
        ("of higher rank".to_owned(), tensors.clone().reshaped(name, &[&shape[..], &[1]].concat())),
        ("of lower rank".to_owned(), tensors.clone().reshaped(name, &shape[1..])),
    ];
    for (at, &size) in shape.iter().enumerate() {
        for other in [0, 1, size - 1, size + 1, 2 * size, usize::MAX].into_iter().filter(|other| *other != size) {
            let mut shape = shape.clone();
            shape[at] = other;
            damages.push((format!("of shape {shape:?}"), tensors.clone().reshaped(name, &shape)));
        }
    }
    damages
}

#[test]
fn every_single_damage_is_noticed() {
    for format in HeadsFormat::ALL {
        let (tensors, config) = sample(format);
        tensors.clean(format, Some(&config));
        for name in tensors.0.iter().map(|tensor| &tensor.name) {
            for (what, damaged) in damages(&tensors, name) {
                let found = detect(&damaged.0, Some(&config));
                let noticed = found.is_err() || found.is_ok_and(|detected| !detected.problems.is_empty());
                assert!(noticed, "{format}: {name} {what}");
            }
        }
    }
}

/// A linear congruential generator: numbers below `n`.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

fn damage(tensors: &mut Vec<TensorInfo>, names: &[String], chance: &mut Chance) {
    if tensors.is_empty() {
        return;
    }
    let at = chance.below(tensors.len());
    match chance.below(5) {
        0 => drop(tensors.swap_remove(at)),
        1 => tensors[at].name = chance.of(names).clone(),
        2 => tensors[at].dtype = chance.of(&["F32", "I64", "", "bool"]).to_string(),
        3 => {
            let number = *chance.of(&["7", "", "99999999999"]);
            tensors[at].name = tensors[at].name.replace(['0', '1'], number);
        }
        _ => {
            let sizes = [0, 1, 3, 64, 128, 1 << 33, usize::MAX / 2, usize::MAX];
            tensors[at].shape = (0..chance.below(4)).map(|_| *chance.of(&sizes)).collect();
        }
    }
}

fn damage_config(config: &mut Value, keys: &[String], chance: &mut Chance) {
    let values = [
        json!(null),
        json!(0),
        json!(1),
        json!(-3),
        json!(u64::MAX),
        json!(1.5),
        json!("x"),
        json!([]),
        json!([1, "a"]),
        json!({}),
        json!(true),
        json!(false),
        json!(64),
    ];
    config[chance.of(keys).as_str()] = chance.of(&values).clone();
}

/// Whatever comes out, nothing panics.
#[test]
fn much_damage_never_panics() {
    let samples = HeadsFormat::ALL.map(sample);
    let names: Vec<String> =
        samples.iter().flat_map(|(tensors, _)| tensors.0.iter().map(|tensor| tensor.name.clone())).collect();
    let others = [
        "medusa",
        "eagle_config",
        "speculators_config",
        "head_dim",
        "target_hidden_size",
        "fc_norm",
        "bias",
        "eagle_aux_hidden_state_layer_ids",
        "norm_before_fc",
        "qkv_bias",
        "truncated_vocab_size",
        "original_lm_head",
        "is_causal",
    ];
    let keys: Vec<String> = samples
        .iter()
        .flat_map(|(_, config)| config.as_object().into_iter().flatten().map(|(key, _)| key.clone()))
        .chain(others.map(String::from))
        .collect();
    let mut chance = Chance(1);
    let mut recognised = 0;
    for round in 0..6000 {
        let (tensors, mut config) = samples[round % samples.len()].clone();
        let mut tensors = tensors.0;
        (0..chance.below(12)).for_each(|_| damage(&mut tensors, &names, &mut chance));
        (0..chance.below(6)).for_each(|_| damage_config(&mut config, &keys, &mut chance));
        if let Ok(detected) = detect(&tensors, (round % 5 > 0).then_some(&config)) {
            assert!(!detected.spec.list().is_empty());
            recognised += 1;
        }
    }
    assert!(recognised > 1000, "{recognised}");
}
