#!/usr/bin/env bash
# Packs a release: the stripped binary, completions, man pages, README and license, with a checksum.
#   scripts/dist.sh GORGON [OUT]     writes OUT/gorgon-VERSION-TARGET.tar.gz and its .sha256
set -euo pipefail
gorgon="$1" out="${2:-target/archive}"
version="$("$gorgon" --version | cut -d' ' -f2)"
target="$(rustc -vV | sed -n 's/^host: //p')"
name="gorgon-$version-$target"
mkdir -p "$out"
stage="$(mktemp -d)"
trap 'rm -rf "$stage"' EXIT
folder="$stage/$name"
mkdir -p "$folder/completions" "$folder/man"
cp "$gorgon" "$folder/gorgon"
strip "$folder/gorgon"
size="$(wc -c <"$folder/gorgon")"
if [ "$size" -gt 45000000 ]; then
    echo "$gorgon: $size bytes stripped, at most 45000000" >&2
    exit 1
fi
cp README.md LICENSE "$folder/"
"$gorgon" completions bash >"$folder/completions/gorgon.bash"
"$gorgon" completions zsh >"$folder/completions/_gorgon"
"$gorgon" completions fish >"$folder/completions/gorgon.fish"
"$gorgon" dev man "$folder/man" -q
tar -C "$stage" --sort=name --owner=0 --group=0 --mtime="@${SOURCE_DATE_EPOCH:-0}" -czf "$out/$name.tar.gz" "$name"
(cd "$out" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
ls -l "$folder/gorgon" "$out/$name.tar.gz"
