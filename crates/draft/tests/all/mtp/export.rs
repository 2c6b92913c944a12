//! DeepSeek's names: what is written is read back, and copies of the base model's tables are left out.

use crate::mtp::random::{SHAPE, decoder, load, shape, values, write};
use gorgon_draft::folder::{self, HeadsFolder};
use gorgon_draft::format::{HeadSpec, HeadsFormat};
use gorgon_draft::mtp::export;
use gorgon_draft::published::Destination;
use gorgon_model::device::FloatFormat;
use half::bf16;
use std::path::Path;

#[test]
fn exported_modules_are_the_modules() {
    let decoder = decoder();
    for depths in [1, 2] {
        let shape = shape(&decoder, depths);
        let (from, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(from.path(), &shape, |tensors, _| {
            let table = vec![SHAPE.vocab_size, SHAPE.hidden_size];
            let zeros = vec![0.0; SHAPE.vocab_size * SHAPE.hidden_size];
            tensors.push(("model.layers.2.embed_tokens.weight".into(), table.clone(), zeros.clone()));
            tensors.push(("model.layers.2.shared_head.head.weight".into(), table, zeros));
        });
        let to = Destination { from: Path::new("heads"), out: out.path(), dtype: FloatFormat::Bf16 };
        export(&HeadsFolder::open(from.path()).unwrap(), "owner/base", &to).unwrap();
        let written = HeadsFolder::open(out.path()).unwrap();
        assert_eq!((written.detected.format, written.detected.notes.len()), (HeadsFormat::Mtp, 0));
        let HeadSpec::Mtp(spec) = &written.detected.spec else { panic!("{:?}", written.detected.spec) };
        assert_eq!((spec.modules, spec.first_layer, spec.own_embedding, spec.own_lm_head), (depths, 2, false, false));
        assert_eq!(written.checkpoint.entries().len(), shape.parameters().len());
        for (i, spec) in shape.parameters().iter().enumerate() {
            let want: Vec<f32> = values(i, spec).into_iter().map(|v| bf16::from_f32(v).to_f32()).collect();
            assert_eq!(written.checkpoint.read_all(&spec.name).unwrap(), want, "{}", spec.name);
        }
        let config = folder::config(out.path()).unwrap().unwrap();
        assert_eq!(
            (&config["base_model_name_or_path"], &config["torch_dtype"]),
            (&"owner/base".into(), &"bfloat16".into())
        );
        assert_eq!((&config["num_hidden_layers"], &config["num_nextn_predict_layers"]), (&2.into(), &depths.into()));
        load(out.path(), &decoder).unwrap();
    }
}
