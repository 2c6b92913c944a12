use super::super::reference;
use super::*;

fn values(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// Weights as the storage type keeps them.
fn stored(w: &[f32], dtype: WeightDtype) -> Vec<f32> {
    match dtype {
        WeightDtype::F32 => w.to_vec(),
        WeightDtype::F16 => w.iter().map(|&v| f16::from_f32(v).to_f32()).collect(),
        WeightDtype::Bf16 => w.iter().map(|&v| bf16::from_f32(v).to_f32()).collect(),
        WeightDtype::Bf16Pairs => unreachable!("tested on their own"),
    }
}

#[test]
fn every_instruction_set_equals_the_reference_bit_for_bit() {
    for (d_in, d_out) in [(1, 1), (24, 130), (96, 64), (130, 200)] {
        let w = values(d_in * d_out, 3);
        let bias = values(d_out, 5);
        for dtype in [WeightDtype::F32, WeightDtype::F16, WeightDtype::Bf16] {
            let packed = Packed::pack(d_in, d_out, dtype, &(&w[..], d_in)).unwrap();
            for rows in (1..=13).chain([19, 64]) {
                let x = values(rows * d_in, rows as u32);
                let mut want = reference::few_row_matmul(&x, &stored(&w, dtype), d_in, d_out);
                for (i, v) in want.iter_mut().enumerate() {
                    *v += bias[i % d_out];
                }
                for isa in Isa::available() {
                    let mut y = vec![0f32; rows * d_out];
                    few_row_matmul(isa, &x, &packed, Some(&bias), &mut y);
                    assert_eq!(y, want, "{isa:?} {dtype:?} {rows}x{d_in}x{d_out}");
                }
            }
        }
    }
}

#[test]
fn blocks_and_chunks_do_not_change_a_bit() {
    let (d_in, d_out) = (2100, 100);
    let w = values(d_in * d_out, 3);
    let x = values(300 * d_in, 8);
    for dtype in [WeightDtype::F32, WeightDtype::F16, WeightDtype::Bf16] {
        let packed = Packed::pack(d_in, d_out, dtype, &(&w[..], d_in)).unwrap();
        let want = reference::few_row_matmul(&x, &stored(&w, dtype), d_in, d_out);
        for rows in [7, 15, 16, 31, 240, 241, 300] {
            let mut y = vec![0f32; rows * d_out];
            few_row_matmul(Isa::detect(), &x[..rows * d_in], &packed, None, &mut y);
            assert!(y == want[..rows * d_out], "{dtype:?}, {rows} rows");
        }
    }
}

#[test]
fn a_row_does_not_depend_on_its_company_or_the_threads() {
    let (d_in, d_out) = (256, 1100);
    let w = values(d_in * d_out, 1);
    let packed = Packed::pack(d_in, d_out, WeightDtype::F16, &(&w[..], d_in)).unwrap();
    let x = values(64 * d_in, 9);
    let alone: Vec<f32> = x
        .chunks(d_in)
        .flat_map(|row| {
            let mut y = vec![0f32; d_out];
            few_row_matmul(Isa::detect(), row, &packed, None, &mut y);
            y
        })
        .collect();
    for rows in 1..=64 {
        let mut y = vec![0f32; rows * d_out];
        few_row_matmul(Isa::detect(), &x[..rows * d_in], &packed, None, &mut y);
        assert_eq!(y, alone[..rows * d_out], "{rows} rows");
    }
}

#[test]
fn rows_of_packed_weights_can_be_read_back() {
    let (d_in, d_out) = (37, 150);
    let w = values(d_in * d_out, 4);
    for dtype in [WeightDtype::F32, WeightDtype::F16, WeightDtype::Bf16] {
        let packed = Packed::pack(d_in, d_out, dtype, &(&w[..], d_in)).unwrap();
        let mut row = vec![0f32; d_in];
        for r in 0..d_out {
            packed.copy_row(r, &mut row);
            assert_eq!(row, stored(&w[r * d_in..(r + 1) * d_in], dtype));
        }
    }
}

#[test]
fn weights_that_do_not_fit_are_refused() {
    let w = [1.0, 70_000.0];
    let error = Packed::pack(2, 1, WeightDtype::F16, &(&w[..], 2)).unwrap_err();
    assert!(error.to_string().contains("70000"), "{error}");
    assert!(Packed::pack(2, 1, WeightDtype::Bf16, &(&w[..], 2)).is_ok());
    assert!(Packed::pack(0, 1, WeightDtype::F32, &(&w[..], 2)).is_err());
}

#[test]
fn tiles_are_balanced() {
    let split = |rows: usize| {
        let (mut heights, mut left) = (vec![], rows);
        while left > 0 {
            let height = tile_height(left);
            heights.push(height);
            left -= height;
        }
        heights
    };
    assert_eq!(split(12), [6, 6]);
    assert_eq!(split(13), [5, 4, 4]);
    assert_eq!(split(25), [5; 5]);
    assert_eq!(split(64), [6, 6, 6, 6, 6, 6, 6, 6, 6, 5, 5]);
    assert_eq!(split(1), [1]);
}
