#!/usr/bin/env bash
# Seeds for the fuzz targets: fuzzes each for some seconds and keeps in fuzz/seeds/TARGET inputs of all sizes that reach
# code which the valid files of the smoke test do not.
#   scripts/fuzz_keep.sh [SECONDS [TARGET...]]     default 20 seconds for each of all targets
# KEEP files of at most BYTES bytes are kept for each target (default 16 and 2,048). Needs cargo-fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-20}"
shift || true
keep="${KEEP:-16}" bytes="${BYTES:-2048}"
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || mapfile -t targets < <(cargo fuzz list)
scripts/fuzz.sh "$seconds" "${targets[@]}"
valid="$(mktemp -d)"
trap 'rm -rf "$valid"' EXIT
GORGON_FUZZ_SEEDS="$valid" cargo test --release -p gorgon-cli --test fuzz_smoke > /dev/null
for target in "${targets[@]}"; do
    program="$(find fuzz/target -path "*/release/$target" -type f | head -1)"
    # Inputs that add coverage are copied into the first folder, beside those that are there already.
    known="$(find "$valid/$target" -type f -printf '%f\n' | sort)"
    "$program" -merge=1 "$valid/$target" "fuzz/corpus/$target" "fuzz/seeds/$target" > /dev/null 2>&1
    rm -rf "fuzz/seeds/$target" && mkdir -p "fuzz/seeds/$target"
    find "$valid/$target" -type f -size "-$((bytes + 1))c" -printf '%s %f\n' | sort -n | cut -d' ' -f2- |
        grep -vxF "$known" |
        awk -v keep="$keep" '{ name[NR] = $0 } END { n = NR < keep ? NR : keep
            for (i = 0; i < n; i++) print name[n < 2 ? 1 : 1 + int(i * (NR - 1) / (n - 1))] }' |
        while read -r name; do cp "$valid/$target/$name" "fuzz/seeds/$target/"; done || true
    echo "seeds: $target: $(find "fuzz/seeds/$target" -type f | wc -l)"
done
