# From a bare clone: each target makes a virtual environment, installs what it needs and builds first. `make help`.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VENV ?= .venv
PYTHON ?= $(shell .ci/find-python)
ARGS ?=
WORKERS ?= auto

export ZVCORE_REQUIRE_NATIVE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

py := $(VENV)/bin/python
stamps := $(VENV)/.zvcore
compiled := $(shell find zvcore plugins -name '*.pyx' -o -name '*.pxd' -o -name '*.h' -o -name '*.c')

.PHONY: arm docs native modules structure s3-server store-emulators browser-test zarr-suite vectors-suite fuzz-build bench-pytest faults leaks soak help venv build demo test test-all coverage bench bench-smoke fuzz fuzz-corpus wheel pythons lint types sanitize clean numcodecs-suite bench-check
help:
	@echo 'make demo       a volume through all four formats, verified, broken, measured; leaves demo-out/'
	@echo 'make test       the tests of what is written here, in two minutes (ARGS="-k codec -x" goes to pytest)'
	@echo 'make test-all   all tests: with servers, processes, and other implementations beside ours'
	@echo 'make coverage   all tests, and which lines of Python they reach'
	@echo 'make zarr-suite zarr-python''s own tests with the pipeline of zvcore'
	@echo 'make vectors-suite  zarr-vectors''s own tests with the encoders of zvcore'
	@echo 'make browser-test Neuroglancer in Chromium looks at what zvcore serve offers (fetches both; docs/serve.md)'
	@echo 'make numcodecs-suite  numcodecs'' fixtures through the codecs of zvcore'
	@echo 'make bench      benchmarks beside other implementations, into bench/RESULTS.md (BENCH_SECONDS=360, ARGS="--suite n5")'
	@echo 'make bench-check  has anything become slower than bench/baseline.json says?'
	@echo 'make s3-server  a complete S3 server for the tests of object stores (needs Go; without it they use moto)'
	@echo 'make store-emulators  the tests of object stores against other servers (needs Go and npm)'
	@echo 'make native     the newest C libraries of the codecs, for every build after it (needs cargo; benchmarks and wheels use it)'
	@echo 'make wheel      a manylinux wheel in wheelhouse/, tried out in an empty environment'
	@echo 'make pythons    install the source distribution on every supported Python that is found'
	@echo 'make docs       the documentation as a site, in build/site'
	@echo 'make lint       ruff, cython-lint'
	@echo 'make structure  what imports what, how long functions are: counts beside their limits (ARGS=--all names each)'
	@echo 'make types      mypy (zvcore and bench) and pyright, and the stubs against the compiled modules'
	@echo 'make sanitize   the tests of native code under AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'make arm        the tests of native code on an aarch64 processor that qemu plays (as root, on Debian; 20 minutes)'
	@echo 'make fuzz       coverage-guided fuzzing of all parsers and decoders (MINUTES=5, TARGETS=...); needs clang'
	@echo 'make faults     kills, full disks, forks and leaks, many times (KILLS=100, FORKS=2000, TURNS=10000)'
	@echo 'make leaks      ten thousand opens, reads, failed reads, writes, conversions: memory and handles stay flat (TURNS=10000)'
	@echo 'make soak       eight processes read and write one store, every value checked (MINUTES=10)'
	@echo 'make venv       only $(VENV) with zvcore in it, editable; PYTHON=/path/to/python says which Python'
	@echo 'make clean      remove what was built'

# -- environment ----------------------------------------------------------------------------------------------------

$(stamps)/venv:
	test -n "$(PYTHON)"
	$(PYTHON) -m venv $(VENV)
	$(py) -m pip install -q --upgrade pip
	mkdir -p $(stamps)
	touch $@

# One dependency group of pyproject.toml.
$(stamps)/group-%: pyproject.toml .ci/constraints.txt $(stamps)/venv
	$(py) -m pip install -q --constraint .ci/constraints.txt --group $*
	touch $@

$(stamps)/system: setup.py .ci/system_packages.py $(stamps)/group-build
	$(py) .ci/system_packages.py
	touch $@

