#!/usr/bin/env python3
"""Suffix drafts beside heads, by category: do both together ever fall behind heads alone, or `auto` behind plain?

    python3 scripts/bench/categories.py --model M --heads RUN --weights int8 --data ../shared/data \\
        --out benchmarks/categories.jsonl

Two parts. Decoded: `gorgon bench` on held-out tiny-chat prompts by groups of kinds, with the heads, with suffix drafts
before them, with `auto` without heads, and with the drafters of `--also`; every run has plain decoding beside it.
Replayed: recorded texts of scripts/bench/replay.py, with heads that are simulated at the acceptance and the step times
of the heads' calibration. One row of JSON is written for each category and drafter. The script ends with 1 where suffix
drafts and heads have less than 0.98 of the speed or the tokens per step of heads alone, or `auto` less than 0.98 of
plain decoding. Only the standard library is needed.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from replay import ROOT, quotes, sources

GROUPS = {
    "arithmetic": "sum difference product sum_three word_problem sum_chain hours_later days_later",
    "sorting": "sort_ascending sort_descending sort_words extreme nth_item",
    "tables": "table_lookup table_columns table_extreme table_lookups price_list phone_list opening_hours",
    "copying": "table_reverse say_again list_edit replace_word remove_word join_words repeat_word reverse_list",
    "lists": "agenda shopping_list recipe packing",
    "stories": "story story_question story_hero story_short poem",
    "code": "code_write code_explain code_output",
    "talk": "advice what_can_you_do who_are_you how_are_you describe_animal describe_place invitation unknown",
}
BOTH = "suffix,else=auto"
LEAST = 0.98


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def prompts(count, path):
    """The first held-out dialogues of each group."""
    group = {kind: name for name, kinds in GROUPS.items() for kind in kinds.split()}
    left = dict.fromkeys(GROUPS, count)
    with (ROOT / "datasets/tiny-chat/held_out.jsonl").open() as lines, path.open("w") as out:
        for line in lines:
            record = json.loads(line)
            name = group.get(record["category"])
            if name and left[name]:
                left[name] -= 1
                out.write(json.dumps({**record, "category": name}) + "\n")


def decoded(args, folder):
    path = folder / "prompts.jsonl"
    prompts(args.prompts, path)
    drafters = [("auto", ["--drafter", "auto"])] + [(drafter, ["--drafter", drafter]) for drafter in args.also]
    if args.heads:
        drafters += [("heads", ["--heads", args.heads]), ("suffix+heads", ["--heads", args.heads, "--drafter", BOTH])]
    found = {}
    for number in range(args.passes):
        # Each pass begins with another drafter, so that none is always measured on a warmer processor.
        first = number % len(drafters)
        for name, drafts in drafters[first:] + drafters[:first]:
            command = [args.gorgon, "bench", "--model", args.model, *drafts, "--prompts", path, "--turns", 3, "--rounds",
                       args.rounds, "--limit", args.prompts * len(GROUPS), "--json", "-q"]
            document = run(command + (["--weights", args.weights] if args.weights else []))
            for category, summary in {**document["categories"], "all": document["summary"]}.items():
                found.setdefault((name, category), []).append(summary)
    for (name, category), passes in found.items():
        speeds = [summary["speedup"] for summary in passes]
        yield {"part": "decoded", "category": category, "drafter": name, **passes[0], "speedup_of_passes": speeds,
               "speedup": statistics.median(speeds)}


def replayed(args, folder):
    calibration = args.heads / "calibration.json"
    rates = ",".join(str(round(rate, 3)) for rate in json.loads(calibration.read_text())["chain"])
    heads = f"oracle:{rates}"
    names = {"none": "plain", "auto": "auto", heads: "heads", f"suffix,else={heads}": "suffix+heads",
             f"suffix,below=5,else={heads}": "suffix+heads, below=5"}
    command = [args.gorgon, "dev", "replay", "--model", args.model, "--limit", args.limit, "--json", "-q"]
    command += ["--step-times", calibration]
    for drafter in names:
        command += ["--drafter", drafter]
    for name in ("gsm8k_train.jsonl", "sharegpt_sample.json"):
        command += ["--answers", args.data / name]
    command += ["--quotes", quotes(args.data, folder)]
    for path in sources():
        command += ["--edits", path.relative_to(ROOT), "--texts", path.relative_to(ROOT)]
    for row in run(command)["rows"]:
        yield {"part": "replayed", **row, "drafter": names[row["drafter"]], "name": row["drafter"]}


def table(rows):
    """Lines by category, and what is behind."""
    cells = {(row["part"], row["category"], row["drafter"]): row for row in rows}
    behind = []
    for part in dict.fromkeys(row["part"] for row in rows):
        drafters = dict.fromkeys(row["drafter"] for row in rows if row["part"] == part)
        print(f"\n{part}: tokens per step (speed over plain decoding)\ncategory | " + " | ".join(drafters))
        for category in dict.fromkeys(row["category"] for row in rows if row["part"] == part):
            found = {name: cells[part, category, name] for name in drafters}
            value = lambda name: (found[name]["tokens_per_step"], found[name]["speedup"])
            print(f"{category} | " + " | ".join("{:.2f} ({:.2f})".format(*value(name)) for name in drafters))
            if "heads" in found:
                both, heads = value("suffix+heads"), value("heads")
                if both[0] < LEAST * heads[0] or both[1] < LEAST * heads[1]:
                    behind.append(f"{part} {category}: suffix+heads {both}, heads {heads}")
            if "auto" in found and value("auto")[1] < LEAST:
                behind.append(f"{part} {category}: auto {value('auto')}")
    return behind


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gorgon", default=ROOT / "target/release/gorgon", type=Path)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--heads", type=Path, help="calibrated heads of the model; without them, only what needs none")
    parser.add_argument("--also", action="append", default=[], help="another drafter, decoded; may be repeated")
    parser.add_argument("--weights", help="number format of the model's weights")
    parser.add_argument("--data", type=Path, help="the folder of recorded answers and prompts; without it, no replay")
    parser.add_argument("--prompts", type=int, default=6, help="decoded prompts of each group; 0: none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--passes", type=int, default=1, help="decodes with every drafter this often; takes medians")
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.data and not args.heads:
        parser.error("--data needs --heads: their acceptance is simulated on recorded texts")
    args.gorgon, args.model = args.gorgon.resolve(), args.model.resolve()
    args.heads = args.heads and args.heads.resolve()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if args.prompts:
            rows += decoded(args, Path(folder))
        if args.data:
            args.data = args.data.resolve()
            rows += replayed(args, Path(folder))
    behind = table(rows)
    if args.out:
        args.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if behind:
        sys.exit("\n".join(behind))


if __name__ == "__main__":
    main()
