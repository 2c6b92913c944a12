#!/usr/bin/env bash
# Runs a command with the CUDA driver in software (tools/software-cuda) in front of a real one:
#   scripts/software_cuda.sh target/gpu/debug/gorgon doctor
# NVRTC and its headers are NVIDIA's: from CUDA_PATH if that is set, else from PyPI, into target/cuda.
# SOFTWARE_CUDA_DEVICES and SOFTWARE_CUDA_MEMORY_MIB say how many devices there are (1) and what each holds (8192);
# SOFTWARE_CUDA_CAPABILITY is 90 for Hopper; 75 has neither TF32 nor copies of tiles. SOFTWARE_CUDA_DRY=1 compiles kernels and
# does not run them; SOFTWARE_CUDA_LAUNCHES=1 tells of every launch;
# SOFTWARE_CUDA_PTX=FOLDER keeps kernels as they were compiled; SOFTWARE_CUDA_SKIP names parts of names of kernels that are
# not run: those that measure what a device can do say nothing here.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
if [ -z "${CUDA_PATH:-}" ]; then
    export CUDA_PATH="$root/target/cuda/nvidia/cu13"
    if [ ! -e "$CUDA_PATH/include/crt/mma.h" ]; then
        "${PYTHON:-python3}" -m pip install --quiet --no-deps --target "$root/target/cuda" \
            nvidia-cuda-nvrtc==13.2.* nvidia-cuda-runtime==13.2.* nvidia-cuda-cccl==13.2.* nvidia-cuda-crt==13.2.* >&2
    fi
fi
(cd "$root" && cargo build --release --quiet -p gorgon-software-cuda)
libraries="$root/target/software-cuda"
mkdir -p "$libraries"
# Not as libcuda.so.1: NVRTC would ask that for more than there is.
for name in libcuda.so libnccl.so; do
    ln -sf ../release/libsoftware_cuda.so "$libraries/$name"
done
export LD_LIBRARY_PATH="$libraries:$CUDA_PATH/lib:$CUDA_PATH/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export SOFTWARE_CUDA_SKIP="${SOFTWARE_CUDA_SKIP-throughput,prime_buffer}"
exec "$@"
