use super::*;

#[test]
fn parts_are_not_tall() {
    for (rows, columns) in [(256, 64), (1024, 64), (8192, 896), (5, 1), (4, 1), (100_000, 4096)] {
        let found: Vec<_> = parts(rows, columns).collect();
        assert!(found.iter().all(|part| !part.is_empty() && part.len() < 4 * columns), "{rows} {columns}: {found:?}");
        assert_eq!(found.iter().map(Range::len).sum::<usize>(), rows);
        assert!(found.windows(2).all(|pair| pair[0].end == pair[1].start));
    }
}
