//! Block drafters in speculators' form: what is written is read back, drafts the same, and goes back to z-lab's.

use crate::block::random::{SHAPE, config, load, shape, write};
use gorgon_core::Token;
use gorgon_core::tree::{TokenTree, TrellisTree};
use gorgon_draft::block::{BlockConfig, BlockDrafter, Layout, SelectorConfig, check_export, export};
use gorgon_draft::drafter::{Drafter, VerifiedPass};
use gorgon_draft::eagle::three::DraftVocabulary;
use gorgon_draft::folder::{self, HeadsFolder};
use gorgon_draft::format::{BlockSpec, HeadSpec, HeadsFormat};
use gorgon_draft::published::{Base, Destination};
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::target::DecoderTarget;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::tensors::{self, Source, write_f32};
use safetensors::Dtype;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

const TEXT: [Token; 9] = [256, 12, 99, 3, 250, 77, 1, 8, 190];

/// A backbone with its tables.
struct Backbone {
    decoder: Arc<Decoder>,
    embedding: Vec<f32>,
    lm_head: Vec<f32>,
}

impl Backbone {
    fn random() -> Self {
        let dir = tempfile::tempdir().unwrap();
        SHAPE.write(dir.path(), FloatFormat::F32, 3).unwrap();
        let decoder = Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
        let weights = Checkpoint::open(dir.path()).unwrap();
        let embedding = weights.read_all("model.embed_tokens.weight").unwrap();
        let lm_head = weights.read_all("lm_head.weight").unwrap_or_else(|_| embedding.clone());
        Self { decoder, embedding, lm_head }
    }

    fn base(&self) -> Base<'_> {
        Base {
            name: "owner/base",
            class: "LlamaForCausalLM",
            layers: SHAPE.layers,
            vocab_size: SHAPE.vocab_size,
            embedding: Some(&self.embedding),
            lm_head: Some(&self.lm_head),
        }
    }

    /// A drafter in z-lab's form.
    fn drafter(&self, config: &BlockConfig) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &shape(&self.decoder, config), |_, _| ());
        dir
    }

    fn exported(&self, from: &Path, layout: Layout) -> Result<TempDir, String> {
        self.exported_in(from, layout, FloatFormat::F32)
    }

    fn exported_in(&self, from: &Path, layout: Layout, dtype: FloatFormat) -> Result<TempDir, String> {
        let out = tempfile::tempdir().unwrap();
        let to = Destination { from: Path::new("heads"), out: out.path(), dtype };
        let folder = HeadsFolder::open(from).unwrap();
        let done = check_export(&folder, self.decoder.config(), layout)
            .and_then(|spec| export((&folder, spec), &self.base(), layout, &to));
        done.map_err(|error| error.to_string())?;
        Ok(out)
    }

    fn proposal(&self, dir: &Path) -> TokenTree {
        let mut drafter = BlockDrafter::new(load(dir, &self.decoder).unwrap());
        let mut target = DecoderTarget::new(self.decoder.clone(), SHAPE.max_positions, drafter.needs().hooks);
        let output = target.prefill(&TEXT).unwrap();
        let rows: Vec<usize> = (0..TEXT.len()).collect();
        drafter.observe(VerifiedPass::prompt(&TEXT, &output, &rows)).unwrap();
        drafter.propose(42, &TrellisTree::new(20, 4).unwrap()).unwrap().draft.tree().clone()
    }
}

fn spec(dir: &Path) -> (HeadsFormat, BlockSpec) {
    let folder = HeadsFolder::open(dir).unwrap();
    assert_eq!((&folder.detected.problems, &folder.detected.notes), (&vec![], &vec![]));
    match folder.detected.spec {
        HeadSpec::Block(spec) => (folder.detected.format, spec),
        other => panic!("{other:?}"),
    }
}

/// Rewrites a folder with other tensors and another config.
fn rewritten(from: &Path, change: impl FnOnce(&mut Vec<(String, Vec<usize>, Vec<f32>)>, &mut Value)) -> TempDir {
    let (out, weights) = (tempfile::tempdir().unwrap(), Checkpoint::open(from).unwrap());
    let entry = |(name, entry): (&String, _)| (name.clone(), shape_of(entry), weights.read_all(name).unwrap());
    let mut all: Vec<_> = weights.entries().iter().map(entry).collect();
    let mut document = folder::config(from).unwrap().unwrap();
    change(&mut all, &mut document);
    write_tensors(out.path(), all, &[]);
    std::fs::write(out.path().join("config.json"), document.to_string()).unwrap();
    out
}

