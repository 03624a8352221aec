"""The pytest plugin, as a test of an application meets it: in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import continuations
import continuations_storage

AGENT = """
from continuations import Agent, tool
from continuations.models.scripted import ScriptedModel, ToolCall

@tool(approval=True)
def pay(cents: int) -> str:
    "Pay."
    return f"paid {cents}"

clerk = Agent(
    "clerk", tools=[pay], model=ScriptedModel([ToolCall("pay", {"cents": 5}), "Paid."])
)
"""
USES_FIXTURES = """
import clerk_app

def test_payment(make_harness, agent_clock, agent_effects):
    harness = make_harness(clerk_app.clerk)
    harness.run_to_pause("Pay")
    agent_effects.assert_none("pay")
    harness.approve("pay")
    assert harness.run_to_end().output == "Paid."
    assert harness.clock is agent_clock

def test_payment_again(make_harness, agent_clock):
    assert make_harness(clerk_app.clerk, clock=agent_clock).clock is agent_clock
    make_harness(clerk_app.clerk).run_to_pause("Pay")
"""
USES_NOTHING = """
import sys

def test_nothing():
    loaded = {name for name in sys.modules if name.partition(".")[0] == "continuations"}
    print(sorted(loaded))
    heavy = {"pydantic", "openai", "boto3", "msgpack", "continuations_storage"}
    print("heavy:", sorted(heavy & set(sys.modules)))
"""
RECORDS = """
import clerk_app
from continuations import Agent, run

def test_a(recorded_model, monkeypatch):
    model = recorded_model(lambda: clerk_app.clerk.model)
    outcome = run(Agent("other", tools=[clerk_app.pay], model=model), "Pay")
    assert outcome.waits[0].tool == "pay"
"""
FAILS = """
import clerk_app

def check(harness):
    harness.assert_waits("refund")

def test_payment(make_harness):
    harness = make_harness(clerk_app.clerk)
    harness.run_to_pause("Pay")
    check(harness)
"""


def run_pytest(
    folder: Path, source: str, *options: str
) -> subprocess.CompletedProcess[str]:
    """Run a test file with a pytest of its own; the plugin is loaded as installed."""
    (folder / "clerk_app.py").write_text(AGENT)
    (folder / "test_app.py").write_text(source)
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-W", "error", "-m", "pytest", "-p", "no:cacheprovider"]
    # Plugins of this project's own environment, which load other modules.
    others = ["xdist", "schemathesis", "hypothesispytest", "anyio"]
    command += [part for name in others for part in ("-p", f"no:{name}")]
    return subprocess.run(
        [*command, "--strict-markers", "--strict-config", *options, "test_app.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_entry_point_is_installed() -> None:
    (entry,) = entry_points(group="pytest11", name="continuations")

    assert "continuations.testing.pytest_plugin" == entry.value


def test_packages_that_are_imported_before_pytest_cause_no_warning() -> None:
    """Without this word pytest warns that it cannot rewrite their assertions."""
    for package in (continuations, continuations_storage):
        assert "PYTEST_DONT_REWRITE" in (package.__doc__ or "")


def test_fixtures_work(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, USES_FIXTURES)

    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_fixtures_are_listed_with_their_docs(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, USES_FIXTURES, "--fixtures")

    for name in ("agent_clock", "agent_effects", "make_harness", "recorded_model"):
        assert f"\n{name} -- " in done.stdout


def test_run_that_uses_no_fixture_loads_no_other_module(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, USES_NOTHING, "-s")

    assert (
        "['continuations', 'continuations.testing', "
        "'continuations.testing.pytest_plugin', 'continuations.version']"
    ) in done.stdout, done.stdout + done.stderr
    assert "heavy: []" in done.stdout


def test_plugin_can_be_turned_off(tmp_path: Path) -> None:
    off = run_pytest(tmp_path, USES_NOTHING, "-s", "-p", "no:continuations")
    unknown = run_pytest(tmp_path, USES_FIXTURES, "-p", "no:continuations")

    assert "1 passed" in off.stdout, off.stdout + off.stderr
    assert "continuations" not in off.stdout.partition("heavy")[0].partition("[")[2]
    assert "fixture 'make_harness' not found" in unknown.stdout


@pytest.mark.parametrize(
    "name", ["continuations", "continuations.testing.pytest_plugin"]
)
def test_plugin_can_be_named_early(name: str, tmp_path: Path) -> None:
    environment = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(environment, "1")
        done = run_pytest(tmp_path, USES_FIXTURES, "-p", name)

    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_option_records_and_the_next_run_replays(tmp_path: Path) -> None:
    path = tmp_path / "recordings" / "test_app" / "test_a.json"
    missing = run_pytest(tmp_path, RECORDS)
    assert "test_a.json does not exist" in missing.stdout
    assert "--record-models" in missing.stdout

    assert "1 passed" in run_pytest(tmp_path, RECORDS, "--record-models").stdout
    assert path.exists()
    # The provider is not asked: an agent without a model would fail.
    replayed = run_pytest(tmp_path, RECORDS.replace("lambda: clerk_app", "lambda: no"))
    assert "1 passed" in replayed.stdout, replayed.stdout


def test_failure_shows_the_line_of_the_test(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, FAILS)

    assert "approval of pay(cents=5)" in done.stdout
    assert 'harness.assert_waits("refund")' in done.stdout
    assert "expectation.py" not in done.stdout
    assert "wait_decider.py" not in done.stdout
