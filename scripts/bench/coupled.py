#!/usr/bin/env python3
"""Coupled sampling on checkpoints/tiny: whether drafted text is plain text, and what each lossless rule accepts.

    python3 scripts/bench/coupled.py --gorgon target/release/gorgon --work FOLDER --out benchmarks/coupled.jsonl

Heads and a draft model are trained for a few minutes if FOLDER does not have them. Rows of kind "equality" count texts
that differ from plain decoding's; rows of kind "rule" are tokens per step. Only the standard library is needed.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL, PROMPTS = ROOT / "checkpoints/tiny", ROOT / "datasets/tiny-chat/held_out.jsonl"
METHODS = ("medusa", "eagle3", "mtp", "block2")
TEMPERATURES = (0.3, 0.7, 1.0, 1.3)
TREES = ("chain:3", "dynamic:16,4,5", "trellis:16")
RULES = ("coupled", "sampling", "block", "traversal")


def run(gorgon, *args, status=(0,)):
    done = subprocess.run([gorgon, *map(str, args)], capture_output=True, text=True, cwd=ROOT)
    if done.returncode not in status:
        sys.exit(f"{' '.join(map(str, args))}: {done.stdout}{done.stderr}")
    return done.stdout


def trained(runs):
    return sorted(runs.iterdir())[-1] if runs.is_dir() else None


def prepare(args):
    """Drafters by name, as options."""
    work, data = args.work, args.work / "data"
    if args.heads:
        pairs = (pair.split("=", 1) for pair in args.heads)
        return {name: ["--heads", folder] for name, folder in pairs} | {"ngram": ["--drafter", "ngram:3"]}, {}
    run(args.gorgon, "distill", "-c", "configs/distill-tiny.toml", f'out="{data}"', f"synthetic.dialogues={args.dialogues}")
    drafters = {}
    for method in METHODS:
        runs = work / method
        if not trained(runs):
            run(args.gorgon, "train", "-c", f"configs/{method}-tiny.toml", f'data="{data}"', f'runs="{runs}"',
                f"training.steps={args.steps}", f"training.eval_every={args.steps}")
        drafters[method] = ["--heads", trained(runs)]
    draft = work / "draft"
    if not (draft / "config.json").is_file():
        run(args.gorgon, "dev", "pretrain", "-c", "configs/draft-tiny.toml", f'out="{draft}"', f'runs="{work}/draft-runs"',
            f"training.steps={args.draft_steps}", f"training.eval_every={args.draft_steps}")
    return drafters | {"ngram": ["--drafter", "ngram:3"]}, {"model": ["--drafter", f"model:{draft}"]}


def measured(args, verb, drafter, tree, temperature, limit, *more):
    return json.loads(run(
        args.gorgon, verb, "--model", MODEL, "--prompts", PROMPTS, *drafter, "--tree", tree, "--temperature", temperature,
        "--limit", limit, "--max-new-tokens", args.tokens, "--json", "-q", *more, status=(0, 1)))


def equality(args, drafters):
    for name, drafter in drafters.items():
        for tree in TREES:
            for temperature in TEMPERATURES:
                found = measured(args, "verify", drafter, tree, temperature, args.answers)
                yield {"kind": "equality", "drafter": name, "tree": tree, "temperature": temperature,
                       "answers": found["prompts"], "tokens": found["tokens"],
                       "accepted_drafts": found["accepted_drafts"], "diverged": found["diverged"]}


def rules(args, drafters):
    # Three, two and one children by level: 1 + 3 + 6 + 6 nodes.
    fixed = str(args.work / "three-two-one.json")
    paths = [[a] for a in range(3)] + [[a, b] for a in range(3) for b in range(2)]
    paths += [path + [0] for path in paths if len(path) == 2]
    Path(fixed).write_text(json.dumps(paths))
    for name, drafter in drafters.items():
        # On lists, which heads give, block and traversal accept as often as sampling.
        for tree in ("chain:4", fixed, "trellis:16"):
            for temperature in TEMPERATURES:
                for rule in RULES if name == "model" else RULES[:2]:
                    found = measured(args, "bench", drafter, tree, temperature, args.limit, "--accept", rule, "--rounds", 1)
                    summary = found["summary"]
                    yield {"kind": "rule", "drafter": name, "tree": Path(tree).stem, "temperature": temperature, "rule": rule,
                           "prompts": args.limit, "tokens_per_step": summary["tokens_per_step"],
                           "nodes_per_step": summary["nodes_per_step"], "same_text": summary["same_text"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gorgon", default=ROOT / "target/release/gorgon", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dialogues", type=int, default=1500)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--draft-steps", type=int, default=400)
    parser.add_argument("--answers", type=int, default=21, help="for each drafter, tree and temperature")
    parser.add_argument("--limit", type=int, default=20, help="prompts of the table of rules")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--heads", action="append", metavar="NAME=DIR", help="these heads; nothing is trained then")
    parser.add_argument("--kinds", nargs="+", default=["equality", "rule"], choices=["equality", "rule"])
    parser.add_argument("--append", action="store_true", help="add rows to the file")
    args = parser.parse_args()
    args.gorgon, args.work = args.gorgon.resolve(), args.work.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    heads, model = prepare(args)
    kinds = {"equality": lambda: equality(args, heads), "rule": lambda: rules(args, model | heads)}
    with args.out.open("a" if args.append else "w") as out:
        for rows in (kinds[kind]() for kind in args.kinds):
            for row in rows:
                out.write(json.dumps(row) + "\n")
                out.flush()


if __name__ == "__main__":
    main()
