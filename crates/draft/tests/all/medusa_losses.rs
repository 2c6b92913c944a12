//! The heads' loss against another implementation, and against what must hold of any.

use crate::shared;

use burn::tensor::{Device, Tensor, TensorData};
use gorgon_draft::medusa::{HeadLabels, HeadOutput, Heads, LabelWeights, MedusaConfig};
use gorgon_kernels::{Frozen, Table};
use safetensors::SafeTensors;
use serde_json::Value;

fn floats(file: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    let data = file.tensor(name).unwrap_or_else(|_| panic!("{name} is missing"));
    data.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn longs(file: &SafeTensors<'_>, name: &str) -> Vec<i64> {
    file.tensor(name).unwrap().data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect()
}

fn flat(values: Vec<f32>) -> Tensor<1> {
    let n = values.len();
    Tensor::from_data(TensorData::new(values, [n]), &Device::flex())
}

fn read(tensor: &Tensor<1>) -> Vec<f32> {
    tensor.clone().into_data().try_into_vec().unwrap()
}

fn zeros(rows: usize, columns: usize) -> Tensor<2> {
    Tensor::zeros([rows, columns], &Device::flex())
}

/// Labels of all heads from a batch of label rows in which -100 is ignored: head `k` at `t` against `t + k + 2`.
fn labels(all: &[i64], length: usize, heads: usize) -> Vec<HeadLabels> {
    let mut labels = vec![HeadLabels::default(); heads];
    for (b, row) in all.chunks_exact(length).enumerate() {
        for (k, labels) in labels.iter_mut().enumerate() {
            for t in 0..length.saturating_sub(k + 2) {
                if row[t + k + 2] >= 0 {
                    labels.rows.push((b * length + t) as u32);
                    labels.tokens.push(row[t + k + 2] as u32);
                }
            }
        }
    }
    labels
}

#[test]
fn losses_and_gradients_equal_the_references() {
    let test = "losses_and_gradients_equal_the_references";
    let Some(dir) = shared::shared("fixtures/medusa", test) else { return };
    let cases: Value = serde_json::from_slice(&std::fs::read(dir.join("losses.json")).unwrap()).unwrap();
    let bytes = std::fs::read(dir.join("losses.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let cases = cases["cases"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let of = |key: &str| case[key].as_u64().unwrap() as usize;
        let (id, d, vocab, length) = (of("id"), of("hidden"), of("vocab"), of("seq"));
        let config =
            MedusaConfig { heads: of("heads"), blocks: of("layers"), own_lm_heads: true, ..MedusaConfig::default() };
        let specs = config.parameters(d, vocab);
        let weights: Vec<Tensor<1>> =
            specs.iter().map(|spec| flat(floats(&file, &format!("{id}.heads.{}", spec.name)))).collect();
        let rows = of("batch") * length;
        let hidden = flat(floats(&file, &format!("{id}.hidden"))).reshape([rows, d]);
        let labels = labels(&longs(&file, &format!("{id}.labels")), length, config.heads);
        let scales: Vec<f32> =
            (0..config.heads).map(|k| (config.weight(k) / labels[k].rows.len() as f64) as f32).collect();
        for chunk_rows in [7, 1000] {
            let heads = Heads { config, hidden_size: d, vocab_size: vocab, chunk_rows };
            let (outputs, gradients) = heads.losses(&weights, &zeros(vocab, d).into(), &hidden, &labels, Some(&scales));
            check_losses(case, &config, &outputs);
            for (spec, gradient) in specs.iter().zip(&gradients) {
                let want = floats(&file, &format!("{id}.grad_w1.{}", spec.name));
                for (a, b) in read(gradient).iter().zip(&want) {
                    assert!((a - b).abs() <= 1e-6 + 1e-3 * b.abs(), "case {id} {}: {a}, not {b}", spec.name);
                }
            }
        }
    }
}

fn check_losses(case: &Value, config: &MedusaConfig, outputs: &[HeadOutput]) {
    let mut total = 0.0;
    for (k, output) in outputs.iter().enumerate() {
        let n = output.losses.len() as f64;
        let mean = output.losses.iter().map(|&l| f64::from(l)).sum::<f64>() / n;
        let want = case["per_head_loss"][k].as_f64().unwrap();
        assert!((mean - want).abs() < 1e-5 * want, "{}, head {k}: {mean}, not {want}", case["id"]);
        let top1 = output.ranks.iter().filter(|&&rank| rank == 0).count() as f64 / n;
        assert!((top1 - case["per_head_top1"][k].as_f64().unwrap()).abs() < 1e-6);
        total += config.weight(k) * mean;
    }
    let want = case["total_0.8_pow_(k+1)"].as_f64().unwrap();
    assert!((total - want).abs() < 1e-5 * want, "{}: {total}, not {want}", case["id"]);
}

fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 2003.0 - 0.5).collect()
}

/// A head starts as the LM head: its losses are those of the LM head on the same labels.
#[test]
fn new_heads_guess_what_the_lm_head_does() {
    let (d, vocab, rows) = (12, 30, 9);
    let hidden = flat(values(rows * d, 1)).reshape([rows, d]);
    let lm_head = Table::from(flat(values(vocab * d, 2)).reshape([vocab, d]));
    let logits: Vec<f32> = lm_head.logits(hidden.clone()).into_data().try_into_vec().unwrap();
    let labels = HeadLabels { rows: vec![0, 3, 8], tokens: vec![5, 0, 29] };
    for own_lm_heads in [false, true] {
        let config = MedusaConfig { heads: 2, blocks: 2, own_lm_heads, ..MedusaConfig::default() };
        let heads = Heads { config, hidden_size: d, vocab_size: vocab, chunk_rows: 4 };
        let start = |spec: &gorgon_draft::medusa::ParameterSpec| match spec.init {
            gorgon_draft::medusa::Init::Zero => flat(vec![0.0; spec.shape.iter().product()]),
            _ => (*lm_head).clone().reshape([-1]),
        };
        let weights: Vec<Tensor<1>> = config.parameters(d, vocab).iter().map(start).collect();
        let (outputs, none) = heads.losses(&weights, &lm_head, &hidden, &vec![labels.clone(); 2], None);
        assert!(none.is_empty());
        for output in outputs {
            for ((&row, &token), loss) in labels.rows.iter().zip(&labels.tokens).zip(&output.losses) {
                let row = &logits[row as usize * vocab..][..vocab];
                let log_sum = row.iter().map(|x| f64::from(*x).exp()).sum::<f64>().ln();
                assert!((f64::from(*loss) - (log_sum - f64::from(row[token as usize]))).abs() < 1e-5);
            }
        }
    }
}

/// Gradients against differences of losses, with shared and own LM heads. The weights of D-PACE are those of the start.
#[test]
fn gradients_are_slopes() {
    for (own_lm_heads, label_weights) in [
        (false, LabelWeights::Equal),
        (false, LabelWeights::DPace),
        (true, LabelWeights::Equal),
        (true, LabelWeights::DPace),
    ] {
        let config =
            MedusaConfig { heads: 2, blocks: 2, own_lm_heads, label_weights, alpha: 0.3, ..Default::default() };
        gradients_of(config);
    }
}

/// D-PACE of two heads: `w_1 = s_1 (1 + s_2)`, `w_2 = s_1 s_2`, and `w_1 = s_1` where the second has no label.
fn label_weights(config: &MedusaConfig, labels: &[HeadLabels], start: &[HeadOutput]) -> [Vec<f64>; 2] {
    if config.label_weights == LabelWeights::Equal {
        return [vec![1.0; labels[0].rows.len()], vec![1.0; labels[1].rows.len()]];
    }
    let s = |loss: f32| (1.0 - config.alpha) * f64::from(-loss).exp() + config.alpha;
    let first = |&row: &u32| s(start[0].losses[row as usize]);
    let second = |row: &u32| labels[1].rows.iter().position(|at| at == row).map(|i| s(start[1].losses[i]));
    let one = |row: &u32| first(row) * (1.0 + second(row).unwrap_or(0.0));
    let two = |row: &u32| first(row) * second(row).unwrap();
    [labels[0].rows.iter().map(one).collect(), labels[1].rows.iter().map(two).collect()]
}

fn gradients_of(config: MedusaConfig) {
    let (d, vocab, rows) = (6, 11, 7);
    let heads = Heads { config, hidden_size: d, vocab_size: vocab, chunk_rows: 3 };
    let hidden = flat(values(rows * d, 3)).reshape([rows, d]);
    let lm_head = Table::frozen((flat(values(vocab * d, 4)) * 3.0).reshape([vocab, d]), Frozen::default()).unwrap();
    let labels = vec![
        HeadLabels { rows: (0..7).collect(), tokens: vec![1, 2, 3, 4, 5, 6, 7] },
        HeadLabels { rows: vec![0, 2, 5], tokens: vec![9, 8, 7] },
    ];
    let specs = config.parameters(d, vocab);
    let weights: Vec<Vec<f32>> =
        specs.iter().enumerate().map(|(i, s)| values(s.shape.iter().product(), 10 + i)).collect();
    let scales = [0.3f32, 0.2];
    let run = |weights: &[Vec<f32>]| {
        let weights: Vec<Tensor<1>> = weights.iter().cloned().map(flat).collect();
        heads.losses(&weights, &lm_head, &hidden, &labels, Some(&scales))
    };
    let (start, gradients) = run(&weights);
    let label_weights = label_weights(&config, &labels, &start);
    let loss = |weights: &[Vec<f32>]| {
        let (outputs, _) = run(weights);
        let weighed = |k: usize| outputs[k].losses.iter().zip(&label_weights[k]).map(|(&l, w)| f64::from(l) * w);
        (0..2).map(|k| weighed(k).sum::<f64>() * f64::from(scales[k])).sum::<f64>()
    };
    for (p, gradient) in gradients.iter().enumerate() {
        for (i, g) in read(gradient).into_iter().enumerate().step_by(5) {
            let nudged = |by: f32| {
                let mut moved = weights.clone();
                moved[p][i] += by;
                loss(&moved)
            };
            let slope = (nudged(1e-2) - nudged(-1e-2)) / 2e-2;
            assert!((slope - f64::from(g)).abs() < 2e-3 * (1.0 + slope.abs()), "{} [{i}]: {g}, {slope}", specs[p].name);
        }
    }
}

#[test]
fn shapes_that_cannot_be_are_refused() {
    let good = MedusaConfig::default();
    assert!(good.check().is_ok());
    for bad in [
        MedusaConfig { heads: 0, ..good },
        MedusaConfig { heads: 9, ..good },
        MedusaConfig { blocks: 0, ..good },
        MedusaConfig { decay: f64::NAN, ..good },
        MedusaConfig { decay: 1.5, ..good },
        MedusaConfig { alpha: 1.5, ..good },
        MedusaConfig { alpha: f64::NAN, ..good },
    ] {
        assert!(bad.check().unwrap_err().to_string().starts_with("medusa."));
    }
}
