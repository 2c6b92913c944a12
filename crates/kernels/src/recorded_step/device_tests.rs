//! A recorded step's decisions on a GPU against the definitions.

use super::*;
use crate::device::tests::{device, has_bf16, ints_of, tensor, value};
use crate::tree_attention::AttentionMask;
use burn::tensor::DType;
use gorgon_core::accept::noise::Noise;

#[test]
fn greatest_entries_are_found_in_order() {
    found_in_order(DType::F32);
}

#[test]
fn greatest_entries_are_found_in_order_in_bf16() {
    found_in_order(DType::BF16);
}

fn found_in_order(format: DType) {
    let Some(device) = device() else { return };
    if format == DType::BF16 && !has_bf16(&device) {
        return;
    }
    for vocab in [3, 255, 1000, 5000] {
        // Few distinct values, so that there are ties; all of them are numbers in bf16 too.
        let logits: Vec<f32> = (0..4 * vocab).map(|i| (value(i * 13 + 1) * 20.0).round()).collect();
        let wanted = |row: &[f32], width: usize| -> Vec<i32> {
            let mut order: Vec<usize> = (0..row.len()).collect();
            order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
            order[..width].iter().map(|&i| i as i32).collect()
        };
        let rows = tensor(logits.clone(), [1, 4, vocab], &device).cast(format);
        for width in [1, 3] {
            let want: Vec<i32> = logits.chunks_exact(vocab).flat_map(|row| wanted(row, width)).collect();
            assert_eq!(ints_of(top_rows(&rows, width)), want);
        }
        let want: Vec<i32> = logits.chunks_exact(vocab).flat_map(|row| wanted(row, 1)).collect();
        assert_eq!(ints_of(argmax_rows(&rows)), want);
    }
}

#[test]
fn damaged_logits_are_reported() {
    let Some(device) = device() else { return };
    let mut logits = vec![1.0f32; 5 * 300];
    logits[200] = f32::NAN;
    logits[300 + 7] = f32::INFINITY;
    logits[600..900].fill(f32::NEG_INFINITY);
    logits[900 + 4] = f32::NEG_INFINITY;
    logits[1200 + 299] = 2.0;
    let rows = tensor(logits, [1, 5, 300], &device);
    assert_eq!(ints_of(argmax_rows(&rows)), [-1, -1, -1, 0, 299]);
    // Heads are untrusted: what they say of numbers that are none is somewhere in the vocabulary.
    assert!(ints_of(top_rows(&rows, 4)).iter().all(|&token| (0..300).contains(&token)));
}

/// The noise is the host's, at every place that rows of a step are about, and what is no logit stays none.
#[test]
fn noise_is_that_of_the_host() {
    let Some(device) = device() else { return };
    let (noise, vocab, sharpness) = (Noise::new(7, 1 << 40), 3000, 1.25f32);
    let table = NoiseTable::new(Noise::new(1, 2), &device);
    overwrite(table.key(), NoiseTable::new(noise, &device).key());
    let mut logits: Vec<f32> = (0..9 * vocab).map(|i| value(i * 11 + 3) * 8.0).collect();
    (logits[5], logits[vocab + 1], logits[2 * vocab + 2]) = (f32::NEG_INFINITY, f32::NAN, f32::INFINITY);
    let rows = tensor(logits.clone(), [1, 9, vocab], &device);
    let pass = PassTable::new(&[0; 9], &mask(), 41, 512, &[None], &device);
    let depths = reference::depths(&PARENTS);
    let at = |places: &NoisePositions, position: &dyn Fn(usize) -> usize| {
        let got: Vec<f32> = perturb(&rows, &table, places, sharpness).into_data().try_into_vec().unwrap();
        for (i, (&got, &logit)) in got.iter().zip(&logits).enumerate() {
            let exponential = noise.exponential(position(i / vocab), (i % vocab) as u32);
            let want = f64::from(logit) * f64::from(sharpness) - exponential.ln();
            let is_close = (f64::from(got) - want).abs() < 4e-6 * want.abs().max(1.0);
            assert!(is_close || f64::from(got) == want || (got.is_nan() && want.is_nan()), "{i}: {got} {want}");
        }
    };
    at(&NoisePositions::of_nodes(&pass), &|row| 41 + depths[row] + 1);
    at(&NoisePositions::behind_root(&pass), &|row| 41 + 1 + row);
    let one = rows.clone().narrow(1, 0, 1);
    let got: Vec<f32> =
        perturb(&one, &table, &NoisePositions::at(70_000, &device), 0.0).into_data().try_into_vec().unwrap();
    let furthest = got.iter().enumerate().filter(|(i, _)| *i != 5);
    let furthest = furthest.map(|(i, got)| (f64::from(*got) + noise.exponential(70_000, i as u32).ln()).abs());
    assert!(furthest.fold(0.0, f64::max) < 4e-6);
}

const PARENTS: [usize; 9] = [0, 0, 0, 1, 1, 2, 3, 6, 5];

