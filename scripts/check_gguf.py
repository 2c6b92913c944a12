#!/usr/bin/env python3
"""GGUF files against the folders they were made of, the `gguf` package and llama.cpp.

    cargo build --release && cargo test --release --test gguf_ids --no-run
    python3 scripts/check_gguf.py --node FOLDER --out benchmarks/gguf_check.jsonl ../shared/models/stories260k checkpoints/tiny

Needs gguf, numpy and safetensors from PyPI; FOLDER has node-llama-cpp from npm in its node_modules. Rows: logits of f32
and f16 files against the folder's own, and of coded files against a folder of the numbers that the package dequantises
(`differ` counts logits whose bits differ); token ids of both kinds of tokenizers against llama.cpp's; greedy text of the
first model in f32 against llama.cpp's, with the place where they part and the margin there.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
from gguf import quants
from safetensors.numpy import load_file, save_file

sys.path.insert(0, str(Path(__file__).parent))
import gguf_texts
import make_gguf_fixtures as fixtures

ROOT = Path(__file__).resolve().parent.parent
TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k"]
NAMES = ["llama-bpe", "qwen2", "gpt-2", "smollm", "default"]
PROMPTS = ["Once upon a time", "Lily and Tom went to the park", "The big dog", "One day, a little boy", "\"Hello\", said"]


def run(*command, **more):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, **more).stdout


def convert(folder, out, kind, pre="qwen2"):
    fixtures.convert(argparse.Namespace(folder=folder, out=str(out), type=kind, pre=pre))
    return out


def interleaved_back(rows, heads):
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, half, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def dequantised(folder, file, out):
    """A folder of the numbers of a file, as the package reads them."""
    out.mkdir()
    config = json.loads((folder / "config.json").read_text())
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"]:
        if (folder / name).exists():
            shutil.copy(folder / name, out / name)
    names = {fixtures.renamed(name): name for name in load_file(folder / "model.safetensors")}
    tensors = {}
    for tensor in gguf.GGUFReader(file).tensors:
        name, shape = names[tensor.name], [int(n) for n in reversed(tensor.shape)]
        values = quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape)
        if "q_proj" in name or "k_proj" in name:
            key = "num_attention_heads" if "q_proj" in name else "num_key_value_heads"
            values = interleaved_back(values, config[key])
        # 16 bits stay 16 bits: the program keeps them too.
        tensors[name] = np.ascontiguousarray(values.astype(np.float16 if tensor.tensor_type == 1 else np.float32))
    save_file(tensors, out / "model.safetensors")
    return out


def logits(gorgon, model, ids, work):
    out = work / "logits.safetensors"
    out.unlink(missing_ok=True)
    run(gorgon, "dev", "logits", "--model", model, "--ids", ",".join(map(str, ids)), "--out", out, "--device", "cpu")
    return load_file(out)["logits"]


def check_logits(options, folder, work, rows):
    random = np.random.default_rng(1)
    vocab = json.loads((folder / "config.json").read_text())["vocab_size"]
    ids = [int(i) for i in random.integers(3, vocab, 48)]
    for kind in TYPES:
        file = convert(folder, work / f"{folder.name}-{kind}.gguf", kind)
        against = folder if kind == "f32" else dequantised(folder, file, work / f"{folder.name}-{kind}")
        ours, theirs = logits(options.gorgon, file, ids, work), logits(options.gorgon, against, ids, work)
        stored = sorted({t.tensor_type.name for t in gguf.GGUFReader(file).tensors})
        rows.append({"check": "logits", "model": folder.name, "type": kind, "stored": stored, "logits": int(ours.size),
                     "differ": int((ours.view(np.uint32) != theirs.view(np.uint32)).sum()),
                     "largest": float(np.abs(ours - theirs).max()), "against": "folder" if kind == "f32" else "gguf package"})


def peer(options, jobs, work):
    (work / "jobs.json").write_text(json.dumps(jobs))
    run("node", ROOT / "scripts/gguf_peer.mjs", work / "jobs.json", work / "peer.json", cwd=options.node)
    return json.loads((work / "peer.json").read_text())


def check_ids(options, files, work, rows):
    texts = gguf_texts.texts()
    found = peer(options, {"ids": [{"model": str(file), "texts": texts} for file in files], "greedy": []}, work)
    (work / "ids.json").write_text(json.dumps({"texts": texts, "ids": found["ids"]}))
    tests = sorted((ROOT / "target/release/deps").glob("gguf_ids-*"), key=os.path.getmtime)
    program = [test for test in tests if not test.suffix][-1]
    done = subprocess.run([str(program), "--nocapture"], env=dict(os.environ, GORGON_GGUF_IDS=str(work / "ids.json")),
                          capture_output=True, text=True)
    print(done.stderr[-3000:], file=sys.stderr)
    for line in done.stdout.splitlines():
        if line.startswith("{\"model\""):
            row = json.loads(line)
            rows.append({"check": "token ids", "file": Path(row["model"]).name, "texts": row["texts"], "differ": row["differ"]})


def check_greedy(options, folder, file, work, rows):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    prompts = [tokenizer.encode(text).ids for text in PROMPTS]
    theirs = peer(options, {"ids": [], "greedy": [{"model": str(file), "prompts": prompts, "tokens": 64}]}, work)
    for text, prompt, expected in zip(PROMPTS, prompts, theirs["greedy"][0]["ids"]):
        said = run(options.gorgon, "generate", "--model", file, "--ids", ",".join(map(str, prompt)), "--max-new-tokens", 64,
                   "--print-ids", "--ignore-eos", "--device", "cpu")
        ours = [int(i) for i in said.replace(",", " ").split()]
        row = {"check": "greedy", "model": folder.name, "prompt": text, "tokens": len(expected), "equal": ours == expected}
        if ours != expected:
            at = next((i for i, (a, b) in enumerate(zip(ours, expected)) if a != b), min(len(ours), len(expected)))
            row["parts_at"] = at
            if at < min(len(ours), len(expected)):
                last = logits(options.gorgon, file, prompt + ours[:at], work)[-1]
                row["margin"] = float(last[ours[at]] - last[expected[at]])
        rows.append(row)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs=2, type=Path, help="a model with a SentencePiece tokenizer, and one of byte-level BPE")
    parser.add_argument("--gorgon", type=Path, default=ROOT / "target/release/gorgon")
    parser.add_argument("--node", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        pieces, byte_level = [folder.resolve() for folder in options.models]
        for folder in (pieces, byte_level):
            check_logits(options, folder, work, rows)
        named = [convert(byte_level, work / f"{byte_level.name}-{name}.gguf", "f16", name) for name in NAMES]
        file = work / f"{pieces.name}-f32.gguf"
        check_ids(options, [file, *named], work, rows)
        check_greedy(options, pieces, file, work, rows)
    options.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for row in rows:
        print(json.dumps(row))
    sys.exit(any(row.get("differ") or row.get("equal") is False for row in rows))


if __name__ == "__main__":
    main()
