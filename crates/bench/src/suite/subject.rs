//! A model with random weights and random heads.

use super::probe;
use crate::BenchError;
use crate::measure::{BenchPrompt, Comparison, Summary, summarise};
use crate::pass_times::verify_seconds;
use gorgon_core::Token;
use gorgon_core::accept::{Greedy, random::SeededRandom};
use gorgon_core::tree::{FixedTree, TreeShape};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::medusa::{MedusaConfig, MedusaDrafter, MedusaModel};
use gorgon_draft::oracle::OracleDrafter;
use gorgon_infer::{Event, Generation, Limits, Method, Request, Session, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, DraftWeights, IntegerWeights};
use gorgon_model::hooks::Hooks;
use gorgon_model::linear::Linear;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
use gorgon_runs::tensors::{self, Source, write_f32};
use safetensors::Dtype;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// New tokens of a run.
const TOKENS: usize = 48;
/// Prompt tokens.
const PROMPT: usize = 64;
/// How often the oracle is right by depth.
const RATES: [f64; 4] = [0.7, 0.6, 0.5, 0.4];

/// A shape with its name.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    /// Its sizes.
    pub llama: LlamaShape,
}

impl Shape {
    /// 42M parameters, as of Stories42M.
    pub const SMALL: Self = Self { name: "42M", llama: llama(512, 1376, 8, 8, 8) };
    /// 110M parameters.
    pub const MIDDLE: Self = Self { name: "110M", llama: llama(768, 2048, 12, 12, 12) };
    /// 1.1B parameters, as of TinyLlama.
    pub const LARGE: Self = Self { name: "1.1B", llama: llama(2048, 5632, 22, 32, 4) };

    pub(super) fn is_large(self) -> bool {
        self.llama.hidden_size >= 2048
    }
}

const fn llama(hidden: usize, intermediate: usize, layers: usize, heads: usize, kv_heads: usize) -> LlamaShape {
    LlamaShape {
        hidden_size: hidden,
        intermediate_size: intermediate,
        layers,
        heads,
        kv_heads,
        vocab_size: 32_000,
        max_positions: 1024,
    }
}

/// A random model of a shape, on the CPU.
pub struct Subject {
    shape: Shape,
    compute: Compute,
    dir: PathBuf,
    decoder: Arc<Decoder>,
    target: DecoderTarget,
    buffer: Vec<u8>,
    prompt: Vec<Token>,
}

impl Subject {
    /// Writes random weights below `folder` and loads them.
    ///
    /// # Errors
    /// When the folder cannot be written or the weights not be loaded.
    pub fn load(shape: Shape, compute: Compute, folder: &Path) -> Result<Self, BenchError> {
        let dir = folder.join(format!("{}-{}", shape.name, compute.precision()));
        let written = shape.llama.write(&dir, compute.format(), 0);
        written.map_err(|error| BenchError::Empty(format!("{}: {error}", dir.display())))?;
        let decoder = Arc::new(Decoder::load(&dir, &compute)?);
        let buffer = vec![1u8; decoder.bytes_per_greedy_step()];
        let target = DecoderTarget::new(decoder.clone(), shape.llama.max_positions, Hooks::none());
        let prompt = prompt(PROMPT, shape.llama.vocab_size);
        Ok(Self { shape, compute, dir, decoder, target, buffer, prompt })
    }

