#!/usr/bin/env python3
"""A block drafter beside EAGLE-3: the same answers, the same steps, trees of 16 and 60 nodes.

    python3 scripts/bench/block.py --gorgon target/release/gorgon --data FOLDER --runs FOLDER --out OUT.jsonl

FOLDER of --data holds what `gorgon distill` wrote for checkpoints/tiny. Each of the drafters is fitted for two epochs per
seed, then decodes the first 40 held-out dialogues greedily with each of its trees. A row is one drafter, one seed and one
tree: tokens per step, the share of steps with at least 1, 2, ... accepted drafts, and how many texts are the plain
ones. With a selector there is a second row, whose trees leave it out. Finished runs in --runs are not fitted again.
--before names a command to run everything with (a lock). Only the standard library is needed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TINY = ROOT / "checkpoints/tiny"
PROMPTS = ROOT / "datasets/tiny-chat/held_out.jsonl"
COMMON = ["training.epochs=2", "training.eval_every=0", "training.learning_rate=2e-3"]
TRELLIS = ["trellis:16,7", "trellis:60,7"]
# Name, config, own settings, trees. A dynamic tree of 16 nodes cannot have ten candidates a level.
DRAFTERS = {
    "EAGLE-3": ("eagle3-tiny", ["eagle3.steps=4"], ["dynamic:16,5,4", "dynamic:60,5,10", *TRELLIS]),
    "block": ("block-tiny", [], TRELLIS),
    "block, conv": ("block-tiny", ["block.conv=true"], TRELLIS),
    "block, conv, selector": ("block-tiny", ["block.conv=true", "block.selector.k=16", "block.selector.rank=32"],
                              TRELLIS),
}


def run(args, *command):
    done = subprocess.run([*args.before.split(), *map(str, command)], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def fitted(args, name, seed):
    """The run folder of a drafter, and what is known of its training."""
    config, own, _ = DRAFTERS[name]
    runs = args.runs / f"{name.replace(', ', '-')}-{seed}"
    if not list(runs.glob("*/heads")):
        run(args, args.gorgon, "train", "-c", f"configs/{config}.toml", f"data={args.data}", f"runs={runs}",
            f"seed={seed}", *COMMON, *own)
    folder = next(runs.glob("*/heads")).parent
    results = json.loads((folder / "results.json").read_text())
    return folder, {"parameters": results["parameters"], "steps": results["steps"],
                    "training_seconds": round(results["plan"]["fitting_seconds"]["measured"], 1)}


def without_selector(heads, out):
    """A copy of heads without their selector: the same slots, and trees from their marginals."""
    data = (heads / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header, kept, values = json.loads(data[8:start]), {}, b""
    for name, entry in header.items():
        if name != "__metadata__" and not name.startswith("candidate_selector."):
            begin, end = entry["data_offsets"]
            kept[name] = entry | {"data_offsets": [len(values), len(values) + end - begin]}
            values += data[start + begin:start + end]
    text = json.dumps(kept).encode()
    (out / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + values)
    config = json.loads((heads / "config.json").read_text())
    for key in ("selector_top_k", "selector_rank"):
        del config["dflash_config"][key]
    (out / "config.json").write_text(json.dumps(config))
    return out


def measured(args, folder, tree):
    found = json.loads(run(args, args.gorgon, "bench", "--model", TINY, "--heads", folder, "--prompts", PROMPTS,
                           "--limit", args.prompts, "--rounds", 1, "--tree", tree, "--json"))
    summary = found["summary"]
    keys = ("tokens_per_step", "nodes_per_step", "acceptance_by_depth", "same_text", "pairs")
    return {"tree": tree} | {key: summary[key] for key in keys}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gorgon", default="target/release/gorgon")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--drafters", nargs="+", default=list(DRAFTERS))
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--before", default="")
    args = parser.parse_args()
    with args.out.open("a") as out:
        for seed in args.seeds:
            for name in args.drafters:
                started = time.time()
                folder, training = fitted(args, name, seed)
                for tree in DRAFTERS[name][2]:
                    row = {"drafter": name, "seed": seed} | training
                    out.write(json.dumps(row | measured(args, folder, tree)) + "\n")
                    if "selector" in name:
                        with tempfile.TemporaryDirectory() as scratch:
                            row["drafter"] += ", trees from marginals"
                            marginal = measured(args, without_selector(folder / "heads", Path(scratch)), tree)
                            out.write(json.dumps(row | marginal) + "\n")
                    out.flush()
                print(f"{name} seed {seed}: {time.time() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
