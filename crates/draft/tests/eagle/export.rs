//! Published names: what is written is read back.

use crate::random::{decoder, load, parameter, values, write};
use gorgon_draft::eagle::{EagleShape, export};
use gorgon_draft::folder::{self, HeadsFolder};
use gorgon_draft::format::{HeadSpec, HeadsFormat};
use half::f16;

#[test]
fn an_exported_layer_is_the_layer_in_f16() {
    let decoder = decoder();
    for fc_bias in [false, true] {
        let shape = EagleShape::of(decoder.config(), fc_bias);
        let (from, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(from.path(), &shape, |tensors, _| {
            tensors.push(("embed_tokens.weight".into(), vec![300, 32], values(300 * 32, 1)));
        });
        export(&HeadsFolder::open(from.path()).unwrap(), "owner/base", out.path()).unwrap();
        let written = HeadsFolder::open(out.path()).unwrap();
        assert_eq!(written.detected.format, HeadsFormat::Eagle1);
        let HeadSpec::Eagle(facts) = &written.detected.facts else { panic!("{:?}", written.detected.facts) };
        assert_eq!((facts.fc_bias, facts.own_embedding), (fc_bias, false));
        assert_eq!(written.checkpoint.entries().len(), shape.parameters().len());
        for (i, p) in shape.parameters().iter().enumerate() {
            let want: Vec<f32> = parameter(i, p).into_iter().map(|v| f16::from_f32(v).to_f32()).collect();
            assert_eq!(written.checkpoint.read_all(&p.name).unwrap(), want, "{}", p.name);
        }
        let config = folder::config(out.path()).unwrap().unwrap();
        assert_eq!(config["bias"], fc_bias);
        assert_eq!(config["base_model_name_or_path"], "owner/base");
        assert_eq!(config["num_hidden_layers"], 1);
        load(out.path(), &decoder).unwrap();
    }
}

#[test]
fn weights_beyond_f16_are_refused() {
    let decoder = decoder();
    let (from, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(from.path(), &EagleShape::of(decoder.config(), false), |tensors, _| tensors[2].2[0] = 1e6);
    let error = export(&HeadsFolder::open(from.path()).unwrap(), "base", out.path()).unwrap_err().to_string();
    assert!(error.contains("k_proj") && error.contains("f16"), "{error}");
}
