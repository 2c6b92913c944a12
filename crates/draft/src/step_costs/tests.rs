use super::StepCosts;

#[test]
fn sizes_between_measured_ones_are_interpolated() {
    let mut costs = StepCosts::known([]);
    assert_eq!((costs.ratio(4), costs.knows_plain()), (1.0, false));
    // The first step of each size is not counted.
    for rows in [1, 5, 9] {
        costs.add(rows, 50.0);
    }
    costs.add(1, 2.0);
    assert_eq!((costs.ratio(1), costs.ratio(6), costs.plain()), (1.0, 2.0, 2.0));
    costs.add(5, 4.0);
    costs.add(9, 8.0);
    for (rows, ratio) in [(3, 1.5), (5, 2.0), (7, 3.0), (9, 4.0), (13, 5.5)] {
        assert!((costs.ratio(rows) - ratio).abs() < 1e-9, "{rows}: {}", costs.ratio(rows));
    }
    // One that is no longer alone with the machine.
    assert_eq!(costs.add(1, 100.0), 6.0);
    assert!((costs.plain() - 4.0).abs() < 1e-9);
    assert_eq!(costs.ratio(5), 1.0, "never below a plain step");
}

#[test]
fn timed_sizes_count_from_the_third_step() {
    let mut costs = StepCosts::timed();
    (0..4).for_each(|_| _ = costs.add(1, 1.0));
    assert!(costs.knows_plain());
    for step in 0..4 {
        assert_eq!(costs.ratio(3), 1.4, "step {step}");
        costs.add(3, 2.0);
    }
    assert_eq!((costs.ratio(3), costs.largest()), (2.0, 3));
    costs.forget_unused();
    assert_eq!(costs.ratio(3), 2.0, "it was used");
    costs.forget_unused();
    assert_eq!((costs.ratio(3), costs.plain(), costs.largest()), (1.4, 1.0, 3));
}

#[test]
fn all_ratios_are_those_of_each_number_of_rows() {
    let mut timed = StepCosts::timed();
    for (rows, seconds) in [(1, 1.0), (2, 1.5), (9, 3.0), (5, 1.2)] {
        (0..5).for_each(|_| _ = timed.add(rows, seconds));
        assert_eq!(timed.ratios(20), (1..=20).map(|rows| timed.ratio(rows)).collect::<Vec<_>>());
    }
    let known = StepCosts::known([(1, 1.0), (4, 2.0), (16, 2.5)]);
    for costs in [StepCosts::default(), StepCosts::timed(), known] {
        assert_eq!(costs.ratios(40), (1..=40).map(|rows| costs.ratio(rows)).collect::<Vec<_>>());
    }
}
