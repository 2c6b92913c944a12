#!/usr/bin/env bash
# Compares the bits of a model's hidden states and logits, and of its heads' guesses, on this processor and on ARM under
# qemu, with byte dot products and without.
#   scripts/arm_bits.sh GORGON GORGON_ARM MODEL HEADS
# GORGON_ARM is built with: cargo build --release -p gorgon-cli --target aarch64-unknown-linux-gnu
set -euo pipefail
if [ $# != 4 ]; then
    echo "usage: scripts/arm_bits.sh GORGON GORGON_ARM MODEL HEADS" >&2
    exit 2
fi
here=$1 arm=$2 model=$3 heads=$4
file=$(mktemp -d)/states
failed=0
digest() {
    rm -f "$file"
    "$@" dev logits --model "$model" --heads "$heads" --ids 1,72,101,300,45,970,30,2315,16 $format --out "$file" \
        --offline -q >&2
    sha256sum "$file" | cut -c1-16
}
for format in "" "--dtype bf16" "--dtype f16" "--weights int8" "--weights int4" \
    "--weights int8 --activation-bits 16" "--weights int8 --activation-bits 32"; do
    own=$(digest "$here")
    for cpu in max cortex-a53; do
        other=$(digest qemu-aarch64-static -L /usr/aarch64-linux-gnu -cpu "$cpu" "$arm")
        echo "${format:-"--dtype f32"}: $own, $other on $cpu"
        [ "$own" = "$other" ] || failed=1
    done
done
rm -rf "$(dirname "$file")"
exit "$failed"
