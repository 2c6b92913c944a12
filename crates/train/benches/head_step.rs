//! The training step of Medusa heads on given hidden states: positions per second and peak memory, as one JSON line.
//!
//! `cargo bench --bench head_step -- --hidden 256 --vocab 4096 --heads 4 --positions 1024 --steps 20`

use burn::tensor::{Device, Tensor, TensorData};
use gorgon_draft::medusa::{HeadLabels, Heads, MedusaConfig};
use gorgon_train::optimizer::{Optimizer, clip, global_norm};
use gorgon_train::parameters::{Parameter, Role};
use rayon::prelude::*;
use std::time::Instant;

fn option(name: &str, default: usize) -> usize {
    let args: Vec<String> = std::env::args().collect();
    let at = args.iter().position(|arg| arg == &format!("--{name}"));
    at.and_then(|i| args.get(i + 1)).and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn values(n: usize, seed: usize, scale: f32) -> Vec<f32> {
    (0..n).map(|i| (((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0) * scale).collect()
}

fn tensor(values: Vec<f32>, shape: [usize; 2]) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, shape), &Device::flex())
}

/// Peak resident size in bytes, where the system tells it.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

fn main() {
    let (d, vocab, k) = (option("hidden", 256), option("vocab", 4096), option("heads", 4));
    let (positions, steps, parts) = (option("positions", 1024), option("steps", 20), option("parts", 2));
    let config = MedusaConfig { heads: k, blocks: 1, own_lm_heads: false, decay: 0.8 };
    let heads = Heads { config, hidden_size: d, vocab_size: vocab, chunk_rows: option("chunk", 1024) };
    let lm_head = tensor(values(vocab * d, 1, 0.05), [vocab, d]);
    let mut parameters: Vec<Parameter> = config
        .parameters(d, vocab)
        .into_iter()
        .map(|spec| {
            let n = spec.shape.iter().product();
            let role = if spec.shape.len() == 2 { Role::Matrix } else { Role::Vector };
            Parameter::new(spec.name, &spec.shape, role, vec![0.0; n], &Device::flex())
        })
        .collect();
    let optimizer = Optimizer::default();
    let mut moments = optimizer.start(&parameters);
    let rows = positions / parts;
    let batch = |part: usize| {
        let hidden = tensor(values(rows * d, 7 + part, 1.0), [rows, d]);
        let of = |head: usize| HeadLabels {
            rows: (0..rows as u32).collect(),
            tokens: (0..rows).map(|i| ((i * 31 + head * 17 + part) % vocab) as u32).collect(),
        };
        (hidden, (0..k).map(of).collect::<Vec<_>>())
    };
    let batches: Vec<_> = (0..parts).map(batch).collect();
    let scales: Vec<f32> = (0..k).map(|head| (config.weight(head) / positions as f64) as f32).collect();
    let (mut seconds, mut loss) = (vec![], 0.0);
    for step in 0..steps as u64 {
        let started = Instant::now();
        let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
        let parts: Vec<_> = batches
            .par_iter()
            .map(|(hidden, labels)| heads.losses(&weights, &lm_head, hidden, labels, Some(&scales)))
            .collect();
        loss = parts
            .iter()
            .flat_map(|(o, _)| o.iter().zip(&scales))
            .fold(0.0, |sum, (o, s)| sum + o.losses.iter().map(|&l| f64::from(l)).sum::<f64>() * f64::from(*s));
        let sums = parts.into_iter().map(|(_, gradients)| gradients);
        let gradients = sums.reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| a + b).collect()).unwrap_or_default();
        let norm = global_norm(&gradients);
        optimizer.apply(&mut parameters, &mut moments, clip(gradients, norm, 1.0), 1e-3, step);
        seconds.push(started.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let median = seconds[seconds.len() / 2];
    println!(
        "{{\"engine\":\"gorgon\",\"hidden\":{d},\"vocab\":{vocab},\"heads\":{k},\"positions\":{positions},\
         \"seconds\":{median},\"positions_per_second\":{},\"peak_bytes\":{},\"loss\":{loss}}}",
        positions as f64 / median,
        peak_bytes().unwrap_or(0)
    );
}
