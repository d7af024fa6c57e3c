# The verbs of this project; nothing else needs to be typed. `make help` lists them.
#
# A fresh machine needs python3 (3.11 or newer) with its headers and venv module, a C compiler and make. Everything else
# goes into .venv, in the versions of constraints.txt. The marks in .venv/.done-* say what is up to date, so that a verb
# builds only what has changed.
#
# Variables:
#   PYTHON=python3.12       the interpreter of a new environment; a different version replaces .venv
#   SERVE_FLAGS='-p 11301'  the flags of `make serve`
#   HTTP_FLAGS=             and those about HTTP; empty: none is served, and nothing is installed for it
#   IDS_DATA=/a/folder      where `make serve-ids` has its configuration and its numbers
#   IDS_FLAGS='--help'      its flags
#   CLUSTER_FLAGS='leader'  what `make cluster` does, instead of asking
#   SHOP_FLAGS='--sqlite'   the shop of `make shop` without PostgreSQL, also where that is installed
#   TAG=v0.1.0              the tag of `make release-check`, instead of that of HEAD
#   PYTEST='-k heap -x'     more arguments for pytest; -n 0 runs the tests one by one, in this process
#   PART=console            only these tests: core, cluster, console, ids or several of them
#   SEEDS_FROM=7            the seeds of `make test-all`, instead of fresh ones, which it prints
#   MUTANTS_FLAGS='--help'  the arguments of `make mutants`
#   BENCH_FLAGS='--help'    the arguments of `make bench`, or of `make reproduce`
#   SOAK_S=600              how long each `make soak-...` and `make test-api` take, in seconds
#   SOAK_FLAGS='--seed 7'   run the seed of a soak again that failed
#   SOAK_WITH=patroni       let Patroni and etcd promote standbys there, instead of the soak itself
#   ENVIRONMENT=/a/venv     test what is installed in that environment, and build nothing

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV := .venv
PYTHON ?= $(shell test -x $(VENV)/bin/python && echo $(VENV)/bin/python || echo python3)
PYTHON_VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
SERVE_FLAGS ?= -l 127.0.0.1 -p 11300 -b beanpole-data
HTTP_FLAGS ?= --http 127.0.0.1:11380
IDS_DATA ?= beanpole-ids-data
IDS_FLAGS ?=
CLUSTER_FLAGS ?=
SHOP_FLAGS ?=
BENCH_FLAGS ?=
TAG ?=
PYTEST ?=
PART ?=
MUTANTS_FLAGS ?=
LONG ?=
SOAK_S ?= 600
SOAK_FLAGS ?=
JACKD := jackd@2.2.2
PARALLEL := -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) --dist loadgroup

# A module is compiled if it has a .pxd beside it.
HEADERS := $(sort $(shell find src ids/src benchmarks -name '*.pxd' 2>/dev/null))
COMPILED := $(wildcard $(HEADERS:.pxd=.py))
COMPILED_NAMES := $(subst /,.,$(patsubst src/%,%,$(patsubst ids/src/%,%,$(COMPILED:.py=))))
BUILD_FILES := pyproject.toml ids/pyproject.toml constraints.txt

ENVIRONMENT ?=
ifeq ($(ENVIRONMENT),)
BIN := $(VENV)/bin
BUILT := $(VENV)/.done-build
IDS_BUILT := $(VENV)/.done-build-ids
CLUSTER_BUILT := $(BUILT) $(VENV)/.done-cluster
SHOP_BUILT := $(BUILT) $(VENV)/.done-shop
SERVE_BUILT := $(BUILT) $(if $(strip $(HTTP_FLAGS)),$(VENV)/.done-console)
TESTABLE := $(BUILT) $(IDS_BUILT) $(VENV)/.done-compiled-bench $(VENV)/.done-dev
else
BIN := $(ENVIRONMENT)/bin
BUILT :=
IDS_BUILT :=
CLUSTER_BUILT :=
SHOP_BUILT :=
SERVE_BUILT :=
TESTABLE :=
endif

# What is installed while the modules are compiled: pip keeps one core busy, and waits for the network.
serve: ALONG := $(if $(strip $(HTTP_FLAGS)),$(VENV)/.done-console)
cluster: ALONG := $(VENV)/.done-cluster
shop: ALONG := $(VENV)/.done-shop
test test-all test-ids test-fast mutants test-browser test-api pictures soak-kills soak-model soak-power soak-cluster soak-inbox soak-route lint bench reproduce bench-cluster bench-ids man sbom: ALONG := $(VENV)/.done-dev
SAY ?= echo

