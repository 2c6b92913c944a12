#!/usr/bin/env python3
"""Compares reports of `gorgon dev suite cpu` of two binaries, round by round.

    scripts/bench/suite_ratios.py benchmarks/suite_cpu_redesign.jsonl

Each line of the file is a report's figures with `binary` ("old", "new", or "control": the old binary again) and
`round`. Prints per figure the geometric mean and the range of its ratios to the old binary of the same round, above
1 where it is better, and the geometric mean of all. Figures that are not relative to something measured in the same
run (tokens/s) are left out, and so are those that have no speed.
"""

import json
import sys
from math import exp, log

SKIPPED = ("tokens/s", "allocations", "oracle", "jump", "multiply-add peak, GFLOP/s")


def mean(values):
    return exp(sum(map(log, values)) / len(values))


def main():
    table, everything = {}, {}
    with open(sys.argv[1], encoding="utf-8") as file:
        for report in map(json.loads, file):
            for figure in report["figures"]:
                if not any(word in figure["name"] for word in SKIPPED):
                    key = figure["subject"], figure["name"]
                    table.setdefault(key, {}).setdefault(report["binary"], {})[report["round"]] = figure["value"]
    for (subject, name), values in sorted(table.items()):
        if "old" not in values:
            continue
        row = f"{subject:20}{name:52}"
        for binary in ("new", "control"):
            pairs = [(values[binary][i], old) for i, old in values["old"].items() if i in values.get(binary, {})]
            # T(n) is a time: less is better.
            ratios = [old / new if name.startswith("T(") else new / old for new, old in pairs]
            if ratios:
                everything.setdefault(binary, []).append(mean(ratios))
                row += f"{binary} {mean(ratios):.3f} [{min(ratios):.3f} {max(ratios):.3f}]  "
        print(row)
    for binary, ratios in everything.items():
        print(f"{binary}: geometric mean of {len(ratios)} figures {mean(ratios):.3f}")


if __name__ == "__main__":
    main()
