//! Tests of `replicas`.

use super::*;
use crate::console::Console;
use crate::settings::NumberFormats;
use gorgon_model::device::{IntegerWeights, Products};
use gorgon_runs::provenance::Build;
use gorgon_train::config::Training;

/// A panic is contained, reported with its device, and ends the process group that the replica was in.
#[test]
fn a_panic_is_reported_with_its_device() {
    let formats = NumberFormats { dtype: None, compute_dtype: Products::F32, integers: IntegerWeights::default() };
    let (console, started, devices) = (Console::silent(), jiff::Timestamp::now(), "cpu,cpu".parse().unwrap());
    let build = Build { version: "0.1.0".into(), commit: "unknown".into(), features: vec!["cpu".into()] };
    let (context, together) = (None, vec![]);
    let settings = Settings {
        seed: 0,
        typed_seed: None,
        template: Default::default(),
        offline: true,
        context,
        console,
        build,
        started,
        together,
        devices,
        formats,
    };
    let (settings, stop) = (settings.divided(), AtomicBool::new(false));
    let fit = Training::default().settings(4, 7).unwrap();
    let job = Together { settings: &settings, sums: true, fit, stop: &stop };
    let results = std::thread::scope(|scope| {
        let (job, members) = (&job, ProcessGroup::replicas(2).into_iter().enumerate());
        let work = |number: usize| if number == 1 { panic!("planned") } else { Err(TrainError::Ended.into()) };
        let start = |(number, group)| scope.spawn(move || job.replica(number, group, |_| work(number)));
        let threads: Vec<_> = members.map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(matches!(results[0], Ok(None)));
    assert_eq!(results[1].as_ref().unwrap_err().message(), "device 2 of 2 (cpu): internal error: planned");
}

#[test]
fn who_waits_in_vain_is_named() {
    let names = ["device 1 of 2 (cuda:0)".to_owned(), "device 2 of 2 (cuda:1)".to_owned()];
    let waited = Duration::from_secs(31);
    let lost = Overdue { waiting: vec![0], lost: vec![(1, "no memory".into())], waited };
    let said = "device 2 of 2 (cuda:1): no memory; device 1 of 2 (cuda:0) waited for it for 31 s in vain";
    assert_eq!(waited_for(&lost, &names), said);
    let stuck = Overdue { waiting: vec![0, 1], lost: vec![], waited };
    assert!(waited_for(&stuck, &names).ends_with("device 1 of 2 (cuda:0), device 2 of 2 (cuda:1) waited for 31 s"));
}

#[test]
fn devices_sum_where_each_is_there_once() {
    let cuda = |indices: &[usize]| indices.iter().map(|&i| DeviceChoice::Cuda(i)).collect::<Vec<_>>();
    assert!(on_devices(&cuda(&[0, 1, 3]), "").unwrap());
    assert!(!on_devices(&cuda(&[0, 1]), "host").unwrap());
    assert!(!on_devices(&cuda(&[0, 0]), "").unwrap());
    assert!(!on_devices(&[DeviceChoice::Cpu, DeviceChoice::Cpu], "").unwrap());
    assert!(on_devices(&cuda(&[0, 1]), "mpi").unwrap_err().message().contains("GORGON_SUMS=mpi"));
}
