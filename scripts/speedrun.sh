#!/usr/bin/env bash
# The main job on a real model: its answers to prompts, Medusa heads fitted to them, a tree calibrated on this machine,
# speed and losslessness measured.
#
#   scripts/speedrun.sh Qwen/Qwen3-8B [PROMPTS] [FOLDER]
#
# MODEL     a hub id or a folder. Configs for Llama-3.1-8B, Qwen3-8B, Llama-3.2-1B,
#           TinyLlama-1.1B and Qwen2.5-0.5B (and models of their size) are in configs/recipes/.
# PROMPTS   a file in any format that `gorgon distill` reads (ShareGPT, messages, Spec-Bench, lines); without one, 20,000
#           dialogues of the synthetic corpus, which show that everything works but are no measure of chat.
#           Trees are calibrated and speeds measured on other prompts: a file named by HELD_OUT, else held-out dialogues
#           of the synthetic corpus.
# FOLDER    where data and heads go [default: checkpoints/speedrun-NAME].
#
# GORGON    the binary [default: target/gpu/release/gorgon, else target/release/gorgon]
# Killed at any moment, the same command goes on where it stopped.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -lt 1 ]; then sed -n '2,19s/^# \{0,1\}//p' "$0"; exit 2; fi
model=$1
prompts=${2:-}
name=$(basename "$model" | tr '[:upper:]' '[:lower:]')
folder=${3:-checkpoints/speedrun-$name}
gorgon=${GORGON:-}
if [ -z "$gorgon" ]; then
    gorgon=target/gpu/release/gorgon
    [ -x "$gorgon" ] || gorgon=target/release/gorgon
fi
[ -x "$gorgon" ] || { echo "no binary at $gorgon: make gpu, or make build" >&2; exit 2; }

case $name in
    *qwen3-8b*) config=qwen3-8b ;;
    *vicuna*|*7b*|*8b*) config=llama-3.1-8b ;;
    *tinyllama*) config=tinyllama-1.1b ;;
    *llama-3.2-1b*|*1b*|*1.1b*) config=llama-3.2-1b ;;
    *) config=qwen2.5-0.5b ;;
esac
echo "model $model, configs/recipes/$config, data and heads in $folder" >&2
mkdir -p "$folder"

if [ -n "$prompts" ]; then
    source=("prompts=[\"$prompts\"]")
else
    source=("prompts=[]" "synthetic.dialogues=20000" "synthetic.seed=1")
fi
held=${HELD_OUT:-$folder/held-out.jsonl}
[ -s "$held" ] || "$gorgon" synth --held-out --dialogues 160 --out "$held"

"$gorgon" distill -c "configs/recipes/$config/distill.toml" "model=$model" "out=$folder/data" "${source[@]}"

run=$(ls -d "$folder"/medusa-*-* 2>/dev/null | sort -V | tail -1 || true)
if [ -n "$run" ] && [ ! -d "$run/heads" ]; then
    "$gorgon" train --resume "$run"
elif [ -z "$run" ]; then
    "$gorgon" train -c "configs/recipes/$config/medusa.toml" "model=$model" "data=$folder/data" "runs=$folder"
fi
run=$(ls -d "$folder"/medusa-*-* | sort -V | tail -1)

"$gorgon" tree calibrate --model "$model" --heads "$run" --prompts "$held" --limit 40
"$gorgon" plan --heads "$run"
# Where no tree pays, what heads would cost is shown with a short chain.
tree=calibrated
if "$gorgon" tree show --heads "$run" --json | grep -q '"nodes":1,'; then tree=chain:3; fi
"$gorgon" bench --model "$model" --heads "$run" --tree "$tree" --prompts "$held" --limit 80 --out "$folder/bench.json"
"$gorgon" bench --model "$model" --drafter ngram:3 --prompts "$held" --limit 80 --out "$folder/prompt-lookup.json"
"$gorgon" verify --model "$model" --heads "$run" --tree "$tree" --prompts "$held" --limit 80
[ -d "$folder/vllm-medusa" ] || "$gorgon" export "$run" --to vllm-medusa "$folder/vllm-medusa" --model "$model"
echo "talk with it: $gorgon chat --model $model --heads $run"
