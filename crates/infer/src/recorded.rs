//! Greedy decoding whose step is recorded once on a GPU and replayed: draft, verify, accept, commit and fill the next tree,
//! all there. The host reads what was decided, once a step, and sends nothing.

use crate::event::{Event, Generation};
use crate::plain::{DecodeError, Limits};
use crate::session::go_on;
use crate::step::StepOutcome;
use burn::tensor::{Device, Graph, Int, Tensor, capture};
use gorgon_core::Token;
use gorgon_core::accept::draws::Seeded;
use gorgon_core::tree::TreeShape;
use gorgon_draft::medusa::MedusaModel;
use gorgon_kernels::greedy_step::{self, Guide, Outcome, TreeTable};
use gorgon_kernels::tree_attention::{Flight, Visible};
use gorgon_model::decoder::ModelError;
use gorgon_model::target::Target;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Instant;

/// The shortest bucket of slots, in tokens; each further one is twice as long.
const SHORTEST: usize = 512;

/// What was done while steps were taken, since the counts were last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Steps.
    pub steps: usize,
    /// Reads from the device to the host in steps.
    pub reads: usize,
    /// Replays of a recorded step.
    pub replays: usize,
    /// Recordings: one per bucket of the context's length.
    pub recordings: usize,
    /// Recordings that the device refused, so that the step was run again launch by launch: a failure wherever speed counts.
    pub fallbacks: usize,
}

type Step = Box<dyn FnMut() -> Tensor<1, Int>>;

/// What a step reads and writes: made once, written in place.
struct Buffers {
    target: RefCell<Target>,
    heads: Option<MedusaModel>,
    tree: TreeTable,
    flight: Flight,
    outcome: Outcome,
    /// Guesses of each head that the tree uses.
    width: usize,
    /// An oracle's tokens, put over the heads'.
    guide: Option<Guide>,
}

/// A sequence whose greedy steps are recorded. Without heads a step is one of plain decoding.
pub struct Recorded {
    buffers: Rc<Buffers>,
    device: Device,
    visible: Visible,
    parents: Vec<usize>,
    graph: Option<(usize, Graph<Tensor<1, Int>, Step>)>,
    counts: StepCounts,
}

