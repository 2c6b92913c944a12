//! Tests of `group`.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What each seat's thread returns.
fn together<R: Send>(size: usize, each: impl Fn(Seat) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let each = &each;
        let threads: Vec<_> = Seat::group_of(size).into_iter().map(|seat| scope.spawn(move || each(seat))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn values_come_in_the_order_of_seats_and_all_get_the_same() {
    for size in 1..6 {
        let all = together(size, |seat| {
            let mut seen = vec![];
            for round in 0..300 {
                // Some come late.
                if (round + seat.number()) % 7 == 0 {
                    std::thread::yield_now();
                }
                seen.push(seat.meet((round, seat.number()), |values| values).unwrap().to_vec());
            }
            seen
        });
        for seen in all {
            for (round, values) in seen.into_iter().enumerate() {
                assert_eq!(values, (0..size).map(|seat| (round, seat)).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn a_sum_is_taken_in_one_order() {
    let numbers = [1e8f32, 1.0, -1e8, 3.0];
    let expected = numbers.iter().sum::<f32>();
    for _ in 0..50 {
        let sums = together(4, |seat| *seat.meet(numbers[seat.number()], |values| values.iter().sum::<f32>()).unwrap());
        assert_eq!(sums, vec![expected; 4]);
    }
}

#[test]
fn whoever_leaves_releases_those_who_wait() {
    let results = together(4, |seat| match seat.number() {
        2 => {
            seat.meet((), |_| ()).unwrap();
            Ok(())
        }
        _ => {
            seat.meet((), |_| ()).unwrap();
            seat.meet((), |_| ()).map(|_| ())
        }
    });
    let ended = |result: &Result<(), TrainError>| matches!(result, Err(TrainError::Ended));
    assert_eq!(results.iter().map(ended).collect::<Vec<_>>(), [true, true, false, true]);
}

#[test]
fn a_panic_releases_those_who_wait() {
    // Of one of them, and of whoever makes the result.
    let results = together(3, |seat| {
        let number = seat.number();
        let work = AssertUnwindSafe(move || match number {
            1 => panic!("planned"),
            _ => seat.meet((), |_| ()).map(|_| ()),
        });
        catch_unwind(work).unwrap_or(Ok(()))
    });
    assert!(results[0].is_err() && results[2].is_err());
    let results = together(3, |seat| {
        let work = AssertUnwindSafe(move || seat.meet((), |_| panic!("planned")).map(|_: Arc<()>| ()));
        catch_unwind(work).map_err(|_| ())
    });
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
    assert!(results.iter().flatten().all(Result::is_err));
}
