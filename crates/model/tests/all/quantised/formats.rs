//! Small matrices whose codes, scales and zero points are chosen here.

use super::folder::{Folder, numbers, scales, stream, streams, transposed};
use safetensors::Dtype;
use serde_json::{Value, json};

/// `scale · (code - zero)` for codes `[out, in]`, scales and zero points `[out, groups]`, and the group of each input.
fn expected(codes: &[u8], scales: &[f32], zeros: &[u8], groups: &[usize]) -> Vec<f32> {
    let (d_in, count) = (groups.len(), groups.iter().max().unwrap() + 1);
    let value = |(i, &code): (usize, &u8)| {
        let at = i / d_in * count + groups[i % d_in];
        scales[at] * (f32::from(code) - f32::from(zeros[at]))
    };
    codes.iter().enumerate().map(value).collect()
}

/// compressed-tensors with one group of modules.
pub fn compressed(format: &str, weights: &Value) -> Value {
    json!({
        "quant_method": "compressed-tensors", "format": format, "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}
    })
}

#[test]
fn packed_integers_straddle_words() {
    // 37 inputs are no multiple of the group or of a word, and 5 outputs of neither.
    let (d_out, d_in, group) = (5, 37, 16);
    for bits in 2..=8usize {
        for symmetric in [true, false] {
            let codes = numbers(d_out * d_in, 1 << bits, bits as u64);
            let groups: Vec<usize> = (0..d_in).map(|k| k / group).collect();
            let (scales, mut zeros) = (scales(d_out * 3, 3), numbers(d_out * 3, 1 << bits, 9));
            zeros[4] = 0;
            if symmetric {
                zeros.fill(1 << (bits - 1));
            }
            let weights = json!({"num_bits": bits, "type": "int", "strategy": "group", "group_size": group,
                                 "symmetric": symmetric});
            let words = streams(&codes, d_in, bits);
            let shape = [d_out as i64, d_in as i64].iter().flat_map(|n| n.to_le_bytes()).collect();
            let mut folder = Folder::new(compressed("pack-quantized", &weights))
                .words("m.weight_packed", &[d_out, words.len() / d_out], &words)
                .floats("m.weight_scale", &[d_out, 3], &scales)
                .with("m.weight_shape", Dtype::I64, &[2], shape);
            if !symmetric {
                let down = streams(&transposed(&zeros, 3), d_out, bits);
                let rows = down.len() / 3;
                folder = folder.words("m.weight_zero_point", &[rows, 3], &transposed(&down, rows));
            }
            assert_eq!(folder.matrix().unwrap(), expected(&codes, &scales, &zeros, &groups), "{bits} {symmetric}");
        }
    }
}

/// GPTQ's tensors of module `m`.
fn gptq(settings: Value, codes: &[u8], d_in: usize, scales: &[f32], zeros: &[u8], bits: usize) -> Folder {
    let d_out = codes.len() / d_in;
    let count = scales.len() / d_out;
    let across = streams(codes, d_in, bits);
    let rows = across.len() / d_out;
    let stored: Vec<u8> = match settings["checkpoint_format"].as_str() {
        Some("gptq_v2") => zeros.to_vec(),
        _ => zeros.iter().map(|zero| zero.wrapping_sub(1) & ((1u32 << bits) - 1) as u8).collect(),
    };
    let zeros = streams(&transposed(&stored, count), d_out, bits);
    Folder::new(settings)
        .words("m.qweight", &[rows, d_out], &transposed(&across, rows))
        .words("m.qzeros", &[count, zeros.len() / count], &zeros)
        .floats("m.scales", &[count, d_out], &transposed(scales, count))
}

#[test]
fn gptq_in_all_widths_versions_and_orders() {
    let (d_out, d_in) = (32, 64);
    for bits in [2usize, 3, 4, 8] {
        for (version, group) in [("gptq", 16i64), ("gptq_v2", 16), ("gptq", -1)] {
            let count = if group < 0 { 1 } else { 4 };
            let codes = numbers(d_out * d_in, 1 << bits, 1);
            let (scales, mut zeros) = (scales(d_out * count, 2), numbers(d_out * count, 1 << bits, 3));
            zeros[2] = 0;
            let settings = json!({"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": true,
                                  "sym": false, "checkpoint_format": version});
            let in_order: Vec<usize> = (0..d_in).map(|k| k * count / d_in).collect();
            let folder = || gptq(settings.clone(), &codes, d_in, &scales, &zeros, bits);
            let want = expected(&codes, &scales, &zeros, &in_order);
            assert_eq!(folder().matrix().unwrap(), want, "{bits} {version} {group}");
            let shuffled: Vec<usize> = (0..d_in).map(|k| k * 29 % d_in * count / d_in).collect();
            let index: Vec<u32> = shuffled.iter().map(|&g| g as u32).collect();
            let want = expected(&codes, &scales, &zeros, &shuffled);
            assert_eq!(folder().words("m.g_idx", &[d_in], &index).matrix().unwrap(), want, "{bits} {version} {group}");
        }
    }
}

