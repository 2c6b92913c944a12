//! Tests of `table`.

use super::*;
use burn::tensor::{Device, TensorData};

fn tensor(rows: usize, width: usize, seed: usize) -> Tensor<2> {
    let value = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0;
    let values: Vec<f32> = (0..rows * width).map(value).collect();
    Tensor::from_data(TensorData::new(values, [rows, width]), &Device::flex())
}

/// The largest difference, relative to the largest value.
fn apart(a: Tensor<2>, b: Tensor<2>) -> f32 {
    assert_eq!(a.dims(), b.dims());
    let size = b.clone().abs().max().into_scalar::<f32>();
    (a - b).abs().max().into_scalar::<f32>() / size
}

#[test]
fn panels_change_nothing_but_roundings() {
    let (vocab, d) = (333, 50);
    let fitted = Table::from(tensor(vocab, d, 1));
    let formats = [(TableFormat::F32, 1e-6), (TableFormat::Bf16, 1e-2)];
    for ((format, bound), backward) in formats.into_iter().flat_map(|f| [(f, true), (f, false)]) {
        let held = Frozen { format, backward, budget: u64::MAX };
        let Ok(frozen) = Table::frozen(tensor(vocab, d, 1), held) else {
            eprintln!("SKIPPED: no products in {format:?} here");
            continue;
        };
        assert_eq!(frozen.panel_bytes() > 0, Isa::detect().has_tall_tiles());
        for rows in [1, 5, 9, 40, 300] {
            let (h, g) = (tensor(rows, d, 2), tensor(rows, vocab, 3));
            assert!(apart(frozen.logits(h.clone()), fitted.logits(h)) < bound, "{format:?} {rows}");
            assert!(apart(frozen.back(g.clone()), fitted.back(g)) < bound, "{format:?} {rows}");
        }
    }
}

#[test]
fn panels_without_room_are_left_out_or_refused() {
    let rows = || tensor(100, 20, 1);
    let held = |format| Frozen { format, backward: true, budget: 1000 };
    assert_eq!(Table::frozen(rows(), held(TableFormat::F32)).unwrap().panel_bytes(), 0);
    let error = Table::frozen(rows(), held(TableFormat::Bf16)).unwrap_err().to_string();
    assert!(error.contains("8000 bytes in bf16 do not fit the 1000") || error.contains("no products"), "{error}");
    let part = Table::frozen(rows(), Frozen::default()).unwrap();
    let some = part.of_tokens(Tensor::from_data(TensorData::new(vec![3i32, 7], [2]), &Device::flex()));
    assert_eq!((some.dims(), some.panel_bytes() > 0), ([2, 20], part.panel_bytes() > 0));
}
