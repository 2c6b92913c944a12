//! EAGLE-3 folders are untrusted: what does not fit, or contradicts itself, is refused in a line.

use crate::eagle::random::{SHAPE, decoder, load, load_three, model, values, vocabulary, write_three};
use gorgon_core::Token;
use gorgon_draft::drafter::{Drafter, VerifiedPass};
use gorgon_draft::eagle::three::{DraftVocabulary, Eagle3Model};
use gorgon_draft::eagle::{EagleDrafter, FeatureLayer};
use gorgon_draft::folder::HeadsFolder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use gorgon_runs::tensors::Stored;
use serde_json::{Value, json};

type Tensors = Vec<(String, Vec<usize>, Vec<f32>)>;

fn refused(change: impl FnOnce(&mut Tensors, &mut Vec<Stored>, &mut Value), words: &[&str]) {
    let (decoder, dir) = (decoder(), tempfile::tempdir().unwrap());
    write_three(dir.path(), &decoder, &vocabulary(SHAPE.vocab_size), change);
    let error = load_three(dir.path(), &decoder).unwrap_err().to_string();
    assert!(error.contains(dir.path().to_str().unwrap()) && !error.contains('\n'), "{error}");
    words.iter().for_each(|word| assert!(error.contains(word), "no {word:?} in: {error}"));
}

#[test]
fn damaged_folders_are_refused_in_a_line() {
    refused(|tensors, _, _| drop(tensors.remove(2)), &["hidden_norm"]);
    refused(|tensors, _, _| tensors.push(("fc.bias".into(), vec![32], vec![0.0; 32])), &["fc.bias"]);
    refused(|tensors, _, _| (tensors[3].1, tensors[3].2) = (vec![32, 32], values(1024, 1)), &["q_proj", "[32, 64]"]);
    refused(|_, stored, _| drop(stored.remove(0)), &["d2t"]);
    refused(|_, stored, _| stored[0].bytes[..8].copy_from_slice(&1_000_000i64.to_le_bytes()), &["d2t[0]", "1000000"]);
    refused(|_, stored, _| stored[0].bytes[..8].copy_from_slice(&(-1i64).to_le_bytes()), &["d2t[0]", "-1"]);
    refused(
        |_, stored, _| stored[0].bytes[8..16].copy_from_slice(&0i64.to_le_bytes()),
        &["d2t[0]", "d2t[1]", "token 1"],
    );
    refused(|_, stored, _| stored[1].bytes[0] = 1, &["token 0", "t2d", "d2t"]);
    refused(|_, _, config| config["draft_vocab_size"] = json!(99), &["draft_vocab_size", "99"]);
    refused(|_, _, config| config["num_attention_heads"] = json!(8), &["num_attention_heads"]);
    refused(|_, _, config| config["norm_output"] = json!("yes"), &["norm_output"]);
    refused(|_, _, config| config["norm_before_residual"] = json!("no"), &["norm_before_residual"]);
    refused(|_, _, config| config["architectures"] = json!(["LlamaForCausalLMEagle"]), &["EAGLE-1", "EAGLE-3"]);
    let ids = "eagle_aux_hidden_state_layer_ids";
    refused(|_, _, config| config["eagle_config"][ids] = json!([1, 1, 2]), &["[1, 1, 2]", "eagle_config", "one less"]);
    let beyond = |_: &mut Tensors, _: &mut Vec<Stored>, config: &mut Value| {
        config[ids] = json!([1, 1, 3]);
        config.as_object_mut().unwrap().remove("eagle_config");
    };
    refused(beyond, &["hook 3", "2 layers"]);
}

/// `eagle_config` names the layers that states leave, the top of the config those that they enter.
#[test]
fn both_ways_of_counting_layers_are_understood() {
    let decoder = decoder();
    let hooks = |change: fn(&mut serde_json::Map<String, Value>)| {
        let dir = tempfile::tempdir().unwrap();
        write_three(dir.path(), &decoder, &vocabulary(SHAPE.vocab_size), |_, _, config| {
            change(config.as_object_mut().unwrap());
        });
        load_three(dir.path(), &decoder).unwrap().needs().hooks
    };
    let of = |layers: &[usize]| Hooks::new(layers.to_vec(), 2).unwrap();
    assert_eq!(hooks(|_| ()), of(&[1, 1, 2]));
    assert_eq!(hooks(|config| drop(config.remove("eagle_config"))), of(&[1, 1, 2]));
    let nested = |config: &mut serde_json::Map<String, Value>| {
        config.remove("eagle_aux_hidden_state_layer_ids");
        config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = json!([0, 0, 0]);
    };
    assert_eq!(hooks(nested), of(&[1, 1, 1]));
    let none = |config: &mut serde_json::Map<String, Value>| {
        config.remove("eagle_aux_hidden_state_layer_ids");
        config.remove("eagle_config");
    };
    assert_eq!(hooks(none), of(&[1, 1, 2]), "as every layer without a word about it");
}

#[test]
fn one_generation_is_not_taken_for_another() {
    let (decoder, dir) = (decoder(), tempfile::tempdir().unwrap());
    write_three(dir.path(), &decoder, &vocabulary(SHAPE.vocab_size), |_, _, _| ());
    let error = load(dir.path(), &decoder).unwrap_err().to_string();
    assert!(error.contains("eagle3 heads, not an EAGLE-1"), "{error}");
    let one = tempfile::tempdir().unwrap();
    crate::eagle::random::write(one.path(), &gorgon_draft::eagle::EagleShape::of(decoder.config(), false), |_, _| ());
    let error = Eagle3Model::load(&HeadsFolder::open(one.path()).unwrap(), decoder).unwrap_err().to_string();
    assert!(error.contains("eagle heads, not an EAGLE-3"), "{error}");
}

/// A target without the hooked states that are needed is an error, not a guess.
#[test]
fn missing_taps_are_told() {
    let decoder = decoder();
    let dir = tempfile::tempdir().unwrap();
    write_three(dir.path(), &decoder, &DraftVocabulary::whole(SHAPE.vocab_size), |_, _, _| ());
    let mut drafter = EagleDrafter::new(load_three(dir.path(), &decoder).unwrap());
    assert_eq!(drafter.needs().hooks.layers(), [1, 1, 2]);
    let tokens: [Token; 3] = [1, 2, 3];
    let mut target = DecoderTarget::new(decoder.clone(), 8, Hooks::none());
    let output = target.prefill(&tokens).unwrap();
    let error = drafter.observe(VerifiedPass::prompt(&tokens, &output, &[0, 1, 2])).unwrap_err();
    assert_eq!(error.to_string(), "the drafter reads hidden states of 3 layers, the target hands out 0");
    assert_eq!(EagleDrafter::new(model(&decoder, false)).needs().hooks, Hooks::none());
}
