#!/usr/bin/env bash
# Recorded steps on a GPU beside transformers, eager and compiled, random weights of Vicuna-7B and Llama-3-8B shape.
# Needs the built binary, a Python with PyTorch and transformers, and a CUDA device:
#   make gpu && scripts/bench/gpu.sh
# PYTHON, GORGON, DEVICE, SHAPES, ROUNDS, CONTEXT and TOKENS change what is run; to try the script without a CUDA device:
#   DEVICE=wgpu SHAPES=tiny ROUNDS=1 CONTEXT=32 TOKENS=6 scripts/bench/gpu.sh OUT_FOLDER
# The engines take turns, each with the device to itself. Raw rows go to benchmarks/gpu_SHAPE.json and gpu_peer_SHAPE.jsonl.
set -euo pipefail
cd "$(dirname "$0")/../.."
out="${1:-benchmarks}"
python="${PYTHON:-python3}"
gorgon="${GORGON:-target/gpu/release/gorgon}"
device="${DEVICE:-cuda}"
rounds="${ROUNDS:-5}"
context="${CONTEXT:-512}"
tokens="${TOKENS:-128}"
[ -x "$gorgon" ] || { echo "gpu.sh: $gorgon: not found (make gpu)" >&2; exit 2; }
mkdir -p "$out"
failed=0
peer() {
    for _ in $(seq "$2"); do echo; done |
        "$python" scripts/bench/gpu_peer.py "$1" "$context" "$tokens" "$3" | grep tokens_per_second
}
for shape in ${SHAPES:-vicuna-7b llama-3-8b}; do
    rows="$out/gpu_peer_$shape.jsonl"
    : >"$rows"
    # The peer before and after, so that a device that grows warm shows.
    for mode in eager compiled; do peer "$shape" "$rounds" "$mode" >>"$rows"; done
    "$gorgon" bench --suite gpu --shape "$shape" --device "$device" --rounds "$rounds" --context "$context" \
        --tokens "$tokens" --out "$out/gpu_$shape.json" || failed=1
    for mode in compiled eager; do peer "$shape" "$rounds" "$mode" >>"$rows"; done
    "$python" - "$rows" "$out/gpu_$shape.json" <<'PY'
import json, statistics, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
figures = json.load(open(sys.argv[2]))["figures"]
ours = next(f["value"] for f in figures if f["name"].startswith("plain decoding"))
for engine in sorted({row["engine"] for row in rows}):
    speed = statistics.median(row["tokens_per_second"] for row in rows if row["engine"] == engine)
    print(f"{engine}: {speed:.1f} tokens/s; gorgon {ours:.1f}, ratio {ours / speed:.2f}")
PY
done
exit "$failed"
