# Needs python3 (3.11 or newer), a C++17 compiler and make. Everything else comes from PyPI, pinned by hash in
# requirements/, and lives in .venv/ and build/.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# A package of the caller's must not stand in for the one that is built here.
unexport PYTHONPATH

SOURCES := $(shell find CMakeLists.txt pyproject.toml README.md LICENSE cmake mlir_passes python -type f \
	-not -path '*/__pycache__/*' -not -path '*/_bin/*' -not -path '*/_lib/*')
# The stamp carries the list of files, so that a deleted one counts as a change.
INSTALLED = $(VENV)/.installed-$(shell echo $(sort $(SOURCES)) | cksum | cut -d' ' -f1)
CPP := $(filter %.cpp %.h,$(SOURCES))

# The best recipe of stock passes; any mlir-opt gives the same.
STOCK = $(BIN)/qtranspose-opt --linalg-generalize-named-ops --linalg-fold-unit-extent-dims --linalg-fuse-elementwise-ops \
	--canonicalize --cse

.PHONY: help build demo test lint format docs bench bench-left fuzz hostile lock clean
.DEFAULT_GOAL := help

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

build: $(INSTALLED) ## Install into .venv: .venv/bin/qtranspose and .venv/bin/qtranspose-opt.

demo: build ## Build, then optimize and run the example layers: transposes, bytes, error, time before and after.
	@$(BIN)/python examples/demo.py

test: build $(VENV)/.dev-deps ## Build, then run the whole test suite (lit and pytest).
	@$(BIN)/python -m pytest -m ''

lint: $(VENV)/.build-deps $(VENV)/.dev-deps ## Check formatting, types and that the generated docs are current.
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(CPP)
	$(BIN)/python docs/generate.py --check

format: $(VENV)/.dev-deps ## Format all sources.
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(CPP)

docs: $(VENV)/.build-deps ## Regenerate the pages of docs/ that are made from the sources.
	$(BIN)/python docs/generate.py

bench: build $(VENV)/.bench-deps .venv-peers/.installed ## Measure weight traffic, pipeline time, and CPU kernels beside other engines.
	$(BIN)/python benchmarks/coverage.py test/Inputs --rival '$(STOCK) {in} -o {out}'
	$(BIN)/python benchmarks/llama.py
	$(BIN)/python benchmarks/cpu.py --peers .venv-peers/bin/python --json benchmarks/results/cpu.json --plot docs/cpu.svg

bench-left: build $(VENV)/.bench-deps ## Measure what moving a weight from the left to the right costs and gives, by size.
	$(BIN)/python benchmarks/left.py --json benchmarks/results/left.json --plot docs/left.svg

fuzz: build $(VENV)/.dev-deps ## Run N random programs (make fuzz N=1000 SEED=0) before and after every pipeline and compare.
	cd test && ../$(BIN)/python -m fuzz.run --cases $(or $(N),1000) --seed $(or $(SEED),0) --log ../docs/fuzz-log.jsonl \
	  --findings ../build/fuzz

hostile: build $(VENV)/.dev-deps ## Run N damaged modules, pipelines, archives and encodings (make hostile N=1000 SEED=0).
	cd test && ../$(BIN)/python -m hostile.run --cases $(or $(N),1000) --seed $(or $(SEED),0) \
	  --log ../docs/hostile-log.jsonl

lock: ## Regenerate requirements/*.txt from requirements/*.in (needs uv on PATH).
	for name in build dev bench; do (cd requirements && UV_CUSTOM_COMPILE_COMMAND='make lock' uv pip compile --quiet --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url $$name.in --output-file $$name.txt) || exit 1; done

clean: ## Remove everything that make made.
	rm -rf $(VENV) .venv-peers build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.%-deps: requirements/%.txt | $(VENV)/bin/python
	@echo "Installing requirements/$*.txt into $(VENV)"
	@$(PIP) install --require-hashes --only-binary :all: -r $<
	@touch $@

# The engines that `make bench` compares with have an environment of their own.
.venv-peers/.installed: requirements/peers.txt
	@$(PYTHON) -m venv .venv-peers
	@.venv-peers/bin/python -m pip --disable-pip-version-check --quiet install --only-binary :all: -r $<
	@touch $@

$(INSTALLED): $(SOURCES) $(VENV)/.build-deps
	@echo "Building and installing qtranspose into $(VENV)"
	@$(PIP) install --no-build-isolation --no-deps --force-reinstall .
	@rm -f $(VENV)/.installed-* && touch $@