#[test]
fn awq_repacked_as_gptq_gives_equal_weights() {
    const ORDER: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];
    let (d_out, d_in, group) = (24, 48, 32);
    let codes = numbers(d_out * d_in, 16, 5);
    let (scales, zeros) = (scales(d_out * 2, 6), numbers(d_out * 2, 16, 7));
    let pack = |lines: &[u8]| -> Vec<u32> {
        let word = |eight: &[u8]| (0..8).fold(0u32, |word, i| word | (u32::from(eight[ORDER[i]]) << (4 * i)));
        lines.chunks_exact(8).map(word).collect()
    };
    let awq = Folder::new(json!({"quant_method": "awq", "bits": 4, "group_size": group, "version": "GEMM"}))
        .words("m.qweight", &[d_in, d_out / 8], &pack(&transposed(&codes, d_in)))
        .words("m.qzeros", &[2, d_out / 8], &pack(&transposed(&zeros, 2)))
        .floats("m.scales", &[2, d_out], &transposed(&scales, 2));
    let settings = json!({"quant_method": "gptq", "bits": 4, "group_size": group});
    // 48 inputs: the second group has half as many as the first.
    let groups: Vec<usize> = (0..d_in).map(|k| k / group).collect();
    let values = awq.matrix().unwrap();
    assert_eq!(values, expected(&codes, &scales, &zeros, &groups));
    assert_eq!(values, gptq(settings, &codes, d_in, &scales, &zeros, 4).matrix().unwrap());
}

/// bitsandbytes in four bits: 13 rows of 11, an odd number of weights in blocks of 64.
pub fn four_bits(nested: bool) -> (Folder, Vec<f32>) {
    let (shape, block) = ([13usize, 11], 64);
    let codes = numbers(143, 16, 8);
    let map: Vec<f32> = (0..16).map(|i| (i as f32 - 7.3) / 9.1).collect();
    let bytes: Vec<u8> = codes.chunks(2).map(|pair| (pair[0] << 4) | pair.get(1).copied().unwrap_or(0)).collect();
    let settings = json!({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"});
    let mut state = json!({"quant_type": "nf4", "blocksize": block, "dtype": "bfloat16", "shape": shape});
    let mut folder = Folder::new(settings).with("m.weight", Dtype::U8, &[72, 1], bytes);
    folder = folder.floats("m.weight.quant_map", &[16], &map);
    let mut scales = scales(3, 4);
    if nested {
        let (nested_map, absmax, offset) = (super::folder::scales(256, 11), [0.7f32, 0.3], 0.0123f32);
        state["nested_blocksize"] = 2.into();
        state["nested_offset"] = f64::from(offset).into();
        let codes = [200u8, 3, 77];
        scales = (0..3).map(|b| nested_map[usize::from(codes[b])] * absmax[b / 2] + offset).collect();
        folder = folder.with("m.weight.absmax", Dtype::U8, &[3], codes.to_vec());
        folder = folder.floats("m.weight.nested_absmax", &[2], &absmax);
        folder = folder.floats("m.weight.nested_quant_map", &[256], &nested_map);
    } else {
        folder = folder.floats("m.weight.absmax", &[3], &scales);
    }
    let state = state.to_string().into_bytes();
    let folder = folder.with("m.weight.quant_state.bitsandbytes__nf4", Dtype::U8, &[state.len()], state);
    let want = codes.iter().enumerate().map(|(i, &code)| map[usize::from(code)] * scales[i / block]).collect();
    (folder, want)
}

#[test]
fn four_bit_blocks_of_an_odd_number_of_weights() {
    for nested in [false, true] {
        let (folder, want) = four_bits(nested);
        assert_eq!(folder.matrix().unwrap(), want, "{nested}");
    }
}

#[test]
fn eight_bit_floats_of_odd_blocks() {
    // 1.5 has the bits 0 0111 100; 448 is the largest, 2^-9 the smallest number.
    let (one_and_a_half, largest, smallest) = (0x3c_u8, 0x7e, 0x01);
    let mut bytes = vec![one_and_a_half; 5 * 7];
    (bytes[0], bytes[34], bytes[8]) = (largest, smallest, 0x80 | one_and_a_half);
    let (grid, scale) = ([3usize, 3], scales(9, 12));
    let settings = json!({"quant_method": "fp8", "weight_block_size": [2, 3], "activation_scheme": "dynamic"});
    let folder = Folder::new(settings).with("m.weight", Dtype::F8_E4M3, &[5, 7], bytes);
    let values = folder.floats("m.weight_scale_inv", &grid, &scale).matrix().unwrap();
    let at = |n: usize, k: usize| scale[n / 2 * 3 + k / 3];
    let mut want: Vec<f32> = (0..35).map(|i| 1.5 * at(i / 7, i % 7)).collect();
    (want[0], want[34], want[8]) = (448.0 * at(0, 0), at(4, 6) / 512.0, -1.5 * at(1, 1));
    assert_eq!(values, want);
    // A scale for the whole matrix, and one for each output.
    let one = Folder::new(json!({"quant_method": "fp8", "activation_scheme": "static"}));
    let one = one.with("m.weight", Dtype::F8_E4M3, &[2, 2], vec![one_and_a_half; 4]);
    assert_eq!(one.floats("m.weight_scale", &[], &[0.3]).matrix().unwrap(), [1.5 * 0.3f32; 4]);
}

#[test]
fn integers_in_bytes_with_zero_points_and_groups() {
    let (d_out, d_in) = (3, 10);
    let codes = numbers(30, 256, 13);
    let (scales, zeros) = (scales(6, 14), numbers(6, 256, 15));
    let weights = json!({"num_bits": 8, "type": "int", "strategy": "group", "group_size": 5, "symmetric": false});
    let signed = |codes: &[u8]| codes.iter().map(|code| code.wrapping_sub(128)).collect::<Vec<u8>>();
    let folder = Folder::new(compressed("int-quantized", &weights))
        .with("m.weight", Dtype::I8, &[d_out, d_in], signed(&codes))
        .with("m.weight_zero_point", Dtype::I8, &[d_out, 2], signed(&zeros))
        .floats("m.weight_scale", &[d_out, 2], &scales);
    let groups: Vec<usize> = (0..d_in).map(|k| k / 5).collect();
    assert_eq!(folder.matrix().unwrap(), expected(&codes, &scales, &zeros, &groups));
    assert_eq!(stream(&[1, 2], 8), [513]);
}
