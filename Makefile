PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPILED := .venv-compiled
LOWEST := .venv-lowest

# make demo              the main job on embedded servers; make demo ARGS="--rows 300" ends by itself
# make test              every test, on real servers; make test ARGS="tests/wire" for some of them
# make debezium-diff     our records next to those of the real Debezium: what differs, and why
# make test-compiled     the tests of the pure rooms, and of whole relays, on the compiled modules
# make test-lowest       the tests of what calls libraries, with the lowest versions that pyproject.toml allows
# make bench             every contender on every workload, in one table and bench/results.json; ARGS="--help"
# make guard             instructions that the compiled modules take for a row, at most 10% over the figure committed
# make profile           where a row's CPU goes
# make lint, make types  ruff and mypy, as CI runs them
# make packages          a compiled wheel and an sdist that installs without a compiler; ARGS=DIR keeps them there

# One environment for everything; what is in it is renewed when the project's own declaration changes.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --editable
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	@echo "All that the project needs is fetched into $(VENV), once; that takes some minutes."
	$(PIP) '.[dev]'
	touch $(VENV)/.demo $@

# The demo alone needs a fifth of that: neither Spark nor what tests.
$(VENV)/.demo: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	@echo "What the demo needs is fetched into $(VENV), once."
	$(PIP) '.[demo]'
	touch $@

.PHONY: demo test test-compiled test-lowest debezium-diff bench guard profile lint types packages clean
demo: $(VENV)/$(if $(findstring --spark,$(ARGS)),.installed,.demo)
	$(BIN)/pgrelay demo $(ARGS)

test: $(VENV)/.installed
	$(BIN)/pytest -n 3 --dist loadgroup $(ARGS)

debezium-diff: $(VENV)/.installed
	$(BIN)/pytest --quiet --no-header tests/integration/debezium

# The pure rooms once more, as users get them: the wheel is built once, for these tests, the guard and the packages.
PURE_TESTS := tests/wire tests/assembly tests/encode tests/test_errors.py tests/test_handover.py tests/test_lsn.py \
	tests/test_progress.py
# What the compiled modules do in a relay: each kind of record, and each way in which they end.
RELAYED := avro encodings envelopes protocols records_identity records_places records_tables records_values \
	schema_topic selection two_phase types unannounced_aborts
RELAY_TESTS := $(RELAYED:%=tests/integration/test_%.py) \
	$(patsubst %,tests/integration/faults/test_%.py,dead_letters exactly_once refusals transactions)

# Without build isolation, so that the guard can tell which mypyc compiled it.
BUILD_REQUIRES := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")
COMPILED_PIP := $(COMPILED)/bin/pip --quiet --disable-pip-version-check
$(COMPILED)/.installed: pyproject.toml setup.py README.md LICENSE config.example.yaml $(shell find src/pgrelay -type f -not -name '*.pyc')
	$(PYTHON) -m venv --clear $(COMPILED)
	$(COMPILED)/bin/python -c '$(BUILD_REQUIRES)' | $(COMPILED_PIP) install build --requirement /dev/stdin
	$(COMPILED)/bin/python -m build --no-isolation --outdir $(COMPILED)/dist .
	$(COMPILED_PIP) install "$$(echo $(COMPILED)/dist/*.whl)[test]"
	$(COMPILED)/bin/pgrelay --version | grep compiled
	touch $@

test-compiled: $(COMPILED)/.installed
	$(COMPILED)/bin/pytest -n 3 --dist loadgroup $(PURE_TESTS) $(RELAY_TESTS) $(ARGS)

# Pip takes the newest versions that it may; constraints make it the lowest.
LIBRARY_TESTS := tests/check tests/config tests/kafka tests/postgres tests/relay tests/status tests/test_cli.py \
	tests/test_log.py tests/test_metrics.py
LOWEST_VERSIONS := import re, tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	print(*(re.sub(r"(\[.*\])?>=([\d.]+).*", r"==\2", each) \
	for part in (p["dependencies"], *p["optional-dependencies"].values()) for each in part if ">=" in each), sep="\n")
$(LOWEST)/.installed: pyproject.toml
	$(PYTHON) -m venv --clear $(LOWEST)
	$(PYTHON) -c '$(LOWEST_VERSIONS)' >$(LOWEST)/versions
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check --constraint $(LOWEST)/versions --editable '.[test]'
	touch $@

test-lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/pytest -n auto --maxprocesses 4 $(LIBRARY_TESTS) $(ARGS)

bench: $(VENV)/.installed
	$(BIN)/python -m bench --with debezium avro $(ARGS)

guard: $(COMPILED)/.installed
	$(COMPILED)/bin/python -m bench.guard $(ARGS)

profile: $(VENV)/.installed
	$(BIN)/python -m bench.profile $(ARGS)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

packages: $(VENV)/.installed $(COMPILED)/.installed
	PYTHON=$(BIN)/python .ci/packages $(COMPILED)/dist/*.whl $(ARGS)

clean:
	rm -rf $(VENV) $(COMPILED) $(LOWEST) build dist
