#!/usr/bin/env python3
"""Opens what `gorgon quantize` writes with transformers and compressed-tensors, and compares it with gorgon.

    python3 scripts/check_quantized.py --gorgon target/release/gorgon --out OUT.jsonl MODEL...

Needs torch, transformers, compressed-tensors and safetensors from PyPI. For each MODEL, with int8 and with int4:

* weights: each matrix as compressed-tensors unpacks and dequantises it in f32. Its SHA-256 is the one that gorgon took
  of the matrix as gorgon reads it (`--hashes`), so all bits are equal. Packed again by compressed-tensors, with the same
  scales, it gives the bytes of the file.
* logits: transformers in f32, on the weights that compressed-tensors restores, against `gorgon dev logits` along a text;
  the largest difference is at most 1e-3.
* text: 48 tokens of greedy decoding are equal.

Exits with 1 if one of them fails.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor as Packed
from compressed_tensors.quantization import QuantizationConfig
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

TOLERANCE = 1e-3
NEW_TOKENS = 48
PROMPT = "Once upon a time, there was a little girl who liked to count."


def run(gorgon, *args):
    done = subprocess.run([gorgon, *map(str, args)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, args))}: {done.stdout}{done.stderr}")
    return done.stdout


def scheme_of(config, module):
    """The scheme of a module: its group names it, or all linear layers."""
    for group in config.config_groups.values():
        if module in group.targets or "Linear" in group.targets:
            return group
    sys.exit(f"{module}: no group of the config targets it")


def check_weights(folder, hashes):
    """Counts the matrices whose bits are those of gorgon, and those that pack to the same bytes."""
    config = QuantizationConfig(**json.loads((folder / "config.json").read_text())["quantization_config"])
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors.update(load_file(file))
    modules = [name.removesuffix(".weight_packed") for name in tensors if name.endswith(".weight_packed")]
    equal = repacked = 0
    for module in modules:
        scheme = scheme_of(config, module)
        parts = ("weight_packed", "weight_scale", "weight_shape")
        stored = {part: tensors[f"{module}.{part}"] for part in parts}
        stored["weight_scale"] = stored["weight_scale"].float()
        dense = Packed.decompress(stored, scheme)
        digest = hashlib.sha256(dense["weight"].contiguous().numpy().astype("<f4").tobytes()).hexdigest()
        equal += digest == hashes[module]
        again = Packed.compress({"weight": dense["weight"], "weight_scale": stored["weight_scale"]}, scheme)
        repacked += torch.equal(again["weight_packed"], stored["weight_packed"])
    return {"matrices": len(modules), "equal_bits": equal, "equal_when_packed_again": repacked}


def check_text(gorgon, folder, scratch):
    """Logits along a text, and greedy decoding, of transformers and of gorgon."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    prompt = ["generate", "--model", folder, "--prompt", PROMPT, "--raw", "--max-new-tokens", NEW_TOKENS, "--ignore-eos"]
    said = json.loads(run(gorgon, *prompt, "--json"))
    ids = said["prompt_ids"] + said["ids"]
    out = scratch / "logits.safetensors"
    run(gorgon, "dev", "logits", "--model", folder, "--ids", ",".join(map(str, ids)), "--out", out)
    ours = load_file(out)["logits"]
    with torch.no_grad():
        theirs = model(torch.tensor([ids])).logits[0]
        text = torch.tensor([said["prompt_ids"]])
        while text.shape[1] < len(ids):
            text = torch.cat([text, model(text).logits[:, -1:].argmax(-1)], dim=1)
    return {
        "linear": type(model.model.layers[0].self_attn.o_proj).__name__,
        "positions": len(ids),
        "largest_logit_difference": (ours - theirs).abs().max().item(),
        "same_top1": int((ours.argmax(-1) == theirs.argmax(-1)).sum()),
        "same_greedy_text": text[0].tolist() == ids,
        "text": tokenizer.decode(said["ids"][:16]),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gorgon", default="target/release/gorgon")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("models", nargs="+", type=Path)
    args = parser.parse_args()
    libraries = {name: version(name) for name in ("compressed-tensors", "transformers", "torch")}
    rows = []
    for model in args.models:
        for to in ("int8", "int4"):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch) / to
                report = json.loads(run(args.gorgon, "quantize", model, folder, "--to", to, "--hashes", "--json"))
                row = {"model": model.name, "to": to, **check_weights(folder, report["sha256"])}
                row |= check_text(args.gorgon, folder, Path(scratch)) | libraries
                found = row["matrices"]
                exact = found > 0 and row["equal_bits"] == found and row["equal_when_packed_again"] == found
                row["passed"] = exact and row["largest_logit_difference"] <= TOLERANCE and row["same_greedy_text"]
                rows.append(row)
                print(json.dumps(row), flush=True)
    args.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sys.exit(0 if all(row["passed"] for row in rows) else 1)


if __name__ == "__main__":
    main()
