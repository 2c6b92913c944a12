#!/usr/bin/env bash
# Plain decoding beside drafts over a part of the cache, up to 32k tokens of a randomly initialised model: a table, cache
# and weight bytes of a step, and the context from which drafts begin to pay. Raw rows go to a file.
#   scripts/bench/long_context.sh [OUT.jsonl]
set -euo pipefail
out=$(realpath -m "${1:-benchmarks/long_context.jsonl}")
cargo bench --workspace --bench long_context -- --rounds 5 --out "$out"
