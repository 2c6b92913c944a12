//! Tests of `device`.

use super::*;

#[test]
fn names_are_parsed_and_wrong_ones_refused() {
    for name in ["auto", "cpu", "cuda:0", "cuda:3", "cuda:0+1", "cuda:3+0+2", "wgpu"] {
        assert_eq!(name.parse::<DeviceChoice>().unwrap().to_string(), name);
    }
    assert_eq!("cuda".parse(), Ok(DeviceChoice::Cuda(0)));
    for name in ["", "gpu", "cuda:", "cuda:x", "cpu:1", "cuda:-1", "cuda:0+", "cuda:+1", "cuda:0+0", "cuda:0+70000"] {
        assert!(name.parse::<DeviceChoice>().is_err(), "{name}");
    }
    assert!("f64".parse::<FloatFormat>().is_err());
    assert_eq!(("bf16".parse(), "f32".parse()), (Ok(Products::Bf16), Ok(Products::F32)));
    assert!("f16".parse::<Products>().is_err());
    assert!("int3".parse::<Weights>().is_err() && "int4".parse::<DraftWeights>().is_err());
    assert!("4".parse::<ActivationBits>().is_err());
}

#[test]
fn products_in_bf16_take_their_weights_with_them() {
    let compute = Compute::cpu(FloatFormat::F32);
    assert_eq!(compute.clone().with_products(Products::F32).unwrap().pairs(), None);
    let integers = IntegerWeights { weights: Weights::Int8, ..IntegerWeights::default() };
    let eight = compute.clone().with_integers(integers).unwrap();
    assert_eq!(eight.precision(), "int8");
    assert!(eight.with_products(Products::Bf16).unwrap_err().to_string().contains("--weights int8"));
    match compute.with_products(Products::Bf16) {
        Ok(compute) => {
            assert_eq!((compute.format(), compute.precision()), (FloatFormat::Bf16, "bf16-products"));
            assert_eq!(compute.pairs(), Some(WeightDtype::Bf16Pairs));
        }
        Err(error) => assert!(error.to_string().contains("no products of bf16"), "{error}"),
    }
}

#[test]
fn a_device_that_is_not_built_in_says_how_to_get_it() {
    if !cfg!(feature = "cuda") {
        let error = Compute::resolve(DeviceChoice::Cuda(0), None).unwrap_err().to_string();
        assert!(error.contains("--features cuda"), "{error}");
        let split = Compute::resolve("cuda:0+1".parse().unwrap(), None).unwrap_err();
        assert!(matches!(split, DeviceError::NotBuilt { .. }), "{split}");
    }
}

#[test]
fn a_gpu_has_free_memory_and_the_cpu_leaves_it_to_the_system() {
    assert_eq!(Compute::cpu(FloatFormat::F32).free_bytes(), None);
    let Some(device) = std::env::var("GORGON_TEST_DEVICE").ok().filter(|name| name == "cuda") else { return };
    let compute = Compute::resolve(device.parse().unwrap(), None).unwrap();
    assert!(compute.free_bytes().unwrap() > 1 << 22);
}
