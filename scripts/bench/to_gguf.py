"""Writes a Llama's folder of safetensors as GGUF, for measurements beside llama.cpp.

usage: to_gguf.py MODEL OUT.gguf FORMAT, with FORMAT f32, f16, q8_0 or q4_0. All matrices are in that format, embeddings and
LM head too; norms are f32. The tokenizer is a stand-in, without texts of use. Needs gguf, numpy and safetensors.
"""
import json, sys
from pathlib import Path

import gguf, numpy as np
from safetensors import safe_open

LAYER = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
TYPES = {
    "f32": gguf.GGMLQuantizationType.F32, "f16": gguf.GGMLQuantizationType.F16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0,
}


def name_of(name):
    stem = name.removesuffix(".weight")
    if stem in TOP:
        return TOP[stem] + ".weight"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{LAYER[part]}.weight"


def pairs_side_by_side(weights, heads):
    """llama.cpp rotates neighbouring rows of a head; the safetensors' rows are rotated with those half a head away."""
    rows, columns = weights.shape
    return weights.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def header(writer, config):
    heads, vocab = config["num_attention_heads"], config["vocab_size"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config.get("rope_theta") or config["rope_parameters"]["rope_theta"])
    writer.add_rope_dimension_count(config["hidden_size"] // heads)
    writer.add_vocab_size(vocab)
    writer.add_tokenizer_model("llama")
    # llama.cpp wants a token for each byte.
    special, types = ["<unk>", "<s>", "</s>"], gguf.TokenType
    tokens = special + [f"<0x{i:02X}>" for i in range(256)] + [f"token {i}" for i in range(vocab - 259)]
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * vocab)
    kinds = [types.UNKNOWN, types.CONTROL, types.CONTROL] + [types.BYTE] * 256 + [types.NORMAL] * (vocab - 259)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def main(folder, out, kind):
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(out, "llama")
    header(writer, config)
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():
                weights = tensors.get_tensor(name).float().numpy()
                if ".q_proj" in name:
                    weights = pairs_side_by_side(weights, config["num_attention_heads"])
                if ".k_proj" in name:
                    weights = pairs_side_by_side(weights, config["num_key_value_heads"])
                format = TYPES[kind] if weights.ndim == 2 else TYPES["f32"]
                data = gguf.quants.quantize(np.ascontiguousarray(weights), format)
                writer.add_tensor(name_of(name), data, raw_dtype=format)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
