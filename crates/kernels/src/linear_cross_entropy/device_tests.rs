//! Rows of logits and their gradients on a GPU against the definitions.

use super::cube::Rows;
use super::*;
use crate::device::tests::{device, product_bound, tensor, value, values_of};
use crate::projected::Projected;
use crate::{Isa, Table};
use burn::tensor::{DType, Tensor};

/// A label, a scale, and few distinct logits, so that there are ties, for each row.
struct Case {
    logits: Vec<f32>,
    labels: Vec<u32>,
    scales: Vec<f32>,
    vocab: usize,
}

impl Case {
    fn new(rows: usize, vocab: usize) -> Self {
        let logits = (0..rows * vocab).map(|i| (value(i * 13 + 1) * 40.0).round() * 0.25).collect();
        let labels = (0..rows).map(|i| ((i * 77 + 5) % vocab) as u32).collect();
        Self { logits, labels, scales: (0..rows).map(|i| 0.25 * i as f32).collect(), vocab }
    }

    fn labels(&self) -> Labels<'_> {
        Labels { tokens: &self.labels, scales: &self.scales }
    }

    /// Losses, ranks and gradients on the CPU.
    fn wanted(&self) -> (Vec<f32>, Vec<u32>, Vec<f32>) {
        let rows = self.labels.len();
        let (mut losses, mut ranks, mut gradient) = (vec![0.0; rows], vec![0; rows], self.logits.clone());
        cross_entropy_rows(Isa::detect(), &mut gradient, &self.labels, &self.scales, &mut losses, &mut ranks);
        (losses, ranks, gradient)
    }
}

fn close(got: &[f32], want: &[f32], bound: f32) {
    assert_eq!(got.len(), want.len());
    for (i, (a, b)) in got.iter().zip(want).enumerate() {
        assert!((a - b).abs() <= bound * (1.0 + b.abs()), "{i}: {a} against {b}");
    }
}

/// Vocabularies that are read one, two and four at a time, shorter and longer than there are units; rows in two chunks.
#[test]
fn rows_are_differentiated_in_place() {
    let Some(device) = device() else { return };
    for (rows, vocab) in [(5, 3), (7, 255), (4, 1000), (3, 1030), (9, 4096)] {
        let case = Case::new(rows, vocab);
        let (losses, ranks, gradient) = case.wanted();
        let found = Rows::new(case.labels(), &device);
        let mut got = vec![];
        for (first, part) in [(0, 2), (2, rows - 2)] {
            let logits = case.logits[first * vocab..(first + part) * vocab].to_vec();
            got.extend(values_of(found.differentiate(tensor(logits, [part, vocab], &device), first)));
        }
        let read = found.read();
        close(&read.0, &losses, 5e-6);
        assert_eq!(read.1, ranks);
        close(&got, &gradient, 2e-6);
    }
}

/// As products in these formats leave them.
#[test]
fn narrow_formats_are_summed_in_f32() {
    let Some(device) = device() else { return };
    for (format, bound) in [(DType::F16, 1e-3), (DType::BF16, 8e-3)] {
        if !device.supports_dtype(format) {
            eprintln!("SKIPPED: {device:?} has no {format:?}");
            continue;
        }
        let case = Case::new(6, 3000);
        let (losses, ranks, gradient) = case.wanted();
        let found = Rows::new(case.labels(), &device);
        // A quarter of a small number is exact in both.
        let logits = tensor(case.logits.clone(), [6, case.vocab], &device).cast(format);
        let got = found.differentiate(logits, 0);
        assert_eq!(got.dtype(), format);
        let read = found.read();
        close(&read.0, &losses, 5e-6);
        assert_eq!(read.1, ranks);
        let got = values_of(got);
        got.iter().zip(&gradient).for_each(|(a, b)| assert!((a - b).abs() <= bound * b.abs() + 1e-7, "{a} {b}"));
    }
}

#[test]
fn logits_that_others_see_stay_as_they_are() {
    let Some(device) = device() else { return };
    let case = Case::new(3, 64);
    let logits = tensor(case.logits.clone(), [3, 64], &device);
    let gradient = Rows::new(case.labels(), &device).differentiate(logits.clone(), 0);
    close(&values_of(gradient), &case.wanted().2, 2e-6);
    assert_eq!(values_of(logits), case.logits);
    // A product's own result is not copied.
    let product = tensor(vec![1.0; 6], [2, 3], &device).matmul(tensor(vec![1.0; 12], [3, 4], &device));
    assert!(crate::device::rows(product).can_mut());
}