impl std::fmt::Debug for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorded").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Recorded {
    /// Steps over trees of `shape`, filled by `heads` and cut to the heads there are. Without heads drafts are token 0 and
    /// stay so: with a lone root that is plain decoding, with other shapes a way to time them.
    ///
    /// # Errors
    /// When the target is on the CPU: there is nothing to record there.
    pub fn new(target: Target, heads: Option<MedusaModel>, shape: &TreeShape) -> Result<Self, DecodeError> {
        Self::made(target, heads, shape, false)
    }

    /// The same with an oracle, which overrides what the heads said at full cost: see [`Self::reveal`].
    ///
    /// # Errors
    /// As of [`Self::new`].
    pub fn guided(target: Target, heads: MedusaModel, shape: &TreeShape) -> Result<Self, DecodeError> {
        Self::made(target, Some(heads), shape, true)
    }

    fn made(target: Target, heads: Option<MedusaModel>, shape: &TreeShape, guided: bool) -> Result<Self, DecodeError> {
        let compute = target.decoder().compute().clone();
        if compute.is_host() {
            return Err(DecodeError::NotRecorded { device: compute.choice().to_string() });
        }
        let depth = heads.as_ref().map_or(usize::MAX, MedusaModel::heads);
        let (parents, ranks) = cut(shape, depth);
        let paths = paths(&parents);
        let visible = Visible::from_paths(paths.iter().map(Vec::as_slice));
        let device = compute.device().clone();
        let windows = target.decoder().config().distinct_windows();
        let tree = TreeTable::new(&parents, &ranks, &device);
        let flight = Flight::new(&vec![0; parents.len()], &visible, 0, SHORTEST, &windows, &device);
        let outcome = Outcome::new(&tree, &device);
        let width = ranks.iter().max().map_or(1, |rank| rank + 1);
        let heads = heads.filter(|_| parents.len() > 1);
        let nothing = |target: &Target| oracle(&parents, target, &[], &[], 0, &device);
        let guide = guided.then(|| nothing(&target));
        let buffers = Rc::new(Buffers { target: RefCell::new(target), heads, tree, flight, outcome, width, guide });
        Ok(Self { buffers, device, visible, parents, graph: None, counts: StepCounts::default() })
    }

    /// Tells an oracle what text to draft: `text` is a prompt with its plain continuation. At depth `d` the first path holds the true
    /// token with probability `rates[d - 1]`, given that its parent was right, and a wrong one otherwise; depths beyond the rates
    /// are wrong, and so is every node off the first path.
    pub fn reveal(&mut self, text: &[Token], rates: &[f64], seed: u64) {
        if let Some(guide) = &self.buffers.guide {
            let told = oracle(&self.parents, &self.buffers.target.borrow(), text, rates, seed, &self.device);
            greedy_step::overwrite(guide.table(), told.table());
        }
    }

    /// What was counted since the last call.
    pub fn take_counts(&mut self) -> StepCounts {
        std::mem::take(&mut self.counts)
    }

    /// Decodes after `prompt`, telling `observe` of every token; it may stop the generation by breaking. The text is greedy
    /// plain decoding's, up to the rounding of a device that computes a row differently beside others.
    ///
    /// # Errors
    /// When the prompt is empty, holds a token outside the vocabulary, does not fit with the new tokens and a tree, or the
    /// model's scores are no numbers.
    pub fn decode(
        &mut self,
        prompt: &[Token],
        limits: &Limits,
        observe: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Generation, DecodeError> {
        let asked = prompt.len() + limits.max_new_tokens.saturating_sub(1);
        let context = self.buffers.target.borrow().capacity();
        if asked + self.buffers.flight.padded_rows() > context || limits.max_new_tokens == 0 {
            return Err(DecodeError::Context { prompt: prompt.len(), new: limits.max_new_tokens, context });
        }
        let started = Instant::now();
        let first = self.begin(prompt)?;
        let prefilled = Instant::now();
        let mut generation = Generation::begun(first, prefilled - started);
        go_on(&mut generation, limits, observe, &mut |_, times| times.verify.measure(|| self.step()))?;
        generation.decode_time = prefilled.elapsed();
        Ok(generation)
    }

    /// Reads the prompt, picks the first token and writes the first tree.
    fn begin(&mut self, prompt: &[Token]) -> Result<Token, DecodeError> {
        let buffers = &*self.buffers;
        let mut target = buffers.target.borrow_mut();
        target.reset();
        let output = target.prefill(prompt)?;
        let hidden = output.hidden.narrow(1, prompt.len() - 1, 1);
        let argmax = greedy_step::argmax_rows(&target.decoder().logits(&hidden));
        let first = token(read(argmax).first(), prompt.len())?;
        let mut tokens = vec![0; buffers.tree.nodes()];
        tokens[0] = first;
        let windows = buffers.flight.windows();
        let table = Flight::new(&tokens, &self.visible, prompt.len(), SHORTEST, windows, &self.device);
        greedy_step::overwrite(buffers.flight.table(), table.table());
        buffers.draft(&hidden);
        Ok(first)
    }

    /// One step: a replay and a read.
    fn step(&mut self) -> Result<StepOutcome, DecodeError> {
        let prefix = self.buffers.target.borrow().len();
        let slots = bucket(prefix + self.buffers.flight.padded_rows());
        if self.graph.as_ref().is_none_or(|(held, _)| *held < slots) {
            self.record(slots);
        }
        let Some((_, graph)) = &mut self.graph else { return Err(ModelError::EmptyPrompt.into()) };
        self.counts.replays += usize::from(graph.is_hardware());
        // SAFETY: the closure owns all buffers that it reads and writes, this thread alone uses them, and the read below
        // waits for the replay.
        let outcome = read(unsafe { graph.replay() }.clone());
        (self.counts.steps, self.counts.reads) = (self.counts.steps + 1, self.counts.reads + 1);
        let emitted = self.buffers.outcome.emitted(&outcome);
        let tokens: Vec<Token> = emitted.iter().map(|id| token(Some(id), prefix + 1)).collect::<Result<_, _>>()?;
        if tokens.is_empty() {
            return Err(DecodeError::Unsound { position: prefix + 1 });
        }
        self.buffers.target.borrow_mut().adopt(prefix + tokens.len())?;
        Ok(StepOutcome { tokens, nodes: self.buffers.tree.nodes() })
    }

    /// Records the step for contexts of at most `slots` slots. Recording runs it a few times, so the tables that it advances
    /// are put back; rows of the cache that it wrote lie after the committed ones.
    fn record(&mut self, slots: usize) {
        self.graph = None;
        let table = self.buffers.flight.table();
        let kept = Tensor::<1, Int>::zeros(table.dims(), &self.device);
        greedy_step::overwrite(&kept, table);
        let (buffers, flight) = (self.buffers.clone(), self.buffers.flight.with_slots(slots));
        let step: Step = Box::new(move || buffers.step(&flight));
        let graph = capture(&self.device, step);
        greedy_step::overwrite(self.buffers.flight.table(), &kept);
        self.counts.recordings += 1;
        self.counts.fallbacks += usize::from(!graph.is_hardware());
        self.graph = Some((slots, graph));
    }
}

