# Every target first sets up what it needs. If nothing has changed, this takes about a second.
SHELL := /bin/sh
.DEFAULT_GOAL := help
# Every target is a command, except the files below build/.
.PHONY: FORCE $(shell sed -n 's/^\([a-z0-9-]*\):.*/\1/p' $(MAKEFILE_LIST))

sources := $(shell find src -name '*.ts' 2>/dev/null)
page := $(shell find src/studio/page -type f 2>/dev/null)
compiled := $(patsubst src/%.ts,dist/%.js,$(filter-out %.d.ts src/studio/page/%,$(sources))) dist/studio/page/index.html schemas/run.schema.json schemas/sweep.schema.json

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Only one setup runs at a time. The lock ends with the process that holds it.
setup: ## find or install libtorch, install npm packages, build the addon and the TypeScript
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || { echo "Temper needs Node.js 20 or later on the PATH. Install it from nodejs.org." >&2; exit 1; }
	@mkdir -p build && flock build/setup.lock $(MAKE) --no-print-directory -j2 setup-locked

setup-locked: addon build/dist.stamp

packages:
	@node scripts/install-packages.mjs

# Without a build, libtorch is downloaded while npm downloads the packages.
libtorch:
	@test -e build/native/stamp.json || node scripts/setup/setup.mjs --only-libtorch

addon: packages libtorch
	@node scripts/setup/setup.mjs

# Rebuild if a source has changed or a compiled file is missing. Old compiled files are removed.
build/dist.stamp: $(sources) $(page) scripts/finish-build.mjs package-lock.json tsconfig.json tsconfig.build.json $(if $(filter-out $(wildcard $(compiled)),$(compiled)),FORCE) | packages
	@rm -rf dist schemas build/dist.tsbuildinfo
	@npm run --silent build
	@touch $@

FORCE:

test: setup ## run the test suite: a few cases of each requirement (no GPU needed)
	@node_modules/.bin/vitest run

test-long: export TEMPER_LONG := 1
test-long: setup ## run the test suite with its slow tests, and with more random cases and kills
	@node_modules/.bin/vitest run

test-onnx: export TEMPER_BACKEND := onnx
test-onnx: setup ## run the tests of attack, exact, compare, gate, serve and verify on ONNX Runtime instead of libtorch
	@node_modules/.bin/vitest run tests/gate tests/cli/attack tests/cli/exact tests/cli/compare tests/cli/serve tests/cli/verify tests/runs/attack.test.ts tests/serve

fuzz: setup ## damage input files for FUZZ_SECONDS (default 120) and check that each is read or rejected clearly (FUZZ_CASES, FUZZ_WORKERS)
	@node tools/fuzz/fuzz.mjs

test-asan: setup ## build the addon with AddressSanitizer and run the tests of tensors, kernels and serving with it
	@node tools/test-asan.mjs

test-cpus: setup ## run the tests that touch numbers with other instructions, thread counts and moved last bits
	@node tools/test-cpus.mjs

check-mutations: setup ## plant mistakes in methods, layers and training, and check that the named tests find each
	@node tools/mutations.mjs

test-arm64: setup ## cross-compile the addon for Linux on arm64 and run the tests of tensors and layers under qemu (needs Debian's g++-aarch64-linux-gnu, qemu-user, libc6-arm64-cross)
	@node tools/arm64/test.mjs

test-slurm: export TEMPER_TEST_SLURM := 1
test-slurm: setup ## run sweeps, a training of two tasks and a sharded attack on a real Slurm cluster on this host (installs Slurm, as root)
	@node tools/slurm-cluster.mjs node_modules/.bin/vitest run --no-file-parallelism tests/sweeps/slurm.test.ts tests/distributed/slurm.test.ts

check-gate: setup ## the gate with the models of the demo: standard fails against ascc, the same model passes 20 of 20 (RUNS=their folder)
	@node tools/check-gate.mjs $(RUNS)

check-certificates: export TEMPER_LONG := 1
check-certificates: setup ## more than 1,000,000 edits within certificates of random models: none may change a prediction; planted mistakes must be found
	@node_modules/.bin/vitest run tests/proofs/certificates

check-guard: setup ## append benign words to what a guard detects, without and with windows (RUN=a run with two labels, BENIGN=a .jsonl file)
	@node tools/check-guard.mjs $(RUN) --benign $(BENIGN)

check-export: setup ## export the model of RUN (default: runs/demo/standard) and compare it in ONNX Runtime and transformers.js
	@node tools/check-export.mjs $(RUN)

check-tokenizers: export TEMPER_CHECK_TOKENIZERS := $(or $(TEMPER_PYTHON),python3)
check-tokenizers: setup ## compare 20,000 texts per family with transformers (needs a Python that has it) and 100,000 with the package
	@node_modules/.bin/vitest run tests/text/transformers.test.ts tests/text/parity.test.ts tests/models/save-tokenizer.test.ts

