//! Models and drafters of the tests.

use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, RandomSource, RuleChoice, SamplingScheme};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, TreeBuilder, TreeShape};
use gorgon_draft::composed::Ouroboros;
use gorgon_draft::draft_model::{DraftModel, DraftModelDrafter, DraftSampling};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Needs, NoDrafter, Proposal, VerifiedPass};
use gorgon_draft::lookahead::Lookahead;
use gorgon_draft::ngram::NgramDrafter;
use gorgon_draft::specinfer::SpecInferDrafter;
use gorgon_draft::suffix::{Suffix, SuffixDrafter};
use gorgon_infer::cascade::{CascadeDrafter, Inner, inner_sampling};
use gorgon_infer::ouroboros::OuroborosDrafter;
use gorgon_infer::{Generation, Limits, Method, Request, Session};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub const TARGET: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 48,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 160,
};
pub const DRAFT: LlamaShape = LlamaShape { hidden_size: 16, intermediate_size: 24, layers: 1, heads: 2, ..TARGET };
/// Few enough tokens for every outcome to be tried.
pub const TINY: LlamaShape = LlamaShape { vocab_size: 3, ..DRAFT };

pub fn decoder(shape: LlamaShape, seed: u64) -> Arc<Decoder> {
    changed(shape, seed, |_| ())
}

/// A model whose weights are changed, as bytes of the file behind its header.
pub fn changed(shape: LlamaShape, seed: u64, change: impl Fn(&mut [u8])) -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    shape.write(dir.path(), FloatFormat::F32, seed).unwrap();
    let path = dir.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    change(&mut bytes[data..]);
    std::fs::write(&path, bytes).unwrap();
    Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap())
}

/// A model of which the last share of the weights is `value`.
pub fn damaged(value: f32, from: f64) -> Arc<Decoder> {
    changed(DRAFT, 5, |data| {
        let first = (data.len() as f64 / 4.0 * from) as usize;
        data.chunks_exact_mut(4).skip(first).for_each(|place| place.copy_from_slice(&value.to_le_bytes()));
    })
}

pub fn draft_model(model: &Arc<Decoder>, target: &Decoder) -> DraftModel {
    DraftModel::new("model:somewhere".into(), model.clone(), target.config())
}

/// A drafter that drafts for the draft model of a cascade.
#[derive(Clone)]
pub enum Then {
    Nothing,
    Ngram,
    Suffix,
    Model(Arc<Decoder>),
    /// A model whose drafts are counted: one for each of the draft model's steps.
    Counted(Arc<Decoder>, Arc<AtomicUsize>),
}

/// A cascade: the draft model, what drafts for it and how many tokens ahead, and its own share of a chain.
#[derive(Clone)]
pub struct Cascade {
    pub model: Arc<Decoder>,
    pub then: Then,
    pub ahead: usize,
    pub tail: usize,
}

impl Cascade {
    pub fn drafter(&self, target: &Decoder, sampling: DraftSampling) -> CascadeDrafter {
        let model = draft_model(&self.model, target);
        let then: Box<dyn Drafter> = match &self.then {
            Then::Nothing => Box::new(NoDrafter),
            Then::Ngram => Box::new(NgramDrafter::new(2)),
            Then::Suffix => Box::new(SuffixDrafter::new(Suffix { store: None, least: 1 })),
            Then::Model(then) => Box::new(self.inner(then, target, sampling)),
            Then::Counted(then, count) => Box::new(Counted(self.inner(then, target, sampling), count.clone())),
        };
        let inner = Inner { tree: Arc::new(ChainTree::new(self.ahead).unwrap()), tail: self.tail };
        CascadeDrafter::new("cascade".into(), &model, (then, inner), sampling)
    }

    fn inner(&self, then: &Arc<Decoder>, target: &Decoder, sampling: DraftSampling) -> DraftModelDrafter {
        let then = draft_model(then, target).within(self.model.config().vocab_size);
        DraftModelDrafter::new(then, inner_sampling(&sampling))
    }
}

/// Counts the drafts of another drafter.
struct Counted<D>(D, Arc<AtomicUsize>);

impl<D: Drafter> Drafter for Counted<D> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.0.truncate(length)
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.0.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.draft(root, context)
    }
}

/// A drafter that says of its drafts what is not true.
pub struct Misstating<D>(pub D, pub fn(&mut Proposal));

impl<D: Drafter> Drafter for Misstating<D> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn needs(&self) -> Needs {
        self.0.needs()
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.0.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let mut proposal = self.0.draft(root, context)?;
        self.1(&mut proposal);
        Ok(proposal)
    }
}

/// Lets drafts pass for independent draws from the rows that come with them.
pub fn as_draws(proposal: &mut Proposal) {
    proposal.sources.iter_mut().for_each(|source| source.scheme = SamplingScheme::Independent);
}

pub fn specinfer(
    models: &[Arc<Decoder>],
    target: &Decoder,
    sampling: DraftSampling,
    widths: &[usize],
) -> SpecInferDrafter<DraftModelDrafter> {
    let source = |model| DraftModelDrafter::new(draft_model(model, target), sampling);
    let shape = TreeShape::cartesian(widths).unwrap();
    SpecInferDrafter::new("specinfer".into(), models.iter().map(source).collect(), shape)
}

/// Settings of Ouroboros: γ, K, then W, N and G of the draft model's lookahead decoding.
pub fn phrases([gamma, k, columns, n, guesses]: [usize; 5]) -> Ouroboros {
    Ouroboros { gamma, k, lookahead: Lookahead { columns, n, guesses, window: false } }
}

pub fn ouroboros(
    model: &Arc<Decoder>,
    target: &Decoder,
    sampling: DraftSampling,
    settings: Ouroboros,
) -> OuroborosDrafter {
    OuroborosDrafter::new("ouroboros".into(), &draft_model(model, target), settings, sampling)
}

/// A rule, and how drafts serve it.
pub fn rule(name: &str, transform: Transform) -> (Box<dyn AcceptanceRule + Send + Sync>, DraftSampling) {
    let choice: RuleChoice = name.parse().unwrap();
    (choice.rule(transform), DraftSampling::of(choice, transform))
}

pub fn generate(
    target: &Arc<Decoder>,
    drafter: &mut dyn Drafter,
    (tree, rule): (&dyn TreeBuilder, &dyn AcceptanceRule),
    (prompt, new): (&[Token], usize),
    random: &mut dyn RandomSource,
) -> Generation {
    let target = DecoderTarget::new(target.clone(), prompt.len() + new, drafter.needs().hooks);
    let limits = Limits { max_new_tokens: new, end_tokens: vec![] };
    let request = Request::new(prompt, &limits, random);
    Session::new(target, drafter).generate(Method { tree, rule }, request, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Plain text of a rule and a seed.
pub fn plain(target: &Arc<Decoder>, rule: &dyn AcceptanceRule, prompt: &[Token], new: usize) -> Vec<Token> {
    let random = &mut SeededRandom::new(1);
    generate(target, &mut NoDrafter, (&ChainTree::ROOT, rule), (prompt, new), random).ids
}
