# Everything a newcomer needs; `make help` lists it. Each target sets up what it uses.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ASAN := build/asan
WHEEL := build/wheel
STAMP := $(VENV)/.built
TESTS := $(VENV)/.installed
ENGINES := $(VENV)/engines
PAGE := tests/page
PAGE_TOOLS := $(VENV)/page
PAGE_STAMP := $(PAGE_TOOLS)/.installed
SOURCES := $(shell find csrc -name '*.[ch]' -not -path '*/tests/*' -not -path '*/fuzz/*') $(filter-out %.pyi,$(wildcard fastprof/_native/*.p*))
MODULES := $(patsubst fastprof/_native/%.pyx,fastprof._native.%,$(wildcard fastprof/_native/*.pyx))

# Keep compiled test files: otherwise each pytest process rewrites the asserts of all of them.
export PYTHONDONTWRITEBYTECODE :=

CORES := $(shell getconf _NPROCESSORS_ONLN)
# What targets say comes whole, one target after the other; older makes mix it.
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

.PHONY: help build tools demo test test-quick test-all before-unit check lint core types stubs format unit page bench fuzz asan asan-native wheel docs site clean test-engines
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("fastprof needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml setup.py $(SOURCES) | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --group build
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable .
	touch $@

$(TESTS): pyproject.toml | $(STAMP)
	$(BIN)/python -m pip install --quiet --group test
	touch $@

$(PAGE_STAMP): $(PAGE)/package-lock.json | $(TESTS)
	mkdir -p $(PAGE_TOOLS)
	cp $(PAGE)/.npmrc $(PAGE)/package.json $(PAGE)/package-lock.json $(PAGE_TOOLS)
	PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --silent --prefix $(PAGE_TOOLS)
	touch $@

build: $(STAMP) ## make .venv and build the package in place
tools: build $(TESTS) # what tests, checks and benchmarks need beside the package

demo: build ## answer questions about captures of this repository; the last lines say where to go on
	$(BIN)/python -m demo

test: ## everything that CI runs: what takes one core side by side, then the tests that take all
	$(MAKE) --no-print-directory --jobs=$(CORES) $(SYNC) before-unit
	$(MAKE) --no-print-directory unit

# Of each part what is quick; a change of a part has its own folder of tests beside it.
QUICK := $(addprefix tests/, test_layers.py test_words.py test_session.py test_event_table.py test_patterns.py \
  test_array_rows.py op_metrics timeline serving communication render causes/test_event_origin.py \
  steps/test_across_hosts.py analyses/test_steps.py analyses/test_diagnosis.py traces/test_hard_cases.py \
  hlo/test_hlo_cost.py viewer/test_store.py)

test-quick: tools ## tests of all parts that answer in a minute
	$(BIN)/python -m pytest -q -n auto --dist loadfile --benchmark-disable $(QUICK)

test-all: ## all that the gate leaves out too: further seeds, captures and cases, and what takes long
	FASTPROF_TEST_ALL=1 $(MAKE) --no-print-directory test

before-unit: core types asan-native stubs lint page

unit: tools # compiled first: tests start many processes
	$(BIN)/python -m compileall -q fastprof
	$(BIN)/python -m pytest -n auto --dist loadfile --benchmark-disable

page: tools ## unit tests of the page's modules, in the Node of .venv
	$(BIN)/node --disable-warning=MODULE_TYPELESS_PACKAGE_JSON --test "$(PAGE)/*.test.js"

format: $(PAGE_STAMP) ## rewrite Python and JavaScript in the one style
	$(BIN)/ruff format .
	$(BIN)/node $(PAGE)/format.js

types: tools
	$(BIN)/mypy

stubs: tools
	$(BIN)/stubtest --mypy-config-file tests/native/stubtest.toml $(MODULES)

check: types stubs lint ## lint, types, stubs, layers, budget
	$(BIN)/python -m pytest -q tests/test_layers.py tests/test_budget.py

lint: build $(PAGE_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/node $(PAGE)/format.js --check
	$(BIN)/oxlint --config $(PAGE)/oxlint.json --deny-warnings fastprof/viewer/static $(PAGE)

asan: ## the C core's own tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(MAKE) -C csrc test

# Both in one make: they are built from the same objects. After the corpus, more copies of the real capture reach no
# further line of the core, and each takes 4 ms.
core:
	$(MAKE) -C csrc fuzz test COUNT=$(if $(FASTPROF_TEST_ALL),10000,1000) REAL_COUNT=$(if $(FASTPROF_TEST_ALL),1000,200)

asan-native: tools ## what the native modules do with arrays that do not fit, under the sanitizers
	FASTPROF_SANITIZE=1 $(BIN)/python setup.py -q build --build-base $(ASAN)
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
	  PYTHONPATH="$$(echo $(ASAN)/lib.*)" $(BIN)/python -P -m pytest -q -s tests/native/test_border.py

fuzz: build ## replay the fuzz corpora and 10,000 damaged captures under the sanitizers
	$(MAKE) -C csrc fuzz

wheel: tools ## a manylinux wheel and a source distribution in dist, the wheel tried in an environment of its own
	$(BIN)/python -m pip install --quiet --group wheel
	rm -rf build/lib* build/bdist* $(WHEEL) dist
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(WHEEL) .
	$(BIN)/python -m build --sdist --no-isolation --outdir dist .
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist $(WHEEL)/*.whl
	$(PYTHON) -m venv $(WHEEL)/try
	$(WHEEL)/try/bin/pip install --quiet dist/*.whl
	$(WHEEL)/try/bin/python -P -c "import fastprof; print(fastprof.load('demo/logdir').events.num_rows, 'events')"
	ls -l dist

$(ENGINES)/.installed: | $(TESTS)
	$(BIN)/python -m venv $(ENGINES)
	{ echo "$(CURDIR)"; $(BIN)/python -c 'import site; print(site.getsitepackages()[0])'; } \
	  > "$$($(ENGINES)/bin/python -c 'import site; print(site.getsitepackages()[0])')/fastprof.pth"
	$(ENGINES)/bin/python -m pip install --quiet --upgrade pip
	$(ENGINES)/bin/python -m pip install --quiet --group engines
	PATH="$(CURDIR)/$(BIN):$$PATH" npm install --silent --ignore-scripts --prefix $(ENGINES)/azurite azurite@3
	touch $@

test-engines: build $(ENGINES)/.installed ## Dask, loky, MPI, Ray, Spark, stores and warehouses, in an environment of its own (2 GB; Spark needs Java)
	PATH="$(CURDIR)/$(ENGINES)/azurite/node_modules/.bin:$(CURDIR)/$(BIN):$$PATH" \
	  $(ENGINES)/bin/python -m pytest -p no:xdist --benchmark-disable tests/other_engines

bench: tools ## measure against rivals, half an hour; writes docs/benchmarks.md
	$(BIN)/python benchmarks/run.py

docs: build ## rewrite what follows from the schema and from the registry of analyses
	$(BIN)/python docs/write_tables.py
	$(BIN)/python docs/write_analyses.py

site: build ## the docs as a site in build/site, with screenshots; links are checked
	$(BIN)/python -m pip install --quiet --group site
	$(BIN)/python docs/take_screenshots.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

clean: ## remove what was built
	rm -rf build dist demo-out demo-dataset $(VENV) fastprof/_native/*.so *.egg-info
