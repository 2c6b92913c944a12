//! Tests of `loss`.

use super::*;
use burn::tensor::{Device, TensorData};

fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
}

fn read<const D: usize>(x: &Tensor<D>) -> Vec<f32> {
    x.clone().into_data().try_into_vec().unwrap()
}

/// Products in `bf16` with weights, states and gradients in 32 bits.
#[test]
fn rounded_products_are_near_those_in_32_bits() {
    let (d, rows) = (8, 4);
    let config = MedusaConfig { heads: 1, blocks: 2, own_lm_heads: false, ..MedusaConfig::default() };
    let heads = Heads { config, hidden_size: d, vocab_size: 9, chunk_rows: 4 };
    let flat = |n: usize, seed| {
        let tensor = Tensor::<1>::from_data(TensorData::new(values(n, seed), [n]), &Device::flex());
        tensor.autodiff().require_grad()
    };
    let run = |product| {
        let weights = [flat(d * d, 1), flat(d, 2), flat(d * d, 3), flat(d, 4)];
        let hidden = flat(rows * d, 5);
        let top = heads.blocks(&weights, hidden.clone().reshape([rows, d]), product);
        assert_eq!(top.dtype(), DType::F32);
        let mut grads = top.clone().powi_scalar(2).sum().backward();
        let mut found = vec![read(&top.inner())];
        for leaf in weights.iter().chain([&hidden]) {
            let gradient = leaf.grad_remove(&mut grads).unwrap();
            assert_eq!(gradient.dtype(), DType::F32);
            found.push(read(&gradient));
        }
        found
    };
    for (narrow, wide) in run(DType::BF16).iter().zip(run(DType::F32)) {
        let most = wide.iter().fold(0f32, |most, x| most.max(x.abs()));
        assert_ne!(*narrow, wide);
        narrow.iter().zip(&wide).for_each(|(a, b)| assert!((a - b).abs() < 2e-2 * most, "{a} {b}"));
    }
}

/// Side by side as on a GPU, and one after another as on the CPU: a head without labels is among them.
#[test]
fn heads_together_are_heads_alone() {
    let (d, vocab, rows) = (6, 20, 5);
    let config = MedusaConfig { heads: 3, blocks: 1, own_lm_heads: false, ..MedusaConfig::default() };
    let heads = Heads { config, hidden_size: d, vocab_size: vocab, chunk_rows: 4 };
    let device = Device::flex();
    let flat = |n: usize, seed| Tensor::<1>::from_data(TensorData::new(values(n, seed), [n]), &device);
    let weights: Vec<Tensor<1>> = (0..3).flat_map(|k| [flat(d * d, k), flat(d, k + 9)]).collect();
    let lm_head = Table::from(flat(vocab * d, 4).reshape([vocab, d]));
    let hidden = flat(rows * d, 5).reshape([rows, d]);
    let labels = [vec![0, 1, 2, 3, 4], vec![], vec![1, 4]].map(|rows: Vec<u32>| {
        let tokens = rows.iter().map(|row| (row * 7 + 3) % 20).collect();
        HeadLabels { rows, tokens }
    });
    for scales in [None, Some([0.5f32, 0.25, 0.125])] {
        let begun = || -> Vec<Begun<'_>> {
            let scale = |k: usize| scales.map(|scales| scales[k]);
            let own = |k: usize| &weights[2 * k..2 * k + 2];
            (0..3).map(|k| heads.begin(own(k), &hidden, &labels[k], scale(k), DType::F32)).collect()
        };
        let alone = begun().into_iter().map(|head| heads.alone(head, &lm_head)).collect();
        let together = heads.together(begun(), &lm_head);
        for (a, b) in heads.finish(alone, &lm_head).iter().zip(heads.finish(together, &lm_head)) {
            assert_eq!((&a.0.losses, &a.0.ranks, a.1.len()), (&b.0.losses, &b.0.ranks, b.1.len()));
            a.1.iter().zip(&b.1).for_each(|(x, y)| assert_eq!(read(x), read(y)));
            assert_eq!(a.2.as_ref().map(read), b.2.as_ref().map(read));
        }
    }
}
