//! The training step of Medusa heads on given hidden states: positions per second and peak memory, as one JSON line.
//!
//! `cargo bench --bench head_step -- --hidden 256 --vocab 4096 --heads 4 --positions 1024 --steps 20`

use burn::tensor::Device;
use gorgon_kernels::TableFormat;
use gorgon_train::head_step::{HeadStep, HeadStepOptions};
use std::time::Instant;

fn option(name: &str, default: usize) -> usize {
    let args: Vec<String> = std::env::args().collect();
    let at = args.iter().position(|arg| arg == &format!("--{name}"));
    at.and_then(|i| args.get(i + 1)).and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Peak resident size in bytes, where the system tells it.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

fn main() {
    let bf16 = std::env::args().any(|arg| arg == "--bf16");
    let options = HeadStepOptions {
        hidden: option("hidden", 256),
        vocab: option("vocab", 4096),
        heads: option("heads", 4),
        positions: option("positions", 1024),
        parts: option("parts", 2),
        chunk_rows: option("chunk", 1024),
        format: if bf16 { TableFormat::Bf16 } else { TableFormat::F32 },
        device: Device::flex(),
    };
    let mut setting = HeadStep::new(&options).unwrap();
    let (mut seconds, mut loss) = (vec![], 0.0);
    for _ in 0..option("steps", 20) {
        let started = Instant::now();
        loss = setting.step();
        seconds.push(started.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let median = seconds[seconds.len() / 2];
    let engine = if bf16 { "gorgon-bf16" } else { "gorgon" };
    println!(
        "{{\"engine\":\"{engine}\",\"hidden\":{},\"vocab\":{},\"heads\":{},\"positions\":{},\
         \"seconds\":{median},\"positions_per_second\":{},\"peak_bytes\":{},\"loss\":{loss}}}",
        options.hidden,
        options.vocab,
        options.heads,
        options.positions,
        options.positions as f64 / median,
        peak_bytes().unwrap_or(0)
    );
}
