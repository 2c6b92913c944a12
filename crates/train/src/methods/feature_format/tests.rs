//! Tests of `feature_format`.

use super::*;

#[test]
fn states_read_back_within_their_precision() {
    let values: Vec<f32> = (0..60).map(|i| ((i * 37 % 61) as f32 - 30.0) * 0.37).chain([0.0; 6]).collect();
    for (format, bound) in
        [(FeatureFormat::F32, 0.0), (FeatureFormat::Bf16, 1.0 / 256.0), (FeatureFormat::Int8, 0.5 / 127.0)]
    {
        let mut bytes = vec![];
        let scales = format.write(&mut bytes, &values, 6).unwrap();
        assert_eq!(bytes.len() as u64 + 4 * scales.len() as u64, format.bytes(11, 6));
        let scales: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        let read = format.read(&bytes, &scales, 6);
        for (state, back) in values.chunks(6).zip(read.chunks(6)) {
            let most = state.iter().fold(0f32, |most, v| most.max(v.abs()));
            for (a, b) in state.iter().zip(back) {
                assert!((a - b).abs() <= bound * most * 1.001, "{} {a} {b}", format.name());
            }
        }
    }
}
