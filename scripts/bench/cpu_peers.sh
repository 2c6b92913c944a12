#!/usr/bin/env bash
# Gorgon beside transformers and llama.cpp on this CPU: the same random weights, in one run, taking turns. One table with plain
# decoding and prefill in f32, f16, 8 and 4 bits, passes of 8 and 16 tokens, and Medusa with an oracle's rates.
# The first run installs PyTorch, transformers and gguf from PyPI and node-llama-cpp from npm below target/peers.
#
# usage: scripts/bench/cpu_peers.sh [ROUNDS] [OPTION...]    (OPTION of `gorgon dev suite cpu`: --large adds 1.1B parameters)
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-3}
shift || true
peers=$PWD/target/peers
gorgon=${GORGON:-target/release/gorgon}
if [ ! -x "$peers/venv/bin/python" ]; then
  mkdir -p "$peers"
  python3 -m venv "$peers/venv"
  "$peers/venv/bin/pip" install -q -r scripts/bench/requirements.txt
fi
if [ ! -d "$peers/node_modules/node-llama-cpp" ]; then
  # Its own prebuilt program is used; nothing is compiled.
  npm install --silent --ignore-scripts --prefix "$peers" node-llama-cpp@3.22.1
fi
"$gorgon" dev suite cpu --python "$peers/venv/bin/python" --llama-cpp "$peers" --rounds "$rounds" \
  --out "${OUT:-benchmarks/suite_cpu_integers.json}" "$@"