#[test]
fn damaged_rows_are_reported() {
    let Some(device) = device() else { return };
    let (rows, vocab) = (5, 300);
    let mut case = Case::new(rows, vocab);
    case.logits[200] = f32::NAN;
    let own = vocab + case.labels[1] as usize;
    case.logits[own] = f32::NAN;
    case.logits[2 * vocab + 9] = f32::INFINITY;
    // Tokens that are ruled out are no damage.
    case.logits[3 * vocab + 10..3 * vocab + 20].fill(f32::NEG_INFINITY);
    let found = Rows::new(case.labels(), &device);
    found.differentiate(tensor(case.logits.clone(), [rows, vocab], &device), 0);
    let losses = found.read().0;
    assert_eq!([0, 1, 2, 3, 4].map(|row| losses[row].is_finite()), [false, false, false, true, true]);
    close(&losses[3..], &case.wanted().0[3..], 5e-6);
}

fn wide(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&x| x as f32).collect()
}

/// From states to the gradients of states and of the LM head, in chunks.
#[test]
fn the_linear_layer_and_its_gradients_equal_the_reference() {
    let Some(device) = device() else { return };
    let bound = product_bound(&device, 2e-5);
    let (rows, d, vocab) = (11, 24, 300);
    let numbers = |n: usize, seed: usize| (0..n).map(|i| value(i * 7 + seed)).collect::<Vec<f32>>();
    let (h, w) = (numbers(rows * d, 1), numbers(vocab * d, 2));
    let labels: Vec<u32> = (0..rows as u32).map(|i| i * 29 % 300).collect();
    let scales: Vec<f32> = (0..rows).map(|i| 0.1 * i as f32).collect();
    let (losses, d_hidden, d_weight) = reference::linear_cross_entropy(&h, &w, d, &labels, &scales);
    let hidden = tensor(h.clone(), [rows, d], &device);
    let table = Table::from(tensor(w.clone(), [vocab, d], &device));
    for chunk in [1, 4, 100] {
        let labels = Labels { tokens: &labels, scales: &scales };
        let got = linear_cross_entropy(&hidden, &table, labels, chunk, true);
        close(&got.losses, &wide(&losses), bound);
        close(&values_of(got.d_hidden), &wide(&d_hidden), bound);
        close(&values_of(got.d_weight.unwrap()), &wide(&d_weight), bound);
    }
    let none =
        linear_cross_entropy(&Tensor::zeros([0, d], &device), &table, Labels { tokens: &[], scales: &[] }, 4, false);
    assert!(none.losses.is_empty() && none.d_hidden.dims() == [0, d]);
}

#[test]
fn soft_targets_equal_the_reference() {
    let Some(device) = device() else { return };
    let bound = product_bound(&device, 2e-5);
    let (rows, d, vocab) = (9, 16, 258);
    let numbers = |n: usize, seed: usize| (0..n).map(|i| value(i * 11 + seed)).collect::<Vec<f32>>();
    let (h, t, w) = (numbers(rows * d, 3), numbers(rows * d, 4), numbers(vocab * d, 5));
    let (losses, d_hidden) = reference::soft_cross_entropy(&h, &t, &w, d, 0.3);
    let table = Table::from(tensor(w.clone(), [vocab, d], &device));
    let [h, t] = [h, t].map(|values| tensor(values, [rows, d], &device));
    for chunk in [2, 100] {
        let got = soft_cross_entropy(&h, &t, &table, 0.3, chunk);
        close(&got.losses, &wide(&losses), bound);
        close(&values_of(got.d_hidden), &wide(&d_hidden), bound);
    }
    // A capped target has logits of its own format, and itself as a target nothing to teach.
    let own = soft_cross_entropy(&h, &h, &table, 1.0, 4);
    assert_eq!(own.ranks, vec![0; rows]);
    assert!(own.d_hidden.abs().max().into_scalar::<f32>() < 1e-5);
    let capped = Projected { hidden: &t, weight: &table, soft_cap: Some(1e-6) };
    let uniform = soft_cross_entropy_between(Projected::new(&h, &table), capped, 1.0, 4, true);
    assert!(uniform.losses.iter().all(|&loss| loss > (vocab as f32).ln() - 1e-4));
}
