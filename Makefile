# The README's two commands are `make demo` and `make test`; each does all of its own set-up.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CLUSTER := tests/cluster

.PHONY: demo test lint unit gpu doctor cluster cluster-down bench dist clean

# Made once, and again when what it is made from changes.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --require-hashes -r constraints.txt
	$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	@touch $@

# The main job on one machine, with no cluster and no GPU: two processes by torchrun, an all-reduce between them.
demo: $(VENV)/.installed
	@$(BIN)/python -c 'import torch' 2> /dev/null || { echo "installing torch (several GB, once)"; $(BIN)/python -m pip install -q torch numpy; }
	$(BIN)/k8sel run --plan examples/hello.yaml

test: lint unit

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto --dist loadgroup $(PYTEST_ARGS)

# What needs a real NVIDIA GPU; a skipped test is a failure. K8SEL_RECORD_GPU=1 writes what came true to docs/hardware.json.
gpu: $(VENV)/.installed
	K8SEL_REQUIRE_GPU=1 $(BIN)/python -m pytest -m gpu tests/gpu $(PYTEST_ARGS)

# A real Kubernetes node on this machine, with fake GPUs, to try `k8sel apply` on (tests/cluster/README.md).
cluster: doctor $(VENV)/.installed
	@$(CLUSTER)/build
	@$(CLUSTER)/images
	@PYTHON=$(BIN)/python $(CLUSTER)/torch
	@$(CLUSTER)/up --keep
	@echo "next: k8sel apply --wait $(CLUSTER)/job.yaml   (or kubectl; its own is in $${K8SEL_TEST_CACHE:-~/.cache/k8sel-testbed}/bin)"
	@echo "at the end: make cluster-down"

# Names everything that `make cluster` needs and this machine lacks, before anything is installed.
doctor:
	@$(CLUSTER)/doctor

cluster-down:
	@$(CLUSTER)/down

bench: $(VENV)/.installed
	$(BIN)/python bench/render.py
	$(BIN)/python bench/entrypoint_start.py

# Wheel, sdist, zipapp, chart, and the images where a Docker daemon answers.
dist: $(VENV)/.installed
	$(BIN)/python release/build.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