# pip leaves bytecode to the first import, which has to write it then: else each start of a program compiles again.
export PYTHONDONTWRITEBYTECODE :=

# pip, with every version pinned, saying nothing but errors: what it warns of is its own configuration. What to install comes
# from pyproject.toml, so that it stands there only.
PIP_INSTALL := $(VENV)/bin/python -m pip install -qq --no-compile --disable-pip-version-check --constraint constraints.txt
REQUIREMENTS := $(VENV)/bin/python -c 'import sys, tomllib; \
  project = tomllib.load(open(sys.argv[1], "rb")); \
  lists = {"build": project["build-system"]["requires"], "run": project["project"]["dependencies"], \
           **project["project"]["optional-dependencies"]}; \
  print(*(line.replace(" ", "") for name in sys.argv[2:] for line in lists[name]))'

.PHONY: help wheels serve serve-ids cluster shop build test test-all test-ids test-fast mutants test-browser test-api pictures soak-kills soak-model soak-power soak-cluster soak-inbox soak-route lint format bench reproduce bench-cluster bench-ids docs man release-check sbom deb test-packages peers clean FORCE
.DEFAULT_GOAL := help

help: ## list the verbs
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS=$$'\t' read -r verb what; do \
	  printf '  make %-13s %s\n' "$$verb" "$$what"; done

serve: $(SERVE_BUILT) ## build, and serve on 127.0.0.1:11300, with jobs in beanpole-data, and the console on 127.0.0.1:11380
	@exec $(BIN)/beanpole serve $(SERVE_FLAGS) $(HTTP_FLAGS)

serve-ids: $(IDS_BUILT) ## build, and serve numbers on 127.0.0.1:11310; the rules and what is given are in beanpole-ids-data
	@mkdir -p $(IDS_DATA)
	@test -e $(IDS_DATA)/rules.toml || cp ids/examples/rules.toml $(IDS_DATA)
	@exec $(BIN)/beanpole-ids serve $(IDS_DATA)/rules.toml $(IDS_FLAGS)

cluster: $(CLUSTER_BUILT) ## build, and try three nodes over three PostgreSQL servers with Patroni; kill what you like
	@exec $(BIN)/python examples/cluster/cluster.py $(CLUSTER_FLAGS)

shop: $(SHOP_BUILT) ## build, and try a shop in Django whose orders and jobs are one transaction; kill what you like
	@exec $(BIN)/python examples/shop/run.py $(SHOP_FLAGS)

build: $(BUILT) $(IDS_BUILT) ## install what is needed to run, and compile what has changed

# The tests of parts of the queue. What belongs to no other is of the core.
TESTS_cluster := $(wildcard tests/*/cluster tests/*/*cluster.py tests/unit/log/postgres)
TESTS_console := tests/unit/console tests/e2e/console tests/browser/smoke
PARTS := $(or $(PART),core cluster console ids)
tests_of = $(foreach each,$(1),$(TESTS_$(each)))
PART_TESTS = $(if $(filter core,$(PARTS)),tests --deselect=tests/browser/test_ \
  $(addprefix --ignore=,$(call tests_of,$(filter-out $(PARTS),cluster console))),$(call tests_of,$(PARTS)))

test: $(TESTABLE) ## build, and prove every promise once; what takes long is left to `make test-all`
	@$(if $(filter-out ids,$(PARTS)),$(BIN)/python -m pytest $(PARALLEL) $(PART_TESTS) $(PYTEST),:)
	@$(if $(filter ids,$(PARTS)),$(MAKE) test-ids,:)

test-all: $(TESTABLE) ## build, and run every test, with many fresh seeds, then the soaks for SOAK_S seconds each
	@export SEEDS_FROM=$${SEEDS_FROM:-$$((RANDOM * 32768 + RANDOM))} SEEDS_TIMES=$${SEEDS_TIMES:-6}; \
	  echo "make test-all SEEDS_FROM=$$SEEDS_FROM SEEDS_TIMES=$$SEEDS_TIMES runs this again."; \
	  $(BIN)/python -m pytest $(PARALLEL) --long tests $(PYTEST); \
	  $(MAKE) test-ids LONG=--long
	@for each in test-api soak-kills soak-model soak-power soak-cluster soak-inbox soak-route; do $(MAKE) $$each; done

