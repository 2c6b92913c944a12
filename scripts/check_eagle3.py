"""Drafts with an exported EAGLE-3 layer in PyTorch and compares what is accepted with what gorgon accepted.

usage: gorgon generate --model MODEL --heads HEADS --tree chain:4 --ignore-eos --max-new-tokens 64 --prompt "…" --json > RUN.json
       check_eagle3.py MODEL HEADS RUN.json

HEADS is what `gorgon export --to eagle3` or `--to speculators` wrote. The layer is written down here from the published names
and shapes alone; hidden states come from transformers, where `hidden_states[i]` enters layer i. Needs scripts/bench/requirements.txt.
"""
import json, sys
from pathlib import Path
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

model_dir, heads_dir, run = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text())
config = json.loads((heads_dir / "config.json").read_text())
layer = config.get("transformer_layer_config", config)
weights = {name.replace("midlayer.", "layers.0."): tensor for name, tensor in load_file(heads_dir / "model.safetensors").items()}
d2t = weights.pop("d2t", None)
weights.pop("t2d", None)
W = {name.removeprefix("layers.0.").removesuffix(".weight"): tensor.float() for name, tensor in weights.items()}
IDS = "eagle_aux_hidden_state_layer_ids"
taps = config.get(IDS) or [left + 1 for left in config["eagle_config"][IDS]]
if "eagle_config" in config:
    assert taps == [left + 1 for left in config["eagle_config"][IDS]], "the config counts layers in two ways that differ"
heads, kv_heads, eps = layer["num_attention_heads"], layer["num_key_value_heads"], layer["rms_norm_eps"]
head_dim = layer.get("head_dim") or layer["hidden_size"] // heads
assert not layer.get("rope_scaling"), "scaled rotary embeddings are not written down here"
assert config["norm_before_residual"] is False
drafts = int(run["tree"].removeprefix("chain:"))

model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()
embedding = W.get("embed_tokens", model.get_input_embeddings().weight)


def norm(x, name):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * W[name]


def rotate(x, first):
    """Rotates `x [rows, heads, head_dim]` to positions from `first` on."""
    frequencies = layer["rope_theta"] ** (-torch.arange(0, head_dim, 2) / head_dim)
    angles = torch.outer(torch.arange(first, first + len(x)), frequencies)[:, None]
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def step(tokens, states, cache):
    """The layer over some pairs after those in `cache`."""
    first = len(cache[0]) if cache else 0
    x = torch.cat([norm(embedding[tokens], "input_layernorm"), norm(states, "hidden_norm")], -1)
    q, k, v = (
        (x @ W[f"self_attn.{name}_proj"].T).view(len(tokens), -1, head_dim) for name in ("q", "k", "v")
    )
    q, k = rotate(q, first), rotate(k, first)
    if cache:
        k, v = torch.cat([cache[0], k]), torch.cat([cache[1], v])
    grouped = [t.repeat_interleave(heads // kv_heads, 1) for t in (k, v)]
    scores = torch.einsum("qhd,khd->hqk", q, grouped[0]) * head_dim**-0.5
    seen = torch.arange(len(k))[None] <= torch.arange(first, first + len(tokens))[:, None]
    mixed = torch.einsum("hqk,khd->qhd", scores.masked_fill(~seen, -torch.inf).softmax(-1), grouped[1])
    states = states + mixed.reshape(len(tokens), -1) @ W["self_attn.o_proj"].T
    x = norm(states, "post_attention_layernorm")
    x = torch.nn.functional.silu(x @ W["mlp.gate_proj"].T) * (x @ W["mlp.up_proj"].T)
    return states + x @ W["mlp.down_proj"].T, (k, v)


@torch.inference_mode()
def main():
    text = run["prompt_ids"] + run["ids"]
    hidden = model(torch.tensor([text]), output_hidden_states=True).hidden_states
    fused = torch.cat([hidden[tap][0] for tap in taps], -1) @ W["fc"].T
    committed, compared = len(run["prompt_ids"]), 0
    for number, accepted in enumerate(run["accepted"]):
        if committed + drafts + 1 > len(text):
            break
        states, cache = step(torch.tensor(text[1 : committed + 1]), fused[:committed], None)
        state, found = states[-1:], 0
        for place in range(drafts):
            drafted = int((norm(state, "norm") @ W["lm_head"].T).argmax())
            token = drafted + int(d2t[drafted]) if d2t is not None else drafted
            if token != text[committed + 1 + place]:
                break
            found += 1
            state, cache = step(torch.tensor([token]), state, cache)
        assert found == accepted, f"step {number}: {found} drafts are right here, gorgon accepted {accepted}"
        committed, compared = committed + accepted + 1, compared + 1
    print(f"{compared} steps with the same drafts, {committed - len(run['prompt_ids']):d} tokens")


main()
