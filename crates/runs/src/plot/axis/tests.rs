//! Tests of `axis`.

use super::*;

fn labels(axis: &Axis) -> Vec<&str> {
    axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
}

fn linear(low: f64, high: f64, padding: Padding) -> Axis {
    Axis::linear([low, high].into_iter(), padding)
}

#[test]
fn linear_axes_have_round_labels() {
    assert_eq!(labels(&linear(0.0, 2000.0, Padding::Tight)), ["0", "500", "1000", "1500", "2000"]);
    assert_eq!(labels(&linear(0.0, 3.0, Padding::Tight)), ["0", "1", "2", "3"]);
    assert_eq!(labels(&linear(0.31, 1.0, Padding::Wide)), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    assert_eq!(labels(&linear(2.0, 2.6, Padding::Wide)), ["2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6"]);
    assert_eq!(labels(&linear(0.0, 90_000.0, Padding::Tight)), ["0", "20k", "40k", "60k", "80k"]);
    assert_eq!(labels(&linear(0.0, 5e-4, Padding::Tight)), ["0", "1e−4", "2e−4", "3e−4", "4e−4", "5e−4"]);
    assert_eq!(labels(&linear(-1.5, 1.0, Padding::Tight)), ["−1.5", "−1.0", "−0.5", "0", "0.5", "1.0"]);
    assert_eq!(labels(&linear(12_000.25, 12_001.0, Padding::Tight)).first(), Some(&"12.0003k"));
}

#[test]
fn a_single_value_lies_in_the_middle() {
    for value in [0.0, 1.0, -3.5, 1e-12, 1e12] {
        let axis = linear(value, value, Padding::Tight);
        assert!((axis.position(value) - 0.5).abs() < 1e-9, "{value}");
        assert!(axis.ticks.len() >= 2, "{value}: {axis:?}");
    }
}

#[test]
fn logarithmic_axes_have_round_labels() {
    let labels_of = |low, high| {
        let axis = Axis::logarithmic([low, high].into_iter());
        axis.ticks.into_iter().map(|tick| tick.label).collect::<Vec<_>>()
    };
    assert_eq!(labels_of(0.1, 8.0), ["0.1", "0.2", "0.5", "1", "2", "5"]);
    assert_eq!(labels_of(1e-12, 1.0), ["1e−12", "1e−10", "1e−8", "1e−6", "1e−4", "0.01", "1"]);
    assert_eq!(labels_of(2.0, 2.6), ["2.0", "2.2", "2.4", "2.6"]);
    assert_eq!(labels_of(1e3, 1e5), ["1000", "2000", "5000", "1e4", "2e4", "5e4", "1e5"]);
    let axis = Axis::logarithmic([1.0, 100.0].into_iter());
    assert!((axis.position(10.0) - 0.5).abs() < 1e-12);
}
