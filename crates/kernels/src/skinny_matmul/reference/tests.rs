//! The layout against the fragments of m16n8k16 as PTX defines them.

use super::super::parts;
use super::*;

/// Row and column of number `i` of a lane in the first factor.
fn first_factor(lane: usize, i: usize) -> (usize, usize) {
    (lane / 4 + i / 2 % 2 * 8, lane % 4 * 2 + i % 2 + i / 4 * 8)
}

/// Row and column of number `i` of a lane in the second factor.
fn second_factor(lane: usize, i: usize) -> (usize, usize) {
    (lane % 4 * 2 + i % 2 + i / 2 * 8, lane / 4)
}

/// One matrix product of tiles: `out += a · b`.
fn multiply(a: &[[u16; LANE]], b: &[[u16; 4]], out: &mut [[u64; 8]; 16]) {
    let (mut left, mut right) = ([[0u16; 16]; 16], [[0u16; 8]; 16]);
    for (lane, (a, b)) in a.iter().zip(b).enumerate().take(LANES) {
        for (i, &value) in a.iter().enumerate() {
            let (row, column) = first_factor(lane, i);
            left[row][column] = value;
        }
        for (i, &value) in b.iter().enumerate() {
            let (row, column) = second_factor(lane, i);
            right[row][column] = value;
        }
    }
    for (row, out) in left.iter().zip(out) {
        for (column, out) in out.iter_mut().enumerate() {
            *out += row.iter().zip(&right).map(|(a, b)| u64::from(*a) * u64::from(b[column])).sum::<u64>();
        }
    }
}

/// The kernel's product of eight rows with all outputs, in whole numbers.
fn product_of_fragments(d_in: usize, d_out: usize, x: &[u16], packed: &[u16]) -> Vec<u64> {
    let mut y = vec![0; 8 * d_out];
    for group in 0..d_out.div_ceil(OUTPUTS) {
        let mut sums = [[[0u64; 8]; 16]; 2];
        for block in 0..d_in / INPUTS {
            for (tile, at) in (0..4).map(|tile| (tile, ((group * (d_in / INPUTS) + block) * 4 + tile) * 256)) {
                let a: Vec<[u16; LANE]> =
                    (0..LANES).map(|lane| packed[at + lane * LANE..][..LANE].try_into().unwrap()).collect();
                let b = |lane: usize| lane / 4 * d_in + block * INPUTS + lane % 4 * LANE + tile % 2 * 4;
                let b: Vec<[u16; 4]> = (0..LANES).map(|lane| x[b(lane)..][..4].try_into().unwrap()).collect();
                multiply(&a, &b, &mut sums[tile / 2]);
            }
        }
        for output in (0..OUTPUTS).filter(|output| group * OUTPUTS + output < d_out) {
            for row in 0..8 {
                y[row * d_out + group * OUTPUTS + output] = sums[output / 16][output % 16][row];
            }
        }
    }
    y
}

#[test]
fn fragments_multiply_to_the_product() {
    for (d_in, d_out) in [(32, 32), (64, 16), (96, 50), (32, 1)] {
        let weights: Vec<u16> = (0..d_in * d_out).map(|i| (i * 7919 % 251) as u16).collect();
        let x: Vec<u16> = (0..8 * d_in).map(|i| (i * 104_729 % 241) as u16).collect();
        let mut packed = vec![9; packed_size(d_in, d_out)];
        pack(d_in, &weights, 0, &mut packed);
        let dot = |x: &[u16], w: &[u16]| x.iter().zip(w).map(|(x, w)| u64::from(*x) * u64::from(*w)).sum::<u64>();
        let rows = x.chunks_exact(d_in);
        let want: Vec<u64> = rows.flat_map(|x| weights.chunks_exact(d_in).map(move |w| dot(x, w))).collect();
        assert_eq!(product_of_fragments(d_in, d_out, &x, &packed), want, "{d_in} × {d_out}");
    }
}

#[test]
fn every_weight_has_a_place_of_its_own() {
    let (d_in, d_out) = (96, 64);
    let mut seen = vec![false; packed_size(d_in, d_out)];
    for output in 0..d_out {
        for input in 0..d_in {
            assert!(!std::mem::replace(&mut seen[place(d_in, output, input)], true), "{output}, {input}");
        }
    }
    assert!(seen.iter().all(|&seen| seen));
}

#[test]
fn groups_are_packed_apart() {
    let (d_in, d_out) = (64, 70);
    let weights: Vec<u16> = (0..d_in * d_out).map(|i| i as u16).collect();
    let mut whole = vec![1; packed_size(d_in, d_out)];
    pack(d_in, &weights, 0, &mut whole);
    let mut apart = vec![1; packed_size(d_in, d_out)];
    for (group, packed) in apart.chunks_exact_mut(OUTPUTS * d_in).enumerate() {
        pack(d_in, &weights, group, packed);
    }
    assert_eq!(apart, whole);
}

#[test]
fn parts_cover_all_inputs() {
    for (d_in, d_out) in [(32, 32), (4096, 12_288), (4096, 4096), (11_008, 4096), (4096, 128_256), (96, 64), (544, 40)]
    {
        let parts = parts(d_in, d_out);
        assert!(part_blocks(d_in, d_out) * parts * INPUTS >= d_in, "{d_in} × {d_out}");
        // Without a part that has nothing to do.
        assert!(part_blocks(d_in, d_out) * (parts - 1) * INPUTS < d_in, "{d_in} × {d_out}");
    }
}

#[test]
fn products_are_sums_over_parts() {
    let x: Vec<f32> = (0..2 * 64).map(|i| (i % 7) as f32).collect();
    let weights: Vec<f32> = (0..3 * 64).map(|i| (i % 5) as f32).collect();
    let y = product(64, &x, &weights);
    assert_eq!(y[4], x[64..].iter().zip(&weights[64..128]).map(|(x, w)| x * w).sum::<f32>());
}
