//! Decoding whose step is recorded once on a GPU and replayed: draft, verify, accept, commit and fill the next tree, all
//! there. The host reads what was decided, once a step, and sends nothing. A token is the argmax of its row, or of its
//! row with a sequence's noise: that is coupled sampling, whose text is plain sampling's at any temperature.

mod counts;
mod drafts;
mod known;
mod pair;
mod prompt;
mod sampling;

pub use counts::StepCounts;
pub use pair::RecordedPair;

use crate::error::DecodeError;
use crate::executor::{Executor, Progress};
use crate::generate::generate_one;
use crate::request::{Event, Generation, Limits, Request};
use crate::timing::StepTimes;
use crate::turn::{Outcomes, StepOutcome, Turn};
use burn::tensor::{Device, Graph, Int, Tensor, capture};
use drafts::{Drafts, cut, oracle, paths};
use gorgon_core::accept::RandomSource;
use gorgon_core::tree::{DynamicTree, TokenTree, TreeBuilder, TreeShape};
use gorgon_core::{PooledVec, Token};
use gorgon_draft::eagle::{DeviceLayer, EagleOnDevice};
use gorgon_draft::medusa::MedusaModel;
use gorgon_kernels::recorded_step::{self, Guide, NoisePositions, Outcome, TreeTable};
use gorgon_kernels::tree_attention::{AttentionMask, PassTable};
use gorgon_model::decoder::ModelError;
use gorgon_model::target::{DecoderTarget, Target};
use known::Known;
use sampling::{CoupledSampling, picked};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

/// The shortest bucket of slots, in tokens; each further one is twice as long.
const SHORTEST: usize = 512;

type Step = Box<dyn FnMut() -> Tensor<1, Int>>;

/// Inputs and outputs of a recorded step: allocated once, written in place.
struct Buffers {
    target: Rc<RefCell<DecoderTarget>>,
    known: Rc<RefCell<Known>>,
    drafts: Drafts,
    tree: TreeTable,
    pass_table: PassTable,
    outcome: Outcome,
    /// An oracle's tokens, put over what was drafted.
    guide: Option<Guide>,
}

/// A sequence whose steps are recorded. Without heads a step is one of plain decoding.
pub struct Recorded {
    buffers: Rc<Buffers>,
    device: Device,
    visible: AttentionMask,
    /// `None` where decoding is greedy.
    sampling: Option<CoupledSampling>,
    graph: Option<(usize, Graph<Tensor<1, Int>, Step>)>,
    counts: StepCounts,
    /// The trees that were verified, if anybody wants to know.
    watched: Option<Vec<TokenTree>>,
}

