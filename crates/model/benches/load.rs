//! How fast a checkpoint loads from the page cache, and how much memory that takes at its peak (Linux).
//!
//! `cargo bench --bench load -- [--out FILE.json]` writes random 1.1B Llamas in bf16 and in f32 to the
//! temporary folder and loads them in processes of their own, so that each peak is its own. Beside each load, a probe:
//! how long the system takes to hand out as many fresh bytes, touched by all threads.

use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::layout;
use gorgon_model::random::LlamaShape;
use gorgon_model::weights::Checkpoint;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// TinyLlama's.
const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 2048,
    intermediate_size: 5632,
    layers: 22,
    heads: 32,
    kv_heads: 4,
    vocab_size: 32_000,
    max_positions: 2048,
};

/// Highest resident size of this process so far, in bytes.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Reads all files once, so that the load is measured from the page cache.
fn warm(dir: &Path) {
    let mut buffer = vec![0u8; 1 << 20];
    let mut file = std::fs::File::open(dir.join("model.safetensors")).expect("the checkpoint");
    while std::io::Read::read(&mut file, &mut buffer).expect("a readable file") > 0 {}
}

/// Seconds to get `bytes` of fresh memory, page by page, with all threads.
fn fault_probe(bytes: usize) -> f64 {
    let mut pages = memmap2::MmapMut::map_anon(bytes).expect("memory for the probe");
    #[cfg(target_os = "linux")]
    let _ = pages.advise(memmap2::Advice::HugePage);
    let started = Instant::now();
    pages.par_chunks_mut(1 << 21).for_each(|part| part.iter_mut().step_by(4096).for_each(|byte| *byte = 1));
    started.elapsed().as_secs_f64()
}

fn load(dir: &Path, format: FloatFormat) -> Value {
    warm(dir);
    let checkpoint = Checkpoint::open(dir).expect("the checkpoint");
    let weights = checkpoint.loaded_bytes(&Compute::cpu(format));
    let started = Instant::now();
    let decoder = Decoder::load(dir, &Compute::cpu(format)).expect("the model just written");
    let seconds = started.elapsed().as_secs_f64();
    let peak = peak_bytes();
    let largest =
        layout::tensors(decoder.config()).iter().map(|t| t.shape.iter().product::<usize>()).max().unwrap_or(0);
    drop(decoder);
    let size = checkpoint.bytes();
    let stored = size / checkpoint.entries().values().map(|e| e.shape.iter().product::<usize>()).sum::<usize>();
    json!({
        "checkpoint": if stored == 2 { "bf16" } else { "f32" }, "dtype": format.name(), "file_bytes": size,
        "seconds": seconds, "gb_per_second": size as f64 / seconds / 1e9, "fresh_memory_seconds": fault_probe(weights),
        "weight_bytes": weights, "peak_bytes": peak, "allowed_bytes": weights + 2 * stored * largest + 200_000_000,
        "threads": rayon::current_num_threads(),
    })
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, dir, format] = args.as_slice()
        && flag == "--load"
    {
        println!("{}", load(Path::new(dir), format.parse().expect("a format")));
        return;
    }
    let out = args.iter().position(|arg| arg == "--out").and_then(|i| args.get(i + 1)).map(PathBuf::from);
    let mut rows = vec![];
    for stored in [FloatFormat::Bf16, FloatFormat::F32] {
        let dir = std::env::temp_dir().join("gorgon-bench-llama-1b");
        SHAPE.write(&dir, stored, 0).expect("a temporary folder that can be written");
        for round in 0..6 {
            // Another format comes first in each round.
            let mut formats = ["f32", "f16", "bf16"];
            formats.rotate_left(round % 3);
            for format in formats {
                let program = std::env::current_exe().expect("this program");
                let output = Command::new(program).arg("--load").arg(&dir).arg(format).output().expect("it starts");
                let mut row: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
                row["round"] = round.into();
                println!("{row}");
                rows.push(row);
            }
        }
        let _ = std::fs::remove_dir_all(dir);
    }
    if let Some(out) = out {
        let text = serde_json::to_string_pretty(&rows).expect("plain values");
        std::fs::write(&out, text + "\n").expect("a path that can be written");
    }
}