# Static builds of the newest C libraries of the codecs, from the sources that crates ship (native/Cargo.toml). Once they
# are there every build links them instead of the system's.
libraries := build/native/built-from
$(libraries): $(wildcard native/Cargo.* native/*.py native/*.c native/*.h)
	$(PYTHON) .ci/system_packages.py --wanted $(if $(filter x86_64,$(shell uname -m)),nasm)
	$(PYTHON) native/build.py build/native
native: $(libraries)
linked := $(if $(wildcard $(libraries))$(filter native bench bench-% wheel,$(MAKECMDGOALS)),$(libraries))
export PKG_CONFIG_PATH := $(CURDIR)/build/native/lib/pkgconfig:$(PKG_CONFIG_PATH)

# By what the sources hold, not by their dates, which say little after a checkout.
content := $(shell cat setup.py $(sort $(compiled)) | cksum | tr " " -)
$(stamps)/modules-$(content): $(stamps)/system $(linked)
	$(py) setup.py -q build_ext --inplace
	rm -f $(stamps)/modules*
	touch $@
modules: $(stamps)/modules-$(content)

$(stamps)/installed: pyproject.toml setup.py zvcore/_version.py $(stamps)/modules-$(content)
	ZVCORE_PREBUILT=1 $(py) -m pip install -q --no-build-isolation --no-deps --editable .
	touch $@

venv build: $(stamps)/installed

# -- what people run ------------------------------------------------------------------------------------------------

demo: $(stamps)/installed
	$(py) examples/demo.py demo-out $(ARGS)

# What needs no server, no other process and no other implementation: to run while you change something. Its files lie
# in memory where there is room (a third of the time was waiting for the disk); `make test-all` has them on the disk.
in_memory := $(shell [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 2000000 ] 2>/dev/null && echo /dev/shm)
test: $(stamps)/installed $(stamps)/group-test
	ZVCORE_TEST_PROFILE=zvcore-quick $(addprefix PYTEST_DEBUG_TEMPROOT=,$(in_memory)) $(py) -m pytest -o tmp_path_retention_policy=failed -n $(WORKERS) -m "not (process or network or interop or slow)" $(ARGS)

# Everything, which is what CI runs. Tests of one file stay together: they share servers and what was built for them.
test-all: $(stamps)/installed $(stamps)/group-test
	$(py) -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

coverage: $(stamps)/installed $(stamps)/group-test
	$(py) -m pytest --cov --cov-report=term --cov-report=html $(ARGS)

# Writes bench/RESULTS.md, plots and raw numbers in about BENCH_SECONDS, and reads datasets that ZVCORE_BENCH_DATA names.
BENCH_SECONDS ?= 360
bench: $(stamps)/installed $(stamps)/group-bench
	$(py) -W ignore -m bench --seconds $(BENCH_SECONDS) $(ARGS)

# One benchmark after the other under pytest-benchmark, for looking at a few of them: make bench-pytest ARGS="-k crc32c".
bench-pytest: $(stamps)/installed $(stamps)/group-bench
	$(py) -m pytest bench --benchmark-enable --benchmark-only $(ARGS)

# Chromium and Node come from the system's packages, Neuroglancer from the npm registry. docs/serve.md says how it went.
browser-test: $(stamps)/installed $(stamps)/group-test
	$(py) tests/browser/run.py

# Each benchmark once, without timing: do they still run?
bench-smoke: $(stamps)/installed $(stamps)/group-bench
	$(py) -m pytest bench $(ARGS)

# All of zarr-python's own tests but its benchmarks, from its source distribution, with our pipeline. PIPELINE= runs them
# without, for comparison. docs/interop.md says which fail and why. The plugin of npe2, which our tests of napari need,
# warns of its own pydantic, which these tests take for an error.
zarr_suite := build/zarr-suite
zarr_version = $(shell $(py) -c 'import zarr; print(zarr.__version__)')
PIPELINE ?= zvcore.zarr3.CodecPipeline
zarr-suite: $(stamps)/installed $(stamps)/group-test
	mkdir -p $(zarr_suite)
	$(py) -m pip install -q --no-deps --upgrade --target $(zarr_suite)/extra pytest-asyncio tomlkit numpydoc
	$(py) -m pip download -q --no-deps --no-binary zarr --dest $(zarr_suite) zarr==$(zarr_version)
	tar -xzf $(zarr_suite)/zarr-$(zarr_version).tar.gz -C $(zarr_suite)
	cd $(zarr_suite)/zarr-$(zarr_version) && PYTHONPATH=$(CURDIR)/$(zarr_suite)/extra \
	    $(if $(PIPELINE),ZARR_CODEC_PIPELINE__PATH=$(PIPELINE)) $(abspath $(py)) -m pytest -q -p no:npe2 --benchmark-disable \
	    -o asyncio_default_fixture_loop_scope=function -o log_cli_level=CRITICAL $(ARGS) \
	    $(or $(TESTS),tests --ignore=tests/benchmarks --ignore=tests/test_examples.py)

# The tests of zarr-vectors, from its source distribution, with our encoders, decoders and sharding swapped in. One of
# them waits for ever on machines with few cores, with or without us: all threads of its event loop wait for that loop.
vectors_suite := build/vectors-suite
vectors_version = $(shell $(py) -c 'from importlib.metadata import version; print(version("zarr-vectors"))')
vectors-suite: $(stamps)/installed $(stamps)/group-test
	mkdir -p $(vectors_suite)
	$(py) -m pip download -q --no-deps --no-binary zarr-vectors --dest $(vectors_suite) zarr-vectors==$(vectors_version)
	tar -xzf $(vectors_suite)/zarr_vectors-$(vectors_version).tar.gz -C $(vectors_suite)
	rm -rf $(vectors_suite)/run
	mkdir $(vectors_suite)/run
	cp -R $(vectors_suite)/zarr_vectors-$(vectors_version)/{tests,schema,pyproject.toml} $(vectors_suite)/run
	echo 'import zvcore.zvf; zvcore.zvf.accelerate()' >$(vectors_suite)/run/accelerated.py
	cd $(vectors_suite)/run && PYTHONPATH=. $(abspath $(py)) -m pytest -q -p no:npe2 -p accelerated $(ARGS) \
	    $(or $(TESTS),tests --ignore=tests/integration \
	    --deselect tests/test_lazy_writer.py::test_add_attribute_sync_mirror)

# The streams that each version of numcodecs has stored, from its source distribution, through our codecs.
numcodecs_suite := build/numcodecs-suite
numcodecs_version ?= 0.16.5
numcodecs-suite: $(stamps)/installed $(stamps)/group-test
	mkdir -p $(numcodecs_suite)
	$(py) -m pip download -q --no-deps --no-binary numcodecs --dest $(numcodecs_suite) numcodecs==$(numcodecs_version)
	tar -xzf $(numcodecs_suite)/numcodecs-$(numcodecs_version).tar.gz -C $(numcodecs_suite)
	$(py) -W ignore tests/interop/numcodecs_fixtures.py $(numcodecs_suite)/numcodecs-$(numcodecs_version)/fixture

# The pages of docs/ and the reference, as a site in build/site. A link that leads nowhere is an error.
docs: $(stamps)/group-docs
	NO_MKDOCS_2_WARNING=1 $(py) -m mkdocs build --strict

lint: $(stamps)/group-lint
	$(py) -m ruff check .
	$(py) -m ruff format --check .
	PATH="$(abspath $(VENV))/bin:$$PATH" $(VENV)/bin/cython-lint zvcore plugins tests

# Long functions, circles, who imports whom, who spells a format's name: counted, and held. And what threads share.
structure:
	$(PYTHON) .ci/structure.py $(ARGS)
	$(PYTHON) .ci/shared_state.py

types: $(stamps)/installed $(stamps)/group-lint $(stamps)/group-test
	$(py) -m mypy
	$(py) -m mypy tests/typing
	$(py) -m basedpyright -p tests/typing --pythonpath $(py)
	$(py) .ci/check_stubs.py

wheel: $(libraries) $(stamps)/system $(stamps)/group-wheel
	rm -rf dist wheelhouse
	find build/release/lib* -name '*.py' -delete 2>/dev/null || true
	$(py) -m build --wheel --no-isolation --outdir dist
	$(py) .ci/repair_wheel.py dist/*.whl wheelhouse
	$(py) .ci/prove_wheel.py wheelhouse

# A complete S3 server for the tests of object stores, which otherwise use moto's. Needs Go.
s3-server: build/versitygw
build/versitygw:
	mkdir -p build
	GOBIN=$(CURDIR)/build go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

# Installs servers of other kinds and runs the tests of object stores against each of them. Needs Go, Node and npm.
store-emulators: $(stamps)/installed $(stamps)/group-test
	$(py) tests/stores/emulators.py $(ARGS)

# A source distribution, installed on each Python that is found.
PYTHONS ?= 3.11 3.12 3.13
pythons: $(stamps)/system $(stamps)/group-wheel
	rm -rf dist
	$(py) -m build --sdist --no-isolation --outdir dist
	.ci/pythons dist/*.tar.gz $(PYTHONS)

# The sanitized modules lie in build/sanitize/site. The tests run in a copy, where they cannot meet the others by mistake.
kind := $(CURDIR)/build/sanitize
sanitize: $(stamps)/installed $(stamps)/group-test
	mkdir -p $(kind)/site
	find $(kind)/site -name '*.py' -delete
	ZVCORE_SANITIZE=1 $(py) setup.py -q build --build-lib $(kind)/site
	rm -rf $(kind)/run
	mkdir $(kind)/run
	cp -R pyproject.toml tests docs fuzz $(kind)/run
	cd $(kind)/run && PYTHONPATH=$(kind)/site $(CURDIR)/.ci/with-sanitizers $(abspath $(py)) -m pytest --capture=sys $(ARGS) \
	    $(or $(TESTS),tests/kernels tests/codecs tests/plugins tests/engine tests/stores tests/fuzz \
	    tests/n5 tests/zarr3 tests/precomputed tests/zvf)

# Native code built for aarch64 and tested on a processor that qemu plays, in build/arm; TESTS= says what. As root, on Debian.
arm: $(stamps)/installed
	.ci/arm build/arm -n $(WORKERS) $(ARGS) \
	    $(or $(TESTS),tests/kernels tests/codecs tests/plugins tests/engine tests/n5 tests/zarr2 tests/zarr3 tests/precomputed)

# What tests/faults does a few times in `make test`, often; as root also on a small file system that is full.
faults: $(stamps)/installed $(stamps)/group-test
	ZVCORE_FAULT_KILLS=$(or $(KILLS),100) ZVCORE_FAULT_CUTS=$(or $(CUTS),0) ZVCORE_FAULT_FORKS=$(or $(FORKS),2000) ZVCORE_FAULT_TURNS=$(or $(TURNS),10000) \
	    ZVCORE_FAULT_MOUNT=$(shell [ "$$(id -u)" = 0 ] && echo 1) \
	    $(py) -m pytest tests/faults -o faulthandler_timeout=7200 --durations=10 $(ARGS)

# Of `make faults` the leaks alone.
leaks: $(stamps)/installed $(stamps)/group-test
	ZVCORE_FAULT_TURNS=$(or $(TURNS),10000) $(py) -m pytest tests/faults/test_leaks.py -s -o faulthandler_timeout=7200 \
	    --durations=10 $(ARGS)

soak: $(stamps)/installed $(stamps)/group-test
	$(py) -W ignore -m tests.faults.soak --minutes $(or $(MINUTES),10)

# Compares with bench/baseline.json: ratios taken in one run, and instruction counts of kernels. ARGS=--update replaces it.
bench-check: $(stamps)/installed $(stamps)/group-bench
	$(py) -W ignore -m bench.check $(ARGS)

# Modules with coverage for libFuzzer and both sanitizers. What is found lies in build/fuzz/findings; docs/fuzzing.md.
fuzzer := $(CURDIR)/build/fuzzer/site
fuzz-build: $(stamps)/installed $(stamps)/group-fuzz
	command -v clang >/dev/null || { echo 'fuzzing needs clang (Debian package clang)' >&2; exit 1; }
	mkdir -p $(fuzzer)
	find $(fuzzer) -name '*.py' -delete
	CC=clang CFLAGS=-w ZVCORE_SANITIZE=fuzzer $(py) setup.py -q build --build-lib $(fuzzer)

fuzz: fuzz-build
	$(py) -m fuzz.session --site $(fuzzer) --minutes $(or $(MINUTES),5) $(TARGETS)

# Reduces what sessions have gathered to the fewest inputs that reach the same, and puts those into fuzz/corpus.
fuzz-corpus: fuzz-build
	$(py) -m fuzz.session --site $(fuzzer) --save $(TARGETS)

clean:
	rm -rf build dist wheelhouse *.egg-info .coverage* htmlcov .mypy_cache .ruff_cache .pytest_cache demo-out
	find zvcore plugins -name '*.so' -delete
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
	rm -rf $(stamps)
