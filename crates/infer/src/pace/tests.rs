//! Tests of `pace`.

use super::*;

/// Takes steps whose times and tokens are given by the way they are drafted. Returns how often each was taken.
fn taken(pace: &mut Pace, sequences: usize, steps: usize, measured: impl Fn(Choice) -> (u64, usize)) -> [usize; 3] {
    let mut counts = [0; 3];
    for _ in 0..steps {
        let choice = pace.choose(sequences);
        let (millis, tokens) = measured(choice);
        pace.record(sequences, choice, Duration::from_millis(millis), tokens);
        counts[choice as usize] += 1;
    }
    counts
}

#[test]
fn the_fastest_way_is_taken_and_the_others_stay_known() {
    let mut pace = Pace::new(ChainTree::new(3).ok());
    let alone = |choice| match choice {
        Choice::Tree => (12, 3),
        Choice::Chain => (11, 2),
        Choice::Plain => (10, 1),
    };
    let crowded = |choice| match choice {
        Choice::Tree => (90, 48),
        Choice::Chain => (30, 32),
        Choice::Plain => (10, 16),
    };
    let [tree, chain, plain] = taken(&mut pace, 1, 1000, alone);
    assert!(tree > 950 && chain >= 8 && plain >= 8, "{tree} {chain} {plain}");
    let [tree, chain, plain] = taken(&mut pace, 16, 1000, crowded);
    assert!(plain > 950 && chain >= 8 && tree >= 8, "{tree} {chain} {plain}");
    let speedups: Vec<(usize, f64)> = pace.speedups().collect();
    assert_eq!(speedups.len(), 2);
    assert!(speedups[0].0 == 1 && (speedups[0].1 - 2.5).abs() < 1e-9, "{speedups:?}");
    assert!(speedups[1].0 == 16 && (speedups[1].1 - 1.0).abs() < 1e-9, "{speedups:?}");
}

#[test]
fn a_way_that_becomes_faster_is_found() {
    let mut pace = Pace::new(None);
    taken(&mut pace, 2, 300, |choice| if choice == Choice::Tree { (40, 4) } else { (10, 2) });
    let later = taken(&mut pace, 2, 4000, |choice| if choice == Choice::Tree { (10, 4) } else { (10, 2) });
    assert!(later[0] > 2000 && later[1] == 0, "{later:?}");
}

#[test]
fn sizes_are_powers_of_two() {
    assert_eq!([0, 1, 2, 3, 4, 5, 8, 9, 16, 64].map(size), [0, 0, 1, 2, 2, 3, 3, 4, 4, 6]);
}
