//! Long contexts: plain decoding beside the target over a part of its cache (`partial:B,C`), alone and with a small model
//! that drafts for it (TriForce), on randomly initialised Llamas: one with as many key/value heads as query heads, and
//! one with a quarter of them.
//!
//! `cargo bench --workspace --bench long_context -- [--rounds N] [--longest TOKENS] [--out FILE.jsonl]`
//!
//! One text is read once; at every length plain and drafted decoding alternate. Random weights say what a step reads and
//! takes, not what is accepted. Attention's output is scaled by 0.01, so that the part alone says nearly what the whole
//! cache says: its own drafts are an upper bound. Beside them, drafts are measured at full cost with tokens that an
//! oracle makes right at a given rate.

use gorgon_core::Token;
use gorgon_core::accept::{Greedy, random::SeededRandom};
use gorgon_core::tree::{ChainTree, TreeBuilder};
use gorgon_draft::draft_model::{DraftModel, DraftModelDrafter, DraftSampling, StreamingWindow};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use gorgon_draft::oracle::OracleDrafter;
use gorgon_draft::partial::PartialDrafter;
use gorgon_infer::triforce::TriForceDrafter;
use gorgon_infer::{Generation, Limits, Method, Request, Session};
use gorgon_model::cache::{KvCache, Picked, Retrieval};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::{HookedStates, PassOutput};
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 512,
    intermediate_size: 1376,
    layers: 2,
    heads: 8,
    kv_heads: 8,
    vocab_size: 4096,
    max_positions: 33_000,
};
/// The small model: a twentieth of the weights.
const SMALL: LlamaShape =
    LlamaShape { hidden_size: 64, intermediate_size: 172, layers: 1, heads: 2, kv_heads: 2, ..SHAPE };
const KV_HEADS: [usize; 2] = [8, 2];
const LENGTHS: [usize; 6] = [1024, 2048, 4096, 8192, 16_384, 32_768];
const CHUNK: usize = 8;
/// Rows of the small model's cache, as in the authors' code.
const WINDOW: StreamingWindow = StreamingWindow { sinks: 4, recent: 252 };
/// Shares of drafts that are made right, given that those before were; `None` for the part's own drafts.
const RATES: [Option<f64>; 3] = [None, Some(0.8), Some(0.95)];
/// Share of the small model's drafts that are made right.
const SMALL_RATE: f64 = 0.8;
const NEW_TOKENS: usize = 41;
/// Scale of attention's output.
const DAMPED: f32 = 0.01;

/// A part of the cache, and how it is drafted over.
#[derive(Clone, Copy, PartialEq)]
struct Part {
    /// `B`.
    rows: usize,
    /// `γ`.
    drafts: usize,
    /// Drafts of the small model at a time; `None` without one.
    ahead: Option<usize>,
}

const PARTS: [Part; 7] = [
    Part { rows: 256, drafts: 4, ahead: None },
    Part { rows: 1024, drafts: 2, ahead: None },
    Part { rows: 1024, drafts: 4, ahead: None },
    Part { rows: 1024, drafts: 6, ahead: None },
    Part { rows: 1024, drafts: 6, ahead: Some(1) },
    Part { rows: 1024, drafts: 6, ahead: Some(3) },
    Part { rows: 256, drafts: 6, ahead: Some(3) },
];

type Sequence = Session<DecoderTarget, Box<dyn Drafter>>;

/// A small model at full cost, whose drafts are those of a known text at a rate.
struct Guided {
    small: DraftModelDrafter,
    text: Arc<Vec<Token>>,
    /// Tokens that it has read.
    length: usize,
    random: SeededRandom,
}

impl Drafter for Guided {
    fn name(&self) -> &str {
        self.small.name()
    }

    fn needs(&self) -> Needs {
        self.small.needs()
    }

