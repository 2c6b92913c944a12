"""Puts what other programs reached beside gorgon's figures, into the same report: gpu_summary.py PEER_ROWS REPORT.

Exit 1 if a ratio misses what it should be.
"""
import json, statistics, sys

rows = [json.loads(line) for line in open(sys.argv[1])]
report = json.load(open(sys.argv[2]))
known = report["shape"] != "tiny"
ours = lambda start: next(f["value"] for f in report["figures"] if f["name"].startswith(start))
missed = False


def compare(name, of, value, target=None):
    """The ratio of the medians, and of the median to the peer's fastest and slowest round."""
    global missed
    speeds = [row["tokens_per_second"] for row in of]
    ratio, limits = value / statistics.median(speeds), [value / max(speeds), value / min(speeds)]
    reached = target is None or ratio >= target
    missed = missed or not reached
    verdict = "" if target is None else f", at least {target}: {'reached' if reached else 'missed'}"
    print(f"{name}: {statistics.median(speeds):.1f} tokens/s; gorgon {value:.1f}, ratio {ratio:.2f}{verdict}")
    report["figures"].append({"name": f"over {name}", "subject": report["shape"], "value": ratio, "range": limits,
                              "target": None if target is None else [target, True]})


decoding = [row for row in rows if row.get("what") != "training"]
for engine in sorted({row["engine"] for row in decoding}):
    compare(engine, [row for row in decoding if row["engine"] == engine], ours("plain decoding"))
for states in ("states kept", "with the backbone"):
    if of := [row for row in rows if row.get("states") == states]:
        compare(f"torch training ({states})", of, ours(f"Medusa-1 training ({states})"), 1.3 if known else None)
report["peers"] = rows
json.dump(report, open(sys.argv[2], "w"), indent=1)
sys.exit(1 if missed else 0)
