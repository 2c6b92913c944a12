"""A readable account of gpu_first.sh's rows: gpu_summary.py ROWS. Figures beside their targets, failures, and peers beside gorgon."""
import json, statistics, sys

rows = []
for line in open(sys.argv[1], errors="replace"):
    try:
        rows.append(json.loads(line))
    except ValueError:
        print("not a row:", line[:200].rstrip())
suites = [row["result"] for row in rows if "figures" in row.get("result", ())]
for row in rows:
    result = row.get("result", {})
    if row.get("skipped") or row.get("error"):
        print(f"{row['step']} {row['name']}: {row.get('skipped') or row.get('error')}")
    elif row.get("timed_out"):
        print(f"{row['step']} {row['name']}: stopped after {row['seconds']} s")
    elif row.get("rc", 0) not in (0, 1) or row.get("rc") == 1 and not any(
        other["name"] == row["name"] and "figures" in other.get("result", ()) for other in rows
    ):
        print(f"{row['step']} {row['name']}: failed with {row['rc']} after {row['seconds']} s")
    elif row.get("line", "").startswith("test ") and (not row["line"].endswith("... ok") or "result" in row["line"]):
        print(f"{row['step']} {row['name']}: {row['line']}")
    elif "cpus_text" in row:
        print(f"{row['step']} {row['name']}: {'the' if row['cpus_text'] else 'NOT the'} text of the CPU in f32")
    elif "recorded_text" in row:
        print(f"{row['step']} {row['name']}: {'the' if row['recorded_text'] else 'NOT the'} text of recorded steps")
    elif "tokens_per_second" in result and "ids" in result:
        print(f"{row['step']} {row['name']}: {result['tokens_per_second']:.1f} tokens/s, recorded {result.get('recorded')}")
    elif "what" in result and "gb_per_s" in result:
        of = f" {result['matrix']}, {result['rows']} rows: {result['microseconds']:.1f} us," if "matrix" in result else ""
        print(f"{row['step']} torch {result['what']}{of} {result['gb_per_s']:.0f} GB/s")
for suite in suites:
    print(f"\n{suite['shape']} {suite['dtype']} on {suite['device']}, {suite['rounds']} rounds of {suite['tokens']} tokens after {suite['context']}")
    for figure in suite["figures"]:
        target, verdict = figure["target"], ""
        if target:
            reached = figure["value"] >= target[0] if target[1] else figure["value"] <= target[0]
            verdict = f"  {'at least' if target[1] else 'at most'} {target[0]}: {'reached' if reached else 'missed'}"
        low, high = figure["range"]
        print(f"  {figure['name']}: {figure['value']:.4g} ({low:.4g} to {high:.4g}){verdict}")


def compare(name, speeds, start):
    """The ratio of gorgon's median to a peer's."""
    if not suites or not speeds:
        return
    found = (figure for suite in reversed(suites) for figure in suite["figures"])
    ours = next((figure["value"] for figure in found if figure["name"].startswith(start)), None)
    if ours is not None:
        theirs = statistics.median(speeds)
        print(f"  over {name}: {ours / theirs:.2f} ({ours:.1f} and {theirs:.1f} tokens/s)")


peers = [row["result"] for row in rows if row["step"] == 9 and "tokens_per_second" in row.get("result", ())]
speeds_of = lambda key, value: [peer["tokens_per_second"] for peer in peers if peer.get(key) == value]
if peers and suites:
    print("\ngorgon over PyTorch")
for engine in sorted({peer["engine"] for peer in peers if peer.get("what") != "training"}):
    compare(engine, speeds_of("engine", engine), "plain decoding")
for states in ("states kept", "with the backbone"):
    compare(f"torch training ({states})", speeds_of("states", states), f"Medusa-1 training ({states})")
