//! Tests of `devices`.

use super::*;

#[test]
fn lists_are_parsed_and_wrong_ones_refused() {
    for (text, shown) in [
        ("cuda:0,1,3", "cuda:0,cuda:1,cuda:3"),
        ("cuda,1", "cuda:0,cuda:1"),
        ("cuda:2,cuda:0", "cuda:2,cuda:0"),
        ("cpu,cpu", "cpu,cpu"),
        ("cuda:0+1", "cuda:0+1"),
        ("auto", "auto"),
        ("cuda:all", "cuda:all"),
    ] {
        assert_eq!(text.parse::<Devices>().unwrap().to_string(), shown);
    }
    for text in ["", ",", "cpu,", "cpu,1", "0,1", "cuda:0,x", "cuda:0,", "cuda:all,cpu", "cpu,cuda:0", "auto,auto"] {
        let error = text.parse::<Devices>().unwrap_err().to_string();
        assert!(error.contains("expected auto, cpu") || error.contains("of one kind"), "{text}: {error}");
    }
    for text in ["cuda:1+1", "cuda:0,0", "cuda,cuda:0", "wgpu,wgpu"] {
        assert_eq!(text.parse::<Devices>(), Err(DeviceError::Twice(text.into())));
    }
}

#[test]
fn split_layers_are_one_device() {
    assert!("cuda:0+1".parse::<Devices>().unwrap().one().is_ok());
    for text in ["cuda:0+1,cuda:2", "cuda:0+1,cuda:2+3"] {
        assert_eq!(text.parse::<Devices>(), Err(DeviceError::SplitReplicas(text.into())));
    }
}

#[test]
fn several_are_not_one() {
    assert_eq!("cuda:3".parse::<Devices>().unwrap().one(), Ok(DeviceChoice::Cuda(3)));
    assert!("cpu,cpu".parse::<Devices>().unwrap().one().is_err());
    assert!("cuda:all".parse::<Devices>().unwrap().one().is_err());
    assert_eq!("cpu,cpu".parse::<Devices>().unwrap().all().len(), 2);
}
