//! Tests of `pass_times`.

use super::*;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::LlamaShape;

fn time(nodes: usize, seconds: f64) -> StepTime {
    StepTime { nodes, seconds, draft_seconds: 0.0, spread: 0.0 }
}

#[test]
fn times_between_sizes_are_interpolated() {
    let curve = StepCurve::new(vec![time(1, 1.0), time(4, 4.0), time(8, 6.0)]).unwrap();
    for (nodes, seconds) in [(1, 1.0), (2, 2.0), (4, 4.0), (6, 5.0), (8, 6.0), (12, 8.0)] {
        assert!((curve.seconds(nodes) - seconds).abs() < 1e-12, "{nodes}");
    }
    let alone = StepCurve::new(vec![time(1, 0.5)]).unwrap();
    assert_eq!((alone.seconds(1), alone.seconds(9)), (0.5, 0.5));
    let drafted = StepTime { draft_seconds: 1.0, ..time(4, 4.0) };
    let curve = StepCurve::new(vec![time(1, 1.0), drafted]).unwrap();
    assert_eq!(curve.seconds(4), 3.0, "drafting is not counted twice");
}

#[test]
fn wrong_times_are_refused() {
    for times in [vec![], vec![time(2, 1.0)], vec![time(1, 1.0), time(1, 2.0)], vec![time(1, 0.0)]] {
        assert!(StepCurve::new(times).unwrap_err().to_string().starts_with("step times: "));
    }
    assert!(StepCurve::new(vec![time(1, f64::NAN)]).is_err());
}

#[test]
fn times_of_a_model_never_fall() {
    let dir = tempfile::tempdir().unwrap();
    let shape = LlamaShape {
        hidden_size: 32,
        intermediate_size: 48,
        layers: 1,
        heads: 4,
        kv_heads: 2,
        vocab_size: 40,
        max_positions: 100,
    };
    shape.write(dir.path(), FloatFormat::F32, 3).unwrap();
    let decoder = Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
    let times = measure(&decoder, 1).unwrap();
    assert_eq!(times.iter().map(|time| time.nodes).collect::<Vec<_>>(), SIZES);
    assert!(times.windows(2).all(|pair| pair[0].seconds <= pair[1].seconds));
    StepCurve::new(times).unwrap();
}
