//! Medusa heads, apart from vLLM's.

use crate::format::synthetic::{H, Tensors, V, assert_note, backbone, medusa};
use gorgon_draft::format::{DetectError, HeadSpec, HeadsFormat, LmHeads, MedusaNaming, MedusaSpec, detect};
use serde_json::json;

fn spec(spec: HeadSpec) -> MedusaSpec {
    match spec {
        HeadSpec::Medusa(spec) => spec,
        other => panic!("{other:?}"),
    }
}

#[test]
fn heads_with_their_own_projections_are_v1() {
    let detected = medusa("", 5, 2, true).clean(HeadsFormat::MedusaV1, None);
    assert_note(&detected, "shares one block");
    let found = spec(detected.spec);
    assert_eq!((found.heads, found.blocks, found.hidden_size, found.vocab_size), (5, 2, H, Some(V)));
    assert_eq!((&found.lm_heads, found.bias), (&LmHeads::PerHead, true));
    assert_eq!(found.naming.linear(4, 1), "4.1.linear");
    assert_eq!(found.naming.lm_head(4, 2), "4.2.weight");
}

#[test]
fn heads_without_projections_are_v2() {
    let config = json!({"medusa_num_heads": 3, "medusa_num_layers": 1, "base_model_name_or_path": "m"});
    let detected = medusa("", 3, 1, false).clean(HeadsFormat::MedusaV2, Some(&config));
    assert_eq!(detected.notes, [""; 0]);
    let found = spec(detected.spec);
    assert_eq!((found.heads, found.blocks, found.vocab_size), (3, 1, None));
    assert_eq!(found.lm_heads, LmHeads::Target);
}

#[test]
fn heads_inside_a_full_model() {
    let config = json!({"architectures": ["LlamaForCausalLM"], "hidden_size": H, "vocab_size": V,
        "num_hidden_layers": 2, "num_attention_heads": 4, "medusa_num_heads": 3, "medusa_num_layers": 1});
    let heads = medusa("medusa_head.", 3, 1, true);
    let whole = backbone().and(heads.clone());
    assert_eq!(whole.clean(HeadsFormat::MedusaInModel, Some(&config)).notes, [""; 0]);
    assert_note(&heads.clean(HeadsFormat::MedusaInModel, None), "but not the model");
    let wrong = &["wrong shape: lm_head.weight is [500, 64], expected [512, 64]"];
    whole.clone().reshaped("lm_head.weight", &[500, H]).broken(HeadsFormat::MedusaInModel, None, wrong);
    whole.with("other", &[1]).broken(HeadsFormat::MedusaInModel, None, &["unexpected: other"]);
}

#[test]
fn both_namings_of_modelopt() {
    let config = json!({"medusa": {"num_medusa_heads": 2, "num_medusa_layers": 1}});
    let modules = medusa("medusa_heads.", 2, 1, true);
    let found = spec(modules.clean(HeadsFormat::MedusaModelOpt, Some(&config)).spec);
    assert_eq!(found.naming, MedusaNaming::Sequential { prefix: "medusa_heads." });
    let mut layers = backbone();
    for head in 0..2 {
        layers = layers
            .linear(&format!("medusa_heads.{head}.medusa_layers.0.linear"), H, H)
            .with(&format!("medusa_heads.{head}.lm_head.weight"), &[V, H]);
    }
    let found = spec(layers.clean(HeadsFormat::MedusaModelOpt, Some(&config)).spec);
    assert_eq!(found.naming, MedusaNaming::MedusaLayers);
    let missing = &["missing: medusa_heads.1.lm_head.weight"];
    layers.without("medusa_heads.1.lm_head.weight").broken(HeadsFormat::MedusaModelOpt, None, missing);
}

