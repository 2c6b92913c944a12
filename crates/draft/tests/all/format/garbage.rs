//! Names, shapes and configs that no writer would make.

use crate::format::synthetic::{H, Tensors, V, backbone, medusa};
use gorgon_draft::format::{DetectError, HeadSpec, HeadsFormat, detect};

#[test]
fn unknown_names_are_listed() {
    assert_eq!(detect(&[], None), Err(DetectError::Empty));
    let error = detect(&backbone().0, None).unwrap_err().to_string();
    assert!(error.contains("full model without draft heads"), "{error}");
    assert!(error.contains("lm_head.weight"), "{error}");
    let plain = Tensors::default().with("0.1.weight", &[V, H]).with("fc.weight", &[H, 2 * H]);
    assert!(matches!(detect(&plain.0, None), Err(DetectError::Unknown { total: 2, .. })));
    // A full model saved without its usual prefix is no draft layer.
    let model = Tensors(
        backbone()
            .0
            .into_iter()
            .map(|mut tensor| {
                tensor.name = tensor.name.replace("model.", "");
                tensor
            })
            .collect(),
    );
    assert!(matches!(detect(&model.0, None), Err(DetectError::Unknown { .. })));
}

#[test]
fn names_are_printed_safely() {
    let bad = format!("\u{1b}[31m{}\n", "x".repeat(100_000));
    let error = detect(&Tensors::default().with(&bad, &[1]).0, None).unwrap_err().to_string();
    assert!(!error.contains('\u{1b}') && !error.contains('\n') && error.len() < 1000, "{error}");
    let problems = medusa("", 1, 1, false).with(&bad, &[1]).detect(HeadsFormat::MedusaV2, None).problems;
    assert!(problems.iter().all(|problem| !problem.contains('\u{1b}') && problem.len() < 1000), "{problems:?}");
}

#[test]
fn absurd_numbers_cost_nothing() {
    for number in ["1000000000", "18446744073709551615"] {
        let tensors = medusa("", 2, 1, false).linear(&format!("{number}.0.linear"), H, H);
        let detected = tensors.detect(HeadsFormat::MedusaV2, None);
        assert_eq!(detected.problems, [format!("missing: head 2, although there is head {number}")]);
        let blocks = medusa("", 2, 1, false).linear(&format!("0.{number}.linear"), H, H);
        assert_eq!(blocks.detect(HeadsFormat::MedusaV2, None).problems.len(), 3);
        let hydra = Tensors::default().linear(&format!("hydra_mlp.{number}.0.linear"), H, H);
        let hydra = hydra.linear(&format!("hydra_mlp.{number}.0.res_connection"), H, H);
        assert!(!hydra.detect(HeadsFormat::Hydra, None).problems.is_empty());
        let mtp = Tensors::default().with(&format!("model.layers.{number}.enorm.weight"), &[H]);
        assert!(!mtp.detect(HeadsFormat::Mtp, None).problems.is_empty());
        let norms = Tensors::default().with("midlayer.x", &[1]).with(&format!("fc_norm.{number}.weight"), &[H]);
        assert!(!norms.detect(HeadsFormat::Eagle3, None).problems.is_empty());
    }
    // Beyond any integer, with a sign, or not as PyTorch writes numbers: no number at all.
    for number in ["99999999999999999999999", "+1", "-1", "01", "", "１", "1e3"] {
        let name = format!("{number}.0.linear.bias");
        let tensors = medusa("", 2, 1, false).with(&name, &[H]);
        tensors.broken(HeadsFormat::MedusaV2, None, &[&format!("unexpected: {name}")]);
    }
    // Few heads have many blocks: what is expected stays about as long as the file.
    let mut uneven = medusa("", 300, 1, false);
    for block in 1..2000 {
        uneven = uneven.with(&format!("7.{block}.linear.weight"), &[H, H]);
    }
    match uneven.detect(HeadsFormat::MedusaV2, None).spec {
        HeadSpec::Medusa(spec) => assert_eq!((spec.heads, spec.blocks), (300, 1)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn absurd_shapes_are_problems() {
    let shapes: [&[usize]; 6] = [&[], &[0], &[0, 0], &[usize::MAX, usize::MAX], &[1 << 40, 1 << 40], &[1; 1000]];
    for shape in shapes {
        for name in ["0.0.linear.weight", "0.0.linear.bias", "0.1.weight"] {
            let tensors = medusa("", 1, 1, true).reshaped(name, shape);
            let problems = tensors.detect(HeadsFormat::MedusaV1, None).problems;
            assert!(!problems.is_empty() && problems.iter().all(|problem| problem.len() < 300), "{problems:?}");
        }
        // Nothing but nonsense, so that no size is known.
        let mut tensors = medusa("", 3, 1, true);
        tensors.0.iter_mut().for_each(|tensor| tensor.shape = shape.into());
        let detected = tensors.detect(HeadsFormat::MedusaV1, None);
        assert!(!detected.problems.is_empty());
        assert!(!detected.spec.list().is_empty());
    }
}
