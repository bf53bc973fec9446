# Everything a newcomer needs: `make demo` and `make test`. Set-up happens once, inside the checkout.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DEMO_READY := .venv/.ready-demo
DOCS_READY := .venv/.ready-docs

GPU_TESTS := $(filter-out %/test_mutations.py, $(foreach room,learning agents rewards models,$(wildcard tests/$(room)/test_*.py)))

.PHONY: demo test test-slow test-walk test-gpu lint type bench docs wheel wheel-smoke clean

demo: $(or $(wildcard $(READY)),$(DEMO_READY))
	$(BIN)/ilbrl demo

test: lint type
	$(BIN)/python -m pytest -q -n 2 -m "not slow"

test-slow: $(READY)
	$(BIN)/python -m pytest -q -m "slow and not walk"

test-walk: $(READY)
	$(BIN)/python -m pytest -q -m walk

# What computes on a GPU. With PYTHON=… that interpreter runs it as it is; no .venv is made. It needs JAX, NumPy, SciPy,
# h5py, safetensors, optax and pytest. Eight files are tested at a time, because most of the time goes into compiling
# on the host; without autotuning that takes half as long.
ifeq ($(origin PYTHON),file)
GPU_PYTHON := $(BIN)/python
test-gpu: $(READY)
else
GPU_PYTHON := $(PYTHON)
endif
test-gpu:
	$(MAKE) --jobs=8 --keep-going --output-sync=target $(GPU_TESTS:%=%-on-gpu)

%-on-gpu:
	XLA_FLAGS=--xla_gpu_autotune_level=0 XLA_PYTHON_CLIENT_PREALLOCATE=false PYTHONPATH=src:$$PYTHONPATH \
		$(GPU_PYTHON) -m pytest -q -m "not slow" -W default --durations=3 $*

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: $(READY)
	$(BIN)/basedpyright

bench: $(READY)
	$(BIN)/python -m benchmarks

# The site, in build/site. Whatever Sphinx warns of fails the build: broken links, references, docstrings.
docs: $(DOCS_READY)
	$(BIN)/python -m sphinx --builder html --doctree-dir build/doctrees --fresh-env --fail-on-warning --keep-going --quiet docs build/site

wheel: $(READY)
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

# Wheel and sdist in dist, tried in clean environments of every Python from 3.11 to 3.14 that is here.
wheel-smoke:
	$(PYTHON) scripts/try_wheel.py

clean:
	rm -rf .venv dist build .pytest_cache .ruff_cache

define MAKE_VENV
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ilbrl needs Python 3.11 or newer; set PYTHON=…")'
	$(PYTHON) -m venv .venv
endef

# 0.9 GB; with the developers' tools 1.8 GB.
$(DEMO_READY): pyproject.toml
	$(MAKE_VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[benchmark]"
	touch $(DEMO_READY)

$(READY): pyproject.toml
	$(MAKE_VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $(READY)

$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	touch $(DOCS_READY)
