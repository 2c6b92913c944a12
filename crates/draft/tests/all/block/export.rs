//! Files: what is written is read back, and what contradicts itself or the model is refused.

use crate::block::random::{SHAPE, config, decoder, load, shape, values, write};
use gorgon_draft::block::{BlockConfig, Layout, SelectorConfig, check_export, export};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::format::{HeadSpec, HeadsFormat};
use gorgon_draft::published::{Base, Destination};
use gorgon_model::device::FloatFormat;
use half::bf16;
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn an_exported_drafter_is_the_drafter() {
    let decoder = decoder();
    let second = BlockConfig { conv: true, selector: Some(SelectorConfig { k: 4, rank: 3 }), ..config() };
    for config in [config(), BlockConfig { causal: true, window: Some(9), ..config() }, second] {
        let shape = shape(&decoder, &config);
        let (from, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(from.path(), &shape, |_, _| ());
        let to = Destination { from: Path::new("heads"), out: out.path(), dtype: FloatFormat::Bf16 };
        let base = Base {
            name: "owner/base",
            class: "LlamaForCausalLM",
            layers: SHAPE.layers,
            vocab_size: SHAPE.vocab_size,
            embedding: None,
            lm_head: None,
        };
        let folder = HeadsFolder::open(from.path()).unwrap();
        let spec = check_export(&folder, decoder.config(), Layout::ZLab).unwrap();
        export((&folder, spec), &base, Layout::ZLab, &to).unwrap();
        let written = HeadsFolder::open(out.path()).unwrap();
        assert_eq!((written.detected.format, written.detected.notes.len()), (HeadsFormat::DFlash, 0));
        let HeadSpec::Block(spec) = &written.detected.spec else { panic!("{:?}", written.detected.spec) };
        assert_eq!((spec.layers, spec.slots, spec.mask_token), (2, 5, 7));
        assert_eq!((&spec.hook_layers, spec.target_layers), (&vec![1, 2], Some(2)));
        assert_eq!((&spec.causal, &spec.windows), (&vec![config.causal; 2], &vec![config.window; 2]));
        let selector = config.selector.map(|selector| (selector.k, selector.rank));
        assert_eq!((spec.conv, spec.selector), (config.conv, selector));
        for (i, spec) in shape.parameters().iter().enumerate() {
            let want: Vec<f32> = values(i, spec).into_iter().map(|v| bf16::from_f32(v).to_f32()).collect();
            assert_eq!(written.checkpoint.read_all(&spec.name).unwrap(), want, "{}", spec.name);
        }
        let document = gorgon_draft::folder::config(out.path()).unwrap().unwrap();
        assert_eq!(document["dflash_config"]["target_layer_ids"], json!([0, 1]), "layers that are left");
        assert_eq!((&document["block_size"], &document["dflash_config"]["block_size"]), (&5.into(), &5.into()));
        assert_eq!(document["base_model_name_or_path"], "owner/base");
        load(out.path(), &decoder).unwrap();
    }
}

/// The error of a drafter whose config was changed.
fn refused(change: impl FnOnce(&mut Value)) -> String {
    let (decoder, dir) = (decoder(), tempfile::tempdir().unwrap());
    write(dir.path(), &shape(&decoder, &config()), |_, document| change(document));
    load(dir.path(), &decoder).unwrap_err().to_string()
}

#[test]
fn what_contradicts_itself_or_the_model_is_refused() {
    let own = |key: &str, value: Value| {
        let key = key.to_owned();
        move |document: &mut Value| document["dflash_config"][key] = value
    };
    let top = |key: &str, value: Value| {
        let key = key.to_owned();
        move |document: &mut Value| document[key] = value
    };
    let said = [
        (refused(own("markov_rank", 256.into())), "dflash_config.markov_rank is not supported"),
        (refused(own("selector_rank", 3.into())), "names a selector, but the file has no candidate_selector.*"),
        (refused(own("conv_kernel_size", 2.into())), "belongs to convolutions, but the file has none"),
        (refused(own("conv_group_size", 8.into())), "conv_group_size is 8, and 16 is supported"),
        (refused(own("block_size", 6.into())), "block_size is 5, but dflash_config.block_size is 6"),
        (refused(own("mask_token_id", (-1).into())), "mask_token_id is -1, not a token id"),
        (refused(own("mask_token_id", 300.into())), "the mask token 300 is none of the model's 300 tokens"),
        (refused(own("target_layer_ids", json!([0, 2]))), "hook 3 of a model with 2 layers"),
        (refused(own("target_layer_ids", json!([0]))), "fc.weight reads 64 features, not 1 hidden states"),
        (refused(top("block_size", 1.into())), "block_size is 1, not from 2 to 256"),
        (refused(top("num_hidden_layers", 3.into())), "num_hidden_layers is 3, but the tensors are of 2 layers"),
        (refused(top("num_target_layers", 36.into())), "a model of 36 layers; the model has 2"),
        (refused(top("layer_types", json!(["full_attention"]))), "layer_types is"),
        (refused(top("layer_types", json!(vec!["sliding_attention"; 2]))), "sliding_window is absent"),
        (refused(top("num_attention_heads", 8.into())), "num_attention_heads * head_dim is 64, but the tensors say 32"),
        (refused(top("vocab_size", 301.into())), "a vocabulary of 301; the model's is 300"),
    ];
    for (said, wanted) in said {
        assert!(said.contains(wanted), "{said}");
    }
    let (decoder, dir) = (decoder(), tempfile::tempdir().unwrap());
    write(dir.path(), &shape(&decoder, &config()), |tensors, _| {
        tensors[0].1[1] -= 1;
        tensors[0].2.truncate(SHAPE.hidden_size * (2 * SHAPE.hidden_size - 1));
    });
    let error = load(dir.path(), &decoder).unwrap_err().to_string();
    assert!(error.contains("fc.weight reads 63 features"), "{error}");
}
