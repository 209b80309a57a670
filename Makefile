# Every target sets up what it needs in .venv, from nothing but Python, make and a C compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt
SOURCES := pyproject.toml setup.py constraints.txt $(wildcard src/adamomentum/torch/_cpu*.[ch])
# One thread per test process: two pools on the same cores slow torch down many times. A module's
# tests stay in one process, so that their fixtures are made once.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(or $(JOBS),2) --dist loadscope

.PHONY: help install race lint check test test-all fuzz bench results docs clean

help:
	@echo "make race      race eight optimizers on an embedded problem"
	@echo "make check     lint, types and the fast tests"
	@echo "make test      lint, types and all tests but full grids and the longest ones"
	@echo "make test-all  these too"
	@echo "make fuzz      10,000 random steps of the native kernel under sanitizers"
	@echo "make bench     step time and memory beside torch.optim.Adam"
	@echo "make results   tables and pages of results, from the records in results/"
	@echo "make docs      the documentation, in site/"
	@echo "make install   the environment of the above, in $(VENV)"
	@echo "make clean     remove what these made"

# The lab alone: what `make race` and `make bench` need.
$(VENV)/lab: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch -e '.[lab]'
	@touch $@

install: $(VENV)/installed

$(VENV)/installed: $(VENV)/lab
	$(PIP) -e '.[optax,keras,ray,dev]'
	@touch $@

$(VENV)/installed-docs: $(VENV)/installed
	$(PIP) -e '.[docs]'
	@touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint
	$(PYTEST) -m "not slow and not full"

test: lint
	$(PYTEST) -m "not full"

test-all: lint
	$(PYTEST)

race: $(VENV)/lab
	$(BIN)/adamomentum race digits_cnn

# Under sanitizers, with each of gcc, gcc-11 and clang that is installed.
fuzz: install
	$(BIN)/python -m tools.fuzz

bench: $(VENV)/lab
	$(BIN)/adamomentum bench

results: install
	$(BIN)/python -m adamomentum_paper.claims.page
	$(BIN)/python -m tools.blocks

docs: $(VENV)/installed-docs
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) site build dist src/*.egg-info src/adamomentum/torch/*.so .mypy_cache .pytest_cache .ruff_cache .hypothesis