fn shape_of(entry: &gorgon_model::weights::Entry) -> Vec<usize> {
    entry.shape.clone()
}

fn write_tensors(out: &Path, all: Vec<(String, Vec<usize>, Vec<f32>)>, stored: &[tensors::Stored]) {
    let source = |(name, shape, values): (String, Vec<usize>, Vec<f32>)| {
        let fill = Box::new(move |file: &mut dyn Write| write_f32(file, &values));
        Source { name, dtype: Dtype::F32, shape, fill }
    };
    let sources: Vec<Source<'_>> =
        stored.iter().map(tensors::Stored::source).chain(all.into_iter().map(source)).collect();
    tensors::write(&out.join("model.safetensors"), &sources).unwrap();
}

#[test]
fn a_drafter_goes_to_speculators_and_back() {
    let backbone = Backbone::random();
    let sliding = BlockConfig { window: Some(9), ..config() };
    for config in [config(), sliding.clone(), BlockConfig { causal: true, ..sliding }] {
        let from = backbone.drafter(&config);
        let there = backbone.exported(from.path(), Layout::Speculators).unwrap();
        let ((_, own), (format, found)) = (spec(from.path()), spec(there.path()));
        assert_eq!(format, HeadsFormat::DFlashSpeculators);
        let read = BlockSpec {
            target_layers: Some(SHAPE.layers),
            own_embedding: false,
            draft_vocab_size: None,
            ..found.clone()
        };
        assert_eq!((read, found.own_embedding, found.draft_vocab_size), (own.clone(), true, Some(SHAPE.vocab_size)));
        let document = folder::config(there.path()).unwrap().unwrap();
        assert_eq!(document["aux_hidden_state_layer_ids"], json!([1, 2]), "layers that are entered");
        assert_eq!((&document["block_size"], &document["mask_token_id"]), (&5.into(), &7.into()));
        assert_eq!(document["sliding_window_non_causal"], !config.causal);
        let proposals = &document["speculators_config"]["proposal_methods"];
        assert_eq!((&proposals[0]["speculative_tokens"], &document["draft_vocab_size"]), (&4.into(), &300.into()));
        assert_eq!(backbone.proposal(there.path()), backbone.proposal(from.path()));
        let back = backbone.exported(there.path(), Layout::ZLab).unwrap();
        assert_eq!(spec(back.path()), (HeadsFormat::DFlash, own));
        let (a, b) = (Checkpoint::open(from.path()).unwrap(), Checkpoint::open(back.path()).unwrap());
        assert_eq!(a.entries().keys().collect::<Vec<_>>(), b.entries().keys().collect::<Vec<_>>());
        for name in a.entries().keys() {
            assert_eq!(a.read_all(name).unwrap(), b.read_all(name).unwrap(), "{name}");
        }
        assert_eq!(backbone.proposal(back.path()), backbone.proposal(from.path()));
    }
}

/// Tables that were rounded are the base model's all the same; heads of another model are refused.
#[test]
fn rounded_tables_are_copies() {
    let backbone = Backbone::random();
    let from = backbone.drafter(&config());
    for dtype in [FloatFormat::F16, FloatFormat::Bf16] {
        let there = backbone.exported_in(from.path(), Layout::Speculators, dtype).unwrap();
        let back = backbone.exported(there.path(), Layout::ZLab).unwrap();
        assert_eq!(spec(back.path()).0, HeadsFormat::DFlash);
    }
    let folder = HeadsFolder::open(from.path()).unwrap();
    let model = backbone.decoder.config();
    for (other, wanted) in [
        (ModelConfig { vocab_size: 299, ..model.clone() }, "a vocabulary of 300; the model's is 299"),
        (ModelConfig { hidden_size: 64, ..model.clone() }, "a hidden size of 32; the model's is 64"),
        (ModelConfig { layers: 3, ..model.clone() }, "a model of 2 layers; the model has 3"),
    ] {
        let said = check_export(&folder, &other, Layout::Speculators).unwrap_err().to_string();
        assert!(said.contains(wanted), "{said}");
    }
}

