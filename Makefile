PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# One environment for everything; made anew when the project's own declaration changes.
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

.PHONY: demo test lint types check clean
demo: $(VENV)/.installed
	$(BIN)/pgrelay demo $(ARGS)

test: $(VENV)/.installed
	$(BIN)/pytest $(ARGS)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist
