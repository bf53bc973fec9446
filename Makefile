# Everything a newcomer needs: `make demo` and `make test`. Set-up happens once, inside the checkout.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-slow lint type bench wheel clean

demo: $(READY)
	$(BIN)/ilbrl demo

test: lint type
	$(BIN)/python -m pytest -q -n 2 -m "not slow"

test-slow: $(READY)
	$(BIN)/python -m pytest -q -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: $(READY)
	$(BIN)/basedpyright

bench: $(READY)
	$(BIN)/python -m benchmarks

wheel: $(READY)
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf .venv dist build .pytest_cache .ruff_cache

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ilbrl needs Python 3.11 or newer; set PYTHON=…")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $(READY)
