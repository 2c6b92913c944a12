#!/usr/bin/env python3
"""Counts of hostile inputs: runs the fuzz targets' test program in pieces and appends a row for each.

    python3 scripts/fuzz_count.py PROGRAM OUT.jsonl [--each 1000000] [--total 50000000] [--piece 250000]

PROGRAM is what `cargo test --release --test fuzz_smoke --no-run` built. Every target reads at least `--each` inputs;
then the fastest ones go on until there are `--total` in all. Rows that are in OUT already are not run again, so an
interrupted count is resumed. A crash ends the count with 1.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path


def targets():
    source = Path(__file__).parent.parent / "fuzz/src/targets/mod.rs"
    return re.findall(r'name: "(\w+)"', source.read_text())


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(options, commit, target, piece):
    environment = dict(os.environ, GORGON_FUZZ_ONLY=target, GORGON_FUZZ_ROUNDS=str(options.piece),
                       GORGON_FUZZ_FROM=str(1 + piece))
    started = time.monotonic()
    # A hang ends the piece: no target needs a tenth of this.
    try:
        done = subprocess.run([options.program, "--nocapture"], env=environment, capture_output=True, text=True,
                              timeout=3600)
        code, said = done.returncode, done.stderr
    except subprocess.TimeoutExpired:
        code, said = "no end within an hour", ""
    row = {"target": target, "piece": piece, "inputs": options.piece, "seconds": round(time.monotonic() - started, 1),
           "crashes": 0 if code == 0 else 1, "commit": commit}
    with options.out.open("a") as out:
        out.write(json.dumps(row) + "\n")
    if code != 0:
        sys.exit(f"{target}, piece {piece}: {code}\n{said[-2000:]}")
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("out", type=Path)
    parser.add_argument("--each", type=int, default=1_000_000)
    parser.add_argument("--total", type=int, default=50_000_000)
    parser.add_argument("--piece", type=int, default=250_000)
    parser.add_argument("--without", default="", help="targets left out, separated by commas")
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    named = [target for target in targets() if target not in options.without.split(",")]
    done = rows(options.out)
    for target in named:
        count = sum(row["inputs"] for row in done if row["target"] == target)
        while count < options.each:
            done.append(run(options, commit, target, count // options.piece))
            count += options.piece
    # Inputs of the fastest targets cost least, so several of them share the rest.
    pace = {t: sum(r["seconds"] for r in done if r["target"] == t) / sum(r["inputs"] for r in done if r["target"] == t)
            for t in named}
    fastest = sorted(named, key=pace.get)[:8]
    turn = 0
    while sum(row["inputs"] for row in done) < options.total:
        target = fastest[turn % len(fastest)]
        piece = sum(row["inputs"] for row in done if row["target"] == target) // options.piece
        done.append(run(options, commit, target, piece))
        turn += 1
    print(f"{sum(row['inputs'] for row in done)} inputs, {sum(row['crashes'] for row in done)} crashes")


if __name__ == "__main__":
    main()
