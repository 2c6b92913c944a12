//! Tests of `world`.

use super::*;

#[test]
fn every_batch_is_someones() {
    for size in 1..5 {
        let mut all: Vec<usize> = World::divided(size).iter().flat_map(|world| world.share(7)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..7).collect::<Vec<_>>());
    }
}

#[test]
fn alone_nothing_is_exchanged() {
    let world = World::current();
    assert!(world.is_root() && world.size() == 1 && world.any(true).unwrap() && !world.any(false).unwrap());
    let mut values = [1.0, 2.0];
    world.sum_f64(&mut values).unwrap();
    assert_eq!(values, [1.0, 2.0]);
}

#[test]
fn replicas_sum_copy_and_take_turns() {
    let order = Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for (number, world) in World::divided(3).into_iter().enumerate() {
            let order = &order;
            scope.spawn(move || {
                assert_eq!((world.size(), world.is_root()), (3, number == 0));
                let mut values = [1.0, number as f64];
                world.sum_f64(&mut values).unwrap();
                assert_eq!(values, [3.0, 3.0]);
                let mut values = [number as f32 + 5.0; 2];
                world.copy_from_root(&mut values).unwrap();
                assert_eq!(values, [5.0; 2]);
                assert!(world.any(number == 2).unwrap());
                let turn = || {
                    order.lock().unwrap().push(number);
                    Ok(())
                };
                world.in_turn(turn).unwrap();
                let own = if number == 1 { Err(TrainError::Data("own".into())) } else { Ok(()) };
                let error = world.all_or_none(own).unwrap_err();
                assert_eq!(matches!(error, TrainError::Ended), number != 1, "{error}");
            });
        }
    });
    assert_eq!(order.into_inner().unwrap()[0], 0);
}

#[test]
fn devices_without_sums_leave_them_to_memory() {
    std::thread::scope(|scope| {
        for mut world in World::divided(2) {
            scope.spawn(move || {
                let reason = world.sum_on(&[Device::flex(), Device::flex()]).unwrap();
                assert!(reason.is_some() && world.on_devices().is_none());
            });
        }
    });
}
