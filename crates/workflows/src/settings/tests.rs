//! Tests of `settings`.

use super::*;
use crate::estimate::share_of_time;
use gorgon_model::device::Weights;

fn named(devices: &str) -> Settings {
    Settings {
        seed: 0,
        typed_seed: None,
        template: Variables::new(),
        offline: true,
        context: None,
        console: Console::silent(),
        build: Build { version: "0.1.0".into(), commit: "unknown".into(), features: vec!["cpu".into()] },
        started: jiff::Timestamp::now(),
        together: vec![],
        devices: devices.parse().unwrap(),
        formats: NumberFormats { dtype: None, compute_dtype: Products::F32, integers: IntegerWeights::default() },
    }
}

fn divided(devices: &str) -> Vec<Settings> {
    named(devices).divided()
}

#[test]
fn each_device_has_settings_of_its_own() {
    let two = divided("cpu,cpu");
    assert_eq!((two.len(), two[0].copies(), two[1].copies()), (2, 2, 2));
    assert_eq!(two[1].check_one_device(), Ok(DeviceChoice::Cpu));
    assert_eq!(two[0].device_name().unwrap(), "cpu,cpu");
    let gpus = divided("cuda:0,2,5");
    assert_eq!((gpus.len(), gpus[0].copies()), (3, 1));
    assert_eq!(gpus[2].check_one_device(), Ok(DeviceChoice::Cuda(5)));
    assert_eq!(divided("cpu")[0].device_name().unwrap(), "cpu");
}

#[test]
fn options_on_number_formats_are_named() {
    assert_eq!(named("cpu").number_formats(), None);
    let integers = IntegerWeights { weights: Weights::Int8, ..IntegerWeights::default() };
    let formats = NumberFormats { dtype: None, compute_dtype: Products::Bf16, integers };
    let given = Settings { formats, ..named("cuda") }.number_formats().unwrap();
    assert_eq!(given, "--device cuda:0 --compute-dtype bf16 --weights int8");
}

/// Replicas on the CPU share its threads; GPUs share the micro-batches.
#[test]
fn devices_share_the_time_that_one_takes() {
    for (devices, micro_batches, share) in
        [("cpu", 4, 1.0), ("cpu,cpu", 4, 1.0), ("cuda:0", 4, 1.0), ("cuda:0,1", 4, 0.5), ("cuda:0,1,2", 4, 0.5)]
    {
        assert_eq!(share_of_time(&divided(devices)[0], micro_batches), share, "{devices}");
    }
}
