//! Tests of `swift`: settings, the first set, the width of the path. The search needs a model:
//! `infer/tests/training_free`.

use super::*;

#[test]
fn settings_are_checked() {
    assert_eq!(Swift::parse(""), Ok(Swift { share: 45, seed: 0 }));
    assert_eq!(Swift::parse("30"), Ok(Swift { share: 30, seed: 0 }));
    let seeded = Swift::parse("30,seed=7").unwrap();
    assert_eq!((seeded, seeded.name().as_str()), (Swift { share: 30, seed: 7 }, "swift:30,seed=7"));
    assert_eq!(Swift::parse("seed=7").unwrap().name(), "swift:45,seed=7");
    for wrong in ["0", "101", "x", "30,40,x", "30,seed=x", "30,"] {
        assert!(Swift::parse(wrong).unwrap_err().starts_with(&format!("swift:{wrong}: expected")), "{wrong}");
    }
}

#[test]
fn the_first_set_is_every_second_layer() {
    let lists = |layers: usize, share: u8| Search::new(layers, share, 0).left_out().lists();
    // 2 · 0.45 · 30 = 27 sub-layers of 32 layers.
    let [attention, mlp] = lists(32, 45);
    assert_eq!((attention.len(), mlp.len()), (14, 13));
    assert_eq!(attention[..3], [1, 3, 5]);
    assert!(attention.iter().chain(&mlp).all(|&layer| layer > 0 && layer < 31));
    assert_eq!(lists(6, 45), [vec![1, 3], vec![1]]);
    assert_eq!(lists(5, 100), [vec![1, 2, 3], vec![1, 2, 3]]);
    assert!(Search::new(2, 100, 0).has_ended() && Search::new(3, 45, 0).has_ended());
    let places = [0.99, 0.9, 0.6, 0.5, 0.1, f64::NAN].map(spine::width);
    assert_eq!(places, [3, 5, 8, 10, 10, 10]);
}
