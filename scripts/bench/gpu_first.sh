#!/usr/bin/env bash
# The first ten minutes on a borrowed GPU (H100, H200) without a network. Nothing here ends the script: what fails is a row.
#   make gpu-first                      packs binaries into target/carry, to be brought along
#   bash scripts/bench/gpu_first.sh     steps 1 to 7, on the device machine, in the project's folder
#   bash scripts/bench/gpu_first.sh 1 8 9 7     the second call, with target/carry/tuning.tar.xz of the first
# Steps: 1 machine and NVRTC, 2 tests of kernels in f32 and bf16, 3 checkpoints/tiny on CPU and CUDA, 4 what torch reaches,
# 5 plain decoding, T(n) and eta on random weights, 6 ncu over launched steps, 7 packing; 8 step 5 with more rounds, 9 peers,
# 10 the whole loop (distill, train, calibrate, bench, verify) on checkpoints/tiny.
# OUT (benchmarks/gpu_first) gets rows.jsonl, appended as rows come, log.txt, tuning.tar.xz, measured.tar.xz (autotune's
# decisions, ncu's tables) and summary.txt. GPU_FIRST_SHAPE (vicuna-7b, llama-3-8b, tiny), GPU_FIRST_SLOWER (limits times this), GPU_FIRST_SECONDS (580 in all),
# CARRY, GORGON, KERNEL_TESTS, PYTHON and CUDA_PATH change what is run. To try it without a GPU:
#   GPU_FIRST_SHAPE=tiny GPU_FIRST_SLOWER=20 scripts/software_cuda.sh scripts/bench/gpu_first.sh
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cd "$root" || exit 2
out="${OUT:-benchmarks/gpu_first}"
mkdir -p "$out" && out="$(cd "$out" && pwd)" || exit 2
shape="${GPU_FIRST_SHAPE:-vicuna-7b}"
slower="${GPU_FIRST_SLOWER:-1}"
carry="${CARRY:-target/carry}"
python="${PYTHON:-python3}"
rows="$out/rows.jsonl"
log="$out/log.txt"
# cubecl reads cubecl.toml where a program is started: what is compiled and tuned stays, also when a limit kills the program.
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tuning" "$work/saved"
cat >"$work/cubecl.toml" <<'TOML'
[environment]
path = { directory = "tuning" }
[compilation]
cache = true
[autotune.decisions]
file = "decisions.jsonl"
TOML
ln -s "$root/checkpoints/tiny" "$work/tiny"
# PyTorch finds its own libraries: it runs with the paths as they were.
torch=()
for variable in CUDA_PATH LD_LIBRARY_PATH; do
    if [ -n "${!variable+set}" ]; then torch+=("$variable=${!variable}"); else torch=(-u "$variable" "${torch[@]}"); fi
done
torch=(env "${torch[@]}" "$python")

microseconds() { printf '%s' "${EPOCHREALTIME/[.,]/}"; }
began="$(microseconds)"
seconds_since() {
    local passed=$(($(microseconds) - $1))
    printf '%d.%03d' $((passed / 1000000)) $((passed / 1000 % 1000))
}
total=$((${GPU_FIRST_SECONDS:-580} * slower))
# Seconds of each step at most.
budgets=([1]=30 [2]=60 [3]=90 [4]=30 [5]=270 [6]=100 [7]=60 [8]=300 [9]=240 [10]=150)
entered=$began
step=0
name=start

