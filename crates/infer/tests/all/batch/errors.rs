//! Errors end a batch's run and leave nothing uncommitted.

use crate::batch::talks::{TOKENS, chance, rule};
use crate::every_drafter::eagle;
use gorgon_core::Token;
use gorgon_core::tree::{ChainTree, FixedTree, TreeShape};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use gorgon_draft::ngram::NgramDrafter;
use gorgon_infer::{Batch, DecodeError, Drafts, Event, Feed, Generation, Limits, Request, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, Target};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One request for each slot that has one.
struct Each<'q> {
    texts: Vec<Option<&'q [Token]>>,
    limits: Limits,
    found: Vec<Option<Generation>>,
}

impl<'q> Each<'q> {
    fn new(texts: &[Option<&'q [Token]>], new: usize) -> Self {
        let limits = Limits { max_new_tokens: new, end_tokens: vec![] };
        Self { texts: texts.to_vec(), limits, found: vec![None; texts.len()] }
    }
}

impl Feed<'static> for Each<'_> {
    type Error = DecodeError;

    fn next(&mut self, slot: usize, _: usize) -> Result<Option<Request<'static>>, DecodeError> {
        Ok(self.texts[slot].take().map(|text| Request::new(text, &self.limits, chance(slot, 0))))
    }

    fn event(&mut self, _: usize, _: Event) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn finished(&mut self, slot: usize, generation: Generation) -> Result<(), DecodeError> {
        self.found[slot] = Some(generation);
        Ok(())
    }

    fn failed(&mut self, error: DecodeError) -> DecodeError {
        error
    }
}

/// A target whose scores are no numbers is an error that names the slot; nothing stays uncommitted. (Steps of such a
/// target are looked at where steps are.)
#[test]
fn scores_that_are_no_numbers_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    eagle::SHAPE.write(dir.path(), FloatFormat::F32, 3).unwrap();
    let path = dir.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[data..].chunks_exact_mut(4).for_each(|place| place.copy_from_slice(&f32::NAN.to_le_bytes()));
    std::fs::write(&path, bytes).unwrap();
    let broken = Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
    let (chain, drafter) = (ChainTree::new(2).unwrap(), || Box::new(NgramDrafter::new(2)) as Box<dyn Drafter>);
    let drafts = Drafts { drafter: &drafter, tree: &chain };
    let mut batch = Batch::new(&broken, 3, TOKENS, Some(drafts)).unwrap();
    let rule = rule(0.0);
    for _ in 0..2 {
        let mut feed = Each::new(&[None, Some(&[1, 2]), None], 5);
        let error = batch.serve(rule.as_ref(), &mut feed).unwrap_err();
        assert!(matches!(error, DecodeError::NonFinite { slot: 1, position: 2 }), "{error}");
        assert_eq!([0, 1, 2].map(|slot| batch.session(slot).len()), [0, 2, 0]);
        assert_eq!([0, 1, 2].map(|slot| batch.session(slot).target().len()), [0, 2, 0]);
    }
}

/// Where a drafter fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Draft,
    Observe,
}

/// Fails once, after some steps.
struct Failing {
    inner: NgramDrafter,
    fault: Option<Fault>,
    /// Steps until then.
    left: usize,
}

impl Failing {
    fn fail(&mut self, here: Fault) -> Result<(), DraftError> {
        if self.fault != Some(here) {
            return Ok(());
        }
        if self.left > 0 {
            self.left -= 1;
            return Ok(());
        }
        self.fault = None;
        Err(DraftError::Hooks { wanted: 7, found: 0 })
    }
}

