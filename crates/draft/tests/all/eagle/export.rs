//! Published names: what is written is read back.

use crate::eagle::random::{decoder, load, parameter, values, write};
use gorgon_draft::eagle::{EagleShape, export};
use gorgon_draft::folder::{self, HeadsFolder};
use gorgon_draft::format::{HeadSpec, HeadsFormat};
use gorgon_draft::published::{Destination, torch_name};
use gorgon_model::device::FloatFormat;
use half::{bf16, f16};
use std::path::Path;

fn to(out: &Path, dtype: FloatFormat) -> Destination<'_> {
    Destination { from: Path::new("heads"), out, dtype }
}

#[test]
fn an_exported_layer_is_the_layer_in_the_requested_format() {
    let decoder = decoder();
    for (fc_bias, dtype) in [(false, FloatFormat::F16), (true, FloatFormat::Bf16), (true, FloatFormat::F32)] {
        let round = |v: f32| match dtype {
            FloatFormat::F32 => v,
            FloatFormat::F16 => f16::from_f32(v).to_f32(),
            FloatFormat::Bf16 => bf16::from_f32(v).to_f32(),
        };
        let shape = EagleShape::of(decoder.config(), fc_bias);
        let (from, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(from.path(), &shape, |tensors, _| {
            tensors.push(("embed_tokens.weight".into(), vec![300, 32], values(300 * 32, 1)));
        });
        export(&HeadsFolder::open(from.path()).unwrap(), "owner/base", &to(out.path(), dtype)).unwrap();
        let written = HeadsFolder::open(out.path()).unwrap();
        assert_eq!(written.detected.format, HeadsFormat::Eagle1);
        let HeadSpec::Eagle(spec) = &written.detected.spec else { panic!("{:?}", written.detected.spec) };
        assert_eq!((spec.fc_bias, spec.own_embedding), (fc_bias, false));
        assert_eq!(written.checkpoint.entries().len(), shape.parameters().len());
        for (i, p) in shape.parameters().iter().enumerate() {
            let want: Vec<f32> = parameter(i, p).into_iter().map(round).collect();
            assert_eq!(written.checkpoint.read_all(&p.name).unwrap(), want, "{}", p.name);
        }
        let config = folder::config(out.path()).unwrap().unwrap();
        assert_eq!(config["bias"], fc_bias);
        assert_eq!(config["base_model_name_or_path"], "owner/base");
        assert_eq!(config["num_hidden_layers"], 1);
        assert_eq!(config["torch_dtype"], torch_name(dtype));
        load(out.path(), &decoder).unwrap();
    }
}

#[test]
fn weights_beyond_f16_are_refused() {
    let decoder = decoder();
    let (from, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(from.path(), &EagleShape::of(decoder.config(), false), |tensors, _| tensors[2].2[0] = 1e6);
    let folder = HeadsFolder::open(from.path()).unwrap();
    let error = export(&folder, "base", &to(out.path(), FloatFormat::F16)).unwrap_err().to_string();
    for word in ["k_proj.weight", "1e6", "f16", "--dtype bf16"] {
        assert!(error.contains(word), "{error}");
    }
    export(&folder, "base", &to(out.path(), FloatFormat::Bf16)).unwrap();
}
