//! Tests of `layerskip`: rates, exits and weights against another implementation.

use super::*;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> Option<Value> {
    let root = std::env::var_os("GORGON_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = root.join("fixtures/early_exit").join(name);
    match std::fs::read(&path) {
        Ok(bytes) => Some(serde_json::from_slice(&bytes).unwrap()),
        Err(_) => {
            eprintln!("SKIPPED: layerskip: {} not found", path.display());
            None
        }
    }
}

fn close(got: &[f64], want: &Value, what: &str) {
    let want: Vec<f64> = want.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
    assert_eq!(got.len(), want.len(), "{what}");
    // A rate of 0 may be a rounding error of an exponential.
    let same = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b.abs().max(1e-3);
    assert!(got.iter().zip(&want).all(|(&a, &b)| same(a, b)), "{what}: {got:?} {want:?}");
}

#[test]
fn schedules_are_the_fixtures() {
    let Some(tables) = fixture("layerskip_tables.json") else { return };
    let mut steps_seen = 0;
    for case in tables["cases"].as_array().unwrap() {
        let number = |key: &str| case[key].as_u64().unwrap();
        let (layers, steps) = (number("layers") as usize, number("steps"));
        let config = LayerSkipConfig {
            dropout: case["p_max"].as_f64().unwrap(),
            exit_scale: case["e_scale"].as_f64().unwrap(),
            every: number("every") as usize,
            ..LayerSkipConfig::default()
        };
        close(&config.rates(layers, 0, steps), &case["rates_finetune"], "rates");
        let whole = LayerSkipConfig { dropout: 1.0, ..config.clone() };
        close(&whole.rates(layers, 7, steps), &case["D"], "D");
        for at in case["at"].as_array().unwrap() {
            let t = at["t"].as_u64().unwrap();
            let rising = LayerSkipConfig { rising: true, ..config.clone() };
            close(&rising.rates(layers, t, steps), &at["rates_scratch"], "rates from scratch");
            for (curriculum, exits, weights) in [
                (Curriculum::Rotational, "rotational", "weights_rotational"),
                (Curriculum::Gradual, "gradual", "weights_gradual"),
            ] {
                let config = LayerSkipConfig { curriculum, ..config.clone() };
                let found = config.exits(layers, t, steps);
                let want: Vec<bool> =
                    at[exits].as_array().unwrap().iter().map(|exit| exit == 1 || exit == true).collect();
                assert_eq!(found, want, "{exits} at {t} of {steps}");
                close(&config.weights(&found), &at[weights], weights);
            }
            steps_seen += 1;
        }
    }
    assert!(steps_seen > 20);
}

#[test]
fn settings_are_checked() {
    let config = LayerSkipConfig::default();
    assert!(config.check().is_ok());
    assert_eq!((config.drafting(32), config.drafting(6), config.drafting(2)), (Ok(8), Ok(1), Ok(1)));
    let deep = LayerSkipConfig { exit_layer: Some(6), ..config.clone() };
    assert!(deep.drafting(6).unwrap_err().starts_with("layerskip.exit_layer = 6: the model has 6 layers"));
    for wrong in [
        LayerSkipConfig { dropout: 1.5, ..config.clone() },
        LayerSkipConfig { exit_scale: f64::NAN, ..config.clone() },
        LayerSkipConfig { every: 0, ..config.clone() },
        LayerSkipConfig { exit_layer: Some(0), ..config.clone() },
    ] {
        assert!(wrong.check().unwrap_err().to_string().starts_with("layerskip."));
    }
    // All layers, one exit at the last: plain cross-entropy.
    assert_eq!(config.weights(&[false, false, true]), [0.0, 0.0, 1.0]);
    assert_eq!(config.weights(&[true]), [1.0]);
    let all = LayerSkipConfig { curriculum: Curriculum::All, ..config.clone() };
    assert_eq!(all.exits(3, 0, 10), [true; 3]);
    assert_eq!(config.exits(4, 0, 10), [false, false, false, true]);
    assert_eq!(config.exits(4, 5, 10), [true; 4]);
}
