//! Tests of `states`.

use super::*;

#[test]
fn rows_are_cut_out_and_joined() {
    let states = HiddenStates::Host { values: (0..6).map(|i| i as f32).collect(), width: 2 };
    assert_eq!((states.rows(), states.tensor().dims()), (3, [1, 3, 2]));
    assert_eq!(states.narrow(1, 2).on_host(), Some(&[2.0, 3.0, 4.0, 5.0][..]));
    assert_eq!(states.select(&[2, 0]).on_host(), Some(&[4.0, 5.0, 0.0, 1.0][..]));
    let joined = HiddenStates::concat(&[states.narrow(2, 1), states.narrow(0, 1)]);
    assert_eq!(joined.on_host(), Some(&[4.0, 5.0, 0.0, 1.0][..]));
    assert_eq!(HiddenStates::concat(std::slice::from_ref(&states)).on_host(), states.on_host());
    let narrow = HiddenStates::Host { values: vec![7.0, 8.0, 9.0].into(), width: 1 };
    let wide = HiddenStates::concat_columns(&[states.clone(), narrow]);
    assert_eq!((wide.width(), wide.rows()), (3, 3));
    assert_eq!(wide.into_values(), [0.0, 1.0, 7.0, 2.0, 3.0, 8.0, 4.0, 5.0, 9.0]);
}

/// Elsewhere they are tensors, and all is done to those: the same comes of it.
#[test]
fn tensors_are_cut_and_joined_as_rows_are() {
    let host = HiddenStates::Host { values: (0..6).map(|i| i as f32).collect(), width: 2 };
    assert_eq!(HiddenStates::from(host.tensor()).on_host(), host.on_host());
    let device = HiddenStates::on_device(host.tensor());
    let both = |work: &dyn Fn(&HiddenStates) -> HiddenStates| {
        assert_eq!(work(&host).into_values(), work(&device).into_values())
    };
    both(&|states| states.select(&[2, 0]));
    both(&|states| states.narrow(1, 2));
    both(&|states| HiddenStates::concat(&[states.narrow(2, 1), states.narrow(0, 2)]));
    both(&|states| HiddenStates::concat_columns(&[states.clone(), states.select(&[1, 1, 0])]));
    both(&|states| states.clone().merge_rows(3));
}
