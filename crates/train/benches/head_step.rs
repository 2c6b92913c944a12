//! The training step of Medusa heads on given hidden states: positions per second and peak memory, as one JSON line.
//!
//! `cargo bench --bench head_step -- --hidden 256 --vocab 4096 --heads 4 --positions 1024 --steps 20`

use burn::tensor::{Device, Tensor, TensorData};
use gorgon_draft::medusa::{HeadLabels, Heads, MedusaConfig};
use gorgon_kernels::{Frozen, Table, TableFormat, team};
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

/// What a step works on.
struct Setting {
    heads: Heads,
    lm_head: Table,
    /// Hidden states and labels of each micro-batch.
    batches: Vec<(Tensor<2>, Vec<HeadLabels>)>,
    scales: Vec<f32>,
}

impl Setting {
    fn new() -> Self {
        let (d, vocab, k) = (option("hidden", 256), option("vocab", 4096), option("heads", 4));
        let (positions, parts) = (option("positions", 1024), option("parts", 2));
        let config = MedusaConfig { heads: k, blocks: 1, own_lm_heads: false, decay: 0.8 };
        let heads = Heads { config, hidden_size: d, vocab_size: vocab, chunk_rows: option("chunk", 1024) };
        let rows = positions / parts;
        let batch = |part: usize| {
            let of = |head: usize| HeadLabels {
                rows: (0..rows as u32).collect(),
                tokens: (0..rows).map(|i| ((i * 31 + head * 17 + part) % vocab) as u32).collect(),
            };
            (tensor(values(rows * d, 7 + part, 1.0), [rows, d]), (0..k).map(of).collect())
        };
        let scales = (0..k).map(|head| (config.weight(head) / positions as f64) as f32).collect();
        let bf16 = std::env::args().any(|arg| arg == "--bf16");
        let format = if bf16 { TableFormat::Bf16 } else { TableFormat::F32 };
        let lm_head =
            Table::frozen(tensor(values(vocab * d, 1, 0.05), [vocab, d]), Frozen { format, ..Frozen::default() })
                .unwrap();
        Self { heads, lm_head, batches: (0..parts).map(batch).collect(), scales }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let specs = self.heads.config.parameters(self.heads.hidden_size, self.heads.vocab_size);
        let zeros = |spec: gorgon_draft::medusa::ParameterSpec| {
            let n = spec.shape.iter().product();
            let role = if spec.shape.len() == 2 { Role::Matrix } else { Role::Vector };
            Parameter::new(spec.name, &spec.shape, role, vec![0.0; n], &Device::flex())
        };
        specs.into_iter().map(zeros).collect()
    }

    /// Loss and summed gradients of all micro-batches.
    fn gradients(&self, parameters: &[Parameter]) -> (f64, Vec<Tensor<1>>) {
        let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
        let parts: Vec<_> = self
            .batches
            .par_iter()
            .map(|(hidden, labels)| {
                let losses = || self.heads.losses(&weights, &self.lm_head, hidden, labels, Some(&self.scales));
                team::one_of(self.batches.len(), losses)
            })
            .collect();
        let loss = parts
            .iter()
            .flat_map(|(outputs, _)| outputs.iter().zip(&self.scales))
            .fold(0.0, |sum, (o, s)| sum + o.losses.iter().map(|&l| f64::from(l)).sum::<f64>() * f64::from(*s));
        let sums = parts.into_iter().map(|(_, gradients)| gradients);
        let sum = sums.reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| a + b).collect());
        (loss, sum.unwrap_or_default())
    }
}

fn main() {
    let setting = Setting::new();
    let mut parameters = setting.parameters();
    let optimizer = Optimizer::default();
    let mut moments = optimizer.start(&parameters);
    let (mut seconds, mut last) = (vec![], 0.0);
    for step in 0..option("steps", 20) as u64 {
        let started = Instant::now();
        let (loss, gradients) = setting.gradients(&parameters);
        let norm = global_norm(&gradients);
        optimizer.apply(&mut parameters, &mut moments, clip(gradients, norm, 1.0), 1e-3, step);
        seconds.push(started.elapsed().as_secs_f64());
        last = loss;
    }
    seconds.sort_by(f64::total_cmp);
    let median = seconds[seconds.len() / 2];
    let engine = if std::env::args().any(|arg| arg == "--bf16") { "gorgon-bf16" } else { "gorgon" };
    let (h, positions) = (setting.heads, option("positions", 1024));
    println!(
        "{{\"engine\":\"{engine}\",\"hidden\":{},\"vocab\":{},\"heads\":{},\"positions\":{positions},\
         \"seconds\":{median},\"positions_per_second\":{},\"peak_bytes\":{},\"loss\":{last}}}",
        h.hidden_size,
        h.vocab_size,
        h.config.heads,
        positions as f64 / median,
        peak_bytes().unwrap_or(0)
    );
}
