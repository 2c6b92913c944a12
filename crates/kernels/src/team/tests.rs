//! Tests of `team`.

use super::*;
use std::sync::atomic::AtomicU64;

#[test]
fn every_task_runs_once() {
    for round in 0..2000 {
        let tasks = round % 37;
        let counts: Vec<AtomicU64> = (0..tasks).map(|_| AtomicU64::new(0)).collect();
        run(tasks, WORTHWHILE, |index| {
            counts[index].fetch_add(1, SeqCst);
        });
        assert!(counts.iter().all(|count| count.load(SeqCst) == 1), "{counts:?}");
        if round % 500 == 0 {
            // Long enough for the helpers to fall asleep.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn every_item_is_worked_on_once() {
    for n in [0, 1, 2, 17, 300] {
        let mut items: Vec<usize> = (0..n).collect();
        each(&mut items, WORTHWHILE, |item| *item += 1000);
        assert!(items.iter().enumerate().all(|(i, &item)| item == i + 1000), "{items:?}");
    }
}

#[test]
fn chunks_cover_all_values() {
    for (n, size) in [(0, 3), (7, 3), (9, 3), (1000, 64)] {
        let mut values = vec![0; n];
        chunks(&mut values, size, WORTHWHILE, |index, chunk| {
            for (i, value) in chunk.iter_mut().enumerate() {
                *value += index * size + i + 1;
            }
        });
        assert!(values.iter().enumerate().all(|(i, &value)| value == i + 1), "{n} values in chunks of {size}");
    }
}

#[test]
fn work_alone_stays_on_its_thread() {
    let here = std::thread::current().id();
    one_of(usize::MAX, || {
        one_of(1, || ());
        run(64, WORTHWHILE, |_| assert_eq!(std::thread::current().id(), here));
    });
    assert!(catch_unwind(|| one_of(usize::MAX, || panic!("planned"))).is_err());
    assert!(!ALONE.get());
}

#[test]
fn leaders_do_not_wait_for_each_other() {
    let total = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    run(16, WORTHWHILE, |index| {
                        total.fetch_add(index as u64, SeqCst);
                    });
                }
            });
        }
    });
    assert_eq!(total.load(SeqCst), 4 * 500 * 120);
    // A task may lead in turn: it then works alone.
    run(4, WORTHWHILE, |_| {
        run(4, WORTHWHILE, |_| {
            total.fetch_add(1, SeqCst);
        });
    });
    assert_eq!(total.load(SeqCst), 4 * 500 * 120 + 16);
}

#[test]
fn a_panic_reaches_the_leader_and_the_team_goes_on() {
    for _ in 0..50 {
        let panics = catch_unwind(|| run(8, WORTHWHILE, |index| assert!(index != 5, "planned")));
        assert!(panics.is_err());
        let sum = AtomicU64::new(0);
        run(8, WORTHWHILE, |index| {
            sum.fetch_add(index as u64, SeqCst);
        });
        assert_eq!(sum.load(SeqCst), 28);
    }
}
