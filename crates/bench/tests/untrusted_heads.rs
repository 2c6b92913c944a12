//! On the embedded backbone and its held-out prompts, heads that are random, or in which NaN appears in the middle of a
//! run, change no token. `GORGON_TEST_PROMPTS=300` is the long form.

use gorgon_bench::measure::{BenchPrompt, Comparison};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, RuleChoice};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{FixedTree, PublishedTree, TreeBuilder, TreeShape};
use gorgon_data::render::Renderer;
use gorgon_data::source::{self, Options};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::medusa::{MedusaConfig, MedusaDrafter, MedusaModel};
use gorgon_draft::oracle::OracleDrafter;
use gorgon_infer::{Limits, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use gorgon_runs::tensors::{self, Source, write_f32};
use safetensors::Dtype;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn prompts() -> Vec<BenchPrompt> {
    let count = std::env::var("GORGON_TEST_PROMPTS").map_or(3, |n| n.parse().unwrap());
    let renderer = Renderer::load(&project("checkpoints/tiny")).unwrap();
    let options = Options { limit: Some(count), ..Options::default() };
    let (conversations, _) = source::read(&project("datasets/tiny-chat/held_out.jsonl"), &options).unwrap();
    let prompt = |conversation: source::Conversation| {
        let mut transcript = renderer.transcript(conversation.system.as_deref()).unwrap();
        transcript.ask(&conversation.turns[0].user).unwrap();
        BenchPrompt { id: conversation.id, category: None, ids: transcript.into_example().ids }
    };
    conversations.into_iter().map(prompt).collect()
}

/// Random heads. With an `overflow`, the second head is infinite at the states whose 18th value exceeds it: they come
/// up after some steps of some answers, and turn the whole row into NaN.
fn write_heads(dir: &Path, decoder: &Decoder, overflow: Option<f32>) {
    let config = MedusaConfig { heads: 4, own_lm_heads: false, ..MedusaConfig::default() };
    let (d, vocab) = (decoder.config().hidden_size, decoder.config().vocab_size);
    let values = |name: &str, seed: usize, n: usize| -> Vec<f32> {
        let mut values: Vec<f32> = (0..n).map(|j| ((j * 7919 + seed * 104_729) % 2003) as f32 * 5e-5 - 0.05).collect();
        if let (Some(limit), "1.0.linear.weight") = (overflow, name) {
            values[17 * d + 17] = f32::MAX / limit;
        }
        values
    };
    let source = |(i, spec): (usize, gorgon_draft::medusa::ParameterSpec)| {
        let values = values(&spec.name, i, spec.shape.iter().product());
        let fill = Box::new(move |file: &mut dyn std::io::Write| write_f32(file, &values));
        Source { name: spec.name, dtype: Dtype::F32, shape: spec.shape, fill }
    };
    let sources: Vec<Source<'_>> = config.parameters(d, vocab).into_iter().enumerate().map(source).collect();
    tensors::write(&dir.join("medusa_lm_head.safetensors"), &sources).unwrap();
    std::fs::write(dir.join("config.json"), config.document(d, vocab, "somewhere").to_string()).unwrap();
}

fn heads(decoder: &Arc<Decoder>, overflow: Option<f32>) -> MedusaModel {
    let dir = tempfile::tempdir().unwrap();
    write_heads(dir.path(), decoder, overflow);
    MedusaModel::load(&HeadsFolder::open(dir.path()).unwrap(), decoder.clone()).unwrap()
}

fn trees() -> Vec<Box<dyn TreeBuilder>> {
    let published = |name: &str| name.parse::<PublishedTree>().unwrap().shape().clone();
    let shapes = [
        TreeShape::new(vec![vec![0]]).unwrap(),
        TreeShape::cartesian(&[1, 1, 1, 1]).unwrap(),
        TreeShape::cartesian(&[3, 2, 2]).unwrap(),
        published("mc_sim_7b_63"),
        published("vicuna_7b_stage2"),
    ];
    shapes.into_iter().map(|shape| Box::new(FixedTree::new(shape)) as Box<dyn TreeBuilder>).collect()
}

/// Counts states at which a head says NaN, and those at which it does not.
struct Watched {
    inner: MedusaDrafter,
    bad: Arc<std::sync::Mutex<(usize, usize)>>,
    last: Option<gorgon_model::hidden_states::HiddenStates>,
}

impl Drafter for Watched {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn reset(&mut self) {
        self.inner.reset();
    }

    fn observe(&mut self, committed: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.last = committed.last_hidden();
        self.inner.observe(committed)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        if let Some(hidden) = &self.last {
            let logits = self.inner.model().logits(hidden, 2);
            let mut counts = self.bad.lock().unwrap();
            if logits[logits.len() / 2..].iter().any(|x| x.is_nan()) { counts.0 += 1 } else { counts.1 += 1 }
        }
        self.inner.draft(root, context)
    }
}

fn plain(decoder: &Arc<Decoder>, prompt: &BenchPrompt, rule: &dyn AcceptanceRule, limits: &Limits) -> Vec<Token> {
    let mut target = DecoderTarget::new(decoder.clone(), prompt.ids.len() + limits.max_new_tokens, Hooks::none());
    let mut go_on = |_| ControlFlow::Continue(());
    decode(&mut target, &prompt.ids, rule, &mut SeededRandom::new(0), limits, &mut go_on).unwrap().ids
}

#[test]
fn random_heads_and_heads_that_break_change_no_token() {
    let decoder = Arc::new(Decoder::load(&project("checkpoints/tiny"), &Compute::cpu(FloatFormat::F32)).unwrap());
    let transform = Transform::new(0.0, None, None).unwrap();
    let rule = RuleChoice::Auto.resolve(&transform).rule(transform);
    let limits = Limits { max_new_tokens: 128, end_tokens: vec![] };
    let (prompts, broken) = (prompts(), Arc::new(std::sync::Mutex::new((0, 0))));
    for overflow in [None, Some(1.5)] {
        for tree in trees() {
            let (mut tokens, mut accepted) = (0, 0);
            for prompt in &prompts {
                let inner = MedusaDrafter::new(heads(&decoder, overflow));
                let watched = Watched { inner, bad: broken.clone(), last: None };
                // An oracle over them has drafts accepted; what it does not override stays the heads' own.
                let rates = vec![0.6, 0.6, 0.6];
                let mut oracle =
                    OracleDrafter::new(Box::new(watched), rates, decoder.config().vocab_size, prompt.ids.len() as u64);
                oracle.reveal(plain(&decoder, prompt, rule.as_ref(), &limits));
                let mut comparison = Comparison {
                    recorded: None,
                    decoder: &decoder,
                    drafter: &mut oracle,
                    builder: tree.as_ref(),
                    rule: rule.as_ref(),
                    limits: limits.clone(),
                    seed: 0,
                };
                let comparison = comparison.compare(std::slice::from_ref(prompt), &mut |_| ()).unwrap().remove(0);
                assert_eq!(comparison.divergence, None, "{} with {overflow:?}", prompt.id);
                tokens += comparison.tokens;
                accepted += comparison.accepted;
            }
            assert!(accepted * 10 > tokens, "{accepted} drafts accepted of {tokens} tokens");
            eprintln!("{overflow:?}, {} nodes: {tokens} tokens, {accepted} drafts accepted", tree.max_nodes());
        }
    }
    let (bad, good) = *broken.lock().unwrap();
    eprintln!("{bad} states with NaN in a head, {good} without");
    assert!(bad > 0 && good > 0);
}
