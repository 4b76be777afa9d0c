# The commands to know: run, smoke, test, drills, test-engines, test-frameworks, lint, docs-check, man, package-check,
# bench, compiled, wheel, memory, clean. `make` alone lists them.
# Two environments, each renewed only when setup.cfg changed: .venv for running, with the `test` extra on top for tests.
# What runs Blazar to be used or measured runs its compiled form, if there can be one; COMPILED=0 says no.

# The system's own Python, where it can make .venv and compile for it: it is built with every optimization, which one that
# stands before it on PATH often is not, and then a request costs a seventh more.
FIT := import ensurepip, os, sys, sysconfig as built; \
	sys.exit(sys.version_info < (3, 11) or not os.path.exists(built.get_path("include") + "/Python.h"))
PYTHON ?= $(shell /usr/bin/python3 -c '$(FIT)' 2>/dev/null && echo /usr/bin/python3 || echo python3)
BIN := .venv/bin
DEBIAN_PYTHON ?= /usr/bin/python3
COMPILED ?= 1
COMPILER := $(if $(filter-out 0,$(COMPILED)),$(shell command -v cc))

.PHONY: help run smoke test drills test-venv test-debian test-engines test-frameworks lint docs-check man package-check bench \
	bench-quick bench-cost bench-soak compiled wheel memory soak clean

help:
	@echo 'make run         install into .venv, start Blazar with a small model, show one answer, keep serving'
	@echo 'make smoke       every dialect against the real model, compared with the engine itself'
	@echo 'make test        the whole suite, with packages from PyPI and with those of Debian 12'
	@echo 'make drills      kills, full disks, turned clocks, crowds, on this end alone; DRILLS=10 for more rounds of kills'
	@echo 'make test-engines  build llama.cpp once, for the tests of its tools: 10 minutes and more'
	@echo 'make test-frameworks  LangChain, llm and LiteLLM as clients, in a place of their own: a few minutes the first time'
	@echo 'make lint        ruff and mypy'
	@echo 'make docs-check  are the generated pages as the code has them?'
	@echo 'make man         the manual pages, build/blazar.1 and build/blazar-config.5'
	@echo 'make package-check  build the Debian package, and install, use, upgrade and purge it in a clean Debian 12; as root'
	@echo 'make bench       measure beside nginx, HAProxy and Go: 20 minutes; writes docs/performance.md'
	@echo 'make bench-quick the same in 4 minutes, beside nginx and Go alone; writes no page'
	@echo 'make bench-cost  CPU time of each stage of a hot request'
	@echo 'make bench-soak  the memory of the worker after a million requests; SOAK="--requests N --streams N" shortens it'
	@echo 'make compiled    compile the hot path, as `make run` and `make bench` do by themselves (COMPILED=0 says no)'
	@echo 'make wheel       a wheel with the hot path compiled, for this Python, in dist/'
	@echo 'make memory      plans of memory beside what engines log and hold, as tables: some minutes, after test-engines'
	@echo 'make soak        10 minutes of load, kills and leaving clients; SOAK="--minutes N --seed N --transport unix"'
	@echo 'make clean       remove .venv and what tools leave behind'

# `python -P` looks for Blazar in the compiled form first, and takes the sources where there is none.
AT_BEST := PYTHONPATH=$(if $(filter-out 0,$(COMPILED)),$(CURDIR)/build/compiled:)$(CURDIR) $(BIN)/python -P

run: compiled
	@$(AT_BEST) tools/demo.py

smoke: .venv/.installed
	@$(BIN)/python tools/smoke.py

# What takes long and has nothing to do with the packages runs on one end: `slow` here, `debian` there, if there is one.
HERE := $(if $(wildcard $(DEBIAN_PYTHON)),not debian)

# Both ends wait for processes more than they compute, so they run side by side; each is shown when it is done.
test: .venv/.tested
	@echo 'the suite with packages from PyPI and with those of Debian, at once: some minutes; `make test-venv` shows more'
	@$(MAKE) --no-print-directory -j2 --output-sync=target test-venv test-debian

