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
        WeightDtype::Int8 | WeightDtype::Bf16Pairs => unreachable!("tested on their own"),
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

/// The definition of 8-bit weights: `q [d_out, d_in]` and a scale per row.
fn quantized(w: &[f32], d_in: usize) -> (Vec<f32>, Vec<f32>) {
    let greatest = |row: &[f32]| row.iter().fold(0f32, |a, b| a.max(b.abs()));
    let scales: Vec<f32> = w.chunks(d_in).map(|row| greatest(row) / 127.0).collect();
    let of_row = |row: &[f32]| -> Vec<f32> {
        let factor = if greatest(row) > 0.0 { 127.0 / greatest(row) } else { 1.0 };
        row.iter().map(|v| (v * factor).round_ties_even()).collect()
    };
    (w.chunks(d_in).flat_map(of_row).collect(), scales)
}

#[test]
fn eight_bits_equal_the_reference_bit_for_bit() {
    // With an odd number of inputs, panels after the first begin in the middle of a cache line.
    for (d_in, d_out) in [(1, 1), (7, 100), (24, 130), (96, 64), (130, 200)] {
        let mut w = values(d_in * d_out, 3);
        w[..d_in].fill(0.0);
        let bias = values(d_out, 5);
        let (q, scales) = quantized(&w, d_in);
        let packed = Packed::pack(d_in, d_out, WeightDtype::Int8, &(&w[..], d_in)).unwrap();
        for rows in (1..=13).chain([64]) {
            let x = values(rows * d_in, rows as u32);
            let mut want = reference::few_row_matmul(&x, &q, d_in, d_out);
            for (i, v) in want.iter_mut().enumerate() {
                *v = *v * scales[i % d_out] + bias[i % d_out];
            }
            for isa in Isa::available() {
                let mut y = vec![0f32; rows * d_out];
                few_row_matmul(isa, &x, &packed, Some(&bias), &mut y);
                assert_eq!(y, want, "{isa:?} {rows}x{d_in}x{d_out}");
            }
        }
    }
}

#[test]
fn eight_bits_are_off_by_half_a_step_at_most() {
    let (d_in, d_out) = (96, 130);
    let w = values(d_in * d_out, 8);
    let whole = Packed::pack(d_in, d_out, WeightDtype::F32, &(&w[..], d_in)).unwrap();
    // Packed from packed weights, as a drafter's copy of an LM head is.
    let packed = Packed::pack(d_in, d_out, WeightDtype::Int8, &whole).unwrap();
    assert_eq!(packed.bytes(), d_out.next_multiple_of(PANEL) * d_in + d_out * 4);
    let mut row = vec![0f32; d_in];
    for (r, want) in w.chunks(d_in).enumerate() {
        packed.copy_row(r, &mut row);
        let step = want.iter().fold(0f32, |a, b| a.max(b.abs())) / 127.0;
        assert!(row.iter().zip(want).all(|(a, b)| (a - b).abs() <= step * 0.5001), "row {r}");
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
    assert!(Packed::pack(2, 1, WeightDtype::Int8, &(&w[..], 2)).is_ok());
    assert!(Packed::pack(2, 1, WeightDtype::Int8, &(&[1.0, f32::INFINITY][..], 2)).is_err());
    assert!(Packed::pack(2, 1, WeightDtype::Int8, &(&[1.0, f32::NAN][..], 2)).is_err());
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
