//! EAGLE-3's published layouts: what is written is read back, and proposes the same.

use crate::eagle::random::{SHAPE, decoder, load_three, values, vocabulary, write_three};
use gorgon_core::Token;
use gorgon_core::tree::{DraftTree, DynamicTree};
use gorgon_draft::drafter::{Drafter, VerifiedPass};
use gorgon_draft::eagle::EagleDrafter;
use gorgon_draft::eagle::three::{DraftVocabulary, Layout, export};
use gorgon_draft::folder::{self, HeadsFolder};
use gorgon_draft::format::{HeadSpec, HeadsFormat};
use gorgon_draft::published::{Base, Destination};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::FloatFormat;
use gorgon_model::target::DecoderTarget;
use half::f16;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

const TEXT: [Token; 9] = [256, 12, 99, 3, 250, 77, 1, 8, 190];

fn to(out: &Path) -> Destination<'_> {
    Destination { from: Path::new("heads"), out, dtype: FloatFormat::F16 }
}

fn base(embedding: &[f32]) -> Base<'_> {
    let (layers, vocab_size) = (SHAPE.layers, SHAPE.vocab_size);
    Base {
        name: "owner/base",
        class: "LlamaForCausalLM",
        layers,
        vocab_size,
        embedding: Some(embedding),
        lm_head: None,
    }
}

/// A layer whose values f16 holds exactly.
fn write(dir: &Path, decoder: &Decoder, vocabulary: &DraftVocabulary, change: impl FnOnce(&mut Value)) {
    write_three(dir, decoder, vocabulary, |tensors, _, config| {
        let values = tensors.iter_mut().flat_map(|(_, _, values)| values);
        values.for_each(|v| *v = f16::from_f32(*v).to_f32());
        change(config);
    });
}

fn proposal(dir: &Path, decoder: &Arc<Decoder>) -> DraftTree {
    let mut drafter = EagleDrafter::new(load_three(dir, decoder).unwrap());
    let mut target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, drafter.needs().hooks);
    let output = target.prefill(&TEXT).unwrap();
    let rows: Vec<usize> = (0..TEXT.len()).collect();
    drafter.observe(VerifiedPass::prompt(&TEXT, &output, &rows)).unwrap();
    drafter.propose(42, &DynamicTree::new(30, 3, 5).unwrap()).unwrap().draft
}

/// From the trained folder to each layout, and from each layout to the other: proposals are equal to the last
/// probability.
#[test]
fn exported_layers_propose_what_the_trained_one_did() {
    let decoder = decoder();
    let table = vec![0.5f32; SHAPE.vocab_size * SHAPE.hidden_size];
    for vocabulary in [vocabulary(SHAPE.vocab_size), DraftVocabulary::whole(SHAPE.vocab_size)] {
        let from = tempfile::tempdir().unwrap();
        write(from.path(), &decoder, &vocabulary, |_| ());
        let want = proposal(from.path(), &decoder);
        let mut folders = vec![from];
        for (source, layout) in
            [(0, Layout::Original), (0, Layout::Speculators), (2, Layout::Original), (1, Layout::Speculators)]
        {
            let out = tempfile::tempdir().unwrap();
            let without = Base { embedding: None, ..base(&table) };
            export(&HeadsFolder::open(folders[source].path()).unwrap(), &without, layout, &to(out.path())).unwrap();
            let written = HeadsFolder::open(out.path()).unwrap();
            let format = if layout == Layout::Original { HeadsFormat::Eagle3 } else { HeadsFormat::Eagle3Speculators };
            assert_eq!(written.detected.format, format);
            let HeadSpec::Eagle(spec) = &written.detected.spec else { panic!("{:?}", written.detected.spec) };
            assert_eq!((spec.hook_layers.as_deref(), spec.norm_before_residual), (Some(&[1, 1, 2][..]), Some(false)));
            assert_eq!(spec.vocab_map, !vocabulary.is_whole());
            assert_eq!(written.detected.notes, [""; 0]);
            assert_eq!(proposal(out.path(), &decoder), want, "{layout:?}");
            folders.push(out);
        }
    }
}

