//! Tests of `medusa_two`.

use super::*;

#[test]
fn heads_are_warm_before_the_backbone_moves() {
    let two = MedusaTwoConfig { heads_weight: 0.2, backbone_rate: 0.5, warmup_share: 0.25, ..Default::default() };
    assert_eq!(two.balance(0, 40), (0.2, 0.0));
    assert_eq!(two.balance(9, 40), (0.2, 0.0));
    assert_eq!(two.balance(10, 40), (0.2, 0.05));
    assert_eq!(two.balance(19, 40), (0.2, 0.5));
    assert_eq!(two.balance(39, 40), (0.2, 0.5));
    let ramp = MedusaTwoConfig { warmup: Warmup::Ramp, ..two };
    assert_eq!(ramp.balance(0, 40), (0.2 * 0.1, 0.5));
    assert_eq!(ramp.balance(20, 40), (0.2, 0.5));
    assert!(MedusaTwoConfig { warmup_share: 0.7, ..Default::default() }.check().is_err());
}
