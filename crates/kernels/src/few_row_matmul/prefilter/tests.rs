use super::super::{Packed, WeightDtype, few_row_matmul};
use super::*;
use crate::top_rows;

/// A prefilter of any size; none where the processor has no such products, which it says.
fn prefilter(w: &Arc<Packed>) -> Option<Int8Prefilter> {
    if !Isa::detect().has_byte_products() {
        eprintln!("SKIPPED: no products of bytes here");
        return None;
    }
    Int8Prefilter::copy(w).unwrap()
}

fn noise(i: usize) -> f32 {
    let mut x = (i as u32).wrapping_mul(2_654_435_761) ^ 0x9e37_79b9;
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    ((x ^ (x >> 16)) >> 8) as f32 / (1 << 23) as f32 - 1.0
}

const TYPES: [WeightDtype; 4] = [WeightDtype::F32, WeightDtype::F16, WeightDtype::Bf16, WeightDtype::Bf16Pairs];

/// Definition: the top outputs of a full matmul.
fn by_product(x: &[f32], w: &Packed, counts: &[usize]) -> Vec<(u32, f32)> {
    let mut y = vec![0f32; counts.len() * w.d_out()];
    few_row_matmul(Isa::detect(), x, w, None, &mut y);
    let rows = y.chunks(w.d_out()).zip(counts);
    let greatest = |(row, &count): (&[f32], &usize)| {
        let mut top = vec![];
        top_rows::greatest(Isa::detect(), row, count.min(row.len()), &mut top);
        top
    };
    rows.flat_map(greatest).collect()
}

#[test]
fn finds_what_a_whole_product_has() {
    for (d_in, d_out) in [(30, 5000), (64, 4096), (257, 3001)] {
        let w: Vec<f32> = (0..d_in * d_out).map(noise).collect();
        for dtype in TYPES.into_iter().filter(|dtype| dtype.is_supported()) {
            let packed = Arc::new(Packed::pack(d_in, d_out, dtype, &(&w[..], d_in)).unwrap());
            let Some(prefilter) = prefilter(&packed) else { return };
            for (rows, outlier) in
                [1, 2, 7, 8, 13, 14, 15, 29, 64].into_iter().flat_map(|rows| [(rows, 1.0), (rows, 25.0)])
            {
                // With outliers rows are looked at in 16 bits from the beginning.
                let of = |i: usize| if i % d_in == 3 * (i / d_in) % d_in { outlier } else { 1.0 };
                let x: Vec<f32> = (0..rows * d_in).map(|i| noise(i + 77 * rows) * of(i)).collect();
                let counts: Vec<usize> = (0..rows).map(|row| (row + 1) % 4).collect();
                let mut found = vec![(7, 7.0)];
                let what = format!("{rows} rows of {d_in} x {d_out} {dtype:?}, {outlier}");
                assert!(prefilter.greatest(Isa::detect(), &x, &counts, &mut found), "{what}");
                assert_eq!(found, by_product(&x, &packed, &counts), "{what}");
            }
        }
    }
}

/// Columns that differ by less than the copy can tell, equal ones, and columns of zeros.
#[test]
fn ties_and_near_ties_are_in_order() {
    let (d_in, d_out) = (96, 4000);
    let mut w: Vec<f32> = (0..d_in * d_out).map(|i| noise(i) * 0.1).collect();
    for (copy, column) in [3999, 12, 700, 701, 2500].into_iter().enumerate() {
        for k in 0..d_in {
            let nudge = if copy >= 3 { 1e-6 * copy as f32 } else { 0.0 };
            w[column * d_in + k] = 0.3 * noise(k + 5) + nudge * noise(k);
        }
    }
    w[40 * d_in..41 * d_in].fill(0.0);
    let x: Vec<f32> = (0..d_in).map(|k| noise(k + 5)).collect();
    for dtype in TYPES.into_iter().filter(|dtype| dtype.is_supported()) {
        let packed = Arc::new(Packed::pack(d_in, d_out, dtype, &(&w[..], d_in)).unwrap());
        let Some(prefilter) = prefilter(&packed) else { return };
        let mut found = vec![];
        for count in [1, 2, 4, 5, 7] {
            assert!(prefilter.greatest(Isa::detect(), &x, &[count], &mut found));
            assert_eq!(found, by_product(&x, &packed, &[count]), "{count} {dtype:?}");
        }
    }
}