    /// Shape and format.
    pub fn name(&self) -> String {
        format!("{} {}", self.shape.name, self.compute.precision())
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The folder of its weights.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Deletes the weights on disk.
    pub fn remove(&self) {
        // They are in the system's folder for temporary files, so leaving them is no harm.
        let _ = std::fs::remove_dir_all(&self.dir);
    }

    /// Bytes that a plain, greedy step reads of the weights and of what finds the argmax.
    pub fn bytes_per_step(&self) -> usize {
        self.buffer.len()
    }

    /// Weights that the rows of a pass are multiplied with.
    pub fn weights(&self) -> usize {
        let s = &self.shape.llama;
        let attention = 2 * s.hidden_size * (s.hidden_size + s.hidden_size / s.heads * s.kv_heads);
        s.layers * (attention + 3 * s.hidden_size * s.intermediate_size) + s.hidden_size * s.vocab_size
    }

    /// Bytes per second of reading as many bytes as a plain step reads.
    pub fn read_probe(&self) -> f64 {
        probe::read_bytes(&self.buffer)
    }

    fn limits() -> Limits {
        Limits { max_new_tokens: TOKENS + 1, end_tokens: vec![] }
    }

    /// Plain decoding after the prompt.
    ///
    /// # Errors
    /// When the model fails.
    pub fn plain_run(&mut self) -> Result<Generation, BenchError> {
        let mut go_on = |_| ControlFlow::Continue(());
        let random = &mut SeededRandom::new(0);
        Ok(decode(&mut self.target, &self.prompt, &Greedy, random, &Self::limits(), &mut go_on)?)
    }

    /// Counts `allocations` in a plain step and in a step of untrained Medusa heads, from the second step on.
    ///
    /// # Errors
    /// When the heads cannot be written or a model fails.
    pub fn allocations_per_step(&mut self, allocations: &dyn Fn() -> u64) -> Result<[f64; 2], BenchError> {
        let mut counts = Vec::with_capacity(TOKENS + 2);
        let mut note = |event| {
            if matches!(event, Event::Token(_)) {
                counts.push(allocations());
            }
            ControlFlow::Continue(())
        };
        let random = &mut SeededRandom::new(0);
        decode(&mut self.target, &self.prompt, &Greedy, random, &Self::limits(), &mut note)?;
        let plain = counted(&counts, counts.len().saturating_sub(2));
        let (mut drafter, builder) = (MedusaDrafter::new(self.medusa(self.decoder.clone())?), eight_nodes()?);
        counts.clear();
        let mut note = |event| {
            if matches!(event, Event::Token(_)) {
                counts.push(allocations());
            }
            ControlFlow::Continue(())
        };
        let (target, drafter) = (&mut self.target, &mut drafter);
        let run = Session::new(target, drafter).generate(
            Method { tree: &builder, rule: &Greedy },
            Request::new(&self.prompt, &Self::limits(), random),
            &mut note,
        )?;
        Ok([plain, counted(&counts, run.accepted.len().saturating_sub(1))])
    }

    /// Seconds of one pass over a tree of `nodes` nodes after the prompt.
    ///
    /// # Errors
    /// When the model fails.
    pub fn verify_seconds(&mut self, nodes: usize) -> Result<f64, BenchError> {
        verify_seconds(&mut self.target, &self.prompt, nodes)
    }

    /// Seconds from `tokens` prompt tokens to the first new one.
    ///
    /// # Errors
    /// When the model fails.
    pub fn prefill_seconds(&mut self, tokens: usize) -> Result<f64, BenchError> {
        let prompt = prompt(tokens, self.shape.llama.vocab_size);
        let limits = Limits { max_new_tokens: 1, end_tokens: vec![] };
        let (random, mut go_on) = (&mut SeededRandom::new(0), |_| ControlFlow::Continue(()));
        let started = Instant::now();
        decode(&mut self.target, &prompt, &Greedy, random, &limits, &mut go_on)?;
        Ok(started.elapsed().as_secs_f64())
    }

    /// Where and in which numbers it computes.
    pub fn compute(&self) -> &Compute {
        &self.compute
    }

    /// Seconds of all products of a pass over `rows` rows.
    pub fn product_seconds(&self, rows: usize) -> f64 {
        let s = &self.shape.llama;
        let kv = s.hidden_size / s.heads * s.kv_heads;
        let layer = [
            (s.hidden_size, s.hidden_size + 2 * kv),
            (s.hidden_size, s.hidden_size),
            (s.hidden_size, 2 * s.intermediate_size),
            (s.intermediate_size, s.hidden_size),
        ];
        let all = layer.iter().map(|&shape| (shape, s.layers)).chain([((s.hidden_size, s.vocab_size), 1)]);
        all.map(|((d_in, d_out), times)| {
            let weights = vec![0.01f32; d_in * d_out];
            let Ok(linear) = Linear::packed(d_in, &weights, &self.compute) else { return f64::NAN };
            let (x, mut y) = (vec![0.5f32; rows * d_in], vec![0f32; rows * d_out]);
            let measure = |y: &mut Vec<f32>| {
                let started = Instant::now();
                linear.rows(&x, y);
                started.elapsed().as_secs_f64()
            };
            let seconds = (0..3).map(|_| measure(&mut y)).collect();
            crate::median(seconds).unwrap_or(f64::NAN) * times as f64
        })
        .sum()
    }

    /// Four untrained Medusa heads that share the LM head.
    fn medusa(&self, decoder: Arc<Decoder>) -> Result<MedusaModel, BenchError> {
        let empty = |error: &dyn std::fmt::Display| BenchError::Empty(error.to_string());
        let heads = self.dir.join("heads");
        write_heads(&heads, &self.shape.llama)
            .map_err(|error| BenchError::Empty(format!("{}: {error}", heads.display())))?;
        let folder = HeadsFolder::open(&heads).map_err(|error| empty(&error))?;
        MedusaModel::load(&folder, decoder).map_err(|error| empty(&error))
    }

    /// Plain and drafted decoding with four untrained Medusa heads that share the LM head (or a copy of it in 8 bits),
    /// eight nodes, and an oracle's tokens.
    ///
    /// # Errors
    /// When the heads cannot be written or a model fails.
    pub fn oracle(&mut self, rounds: usize, drafts: DraftWeights) -> Result<Summary, BenchError> {
        let empty = |error: &dyn std::fmt::Display| BenchError::Empty(error.to_string());
        let decoder = match drafts {
            DraftWeights::Stored => self.decoder.clone(),
            DraftWeights::Int8 => {
                let integers = IntegerWeights { draft_weights: drafts, ..self.compute.integers() };
                let compute = self.compute.clone().with_integers(integers).map_err(|error| empty(&error))?;
                Arc::new(Decoder::load(&self.dir, &compute)?)
            }
        };
        let model = self.medusa(decoder.clone())?;
        let mut oracle =
            OracleDrafter::new(Box::new(MedusaDrafter::new(model)), RATES.to_vec(), self.shape.llama.vocab_size, 7);
        oracle.reveal(self.plain_run()?.ids);
        let builder = eight_nodes()?;
        let mut comparison = Comparison {
            recorded: None,
            decoder: &decoder,
            drafter: &mut oracle,
            builder: &builder,
            rule: &Greedy,
            limits: Self::limits(),
            seed: 0,
        };
        let prompt = BenchPrompt { id: "random".into(), category: None, ids: self.prompt.clone() };
        let runs = comparison.run(&[prompt], rounds, &mut || ())?;
        summarise(&runs).ok_or_else(|| BenchError::Empty("no step was taken".into()))
    }
}

/// Tokens without a meaning, the same for every program.
fn prompt(tokens: usize, vocab_size: usize) -> Vec<Token> {
    (0..tokens as u32).map(|i| (i * 97 + 11) % vocab_size as u32).collect()
}

/// Allocations of each of so many steps, by what was counted at each token. The first token comes with the prompt, and
/// buffers may grow in the first step.
fn counted(counts: &[u64], steps: usize) -> f64 {
    let (first, last) = (counts.get(1).copied().unwrap_or(0), counts.last().copied().unwrap_or(0));
    (last - first) as f64 / steps.max(1) as f64
}

/// A tree of eight nodes for four heads.
fn eight_nodes() -> Result<FixedTree, BenchError> {
    let paths = [vec![0], vec![1], vec![2], vec![0, 0], vec![0, 1], vec![0, 0, 0], vec![0, 0, 0, 0]];
    let shape = TreeShape::new(paths.to_vec());
    shape.map(FixedTree::new).map_err(|error| BenchError::Empty(error.to_string()))
}

/// Medusa heads with zeroed blocks, as training begins with.
///
/// # Errors
/// When the folder cannot be written.
pub fn write_heads(dir: &Path, shape: &LlamaShape) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let config = MedusaConfig { heads: RATES.len(), own_lm_heads: false, ..MedusaConfig::default() };
    let source = |spec: gorgon_draft::medusa::ParameterSpec| {
        let values = vec![0f32; spec.shape.iter().product()];
        let fill = Box::new(move |file: &mut dyn std::io::Write| write_f32(file, &values));
        Source { name: spec.name, dtype: Dtype::F32, shape: spec.shape, fill }
    };
    let sources: Vec<Source<'_>> =
        config.parameters(shape.hidden_size, shape.vocab_size).into_iter().map(source).collect();
    tensors::write(&dir.join("medusa_lm_head.safetensors"), &sources)?;
    let document = config.document(shape.hidden_size, shape.vocab_size, "random");
    std::fs::write(dir.join("config.json"), document.to_string())
}
