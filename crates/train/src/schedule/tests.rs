//! Tests of `schedule`.

use super::*;

#[test]
fn rises_falls_and_stays_at_the_min_lr_ratio() {
    let schedule = Schedule { peak: 2.0, warmup_steps: 4, steps: 104, min_lr_ratio: 0.1, restart: None };
    assert_eq!(schedule.rate(0), 0.5);
    assert_eq!(schedule.rate(3), 2.0);
    assert_eq!(schedule.rate(4), 2.0);
    assert!((schedule.rate(54) - 1.1).abs() < 1e-12);
    assert!((schedule.rate(104) - 0.2).abs() < 1e-12);
    assert!((schedule.rate(1000) - 0.2).abs() < 1e-12);
    assert!((0..103).all(|step| step < 4 || schedule.rate(step + 1) <= schedule.rate(step)));
    let constant = Schedule { peak: 1.0, warmup_steps: 0, steps: 10, min_lr_ratio: 1.0, restart: None };
    assert_eq!((constant.rate(0), constant.rate(9)), (1.0, 1.0));
}

#[test]
fn a_last_part_rises_and_falls_once_more() {
    let first = Schedule { peak: 2.0, warmup_steps: 4, steps: 104, min_lr_ratio: 0.1, restart: None };
    let both = Schedule { steps: 154, restart: Some(Restart { at: 104, peak: 1.0, warmup_steps: 2 }), ..first };
    assert!((0..104).all(|step| both.rate(step) == first.rate(step)));
    let last = Schedule { peak: 1.0, warmup_steps: 2, steps: 50, ..first };
    assert!((104..154).all(|step| both.rate(step) == last.rate(step - 104)));
    assert_eq!(both.rate(105), 1.0);
}
