#!/usr/bin/env python3
"""What jobs were said to take beside what they took: memory, disk and time of trainings on the model that comes along.

    python3 scripts/plan.py [OUT]      OUT: where the rows go (default benchmarks/plan.json)

Every row is a run of its own, in alternating order; the plan and the measurement are the program's (results.json).
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GORGON = os.environ.get("GORGON", os.path.join(ROOT, "target/release/gorgon"))
ROUNDS = int(os.environ.get("ROUNDS", "2"))
STEPS = os.environ.get("STEPS", "12")
RUN = [f"training.steps={STEPS}", "training.eval_every=0", "training.save_every=4", "training.log_every=2"]
TRAIN = ["eval_conversations=8", "eval_decoded_prompts=2", "eval_decoded_tokens=16", "cache_features=false"]
PRETRAIN = ["data.synthetic=3000", "data.drills=500", "data.held_out=16", "tokenizer.conversations=1500", "tokenizer.size=2048"]
JOBS = [("train", "medusa-tiny", TRAIN), ("train", "eagle-tiny", TRAIN), ("train", "hydra-tiny", TRAIN),
        ("train", "mtp-tiny", TRAIN), ("pretrain", "pretrain-tiny", PRETRAIN)]
SIZES = [768, 1536]


def run(verb, config, more, tokens):
    with tempfile.TemporaryDirectory() as folder:
        over = [f'runs="{folder}/runs"', f"training.batch_tokens={tokens}"] + RUN + more
        if verb == "pretrain":
            over.append(f'out="{folder}/model"')
        command = [GORGON, verb, "-c", f"configs/{config}.toml", *over, "--threads", "2", "--no-progress"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: {done.stderr[-800:]}")
        with open(glob.glob(f"{folder}/runs/*/results.json")[0]) as file:
            plan = json.load(file)["plan"]
    return {"verb": verb, "config": config, "batch_tokens": tokens, **plan}


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "benchmarks/plan.json")
    rows = []
    for number in range(ROUNDS):
        for verb, config, more in JOBS:
            for tokens in SIZES if number % 2 == 0 else SIZES[::-1]:
                row = run(verb, config, more, tokens)
                rows.append(row)
                memory, disk, seconds = row["memory_bytes"], row["disk_bytes"], row["fitting_seconds"]
                first = row["fitting_seconds_by_first_steps"] or float("nan")
                print(f"{config:14} {tokens:5} memory {memory['planned'] / 1e6:7.1f} / {memory['measured'] / 1e6:7.1f} MB "
                      f"{memory['ratio']:.2f} (by formula {row['memory_bytes_by_formula'] / 1e6:7.1f}); disk "
                      f"{disk['ratio']:.2f}; seconds {seconds['planned']:.1f}, {first:.1f} / {seconds['measured']:.1f}",
                      flush=True)
    with open(out, "w") as file:
        json.dump({"command": "python3 scripts/plan.py", "steps": STEPS, "rows": rows}, file, indent=1)
        file.write("\n")


main()
