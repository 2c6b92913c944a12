//! Medusa-2: gradients are slopes, the backbone is frozen while heads warm up, and what is published is what was
//! fitted.

use crate::on_backbone;

use burn::tensor::{DType, Tensor};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::format::HeadsMethod;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::PassPlan;
use gorgon_model::target::read;
use gorgon_train::checkpoint;
use gorgon_train::config::LanguageLoss;
use gorgon_train::evaluation::Metrics;
use gorgon_train::llama::Packed;
use gorgon_train::methods::OnBackbone;
use gorgon_train::parameters::Parameter;
use gorgon_train::trainer::Objective;
use on_backbone::{assert_slopes, medusa_two, step, stirred};
use std::path::Path;

#[test]
fn gradients_are_slopes() {
    for language in [LanguageLoss::Kl, LanguageLoss::CrossEntropy] {
        let dir = tempfile::tempdir().unwrap();
        let objective = medusa_two(dir.path(), language);
        assert_slopes(&objective, &stirred(objective.parameters(3)), 5);
    }
}

#[test]
fn the_backbone_rests_while_the_heads_warm_up() {
    let dir = tempfile::tempdir().unwrap();
    let objective = medusa_two(dir.path(), LanguageLoss::Kl);
    let parameters = stirred(objective.parameters(3));
    let (early, late) = (step(&objective, &parameters, 0).1, step(&objective, &parameters, 5).1);
    for (i, p) in parameters.iter().enumerate() {
        let adapter = gorgon_train::lora::is_adapter(&p.name);
        assert_eq!(early[i].iter().all(|&g| g == 0.0), adapter, "{}", p.name);
        assert!(late[i].iter().any(|&g| g != 0.0), "{}", p.name);
        assert_eq!(objective.rate(p, 0) == 0.0, adapter);
        assert_eq!(objective.rate(p, 7), if adapter { 0.25 } else { 1.0 });
    }
}

/// Before the first step nothing is lost; a strong adapter shows in every number.
#[test]
fn what_the_backbone_loses_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let objective = medusa_two(dir.path(), LanguageLoss::Kl);
    let measured = |parameters: &[Parameter]| match objective.evaluate(parameters).unwrap().metrics {
        Metrics::MedusaTwo(metrics) => metrics,
        other => panic!("{other:?}"),
    };
    let fresh = measured(&objective.parameters(3));
    assert!(fresh.kl.abs() < 1e-5, "{}", fresh.kl);
    assert_eq!((fresh.agreement, fresh.degraded), (1.0, false));
    assert!((fresh.perplexity / fresh.perplexity_before - 1.0).abs() < 1e-4);
    assert!(fresh.tau.unwrap() >= 1.0);
    let stirred = measured(&stirred(objective.parameters(3)));
    assert!(stirred.kl > 0.05, "{}", stirred.kl);
    assert!(stirred.degraded);
    assert_eq!(stirred.perplexity_before, fresh.perplexity_before);
}

#[test]
fn the_merged_model_computes_what_was_fitted() {
    let (dir, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let objective = medusa_two(dir.path(), LanguageLoss::Kl);
    let parameters = stirred(objective.parameters(3));
    let step = run.path().join("step-000001");
    std::fs::create_dir(&step).unwrap();
    checkpoint::write_parameters(&step, &parameters, &[]).unwrap();
    objective.publish(&step, run.path()).unwrap();
    let ids: Vec<u32> = (0..20).map(|i| i * 11 % 250).collect();
    let hidden = |folder: &Path| {
        let decoder = Decoder::load(folder, &Compute::cpu(FloatFormat::F32)).unwrap();
        let mut cache = decoder.new_cache(32);
        cache.reserve(ids.len()).unwrap();
        let mask = AttentionMask::Causal { rows: ids.len() };
        let output = decoder.forward(&PassPlan::of_tokens(&ids, &mask), &mut cache, &Hooks::none()).unwrap();
        read(output.hidden.tensor().cast(DType::F32))
    };
    let adapter: Vec<Tensor<1>> =
        parameters.iter().filter(|p| gorgon_train::lora::is_adapter(&p.name)).map(|p| p.value.clone()).collect();
    let applied: Vec<Tensor<1>> = objective.lora.applied(&adapter, false).into_iter().map(Tensor::autodiff).collect();
    let packed = Packed { tokens: ids.clone(), segments: std::iter::once(0..ids.len()).collect() };
    let fitted = read(objective.llama.hidden(&applied, &packed).inner());
    let merged = hidden(&run.path().join("merged"));
    let apart = |other: &[f32]| merged.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart(&fitted) < 1e-4, "{}", apart(&fitted));
    assert!(apart(&hidden(dir.path())) > 1e-2);
    for (folder, format) in [("heads", HeadsMethod::Medusa), ("merged", HeadsMethod::Medusa)] {
        assert_eq!(HeadsFolder::open(&run.path().join(folder)).unwrap().detected.format.method(), format);
    }
    assert!(run.path().join("adapter/adapter_config.json").is_file());
}
