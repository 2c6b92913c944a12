use super::MeanSpeed;

#[test]
fn first_steps_count_alike_and_later_ones_for_a_tenth() {
    let mut speed = MeanSpeed::default();
    assert_eq!(speed.rate(0), None);
    (1..=4).for_each(|seconds| speed.add(f64::from(seconds), 2.0));
    assert!((speed.seconds() - 2.5).abs() < 1e-12);
    assert_eq!((speed.steps(), speed.rate(5)), (4, None));
    assert!((speed.rate(4).unwrap() - 0.8).abs() < 1e-12);
    (0..200).for_each(|_| speed.add(1.0, 3.0));
    assert!((speed.rate(4).unwrap() - 3.0).abs() < 1e-3);
}

#[test]
fn the_error_is_that_of_a_weighted_mean() {
    let mut speed = MeanSpeed::default();
    assert_eq!(speed.tokens_error(), 0.0);
    [1.0, 5.0, 1.0, 5.0].iter().for_each(|&tokens| speed.add(1.0, tokens));
    // Four alike steps that deviate by 2.
    assert!((speed.tokens_error() - 1.0).abs() < 1e-12);
    // Weights of 0.1 * 0.9^i: their squares sum to 0.1 / 1.9.
    (0..100).for_each(|_| [1.0, 5.0].iter().for_each(|&tokens| speed.add(1.0, tokens)));
    let share = (speed.tokens() - 1.0) / 4.0;
    let deviation = 4.0 * (share * (1.0 - share)).sqrt();
    assert!((speed.tokens_error() - deviation * (0.1f64 / 1.9).sqrt()).abs() < 1e-6);
    (0..400).for_each(|_| speed.add(1.0, 3.0));
    assert!(speed.tokens_error() < 1e-6);
}
