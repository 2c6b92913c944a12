#!/usr/bin/env bash
# Recorded steps on a GPU beside transformers, eager and compiled, EAGLE's steps, and the training of Medusa heads beside PyTorch,
# on random weights of Vicuna-7B and Llama-3-8B shape.
# Needs the built binary, a Python with PyTorch and transformers, and a CUDA device:
#   make gpu && scripts/bench/gpu.sh
# PYTHON, GORGON, DEVICE, SHAPES, ROUNDS, CONTEXT and TOKENS change what is run; to try the script without a CUDA device:
#   DEVICE=wgpu SHAPES=tiny ROUNDS=1 CONTEXT=32 TOKENS=6 scripts/bench/gpu.sh OUT_FOLDER
# The engines take turns, each with the device to itself. Figures and raw rows go to benchmarks/gpu_SHAPE.json, which the peers' are
# added to, and gpu_peer_SHAPE.jsonl.
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
training_peer() {
    "$python" scripts/bench/head_step.py --shape "$1" --rounds "$2"
    "$python" scripts/bench/head_step.py --shape "$1" --rounds "$2" --backbone
}
for shape in ${SHAPES:-vicuna-7b llama-3-8b}; do
    rows="$out/gpu_peer_$shape.jsonl"
    : >"$rows"
    # The peers before and after, so that a device that grows warm shows.
    for mode in eager compiled; do peer "$shape" "$rounds" "$mode" >>"$rows"; done
    training_peer "$shape" "$rounds" >>"$rows"
    "$gorgon" bench --suite gpu --shape "$shape" --device "$device" --rounds "$rounds" --context "$context" \
        --tokens "$tokens" --out "$out/gpu_$shape.json" || failed=1
    training_peer "$shape" "$rounds" >>"$rows"
    for mode in compiled eager; do peer "$shape" "$rounds" "$mode" >>"$rows"; done
    "$python" scripts/bench/gpu_summary.py "$rows" "$out/gpu_$shape.json" || failed=1
done
exit "$failed"
