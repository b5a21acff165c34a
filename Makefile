# Every target first sets up what it needs; doing so again when nothing changed takes about a second.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup setup-locked packages addon test test-slurm lint bench bench-train bench-attacks demo package-check test-libtorch-debian clean FORCE bench-methods bench-gpu check-gpu gpu-bundle

sources := $(shell find src -name '*.ts' 2>/dev/null)
compiled := $(patsubst src/%.ts,dist/%.js,$(filter-out %.d.ts,$(sources)))

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# One set-up at a time: the lock goes with the process that holds it, however that ends.
setup: ## find or install libtorch, install npm packages, build the addon and the TypeScript
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || { echo "Temper needs Node.js 20 or newer (nodejs.org) on PATH" >&2; exit 1; }
	@mkdir -p build && flock build/setup.lock $(MAKE) --no-print-directory setup-locked

setup-locked: addon build/dist.stamp

packages:
	@node scripts/packages.mjs

addon: packages
	@node scripts/setup/setup.mjs $(SETUP_FLAGS)

# A compiled file that is missing calls for a new build as much as a changed source does; files of sources that are gone go too.
build/dist.stamp: $(sources) package-lock.json tsconfig.json tsconfig.build.json $(if $(filter-out $(wildcard $(compiled)),$(compiled)),FORCE) | packages
	@rm -rf dist build/dist.tsbuildinfo
	@npm run --silent build
	@touch $@

FORCE:

test: setup ## run the test suite (no GPU needed)
	@node_modules/.bin/vitest run

test-slurm: export TEMPER_TEST_SLURM := 1
test-slurm: setup ## run sweeps on a real Slurm cluster on this host (installs Slurm, as root)
	@node scripts/slurm-cluster.mjs node_modules/.bin/vitest run tests/sweeps/slurm.test.ts

lint: packages ## formatter, linter and type checker, with zero warnings
	@npm run --silent lint
	@npm run --silent check

bench: setup ## measure the engine, beside PyTorch where a Python has it
	@node scripts/bench/main.mjs

bench-train: setup ## fine-tune MiniLM on SST-2 beside a plain loop of transformers: speed and accuracy (ten minutes on two cores)
	@node scripts/bench/train.mjs

bench-attacks: setup ## PWWS and the genetic attack beside TextAttack: speed, and what is left of accuracy
	@node scripts/bench/attacks.mjs

bench-methods: setup ## what an update of each method costs, as a multiple of standard's
	@node scripts/bench/methods.mjs

bench-gpu: setup ## training steps and attack batches on a GPU, beside PyTorch where a Python has it
	@node scripts/gpu/bench.mjs

check-gpu: setup ## what must hold on a GPU: recorded = eager, GPU = CPU, flat memory, halving, killed and resumed
	@node scripts/gpu/check.mjs

gpu-bundle: setup ## one archive that runs on an offline GPU host without Node (BUNDLE="--model DIR --data DIR --part-size MB")
	@node scripts/gpu/bundle.mjs $(BUNDLE)

demo: setup ## train, attack and report on data that npm brings along
	@node scripts/demo.mjs $(if $(FRESH),--fresh)

package-check: setup ## pack the package, install it in an empty folder and run it from there
	@node scripts/package-check.mjs

test-libtorch-debian: export TEMPER_BUILD := build/debian
test-libtorch-debian: export SETUP_FLAGS := --system
test-libtorch-debian: setup ## run the test suite on Debian's libtorch 1.13 (installs it, as root)
	@node_modules/.bin/vitest run

clean: ## remove what was built; what was installed (node_modules, .venv, .torch) stays
	rm -rf build dist coverage
