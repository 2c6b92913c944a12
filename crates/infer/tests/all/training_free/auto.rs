//! `auto`, which drafts where that pays by a clock, in the decode loop. The clock goes by the rows of steps alone.

use crate::composed::models::{self, generate, plain};
use crate::planted;
use gorgon_core::Token;
use gorgon_core::accept::Greedy;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::TreeBuilder;
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Feedback, Needs, Proposal, VerifiedPass};
use gorgon_draft::measured::{self, MeasuredDrafter, Tried};
use gorgon_draft::recycle::RecycleDrafter;
use gorgon_draft::suffix::{Suffix, SuffixDrafter};
use gorgon_infer::Generation;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::FloatFormat;
use gorgon_model::random::LlamaShape;
use gorgon_model::weights::Checkpoint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SHAPE: LlamaShape = LlamaShape { vocab_size: 300, max_positions: 512, ..models::DRAFT };
/// The tokens that the planted model says over and over.
const CYCLE: [Token; 7] = [77, 12, 290, 5, 133, 48, 201];
const NEW: usize = 400;

/// Microseconds that a step of so many rows lasts.
type Cost = fn(usize) -> u64;

/// A row is nearly free.
fn cheap(rows: usize) -> u64 {
    1000 + 10 * (rows as u64 - 1)
}

/// A draft costs three plain steps.
fn dear(rows: usize) -> u64 {
    1000 + 3000 * (rows as u64 - 1)
}

/// Moves the clock by what the step under way costs, once its drafts are there.
struct Ticking {
    inner: MeasuredDrafter,
    micros: Arc<AtomicU64>,
    cost: Cost,
}

impl Ticking {
    fn new(cost: Cost) -> Self {
        let micros = Arc::new(AtomicU64::new(0));
        let read = micros.clone();
        let clock = Box::new(move || Duration::from_micros(read.load(Ordering::Relaxed)));
        let suffix = SuffixDrafter::new(Suffix { store: None, least: 1 });
        let tried = Tried { drafter: Box::new(RecycleDrafter::new(8)), tree: (8, 4), trial: 24 };
        Self { inner: MeasuredDrafter::timed_by(Box::new(suffix), tried, clock), micros, cost }
    }
}

impl Drafter for Ticking {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn reads(&self, needed: Feedback) -> Feedback {
        self.inner.reads(needed)
    }

    fn reset(&mut self) {
        self.inner.reset();
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.inner.truncate(length)
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.inner.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let proposal = self.inner.draft(root, context)?;
        self.micros.fetch_add((self.cost)(proposal.draft.tree().len()), Ordering::Relaxed);
        Ok(proposal)
    }
}

/// A model that says the tokens of a cycle. No layer adds anything, and each token's state is the row that the LM head
/// has for the next.
fn cycling(cycle: &[Token]) -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 5).unwrap();
    planted::silence(dir.path(), &planted::everything(SHAPE.layers));
    let d = SHAPE.hidden_size;
    let embedding = Checkpoint::open(dir.path()).unwrap().read_all("model.embed_tokens.weight").unwrap();
    planted::rewrite(dir.path(), |name, values| {
        if name == "lm_head.weight" {
            values.fill(0.0);
            for (token, next) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
                let state = &embedding[*token as usize * d..][..d];
                let length = state.iter().map(|x| x * x).sum::<f32>().sqrt();
                let row = &mut values[*next as usize * d..][..d];
                row.iter_mut().zip(state).for_each(|(weight, x)| *weight = 4.0 * x / length);
            }
        }
    });
    planted::decoder(dir.path())
}

/// Greedy text behind a prompt by a clock, which must be plain text.
fn greedy(decoder: &Arc<Decoder>, prompt: &[Token], new: usize, cost: Cost) -> Generation {
    let tree = measured::largest_tree().unwrap();
    let ways = (&tree as &dyn TreeBuilder, &Greedy as _);
    let found = generate(decoder, &mut Ticking::new(cost), ways, (prompt, new), &mut SeededRandom::new(0));
    assert_eq!(found.ids, plain(decoder, &Greedy, prompt, new));
    found
}

/// Nodes that were drafted.
fn drafted(found: &Generation) -> usize {
    found.nodes - found.accepted.len()
}

#[test]
fn a_text_that_repeats_itself_is_drafted_where_that_pays() {
    let decoder = cycling(&CYCLE);
    let prompt = CYCLE.repeat(3);
    let found = greedy(&decoder, &prompt, NEW, cheap);
    assert_eq!(found.ids, CYCLE.repeat(NEW.div_ceil(CYCLE.len()))[..NEW], "the model says its cycle");
    let accepted: usize = found.accepted.iter().sum();
    assert!(accepted > NEW / 4 && found.accepted.len() < NEW * 3 / 4, "{:?}", found.accepted);
    // Every draft of such a text is right, and one is not worth three tokens.
    let found = greedy(&decoder, &prompt, NEW, dear);
    assert!(drafted(&found) <= 16, "{} drafts: {:?}", drafted(&found), found.accepted);
}

/// Random models, of which nobody knows whether they repeat themselves.
#[test]
fn no_clock_changes_greedy_text() {
    let prompt: Vec<Token> = (0..40).map(|i| i % 5 * 7).collect();
    for seed in 3..6 {
        let decoder = models::decoder(models::TARGET, seed);
        for cost in [cheap as Cost, dear] {
            greedy(&decoder, &prompt, 110, cost);
        }
    }
}