    fn reset(&mut self) {
        self.length = 0;
        self.small.reset();
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.length = self.length.min(length);
        self.small.truncate(length)
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.length += pass.tokens.len();
        self.small.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let draft = self.small.draft(root, context)?.draft;
        let mut tokens = draft.tree().tokens().to_vec();
        for (depth, token) in tokens.iter_mut().enumerate().skip(1) {
            let right = self.text.get(self.length + depth).copied().unwrap_or(0);
            let is_right = self.random.uniform() < SMALL_RATE;
            *token = if is_right { right } else { (right + 1) % SHAPE.vocab_size as Token };
        }
        Ok(Proposal::list(draft.with_tokens(&tokens)))
    }
}

/// The drafter of a part. A small model drafts for it by the text that plain decoding has.
fn drafter(part: Part, small: &DraftModel, text: &Arc<Vec<Token>>) -> Box<dyn Drafter> {
    let retrieval = Retrieval { rows: part.rows, chunk: CHUNK, picked: Picked::Score };
    let Some(ahead) = part.ahead else {
        return Box::new(PartialDrafter::new(retrieval, DraftSampling::GREEDY));
    };
    let small = DraftModelDrafter::streaming(small.clone(), DraftSampling::GREEDY, WINDOW);
    let small = Guided { small, text: text.clone(), length: 0, random: SeededRandom::new(0) };
    let ahead = ChainTree::new(ahead).expect("a short chain");
    Box::new(TriForceDrafter::new("triforce".into(), retrieval, (small, ahead), DraftSampling::GREEDY))
}

fn generate(session: &mut Sequence, text: &[Token], tree: &dyn TreeBuilder, new_tokens: usize) -> Generation {
    let limits = Limits { max_new_tokens: new_tokens, end_tokens: vec![] };
    let request = Request::new(text, &limits, SeededRandom::new(0));
    let method = Method { tree, rule: &Greedy };
    session.generate(method, request, &mut |_| ControlFlow::Continue(())).expect("it fits")
}

/// Seconds of a token after the first.
fn per_token(found: &Generation) -> f64 {
    found.decode_time.as_secs_f64() / (found.ids.len() - 1) as f64
}

/// Scales the output of attention in a checkpoint.
fn damp(dir: &Path) {
    let path = dir.join("model.safetensors");
    let mut bytes = std::fs::read(&path).expect("the checkpoint just written");
    let (header, metadata) = safetensors::SafeTensors::read_metadata(&bytes).expect("a checkpoint");
    for (name, info) in metadata.tensors() {
        let (from, to) = info.data_offsets;
        if name.ends_with("o_proj.weight") {
            for value in bytes[8 + header + from..8 + header + to].chunks_exact_mut(4) {
                let scaled = DAMPED * f32::from_le_bytes([value[0], value[1], value[2], value[3]]);
                value.copy_from_slice(&scaled.to_le_bytes());
            }
        }
    }
    std::fs::write(&path, bytes).expect("the checkpoint just written");
}

/// The models of a run.
struct Models {
    decoder: Arc<Decoder>,
    small: DraftModel,
}

impl Models {
    fn new(dir: &Path, kv_heads: usize) -> Self {
        let shape = LlamaShape { kv_heads, ..SHAPE };
        shape.write(dir, FloatFormat::F32, 0).expect("a temporary folder that can be written");
        damp(dir);
        let load =
            |dir: &Path| Arc::new(Decoder::load(dir, &Compute::cpu(FloatFormat::F32)).expect("the model just written"));
        let small_dir = dir.join("small");
        SMALL.write(&small_dir, FloatFormat::F32, 1).expect("a temporary folder that can be written");
        let decoder = load(dir);
        let small = DraftModel::new("small".into(), load(&small_dir), decoder.config());
        Self { decoder, small }
    }
}

struct Measured {
    kv_heads: usize,
    rows: Vec<Value>,
    prefill: Duration,
}

