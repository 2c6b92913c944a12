#!/usr/bin/env python3
"""KL divergence and top-1 agreement of weights in integers against f32, beside blocks of GGUF.

    python3 scripts/bench/quantised_accuracy.py --gorgon target/release/gorgon --out OUT.jsonl MODEL...

Needs numpy, safetensors and gguf. For each MODEL, texts are the model's own sampled answers, so that positions are those
of real use. Q8_0 and Q4_0 are the model's matrices rounded and given back by the gguf package, with activations in f32:
matrices whose rows are no multiple of 32 stay as they are, as llama.cpp keeps them in 16 bits.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf import quants
from safetensors.numpy import load_file, save_file

FORMATS = {
    "int8": ["--weights", "int8"],
    "int8, 16-bit activations": ["--weights", "int8", "--activation-bits", "16"],
    "int8, f32 activations": ["--weights", "int8", "--activation-bits", "32"],
    "int4": ["--weights", "int4"],
    "int4, 16-bit activations": ["--weights", "int4", "--activation-bits", "16"],
    "int4, f32 activations": ["--weights", "int4", "--activation-bits", "32"],
}


def run(gorgon, *args):
    done = subprocess.run([gorgon, *args], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(args)}: {done.stdout}{done.stderr}")
    return done.stdout


def texts(gorgon, model, prompts, tokens):
    """Token ids of prompts with sampled answers."""
    found = []
    for seed, prompt in enumerate(prompts):
        said = json.loads(run(gorgon, "generate", "--model", str(model), "--prompt", prompt, "--temperature", "1",
                              "--seed", str(seed), "--max-new-tokens", str(tokens), "--ignore-eos", "--json"))
        found.append(said["prompt_ids"] + said["ids"])
    return found


def logits(gorgon, model, ids, folder, *options):
    rows = []
    for index, text in enumerate(ids):
        out = folder / f"{index}.safetensors"
        run(gorgon, "logits", "--model", str(model), "--ids", ",".join(map(str, text)), "--out", str(out), *options)
        rows.append(load_file(out)["logits"].astype(np.float64))
    return np.concatenate(rows)


def log_softmax(x):
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def rounded_copy(model, kind, folder):
    """The model with every matrix rounded to blocks and given back."""
    for file in model.iterdir():
        if file.is_file() and file.suffix != ".safetensors":
            shutil.copy(file, folder)
    tensors = {name: tensor.astype(np.float32) for name, tensor in load_file(model / "model.safetensors").items()}
    for name, tensor in tensors.items():
        if tensor.ndim == 2 and tensor.shape[1] % 32 == 0:
            tensors[name] = quants.dequantize(quants.quantize(tensor, kind), kind).astype(np.float32).reshape(tensor.shape)
    save_file(tensors, folder / "model.safetensors")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gorgon", default="target/release/gorgon")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("models", nargs="+", type=Path)
    options = parser.parse_args()
    starts = ["Once upon a time", "Tell me a story about a dog.", "What is 12 + 7?", "List three animals.",
              "One day, a girl", "How do I make soup?", "The sun was", "Hi!"]
    for model in options.models:
        ids = texts(options.gorgon, model, [starts[i % len(starts)] for i in range(options.texts)], options.tokens)
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            truth = log_softmax(logits(options.gorgon, model, ids, folder, "--dtype", "f32"))
            compared = {name: lambda given=given: logits(options.gorgon, model, ids, folder, *given)
                        for name, given in FORMATS.items()}
            for kind in (Kind.Q8_0, Kind.Q4_0):
                copy = folder / kind.name
                copy.mkdir()
                rounded_copy(model, kind, copy)
                compared[kind.name] = lambda copy=copy: logits(options.gorgon, copy, ids, folder)
            for name, measure in compared.items():
                other = log_softmax(measure())
                divergence = (np.exp(truth) * (truth - other)).sum(axis=1)
                row = {"model": model.name, "format": name, "positions": len(truth), "kl": float(divergence.mean()),
                       "kl_half_width_95": float(1.96 * divergence.std() / np.sqrt(len(divergence))),
                       "top1_agreement": float((truth.argmax(axis=1) == other.argmax(axis=1)).mean())}
                print(json.dumps(row), flush=True)
                with options.out.open("a") as out:
                    out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
