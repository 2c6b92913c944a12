#!/usr/bin/env bash
# The official openai clients of Python and, where there is npm, of Node against gorgon serve.
#
#     scripts/serve_clients/run.sh GORGON [WORK]
#
# Both clients are installed into WORK (default target/serve_clients) and need the network for that once. PYTHON names
# a Python that has the client already.
set -euo pipefail
gorgon=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=${2:-target/serve_clients}
mkdir -p "$work"
python=${PYTHON:-$work/venv/bin/python}
if [ ! -x "$(command -v "$python")" ]; then
    python3 -m venv "$work/venv"
    "$python" -m pip install --quiet openai
fi
log=$work/serve.log
: > "$log"
GORGON_API_KEY=clients-key "$gorgon" serve --model checkpoints/tiny --drafter ngram:2 --port 0 2> "$log" &
server=$!
trap 'kill "$server" 2> /dev/null || true' EXIT
url=""
while [ -z "$url" ]; do
    kill -0 "$server" 2> /dev/null || { cat "$log"; exit 1; }
    url=$(sed -n 's/.* is served at \(http:[^ ]*\).*/\1/p' "$log")
    sleep 0.1
done
"$python" "$here/client.py" "$url"
if command -v npm > /dev/null; then
    cp "$here/client.mjs" "$work/"
    [ -d "$work/node_modules/openai" ] || npm install --silent --no-fund --no-audit --prefix "$work" openai
    node "$work/client.mjs" "$url"
else
    echo "openai (Node): skipped, there is no npm"
fi
kill -TERM "$server"
trap - EXIT
wait "$server" || { echo "error: the server ended with $?"; exit 1; }
echo "the server ended with 0"