check-models: setup ## save every family and load it with transformers, without missing or unexpected keys (TEMPER_PYTHON has it)
	@node tools/fixtures/check-saved-models.mjs

check-pushed: setup ## compare the folders that push uploads, of every family, tokenization and head, in transformers, transformers.js and ONNX Runtime (TEMPER_PYTHON has transformers)
	@node tools/check-pushed.mjs $(FAMILIES)

lint: packages ## formatter, linter, unused exports and type checker, with zero warnings
	@npm run --silent lint
	@npm run --silent check

docs: setup ## build the documentation site and the API reference into build/docs (no network at run time)
	@npm ci --silent --prefix docs
	@node tools/docs/reference.mjs
	@npm run --silent --prefix docs build
	@npm run --silent docs

bench: setup ## measure the engine, and compare it with PyTorch if a Python has it
	@node tools/bench/engine.mjs

# These benchmarks need published datasets. Set TEMPER_DATA and PEERS if they are in other folders.
bench-train bench-attacks bench-inference bench-methods check-precision check-recipes: export TEMPER_DATA := $(or $(TEMPER_DATA),../shared/data)
bench-attacks: export PEERS := $(or $(PEERS),../shared/peers)

bench-train: setup ## compare fine-tuning MiniLM on SST-2 with loops of transformers, the strongest included: speed and accuracy (half an hour on two cores)
	@node tools/bench/train.mjs

bench-attacks: setup ## compare PWWS and the genetic attack, in every precision of the CPU, with TextAttack: speed and accuracy under attack
	@node tools/bench/attacks.mjs

bench-inference: setup ## compare inference with MiniLM in every precision with ONNX Runtime and OpenVINO (PEER_PYTHON=a Python that has them)
	@node tools/bench/inference.mjs

check-precision: setup ## attack SST-2 in low precision and in fp32, and check that accuracy under attack is the same within 1 point (hours on two cores; PROCESSES=16 on more)
	@node tools/bench/precision.mjs $(if $(PROCESSES),--processes $(PROCESSES))

check-recipes: setup ## compare the recipes with TextAttack 0.3.11 on the same texts (TEXTATTACK=its Python environment)
	@node tools/parity/check-recipes.mjs

bench-studio: setup ## measure the studio in Chromium with 1,000 runs and 10,000 texts (RUN=a finished and attacked run)
	@node tools/bench/studio.mjs $(RUN)

bench-serve: setup ## measure a server with 200 clients on loopback: dynamic batching and one request at a time (RUN=a finished run)
	@node tools/bench/serve.mjs $(RUN)

pictures: setup ## draw the pictures of README and docs (RUNS=a folder with finished and attacked runs)
	@node tools/pictures.mjs $(RUNS)

bench-methods: setup ## measure a training step of each method, as a multiple of a standard step
	@node tools/bench/methods.mjs

bench-gpu: setup ## measure training steps and attack batches on a GPU, and compare them with PyTorch if a Python has it
	@node tools/gpu/bench.mjs

check-gpu: setup ## check on a GPU: captured = eager, GPU = CPU, constant memory, micro-batches when out of memory, kill and resume
	@node tools/gpu/check.mjs

gpu-bundle: setup ## build one archive that runs on an offline GPU host without Node (BUNDLE="--model DIR --data DIR --part-size MB")
	@node tools/gpu/bundle.mjs $(BUNDLE)

check-distributed: export TEMPER_LONG := 1
check-distributed: setup ## compare every stack in 2 and 3 processes with one process, and resume after 20 kills
	@node_modules/.bin/vitest run tests/distributed

bench-distributed: setup ## measure fine-tuning in two processes, with one thread each, against one process
	@node tools/bench/distributed.mjs

chaos: setup ## kill commands, two ranks and studio jobs at 200 random moments, resume, and compare bitwise (CHAOS_KILLS, CHAOS_SEED, CHAOS_SECONDS, CHAOS_WORKERS, CHAOS_WORKLOADS)
	@node tools/chaos/chaos.mjs

demo: setup ## train, attack and report on data that npm installs
	@node scripts/demo.mjs $(if $(FRESH),--fresh)

story: setup ## own CSV file: train three ways, predict, attack, compare, report and sweep (under 5 minutes; WRITE=1 writes docs/guide/tutorial.md)
	@node scripts/story.mjs $(if $(WRITE),--write)

.PHONY: prebuilt
prebuilt: setup ## build the packages to publish into build/prebuilt: temper-nlp, and the addon for this machine
	@node scripts/make-prebuilt.mjs

package-check-onnx: packages build/dist.stamp ## install the packed package in an empty folder without Python, compilers and libtorch, attack an exported model, and measure size and time
	@node scripts/make-prebuilt.mjs --without-addon
	@node scripts/package-check.mjs --onnx

package-check: prebuilt ## install the packed package in an empty folder, without a compiler on the PATH, and run it there
	@node scripts/package-check.mjs

clean: ## remove build outputs; installed packages (node_modules, .venv, .torch) stay
	rm -rf build dist schemas coverage
