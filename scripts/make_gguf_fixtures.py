#!/usr/bin/env python3
"""GGUF files for tests, made with the `gguf` package from PyPI (which needs numpy; safetensors for `convert`).

    python3 scripts/make_gguf_fixtures.py blocks crates/gguf/tests/fixtures/blocks.json
    python3 scripts/make_gguf_fixtures.py convert MODEL_FOLDER OUT.gguf [--type q8_0] [--pre qwen2]

`blocks` draws blocks of every type and writes them beside the numbers that the package's own dequantiser makes of them.
`convert` turns a folder of architecture llama into a file: query and key rows are interleaved as llama.cpp does it, the
tokenizer is byte-level BPE or that of SentencePiece. `--type` is the type of all matrices whose rows it divides; types
for which the package has no quantiser (the K types) get drawn blocks.
"""

import argparse
import json
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import quants

TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
# Bytes of a block where half-precision scales and minima are.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208]}


def drawn(name, blocks, random, size):
    """Blocks of random codes whose scales are finite and about `size`."""
    bytes_ = random.integers(0, 256, (blocks, gguf.GGML_QUANT_SIZES[Type[name]][1]), dtype=np.uint8)
    for at in HALVES[name]:
        scale = (random.standard_normal(blocks) * size).astype(np.float16)
        bytes_[:, at:at + 2] = scale.view(np.uint8).reshape(blocks, 2)
    return bytes_


def blocks(out):
    random = np.random.default_rng(7)
    rows = {}
    for name in TYPES:
        coded = drawn(name, 3, random, 0.05)
        numbers = quants.dequantize(coded, Type[name]).astype(np.float32)
        rows[name] = {"blocks": coded.tobytes().hex(), "numbers": numbers.tobytes().hex()}
    out.write_text(json.dumps(rows, indent=1) + "\n")


def permuted(weights, heads):
    """Rows as llama.cpp stores them: those of the two halves of a head take turns."""
    half = weights.shape[0] // heads // 2
    return weights.reshape(heads, 2, half, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def renamed(name):
    module, suffix = name.rsplit(".", 1)
    whole = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    if module in whole:
        return f"{whole[module]}.{suffix}"
    layer, part = module.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{NAMES[part]}.{suffix}"


def settings(writer, config, folder):
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    writer.add_rope_dimension_count(head)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_name(Path(folder).name)


def tokenizer(writer, folder, rows, pre):
    document = json.loads((folder / "tokenizer.json").read_text())
    config = json.loads((folder / "tokenizer_config.json").read_text())
    model, added = document["model"], {t["id"]: t for t in document["added_tokens"]}
    texts = {i: t for t, i in model["vocab"].items()} | {i: t["content"] for i, t in added.items()}
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    sentence_piece = bool(model.get("byte_fallback"))
    tokens, types = [], []
    for i in range(rows):
        text = texts.get(i, f"[PAD{i}]")
        tokens.append(text)
        if i not in texts:
            types.append(5)
        elif i in added:
            types.append(2 if text == model.get("unk_token") else 3 if added[i]["special"] else 4)
        else:
            types.append(6 if sentence_piece and text.startswith("<0x") and len(text) == 6 else 1)
    if sentence_piece:
        rank = {}
        for i, merge in enumerate(merges):
            rank.setdefault(merge.replace(" ", ""), i)
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_scores([float(-rank.get(text, 10**6)) for text in tokens])
    else:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_merges(merges)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    ids = {text: i for i, text in texts.items()}
    for key, add in [("bos_token", writer.add_bos_token_id), ("eos_token", writer.add_eos_token_id),
                     ("unk_token", writer.add_unk_token_id)]:
        if config.get(key) in ids:
            add(ids[config[key]])
    processor = json.dumps(document.get("post_processor") or {})
    writer.add_add_bos_token(config.get("add_bos_token", f'"{config.get("bos_token")}"' in processor))
    if config.get("chat_template"):
        writer.add_chat_template(config["chat_template"])


def convert(options):
    from safetensors.numpy import load_file

    config = json.loads((options.folder / "config.json").read_text())
    config.setdefault("head_dim", config["hidden_size"] // config["num_attention_heads"])
    writer = gguf.GGUFWriter(options.out, "llama")
    settings(writer, config, options.folder)
    tokenizer(writer, options.folder, config["vocab_size"], options.pre)
    kind, random = Type[options.type.upper()], np.random.default_rng(3)
    block = gguf.GGML_QUANT_SIZES[kind][0]
    for name, weights in load_file(options.folder / "model.safetensors").items():
        weights = weights.astype(np.float32)
        if "q_proj" in name:
            weights = permuted(weights, config["num_attention_heads"])
        elif "k_proj" in name:
            weights = permuted(weights, config["num_key_value_heads"])
        if weights.ndim == 1 or kind == Type.F32 or weights.shape[-1] % block:
            writer.add_tensor(renamed(name), weights)
        elif kind == Type.F16:
            writer.add_tensor(renamed(name), weights.astype(np.float16))
        else:
            try:
                coded = quants.quantize(weights, kind)
            except NotImplementedError:
                count = weights.size // block
                coded = drawn(kind.name, count, random, 0.002).reshape(weights.shape[0], -1)
            writer.add_tensor(renamed(name), coded, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("blocks").add_argument("out", type=Path)
    one = commands.add_parser("convert")
    one.add_argument("folder", type=Path)
    one.add_argument("out", type=Path)
    one.add_argument("--type", default="f32")
    one.add_argument("--pre", default="qwen2")
    options = parser.parse_args()
    blocks(options.out) if options.command == "blocks" else convert(options)


if __name__ == "__main__":
    main()
