//! Long contexts: plain decoding beside the target over a part of its cache (`partial:B,C`), on a randomly initialised
//! Llama with as many key/value heads as query heads.
//!
//! `cargo bench --workspace --bench long_context -- [--rounds N] [--longest TOKENS] [--out FILE.jsonl]`
//!
//! One text is read once; at every length plain and drafted decoding alternate. Random weights say what a step reads and
//! takes, not what is accepted: their greatest logits are too close. So drafts are measured as they are, and at full cost
//! with tokens that an oracle makes right at a given rate.

use gorgon_core::Token;
use gorgon_core::accept::{Greedy, random::SeededRandom};
use gorgon_core::tree::{ChainTree, TreeBuilder};
use gorgon_draft::draft_model::DraftSampling;
use gorgon_draft::drafter::Drafter;
use gorgon_draft::oracle::OracleDrafter;
use gorgon_draft::partial::PartialDrafter;
use gorgon_infer::{Generation, Limits, Method, Request, Session};
use gorgon_model::cache::{KvCache, Picked, Retrieval};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::PathBuf;
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
const LENGTHS: [usize; 6] = [1024, 2048, 4096, 8192, 16_384, 32_768];
/// B and γ; C is 8.
const PARTS: [(usize, usize); 4] = [(256, 4), (1024, 2), (1024, 4), (1024, 6)];
const CHUNK: usize = 8;
/// Shares of drafts that are made right, given that those before were; `None` for the part's own drafts.
const RATES: [Option<f64>; 3] = [None, Some(0.8), Some(0.95)];
const NEW_TOKENS: usize = 41;

type Sequence = Session<DecoderTarget, Box<dyn Drafter>>;

fn partial(rows: usize) -> Box<dyn Drafter> {
    let retrieval = Retrieval { rows, chunk: CHUNK, picked: Picked::Score };
    Box::new(PartialDrafter::new(retrieval, DraftSampling::GREEDY))
}

fn generate(session: &mut Sequence, text: &[Token], tree: &dyn TreeBuilder) -> Generation {
    let limits = Limits { max_new_tokens: NEW_TOKENS, end_tokens: vec![] };
    let request = Request::new(text, &limits, SeededRandom::new(0));
    let method = Method { tree, rule: &Greedy };
    session.generate(method, request, &mut |_| ControlFlow::Continue(())).expect("it fits")
}

/// Seconds of a token after the first.
fn per_token(found: &Generation) -> f64 {
    found.decode_time.as_secs_f64() / (found.ids.len() - 1) as f64
}

struct Measured {
    rows: Vec<Value>,
    prefill: Duration,
}

impl Measured {
    /// Plain and drafted decoding behind a text, alternating.
    fn at(&mut self, session: &mut Sequence, decoder: &Decoder, text: &[Token], rounds: usize) {
        let started = Instant::now();
        generate(session, text, &ChainTree::ROOT);
        self.prefill += started.elapsed();
        for round in 0..rounds {
            let plain = generate(session, text, &ChainTree::ROOT);
            for part in PARTS.into_iter().filter(|part| part.0 < text.len()) {
                for rate in RATES {
                    self.drafted(session, decoder, text, (round, &plain, part, rate));
                }
            }
        }
    }

    /// Drafted decoding behind a text.
    fn drafted(
        &mut self,
        session: &mut Sequence,
        decoder: &Decoder,
        text: &[Token],
        (round, plain, (rows, drafts), rate): (usize, &Generation, (usize, usize), Option<f64>),
    ) {
        *session.drafter() = match rate {
            None => partial(rows),
            Some(rate) => {
                let mut oracle = OracleDrafter::new(partial(rows), vec![rate; drafts], SHAPE.vocab_size, 0);
                oracle.reveal(plain.ids.clone());
                Box::new(oracle)
            }
        };
        let found = generate(session, text, &ChainTree::new(drafts).expect("a short chain"));
        assert_eq!(found.ids, plain.ids, "drafts change no text");
        let cache = |rows| KvCache::bytes(decoder.config(), decoder.compute(), rows) as u64;
        let tokens = found.tokens_per_step().unwrap_or(1.0);
        self.rows.push(json!({
            "round": round, "context": text.len(), "b": rows, "c": CHUNK, "gamma": drafts, "rate": rate,
            "weight_bytes_per_step": decoder.bytes_per_greedy_step(),
            "cache_bytes_per_step": cache(text.len()), "part_bytes_per_draft": cache(rows),
            "plain_ms_per_token": 1e3 * per_token(plain), "drafted_ms_per_token": 1e3 * per_token(&found),
            "tokens_per_step": tokens, "speedup": per_token(plain) / per_token(&found),
            "step_over_plain_step": per_token(&found) * tokens / per_token(plain),
        }));
    }

    fn median(&self, context: usize, part: (usize, usize), rate: Option<f64>, field: &str) -> Option<f64> {
        let of = |row: &&Value| {
            row["context"] == context && row["b"] == part.0 && row["gamma"] == part.1 && row["rate"] == json!(rate)
        };
        let mut values: Vec<f64> = self.rows.iter().filter(of).filter_map(|row| row[field].as_f64()).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    fn print(&self) {
        println!(
            "| context | cache MB | weights MB | B | γ | plain ms | step / plain | own τ | speed-up, own / 0.8 / 0.95 |"
        );
        println!("|---|---|---|---|---|---|---|---|---|");
        for context in LENGTHS {
            for part in PARTS {
                let of = |rate, field| self.median(context, part, rate, field).unwrap_or(f64::NAN);
                if self.median(context, part, None, "speedup").is_none() {
                    continue;
                }
                let speedups = RATES.map(|rate| format!("{:.2}", of(rate, "speedup"))).join(" / ");
                println!(
                    "| {context} | {:.0} | {:.0} | {} | {} | {:.2} | {:.2} | {:.2} | {speedups} |",
                    of(None, "cache_bytes_per_step") / 1e6,
                    of(None, "weight_bytes_per_step") / 1e6,
                    part.0,
                    part.1,
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
            print!("partial:{},{CHUNK} chain:{}, {rate}: ", part.0, part.1);
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
    let dir = std::env::temp_dir().join("gorgon-bench-long-context");
    SHAPE.write(&dir, FloatFormat::F32, 0).expect("a temporary folder that can be written");
    let decoder = Arc::new(Decoder::load(&dir, &Compute::cpu(FloatFormat::F32)).expect("the model just written"));
    let per_token = KvCache::bytes(decoder.config(), decoder.compute(), 4096) / 4096;
    let weights = decoder.bytes_per_greedy_step();
    println!(
        "{} MB of weights, {per_token} bytes of cache per token: as much from {} tokens on; {} threads",
        weights / 1_000_000,
        weights as u128 / per_token,
        rayon::current_num_threads()
    );
    let text: Vec<Token> = (0..SHAPE.max_positions as u32).map(|i| (i * i % 8191 * 97 + i) % 4096).collect();
    let mut session: Sequence =
        Session::new(DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none()), partial(1024));
    let mut measured = Measured { rows: vec![], prefill: Duration::ZERO };
    for length in LENGTHS.into_iter().filter(|&length| length <= longest) {
        measured.at(&mut session, &decoder, &text[..length], rounds);
        println!("{length} tokens; {:.0} s of reading so far", measured.prefill.as_secs_f64());
    }
    measured.print();
    measured.print_crossings();
    if let Some(out) = out {
        let text: String = measured.rows.iter().map(|row| format!("{row}\n")).collect();
        std::fs::write(&out, text).expect("a path that can be written");
    }
    let _ = std::fs::remove_dir_all(dir);
}
