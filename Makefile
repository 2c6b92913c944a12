# `make` or `make help` lists what there is.
CARGO ?= cargo
# Where cargo puts it, also when CARGO_TARGET_DIR is set.
export GORGON ?= $(abspath $(or $(CARGO_TARGET_DIR),target)/release/gorgon)
GPU_TARGET := target/gpu
LINT_TARGET := target/lint
PUSH_TARGET := target/push
MDBOOK ?= mdbook
WGPU_TARGET := target/wgpu

.DEFAULT_GOAL := help
.PHONY: help demo docs docs-check test test-kills crash-test chaos fuzz fuzz-smoke fuzz-seeds plan test-mpi test-push test-push-cli check-exports check-quantized captures check-source serve-clients serve-load serve-page serve-speed lint build dist gpu gpu-first test-wgpu test-wgpu-decode test-arm test-cuda prefill-memory bench deny clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## The main job on the model that comes along: distil, train, calibrate, measure, verify
	$(GORGON) demo

test: ## All tests (CPU, no network)
	$(CARGO) test --release

test-kills: ## Kill distillation and training at 40 random moments each and at every named point (some minutes)
	GORGON_TEST_KILLS=40 $(CARGO) test --release --test kills

crash-test: ## Kill every stage, fill the disk, truncate and flip: a log of kills, faults and losses (KILLS=25, some minutes)
	scripts/crash_test.sh $(or $(KILLS),25)

chaos: build ## Kill every stage at random moments, full disks, damage, poison, bad servers; results bit for bit (SEED=1 MINUTES=10 KILLS= LOG= TABLE=, WORK goes on)
	python3 scripts/chaos/run.py --gorgon $(GORGON) --seed $(or $(SEED),1) --minutes $(or $(MINUTES),10) \
		$(if $(KILLS),--kills $(KILLS)) $(if $(LOG),--log $(LOG)) $(if $(TABLE),--table $(TABLE)) --work $(or $(WORK),target/chaos)

fuzz-smoke: ## The fuzz targets over mutated files (ROUNDS=20000 each, some minutes)
	GORGON_FUZZ_ROUNDS=$(or $(ROUNDS),20000) $(CARGO) test --release --test fuzz_smoke -- --nocapture

fuzz-seeds: ## Write the fuzz targets' seeds into fuzz/corpus
	GORGON_FUZZ_SEEDS=$(CURDIR)/fuzz/corpus $(CARGO) test --release --test fuzz_smoke

test-mpi: ## Data parallel training over two processes against one (needs libopenmpi-dev, openmpi-bin, libclang-dev)
	$(CARGO) test --release --features gorgon-cli/mpi --test mpi

check-exports: build ## Every export loaded strictly in PyTorch and compared with gorgon (PYTHON=… has torch and transformers; some minutes)
	$(or $(PYTHON),scripts/bench/.venv/bin/python) scripts/check_exports/run.py --gorgon $(GORGON) \
		--model checkpoints/tiny --work $(or $(WORK),target/check_exports) --table benchmarks/check_exports.json

check-quantized: build ## Models in integers opened with transformers and compressed-tensors, compared with gorgon (PYTHON=… has both)
	$(or $(PYTHON),python3) scripts/check_quantized.py --gorgon $(GORGON) --out benchmarks/quantize_check.jsonl \
		checkpoints/tiny ../shared/models/stories260k $(MODELS)

captures: build ## Screens of chat, bench, runs, help and an error, into docs/src/images (PYTHON=… has pyte and rich; after make demo)
	$(or $(PYTHON),python3) scripts/capture.py --gorgon $(GORGON)

check-source: ## Circular imports, long files and functions, inline tests, panics in library code, lines per crate
	python3 scripts/check_imports.py
	python3 scripts/check_source.py

serve-clients: build ## The official openai clients of Python and Node against gorgon serve (the network, once)
	scripts/serve_clients/run.sh $(GORGON) $(or $(WORK),target/serve_clients)

serve-load: build ## Good and bad clients against gorgon serve (SECONDS=600): texts, memory, exit code
	python3 scripts/bench/serve_load.py --gorgon $(GORGON) --seconds $(or $(SECONDS),600) $(if $(OUT),--out $(OUT)) -- --drafter suffix

serve-page: build ## The server's page in headless Chromium, by keyboard, in light and dark (the network, once)
	scripts/serve_page/run.sh $(GORGON)

serve-speed: build ## gorgon serve beside generate, distill and, with PYTHON=..., transformers serve
	python3 scripts/bench/serve_speed.py --gorgon $(GORGON) $(if $(PYTHON),--python $(PYTHON)) $(if $(OUT),--out $(OUT))

test-push: ## Uploads to a hub on the loopback interface (builds hf-hub without optimisation, two minutes)
	CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) test -p gorgon-hub --features push --test push --target-dir $(PUSH_TARGET)

test-push-cli: ## gorgon export --push there (builds everything with hf-hub, some fifteen minutes)
	$(CARGO) test --release --workspace --features gorgon-cli/push --test push

docs: ## The documentation as a book, target/book/index.html (needs mdbook: cargo install mdbook --locked)
	@command -v $(MDBOOK) > /dev/null || { echo "error: $(MDBOOK) not found"; echo "hint: cargo install mdbook --locked, or MDBOOK=PATH"; exit 1; }
	@out=$$($(MDBOOK) build docs 2>&1); status=$$?; echo "$$out"; test $$status = 0 && ! echo "$$out" | grep WARN