/// Bounds hold for every output: with each column as the only one that is asked about.
#[test]
fn bounds_hold() {
    let (d_in, d_out) = (200, 96);
    for (size, dtype) in [(1.0f32, TYPES[0]), (1e-12, TYPES[0]), (1e12, TYPES[0]), (1.0, TYPES[3]), (1e-25, TYPES[3])] {
        if !dtype.is_supported() {
            continue;
        }
        // One huge input and one huge weight make the steps of both copies coarse.
        let w: Vec<f32> = (0..d_in * d_out).map(|i| noise(i) * if i % 201 == 0 { 40.0 } else { 1.0 }).collect();
        let x: Vec<f32> = (0..d_in).map(|k| size * noise(k + 9) * if k == 17 { 300.0 } else { 1.0 }).collect();
        let mut facts = RowFacts::default();
        for column in 0..d_out {
            let row = &w[column * d_in..(column + 1) * d_in];
            let packed = Arc::new(Packed::pack(d_in, 1, dtype, &(row, d_in)).unwrap());
            let Some(prefilter) = prefilter(&packed) else { return };
            let mut rows = Rows::default();
            let (mut paired, mut rounded) = (vec![], vec![]);
            let read = super::super::kernel::as_read(&x, &packed, &mut paired, &mut rounded);
            assert!(rows.set(read.numbers, &prefilter));
            facts = rows.facts[0];
            let mut y = [0f32];
            few_row_matmul(Isa::detect(), &x, &packed, None, &mut y);
            #[cfg(target_arch = "x86_64")]
            {
                // SAFETY: `prefilter` looked for the instructions.
                let bounds = unsafe {
                    [kernel::coarse::<1>(&prefilter, 0, &rows, 0..1), kernel::fine::<1>(&prefilter, 0, &rows, 0..1, 0)]
                };
                for [[low, high]] in bounds {
                    assert!(low <= y[0] && y[0] <= high, "column {column}: {low} {} {high}", y[0]);
                }
            }
        }
        assert!(size < 1e-20 || facts.on_kept < facts.on_lost * 1e-3, "{} of {}", facts.on_kept, facts.on_lost);
    }
}

#[test]
fn refuses_what_it_cannot_help_with() {
    let (d_in, d_out) = (64, 2048);
    let w: Vec<f32> = (0..d_in * d_out).map(noise).collect();
    let packed = Arc::new(Packed::pack(d_in, d_out, WeightDtype::F32, &(&w[..], d_in)).unwrap());
    let Some(prefilter) = prefilter(&packed) else { return };
    let mut found = vec![];
    let mut ask = |x: &[f32], count: usize| prefilter.greatest(Isa::detect(), x, &[count], &mut found);
    let x: Vec<f32> = (0..d_in).map(noise).collect();
    assert!(ask(&x, 1));
    // More than there are panels; no numbers; numbers that overflow.
    assert!(!ask(&x, 70));
    for odd in [f32::NAN, f32::INFINITY, 3e38] {
        let mut x = x.clone();
        x[5] = odd;
        assert!(!ask(&x, 1), "{odd}");
    }
    // All outputs equal: no use, and after the second time in a row it is left alone for a while.
    for _ in 0..2 {
        assert!(!ask(&vec![0.0; d_in], 1));
    }
    assert!(!ask(&x, 1));
    assert!(ask(&x, 1) && ask(&x, 1));
    // Small matrices are not copied, nor those that hold something else than numbers.
    assert!(
        Int8Prefilter::of(&Arc::new(Packed::pack(4, 4, WeightDtype::F32, &(&w[..16], 4)).unwrap())).unwrap().is_none()
    );
    let mut odd = w.clone();
    odd[700] = f32::NAN;
    let odd = Packed::pack(d_in, d_out, WeightDtype::F32, &(&odd[..], d_in));
    assert!(odd.is_err() || Int8Prefilter::copy(&Arc::new(odd.unwrap())).unwrap().is_none());
}

/// A row of which 8 bits tell little is filtered in 16, and 8 bits are left alone for a while.
#[test]
fn rows_with_a_huge_input_are_found_as_well() {
    let (d_in, d_out) = (512, 4096);
    let w: Vec<f32> = (0..d_in * d_out).map(noise).collect();
    let packed = Arc::new(Packed::pack(d_in, d_out, WeightDtype::F32, &(&w[..], d_in)).unwrap());
    let Some(prefilter) = prefilter(&packed) else { return };
    let mut x: Vec<f32> = (0..2 * d_in).map(noise).collect();
    x[100] = 80.0;
    let mut found = vec![];
    for _ in 0..5 {
        assert!(prefilter.greatest(Isa::detect(), &x, &[1, 3], &mut found));
        assert_eq!(found, by_product(&x, &packed, &[1, 3]));
    }
    assert!(prefilter.coarse_backoff.pause.load(Ordering::Relaxed) > 0);
    assert_eq!(prefilter.backoff.refused.load(Ordering::Relaxed), 0);
}

#[test]
fn tiles_cover_all_rows() {
    for rows in 1..=100usize {
        let tiles: Vec<_> = (0..rows.div_ceil(TILE)).map(|tile| tile_of(tile, rows)).collect();
        assert!(tiles.iter().all(|tile| (1..=TILE).contains(&tile.len())));
        for row in 0..rows {
            assert!(tile_of_row(row, rows).contains(&row) && tiles.contains(&tile_of_row(row, rows)));
        }
    }
}
