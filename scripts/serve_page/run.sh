#!/usr/bin/env bash
# The page of gorgon serve in headless Chromium; two screenshots.
#
#     scripts/serve_page/run.sh GORGON [PICTURES] [-- OPTIONS OF gorgon serve]
#
# playwright-core is installed into target/serve_page, which needs the network once. CHROMIUM names the browser
# (default: chromium in PATH), MODEL the model (default: checkpoints/tiny).
set -euo pipefail
gorgon=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
pictures=$(realpath "${2:-target/serve_page}" 2> /dev/null || echo "$2")
shift $(($# < 2 ? $# : 2))
[ "${1:-}" = "--" ] && shift
options=("$@")
[ ${#options[@]} -gt 0 ] || options=(--drafter suffix)
work=target/serve_page
mkdir -p "$work" "$pictures"
chromium=$(command -v "${CHROMIUM:-chromium}") || { echo "error: no Chromium; CHROMIUM=PATH names one"; exit 1; }
command -v npm > /dev/null || { echo "error: no npm"; exit 1; }
[ -d "$work/node_modules/playwright-core" ] || npm install --silent --no-fund --no-audit --prefix "$work" playwright-core
log=$work/serve.log
: > "$log"
"$gorgon" serve --model "${MODEL:-checkpoints/tiny}" --port 0 "${options[@]}" 2> "$log" &
server=$!
trap 'kill "$server" 2> /dev/null || true' EXIT
url=""
while [ -z "$url" ]; do
    kill -0 "$server" 2> /dev/null || { cat "$log"; exit 1; }
    url=$(sed -n 's/.* is served at \(http:[^ ]*\).*/\1/p' "$log")
    sleep 0.1
done
cp "$here/page.mjs" "$work/"
node "$work/page.mjs" "$url" "$pictures" "$chromium"
