# make demo   set up, then train the paper's four methods and the default, and draw their convergence
# make test   set up, lint, check types, run the tests; with AGBM_DATA=folder also those that need LIBSVM's files
# make paper  set up, rerun the experiments of the paper, write out/paper/index.html; AGBM_DATA=folder as above
# make bench  set up with other libraries, compare speed, write docs/benchmarks.md; DATA=folder adds the data sets (see
#             benchmarks/speed.py for the files)
# make bench-quick    the same in a minute on small tables, to see that all of it runs
# make bench-kernels  what the native kernels reach of the limits of the machine
# make bench-trees DATA=folder   trees and seconds that the default needs for the loss of others (benchmarks/trees_to_match.py)
# make bench-ablation DATA=folder  what each part of the default is worth (benchmarks/ablation.py)
# make bench-tables DATA=folder  compare test losses on real tables (see benchmarks/tables_vs_peers.py for the files)
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SET_UP := $(VENV)/.set-up
BENCH_SET_UP := $(VENV)/.set-up-bench
# Data sets beside the checkout are used where there are some.
AGBM_DATA ?= $(abspath $(wildcard ../shared/data))
export AGBM_DATA
NATIVE := CMakeLists.txt pyproject.toml $(wildcard native/*)

.PHONY: demo test lint paper bench bench-quick bench-kernels bench-tables bench-trees bench-ablation clean

demo: $(SET_UP)
	$(BIN)/python examples/demo.py

test: $(SET_UP) lint
	$(BIN)/python -m pytest

lint: $(SET_UP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

paper: $(SET_UP)
	$(BIN)/agbm paper all --out out/paper

bench: $(BENCH_SET_UP) bench-kernels
	$(BIN)/python benchmarks/speed.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/report.py out/bench/speed.json
	$(BIN)/python benchmarks/import_time.py

bench-quick: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/speed.py --quick --out out/bench-quick $(if $(DATA),--data $(DATA))

bench-kernels: benchmarks/kernels.cpp $(wildcard native/*.hpp)
	mkdir -p out/bench
	$(CXX) -std=c++20 -O3 -ffp-contract=off -Wall -Wextra -Inative -pthread benchmarks/kernels.cpp -o out/bench/kernels
	out/bench/kernels out/bench/kernels.json

bench-tables: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/tables_vs_peers.py $(DATA)

bench-trees: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/trees_to_match.py --data $(DATA) --rows 100000

bench-ablation: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/ablation.py --data $(DATA)

$(BENCH_SET_UP): $(SET_UP)
	$(BIN)/pip install -q --no-build-isolation -e '.[bench]'
	touch $@

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
