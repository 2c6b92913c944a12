#!/usr/bin/env bash
# Self-distillation of the embedded backbone: one conversation at a time against several, plain against drafted, and against
# a static-batch loop of transformers, all taking turns. Raw rows in benchmarks/distill_throughput.jsonl.
#
# usage: scripts/bench/distill.sh [ROUNDS] [DIALOGUES]    (PYTHON=… with transformers; HEADS=… adds drafted runs; target/release/gorgon)
# MODEL=FOLDER QUESTIONS=FILE.jsonl (a key "question" in each line) take another model and its own questions.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-5} dialogues=${2:-400}
python=${PYTHON:-scripts/bench/.venv/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gorgon=${GORGON:-target/release/gorgon}
if [ -n "${QUESTIONS:-}" ]; then
  head -n "$dialogues" "$QUESTIONS" | "$python" -c 'import json, sys
for line in sys.stdin:
    print(json.dumps({"conversations": [{"from": "human", "value": json.loads(line)["question"]}]}))' > "$work/dialogues.jsonl"
else
  "$gorgon" synth --seed 2 --dialogues "$dialogues" --out "$work/dialogues.jsonl" -q
fi
"$python" scripts/bench/distill_peer.py --gorgon "$gorgon" --model "${MODEL:-checkpoints/tiny}" \
  --dialogues "$work/dialogues.jsonl" --work "$work" --rounds "$rounds" --threads 2 \
  --out "${OUT:-benchmarks/distill_throughput.jsonl}" ${HEADS:+--heads "$HEADS"} ${MORE:-}