impl std::fmt::Debug for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorded").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Recorded {
    /// Steps over trees of `shape`, filled by `heads` and cut to the heads there are. Without heads drafts are token 0
    /// and stay so: with a lone root that is plain decoding, with other shapes a way to time them.
    ///
    /// # Errors
    /// When the target is on the CPU: there is nothing to record there.
    pub fn new(target: DecoderTarget, heads: Option<MedusaModel>, shape: &TreeShape) -> Result<Self, DecodeError> {
        Self::made(target, heads, shape, false)
    }

    /// Recorded step with an oracle, which overrides the heads' tokens at full cost: see [`Self::reveal`].
    ///
    /// # Errors
    /// As of [`Self::new`].
    pub fn guided(target: DecoderTarget, heads: MedusaModel, shape: &TreeShape) -> Result<Self, DecodeError> {
        Self::made(target, Some(heads), shape, true)
    }

    /// Steps over dynamic trees drafted by an EAGLE layer of any generation, with an oracle on top if `guided`
    /// ([`Self::reveal`]). The target was made with the hooks that the layer needs.
    ///
    /// # Errors
    /// When the target is on the CPU, or such trees cannot be grown on a device.
    pub fn eagle(
        target: DecoderTarget,
        layer: Box<dyn DeviceLayer>,
        tree: &DynamicTree,
        guided: bool,
    ) -> Result<Self, DecodeError> {
        let target = prepared(target, tree.max_nodes())?;
        let device = target.decoder().compute().device().clone();
        if tree.max_nodes() == 1 {
            return Ok(Self::over(shared(target), Drafts::None, TreeTable::with_room(1, 1, &device), alone(1), false));
        }
        let on_device = EagleOnDevice::new(layer, tree, target.capacity(), &device)?;
        let growth = on_device.growth();
        let table = TreeTable::with_room(growth.nodes, growth.longest(), &device);
        let drafts = Drafts::Eagle(Box::new(RefCell::new(on_device)));
        Ok(Self::over(shared(target), drafts, table, alone(growth.nodes), guided))
    }

    /// Makes the steps sample at a temperature above 0, as [`Coupled`](gorgon_core::accept::Coupled) does: each token is the
    /// argmax of its row with the noise of the request's random source. Rows are neither cut to their top `k` nor to a
    /// nucleus. Medusa's drafts are ranked by the noise too; an EAGLE layer drafts what is most probable.
    #[must_use]
    pub fn at_temperature(self, temperature: f64) -> Self {
        Self { sampling: Some(CoupledSampling::new(temperature, &self.device)), graph: None, ..self }
    }

    /// Plain decoding over the cache of this one, which holds the text that either has read last.
    pub(crate) fn plain_beside(&self) -> Self {
        let tree = TreeTable::with_room(1, 1, &self.device);
        let shared = (self.buffers.target.clone(), self.buffers.known.clone());
        let sampling = self.sampling.clone();
        Self { sampling, ..Self::over(shared, Drafts::None, tree, alone(1), false) }
    }

    fn made(
        target: DecoderTarget,
        heads: Option<MedusaModel>,
        shape: &TreeShape,
        guided: bool,
    ) -> Result<Self, DecodeError> {
        let target = prepared(target, shape.len())?;
        let depth = heads.as_ref().map_or(usize::MAX, MedusaModel::heads);
        let (parents, ranks) = cut(shape, depth);
        let paths = paths(&parents);
        let visible = AttentionMask::from_paths(paths.iter().map(Vec::as_slice));
        let tree = TreeTable::new(&parents, &ranks, target.decoder().compute().device());
        let width = ranks.iter().max().map_or(1, |rank| rank + 1);
        let drafts = match heads.filter(|_| parents.len() > 1) {
            Some(heads) => Drafts::Medusa { heads: Box::new(heads), width },
            None => Drafts::None,
        };
        Ok(Self::over(shared(target), drafts, tree, visible, guided))
    }

    fn over(
        (target, known): (Rc<RefCell<DecoderTarget>>, Rc<RefCell<Known>>),
        drafts: Drafts,
        tree: TreeTable,
        visible: AttentionMask,
        guided: bool,
    ) -> Self {
        let held = target.borrow();
        let device = held.decoder().compute().device().clone();
        let windows = held.decoder().config().distinct_windows();
        let pass_table = PassTable::new(&vec![0; tree.nodes()], &visible, 0, SHORTEST, &windows, &device);
        let outcome = Outcome::new(&tree, &device);
        let guide = guided.then(|| oracle(&tree, &held, &[], &[], 0, &device));
        drop(held);
        let buffers = Rc::new(Buffers { target, known, drafts, tree, pass_table, outcome, guide });
        Self { buffers, device, visible, sampling: None, graph: None, counts: StepCounts::default(), watched: None }
    }

    /// Tells an oracle what text to draft: `text` is a prompt with its plain continuation. At depth `d` the first path
    /// holds the true token with probability `rates[d - 1]`, given that its parent was right, and a wrong one
    /// otherwise; depths beyond the rates are wrong, and so is every node off the first path.
    pub fn reveal(&mut self, text: &[Token], rates: &[f64], seed: u64) {
        if let Some(guide) = &self.buffers.guide {
            let target = self.buffers.target.borrow();
            let revealed = oracle(&self.buffers.tree, &target, text, rates, seed, &self.device);
            recorded_step::overwrite(guide.table(), revealed.table());
        }
    }

    /// Whether every device takes steps over trees of so many nodes.
    pub fn takes(nodes: usize) -> bool {
        nodes <= recorded_step::MOST_NODES
    }

    /// Writes down every tree that is verified from now on, which takes reads that are not counted: for looking on, not
    /// for speed. Gives those written down so far.
    pub fn watch(&mut self) -> Vec<TokenTree> {
        self.watched.replace(vec![]).unwrap_or_default()
    }

    /// Counts since the last call.
    pub fn take_counts(&mut self) -> StepCounts {
        std::mem::take(&mut self.counts)
    }

    /// Continues a prompt; `observe` gets every token and stops the generation by breaking. The text is plain decoding's
    /// with the same random source, up to the rounding of a device that computes a row differently beside others.
    /// Greedy steps read no random source.
    ///
    /// # Errors
    /// When the prompt is empty, holds a token outside the vocabulary, does not fit with the new tokens and a tree,
    /// logits are no numbers, or steps sample and the random source has no noise.
    pub fn decode(
        &mut self,
        prompt: &[Token],
        limits: &Limits,
        random: impl RandomSource,
        observe: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Generation, DecodeError> {
        generate_one(self, Request::new(prompt, limits, random), observe)
    }

    /// One step: a replay and a read. What is cut off ends the text, so that the device's tables, which have all of it,
    /// are not read again before the next prompt.
    fn replay(&mut self, turn: &Turn<'_>) -> Result<StepOutcome, DecodeError> {
        let prefix = self.buffers.target.borrow().len();
        let slots = bucket(prefix + self.buffers.rows());
        if let Some(watched) = &mut self.watched {
            watched.push(self.buffers.verified()?);
        }
        if self.graph.as_ref().is_none_or(|(held, _)| *held < slots) {
            self.record(slots);
        }
        let Some((_, graph)) = &mut self.graph else { return Err(ModelError::EmptyPrompt.into()) };
        self.counts.replays += usize::from(graph.is_hardware());
        // SAFETY: all buffers that the recorded launches read or write live as long as the closure, which shares their
        // ownership, and `prepared` has made room so that the cache does not move. Another graph over the same target
        // (`plain_beside`) is replayed by this thread too, since an `Rc` stays on its thread, and never at once: the
        // read below waits for the replay.
        let outcome = read(unsafe { graph.replay() }.clone());
        (self.counts.steps, self.counts.reads) = (self.counts.steps + 1, self.counts.reads + 1);
        let emitted = self.buffers.outcome.emitted(&outcome);
        let mut tokens: PooledVec<Token> =
            emitted.iter().map(|id| token(Some(id), prefix + 1)).collect::<Result<_, _>>()?;
        if tokens.is_empty() {
            return Err(DecodeError::NonFinite { slot: 0, position: prefix + 1 });
        }
        let accepted = tokens.len() - 1;
        turn.cut(&mut tokens);
        self.buffers.target.borrow_mut().set_len(prefix + tokens.len())?;
        self.buffers.note(&[turn.root]);
        self.buffers.note(&tokens[..tokens.len() - 1]);
        Ok(StepOutcome { accepted, tokens, nodes: self.buffers.tree.nodes() })
    }

    /// Records the step for contexts of at most `slots` slots. Recording runs it a few times, so the tables that it
    /// advances are put back; rows of the cache that it wrote lie after the committed ones.
    fn record(&mut self, slots: usize) {
        self.graph = None;
        let tables = [self.buffers.pass_table.table().clone(), self.buffers.tree.table().clone()];
        let kept = tables.each_ref().map(|table| {
            let kept = Tensor::<1, Int>::zeros(table.dims(), &self.device);
            recorded_step::overwrite(&kept, table);
            kept
        });
        let (buffers, pass_table) = (self.buffers.clone(), self.buffers.pass_table.with_slots(slots));
        let sampling = self.sampling.clone();
        let step: Step = Box::new(move || buffers.step(&pass_table, sampling.as_ref()));
        let graph = capture(&self.device, step);
        tables.iter().zip(&kept).for_each(|(table, kept)| recorded_step::overwrite(table, kept));
        self.counts.recordings += 1;
        self.counts.fallbacks += usize::from(!graph.is_hardware());
        self.graph = Some((slots, graph));
    }
}

impl Executor for Recorded {
    fn slots(&self) -> usize {
        1
    }

    fn read(&self, _: usize) -> usize {
        self.buffers.known.borrow().len()
    }

    fn forget(&mut self, _: usize) {
        self.reset();
    }

    fn context(&self, _: usize) -> usize {
        let target = self.buffers.target.borrow();
        target.context().min(target.capacity().saturating_sub(self.buffers.pass_table.padded_rows()))
    }

    fn read_on(&mut self, _: usize, request: &mut Request<'_>) -> Result<Progress, DecodeError> {
        if let Some(sampling) = &self.sampling {
            sampling.take_noise(&*request.random)?;
        }
        self.first(&request.text)
    }

    fn step(&mut self, turns: &mut [Turn<'_>], times: &mut StepTimes) -> Result<Outcomes, DecodeError> {
        let [turn] = turns else {
            return Err(DecodeError::Turns { slots: turns.iter().map(|turn| turn.slot).collect(), count: 1 });
        };
        times.verify.measure(|| self.replay(turn)).map(|outcome| Outcomes::from_buf([outcome]))
    }
}

impl Buffers {
    /// Verify, accept, commit, draft: everything on the device.
    fn step(&self, pass_table: &PassTable, sampling: Option<&CoupledSampling>) -> Tensor<1, Int> {
        let mut target = self.target.borrow_mut();
        let output = target.verify_table(pass_table).expect("a recorded step's target is on a GPU");
        let logits = target.decoder().logits_tensor(&output.hidden.tensor());
        let argmax = picked(&logits, sampling, || NoisePositions::of_nodes(pass_table));
        recorded_step::accept(&argmax, &self.tree, pass_table, &self.outcome);
        target.compact(self.outcome.table());
        let drafted = self.drafts.next(&output, &self.outcome, (&self.tree, pass_table), sampling);
        drafted.expect("a recorded step's drafter is on a GPU");
        self.guide();
        self.outcome.table().clone()
    }

