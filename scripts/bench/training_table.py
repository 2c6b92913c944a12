#!/usr/bin/env python3
"""Settings of training, one changed at a time, at equal tokens: a row per training, appended as it ends.

    scripts/bench/training_table.py GORGON WORK OUT.jsonl NAME MODEL DATA [--conversations N] [--epochs E] [--seeds 1,2,3]
        [--rate 1e-3] [--variants base,…] [--methods medusa,…] [--own-lm-heads]
    scripts/bench/training_table.py --report OUT.jsonl

NAME stands in the rows. Rows that OUT has already are not run again. Averages of weights are made here from the
checkpoints of a run (50 of them) and measured by a training of one step at a rate of 1e-30. The report has the gain
over the base of the same seed, with Student's half-widths at 95 %: top-1 of the first head or step, and tokens per
step of decoded held-out prompts.
"""
import argparse
import json
import math
import shutil
import statistics
import subprocess
from pathlib import Path

import numpy as np

STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
RATES = [f"rate {rate}" for rate in ("5e-4", "2e-3", "4e-3", "8e-3", "1.6e-2")]
# Base of each: (config, overrides).
BASES = {
    "medusa": ("configs/medusa-tiny.toml", []),
    "hydra": ("configs/hydra-tiny.toml", ["training.shuffle_buffer=0"]),
    "block": ("configs/block-tiny.toml", []),
}
VARIANTS = [
    ("medusa", "base", []),
    *[("medusa", name, [f"training.learning_rate={name.split()[1]}"]) for name in RATES],
    ("medusa", "no warm-up", ["training.warmup=0"]),
    ("medusa", "warm-up 0.2", ["training.warmup=0.2"]),
    ("medusa", "weight decay 0.01", ["training.weight_decay=0.01"]),
    ("medusa", "weight decay 0.1", ["training.weight_decay=0.1"]),
    ("medusa", "beta2 0.999", ["training.betas=[0.9,0.999]"]),
    ("medusa", "last rate 0.1", ["training.min_lr_ratio=0.1"]),
    ("medusa", "constant rate", ["training.min_lr_ratio=1.0"]),
    ("medusa", "Muon", ['training.optimizer="muon"']),
    ("medusa", "whole conversations", ["training.shuffle_buffer=0"]),
    ("medusa", "head weights 0.3^k", ["medusa.decay=0.3"]),
    ("medusa", "head weights 0.5^k", ["medusa.decay=0.5"]),
    ("medusa", "head weights equal", ["medusa.decay=1.0"]),
    ("medusa", "label weights of D-PACE", ["medusa.label_weights=\"d-pace\""]),
    ("hydra", "base", []),
    ("hydra", "soft targets", ["hydra.soft_targets=true"]),
    ("block", "base", []),
    ("block", "exponential weights", ['block.slot_weights="exponential"']),
]
# Averages of the checkpoints of a run: the run, and the decay between two of its 50 checkpoints (0: none of the first half).
AVERAGES = [("base", 0.5), ("base", 0.8), ("constant rate", 0.8), ("constant rate", 0.0)]


def train(options, config, overrides, seed, steps=None):
    runs = options.work / "runs"
    shutil.rmtree(runs, ignore_errors=True)
    common = [f'model="{options.model}"', f'data="{options.data}"', f'runs="{runs}"', f"seed={seed}", "held_out=0.1",
              "training.gradient_accumulation=2", "training.micro_batch_tokens=512",
              f"training.learning_rate={options.rate}", "training.eval_every=0", "training.max_seq_len=512",
              "eval_decoded_prompts=20", "eval_decoded_tokens=128"]
    if not any(override.startswith("training.steps=") for override in overrides):
        common.append(f"training.epochs={options.epochs}")
    if options.conversations:
        common.append(f"train_conversations={options.conversations}")
    if options.own_lm_heads and "block" not in config:
        table = "hydra" if "hydra" in config else "medusa"
        if not any("soft_targets" in o for o in overrides):
            common.append(f"{table}.own_lm_heads=true")
    command = [str(options.gorgon), "train", "-q", "-c", config, *common, *overrides]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    run, = [folder for folder in runs.iterdir() if (folder / "results.json").exists()]
    results = json.loads((run / "results.json").read_text())
    top1 = results["held_out"].get("top1") or results["held_out"].get("slot_top1")
    first = top1[0] if isinstance(top1, list) else top1
    return run, {"top1": first, "tau": results["tokens_per_step"]["decoded"], "steps": results["steps"]}


