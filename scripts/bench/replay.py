#!/usr/bin/env python3
"""Drafters that read tokens alone on recorded answers, by category: tokens per step, and speed by measured step times.

    python3 scripts/bench/replay.py --gorgon target/release/gorgon --data ../shared/data --step-times MODEL \\
        --weights int8 --limit 200 --out benchmarks/replay.json

Recorded answers are those of GSM8K and ShareGPT. Quotations are from the prompts of Spec-Bench, by its categories;
those of MT-bench are one category, as in Spec-Bench. Source files of this repository are answers themselves, and with
small edits. Nothing is decoded: acceptance is counted as in greedy decoding of these texts. The script ends with 1
where `suffix` has fewer tokens per step than a prompt lookup. Only the standard library is needed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SPEC_BENCH = {"translation", "summarization", "qa", "math_reasoning", "rag"}
LOOKUPS = ("ngram:2", "ngram:3", "ngram:5")
# Source files of middling length, from every crate.
LENGTHS = range(3_000, 16_000)
FILES = 40


def quotes(data, folder):
    """Spec-Bench's prompts, with the categories of MT-bench as one."""
    path = folder / "spec_bench.jsonl"
    with (data / "spec_bench_half.jsonl").open() as lines, path.open("w") as out:
        for line in lines:
            record = json.loads(line)
            if record["category"] not in SPEC_BENCH:
                record["category"] = "multi_turn"
            out.write(json.dumps(record) + "\n")
    return path


def sources():
    """Some source files, evenly over all in the order of their names."""
    files = sorted(path for path in (ROOT / "crates").rglob("*.rs") if path.stat().st_size in LENGTHS)
    return files[:: max(1, len(files) // FILES)][:FILES]


def replayed(args, folder):
    command = [args.gorgon, "dev", "replay", "--model", args.model, "--seed", args.seed, "--limit", args.limit,
               "--max-new-tokens", args.max_new_tokens, "--json", "-q"]
    for drafter in ("none", *LOOKUPS, "suffix", *args.drafter):
        command += ["--drafter", drafter]
    for name in ("gsm8k_train.jsonl", "sharegpt_sample.json"):
        command += ["--answers", args.data / name]
    command += ["--quotes", quotes(args.data, folder)]
    for path in sources():
        command += ["--edits", path.relative_to(ROOT), "--texts", path.relative_to(ROOT)]
    if args.step_times:
        command += ["--step-times", args.step_times]
        command += ["--weights", args.weights] if args.weights else []
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def table(rows):
    """Lines by category, and the categories in which a lookup has more tokens per step than suffix drafts."""
    drafters = list(dict.fromkeys(row["drafter"] for row in rows))
    cells = {(row["drafter"], row["category"]): row for row in rows}
    lines, behind = ["category | " + " | ".join(drafters)], []
    for category in dict.fromkeys(row["category"] for row in rows):
        tokens = [cells[drafter, category]["tokens_per_step"] for drafter in drafters]
        speeds = [cells[drafter, category].get("speedup") for drafter in drafters]
        both = (f"{count:.2f}" + (f" ({speed:.2f})" if speed else "") for count, speed in zip(tokens, speeds))
        lines.append(f"{category} | " + " | ".join(both))
        best = max(cells[lookup, category]["tokens_per_step"] for lookup in LOOKUPS)
        if cells["suffix", category]["tokens_per_step"] < best:
            behind.append(category)
    return lines, behind


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gorgon", default=ROOT / "target/release/gorgon", type=Path)
    parser.add_argument("--data", required=True, type=Path, help="the folder of recorded answers and prompts")
    parser.add_argument("--model", default=ROOT / "checkpoints/tiny", type=Path, help="its tokenizer is used")
    parser.add_argument("--step-times", help="a JSON file with step_times, or a model to be measured")
    parser.add_argument("--weights", help="number format of the measured model")
    parser.add_argument("--drafter", action="append", default=[], help="more drafters")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--max-new-tokens", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    args.gorgon, args.data, args.model = args.gorgon.resolve(), args.data.resolve(), args.model.resolve()
    if args.step_times and Path(args.step_times).exists():
        args.step_times = str(Path(args.step_times).resolve())
    with tempfile.TemporaryDirectory() as folder:
        found = replayed(args, Path(folder))
    found["model"] = args.model.name
    lines, behind = table(found["rows"])
    print("tokens per step (speed over plain decoding)", *lines, sep="\n")
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")
    if behind:
        sys.exit(f"a prompt lookup has more tokens per step than suffix drafts: {', '.join(behind)}")


if __name__ == "__main__":
    main()
