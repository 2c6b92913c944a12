//! Tests of `kernel`.

use super::super::{reference, top_rows};
use super::*;

fn top_row(isa: Isa, row: &[f32], count: usize) -> Vec<(u32, f32)> {
    let mut top = vec![];
    super::top_row(isa, row, count, &mut top);
    top
}

fn value(i: usize) -> f32 {
    ((i.wrapping_mul(2_654_435_761) >> 9) % 173) as f32 / 11.0 - 8.0
}

/// Few distinct values, so that there are ties at every place of the order.
#[test]
fn equals_the_reference() {
    for vocab in [1, 5, 63, 64, 65, 300, 1000] {
        for seed in 0..20 {
            let row: Vec<f32> = (0..vocab).map(|i| value(i + seed * 7919)).collect();
            for count in [0, 1, 2, 10, 70, 1200] {
                let want = reference::top_row(&row, count);
                for isa in Isa::available() {
                    let got = top_row(isa, &row, count);
                    assert_eq!(got.len(), want.len());
                    for (a, b) in got.iter().zip(&want) {
                        assert_eq!(a.0, b.0, "{vocab} {count}");
                        assert!((f64::from(a.1) - b.1).abs() < 1e-6 * (1e-3 + b.1), "{a:?} {b:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn rows_of_nonsense_are_ordered_all_the_same() {
    let indices = |row: &[f32], n| top_row(Isa::detect(), row, n).iter().map(|&(i, _)| i).collect::<Vec<_>>();
    assert_eq!(indices(&[f32::NAN; 5], 3), [0, 1, 2]);
    assert_eq!(indices(&[f32::NAN, 1.0, f32::NEG_INFINITY, 2.0], 4), [3, 1, 0, 2]);
    assert_eq!(indices(&[1.0, f32::INFINITY, f32::INFINITY], 2), [1, 2]);
    assert_eq!(indices(&[0.0, -0.0, 0.0], 2), [0, 1]);
    let mut late = vec![f32::NAN; 200];
    late[150] = -3.0;
    assert_eq!(indices(&late, 2), [150, 0]);
}

#[test]
fn many_rows_are_one_row_each() {
    let (vocab, rows) = (700, 90);
    let logits: Vec<f32> = (0..vocab * rows).map(value).collect();
    let widths: Vec<usize> = (0..rows).map(|i| i % 7).collect();
    let all = top_rows(&logits, vocab, &widths);
    assert_eq!((all.len(), all.iter().count()), (rows, rows));
    for (i, row) in logits.chunks_exact(vocab).enumerate() {
        assert_eq!(all.row(i), top_row(Isa::detect(), row, widths[i]));
    }
}
