#!/usr/bin/env bash
# Every fuzz target under cargo-fuzz for some seconds, from the seeds that the smoke test writes and those in fuzz/seeds.
# A crash is a failure.
#   scripts/fuzz.sh [SECONDS [TARGET...]]     default 30 seconds for each of all targets
# Needs cargo-fuzz (cargo install cargo-fuzz). RUSTC_BOOTSTRAP lets a stable compiler take the flags that it sets.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-30}"
shift || true
command -v cargo-fuzz > /dev/null || { echo "cargo-fuzz is not there: cargo install cargo-fuzz"; exit 2; }
[ -d fuzz/corpus ] || GORGON_FUZZ_SEEDS="$PWD/fuzz/corpus" cargo test --release --test fuzz_smoke > /dev/null
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || mapfile -t targets < <(cargo fuzz list)
export RUSTC_BOOTSTRAP=1
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
for target in "${targets[@]}"; do
    mkdir -p "fuzz/corpus/$target" "fuzz/seeds/$target"
    # New inputs go into the first folder; the second is only read.
    if ! cargo fuzz run --sanitizer none "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- -max_total_time="$seconds" -timeout=10 > "$log" 2>&1; then
        tail -30 "$log"
        echo "fuzz: $target FAILED"
        exit 1
    fi
    echo "fuzz: $target: $(grep -E '^Done [0-9]+ runs' "$log"), crashes 0"
done