# Some limits of time can be missed on a busy machine alone: what fails is tried once more, by itself, and both are shown.
test-venv: .venv/.tested build/npm/.installed
	$(BIN)/python -m pytest -m '$(HERE)' -n 2 --dist loadfile --durations=25 -o cache_dir=build/cache-venv || { echo 'once more what failed:'; \
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none -o cache_dir=build/cache-venv; }

test-debian: .venv/.tested build/npm/.installed
	@if [ -x $(DEBIAN_PYTHON) ]; then $(DEBIAN_PYTHON) tools/debian_end.py; \
	else echo 'SKIPPED the suite with Debian packages: there is no $(DEBIAN_PYTHON)'; [ "$$CI" != true ]; fi

# Each is bounded, and part of `make test`; here all of them, one after the other.
drills: .venv/.tested
	DRILL_ROUNDS=$(or $(DRILLS),3) $(BIN)/python -m pytest --timeout 900 --durations=0 -o cache_dir=build/cache-drills \
		tests/probe/test_drill_*.py

test-engines: .venv/.tested
	@nice $(BIN)/python tools/build_engines.py

# They bring many packages, some in versions of their own choice, so not into the environment of the suite.
test-frameworks: build/frameworks/.installed
	LITELLM_LOCAL_MODEL_COST_MAP=True build/frameworks/bin/python -m pytest -m frameworks -W ignore \
		-o cache_dir=build/cache-frameworks tests/integration/test_frameworks.py

lint: .venv/.tested
	$(BIN)/ruff check .
	$(BIN)/mypy

man: .venv/.tested
	@mkdir -p build
	@$(BIN)/argparse-manpage --module blazar.cli.main --function get_parser --project-name Blazar --manual-title Blazar \
		--description 'a private AI server on one Linux box' --output build/blazar.1
	@$(BIN)/python tools/manual.py build/blazar-config.5
	@echo 'wrote build/blazar.1 and build/blazar-config.5; `man -l build/blazar.1` shows it'

package-check:
	@tools/package_check.sh

docs-check: .venv/.installed
	$(BIN)/python tools/reference.py --check

bench: compiled
	@$(AT_BEST) -m tools.bench

bench-cost: compiled
	@$(AT_BEST) -m tools.bench.cost

bench-soak: compiled
	@$(AT_BEST) -m tools.bench.soak $(SOAK)

soak: .venv/.tested
	@nice $(BIN)/python tools/soak.py $(SOAK)

bench-quick: compiled
	@$(AT_BEST) -m tools.bench --quick

compiled: .venv/.installed $(if $(COMPILER),.venv/.compiles)
	@$(if $(filter-out 0,$(COMPILED)),$(BIN)/python -m tools.compiled)

wheel: compiled
	@BLAZAR_COMPILED=1 $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--wheel-dir dist .
	@ls dist/*.whl

memory: .venv/.tested
	@$(BIN)/python -m tests.support.memory_table

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

build/npm/.installed: tests/integration/npm/package.json
	@if command -v npm >/dev/null; then \
	  mkdir -p build/npm && cp $< build/npm/ && \
	  npm install --prefix build/npm --no-package-lock --no-audit --no-fund --loglevel error && touch $@; \
	else echo 'SKIPPED the JavaScript clients: there is no npm'; [ "$$CI" != true ]; fi

build/frameworks/.installed: setup.cfg pyproject.toml
	@mkdir -p build
	@$(PYTHON) tools/venv.py build/frameworks 'llama,fast,frameworks'
	@touch $@

.venv/.installed: setup.cfg pyproject.toml
	@$(PYTHON) tools/venv.py .venv 'llama,fast'
	@touch $@

.venv/.tested: setup.cfg pyproject.toml .venv/.installed
	@$(PYTHON) tools/venv.py .venv 'llama,fast,test'
	@touch $@

# What compiles is not needed to run: where it cannot be had, the builder says that it is missing, and all goes on.
.venv/.compiles: setup.cfg pyproject.toml .venv/.installed
	@if $(PYTHON) tools/venv.py .venv 'llama,fast,compiled'; then touch $@; fi
