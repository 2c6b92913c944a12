//! Tests of `watchdog`.

use super::*;
use std::sync::mpsc::channel;

const HOUR: Duration = Duration::from_secs(3600);

fn patience(beginning: u64, after_loss: u64) -> Patience {
    Patience { beginning: Duration::from_secs(beginning), after_loss: Duration::from_secs(after_loss) }
}

#[test]
fn beginnings_are_bounded_and_sums_only_after_a_loss() {
    let start = Instant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let lost = |seconds| Place::Lost(at(seconds), "why".into());
    let until = |places: &[Place]| until(places, patience(100, 10));
    assert_eq!(until(&[Place::Outside, Place::Done]), None);
    assert_eq!(until(&[Place::Inside(at(5), false), Place::Outside]), None);
    assert_eq!(until(&[Place::Inside(at(5), true), Place::Inside(at(2), true)]), Some(at(102)));
    assert_eq!(until(&[Place::Inside(at(5), false), lost(20)]), Some(at(30)));
    assert_eq!(until(&[Place::Inside(at(50), true), lost(20)]), Some(at(60)));
    assert_eq!(until(&[Place::Outside, lost(20)]), None);
    let told = overdue(&[Place::Inside(at(5), true), lost(20), Place::Outside], at(60));
    let lost = vec![(1, "why".to_owned())];
    assert_eq!(told, Overdue { waiting: vec![0], lost, waited: Duration::from_secs(55) });
}

/// One fails, the others are in a library that waits for it.
#[test]
fn a_replica_that_waits_for_a_lost_one_is_reported() {
    let (tell, told) = channel();
    let patience = Patience { beginning: HOUR, after_loss: Duration::ZERO };
    let mut group = Watched::group_of(3, patience, move |overdue| tell.send(overdue).unwrap());
    let (lost, stuck, outside) = (group.remove(1), group.remove(0), group.remove(0));
    lost.lost("no memory");
    // The library gives up only when the process ends.
    let overdue = stuck.during(false, || told.recv().unwrap());
    assert_eq!((overdue.waiting, overdue.lost), (vec![0], vec![(1, "no memory".to_owned())]));
    drop(outside);
}

/// None fails, but one never comes out.
#[test]
fn a_beginning_without_end_is_reported() {
    let (tell, told) = channel();
    let patience = Patience { beginning: Duration::ZERO, after_loss: HOUR };
    let group = Watched::group_of(1, patience, move |overdue| tell.send(overdue).unwrap());
    let overdue = group[0].during(true, || told.recv().unwrap());
    assert_eq!((overdue.waiting, overdue.lost), (vec![0], vec![]));
}

#[test]
fn a_panic_inside_is_a_loss_and_an_end_outside_is_none() {
    let (tell, told) = channel();
    let patience = Patience { beginning: HOUR, after_loss: Duration::ZERO };
    let mut group = Watched::group_of(2, patience, move |overdue| tell.send(overdue).unwrap());
    let (panics, stuck) = (group.remove(0), group.remove(0));
    let thread = std::thread::spawn(move || panics.during(false, || panic!("planned")));
    let overdue = stuck.during(false, || told.recv().unwrap());
    assert_eq!(overdue.lost, [(0, "it panicked".to_owned())]);
    assert!(thread.join().is_err());
    // All that go their way end the watch without a word: what it would have told with is dropped.
    let (tell, told) = channel::<Overdue>();
    drop(Watched::group_of(2, patience, move |overdue| tell.send(overdue).unwrap()));
    assert!(told.recv().is_err());
}