mutants: $(TESTABLE) ## build, and show by small mistakes in engine, log, cluster and turn whether the tests notice them
	@exec $(BIN)/python -m tests.mutants $(MUTANTS_FLAGS)

test-ids: $(IDS_BUILT) $(TESTABLE) ## build, and prove every promise of the ID service once
	@cd ids && exec $(abspath $(BIN))/python -m pytest $(PARALLEL) $(LONG) $(PYTEST)

test-fast: $(TESTABLE) ## build, and run in a minute what needs neither a database nor a crowd of processes
	@$(BIN)/python -m pytest $(PARALLEL) -m "not database" tests/unit tests/scripts tests/model \
	  tests/simulation/test_seeds.py tests/simulation/cluster/test_rules.py tests/test_tidy.py $(PYTEST)
	@cd ids && exec $(abspath $(BIN))/python -m pytest $(PARALLEL) -m "not database" tests/unit $(PYTEST)

test-browser: $(TESTABLE) ## build, and drive the console with chromium, screen by screen
	@exec $(BIN)/python -m pytest $(PARALLEL) tests/browser $(PYTEST)

test-api: $(TESTABLE) ## build, and try the API of the console against its own openapi.json for SOAK_S seconds
	@exec $(BIN)/python -m tests.e2e.console.fuzzing $(SOAK_S)

pictures: $(TESTABLE) ## build, and take the pictures of the console in docs/pictures, of a server at work
	@exec $(BIN)/python -m tests.browser.pictures

soak-kills: $(TESTABLE) ## build, and kill a server that keeps a log under every command and rule, for SOAK_S seconds
	@exec $(BIN)/python -m tests.soak.kills $(SOAK_S) $(SOAK_FLAGS)

soak-model: $(TESTABLE) ## build, and compare a server with the reference model, reply by reply, for SOAK_S seconds
	@exec $(BIN)/python -m tests.soak.model $(SOAK_S) $(SOAK_FLAGS)

soak-power: $(TESTABLE) ## build, and cut the power of the simulated disk again and again for SOAK_S seconds
	@exec $(BIN)/python -m tests.soak.power $(SOAK_S) $(SOAK_FLAGS)

soak-cluster: $(TESTABLE) ## build, and let nodes and databases of a cluster fail for SOAK_S seconds
	@exec $(BIN)/python -m tests.soak.cluster $(SOAK_S) $(SOAK_FLAGS) $(addprefix --with ,$(SOAK_WITH))

soak-inbox: $(TESTABLE) ## build, and let who puts in a transaction, who leads and PostgreSQL die for SOAK_S seconds
	@exec $(BIN)/python -m tests.soak.cluster.inbox $(SOAK_S) $(SOAK_FLAGS)

soak-route: $(TESTABLE) ## build, and kill and freeze routers and servers, and change their map, beside many clients for SOAK_S seconds
	@exec $(BIN)/python -m tests.soak.route $(SOAK_S) $(SOAK_FLAGS)

lint: $(TESTABLE) ## check format, style, types, layers, workflows, and the stubs of compiled modules
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@cd ids && $(abspath $(BIN))/mypy
	@$(BIN)/zizmor --quiet --offline .github
	@$(BIN)/lint-imports --no-logo
	@cd ids && $(abspath $(BIN))/lint-imports --no-logo
	@$(BIN)/python -m mypy.stubtest --ignore-missing-stub --ignore-disjoint-bases --concise $(COMPILED_NAMES)
	@echo "Nothing to complain about."

format: $(VENV)/.done-dev ## format the sources and repair what ruff can repair
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

bench: $(TESTABLE) ## measure against beanstalkd on this machine
	@exec $(BIN)/python -m benchmarks.bench $(BENCH_FLAGS)

reproduce: $(TESTABLE) ## measure what we publish, and print ours beside yours (docs/reproduce.md)
	@exec $(BIN)/python -m benchmarks.reproduce $(BENCH_FLAGS)

bench-cluster: $(TESTABLE) ## measure what a cluster does, with PostgreSQL servers of its own; takes a quarter of an hour
	@exec $(BIN)/python -m benchmarks.cluster $(BENCH_FLAGS)