docs-check: build ## Every command of README and docs run in a scratch copy, its output compared; links, widths, names (some minutes)
	python3 scripts/docs_check.py $(GORGON)

lint: check-source ## Format check, source checks, docs without their commands, and clippy with warnings denied, GPU code included
	python3 scripts/docs_check.py --static
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --features gorgon-cli/cuda,gorgon-cli/wgpu --target-dir $(LINT_TARGET) -- -D warnings

build: ## The CPU binary, target/release/gorgon
	$(CARGO) build --release

dist: ## A release archive in target/archive: a small binary with uploads to the hub (a build of its own, some 20 minutes), completions, man pages, checksum
	$(CARGO) build --profile dist -p gorgon-cli --features push
	scripts/dist.sh $(or $(CARGO_TARGET_DIR),target)/dist/gorgon

gpu: ## The full binary with CUDA and wgpu, target/gpu/release/gorgon
	$(CARGO) build --release -p gorgon-cli --features cuda,wgpu --target-dir $(GPU_TARGET)

gpu-first: ## Pack what scripts/bench/gpu_first.sh brings to a borrowed GPU into target/carry (CUDA alone; some minutes)
	CARGO="$(CARGO)" GPU_TARGET=$(GPU_TARGET) scripts/bench/gpu_carry.sh

test-wgpu: ## Kernels, backbones and recorded steps on a Vulkan, Metal or DX12 device (software Vulkan will do)
	GORGON_TEST_DEVICE=wgpu $(CARGO) test -p gorgon-model -p gorgon-kernels --features wgpu --lib --target-dir $(WGPU_TARGET) device_tests
	GORGON_TEST_DEVICE=wgpu $(CARGO) test -p gorgon-infer -p gorgon-model -p gorgon-kernels --features wgpu --test backbones --test recorded --target-dir $(WGPU_TARGET)

test-arm: ## Kernels for ARM under qemu, with byte dot products and without (needs qemu-user-static, gcc-aarch64-linux-gnu and rustup target add aarch64-unknown-linux-gnu; three minutes)
	for cpu in max cortex-a53; do \
		CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
		CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu -cpu $$cpu" \
		$(CARGO) test --release -p gorgon-kernels --lib --target aarch64-unknown-linux-gnu || exit 1; \
	done

test-cuda: ## Kernels and a recorded step on a CUDA driver in software (no GPU; NVRTC from PyPI; some minutes)
	GORGON_TEST_DEVICE=cuda CUBECL_AUTOTUNE_LEVEL=minimal SOFTWARE_CUDA_CAPABILITY=75 scripts/software_cuda.sh $(CARGO) test \
		-p gorgon-kernels -p gorgon-model --features cuda,wgpu --lib --target-dir $(GPU_TARGET) device_tests -- --test-threads 1
	GORGON_TEST_DEVICE=cuda CUBECL_AUTOTUNE_LEVEL=minimal SOFTWARE_CUDA_CAPABILITY=80 scripts/software_cuda.sh $(CARGO) test \
		-p gorgon-kernels -p gorgon-model --features cuda,wgpu --lib --target-dir $(GPU_TARGET) skinny_matmul -- --test-threads 1
	GORGON_TEST_DEVICE=cuda CUBECL_AUTOTUNE_LEVEL=minimal scripts/software_cuda.sh $(CARGO) test \
		-p gorgon-model --features cuda,wgpu --test recorded --test gpu_integers --target-dir $(GPU_TARGET)
	GORGON_TEST_DEVICE=cuda CUBECL_AUTOTUNE_LEVEL=minimal SOFTWARE_CUDA_CAPABILITY=75 SOFTWARE_CUDA_DEVICES=3 \
		scripts/software_cuda.sh $(CARGO) test -p gorgon-model --features cuda,wgpu --test split_layers --target-dir $(GPU_TARGET)
	GORGON_TEST_DEVICE=cuda CUBECL_AUTOTUNE_LEVEL=minimal scripts/software_cuda.sh $(CARGO) test \
		-p gorgon-model --features cuda,wgpu --test backbones --target-dir $(GPU_TARGET) a_gpu_in_bf16

test-wgpu-decode: ## Whole answers by recorded steps there, EAGLE too
	GORGON_TEST_DEVICE=wgpu $(CARGO) test -p gorgon-infer --features wgpu --test recorded --test recorded_eagle --target-dir $(WGPU_TARGET)

plan: build ## What jobs were said to take beside what they took, into benchmarks/plan.json (some minutes)
	python3 scripts/plan.py

fuzz: ## The fuzz targets under cargo-fuzz (SECONDS=30 each; needs cargo-fuzz; a stable compiler will do)
	scripts/fuzz.sh $(or $(SECONDS),30)

prefill-memory: ## Memory of a prefill of 32,768 tokens at 42M parameters (some minutes)
	$(CARGO) test --release --test prefill_memory -- --include-ignored --nocapture

bench: ## Speed of decoding, prefill and loading beside memory probes, into benchmarks/
	$(CARGO) bench --bench plain_decode -- --rounds 9 --out $(CURDIR)/benchmarks/plain_decode.json
	$(CARGO) bench --bench load -- --out $(CURDIR)/benchmarks/load.json

deny: ## Licences, advisories and sources of all dependencies (needs cargo-deny)
	$(CARGO) deny check

clean: ## Remove everything built
	$(CARGO) clean