fn exported(layout: Layout, change: impl FnOnce(&mut Value)) -> Result<(Value, Vec<String>), String> {
    let decoder = decoder();
    let (from, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(from.path(), &decoder, &vocabulary(SHAPE.vocab_size), change);
    let table = values(SHAPE.vocab_size * SHAPE.hidden_size, 5);
    let folder = HeadsFolder::open(from.path()).map_err(|error| error.to_string())?;
    export(&folder, &base(&table), layout, &to(out.path())).map_err(|error| error.to_string())?;
    let written = HeadsFolder::open(out.path()).map_err(|error| error.to_string())?;
    let names = written.checkpoint.entries().keys().cloned().collect();
    Ok((folder::config(out.path()).unwrap().unwrap(), names))
}

const LAYER: [&str; 10] = [
    "hidden_norm",
    "input_layernorm",
    "mlp.down_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "post_attention_layernorm",
    "self_attn.k_proj",
    "self_attn.o_proj",
    "self_attn.q_proj",
    "self_attn.v_proj",
];

#[test]
fn the_original_layout_has_every_field() {
    // What a config may leave to defaults is said in what is written.
    let sparse = |config: &mut Value| drop(config.as_object_mut().unwrap().remove("head_dim"));
    let (config, names) = exported(Layout::Original, sparse).unwrap();
    for (key, value) in [
        ("rope_scaling", Value::Null),
        ("architectures", json!(["LlamaForCausalLMEagle3"])),
        ("model_type", json!("llama")),
        ("hidden_size", json!(32)),
        ("intermediate_size", json!(48)),
        ("num_attention_heads", json!(4)),
        ("num_key_value_heads", json!(2)),
        ("head_dim", json!(8)),
        ("num_hidden_layers", json!(1)),
        ("vocab_size", json!(300)),
        ("draft_vocab_size", json!(100)),
        ("tie_word_embeddings", json!(false)),
        ("torch_dtype", json!("float16")),
        ("norm_before_residual", json!(false)),
        ("eagle_aux_hidden_state_layer_ids", json!([1, 1, 2])),
        ("eagle_config", json!({"eagle_aux_hidden_state_layer_ids": [0, 0, 1], "use_aux_hidden_state": true})),
        ("base_model_name_or_path", json!("owner/base")),
    ] {
        assert_eq!(config[key], value, "{key}");
    }
    assert!(config["rope_theta"].is_number() && config["rms_norm_eps"].is_number());
    let mut want = vec!["d2t".to_owned(), "fc.weight".into(), "lm_head.weight".into()];
    want.extend(LAYER.map(|name| format!("midlayer.{name}.weight")));
    want.extend(["norm.weight".to_owned(), "t2d".into()]);
    assert_eq!(names, want);
}

#[test]
fn the_speculators_layout_has_every_field() {
    let (config, names) = exported(Layout::Speculators, |_| ()).unwrap();
    for (key, value) in [
        ("architectures", json!(["Eagle3Speculator"])),
        ("speculators_model_type", json!("eagle3")),
        ("draft_vocab_size", json!(100)),
        ("norm_before_residual", json!(false)),
        ("target_hidden_size", Value::Null),
        ("eagle_aux_hidden_state_layer_ids", json!([1, 1, 2])),
        ("norm_before_fc", json!(false)),
        ("fc_norm", json!(false)),
        ("norm_output", json!(false)),
        ("embed_requires_grad", json!(false)),
    ] {
        assert_eq!(config.get(key), Some(&value), "{key}");
    }
    let speculators = &config["speculators_config"];
    assert_eq!(speculators["verifier"], json!({"name_or_path": "owner/base", "architectures": ["LlamaForCausalLM"]}));
    assert_eq!(speculators["proposal_methods"][0]["speculative_tokens"], 3);
    let layer = &config["transformer_layer_config"];
    assert_eq!(
        (&layer["model_type"], &layer["vocab_size"], &layer["num_hidden_layers"]),
        (&json!("llama"), &json!(300), &json!(1))
    );
    assert!(layer.get("draft_vocab_size").is_none() && layer.get("eagle_config").is_none());
    assert!(
        names.contains(&"embed_tokens.weight".to_owned()) && names.contains(&"layers.0.hidden_norm.weight".to_owned())
    );
    assert_eq!(names.len(), 16);
}

/// Features that a layout cannot store are refused by name, and so are other heads.
#[test]
fn what_would_load_wrongly_is_not_written() {
    let refused = |layout, change: fn(&mut Value), word: &str| {
        let error = exported(layout, change).unwrap_err();
        assert!(error.contains(word) && !error.contains('\n'), "{error}");
    };
    refused(Layout::Original, |config| config["norm_before_residual"] = json!(true), "norm_before_residual");
    let embedding = |config: &mut Value| {
        config["eagle_aux_hidden_state_layer_ids"] = json!([0, 1, 2]);
        config.as_object_mut().unwrap().remove("eagle_config");
    };
    refused(Layout::Original, embedding, "embedding");
    assert!(exported(Layout::Speculators, embedding).is_ok());
    let (config, _) = exported(Layout::Speculators, |config| config["norm_before_residual"] = json!(true)).unwrap();
    assert_eq!(config["norm_before_residual"], true);
}

/// EAGLE-3.1's norms go where the layout has a place for them, and propose the same there.
#[test]
fn norms_of_later_generations_are_exported_with_their_flags() {
    let decoder = decoder();
    let each = ["fc_norm.0.weight", "fc_norm.1.weight", "fc_norm.2.weight"];
    let d = SHAPE.hidden_size;
    let cases: [(&[&str], usize, &[&str]); 3] = [
        (&each, d, &["fc_norm", "norm_output"]),
        (&[], d, &["norm_output"]),
        (&["input_norm.weight"], 3 * d, &["norm_before_fc"]),
    ];
    for (names, width, flags) in cases {
        let together = flags.contains(&"norm_before_fc");
        let from = tempfile::tempdir().unwrap();
        write_three(from.path(), &decoder, &vocabulary(SHAPE.vocab_size), |tensors, _, config| {
            let norm = |(i, name): (usize, &&str)| {
                ((*name).to_owned(), vec![width], values(width, 90 + i).into_iter().map(|v| 1.0 + 0.5 * v).collect())
            };
            tensors.extend(names.iter().enumerate().map(norm));
            flags.iter().for_each(|flag| config[*flag] = json!(true));
            for (name, _, values) in tensors {
                // ModelOpt's names are those that know a norm on all hooked states.
                *name = if together { name.replace("midlayer.", "layers.0.") } else { name.clone() };
                values.iter_mut().for_each(|v| *v = f16::from_f32(*v).to_f32());
            }
        });
        let (want, folder) = (proposal(from.path(), &decoder), HeadsFolder::open(from.path()).unwrap());
        let table = vec![0.5f32; SHAPE.vocab_size * d];
        for layout in [Layout::Original, Layout::Speculators] {
            let out = tempfile::tempdir().unwrap();
            let written = export(&folder, &Base { embedding: None, ..base(&table) }, layout, &to(out.path()));
            if together && layout == Layout::Original {
                assert!(written.unwrap_err().to_string().contains("all hooked states together have a norm"));
                continue;
            }
            written.unwrap();
            let config = folder::config(out.path()).unwrap().unwrap();
            flags.iter().for_each(|flag| assert_eq!(config[*flag], true, "{flag} in {layout:?}"));
            assert_eq!(proposal(out.path(), &decoder), want, "{flags:?} in {layout:?}");
        }
    }
}
