# Every target first sets up what it needs. If nothing has changed, this takes about a second.
SHELL := /bin/sh
.DEFAULT_GOAL := help
# Every target is a command, except the files below build/.
.PHONY: FORCE $(shell sed -n 's/^\([a-z0-9-]*\):.*/\1/p' $(MAKEFILE_LIST))

sources := $(shell find src -name '*.ts' 2>/dev/null)
page := $(shell find src/studio/page -type f 2>/dev/null)
compiled := $(patsubst src/%.ts,dist/%.js,$(filter-out %.d.ts src/studio/page/%,$(sources))) dist/studio/page/index.html schemas/run.schema.json schemas/sweep.schema.json

# A target is listed if it has a comment after ##. The others check or measure one feature each.
help:
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nThe Makefile has more targets: test-*, check-* and bench-* of single features.\n'

##@ Setup

# Only one setup runs at a time. The lock ends with the process that holds it.
setup: ## install what is missing, and build the addon and the TypeScript
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

# SEED=3 finds another email.
try: packages build/dist.stamp ## watch an attack fool a small spam filter, but not a robust one (seconds, no libtorch)
	@node dist/cli/main.js try $(if $(SEED),--seed $(SEED))

demo: setup ## train, attack and report on data that npm installs
	@node scripts/demo.mjs $(if $(FRESH),--fresh)

# WRITE=1 writes docs/guide/tutorial.md.
story: setup ## work on an own CSV file from training to a report, as in the tutorial (under 5 minutes)
	@node scripts/story.mjs $(if $(WRITE),--write)

clean: ## remove build outputs; installed packages (node_modules, .venv, .torch) stay
	rm -rf build dist schemas coverage

##@ Test

lint: packages ## formatter, linter, unused exports and type checker, with zero warnings
	@npm run --silent lint
	@npm run --silent check

test: setup ## run the test suite: a few cases of each requirement (no GPU needed)
	@node_modules/.bin/vitest run

test-long: export TEMPER_LONG := 1
test-long: setup ## run the test suite with its slow tests, and with more random cases and kills
	@node_modules/.bin/vitest run

test-cpus: setup ## run the tests that touch numbers with other instructions, thread counts and moved last bits
	@node tools/test-cpus.mjs

test-asan: setup ## run the tests of tensors, kernels and serving with AddressSanitizer
	@node tools/test-asan.mjs

# FUZZ_SECONDS (default 120), FUZZ_CASES and FUZZ_WORKERS choose how much.
fuzz: setup ## damage input files and check that each is read or rejected clearly
	@node tools/fuzz/fuzz.mjs

# CHAOS_KILLS, CHAOS_SEED, CHAOS_SECONDS, CHAOS_WORKERS and CHAOS_WORKLOADS choose what is killed.
chaos: setup ## kill commands, ranks and studio jobs at random moments, resume, and compare bitwise
	@node tools/chaos/chaos.mjs

# Captured = eager, GPU = CPU, constant memory, micro-batches when out of memory, kill and resume.
check-gpu: setup ## check training on a GPU
	@node tools/gpu/check.mjs

# Run the tests of attack, exact, compare, gate, serve and verify on ONNX Runtime instead of
# libtorch
test-onnx: export TEMPER_BACKEND := onnx
test-onnx: setup
	@node_modules/.bin/vitest run tests/actions/gate tests/cli/attack tests/cli/exact tests/cli/compare tests/cli/serve tests/cli/verify tests/actions/attack/attack.test.ts tests/serve

# Run sweeps, a training of two tasks and a sharded attack on a real Slurm cluster on this host
# (installs Slurm, as root)
test-slurm: export TEMPER_TEST_SLURM := 1
test-slurm: setup
	@node tools/slurm-cluster.mjs node_modules/.bin/vitest run --no-file-parallelism tests/sweeps/slurm.test.ts tests/distributed/slurm.test.ts

# Plant mistakes in methods, layers and training, and check that the named tests find each
check-mutations: setup
	@node tools/mutations.mjs

# More than 1,000,000 edits within certificates of random models, and as many within those of MiniLM
# (CERTIFICATE_EDITS): none may change a prediction; planted mistakes must be found
check-certificates: export TEMPER_LONG := 1
check-certificates: setup
	@node_modules/.bin/vitest run tests/proofs/certificates
	@node tools/certificates/check.mjs

# Compare 20,000 texts per family with transformers (needs a Python that has it) and 100,000 with
# the package
check-tokenizers: export TEMPER_CHECK_TOKENIZERS := $(or $(TEMPER_PYTHON),python3)
check-tokenizers: setup
	@node_modules/.bin/vitest run tests/text/transformers.test.ts tests/text/parity.test.ts tests/models/save-tokenizer.test.ts

# Compare the folders that push uploads, of every family, tokenization and head, in transformers,
# transformers.js and ONNX Runtime (TEMPER_PYTHON has transformers)
check-pushed: setup
	@node tools/check-pushed.mjs $(FAMILIES)

# Compare every stack in 2 and 3 processes with one process, and resume after a kill
check-distributed: export TEMPER_LONG := 1
check-distributed: setup
	@node_modules/.bin/vitest run tests/distributed

##@ Bench

bench: setup ## measure the engine, and compare it with PyTorch if a Python has it
	@node tools/bench/engine.mjs

# This benchmark needs published datasets. Set TEMPER_DATA and PEERS if they are in other folders.
bench-attacks: export TEMPER_DATA := $(or $(TEMPER_DATA),../shared/data)
bench-attacks: export PEERS := $(or $(PEERS),../shared/peers)

bench-attacks: setup ## compare PWWS and the genetic attack with TextAttack, in every precision of the CPU
	@node tools/bench/attacks.mjs

bench-gpu: setup ## measure training steps and attack batches on a GPU, and compare them with PyTorch
	@node tools/gpu/bench.mjs

# Measure a training step of each method, as a multiple of a standard step
bench-methods: setup
	@node tools/bench/methods.mjs

##@ Docs

docs: setup ## build the documentation site and the API reference into build/docs
	@npm ci --silent --prefix docs
	@node tools/docs/reference.mjs
	@npm run --silent --prefix docs build
	@npm run --silent docs

# Draw the pictures of README and docs (RUNS=a folder with finished and attacked runs), or all pages into a folder (ALL=…)
pictures: setup
	@node tools/pictures.mjs $(RUNS) $(ALL)

##@ Release

# Train the filters of `make try` again, into packages/temper-nlp-demo/filters (5 minutes)
filters: setup
	@node scripts/make-filters.mjs

prebuilt: setup ## build the packages to publish into build/prebuilt
	@node scripts/make-prebuilt.mjs

release-check: prebuilt ## check versions, changelog, workflow, packed files and types, and run npx temper-nlp from them
	@node scripts/release-check.mjs

# Install and run the packed package in an empty folder, without a compiler
package-check: prebuilt
	@node scripts/package-check.mjs

# BUNDLE="--model DIR --data DIR --part-size MB"
gpu-bundle: setup ## build one archive that runs on an offline GPU host without Node
	@node tools/gpu/bundle.mjs $(BUNDLE)

# Install the packed package in an empty folder without Python, compilers and libtorch, attack an
# exported model, and measure size and time
package-check-onnx: packages build/dist.stamp
	@node scripts/make-prebuilt.mjs --without-addon
	@node scripts/package-check.mjs --onnx
