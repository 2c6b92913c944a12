//! A small random backbone with conversations.

use burn::tensor::{Device, Tensor};
use gorgon_data::pack::Packing;
use gorgon_data::render::Example;
use gorgon_data::shard::Row;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::LlamaShape;
use gorgon_model::target::read;
use gorgon_train::heads::{Conversations, Features};
use gorgon_train::parameters::Parameter;
use gorgon_train::trainer::Objective;
use std::path::Path;
use std::sync::Arc;

pub const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 16,
    intermediate_size: 24,
    layers: 2,
    heads: 2,
    kv_heads: 1,
    vocab_size: 260,
    max_positions: 64,
};

fn example(i: usize) -> Example {
    let length = 12 + i * 5 % 17;
    let ids = (0..length).map(|t| ((t * t + 31 * i) % 250) as u32).collect();
    Example { ids, assistant: (0..length).map(|t| t > 4 && t % 9 != 0).collect() }
}

/// Twelve conversations, three of which are measured on; the backbone is written to `dir`.
pub fn conversations(dir: &Path) -> Conversations {
    SHAPE.write(dir, FloatFormat::F32, 5).unwrap();
    let decoder = Arc::new(Decoder::load(dir, &Compute::cpu(FloatFormat::F32)).unwrap());
    let row = |i: usize| Row {
        row: i as u64,
        id: format!("conversation-{i}"),
        source: "somewhere.jsonl".into(),
        line: 100 + i as u64,
        category: None,
        example: example(i),
        ends: vec!["end_token".into()],
        shard: "shard-00042.parquet".into(),
    };
    let rows: Vec<Row> = (0..12).map(row).collect();
    let lengths = rows.iter().map(|row| row.example.ids.len()).collect();
    Conversations {
        features: Features { decoder, cache: None },
        held_out: rows[..3].to_vec(),
        rows,
        packing: Packing::new(lengths, 40, 3, 1),
        base: dir.display().to_string(),
        decoded_prompts: 2,
        decoded_tokens: 12,
    }
}

/// The loss of a step under given parameters, and its gradients.
pub fn step<O: Objective>(objective: &O, parameters: &[Parameter], number: u64) -> (f64, Vec<Vec<f32>>) {
    let batches = objective.batches(number).unwrap();
    let mut totals: Vec<f64> = vec![];
    for weights in batches.iter().map(|batch| objective.weights(batch)) {
        totals.resize(weights.len(), 0.0);
        totals.iter_mut().zip(weights).for_each(|(total, weight)| *total += weight);
    }
    let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
    let (mut loss, mut sums): (f64, Vec<Vec<f32>>) = (0.0, vec![]);
    for batch in &batches {
        let part = objective.gradients(&weights, batch, &totals).unwrap();
        loss += part.loss;
        let values: Vec<Vec<f32>> = part.gradients.into_iter().map(read).collect();
        sums = match sums.is_empty() {
            true => values,
            false => sums.iter().zip(&values).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + b).collect()).collect(),
        };
    }
    (loss, sums)
}

/// The same parameters with other values, all of them small and none of them zero.
pub fn stirred(parameters: Vec<Parameter>) -> Vec<Parameter> {
    let stir = |(i, p): (usize, Parameter)| {
        let values = read(p.value.clone()).into_iter().enumerate();
        let values = values.map(|(j, v)| v + ((j * 7919 + 31 * i) % 101) as f32 / 500.0 - 0.1).collect();
        Parameter::new(&p.name, &p.shape, p.role, values, &Device::flex())
    };
    parameters.into_iter().enumerate().map(stir).collect()
}

/// Along a random direction of each parameter, the gradient is what the loss does.
pub fn assert_slopes<O: Objective>(objective: &O, parameters: &[Parameter], number: u64) {
    let (_, gradients) = step(objective, parameters, number);
    for (i, parameter) in parameters.iter().enumerate() {
        let direction: Vec<f32> =
            (0..parameter.len()).map(|j| (((j + 3 * i) * 7919 % 101) as f32 / 50.0) - 1.0).collect();
        let expected: f64 = gradients[i].iter().zip(&direction).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
        let moved = |by: f32| {
            let mut moved = parameters.to_vec();
            let values = read(parameter.value.clone()).iter().zip(&direction).map(|(v, d)| v + by * d).collect();
            moved[i] = Parameter::new(&parameter.name, &parameter.shape, parameter.role, values, &Device::flex());
            step(objective, &moved, number).0
        };
        let by = 2e-3;
        let slope = (moved(by) - moved(-by)) / f64::from(2.0 * by);
        assert!((slope - expected).abs() < 0.02 * (0.05 + slope.abs()), "{}: {expected} {slope}", parameter.name);
    }
}
