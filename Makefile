# Everything starts from a bare clone with Python 3.11+: `make demo`, `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PACKAGE := $(VENV)/.package

.PHONY: setup setup-torch demo test test-long test-torch test-statistical test-device lint format bench paper-quick docs wheel clean

setup: $(STAMP)

# what the demo needs; all the rest follows for development
$(PACKAGE): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[cli,report]'
	touch $(PACKAGE)

$(STAMP): $(PACKAGE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(STAMP)

# the version that CI tests with; of its builds pip takes the one without CUDA (+cpu) where it finds one
TORCH ?= torch==2.13.0
setup-torch: setup
	$(BIN)/python -c 'import torch, onnxscript, skorch, lightning' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check '$(TORCH)' --editable '.[torch]' skorch lightning

demo: $(PACKAGE)
	$(BIN)/python -m pbdn demo

test: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not statistical and not long"

# what takes long and has a quicker sibling in `make test`
test-long: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "long and not statistical"

# what needs torch; `make test` leaves it out where there is none
test-torch: setup-torch
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not statistical" tests/images tests/gibbs/test_device.py tests/sgd/test_torch_engine.py tests/sgd/test_objective.py

test-statistical: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -m statistical

# what runs on torch devices: needs torch; on a machine with CUDA it is tested there too
test-device: setup
	$(BIN)/python -m pytest -n 0 tests/gibbs/test_device.py tests/sgd/test_torch_engine.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m benchmarks.sweep

paper-quick: setup
	$(BIN)/python -m benchmarks.paper all --profile quick --jobs 2

docs: setup
	$(BIN)/python -c 'import sphinx_gallery' 2>/dev/null || $(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

wheel: setup
	$(BIN)/python -m build

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache docs/_build docs/gallery docs/generated