bench-ids: $(TESTABLE) ## measure what a number of the ID service costs, beside a C echo
	@cd ids && exec $(abspath $(BIN))/python -m benchmarks $(BENCH_FLAGS)

docs: $(VENV)/.done-docs ## build the documentation into site/, with every warning an error
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet
	@echo "Read site/index.html."

man: $(TESTABLE) ## write the man pages into build/man, from the command line's help
	@$(BIN)/python -m tests.man_pages build/man
	@echo "Read one: man -l build/man/beanpole.1"

wheels: $(VENV)/.done-release ## make a wheel in dist for each Python of this machine, install it somewhere fresh and try it
	@packaging/wheels/build

release-check: $(VENV)/.done-release ## prove what can be proven of a release (TAG=v0.1.0) before it is published; its files are in dist
	@exec $(BIN)/python packaging/release/check.py all $(TAG)

sbom: $(BUILT) $(IDS_BUILT) $(VENV)/.done-dev ## write down what is installed with each distribution, after a change of dependencies
	@exec $(BIN)/python packaging/release/sbom.py

# What is compiled for the distribution's python3 goes into the packages; of another one they can use nothing.
deb: $(if $(filter $(realpath /usr/bin/python3),$(realpath $(shell command -v $(PYTHON)))),$(BUILT) $(IDS_BUILT)) ## make the Debian packages in dist, for this machine's distribution and its python3
	@packaging/debian/build

test-packages: ## as root: make the packages, and install, use, upgrade and remove them in a fresh Debian in a folder
	@packaging/debian/test

peers: ## install the npm client that the conformance tests drive, into node_modules
	@npm install --no-save --no-package-lock --no-audit --no-fund --loglevel=error --prefix . $(JACKD)

