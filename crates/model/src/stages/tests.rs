//! Tests of `stages`.

use super::*;
use crate::device::FloatFormat;
use crate::random::LlamaShape;

fn config(layers: usize, vocab_size: usize) -> ModelConfig {
    let shape = LlamaShape {
        hidden_size: 32,
        intermediate_size: 64,
        layers,
        heads: 4,
        kv_heads: 2,
        vocab_size,
        max_positions: 64,
    };
    ModelConfig::from_json(&shape.config(FloatFormat::F32)).unwrap()
}

#[test]
fn layers_are_dealt_out_once_and_by_size() {
    for layers in 1..12 {
        for vocab in [258, 4000] {
            let config = config(layers, vocab);
            let (layer, rest) = parameters(&config);
            for devices in 1..=layers {
                let parts = split(&config, devices).unwrap();
                assert_eq!(parts.len(), devices);
                assert_eq!((parts[0].start, parts[devices - 1].end), (0, layers));
                assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
                assert!(parts.iter().all(|part| !part.is_empty()));
                // The first device has the embeddings too, so it never has more layers than an even share.
                assert!(parts[0].len() <= layers.div_ceil(devices), "{parts:?} of {layer} and {rest}");
            }
        }
    }
}

#[test]
fn more_devices_than_layers_are_refused() {
    let error = split(&config(2, 300), 3).unwrap_err().to_string();
    assert!(error.contains("3 devices") && error.contains("2 layers"), "{error}");
    assert!(split(&config(2, 300), 0).is_err());
}

#[test]
fn shares_add_up_and_the_first_device_has_what_lies_outside_the_layers() {
    let config = config(4, 300);
    let (layer, rest) = parameters(&config);
    let weights = 2 * (4 * layer + rest) as u128;
    let shares = shares(&config, 2, weights, 4096).unwrap();
    assert_eq!(shares.iter().map(|share| share.weights).sum::<u128>(), weights);
    assert_eq!(shares.iter().map(|share| share.cache).sum::<u128>(), 4096);
    assert_eq!(shares[1].weights, 2 * (layer * shares[1].layers.len()) as u128);
    assert_eq!(shares[0].cache, 1024 * shares[0].layers.len() as u128);
}
