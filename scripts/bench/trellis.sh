#!/usr/bin/env bash
# Tokens per step of trellis trees beside dynamic and Sequoia trees of the same size: one JSON row per tree, on stdout.
#   scripts/bench/trellis.sh MODEL HEADS CALIBRATION_PROMPTS PROMPTS [TREE...]
# HEADS are calibrated with the first prompts and measured on the others, greedily, 128 new tokens each.
set -euo pipefail
gorgon=${GORGON:-target/release/gorgon}
model=$1 heads=$2 calibration=$3 prompts=$4
shift 4
trees=("$@")
if [ ${#trees[@]} = 0 ]; then
  trees=(dynamic:16,5,10 dynamic:16,8,10 sequoia:16 trellis:16 dynamic:60,5,10 dynamic:60,8,10 trellis:60)
fi
"$gorgon" tree calibrate --model "$model" --heads "$heads" --prompts "$calibration" --rounds 1 --max-new-tokens 128 -q >&2
for tree in "${trees[@]}"; do
  "$gorgon" bench --model "$model" --heads "$heads" --prompts "$prompts" --tree "$tree" --rounds 1 --max-new-tokens 128 --json -q |
    python3 -c 'import json, sys
found = json.load(sys.stdin)["summary"]
print(json.dumps({"model": sys.argv[1], "heads": sys.argv[2], "tree": sys.argv[3], "tokens_per_step": found["tokens_per_step"]}))' \
      "$(basename "$model")" "$(basename "$heads")" "$tree"
done
