//! Tests of `local`.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `each` on threads of their own and returns all results.
fn together<R: Send>(size: usize, each: impl Fn(LocalRank) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let each = &each;
        let threads: Vec<_> =
            LocalRank::group_of(size).into_iter().map(|local| scope.spawn(move || each(local))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn values_come_in_the_order_of_threads_and_all_get_the_same() {
    for size in 1..6 {
        let all = together(size, |local| {
            let mut seen = vec![];
            for round in 0..300 {
                // Some come late.
                if (round + local.number()) % 7 == 0 {
                    std::thread::yield_now();
                }
                seen.push(local.exchange((round, local.number()), |values| values).unwrap().to_vec());
            }
            seen
        });
        for seen in all {
            for (round, values) in seen.into_iter().enumerate() {
                assert_eq!(values, (0..size).map(|local| (round, local)).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn a_sum_is_taken_in_one_order() {
    let numbers = [1e8f32, 1.0, -1e8, 3.0];
    let expected = numbers.iter().sum::<f32>();
    for _ in 0..50 {
        let sums =
            together(4, |local| *local.exchange(numbers[local.number()], |values| values.iter().sum::<f32>()).unwrap());
        assert_eq!(sums, vec![expected; 4]);
    }
}

#[test]
fn whoever_leaves_releases_those_who_wait() {
    let results = together(4, |local| match local.number() {
        2 => {
            local.exchange((), |_| ()).unwrap();
            Ok(())
        }
        _ => {
            local.exchange((), |_| ()).unwrap();
            local.exchange((), |_| ()).map(|_| ())
        }
    });
    let ended = |result: &Result<(), TrainError>| matches!(result, Err(TrainError::Ended));
    assert_eq!(results.iter().map(ended).collect::<Vec<_>>(), [true, true, false, true]);
}

#[test]
fn a_panic_releases_those_who_wait() {
    // Of one of them, and of whoever makes the result.
    let results = together(3, |local| {
        let number = local.number();
        let work = AssertUnwindSafe(move || match number {
            1 => panic!("planned"),
            _ => local.exchange((), |_| ()).map(|_| ()),
        });
        catch_unwind(work).unwrap_or(Ok(()))
    });
    assert!(results[0].is_err() && results[2].is_err());
    let results = together(3, |local| {
        let work = AssertUnwindSafe(move || local.exchange((), |_| panic!("planned")).map(|_: Arc<()>| ()));
        catch_unwind(work).map_err(|_| ())
    });
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
    assert!(results.iter().flatten().all(Result::is_err));
}
