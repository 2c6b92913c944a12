//! How fast a checkpoint loads from the page cache, and how much memory that takes at its peak (Linux).
//!
//! `cargo bench --workspace --bench load -- [--out FILE.json]` writes a random 1.1B Llama in bf16 to the temporary folder
//! and loads it once per format in a process of its own, so that each peak is its own.

use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::layout;
use gorgon_model::random::LlamaShape;
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

fn load(dir: &Path, format: FloatFormat) -> Value {
    warm(dir);
    let started = Instant::now();
    let decoder = Decoder::load(dir, &Compute::cpu(format)).expect("the model just written");
    let seconds = started.elapsed().as_secs_f64();
    let size = std::fs::metadata(dir.join("model.safetensors")).map_or(0, |file| file.len());
    let largest =
        layout::tensors(decoder.config()).iter().map(|t| t.shape.iter().product::<usize>()).max().unwrap_or(0);
    let weights = decoder.config().parameters() as usize * format.bytes();
    let peak = peak_bytes();
    json!({
        "dtype": format.name(), "file_bytes": size, "seconds": seconds, "gb_per_second": size as f64 / seconds / 1e9,
        "weight_bytes": weights, "peak_bytes": peak, "allowed_bytes": weights + 2 * 2 * largest + 200_000_000,
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
    let dir = std::env::temp_dir().join("gorgon-bench-llama-1b");
    SHAPE.write(&dir, FloatFormat::Bf16, 0).expect("a temporary folder that can be written");
    assert!(ModelConfig::read(&dir).is_ok());
    let mut rows = vec![];
    for round in 0..3 {
        for format in ["f32", "f16", "bf16"] {
            let program = std::env::current_exe().expect("this program");
            let output = Command::new(program).arg("--load").arg(&dir).arg(format).output().expect("it starts");
            let mut row: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
            row["round"] = round.into();
            println!("{row}");
            rows.push(row);
        }
    }
    if let Some(out) = out {
        let text = serde_json::to_string_pretty(&rows).expect("plain values");
        std::fs::write(&out, text + "\n").expect("a path that can be written");
    }
    let _ = std::fs::remove_dir_all(dir);
}