def read(path):
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: (np.frombuffer(data[t["data_offsets"][0]:t["data_offsets"][1]], "<f4"), t["shape"])
            for name, t in header.items()}


def write(path, tensors):
    header, offset = {}, 0
    for name, (values, shape) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + values.nbytes]}
        offset += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(v.astype("<f4").tobytes() for v, _ in tensors.values()))


def average(checkpoints, decay, folder):
    """Writes the running mean of the checkpoints, or the plain mean of their last half."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(checkpoints[-1] / "config.json", folder)
    used = checkpoints if decay else checkpoints[len(checkpoints) // 2:]
    mean = None
    for n, checkpoint in enumerate(used):
        tensors = read(checkpoint / "model.safetensors")
        share = 1 - min(decay, (1 + n) / (10 + n)) if decay else 1 / (n + 1)
        if mean is None:
            mean = {name: (values.astype("f8"), shape) for name, (values, shape) in tensors.items()}
        else:
            mean = {name: (old + share * (tensors[name][0] - old), shape) for name, (old, shape) in mean.items()}
    write(folder / "model.safetensors", {name: (values.astype("f4"), shape) for name, (values, shape) in mean.items()})


def table(options):
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    has = lambda method, name, seed: any((r["backbone"], r["method"], r["variant"], r["seed"]) == (options.name, method, name, seed) for r in done)

    def add(method, variant, seed, row):
        with options.out.open("a") as out:
            out.write(json.dumps({"backbone": options.name, "method": method, "variant": variant, "seed": seed, **row}) + "\n")

    for seed in map(int, options.seeds.split(",")):
        for method, variant, overrides in VARIANTS:
            if method not in options.methods.split(",") or has(method, variant, seed):
                continue
            if options.variants and variant not in options.variants.split(","):
                continue
            config, own = BASES[method]
            averages = [decay for of, decay in AVERAGES if method == "medusa" and of == variant and not options.variants]
            extra = []
            if averages:
                _, row = train(options, config, [*own, *overrides], seed)
                extra = [f"training.save_every={max(1, row['steps'] // 50)}", "training.save_total_limit=100"]
            run, row = train(options, config, [*own, *overrides, *extra], seed)
            steps = sorted((run / "checkpoints").glob("step-*")) or sorted(run.glob("**/step-*"))
            kept = []
            for decay in averages:
                folder = options.work / f"average-{decay}"
                shutil.rmtree(folder, ignore_errors=True)
                average(steps, decay, folder)
                kept.append((decay, folder))
            add(method, variant, seed, row)
            for decay, folder in kept:
                name = f"{variant}, average {decay or 'of the last half'}"
                one = ["training.steps=1", "training.learning_rate=1e-30", "training.warmup=0", f'init_from="{folder}"']
                add(method, name, seed, train(options, config, [*own, *one], seed)[1])
            print(options.name, method, variant, seed, row, flush=True)


def report(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    by = {(r["backbone"], r["method"], r["variant"], r["seed"]): r for r in rows}
    keys = dict.fromkeys((r["backbone"], r["method"], r["variant"]) for r in rows)
    print("| backbone | method | changed | top-1 | gain | tokens per step | gain |\n|---|---|---|---|---|---|---|")
    for backbone, method, variant in keys:
        mine = [r for r in rows if (r["backbone"], r["method"], r["variant"]) == (backbone, method, variant)]
        cells = []
        for key in ("top1", "tau"):
            cells.append(f"{statistics.mean(r[key] for r in mine):.3f}")
            gains = [100 * (r[key] / by[backbone, method, "base", r["seed"]][key] - 1) for r in mine]
            half = STUDENT[len(gains)] * statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else math.nan
            cells.append("" if variant == "base" else f"{statistics.mean(gains):+.1f} ± {half:.1f} %")
        print(f"| {backbone} | {method} | {variant} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--report", type=Path)
    parser.add_argument("gorgon", nargs="?", type=Path)
    parser.add_argument("work", nargs="?", type=Path)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("name", nargs="?")
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--conversations", type=int)
    parser.add_argument("--epochs", type=float, default=4)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--methods", default="medusa,hydra,block")
    parser.add_argument("--rate", default="1e-3", help="learning rate of the base")
    parser.add_argument("--variants", help="only these, the base among them, parted by commas")
    parser.add_argument("--own-lm-heads", action="store_true")
    options = parser.parse_args()
    report(options.report) if options.report else table(options)


if __name__ == "__main__":
    main()