    /// Takes note of tokens that the target and the drafter have read.
    fn note(&self, tokens: &[Token]) {
        self.known.borrow_mut().add(tokens, self.drafts.pairs());
    }

    /// Puts an oracle's tokens over what was drafted.
    fn guide(&self) {
        if let Some(guide) = &self.guide {
            recorded_step::guide(guide, &self.tree, &self.pass_table);
        }
    }

    /// Rows behind the committed ones that a step reads at most, of the target's cache or of a drafter's.
    fn rows(&self) -> usize {
        self.pass_table.padded_rows().max(self.drafts.rows())
    }

    /// The tree that the next step verifies, read from the device.
    fn verified(&self) -> Result<TokenTree, DecodeError> {
        let nodes = self.tree.nodes();
        let (tokens, parents) = (read(self.pass_table.tokens()), read(self.tree.table().clone().narrow(0, 0, nodes)));
        let at = self.target.borrow().len();
        let mut tree = TokenTree::root(token(tokens.first(), at)?);
        for node in 1..nodes {
            let parent = parents.get(node).and_then(|&parent| usize::try_from(parent).ok()).filter(|&p| p < node);
            tree.push(parent.ok_or(DecodeError::NonFinite { slot: 0, position: at })?, token(tokens.get(node), at)?);
        }
        Ok(tree)
    }
}

/// A target that plain and drafted steps share, which has read nothing.
fn shared(mut target: DecoderTarget) -> (Rc<RefCell<DecoderTarget>>, Rc<RefCell<Known>>) {
    target.reset();
    (Rc::new(RefCell::new(target)), Rc::default())
}

/// Nodes that see themselves alone, until a tree is written.
fn alone(nodes: usize) -> AttentionMask {
    let paths: Vec<[usize; 1]> = (0..nodes).map(|node| [node]).collect();
    AttentionMask::from_paths(paths.iter().map(|path| &path[..]))
}

/// A target with room for its whole context and what a step over a tree of so many nodes writes behind it: a cache must
/// not move once a step is recorded. Fails if there is nothing to record.
fn prepared(mut target: DecoderTarget, nodes: usize) -> Result<DecoderTarget, DecodeError> {
    let compute = target.decoder().compute();
    if compute.is_host() || compute.is_split() {
        return Err(DecodeError::NotRecorded { device: compute.choice().to_string() });
    }
    target.reserve(target.context() + 2 * PassTable::padded(nodes));
    Ok(target)
}

/// The bucket that `slots` slots fall into.
fn bucket(slots: usize) -> usize {
    slots.next_power_of_two().max(SHORTEST)
}

fn read(table: Tensor<1, Int>) -> Vec<i32> {
    table.into_data().convert::<i32>().try_into_vec().unwrap_or_default()
}

fn token(id: Option<&i32>, position: usize) -> Result<Token, DecodeError> {
    id.and_then(|&id| Token::try_from(id).ok()).ok_or(DecodeError::NonFinite { slot: 0, position })
}

#[cfg(test)]
mod tests;