fn mask() -> AttentionMask {
    let path = |mut node: usize| {
        let mut path = vec![node];
        while node > 0 {
            node = PARENTS[node];
            path.insert(0, node);
        }
        path
    };
    let paths: Vec<Vec<usize>> = (0..PARENTS.len()).map(path).collect();
    AttentionMask::from_paths(paths.iter().map(Vec::as_slice))
}

/// The accepted path, what is emitted, and the next table: the one that the host would have made.
#[test]
fn paths_are_accepted_and_the_next_table_written() {
    let Some(device) = device() else { return };
    let windows = [None, Some(3), Some(40)];
    let tree = TreeTable::new(&PARENTS, &[0; 9], &device);
    assert_eq!((tree.nodes(), tree.longest()), (9, 5));
    for case in 0..40usize {
        let prefix = case * 3;
        let tokens: Vec<u32> = (0..9).map(|node| ((node * 7 + case) % 4) as u32).collect();
        let argmax: Vec<i32> = (0..16).map(|node| ((node * 5 + case * case) % 4) as i32).collect();
        let pass_table = PassTable::new(&tokens, &mask(), prefix, 64, &windows, &device);
        let outcome = Outcome::new(&tree, &device);
        let ids = Tensor::from_data(TensorData::new(argmax.clone(), [16]), &device);
        accept(&ids, &tree, &pass_table, &outcome);
        let signed: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
        let path = reference::accept(&PARENTS, &signed, &argmax);
        let read = ints_of(outcome.table().clone());
        let rows: Vec<usize> = read[2..2 + path.len()].iter().map(|&row| row as usize).collect();
        assert_eq!((read[0], read[1], &rows), (prefix as i32, path.len() as i32, &path), "case {case}");
        let last = path[path.len() - 1];
        let mut emitted: Vec<i32> = path[1..].iter().map(|&node| signed[node]).collect();
        emitted.push(argmax[last]);
        assert_eq!(outcome.emitted(&read), emitted);
        assert_eq!(ints_of(outcome.last()), [last as i32]);
        let mut next = tokens;
        next[0] = argmax[last] as u32;
        let want = PassTable::new(&next, &mask(), prefix + path.len(), 64, &windows, &device);
        assert_eq!(real(&pass_table), real(&want), "case {case}");
    }
}

/// A table's entries without those of padding.
fn real(pass_table: &PassTable) -> Vec<i32> {
    let (all, padded, words) = (ints_of(pass_table.table().clone()), pass_table.padded_rows(), pass_table.words());
    let mut real = all[..4].to_vec();
    for first in [4, 4 + padded] {
        real.extend(&all[first..first + pass_table.rows()]);
    }
    for section in 0..pass_table.windows().len() {
        let from = pass_table.sections() + section * pass_table.section_size();
        real.extend(&all[from..from + 1 + pass_table.rows()]);
        real.extend(&all[from + 1 + padded..from + 1 + padded + pass_table.rows() * words]);
    }
    real
}

#[test]
fn trees_are_filled_and_tables_copied() {
    let Some(device) = device() else { return };
    let ranks = [0, 0, 1, 0, 2, 1, 0, 1, 1];
    let tree = TreeTable::new(&PARENTS, &ranks, &device);
    let pass_table = PassTable::new(&[9; 9], &mask(), 2, 64, &[None], &device);
    let before = pass_table.with_slots(64);
    let kept = Tensor::zeros([pass_table.table().dims()[0]], &device);
    overwrite(&kept, pass_table.table());
    let guesses: Vec<i32> = (0..12).map(|i| 100 + i).collect();
    fill(&Tensor::from_data(TensorData::new(guesses, [4, 3]), &device), &tree, &pass_table);
    let want = [9, 100, 101, 103, 105, 104, 106, 110, 107];
    assert_eq!(ints_of(pass_table.tokens())[..9], want);
    overwrite(before.table(), &kept);
    assert_eq!(ints_of(pass_table.tokens())[..9], [9; 9]);
}

/// The first path is [1, 3, 6, 7]; the others keep their tokens unless they are the true ones.
#[test]
fn trees_are_guided() {
    let Some(device) = device() else { return };
    let tree = TreeTable::new(&PARENTS, &[0; 9], &device);
    let truths: Vec<Option<u32>> = (0..12).map(|position| (position != 9).then_some(position + 100)).collect();
    let chosen: Vec<Vec<u32>> = (0..12).map(|root| (0..4).map(|depth| root * 10 + depth).collect()).collect();
    let guide_of = Guide::new(4, &truths, &chosen, 108, &device);
    let tokens = [5, 1, 107, 3, 107, 107, 6, 7, 107];
    let pass_table = PassTable::new(&tokens, &mask(), 6, 64, &[None], &device);
    guide(&guide_of, &tree, &pass_table);
    // Depths: nodes 1 and 2 one, 3 to 5 two, 6 and 8 three, 7 four. At depth one 107 is true, at two 108.
    assert_eq!(ints_of(pass_table.tokens())[..9], [5, 60, 0, 61, 107, 107, 62, 63, 107]);
    let far = PassTable::new(&tokens, &mask(), 11, 64, &[None], &device);
    guide(&guide_of, &tree, &far);
    assert_eq!(ints_of(far.tokens())[..9], tokens.map(|token| token as i32));
}
