#!/usr/bin/env python3
"""What jobs were said to take beside what they took: memory, disk and time of trainings and distillation on the model that comes along.

    python3 scripts/plan.py [OUT]      OUT: where the rows go (default benchmarks/plan.json)

It first answers the prompts of configs/distill-tiny.toml and takes the trajectories of the answers.

Every row is a run of its own, in alternating order; the plan and the measurement are the program's (results.json, report.json).
Memory is told twice: beside program and backbone, and as the peak of all that is resident. GORGON_PLAN=distill,eagle3 runs some only.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GORGON = os.environ.get("GORGON", os.path.join(ROOT, "target/release/gorgon"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
STEPS = os.environ.get("STEPS", "12")
RUN = [f"training.steps={STEPS}", "training.eval_every=4", "training.save_every=4", "training.log_every=2"]
TRAIN = ["eval_decoded_prompts=2", "eval_decoded_tokens=16", "cache_features=false"]
PRETRAIN = ["data.synthetic=3000", "data.drills=500", "data.held_out=16", "tokenizer.conversations=1500", "tokenizer.size=2048"]
JOBS = [("train", "medusa-tiny", TRAIN), ("train", "medusa2-tiny", TRAIN), ("train", "eagle-tiny", TRAIN),
        ("train", "eagle3-tiny", TRAIN), ("train", "hydra-tiny", TRAIN), ("train", "mtp-tiny", TRAIN),
        ("train", "block2-tiny", TRAIN), ("train", "kangaroo-tiny", TRAIN), ("train", "layerskip-tiny", TRAIN),
        ("train", "ppd-tiny", TRAIN), ("train", "pass-tiny", TRAIN), ("train", "space-tiny", TRAIN),
        ("train", "space-sft-tiny", TRAIN), ("train", "cllm-tiny", TRAIN),
        ("train", "distill-spec-tiny", TRAIN), ("pretrain", "pretrain-tiny", PRETRAIN), ("distill", "distill-tiny", [])]
# Tokens of a micro-batch; of distillation: conversations at a time.
SIZES, SLOTS = [int(size) for size in os.environ.get("SIZES", "768,1536").split(",")], [4, 16]
ONLY = os.environ.get("GORGON_PLAN", "").split(",")
DRAFT = ["data.synthetic=1500", "data.drills=200", "data.held_out=16", "training.steps=20"]


def call(*command):
    done = subprocess.run([GORGON, *command, "--threads", "2", "--no-progress"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr[-800:]}")


def run(verb, config, more, size, draft, data):
    with tempfile.TemporaryDirectory() as folder:
        if verb == "distill":
            call(verb, "-c", f"configs/{config}.toml", f'out="{folder}/data"', "synthetic.dialogues=600", f"batch_size={size}")
            with open(f"{folder}/data/report.json") as file:
                return {"verb": verb, "config": config, "size": size, **json.load(file)["plan"]}
        over = [f'runs="{folder}/runs"', *([f'data="{data}"'] if verb == "train" else []), f"training.micro_batch_tokens={size}"] + RUN + more
        if verb == "pretrain":
            over.append(f'out="{folder}/model"')
        if config == "distill-spec-tiny":
            over += [f'distill_spec.draft="{draft}"', "distill_spec.every=4"]
        call(*(["dev"] if verb == "pretrain" else []), verb, "-c", f"configs/{config}.toml", *over)
        with open(glob.glob(f"{folder}/runs/*/results.json")[0]) as file:
            plan = json.load(file)["plan"]
    return {"verb": verb, "config": config, "size": size, **plan}


def shown(name, pair, scale, unit):
    if not pair or not pair.get("ratio"):
        return f"{name} -"
    return f"{name} {pair['planned'] / scale:.1f} / {pair['measured'] / scale:.1f} {unit} {pair['ratio']:.2f}"


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "benchmarks/plan.json")
    rows = []
    jobs = [job for job in JOBS if ONLY == [""] or any(name in job[1] for name in ONLY)]
    with tempfile.TemporaryDirectory() as folder:
        draft, data = f"{folder}/draft", f"{folder}/data"
        call("distill", "-c", "configs/distill-tiny.toml", f'out="{data}"')
        call("dev", "trajectories", data, "--model", "checkpoints/tiny")
        if any(config == "distill-spec-tiny" for _, config, _ in jobs):
            call("dev", "pretrain", "-c", "configs/draft-tiny.toml", f'out="{draft}"', f'runs="{folder}/runs"', *DRAFT)
        for number in range(ROUNDS):
            for verb, config, more in jobs:
                sizes = SLOTS if verb == "distill" else SIZES
                for size in sizes if number % 2 == 0 else sizes[::-1]:
                    row = run(verb, config, more, size, draft, data)
                    rows.append(row)
                    seconds = row.get("fitting_seconds") or row.get("answering_seconds")
                    print(f"{config:17} {size:5} {shown('beside', row['memory_bytes'], 1e6, 'MB')}; "
                          f"{shown('resident', row.get('peak_rss_bytes'), 1e6, 'MB')}; {shown('disk', row['disk_bytes'], 1e6, 'MB')}; "
                          f"{shown('time', seconds, 1, 's')}", flush=True)
                    write(out, rows)


def write(out, rows):
    with open(out, "w") as file:
        json.dump({"command": "python3 scripts/plan.py", "steps": STEPS, "rows": rows}, file, indent=1)
        file.write("\n")


main()
