"""A cold process loads only what its step needs; modules are counted, not seconds."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import continuations
from continuations import Agent, Approve, Runner, Suspended, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.outcomes import expect
from tests.run_environment import ROOT

PACKAGE = Path(continuations.__file__).parent
# The rooms whose modules a cold process loads.
ROOMS = ("core", "wire", "ledger", "engine", "authoring", "present", "serve")

AGENT = '''
import os, sys
from continuations import Agent, Approve, Runner, tool

@tool(approval=True)
def note(number: int) -> str:
    """Save a note."""
    tell()

def tell():
    print(*sys.modules, flush=True)
    os._exit(0)
'''
RESUME = f"""{AGENT}
agent = Agent("notes", tools=[note], model="gpt-5-mini")
Runner(agent, store=sys.argv[1]).resume(sys.argv[2])
"""
DECIDE = f"""{AGENT}
Runner([], store=sys.argv[1]).decide(sys.argv[2], Approve(by="kim"))
tell()
"""
OPEN_S3 = f"""{AGENT}
from continuations import open_store
Runner([], store=open_store("s3://bench/runs", driver="obstore", region="eu-west-1"))
tell()
"""


SEND = f"""{AGENT}
from continuations.models.scripted import ScriptedModel
agent = Agent("notes", model=ScriptedModel(["Hello."]))
Runner(agent, store=sys.argv[1]).thread(key="k").send("Hello?")
tell()
"""
DECIDE_OVER_HTTP = f"""{AGENT}
import asyncio, json
from continuations import AsyncRunner
from continuations.serve.http.api import HttpApi, Request
api = HttpApi(AsyncRunner([], store=sys.argv[1]), verify=lambda request: "kim")
request = Request(
    method="POST",
    path=f"/waits/{{sys.argv[2]}}/decision",
    headers={{"content-type": "application/json"}},
    body=json.dumps({{"decision": "approve"}}).encode(),
)
assert asyncio.run(api.handle(request)).status == 200
tell()
"""


@tool(approval=True)
def note(number: int) -> str:
    """Save a note."""
    return str(number)


def _suspended(store: str) -> Suspended:
    model = ScriptedModel([ToolCall("note", {"number": 7})], name="gpt-5-mini")
    agent = Agent("notes", tools=[note], model=model)
    return expect(Runner(agent, store=store).start("Save the note 7."), Suspended)


def _modules(code: str, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OPENAI_API_KEY": "sk-test"},
    )
    return set(done.stdout.split())


# Modules for features that this run does not use.
UNUSED = {
    "continuations.core.reading.audit",
    "continuations.engine.sweep.event_sweep",
    "continuations.engine.sweep.sweeping",
    "continuations.ledger.repair.audit_records",
    "continuations.ledger.repair.retention",
    "continuations.ledger.published_events",
    "continuations.ledger.event_keys",
    "continuations.ledger.decisions.run_grants",
    "continuations.ledger.arrivals.wait_slots",
    # A run without a workflow loads only the class that would load these.
    "continuations.authoring.workflow.drive",
    "continuations.authoring.workflow.flow_loop",
    "continuations.authoring.workflow.workflow",
    "continuations.core.changes.workflow_steps",
    "continuations.core.rows.workflow_history",
    "continuations.engine.workflow.flow_drives",
}
HEAVY = {"boto3", "httpx", "jsonschema_rs", "openai", "pydantic", "pydantic_core"}


# Just above the modules of this package and its stores. A change that needs more says
# why. Some twelve are the `__init__` of folders, which contain a line.
def test_cold_decision_loads_few_modules(tmp_path: Path) -> None:
    store = f"file:{tmp_path}"

    loaded = _modules(DECIDE, store, _suspended(store).waits[0].id)

    assert set() == loaded & (HEAVY | UNUSED)
    assert {"continuations.ledger.decisions.decisions"} <= loaded
    assert len([name for name in loaded if name.startswith("continuations")]) <= 80


def test_store_on_s3_loads_neither_files_nor_boto3() -> None:
    loaded = _modules(OPEN_S3)

    assert {"continuations_storage.obstore"} <= loaded
    assert set() == loaded & {"boto3", "continuations_storage.files", "email"}


def test_cold_resume_loads_few_modules_until_its_tool_runs(tmp_path: Path) -> None:
    store = f"file:{tmp_path}"
    run = _suspended(store)
    Runner([], store=store).decide(run.waits[0].id, Approve(by="kim"))

    loaded = _modules(RESUME, store, run.run_id)

    assert set() == loaded & (HEAVY | UNUSED)
    assert {"continuations.engine.worker.run_loop"} <= loaded
    assert len([name for name in loaded if name.startswith("continuations")]) <= 158


def test_cold_message_of_a_thread_loads_no_words_that_nobody_follows(
    tmp_path: Path,
) -> None:
    loaded = _modules(SEND, f"file:{tmp_path}")

    words = "continuations.engine.events"
    assert {f"{words}.word_carrier"} <= loaded
    assert set() == loaded & {f"{words}.carried_words", f"{words}.word_reader"}


def test_cold_decision_over_http_loads_no_pages(tmp_path: Path) -> None:
    store = f"file:{tmp_path}"

    loaded = _modules(DECIDE_OVER_HTTP, store, _suspended(store).waits[0].id)

    assert "continuations.serve.http.decision_bodies" in loaded
    pages = {name for name in loaded if name.startswith("continuations.serve.pages")}
    assert set() == pages | loaded & {"continuations.serve.http.answer_forms"}


@pytest.mark.parametrize("room", ROOMS)
def test_values_are_declared_without_compiling_methods(room: str) -> None:
    """A frozen class with slots uses `value_class`; see its docstring."""
    compiled = [
        f"{path.name}: {node.name}"
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for node in _standard_dataclasses(ast.parse(path.read_text(encoding="utf-8")))
    ]

    # An `__init__` of its own, which `value_class` would keep.
    assert [name for name in compiled if name != "identity.py: Identity"] == []


def _standard_dataclasses(module: ast.Module) -> list[ast.ClassDef]:
    imports = {
        alias.name
        for node in module.body
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        for alias in node.names
    }
    if "dataclass" not in imports:
        return []
    return [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        and {"frozen", "slots"} <= {option.arg for option in decorator.keywords}
    ]
