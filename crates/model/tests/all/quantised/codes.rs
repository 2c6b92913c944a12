//! Matrices as codes equal the rows that are read as floats.

use super::fixtures::checkpoints;
use gorgon_kernels::few_row_matmul::RowSource;
use gorgon_model::weight_rows::WeightRows;
use gorgon_model::weights::Checkpoint;

/// Compares both readings of the rows of some modules; returns whether there are codes.
fn compare(checkpoint: &Checkpoint, modules: &[String]) -> bool {
    let names: Vec<String> = modules.iter().map(|module| format!("{module}.weight")).collect();
    let rows = WeightRows::new(checkpoint, &names).unwrap();
    let Some(codes) = rows.codes() else { return false };
    let (height, width) = (rows.height(), rows.d_in);
    assert_eq!((codes.d_out, codes.d_in, codes.scales.len()), (height, width, codes.groups() * height));
    let order: Vec<u32> = codes.order.clone().unwrap_or_else(|| (0..width as u32).collect());
    let range = 5..height - 3;
    let (mut floats, mut integers) = (vec![0f32; range.len() * width], vec![0u8; range.len() * width]);
    rows.read_rows(range.clone(), &mut floats).unwrap();
    rows.read_codes(range.clone(), &mut integers).unwrap();
    for (i, n) in range.enumerate() {
        for (j, &k) in order.iter().enumerate() {
            let at = j / codes.group * height + n;
            let code = integers[i * width + j];
            assert!(u32::from(code) < 1 << codes.bits);
            let number = match &codes.numbers {
                Some(numbers) => numbers[usize::from(code)],
                None => f32::from(code) - f32::from(codes.zeros.at(at)),
            };
            assert_eq!(
                (codes.scales[at] * number).to_bits(),
                floats[i * width + k as usize].to_bits(),
                "{names:?} [{n}, {k}]"
            );
        }
    }
    true
}

#[test]
fn codes_equal_rows() {
    for (name, dir) in checkpoints("codes of quantised checkpoints") {
        let checkpoint = Checkpoint::open(&dir).unwrap();
        // Blocks of 64 elements run on over the ends of rows of other widths: these are read as numbers.
        let whole = |modules: &[String]| {
            let names: Vec<String> = modules.iter().map(|module| format!("{module}.weight")).collect();
            !name.contains("nf4") || WeightRows::new(&checkpoint, &names).unwrap().d_in.is_multiple_of(64)
        };
        for module in checkpoint.quantised_modules().keys() {
            let module = [module.to_string()];
            assert_eq!(compare(&checkpoint, &module), whole(&module), "{name} {module:?}");
        }
        for layer in 0..2 {
            let part = |name: &str| format!("model.layers.{layer}.{name}");
            let qkv = ["q_proj", "k_proj", "v_proj"].map(|name| part(&format!("self_attn.{name}")));
            let gate_up = ["mlp.gate_proj", "mlp.up_proj"].map(part);
            for modules in [&qkv[..], &gate_up[..]] {
                let codes = compare(&checkpoint, modules);
                // Inputs in orders of their own do not go together.
                if !name.contains("act") {
                    assert_eq!(codes, whole(modules), "{name} {modules:?}");
                }
            }
        }
    }
}
