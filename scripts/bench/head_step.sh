#!/usr/bin/env bash
# The training step of Medusa heads beside PyTorch, alternating, on the shapes of a tiny, a chat-8m, a small and a 1B backbone.
# PYTHON is one that has PyTorch (python3 -m venv scripts/bench/.venv; scripts/bench/.venv/bin/pip install -r scripts/bench/requirements.txt).
# "gorgon-bf16" multiplies with the frozen LM head in bf16 where the processor has such products.
# Raw rows go to benchmarks/head_step.jsonl.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds="${1:-5}"
out="${2:-benchmarks/head_step.jsonl}"
python="${PYTHON:-scripts/bench/.venv/bin/python}"
cargo bench --bench head_step --no-run
: >"$out"
for shape in "256 4096 1024 20" "320 4096 1024 20" "512 8192 1024 12" "2048 32000 1024 4"; do
    read -r hidden vocab positions steps <<<"$shape"
    args=(--hidden "$hidden" --vocab "$vocab" --heads 4 --positions "$positions" --steps "$steps")
    for _ in $(seq "$rounds"); do
        for format in "" --bf16; do
            [ -z "$format" ] || grep -qs avx512_bf16 /proc/cpuinfo || continue
            RAYON_NUM_THREADS=2 cargo bench --bench head_step -- "${args[@]}" $format 2>/dev/null | grep engine >>"$out"
        done
        "$python" scripts/bench/head_step.py "${args[@]}" --threads 2 >>"$out"
    done
done
python3 - "$out" <<'PY'
import json, statistics, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
for shape in sorted({(r["hidden"], r["vocab"]) for r in rows}):
    of = lambda name: [r for r in rows if (r["hidden"], r["vocab"]) == shape and r["engine"].split()[0] == name]
    speed = lambda rows: statistics.median(r["positions_per_second"] for r in rows)
    peak = lambda rows: max(r["peak_bytes"] for r in rows) / 1e6
    theirs = of("torch")
    for name in ("gorgon", "gorgon-bf16"):
        if ours := of(name):
            ratio = statistics.median(a["positions_per_second"] / b["positions_per_second"] for a, b in zip(ours, theirs))
            print(f"d {shape[0]} V {shape[1]}: {name} {speed(ours):.0f} positions/s, torch {speed(theirs):.0f}, ratio {ratio:.2f}; "
                  f"peak {peak(ours):.0f} MB, torch {peak(theirs):.0f} MB; loss {ours[0]['loss']:.6f}, torch {theirs[0]['loss']:.6f}")
PY
