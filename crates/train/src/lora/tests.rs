//! Tests of `lora`.

use super::*;
use burn::tensor::Device;

fn lora() -> Lora {
    let device = Device::flex();
    let matrix = |name: &str, shape: [usize; 2]| {
        let values = (0..shape[0] * shape[1]).map(|i| i as f32).collect();
        Parameter::new(name, &shape, Role::Matrix, values, &device)
    };
    let norm = Parameter::new("n.weight", &[2], Role::Vector, vec![1.0; 2], &device);
    let config = LoraConfig { rank: 1, alpha: 2.0, targets: vec!["q_proj".into()] };
    Lora::new(config, vec![matrix("l.q_proj.weight", [3, 2]), norm, matrix("l.k_proj.weight", [2, 2])])
}

#[test]
fn an_adapter_begins_as_none_and_adds_its_product() {
    let lora = lora();
    let start: Vec<Tensor<1>> = lora.parameters(1).into_iter().map(|p| p.value).collect();
    assert_eq!((start.len(), lora.len()), (2, 2));
    assert_eq!(values(&lora.applied(&start, false)[0]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let device = Device::flex();
    let tensor = |v: &[f32]| crate::parameters::from_values(v.to_vec(), &device);
    let adapter = [tensor(&[1.0, 10.0]), tensor(&[1.0, 0.0, 2.0])];
    let all = lora.applied(&adapter, false);
    assert_eq!(values(&all[0]), [2.0, 21.0, 2.0, 3.0, 8.0, 45.0]);
    assert_eq!(values(&all[2]), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(lora.merged(&adapter), [("l.q_proj.weight".to_owned(), values(&all[0]))]);
}

#[test]
fn names_are_pefts() {
    let names: Vec<String> = lora().parameters(0).into_iter().map(|p| p.name).collect();
    assert_eq!(names, ["base_model.model.l.q_proj.lora_A.weight", "base_model.model.l.q_proj.lora_B.weight"]);
    assert!(LoraConfig { targets: vec!["embed".into()], ..LoraConfig::default() }.check("medusa2.lora").is_err());
}
