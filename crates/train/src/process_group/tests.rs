//! Tests of `process_group`.

use super::*;

#[test]
fn every_micro_batch_has_one_replica() {
    for size in 1..5 {
        let mut all: Vec<usize> = ProcessGroup::replicas(size).iter().flat_map(|group| group.share(7)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..7).collect::<Vec<_>>());
    }
}

#[test]
fn alone_nothing_is_exchanged() {
    let group = ProcessGroup::current();
    assert!(group.is_root() && group.size() == 1 && group.any(true).unwrap() && !group.any(false).unwrap());
    let mut values = [1.0, 2.0];
    group.all_reduce(&mut values).unwrap();
    assert_eq!(values, [1.0, 2.0]);
}

#[test]
fn replicas_sum_copy_and_run_the_first_one_first() {
    let order = std::sync::Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for (number, group) in ProcessGroup::replicas(3).into_iter().enumerate() {
            let order = &order;
            scope.spawn(move || {
                assert_eq!((group.size(), group.is_root()), (3, number == 0));
                let mut values = [1.0, number as f64];
                group.all_reduce(&mut values).unwrap();
                assert_eq!(values, [3.0, 3.0]);
                let mut values = [number as f32 + 5.0; 2];
                group.broadcast(&mut values).unwrap();
                assert_eq!(values, [5.0; 2]);
                assert!(group.any(number == 2).unwrap());
                let turn = || {
                    order.lock().unwrap().push(number);
                    Ok(())
                };
                group.local_root_first(turn).unwrap();
                let own = if number == 1 { Err(TrainError::Data("own".into())) } else { Ok(()) };
                let error = group.all_or_none(own).unwrap_err();
                assert_eq!(matches!(error, TrainError::Ended), number != 1, "{error}");
            });
        }
    });
    assert_eq!(order.into_inner().unwrap()[0], 0);
}

#[test]
fn gradients_are_summed_in_memory_where_devices_cannot() {
    std::thread::scope(|scope| {
        for mut group in ProcessGroup::replicas(2) {
            scope.spawn(move || {
                let reason =
                    group.sum_on_devices(&[burn::tensor::Device::flex(), burn::tensor::Device::flex()]).unwrap();
                assert!(reason.is_some() && group.device_sums.is_none());
            });
        }
    });
}
