#!/usr/bin/env bash
# Kills (at random moments and at every named point), full disks, truncated and flipped files, servers that misbehave, and
# checkpoints that forget something on purpose. Prints what was done to whom and what was lost; a loss is a failure.
#   scripts/crash_test.sh [KILLS]     KILLS random kills of each job (default 25), and of the named points every third; every
#                                     other one from 60 kills on, all from 100 on
set -euo pipefail
cd "$(dirname "$0")/.."
kills="${1:-25}"
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
status=0
GORGON_TEST_KILLS="$kills" ${CARGO:-cargo} test --release --no-fail-fast \
    --test crash --test run_dir --test kills --test faults --test full_disk --test stages --test serving -- --nocapture --test-threads=2 \
    > "$log" 2>&1 || status=$?
grep -E "^crash-test:|killed [0-9]+ times|died at [0-9]+|^test |panicked" "$log" | sed 's/^test /  /' || true
if [ "$status" -ne 0 ]; then
    tail -40 "$log"
    echo "crash-test: FAILED"
    exit 1
fi
echo "crash-test: rows lost 0, checkpoints lost 0, bits that differ 0"