quoted() {
    local text=$1
    text=${text//"$work"/WORK}
    text=${text//"$root"/.}
    text=${text//\\/\\\\}
    text=${text//\"/\\\"}
    text=${text//$'\n'/\\n}
    text=${text//$'\t'/ }
    text=${text//[[:cntrl:]]/}
    printf '"%s"' "$text"
}

# row FIELDS: appends {"step", "name", "at_s", FIELDS}.
row() {
    printf '{"step":%s,"name":%s,"at_s":%s,%s}\n' "$step" "$(quoted "$name")" "$(seconds_since "$began")" "$1" | tee -a "$rows"
}

# Lines of a running program: all go to the log, the first ones become rows at once.
follow() {
    local line count=0
    while IFS= read -r line || [ -n "$line" ]; do
        printf '%s %s: %s\n' "$(seconds_since "$began")" "$name" "$line" >>"$log"
        if [ -n "$line" ] && ((count++ < 60)); then row "\"line\":$(quoted "${line:0:600}")"; fi
    done
}

# record NAME SECONDS COMMAND…: runs a command for that long at most and appends what it printed and how it ended. Its exit
# status is left in $status, JSON that it printed in $printed.
record() {
    local limit=$(($2 * slower)) reserve=$((20 * slower)) left start line
    name=$1
    shift 2
    printed=""
    left=$((total - ($(microseconds) - began) / 1000000))
    if ((step != 7)); then left=$((left - reserve)); fi
    if ((left < limit)); then limit=$left; fi
    left=$((budgets[step] * slower - ($(microseconds) - entered) / 1000000))
    if ((left < limit)); then limit=$left; fi
    if ((limit < 1)); then
        status=124
        row '"skipped":"no time is left in this step"'
        return 124
    fi
    start="$(microseconds)"
    {
        (cd "$work" && exec timeout -k 5 "$limit" "$@" </dev/null 2>&3 >"$work/stdout")
        echo $? >"$work/status"
    } 3>&1 | follow
    status="$(cat "$work/status")"
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
        '{'*'}')
            printed="$line"
            row "\"result\":$line"
            ;;
        ?*) row "\"text\":$(quoted "${line:0:2000}")" ;;
        esac
    done < <(head -c 4000000 "$work/stdout")
    local late=false
    if ((status == 124 || status == 137)); then late=true; fi
    row "\"rc\":$status,\"seconds\":$(seconds_since "$start"),\"limit_s\":$limit,\"timed_out\":$late"
    return "$status"
}

# Whether a program of ours did its work: a suite exits with 1 if a target is missed.
worked() { ((status == 0)) || { ((status == 1)) && [ -n "$printed" ] && [[ $printed != '{"error"'* ]]; }; }

# attempt NAME SECONDS COMMAND…: the same, once more with the least tuning if it fails other than by its limit.
attempt() {
    record "$@"
    if worked; then
        rm -rf "$work/saved" && cp -r "$work/tuning" "$work/saved"
        return 0
    fi
    if ((status == 124 || status == 137)) || [ -n "${CUBECL_AUTOTUNE_LEVEL:-}" ]; then return 1; fi
    # What the failed run left may be what fails.
    rm -rf "$work/tuning" && cp -r "$work/saved" "$work/tuning"
    local what=$1 limit=$2
    shift 2
    record "$what, minimal autotune" "$limit" env CUBECL_AUTOTUNE_LEVEL=minimal "$@"
    if worked; then
        export CUBECL_AUTOTUNE_LEVEL=minimal
        row '"note":"CUBECL_AUTOTUNE_LEVEL=minimal from here on"'
        return 0
    fi
    return 1
}

# --- 1: the machine, NVRTC, what was brought along ---

# First of the folders that has a file.
holder() {
    local file=$1 folder
    shift
    for folder; do
        if [ -e "$folder/$file" ]; then
            printf '%s' "$folder"
            return 0
        fi
    done
    return 1
}

find_nvrtc() {
    local candidates=() folder include library lib version
    name="NVRTC"
    if [ -n "${CUDA_PATH:-}" ]; then candidates+=("$CUDA_PATH"); fi
    # PyTorch's packages have NVRTC and cuda_bf16.h, but neither crt/mma.h nor cuda/barrier: a toolkit has, or what was carried.
    while IFS= read -r folder; do candidates+=("$folder"); done < <(
        timeout 5 "$python" -c 'import glob, sys
for folder in sys.path:
    for found in sorted(glob.glob(folder + "/nvidia/cu13")): print(found)' 2>/dev/null
    )
    if folder="$(command -v nvcc)"; then candidates+=("$(dirname "$(dirname "$(readlink -f "$folder")")")"); fi
    for folder in /usr/local/cuda-13.0 /usr/local/cuda /opt/cuda /opt/*/.venv/lib/python3*/site-packages/nvidia/cu13 \
        /usr/lib/python3/dist-packages/nvidia/cu13 "$work/headers"; do
        candidates+=("$folder")
    done
    local libraries=() whole=""
    for folder in "${candidates[@]}"; do
        if [ ! -d "$folder" ]; then continue; fi
        for library in "$folder"/lib "$folder"/lib64 "$folder"/targets/*/lib; do libraries+=("$library"); done
        include="$folder/include"
        if [ -z "$whole" ] && [ -e "$include/cuda_bf16.h" ] && [ -e "$include/mma.h" ] && [ -e "$include/crt/mma.h" ] &&
            { [ -e "$include/cuda/barrier" ] || [ -e "$include/cccl/cuda/barrier" ]; }; then
            whole="$folder"
        fi
    done
    if [ -z "$whole" ]; then
        # Headers lie in several packages: links to all of them, of the first that has each.
        whole="$work/cuda"
        mkdir -p "$whole/include"
        for folder in "${candidates[@]}"; do
            if [ -d "$folder/include" ]; then cp -rsn "$(readlink -f "$folder/include")/." "$whole/include/" 2>>"$log"; fi
        done
    fi
    export CUDA_PATH="$whole"
    if lib="$(holder libnvrtc.so.13 "${libraries[@]}")"; then
        export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$lib"
    fi
    local here=()
    for include in cuda_bf16.h mma.h crt/mma.h cuda/barrier cccl/cuda/barrier; do
        if [ -e "$CUDA_PATH/include/$include" ]; then here+=("$include"); fi
    done
    for library in "${lib:-/nowhere}"/libnvrtc-builtins.so*; do
        if [ -e "$library" ]; then here+=("${library##*/}"); fi
    done
    row "\"cuda_path\":$(quoted "$CUDA_PATH"),\"nvrtc\":$(quoted "${lib:-}"),\"found\":$(quoted "${here[*]}"),\"looked_in\":$(quoted "${candidates[*]}")"
    version='import ctypes
a, b, c = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
ctypes.CDLL("libnvrtc.so.13").nvrtcVersion(ctypes.byref(a), ctypes.byref(b))
for name in "libcuda.so.1", "libcuda.so":
    try: ctypes.CDLL(name).cuDriverGetVersion(ctypes.byref(c)); break
    except (OSError, AttributeError): pass
print("{\"nvrtc\": \"%d.%d\", \"driver_cuda\": \"%d.%d\"}" % (a.value, b.value, c.value // 1000, c.value % 1000 // 10))'
    # PTX of a newer NVRTC than the driver's is refused.
    record "NVRTC and driver" 10 "$python" -c "$version"
}

unpack() {
    name="carried"
    local archive="$carry/gpu_first.tar.xz"
    if [ -e "$archive" ]; then
        tar -xJf "$archive" -C "$work" 2>>"$log" ||
            "$python" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$archive" "$work" 2>>"$log" ||
            row "\"error\":\"the archive could not be unpacked\""
    fi
    if [ -e "$carry/tuning.tar.xz" ]; then
        tar -xJf "$carry/tuning.tar.xz" -C "$work" 2>>"$log" || row "\"error\":\"the tuning could not be unpacked\""
    fi
    gorgon="${GORGON:-$work/gorgon}"
    tests="${KERNEL_TESTS:-$work/kernel-tests}"
    if [ ! -x "$gorgon" ]; then gorgon="$root/target/gpu/release/gorgon"; fi
    gorgon="$(readlink -f "$gorgon")"
    tests="$(readlink -f "$tests")"
    local there=() file
    for file in "$gorgon" "$tests" "$work/tuning/"*; do
        if [ -e "$file" ]; then there+=("${file##*/}"); fi
    done
    row "\"there\":$(quoted "${there[*]}"),\"shape\":$(quoted "$shape"),\"steps\":$(quoted "$steps")"
}

machine() {
    record "nvidia-smi" 10 nvidia-smi --format=csv,noheader \
        --query-gpu=name,driver_version,memory.total,memory.used,clocks.max.sm,clocks.max.mem,clocks.sm,power.limit,temperature.gpu
    unpack
    find_nvrtc
    record "doctor" 20 "$gorgon" doctor --json
}

# --- 2: kernels ---

# Tests of what decoding needs first; what the limit cuts off is training.
kernel_tests() {
    record "$1" "$2" env GORGON_TEST_DEVICE=cuda bash -c 'exec "$@" 1>&2' - "$tests" --test-threads 1 "${@:3}"
}

kernels() {
    if [ ! -x "$tests" ]; then
        name="tests of kernels"
        row '"skipped":"no test binary was brought along"'
        return
    fi
    kernel_tests "decoding's kernels, f32" 25 --skip bf16 greedy_step::device_tests cache_rows::device_tests tree_attention::device_tests
    kernel_tests "kernels, bf16" 30 bf16 skinny_matmul::device_tests tree_attention::device_tests::long \
        tree_attention::device_tests::wide norm::device_tests
    kernel_tests "other kernels, f32" 15 --skip bf16 \
        dynamic_tree::device_tests squares::device_tests linear_cross_entropy::device_tests linear_divergence::device_tests
}

# --- 3: a trained model ---

ids_of() { grep -o '"ids":\[[0-9,]*\]' <<<"$1"; }

trained_model() {
    local tokens=32 want="" got format way
    if [ "$shape" = tiny ]; then tokens=8; fi
    local ask=("$gorgon" generate --model tiny --prompt "What is 12 plus 30?" --max-new-tokens "$tokens" --ignore-eos --json --no-progress)
    attempt "tiny, cpu f32" 10 "${ask[@]}" --device cpu --dtype f32 && want="$(ids_of "$printed")"
    # bf16 is what will be used, so it comes first and is tuned; f32 is there to tell wrong kernels from rounding.
    for format in bf16 f32; do
        local level=(env)
        if [ "$format" = f32 ]; then level=(env CUBECL_AUTOTUNE_LEVEL=minimal); fi
        for way in launched recorded; do
            if attempt "tiny, cuda $format $way" 40 "${level[@]}" GORGON_STEPS="$way" "${ask[@]}" --device cuda --dtype "$format"; then
                got="$(ids_of "$printed")"
                if [ "$got" = "$want" ]; then row '"cpus_text":true'; else row '"cpus_text":false'; fi
            fi
        done
    done
}

# --- 4: what torch reaches ---

torch_probe() {
    record "torch probe" 30 "${torch[@]}" "$root/scripts/bench/gpu_probe.py" "$shape"
}

# --- 5: the engine on random weights ---

# Two layers of the shape, for a first figure within seconds and for ncu.
two_layers() {
    if [ -e "$work/two-layers/model.safetensors" ]; then return 0; fi
    record "two layers: writing" 30 "$python" "$root/scripts/bench/gpu_two_layers.py" "$shape" two-layers
}

suite() {
    local context=512
    if [ "$shape" = tiny ]; then context=32; fi
    attempt "$1" "$2" "$gorgon" dev suite gpu --shape "$shape" --device cuda --prompt-tokens "$context" --rounds "$3" --tokens "$4" \
        "${@:5}" --json
}

random_weights() {
    local way prompt=512 tokens=64 recorded=""
    if [ "$shape" = tiny ]; then prompt=32 tokens=6; fi
    if two_layers; then
        for way in recorded launched; do
            attempt "two layers, bf16 $way" 60 env GORGON_STEPS="$way" "$gorgon" generate --model two-layers --device cuda --dtype bf16 \
                --ids "$(seq -s, 5 $((prompt + 4)))" --max-new-tokens "$tokens" --ignore-eos --json --no-progress || continue
            if [ "$way" = recorded ]; then
                recorded="$(ids_of "$printed")"
            elif [ "$recorded" = "$(ids_of "$printed")" ]; then
                row '"recorded_text":true'
            else
                row '"recorded_text":false'
            fi
        done
    fi
    if [ "$shape" = tiny ]; then
        suite "suite, one short round" 240 1 3
        return
    fi
    # The first is short, so that there are figures; a limit that ends it leaves what was tuned to the next call.
    if suite "steps, one short round" 100 1 16 --only steps; then suite "steps, two rounds" 60 2 64 --only steps; fi
    suite "training, one round" 150 1 16 --only training
}

# --- 6: launched steps of 1, 8 and 64 rows, kernel by kernel ---

profile() {
    local rows_of guesses prompt=512
    name="ncu"
    if ! command -v ncu >/dev/null; then
        row '"skipped":"ncu is not there"'
        return
    fi
    two_layers || return
    if [ "$shape" = tiny ]; then prompt=32; fi
    # Timings taken under ncu must not be kept.
    mkdir -p "$work/ncu" && cp -r "$work/tuning" "$work/cubecl.toml" "$work/ncu/"
    sed -i 's/decisions.jsonl/ncu-decisions.jsonl/' "$work/ncu/cubecl.toml"
    local metrics=gpu__time_duration.sum,dram__bytes_read.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed
    metrics+=,launch__grid_size,launch__block_size,launch__registers_per_thread,sm__warps_active.avg.pct_of_peak_sustained_active
    for rows_of in 1 8 64; do
        guesses=none
        if ((rows_of > 1)); then guesses="jacobi:$((rows_of - 1))"; fi
        record "ncu, $rows_of rows" 40 env -C ncu GORGON_STEPS=launched ncu --metrics "$metrics" --csv \
            --log-file "$work/ncu-$rows_of.csv" --clock-control none --cache-control none --launch-count 400 "$gorgon" generate \
            --model ../two-layers --device cuda --dtype bf16 --drafter "$guesses" --ids "$(seq -s, 5 $((prompt + 4)))" \
            --max-new-tokens 4 --ignore-eos --json --no-progress
    done
}

# --- 7: what comes back ---

pack() {
    local file
    name="packing"
    (cd "$work" && timeout 20 tar -I 'xz -T0 -1' -cf "$out/measured.tar.xz" $(ls decisions.jsonl ncu-*.csv 2>/dev/null)) 2>>"$log" ||
        row '"error":"decisions and profiles were not packed"'
    (cd "$work" && timeout 30 tar -I 'xz -T0 -1' -cf "$out/tuning.tar.xz" tuning) 2>>"$log" || row '"error":"the tuning was not packed"'
    timeout 10 "$python" scripts/bench/gpu_summary.py "$rows" >"$out/summary.txt" 2>>"$log" || row '"error":"no summary"'
    if (($(stat -c %s "$log") > 8000000)); then timeout 10 xz -f "$log"; fi
    row "\"bytes\":$(du -sb "$out" | cut -f1),\"files\":$(quoted "$(cd "$out" && ls)")"
    cat "$out/summary.txt"
}

# --- 8 and 9: the second call ---

more_rounds() {
    if [ "$shape" = tiny ]; then suite "suite" 300 1 3; return; fi
    suite "steps, five rounds" 120 5 128 --only steps
    suite "training, three rounds" 180 3 16 --only training
}

peers() {
    local context=512 tokens=128 rounds=3 mode
    if [ "$shape" = tiny ]; then context=32 tokens=6 rounds=1; fi
    for mode in eager compiled; do
        # shellcheck disable=SC2016 # the inner shell expands
        record "transformers $mode" 120 bash -c 'for _ in $(seq "$1"); do echo; done | "${@:2}"' - "$rounds" \
            "${torch[@]}" "$root/scripts/bench/gpu_peer.py" "$shape" "$context" "$tokens" "$mode"
    done
    record "torch training, states kept" 60 "${torch[@]}" "$root/scripts/bench/head_step.py" --shape "$shape" --rounds "$rounds"
    record "torch training, with the backbone" 90 "${torch[@]}" "$root/scripts/bench/head_step.py" --shape "$shape" --rounds "$rounds" --backbone
}

# --- 10: the whole loop on the embedded model ---

loop() {
    local way device=(--device cuda --json --no-progress) heads=checkpoints/medusa-tiny-1 prompts="$root/datasets/tiny-chat/held_out.jsonl"
    record "tiny, distill" 60 "$gorgon" distill -c "$root/configs/distill-tiny.toml" 'model="tiny"' 'out="distilled"' \
        synthetic.dialogues=1000 "${device[@]}" || return
    record "tiny, train" 60 "$gorgon" train -c "$root/configs/medusa-tiny.toml" 'model="tiny"' 'data="distilled"' \
        training.epochs=2 "${device[@]}" || return
    record "tiny, calibrate" 60 "$gorgon" tree calibrate --model tiny --heads "$heads" --prompts "$prompts" --limit 16 "${device[@]}"
    for way in recorded launched; do
        record "tiny, bench $way" 40 env GORGON_STEPS="$way" "$gorgon" bench --model tiny --heads "$heads" --prompts "$prompts" \
            --limit 16 --rounds 1 --tree mc_sim_7b_63 "${device[@]}"
    done
    record "tiny, verify" 60 "$gorgon" verify --model tiny --heads "$heads" --tree mc_sim_7b_63 --prompts "$prompts" --limit 16 "${device[@]}"
}

steps="${*:-1 2 3 4 5 6 7}"
: >>"$log"
name="start"
row "\"commit\":$(quoted "$(git rev-parse --short HEAD 2>/dev/null)"),\"date\":$(quoted "$(date -u +%FT%TZ)"),\"slower\":$slower"
# In braces, so that a script that is edited while it runs goes on as it was.
{
    for step in $steps; do
        entered="$(microseconds)"
        case $step in
        1) machine ;;
        2) kernels ;;
        3) trained_model ;;
        4) torch_probe ;;
        5) random_weights ;;
        6) profile ;;
        7) pack ;;
        8) more_rounds ;;
        9) peers ;;
        10) loop ;;
        *) echo "gpu_first.sh: step $step: expected 1 to 10" >&2 ;;
        esac
    done
    exit 0
}
