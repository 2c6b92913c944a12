#!/usr/bin/env bash
# Packs what scripts/bench/gpu_first.sh brings to a machine with a GPU and no network: target/carry/gpu_first.tar.xz with a binary with
# CUDA alone, the tests of kernels, and the CUDA headers that PyTorch's packages lack. `make gpu-first` runs this.
# CARGO, GPU_TARGET, CARRY and PYTHON change what is used. Headers are NVIDIA's, from PyPI; without them a toolkit has to be there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cargo="${CARGO:-cargo}"
target="${GPU_TARGET:-target/gpu}"
carry="${CARRY:-target/carry}"
stage="$target/carry"
# Of one version with the driver's CUDA: 13.0 on a driver 580.
headers=("nvidia-cuda-crt==13.0.*" "nvidia-cuda-cccl==13.0.*")
rm -rf "$stage"
mkdir -p "$stage/headers/include" "$carry"
# Both in one selection of packages, so that both take the same features of all dependencies.
selection=(--release -p gorgon-cli -p gorgon-kernels -p gorgon-model -p gorgon-infer --features gorgon-cli/cuda --target-dir "$target")
"$cargo" build "${selection[@]}"
tests="$("$cargo" test "${selection[@]}" --lib --no-run --message-format json |
    grep '"executable":"[^"]*gorgon_kernels-' | sed 's/.*"executable":"\([^"]*\)".*/\1/' | tail -1)"
cp "$target/release/gorgon" "$stage/gorgon"
cp "$tests" "$stage/kernel-tests"
strip -s "$stage/gorgon" "$stage/kernel-tests"
if "${PYTHON:-python3}" -m pip install --quiet --no-deps --target "$stage/pip" "${headers[@]}" >&2; then
    cp -r "$stage"/pip/nvidia/cu13/include/. "$stage/headers/include/"
else
    echo "gpu_carry.sh: no CUDA headers were found; the machine needs a CUDA toolkit" >&2
fi
tar -C "$stage" -cf - gorgon kernel-tests headers | xz --x86 --lzma2=preset=6,dict=128MiB -T2 >"$carry/gpu_first.tar.xz"
ls -l "$carry/gpu_first.tar.xz"
echo "Bring the project's folder with $carry; there run: bash scripts/bench/gpu_first.sh"
echo "Then put its tuning.tar.xz into $carry and run: bash scripts/bench/gpu_first.sh 1 8 9 7"