impl Buffers {
    /// Verify, accept, commit, draft: everything on the device.
    fn step(&self, flight: &Flight) -> Tensor<1, Int> {
        let mut target = self.target.borrow_mut();
        let output = target.verify_flight(flight).expect("a recorded step's target is on a GPU");
        let argmax = greedy_step::argmax_rows(&target.decoder().logits(&output.hidden));
        greedy_step::accept(&argmax, &self.tree, flight, &self.outcome);
        target.keep(self.outcome.table());
        self.draft(&output.hidden.select(1, self.outcome.last()));
        self.outcome.table().clone()
    }

    /// Writes the next tree's drafts, made from the state at the last committed token.
    fn draft(&self, hidden: &Tensor<3>) {
        if let Some(heads) = &self.heads {
            let guesses = greedy_step::top_rows(&heads.head_logits(hidden, self.tree.longest() - 1), self.width);
            greedy_step::fill(&guesses, &self.tree, &self.flight);
        }
        if let Some(guide) = &self.guide {
            greedy_step::guide(guide, &self.tree, &self.flight);
        }
    }
}

/// The shape's nodes down to `depth`: parents, and ranks among siblings (0 for the root).
fn cut(shape: &TreeShape, depth: usize) -> (Vec<usize>, Vec<usize>) {
    let (mut parents, mut ranks) = (vec![0], vec![0]);
    for node in 1..shape.len() {
        let path = shape.path(node);
        // Nodes go level by level, so what is left out is an end.
        if path.len() <= depth {
            parents.push(shape.parents()[node]);
            ranks.push(path[path.len() - 1]);
        }
    }
    (parents, ranks)
}

fn paths(parents: &[usize]) -> Vec<Vec<usize>> {
    let mut paths: Vec<Vec<usize>> = vec![vec![0]];
    for (node, &parent) in parents.iter().enumerate().skip(1) {
        let mut path = paths[parent].clone();
        path.push(node);
        paths.push(path);
    }
    paths
}

/// What an oracle that knows `text` puts below a root at each position that `target` has room for.
fn oracle(parents: &[usize], target: &Target, text: &[Token], rates: &[f64], seed: u64, device: &Device) -> Guide {
    let vocab = target.decoder().config().vocab_size;
    let depths = paths(parents).iter().map(|path| path.len() - 1).max().unwrap_or(0);
    let mut draws = Seeded::new(seed);
    let truths: Vec<Option<Token>> = (0..target.capacity()).map(|position| text.get(position).copied()).collect();
    let below = |root: usize| -> Vec<Token> {
        let mut right = true;
        let token = |depth: usize| {
            let truth = truths.get(root + depth + 1).copied().flatten();
            right = right && truth.is_some() && draws.uniform() < rates.get(depth).copied().unwrap_or(0.0);
            let token = truth.unwrap_or(0);
            if right { token } else { (token + 1) % vocab as Token }
        };
        (0..depths).map(token).collect()
    };
    let chosen: Vec<Vec<Token>> = (0..truths.len()).map(below).collect();
    Guide::new(parents, &truths, &chosen, vocab, device)
}

/// The bucket that `slots` slots fall into.
fn bucket(slots: usize) -> usize {
    slots.next_power_of_two().max(SHORTEST)
}

fn read(table: Tensor<1, Int>) -> Vec<i32> {
    table.into_data().convert::<i32>().try_into_vec().unwrap_or_default()
}

fn token(id: Option<&i32>, position: usize) -> Result<Token, DecodeError> {
    id.and_then(|&id| Token::try_from(id).ok()).ok_or(DecodeError::Unsound { position })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_cut_to_the_heads_there_are() {
        let shape = TreeShape::from_json("[[0], [1], [0, 0], [0, 2], [0, 0, 1]]").unwrap();
        assert_eq!(cut(&shape, 9), (vec![0, 0, 0, 1, 1, 3], vec![0, 0, 1, 0, 2, 1]));
        assert_eq!(cut(&shape, 1), (vec![0, 0, 0], vec![0, 0, 1]));
        assert_eq!(cut(&shape, 0), (vec![0], vec![0]));
        assert_eq!(paths(&[0, 0, 1]), [vec![0], vec![0, 1], vec![0, 1, 2]]);
    }

    #[test]
    fn buckets_double() {
        assert_eq!([1, 512, 513, 3000].map(bucket), [512, 512, 1024, 4096]);
    }
}
