#!/usr/bin/env bash
# 500 GSM8K questions and the ShareGPT sample through distil, features, train and export on the model that comes along:
# once undisturbed, and once with `kill -9` in the middle of each stage. Both have to end with the same bytes.
#   scripts/crash_chain.sh [DATA [TOKENS [STEPS]]]
#     DATA: folder with gsm8k_train.jsonl and sharegpt_sample.json (default ../shared/data)
#     TOKENS: new tokens of an answer at most (default 48; 256 is what configs/distill-tiny.toml has)
#     STEPS: steps of the training (default 60)
set -euo pipefail
cd "$(dirname "$0")/.."
data="${1:-../shared/data}"
tokens="${2:-48}" steps="${3:-60}"
[ "$tokens" -ge 1 ] && [ "$steps" -ge 20 ] || { echo "TOKENS has to be at least 1 and STEPS at least 20"; exit 2; }
gorgon="${GORGON:-$PWD/target/release/gorgon}"
[ -x "$gorgon" ] || { echo "build it first: make build"; exit 2; }
[ -f "$data/gsm8k_train.jsonl" ] && [ -f "$data/sharegpt_sample.json" ] || { echo "$data: no prompts are here"; exit 2; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
head -500 "$data/gsm8k_train.jsonl" > "$work/gsm8k.jsonl"
cp "$data/sharegpt_sample.json" "$work/sharegpt.json"
model="$PWD/checkpoints/tiny"

configs() { # folder
    mkdir -p "$1"
    cat > "$1/distill.toml" <<TOML
model = "$model"
out = "$1/data"
prompts = ["$work/gsm8k.jsonl", "$work/sharegpt.json"]
max_tokens = 512
batch_size = 16
[sampling]
temperature = 0.7
max_new_tokens = $tokens
seed = 3
TOML
    cat > "$1/train.toml" <<TOML
method = "medusa"
model = "$model"
data = "$1/data"
runs = "$1/runs"
features = "$1/features"
feature_format = "int8"
held_out = 0.05
seed = 1
[medusa]
heads = 4
[training]
steps = $steps
gradient_accumulation = 2
micro_batch_tokens = 1024
max_seq_len = 512
learning_rate = 2e-3
log_every = 1
eval_every = $((steps / 3))
save_every = $((steps / 6))
TOML
}

say() { echo "crash-chain: $*"; }

kills=0
# Starts a command, kills it when a condition holds, and says when that was.
kill_when() { # what condition command...
    local what="$1" condition="$2"
    shift 2
    "$@" > "$work/out" 2>&1 &
    local pid=$!
    while kill -0 "$pid" 2> /dev/null && ! eval "$condition" > /dev/null 2>&1; do sleep 0.01; done
    if kill -9 "$pid" 2> /dev/null; then
        kills=$((kills + 1))
        say "killed $what when: ${condition//$work\//}"
    else
        say "$what ended before: ${condition//$work\//}"
        return 1
    fi
    wait "$pid" 2> /dev/null || true
}

run() { "$gorgon" -q "$@"; }
lines() { [ -f "$1" ] && wc -l < "$1" || echo 0; }
whole="$work/whole" broken="$work/broken"
configs "$whole"
configs "$broken"

started=$SECONDS
say "answers of at most $tokens tokens, $steps steps"
run distill -c "$whole/distill.toml"
run features -c "$whole/train.toml"
run train -c "$whole/train.toml" > "$work/heads.txt"
run export "$whole"/runs/medusa-tiny-1 --to medusa-v2 "$whole/export"
say "undisturbed: $((SECONDS - started)) s, $(grep -c . "$whole/data/answers.jsonl") lines in the journal"

d="$broken/data/answers.jsonl"
export -f lines
kill_when "distil" "[ \$(lines $d) -ge 400 ]" "$gorgon" distill -c "$broken/distill.toml"
say "  journal has $(lines "$d") lines"
run distill -c "$broken/distill.toml"
kill_when "features" "ls -A $broken/features/.gorgon-*.tmp" "$gorgon" features -c "$broken/train.toml"
run features -c "$broken/train.toml"
m="$broken/runs/medusa-tiny-1/metrics.jsonl"
kill_when "train" "[ \$(lines $m) -ge $((steps * 47 / 60)) ]" "$gorgon" train -c "$broken/train.toml"
say "  checkpoints: $(ls -d "$broken"/runs/medusa-tiny-1/step-* | xargs -n1 basename | tr '\n' ' ')"
run train -c "$broken/train.toml" --resume "$broken/runs/medusa-tiny-1" > /dev/null
if GORGON_CRASH_AT=before-rename:2 run export "$broken/runs/medusa-tiny-1" --to medusa-v2 "$broken/export" 2> /dev/null; then
    say "export did not die"
    exit 1
fi
kills=$((kills + 1))
[ ! -e "$broken/export" ] || { say "half an export is there"; exit 1; }
say "killed export at a named point; nothing of it is there"
run export "$broken/runs/medusa-tiny-1" --to medusa-v2 "$broken/export"

same=0
compare() { # file
    # The folders' names are in the shards' metadata of neither, and in no weights.
    if cmp -s "$whole/$1" "$broken/$1"; then
        same=$((same + 1))
        say "same: $1 ($(sha256sum < "$whole/$1" | cut -c1-16))"
    else
        say "DIFFERENT: $1"
        exit 1
    fi
}
for file in $(cd "$whole" && ls data/shard-*.parquet data/shards.json features/features-*.safetensors features/index.json \
    runs/medusa-tiny-1/step-$(printf %06d "$steps")/*.safetensors runs/medusa-tiny-1/heads/model.safetensors runs/medusa-tiny-1/best \
    export/*.safetensors); do
    compare "$file"
done
grep '"parity"' "$broken/runs/medusa-tiny-1/metrics.jsonl" | sed 's/^/crash-chain: /'
say "$kills kills, $same files compared, rows lost 0, bytes that differ 0"
