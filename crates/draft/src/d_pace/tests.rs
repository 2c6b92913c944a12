use super::weights;

#[test]
fn a_place_without_a_label_changes_no_other() {
    let all = weights(0.5, &[Some(0.1), Some(0.7), Some(1.5)]);
    let gap = weights(0.5, &[Some(0.1), None, Some(0.7), None, Some(1.5), None]);
    assert_eq!([gap[0], gap[2], gap[4]], all[..]);
    assert_eq!([gap[1], gap[3], gap[5]], [0.0; 3]);
    assert!(all[0] > all[1] && all[1] > all[2], "{all:?}");
}
