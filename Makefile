# make demo   set up, then train all four methods and draw their convergence
# make test   set up, lint, check types, run the tests
# make bench  set up with LightGBM, then compare speed
# make bench-tables DATA=folder  compare test losses on real tables (see benchmarks/tables_vs_peers.py for the files)
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SET_UP := $(VENV)/.set-up
NATIVE := CMakeLists.txt pyproject.toml $(wildcard native/*)

.PHONY: demo test lint bench bench-tables clean

demo: $(SET_UP)
	$(BIN)/python examples/demo.py

test: $(SET_UP) lint
	$(BIN)/python -m pytest

lint: $(SET_UP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(SET_UP)
	$(BIN)/pip install -q --no-build-isolation -e '.[bench]'
	$(BIN)/python benchmarks/tree_vs_lightgbm.py
	$(BIN)/python benchmarks/import_time.py

bench-tables: $(SET_UP)
	$(BIN)/pip install -q --no-build-isolation -e '.[bench]'
	$(BIN)/python benchmarks/tables_vs_peers.py $(DATA)

# An editable install: Python files are used where they are; only a change of the native part or of the set-up builds anew.
$(SET_UP): $(NATIVE) | $(BIN)/ninja
	$(BIN)/pip install -q --no-build-isolation -e '.[test]'
	touch $@

$(BIN)/ninja:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q 'scikit-build-core>=0.11' 'nanobind>=2.8' 'cmake>=3.26' ninja
	touch -c $@

clean:
	rm -rf $(VENV) build