impl Measured {
    /// Plain and drafted decoding behind a text, alternating.
    fn at(&mut self, session: &mut Sequence, models: &Models, text: &[Token], rounds: usize) {
        let started = Instant::now();
        generate(session, text, &ChainTree::ROOT, NEW_TOKENS);
        self.prefill += started.elapsed();
        for round in 0..rounds {
            let plain = generate(session, text, &ChainTree::ROOT, NEW_TOKENS);
            for part in PARTS.into_iter().filter(|part| part.rows < text.len()) {
                for rate in RATES {
                    self.drafted(session, models, text, (round, &plain, part, rate));
                }
            }
        }
    }

    /// Drafted decoding behind a text.
    fn drafted(
        &mut self,
        session: &mut Sequence,
        models: &Models,
        text: &[Token],
        (round, plain, part, rate): (usize, &Generation, Part, Option<f64>),
    ) {
        let decoder = &models.decoder;
        let whole = Arc::new([text, &plain.ids].concat());
        let own = drafter(part, &models.small, &whole);
        *session.drafter() = match rate {
            None => own,
            Some(rate) => {
                let mut oracle = OracleDrafter::new(own, vec![rate; part.drafts], SHAPE.vocab_size, 0);
                oracle.reveal(plain.ids.clone());
                Box::new(oracle)
            }
        };
        // The session has read the text already.
        let hidden = HiddenStates::Host { values: vec![].into(), width: 1 };
        let output = PassOutput { hidden, hooks: HookedStates::new(), stream: None };
        session.drafter().observe(VerifiedPass::prompt(text, &output, &[])).expect("a drafter that reads no states");
        let chain = ChainTree::new(part.drafts).expect("a short chain");
        // A small model reads the text before its first draft: prefill, not decoding.
        generate(session, text, &chain, 2);
        let found = generate(session, text, &chain, NEW_TOKENS);
        assert_eq!(found.ids, plain.ids, "drafts change no text");
        let cache = |rows| KvCache::bytes(decoder.config(), decoder.compute(), rows) as u64;
        let tokens = found.tokens_per_step().unwrap_or(1.0);
        self.rows.push(json!({
            "round": round, "kv_heads": self.kv_heads, "context": text.len(), "b": part.rows, "c": CHUNK,
            "gamma": part.drafts, "ahead": part.ahead, "rate": rate,
            "weight_bytes_per_step": decoder.bytes_per_greedy_step(),
            "small_weight_bytes": models.small.decoder().bytes_per_greedy_step(),
            "cache_bytes_per_step": cache(text.len()), "part_bytes_per_draft": cache(part.rows),
            "plain_ms_per_token": 1e3 * per_token(plain), "drafted_ms_per_token": 1e3 * per_token(&found),
            "tokens_per_step": tokens, "speedup": per_token(plain) / per_token(&found),
            "step_over_plain_step": per_token(&found) * tokens / per_token(plain),
        }));
    }

