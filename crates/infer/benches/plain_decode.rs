//! Plain decoding and prefill of a randomly initialised 110M Llama (hidden 768, 12 layers, V 32000), f32 and f16,
//! beside a memory-read probe over as many bytes, alternating in one run.
//!
//! `cargo bench --workspace --bench plain_decode -- [--rounds N] [--out FILE.json]`

use gorgon_core::accept::{Greedy, random::SeededRandom};
use gorgon_infer::{Limits, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
use memmap2::MmapMut;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 768,
    intermediate_size: 2048,
    layers: 12,
    heads: 12,
    kv_heads: 12,
    vocab_size: 32_000,
    max_positions: 1024,
};
const PREFILL_TOKENS: usize = 256;
const DECODE_TOKENS: usize = 48;

/// Bytes per second of reading `buffer` once with all threads.
fn read_probe(buffer: &[u8]) -> f64 {
    let started = Instant::now();
    let part = |part: &[u8]| {
        let mut lanes = [0u64; 16];
        for chunk in part.chunks_exact(128) {
            for (lane, bytes) in lanes.iter_mut().zip(chunk.chunks_exact(8)) {
                let mut value = [0; 8];
                value.copy_from_slice(bytes);
                *lane = lane.wrapping_add(u64::from_le_bytes(value));
            }
        }
        lanes.iter().fold(0u64, |sum, lane| sum.wrapping_add(*lane))
    };
    black_box(buffer.par_chunks(1 << 19).map(part).reduce(|| 0, u64::wrapping_add));
    buffer.len() as f64 / started.elapsed().as_secs_f64()
}

/// A buffer that the probe reads, in large pages like the weights.
fn probe_buffer(bytes: usize) -> MmapMut {
    let mut buffer = MmapMut::map_anon(bytes).expect("memory for the probe");
    #[cfg(target_os = "linux")]
    let _ = buffer.advise(memmap2::Advice::HugePage);
    buffer.fill(1);
    buffer
}

struct Subject {
    name: &'static str,
    target: DecoderTarget,
    buffer: MmapMut,
}

impl Subject {
    fn load(dir: &Path, format: FloatFormat) -> Self {
        let started = Instant::now();
        let decoder = Arc::new(Decoder::load(dir, &Compute::cpu(format)).expect("the model just written"));
        let bytes = std::fs::metadata(dir.join("model.safetensors")).map_or(0, |file| file.len());
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "{}: loaded {} MB in {seconds:.2} s, {:.2} GB/s",
            format.name(),
            bytes / 1_000_000,
            bytes as f64 / seconds / 1e9
        );
        let buffer = probe_buffer(decoder.bytes_per_greedy_step());
        Self { name: format.name(), target: DecoderTarget::new(decoder, SHAPE.max_positions, Hooks::none()), buffer }
    }

    fn measure(&mut self, round: usize) -> Value {
        let probe_before = read_probe(&self.buffer);
        let prompt: Vec<u32> = (0..PREFILL_TOKENS as u32).map(|i| (i * 97 + 11) % SHAPE.vocab_size as u32).collect();
        let limits = Limits { max_new_tokens: DECODE_TOKENS + 1, end_tokens: vec![] };
        let observe = &mut |_| ControlFlow::Continue(());
        let run =
            decode(&mut self.target, &prompt, &Greedy, &mut SeededRandom::new(0), &limits, observe).expect("it fits");
        let probe_after = read_probe(&self.buffer);
        let decode = DECODE_TOKENS as f64 / run.decode_time.as_secs_f64();
        let read = decode * self.buffer.len() as f64;
        json!({
            "round": round, "dtype": self.name, "threads": rayon::current_num_threads(),
            "decode_tokens_per_second": decode,
            "prefill_tokens_per_second": PREFILL_TOKENS as f64 / run.prefill_time.as_secs_f64(),
            "weight_bytes_per_step": self.buffer.len(),
            "decode_gb_per_second": read / 1e9,
            "probe_gb_per_second": (probe_before + probe_after) / 2e9,
            "decode_over_probe": read / ((probe_before + probe_after) / 2.0),
        })
    }
}

/// Lowest, median and highest value of a field.
fn spread(rows: &[Value], name: &str, field: &str) -> (f64, f64, f64) {
    let mut values: Vec<f64> =
        rows.iter().filter(|row| row["dtype"] == name).filter_map(|row| row[field].as_f64()).collect();
    values.sort_by(f64::total_cmp);
    (values[0], values[values.len() / 2], values[values.len() - 1])
}

/// Medians with lowest and highest values.
fn print_table(subjects: &[Subject], rows: &[Value]) {
    println!("| dtype | decode tokens/s | prefill tokens/s | weights read GB/s | probe GB/s | decode / probe |");
    println!("|---|---|---|---|---|---|");
    for subject in subjects {
        let cell = |field: &str, digits: usize| {
            let (low, median, high) = spread(rows, subject.name, field);
            format!("{median:.digits$} ({low:.digits$}–{high:.digits$})")
        };
        println!(
            "| {} | {} | {} | {} | {} | {} |",
            subject.name,
            cell("decode_tokens_per_second", 1),
            cell("prefill_tokens_per_second", 0),
            cell("decode_gb_per_second", 1),
            cell("probe_gb_per_second", 1),
            cell("decode_over_probe", 2)
        );
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let (mut rounds, mut out) = (7usize, None::<PathBuf>);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => rounds = args.next().and_then(|n| n.parse().ok()).filter(|&n| n > 0).expect("--rounds N"),
            "--out" => out = args.next().map(PathBuf::from),
            _ => {}
        }
    }
    let dir = std::env::temp_dir().join("gorgon-bench-llama-110m");
    // Stored in f32, so that the f32 rows really read 32 bits a weight.
    SHAPE.write(&dir, FloatFormat::F32, 0).expect("a temporary folder that can be written");
    let mut subjects = [Subject::load(&dir, FloatFormat::F32), Subject::load(&dir, FloatFormat::F16)];
    subjects.iter_mut().for_each(|subject| drop(subject.measure(0)));
    let mut rows = vec![];
    for round in 0..rounds {
        // Alternating order, so that neither format always runs after the other.
        if round % 2 == 1 {
            subjects.reverse();
        }
        rows.extend(subjects.iter_mut().map(|subject| subject.measure(round)));
        if round % 2 == 1 {
            subjects.reverse();
        }
    }
    print_table(&subjects, &rows);
    if let Some(out) = out {
        let text = serde_json::to_string_pretty(&rows).expect("plain values");
        std::fs::write(&out, text + "\n").expect("a path that can be written");
    }
    let _ = std::fs::remove_dir_all(dir);
}
