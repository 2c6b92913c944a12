//! Published names: what is written is read back; what does not fit is refused.

use crate::hydra::random::{SHAPE, decoder, kinds, load, shape, values, write};
use gorgon_draft::folder::{self, HeadsFolder};
use gorgon_draft::format::{HeadSpec, HeadsFormat, LmHeads};
use gorgon_draft::hydra::{HydraConfig, export};
use gorgon_draft::medusa::Backbone;
use gorgon_draft::published::Destination;
use gorgon_model::device::FloatFormat;
use half::f16;
use serde_json::json;
use std::path::Path;

fn to(out: &Path) -> Destination<'_> {
    Destination { from: Path::new("heads"), out, dtype: FloatFormat::F16 }
}

#[test]
fn exported_heads_are_the_heads_in_f16() {
    let decoder = decoder();
    let (d, vocab) = (SHAPE.hidden_size, SHAPE.vocab_size);
    let lm_head: Vec<f32> = (0..vocab * d).map(|i| (i % 97) as f32 / 64.0).collect();
    let backbone = Backbone { lm_head: Some(&lm_head), vocab_size: vocab, name: "owner/base" };
    for config in kinds() {
        let shape = shape(&decoder, config);
        let (from, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(from.path(), &shape, |tensors, _| {
            tensors.push(("input_embed_fn.weight".into(), vec![vocab, d], vec![0.0; vocab * d]));
        });
        export(&HeadsFolder::open(from.path()).unwrap(), &backbone, &to(out.path())).unwrap();
        assert!(out.path().join("hydra_lm_head.safetensors").is_file());
        let written = HeadsFolder::open(out.path()).unwrap();
        let plus = config.prefix_attention;
        assert_eq!(written.detected.format, if plus { HeadsFormat::HydraPlusPlus } else { HeadsFormat::Hydra });
        let HeadSpec::Hydra(spec) = &written.detected.spec else { panic!("{:?}", written.detected.spec) };
        assert_eq!((spec.heads, spec.blocks, &spec.lm_heads), (3, config.blocks, &LmHeads::PerHead));
        for spec in shape.parameters() {
            let want: Vec<f32> = values(&spec).into_iter().map(|v| f16::from_f32(v).to_f32()).collect();
            assert_eq!(written.checkpoint.read_all(&spec.name).unwrap(), want, "{}", spec.name);
        }
        if !config.own_lm_heads {
            let name = spec.naming().lm_head(2);
            assert_eq!(written.checkpoint.read_all(&format!("{name}.weight")).unwrap(), lm_head);
            assert_eq!(written.checkpoint.read_all(&format!("{name}.bias")).unwrap(), vec![0.0; vocab]);
        }
        let expected = shape.parameters().len() + if config.own_lm_heads { 0 } else { 6 };
        assert_eq!(written.checkpoint.entries().len(), expected);
        let written = folder::config(out.path()).unwrap().unwrap();
        assert_eq!(written["base_model_name_or_path"], "owner/base");
        assert_eq!(written["hydra_head_arch"], if plus { "prefix-mlp" } else { "mlp" });
        load(out.path(), &decoder).unwrap();
    }
}

/// The original loader would make one block of all but the first.
#[test]
fn independent_blocks_are_refused() {
    let decoder = decoder();
    let backbone = Backbone { lm_head: Some(&[]), vocab_size: SHAPE.vocab_size, name: "base" };
    let config = HydraConfig { heads: 2, blocks: 3, own_lm_heads: true, ..HydraConfig::default() };
    let (from, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(from.path(), &shape(&decoder, config), |_, _| ());
    let error = export(&HeadsFolder::open(from.path()).unwrap(), &backbone, &to(out.path())).unwrap_err().to_string();
    for word in ["hydra_mlp.0.2", "hydra_mlp.0.1", "tied_blocks"] {
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn heads_for_another_backbone_are_refused_in_a_line() {
    let decoder = decoder();
    let said = |config: HydraConfig, change: &dyn Fn(&mut gorgon_draft::hydra::HydraShape), offset: u64| {
        let dir = tempfile::tempdir().unwrap();
        let mut shape = shape(&decoder, config);
        change(&mut shape);
        write(dir.path(), &shape, |_, document| document["hidden_state_offset"] = json!(offset));
        let error = load(dir.path(), &decoder).unwrap_err().to_string();
        assert!(error.contains(dir.path().to_str().unwrap()) && !error.contains('\n'), "{error}");
        error
    };
    let [plain, own, plus] = kinds();
    assert!(said(plain, &|shape| shape.layer.hidden_size = 16, 0).contains("16"));
    assert!(said(own, &|shape| shape.layer.vocab_size = 77, 0).contains("77"));
    assert!(said(plus, &|shape| shape.layer.intermediate_size = 20, 0).contains("20"));
    assert!(said(plain, &|_| (), 1).contains("hidden_state_offset"));
}

/// Heads without a way around their first block read the state alone, whatever the path.
#[test]
fn ungrounded_heads_load() {
    let decoder = decoder();
    let d = SHAPE.hidden_size;
    let [_, config, _] = kinds();
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &shape(&decoder, config), |tensors, document| {
        tensors.retain(|(name, ..)| !name.contains("res_connection"));
        for (_, shape, values) in tensors.iter_mut().filter(|(name, ..)| name.ends_with(".0.linear.weight")) {
            *shape = vec![d, d];
            values.truncate(d * d);
        }
        document["grounded_heads"] = json!(false);
    });
    let model = load(dir.path(), &decoder).unwrap();
    let state = decoder.embed(&[5]).unwrap();
    let logits = |path: &[u32]| model.logits(&state, path.len() - 1, path).unwrap();
    assert_eq!(logits(&[1, 2]), logits(&[3, 4]));
    assert_ne!(logits(&[1, 2]), logits(&[1, 2, 3]));
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let default = HydraConfig::default();
    assert!(default.check().is_ok());
    let said = |config: HydraConfig| config.check().unwrap_err().to_string();
    assert!(said(HydraConfig { heads: 9, ..default }).starts_with("hydra.heads = 9"));
    assert!(said(HydraConfig { blocks: 0, ..default }).starts_with("hydra.blocks = 0"));
    assert!(said(HydraConfig { decay: f64::NAN, ..default }).starts_with("hydra.decay = NaN"));
    assert!(said(HydraConfig { soft_targets: true, own_lm_heads: true, ..default }).contains("hydra.soft_targets"));
}