    fn median(&self, context: usize, part: Part, rate: Option<f64>, field: &str) -> Option<f64> {
        let of = |row: &&Value| {
            row["kv_heads"] == self.kv_heads
                && row["context"] == context
                && row["b"] == part.rows
                && row["gamma"] == part.drafts
                && row["ahead"] == json!(part.ahead)
                && row["rate"] == json!(rate)
        };
        let mut values: Vec<f64> = self.rows.iter().filter(of).filter_map(|row| row[field].as_f64()).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    fn print(&self) {
        println!(
            "| context | cache MB | weights MB | B | γ | small model ahead | plain ms | step / plain | own τ | speed-up, own / 0.8 / 0.95 |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|");
        for context in LENGTHS {
            for part in PARTS {
                let of = |rate, field| self.median(context, part, rate, field).unwrap_or(f64::NAN);
                if self.median(context, part, None, "speedup").is_none() {
                    continue;
                }
                let speedups = RATES.map(|rate| format!("{:.2}", of(rate, "speedup"))).join(" / ");
                println!(
                    "| {context} | {:.0} | {:.0} | {} | {} | {} | {:.2} | {:.2} | {:.2} | {speedups} |",
                    of(None, "cache_bytes_per_step") / 1e6,
                    of(None, "weight_bytes_per_step") / 1e6,
                    part.rows,
                    part.drafts,
                    part.ahead.map_or_else(|| "-".into(), |ahead| ahead.to_string()),
                    of(None, "plain_ms_per_token"),
                    of(RATES[1], "step_over_plain_step"),
                    of(None, "tokens_per_step"),
                );
            }
        }
    }

    /// The context from which each part begins to pay at each rate.
    fn print_crossings(&self) {
        for (part, rate) in PARTS.into_iter().flat_map(|part| RATES.map(|rate| (part, rate))) {
            let measured: Vec<(usize, f64)> =
                LENGTHS.iter().filter_map(|&n| Some((n, self.median(n, part, rate, "speedup")?))).collect();
            let crossing = measured.windows(2).find(|pair| pair[0].1 < 1.0 && pair[1].1 >= 1.0);
            let rate = rate.map_or_else(|| "own drafts".into(), |rate| format!("{rate} right"));
            let small = part.ahead.map_or_else(String::new, |ahead| format!(",small=DIR,ahead={ahead}"));
            print!("partial:{},{CHUNK}{small} chain:{}, {rate}: ", part.rows, part.drafts);
            match (crossing, measured.first()) {
                (Some(&[(a, low), (b, high)]), _) => {
                    let share = (1.0 - low) / (high - low);
                    println!("pays from about {:.0} tokens on", a as f64 + share * (b - a) as f64);
                }
                (None, Some(&(first, speed))) if speed >= 1.0 => println!("pays at {first} tokens already"),
                _ => println!("does not pay here"),
            }
        }
    }
}

/// Measures a target with so many key/value heads.
fn measure(measured: &mut Measured, rounds: usize, longest: usize) {
    let dir = std::env::temp_dir().join("gorgon-bench-long-context");
    let models = Models::new(&dir, measured.kv_heads);
    let decoder = &models.decoder;
    let per_token = KvCache::bytes(decoder.config(), decoder.compute(), 4096) / 4096;
    let weights = decoder.bytes_per_greedy_step();
    println!(
        "{} key/value heads of {}: {} MB of weights, {per_token} bytes of cache per token: as much from {} tokens on; \
         small model {:.1} MB; {} threads",
        measured.kv_heads,
        SHAPE.heads,
        weights / 1_000_000,
        weights as u128 / per_token,
        models.small.decoder().bytes_per_greedy_step() as f64 / 1e6,
        rayon::current_num_threads()
    );
    let text: Vec<Token> = (0..SHAPE.max_positions as u32).map(|i| (i * i % 8191 * 97 + i) % 4096).collect();
    let target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
    let mut session: Sequence = Session::new(target, drafter(PARTS[0], &models.small, &Arc::default()));
    for length in LENGTHS.into_iter().filter(|&length| length <= longest) {
        measured.at(&mut session, &models, &text[..length], rounds);
        println!("{length} tokens; {:.0} s of reading so far", measured.prefill.as_secs_f64());
    }
    measured.print();
    measured.print_crossings();
    let _ = std::fs::remove_dir_all(dir);
}

fn main() {
    let mut args = std::env::args().skip(1);
    let (mut rounds, mut longest, mut out) = (3usize, usize::MAX, None::<PathBuf>);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => rounds = args.next().and_then(|n| n.parse().ok()).filter(|&n| n > 0).expect("--rounds N"),
            "--longest" => longest = args.next().and_then(|n| n.parse().ok()).expect("--longest TOKENS"),
            "--out" => out = args.next().map(PathBuf::from),
            _ => {}
        }
    }
    let mut measured = Measured { kv_heads: 0, rows: vec![], prefill: Duration::ZERO };
    for kv_heads in KV_HEADS {
        measured.kv_heads = kv_heads;
        measure(&mut measured, rounds, longest);
    }
    if let Some(out) = out {
        let text: String = measured.rows.iter().map(|row| format!("{row}\n")).collect();
        std::fs::write(&out, text).expect("a path that can be written");
    }
}
