use super::*;
use gorgon_model::random::LlamaShape;

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 48,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 160,
};

#[test]
fn arguments_are_rows_and_a_chunk() {
    let of = |rows, chunk, picked| Ok(Partial(Retrieval { rows, chunk, picked }));
    assert_eq!(Partial::parse(""), of(4096, 8, Picked::Score));
    assert_eq!(Partial::parse("64, 1"), of(64, 1, Picked::Score));
    assert_eq!(Partial::parse("16,8,random"), of(16, 8, Picked::Random(0)));
    for name in ["partial:64,1", "partial:16,8,random"] {
        assert_eq!(Partial::parse(name.strip_prefix("partial:").unwrap()).unwrap().name(), name);
    }
    for wrong in ["8", "0,0", "8,0", "8,5", "a,b", "8,2,3", "99999999999,8", "8,2,at random"] {
        let error = Partial::parse(wrong).unwrap_err();
        assert!(error.starts_with(&format!("partial:{wrong}: expected")), "{error}");
    }
}

#[test]
fn windowed_models_are_refused() {
    let whole = ModelConfig::from_json(&SHAPE.config(gorgon_model::device::FloatFormat::F32)).unwrap();
    let method = Partial(DEFAULT);
    assert!(method.check(&whole).is_ok());
    let windowed = ModelConfig { windows: vec![None, Some(16)], ..whole };
    let error = method.check(&windowed).unwrap_err();
    assert!(error.starts_with("partial:4096,8: ") && error.contains("16 tokens"), "{error}");
}

#[test]
fn bytes_are_those_of_the_rows_that_are_kept() {
    let config = ModelConfig::from_json(&SHAPE.config(gorgon_model::device::FloatFormat::F32)).unwrap();
    let compute = Compute::cpu(gorgon_model::device::FloatFormat::F32);
    let method = Partial(Retrieval { rows: 64, ..DEFAULT });
    assert_eq!(method.bytes(&config, &compute, 1000), KvCache::bytes(&config, &compute, 128));
    assert_eq!(method.bytes(&config, &compute, 16), KvCache::bytes(&config, &compute, 80));
}