/// An LM head of some tokens drafts those, and in the order of the whole one.
#[test]
fn an_lm_head_of_some_tokens_drafts_those() {
    let backbone = Backbone::random();
    let there = backbone.exported(backbone.drafter(&config()).path(), Layout::Speculators).unwrap();
    let counts: Vec<u64> = (0..SHAPE.vocab_size as u64).map(|token| token % 7).collect();
    let vocabulary = DraftVocabulary::most_frequent(&counts, 40);
    let some = tempfile::tempdir().unwrap();
    let (d, weights) = (SHAPE.hidden_size, Checkpoint::open(there.path()).unwrap());
    let tensors = weights.entries().iter().map(|(name, entry)| {
        let values = weights.read_all(name).unwrap();
        if name != "lm_head.weight" {
            return (name.clone(), entry.shape.clone(), values);
        }
        let rows = vocabulary.tokens().iter().flat_map(|&token| values[token as usize * d..][..d].to_vec());
        (name.clone(), vec![40, d], rows.collect())
    });
    write_tensors(some.path(), tensors.collect(), &vocabulary.stored());
    let mut document = folder::config(there.path()).unwrap().unwrap();
    document["draft_vocab_size"] = 40.into();
    std::fs::write(some.path().join("config.json"), document.to_string()).unwrap();
    assert_eq!(spec(some.path()).1.draft_vocab_size, Some(40));
    let (some_tree, whole) = (backbone.proposal(some.path()), backbone.proposal(there.path()));
    let drafted = some_tree.tokens()[1..].iter();
    assert!(some_tree.len() > 5 && drafted.clone().all(|token| vocabulary.tokens().contains(token)));
    assert!(whole.tokens()[1..].iter().any(|token| !vocabulary.tokens().contains(token)));
    let refused = backbone.exported(some.path(), Layout::ZLab).map(|_| ()).unwrap_err();
    assert!(refused.contains("some tokens cannot be drafted"), "{refused}");
    let again = backbone.exported(some.path(), Layout::Speculators).unwrap();
    assert_eq!(backbone.proposal(again.path()), some_tree);
}

#[test]
fn what_has_no_place_or_contradicts_itself_is_refused() {
    let backbone = Backbone::random();
    let refused = |config: BlockConfig, wanted: &str| {
        let said = backbone.exported(backbone.drafter(&config).path(), Layout::Speculators).map(|_| ()).unwrap_err();
        assert!(said.contains(wanted), "{said}");
    };
    refused(BlockConfig { conv: true, ..config() }, "its convolutions and its selector have no place there");
    let selector = Some(SelectorConfig { k: 4, rank: 3 });
    refused(BlockConfig { selector, ..config() }, "its convolutions and its selector have no place there");
    refused(BlockConfig { causal: true, ..config() }, "slots of full attention see only the slots before them");
    let there = backbone.exported(backbone.drafter(&config()).path(), Layout::Speculators).unwrap();
    let other = rewritten(there.path(), |tensors, _| {
        let (_, _, values) = tensors.iter_mut().find(|(name, ..)| name == "lm_head.weight").unwrap();
        values[5] += 1.0;
    });
    let said = backbone.exported(other.path(), Layout::ZLab).map(|_| ()).unwrap_err();
    assert!(said.contains("lm_head.weight is not the base model's"), "{said}");
    let broken = |change: fn(&mut Value), wanted: &str| {
        let dir = rewritten(there.path(), |_, document| change(document));
        let said = load(dir.path(), &backbone.decoder).map(|_| ()).unwrap_err().to_string();
        assert!(said.contains(wanted), "{said}");
    };
    broken(|document| document["sample_from_anchor"] = true.into(), "sample_from_anchor is true");
    broken(|document| document["speculators_model_type"] = "dspark".into(), "is dspark, not dflash");
    broken(|document| document["mask_token_id"] = Value::Null, "mask_token_id is absent");
    broken(|document| document["block_size"] = Value::Null, "block_size is absent");
    broken(|document| document["aux_hidden_state_layer_ids"] = json!([1]), "not 1 hidden states");
    broken(|document| document["aux_hidden_state_layer_ids"] = json!([1, 3]), "of a model with 2 layers");
    broken(|document| document["target_hidden_size"] = 64.into(), "target_hidden_size is 64");
    broken(|document| document["draft_vocab_size"] = 40.into(), "draft_vocab_size is 40");
    broken(|document| document["transformer_layer_config"]["num_hidden_layers"] = 3.into(), "are of 2 layers");
    broken(|document| document["transformer_layer_config"] = Value::Null, "transformer_layer_config is absent");
}
