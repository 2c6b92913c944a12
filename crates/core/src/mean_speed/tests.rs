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
