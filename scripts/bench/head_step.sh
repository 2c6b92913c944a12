#!/usr/bin/env bash
# The training step of Medusa heads beside PyTorch, alternating, on the shapes of a tiny, a small and a 1B backbone.
# Needs scripts/bench/.venv (python3 -m venv scripts/bench/.venv; .venv/bin/pip install -r scripts/bench/requirements.txt).
# Raw rows go to benchmarks/head_step.jsonl.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds="${1:-5}"
out="${2:-benchmarks/head_step.jsonl}"
cargo bench --workspace --bench head_step --no-run
: >"$out"
for shape in "256 4096 1024 20" "512 8192 1024 12" "2048 32000 1024 4"; do
    read -r hidden vocab positions steps <<<"$shape"
    args=(--hidden "$hidden" --vocab "$vocab" --heads 4 --positions "$positions" --steps "$steps")
    for _ in $(seq "$rounds"); do
        RAYON_NUM_THREADS=2 cargo bench --workspace --bench head_step -- "${args[@]}" 2>/dev/null | grep engine >>"$out"
        scripts/bench/.venv/bin/python scripts/bench/head_step.py "${args[@]}" --threads 2 >>"$out"
    done
done
python3 - "$out" <<'PY'
import json, statistics, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
for shape in sorted({(r["hidden"], r["vocab"]) for r in rows}):
    of = lambda name: [r for r in rows if (r["hidden"], r["vocab"]) == shape and r["engine"].startswith(name)]
    ours, theirs = of("gorgon"), of("torch")
    ratio = statistics.median(a["positions_per_second"] / b["positions_per_second"] for a, b in zip(ours, theirs))
    speed = lambda rows: statistics.median(r["positions_per_second"] for r in rows)
    peak = lambda rows: max(r["peak_bytes"] for r in rows) / 1e6
    print(f"d {shape[0]} V {shape[1]}: {speed(ours):.0f} positions/s, torch {speed(theirs):.0f}, ratio {ratio:.2f}; "
          f"peak {peak(ours):.0f} MB, torch {peak(theirs):.0f} MB")
PY
