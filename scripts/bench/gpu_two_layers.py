"""Writes a Llama of a shape's width with two layers of random weights in bf16: gpu_two_layers.py SHAPE FOLDER. Needs Python alone."""
import json, os, struct, sys

import shapes

hidden, intermediate, _, heads, kv_heads, vocab, positions = shapes.SHAPES[sys.argv[1]]
folder, layers, kv = sys.argv[2], 2, hidden // heads * kv_heads
os.makedirs(folder, exist_ok=True)
config = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": hidden,
    "intermediate_size": intermediate, "num_hidden_layers": layers, "num_attention_heads": heads,
    "num_key_value_heads": kv_heads, "vocab_size": vocab, "max_position_embeddings": positions, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
}
with open(folder + "/config.json", "w") as file:
    json.dump(config, file, indent=1)
tensors = [("model.embed_tokens.weight", [vocab, hidden]), ("lm_head.weight", [vocab, hidden]), ("model.norm.weight", [hidden])]
for layer in range(layers):
    at = f"model.layers.{layer}."
    for name, shape in [
        ("self_attn.q_proj", [hidden, hidden]), ("self_attn.k_proj", [kv, hidden]), ("self_attn.v_proj", [kv, hidden]),
        ("self_attn.o_proj", [hidden, hidden]), ("mlp.gate_proj", [intermediate, hidden]),
        ("mlp.up_proj", [intermediate, hidden]), ("mlp.down_proj", [hidden, intermediate]),
        ("input_layernorm", [hidden]), ("post_attention_layernorm", [hidden]),
    ]:
        tensors.append((at + name + ".weight", shape))
header, offset = {}, 0
for name, shape in tensors:
    size = 2
    for dim in shape:
        size *= dim
    header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
    offset += size
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
PIECE = 1 << 24
# Numbers of either sign between 2^-7 and 2^-6: any bits for sign and fraction, the exponent fixed.
keep, exponent = (int.from_bytes(word * (PIECE // 2), "little") for word in (b"\x7f\x80", b"\x00\x3c"))
with open(folder + "/model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text)
    for name, shape in tensors:
        first, last = header[name]["data_offsets"]
        if len(shape) == 1:
            file.write(b"\x80\x3f" * shape[0])
            continue
        while first < last:
            count = min(PIECE, last - first)
            drawn = int.from_bytes(os.urandom(PIECE), "little") & keep | exponent
            file.write(drawn.to_bytes(PIECE, "little")[:count])
            first += count
print(json.dumps({"bytes": offset, "layers": layers, "hidden": hidden}))