#[test]
fn missing_unexpected_and_misshapen_tensors_are_named() {
    let whole = || medusa("", 4, 1, true);
    let broken = |tensors: Tensors, problem: &str| tensors.broken(HeadsFormat::MedusaV1, None, &[problem]);
    broken(whole().without("1.0.linear.bias"), "missing: 1.0.linear.bias");
    broken(whole().without("2.1.weight"), "missing: 2.1.weight");
    broken(whole().with("0.1.bias", &[V]), "unexpected: 0.1.bias");
    broken(whole().with("epoch", &[]), "unexpected: epoch");
    broken(whole().reshaped("2.1.weight", &[V - 1, H]), "wrong shape: 2.1.weight is [511, 64], expected [512, 64]");
    broken(
        whole().reshaped("0.0.linear.weight", &[H, 2 * H]),
        "wrong shape: 0.0.linear.weight is [64, 128], expected [64, 64]",
    );
    broken(whole().reshaped("3.0.linear.bias", &[]), "wrong shape: 3.0.linear.bias is [], expected [64]");
    broken(whole().reshaped("3.1.weight", &[0, H]), "wrong shape: 3.1.weight is [0, 64], expected [512, 64]");
    broken(
        whole().retyped("3.1.weight", "F8_E4M3"),
        "unsupported type: 3.1.weight is F8_E4M3, expected F32 or F16 or BF16",
    );
    broken(whole().with("3.1.weight", &[V, H]), "listed twice: 3.1.weight");
}

#[test]
fn gaps_and_uneven_heads_are_named() {
    let mut gap = medusa("", 4, 1, false);
    gap = gap.renamed("3.0.linear.weight", "4.0.linear.weight").renamed("3.0.linear.bias", "4.0.linear.bias");
    gap.broken(HeadsFormat::MedusaV2, None, &["missing: head 3, although there is head 4"]);

    let uneven = medusa("", 3, 1, false).linear("1.1.linear", H, H);
    let problems = &[
        "heads differ: head 0 has 1 blocks, head 1 has 2",
        "unexpected: 1.1.linear.bias",
        "unexpected: 1.1.linear.weight",
    ];
    uneven.broken(HeadsFormat::MedusaV2, None, problems);

    // A skipped block number.
    let skipped = medusa("", 1, 1, false).renamed("0.0.linear.bias", "0.2.linear.bias");
    let problems = skipped.detect(HeadsFormat::MedusaV2, None).problems;
    assert!(problems.contains(&"missing: 0.0.linear.bias".into()), "{problems:?}");
}

#[test]
fn configs_are_held_against_the_tensors() {
    let heads = medusa("", 5, 1, true);
    // As published beside the vicuna-7b heads.
    let config = json!({"medusa_num_heads": 2, "medusa_num_layers": 1});
    assert_note(&heads.clean(HeadsFormat::MedusaV1, Some(&config)), "medusa_num_heads is 2, but there are 5 heads");
    let config = json!({"medusa_num_heads": 5, "architectures": ["MedusaModel"]});
    assert_note(&heads.clean(HeadsFormat::MedusaV1, Some(&config)), "TGI will refuse");
    assert_note(&heads.clean(HeadsFormat::MedusaV1, Some(&json!({}))), "no `medusa_num_heads`");

    let broken = |config, problem: &str| heads.broken(HeadsFormat::MedusaV1, Some(&config), &[problem]);
    broken(json!({"medusa_num_layers": 2}), "config.json: medusa_num_layers is 2, but heads have 1 blocks");
    broken(json!({"hidden_size": 32}), "config.json: hidden_size is 32, but the tensors say 64");
    broken(json!({"vocab_size": 32000}), "config.json: vocab_size is 32000, but the tensors say 512");
    broken(json!({"medusa_num_heads": "5"}), r#"config.json: medusa_num_heads is \"5\", not a count of 1 or more"#);
    broken(json!({"medusa_num_heads": -1}), "config.json: medusa_num_heads is -1, not a count of 1 or more");
    broken(json!([1, 2]), "config.json: no JSON object");
    broken(
        json!({"hydra_num_heads": 5}),
        "config.json: hydra_num_heads belongs to hydra heads, but the tensors are medusa heads",
    );
}

#[test]
fn two_formats_at_once_are_refused() {
    let both = medusa("", 2, 1, true).and(medusa("medusa_head.", 2, 1, true));
    let error = detect(&both.0, None).unwrap_err();
    let expected = DetectError::Ambiguous {
        first: HeadsFormat::MedusaV1,
        first_tensor: "0.0.linear.bias".into(),
        second: HeadsFormat::MedusaInModel,
        second_tensor: "medusa_head.0.0.linear.bias".into(),
    };
    assert_eq!(error, expected);
    assert!(error.to_string().contains("0.0.linear.bias is medusa-v1"), "{error}");
}
