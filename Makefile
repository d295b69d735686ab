# Every target makes .venv by itself when it is missing or older than pyproject.toml / constraints.txt.
#
#   make demo [DATA=path]   a first run from nothing: policies against the optimum, into results/demo
#   make test               the tests without their slow part; examples in docstrings and docs are tests too
#   make slow               the slow part
#   make claims             every claim with its mutants: pytest theory/ --mutants
#   make mutants            faults put into solvers and checkers by hand: is each one noticed?
#   make lint               ruff and mypy
#   make wheel              build the wheel and try it in a fresh environment elsewhere
#   make bench              speed against what one would otherwise use; BENCH_ARGS="--fast --only optimum"
#   make figures            the figures of README and docs
#   make proofs             machine-checked files (Coq), steps of written proofs, SMT scripts
#   make clean              remove .venv and everything else that can be made again

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo test slow claims mutants lint types wheel bench figures proofs clean

VENV ?= .venv
BIN := $(VENV)/bin
PACKAGES := softhit offline_opt adversaries theory softhit_lab
# `make test` uses all cores, the others one process; PYTEST_ARGS="-n 4", "-n 0" or a file name narrows or widens it.
PYTEST_ARGS ?=
BENCH_ARGS ?=
# -j 2 for two processes, -k TEXT for faults whose id or file contains it.
MUTANTS_ARGS ?=
DATA ?=

# The first interpreter that is new enough; PYTHON=... overrides.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo "$$p"; break; }; done)

help:
	@sed -n '/^#   make/s/^# //p' Makefile

# Two levels in one environment: .core is what a user installs, .dev adds all that tests and lint need.
$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "softhit needs Python 3.11 or newer; found: $$(python3 --version 2>/dev/null || echo no python3)." \
		"Install one, or name it: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "softhit needs Python 3.11 or newer; $(PYTHON) is $$("$(PYTHON)" --version 2>&1)." >&2; exit 1; }
	@"$(PYTHON)" -m venv "$(VENV)" || { rm -rf "$(VENV)"; \
		echo "$(PYTHON) cannot make a virtual environment (on Debian: apt-get install python3-venv)." >&2; exit 1; }
	@touch $@

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(VENV)/.core $@

venv: $(VENV)/.dev

demo: $(VENV)/.core
	$(BIN)/softhit demo $(if $(DATA),--data "$(DATA)")

test: $(VENV)/.dev
	$(BIN)/python -m pytest $(or $(PYTEST_ARGS),-n auto)

slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow --durations=10 $(PYTEST_ARGS)

claims: $(VENV)/.dev
	$(BIN)/python -m pytest theory --mutants $(PYTEST_ARGS)

mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutants $(MUTANTS_ARGS)

lint: types
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy

wheel: $(VENV)/.dev
	VENV="$(abspath $(VENV))" bash .ci/wheel

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks -o results/bench/bench.json $(BENCH_ARGS)

figures: $(VENV)/.core
	$(BIN)/softhit figures -o docs/img

# The files for Coq need coqc; the rest of the evidence runs without it.
proofs: $(VENV)/.dev
	@if ! ls proofs/*.v >/dev/null 2>&1; then echo "proofs/ holds no file for Coq"; \
	elif command -v coqc >/dev/null; then $(MAKE) -C proofs; \
	else echo "SKIPPED: proofs/*.v, because coqc is not installed (on Debian: apt-get install coq coinor-csdp)"; fi
	$(BIN)/python -m theory.steps proofs
	$(BIN)/python -m theory.smt --check proofs/smt

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find $(PACKAGES) tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
