//! Tests of `tall`.

use super::*;

fn tiles(rows: usize) -> Vec<(usize, usize)> {
    (0..rows.div_ceil(TALLEST)).map(|tile| tile_of(tile, rows)).collect()
}

#[test]
fn rows_are_laid_side_by_side() {
    if !is_x86_feature_detected!("avx512f") {
        eprintln!("SKIPPED: no AVX-512 here");
        return;
    }
    for (rows, d_in) in [(7, 5), (8, 16), (11, 20), (15, 33), (16, 64), (40, 50), (64, 700)] {
        let x: Vec<f32> = (0..rows * d_in).map(|i| i as f32).collect();
        let mut space = vec![];
        // SAFETY: the processor has it, as asked above.
        let laid = unsafe { SideBySide::new(&x, d_in, &mut space) };
        for (tile, (row, height)) in tiles(rows).into_iter().enumerate() {
            for (k, r) in (0..d_in).flat_map(|k| (0..height).map(move |r| (k, r))) {
                let found = laid.values[tile * place(d_in) + k * height + r];
                assert_eq!(found, x[(row + r) * d_in + k], "{rows} rows of {d_in}: row {}, input {k}", row + r);
            }
        }
    }
}

#[test]
fn tiles_are_balanced() {
    let heights = |rows| tiles(rows).into_iter().map(|(_, height)| height).collect::<Vec<_>>();
    assert_eq!(heights(15), [15]);
    assert_eq!(heights(16), [8, 8]);
    assert_eq!(heights(31), [10, 10, 11]);
    assert_eq!(heights(64), [12, 13, 13, 13, 13]);
    for rows in FROM..=500 {
        let heights = heights(rows);
        assert_eq!(heights.iter().sum::<usize>(), rows);
        assert!(heights.iter().all(|h| (FROM..=TALLEST).contains(h)), "{heights:?}");
    }
}
