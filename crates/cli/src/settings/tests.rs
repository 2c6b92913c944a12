//! Tests of `settings`.

use super::*;
use crate::args::Cli;
use crate::estimate::share_of_time;
use clap::Parser;

fn divided(devices: &str) -> Vec<Settings> {
    let cli = Cli::try_parse_from(["gorgon", "doctor", "--device", devices]).unwrap();
    Settings::new(cli.global).unwrap().divided()
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
    let named = |options: &[&str]| {
        let cli = Cli::try_parse_from([&["gorgon", "doctor"], options].concat()).unwrap();
        Settings::new(cli.global).unwrap().number_formats()
    };
    assert_eq!(named(&["--device", "cpu", "--seed", "3"]), None);
    let given = named(&["--compute-dtype", "bf16", "--int8", "all", "--device", "cuda"]).unwrap();
    assert_eq!(given, "--device cuda:0 --compute-dtype bf16 --int8 all");
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