impl Drafter for Failing {
    fn name(&self) -> &str {
        "failing"
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn reset(&mut self) {
        self.inner.reset();
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.inner.truncate(length)
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if pass.verified.is_some() {
            self.fail(Fault::Observe)?;
        }
        self.inner.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        self.fail(Fault::Draft)?;
        self.inner.draft(root, context)
    }
}

/// A drafter that fails in one slot ends the batch's run and leaves nothing uncommitted in any: all slots go on from
/// what they have read.
#[test]
fn after_a_drafter_that_fails_the_batch_can_be_used() {
    let (decoder, rule) = (eagle::decoder(), rule(0.0));
    let tree = FixedTree::new(TreeShape::cartesian(&[2, 2]).unwrap());
    // Text that repeats itself, so that there are drafts.
    let texts: [&[Token]; 4] = [&[5, 6, 5, 6, 5], &[7, 7, 7], &[1, 2, 3, 1, 2, 3, 1], &[9, 8, 9, 8]];
    let texts = texts.map(Some);
    let plain = |text: &[Token]| {
        let mut target = DecoderTarget::new(decoder.clone(), TOKENS, Hooks::none());
        let limits = Limits { max_new_tokens: 30, end_tokens: vec![] };
        let go_on = &mut |_| ControlFlow::Continue(());
        decode(&mut target, text, rule.as_ref(), &mut chance(0, 0), &limits, go_on).unwrap().ids
    };
    let want: Vec<Vec<Token>> = texts.iter().flatten().map(|text| plain(text)).collect();
    for (fault, slots) in [(Fault::Draft, 4), (Fault::Observe, 4), (Fault::Draft, 1), (Fault::Observe, 1)] {
        for failing in 0..slots {
            let made = AtomicUsize::new(0);
            let drafter = || {
                let fault = Some(fault).filter(|_| made.fetch_add(1, Ordering::Relaxed) == failing);
                Box::new(Failing { inner: NgramDrafter::new(2), fault, left: 3 }) as Box<dyn Drafter>
            };
            let drafts = Drafts { drafter: &drafter, tree: &tree };
            let mut batch = Batch::new(&decoder, slots, TOKENS, Some(drafts)).unwrap();
            let error = batch.serve(rule.as_ref(), &mut Each::new(&texts[..slots], 30)).unwrap_err();
            let what = format!("{fault:?} of slot {failing} of {slots}");
            assert!(matches!(error, DecodeError::Draft(DraftError::Hooks { wanted: 7, found: 0 })), "{what}: {error}");
            for (slot, text) in texts[..slots].iter().enumerate() {
                let (session, prompt) = (batch.session(slot), text.unwrap().len());
                assert_eq!(session.len(), session.target().len(), "{what}: slot {slot}");
                // Where a drafter failed to take note of what was committed, all is forgotten.
                let forgot = fault == Fault::Observe && slot == failing;
                assert!(if forgot { session.is_empty() } else { session.len() > prompt }, "{what}: slot {slot}");
            }
            // A second reservation would be an error.
            let mut feed = Each::new(&texts[..slots], 30);
            batch.serve(rule.as_ref(), &mut feed).unwrap();
            let found: Vec<Vec<Token>> = feed.found.into_iter().map(|found| found.unwrap().ids).collect();
            assert_eq!(found, want[..slots], "{what}");
        }
    }
}

/// Runs layers of the target.
struct Lent;

impl Drafter for Lent {
    fn name(&self) -> &str {
        "lent"
    }

    fn needs(&self) -> Needs {
        Needs { lends_target: true, ..Needs::default() }
    }

    fn reset(&mut self) {}

    fn observe(&mut self, _: VerifiedPass<'_>) -> Result<(), DraftError> {
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        assert!(context.target.is_some());
        Ok(Proposal::root(root))
    }
}

/// The target is lent to one sequence, not to one of several.
#[test]
fn a_drafter_that_borrows_the_target_is_refused_by_a_batch_of_several() {
    let (decoder, rule) = (eagle::decoder(), rule(0.0));
    let drafter = || Box::new(Lent) as Box<dyn Drafter>;
    let drafts = Drafts { drafter: &drafter, tree: &ChainTree::new(2).unwrap() };
    let error = Batch::new(&decoder, 2, TOKENS, Some(drafts)).map(|_| ()).unwrap_err();
    assert!(matches!(error, DecodeError::Draft(DraftError::NotLent { .. })), "{error}");
    let mut batch = Batch::new(&decoder, 1, TOKENS, Some(drafts)).unwrap();
    let mut feed = Each::new(&[Some(&[1, 2])], 4);
    batch.serve(rule.as_ref(), &mut feed).unwrap();
    assert_eq!(feed.found[0].as_ref().unwrap().ids.len(), 4);
}