clean: ## remove everything that a verb has made, except node_modules
	@rm -rf $(VENV) build dist site .ruff_cache $(foreach each,. ids,$(addprefix $(each)/,build src/*.egg-info .mypy_cache .pytest_cache .hypothesis .import_linter_cache))
	@find src tests benchmarks ids -name '*.so' -delete -o -name '*.pyi' -delete -o -path '*src/*.c' -delete -o -name __pycache__ -prune -exec rm -rf {} +

# The environment. One of another Python version is replaced, for its compiled modules would not load.
$(VENV)/.done-venv-$(PYTHON_VERSION):
	@if [ -z "$(PYTHON_VERSION)" ]; then \
	  echo "Can't run $(PYTHON). Install Python 3.11 or newer, or name one: make PYTHON=python3.12 ..." >&2; exit 1; fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(PYTHON) is Python $(PYTHON_VERSION); Beanpole needs 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || { \
	  echo "$(PYTHON) has no C headers. On Debian and Ubuntu: apt-get install python3-dev" >&2; exit 1; }
	@command -v $${CC:-cc} >/dev/null || command -v gcc >/dev/null || { \
	  echo "There is no C compiler. On Debian and Ubuntu: apt-get install gcc" >&2; exit 1; }
	@if ! $(VENV)/bin/python -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "$(PYTHON_VERSION)")' 2>/dev/null; then \
	  echo "Creating $(VENV) with Python $(PYTHON_VERSION)"; $(PYTHON) -m venv --clear $(VENV); fi
	@touch $@

# The build tools. This mark changes only when pyproject.toml names others.
$(VENV)/.done-tools: FORCE | $(VENV)/.done-venv-$(PYTHON_VERSION)
	@grep '^requires = ' pyproject.toml | cmp -s - $@ || { echo "Installing the build tools"; \
	  $(PIP_INSTALL) $$($(REQUIREMENTS) pyproject.toml build) || { \
	  echo "pip can't install them, see above. Does it reach a package index? It needs a network, or a mirror that it knows." >&2; exit 1; }; \
	  grep '^requires = ' pyproject.toml > $@; }

# What it takes to run, and the command itself. Nothing is compiled here.
$(VENV)/.done-run: $(BUILD_FILES) compiling.py setup.py | $(VENV)/.done-tools
	@$(SAY) "Installing the dependencies"
	@$(PIP_INSTALL) $$($(REQUIREMENTS) pyproject.toml run)
	@BEANPOLE_COMPILE=no $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.done-run-ids: $(BUILD_FILES) compiling.py ids/setup.py | $(VENV)/.done-tools
	@$(SAY) "Installing the dependencies of the ID service"
	@$(PIP_INSTALL) $$($(REQUIREMENTS) ids/pyproject.toml run databases)
	@BEANPOLE_COMPILE=no $(PIP_INSTALL) --no-deps --no-build-isolation --editable ids
	@touch $@

$(VENV)/.done-cluster: pyproject.toml constraints.txt | $(VENV)/.done-run
	@$(SAY) "Installing what a cluster needs"
	@$(PIP_INSTALL) $$($(REQUIREMENTS) pyproject.toml cluster)
	@touch $@

$(VENV)/.done-shop: pyproject.toml constraints.txt | $(VENV)/.done-run
	@$(SAY) "Installing what the shop needs"
	@$(PIP_INSTALL) $$($(REQUIREMENTS) pyproject.toml cluster console django relay)
	@touch $@

$(VENV)/.done-console: pyproject.toml constraints.txt | $(VENV)/.done-run
	@$(SAY) "Installing what HTTP needs"
	@$(PIP_INSTALL) $$($(REQUIREMENTS) pyproject.toml console)
	@touch $@

$(VENV)/.done-dev: pyproject.toml constraints.txt | $(VENV)/.done-run
	@$(SAY) "Installing the development tools"
	@$(PIP_INSTALL) $$($(REQUIREMENTS) pyproject.toml dev)
	@touch $@

$(VENV)/.done-release: pyproject.toml constraints.txt | $(VENV)/.done-run
	@$(SAY) "Installing what makes a release"
	@$(PIP_INSTALL) $$($(REQUIREMENTS) pyproject.toml release)
	@touch $@

$(VENV)/.done-docs: pyproject.toml constraints.txt | $(VENV)/.done-run
	@$(SAY) "Installing the documentation tools"
	@$(PIP_INSTALL) $$($(REQUIREMENTS) pyproject.toml docs)
	@touch $@

# Changes only when a header appears or goes: then what was compiled from it must go too, as it would hide the .py file.
$(VENV)/.done-headers: FORCE | $(VENV)/.done-tools
	@echo "$(HEADERS)" | cmp -s - $@ || { find src ids/src benchmarks -name '*.so' -o -name '*.pyi' | while read -r module; do \
	  test -e "$${module%%.*}.pxd" || rm -v "$$module"; done; echo "$(HEADERS)" > $@; }

# Other flags or another Cython change every module; a changed source only those that need it.
$(VENV)/.done-options: compiling.py setup.py ids/setup.py stubs.py $(VENV)/.done-tools
	@rm -rf {.,ids}/build/{cython,lib.*,temp.*}
	@touch $@

# What the compiler says stands in build/compile.log; the third descriptor is for how far it is.
COMPILE = mkdir -p build; BEANPOLE_PROGRESS=3 $(abspath $(VENV))/bin/python setup.py --quiet build_ext --inplace \
  3>&1 > build/compile.log 2>&1 || { cat build/compile.log >&2; exit 1; }

$(VENV)/.done-compiled: $(filter src/%,$(HEADERS) $(COMPILED)) $(VENV)/.done-headers $(VENV)/.done-options | $(VENV)/.done-tools
	@$(COMPILE)
	@touch $@

$(VENV)/.done-compiled-bench: $(filter benchmarks/%,$(HEADERS) $(COMPILED)) $(VENV)/.done-compiled
	@export BEANPOLE_COMPILE=benchmarks; $(COMPILE)
	@touch $@

$(VENV)/.done-compiled-ids: $(filter ids/%,$(HEADERS) $(COMPILED)) $(VENV)/.done-headers $(VENV)/.done-options | $(VENV)/.done-tools
	@cd ids; $(COMPILE)
	@touch $@

# The queue, and the ID service: each is installed while it is compiled.
$(VENV)/.done-build $(VENV)/.done-build-ids: \
  $(BUILD_FILES) setup.py ids/setup.py $(HEADERS) $(COMPILED) $(VENV)/.done-headers $(VENV)/.done-options
	@echo "Installing what it takes to run, and compiling what has changed"
	@$(MAKE) -j2 SAY=: $(subst build,compiled,$@) $(subst build,run,$@) $(ALONG)
	@touch $@
