//! Parameters before the first step.

use crate::parameters::{Parameter, Role, from_values};
use burn::tensor::Tensor;
use gorgon_core::accept::random::SeededRandom;
use gorgon_draft::parameter::{Init, ParameterSpec};

/// Initial values of all tensors. An own LM head starts as `lm_head`: the backbone's or a part of it.
pub(super) fn initial_all(specs: Vec<ParameterSpec>, lm_head: &Tensor<2>, seed: u64) -> Vec<Parameter> {
    let random = &mut SeededRandom::new(seed);
    specs.into_iter().map(|spec| initial(spec, lm_head, random)).collect()
}

/// Initial values of a tensor.
pub(super) fn initial(spec: ParameterSpec, lm_head: &Tensor<2>, random: &mut SeededRandom) -> Parameter {
    let device = lm_head.device();
    let ParameterSpec { name, shape, init } = spec;
    let n: usize = shape.iter().product();
    let role = match (init, shape.len()) {
        (Init::LmHead, _) => Role::Table,
        (_, 2) => Role::Matrix,
        _ => Role::Vector,
    };
    let value = match (init, shape.as_slice()) {
        (Init::LmHead, _) => lm_head.clone().reshape([-1]),
        (Init::Normal(deviation), &[out, into]) => {
            return Parameter::normal(name, [out, into], role, deviation, random, &device);
        }
        (Init::Identity, &[out, into]) => {
            let mut values = vec![0.0; n];
            (0..out.min(into)).for_each(|i| values[i * into + i] = 1.0);
            from_values(values, &device)
        }
        (Init::FirstTap, &[sides, taps, width]) => {
            let mut values = vec![0.0; n];
            (0..sides).for_each(|side| values[side * taps * width..][..width].fill(1.0));
            from_values(values, &device)
        }
        (Init::One, _) => from_values(vec![1.0; n], &device),
        (Init::Zero | Init::Normal(_) | Init::Identity | Init::FirstTap, _) => from_values(vec![0.0; n], &device),
    };
    Parameter { name, shape, role, value }
}
