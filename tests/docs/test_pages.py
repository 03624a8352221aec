"""Every program and every command on the README and the pages of docs/ runs."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.docs.replay import ROOT, SNIPPETS, Replay, matches
from tests.model_server import ModelServer
from tests.public_names import public_values

DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if re.search(r"^```(python|console)$", page.read_text(), re.MULTILINE)
)
# The number of programs and commands of a page, so that no block is passed over.
LEAST = {"tutorial/4-bucket-and-webhook.md": 4, "tutorial/2-approval.md": 4}
REFUND = {"name": "refund", "arguments": {"order": "A-17", "cents": 1250}}
BOOKING = {"name": "book", "arguments": {"city": "Rome"}}
TRANSLATION = {"name": "translator", "arguments": {"input": "Hello"}}
# The replies of the model server to the programs of all pages.
REPLIES: Mapping[str, list[dict[str, Any]]] = {
    "Refund": [{"tool_calls": [REFUND]}, {"content": "Refunded."}],
    "Book Rome": [{"tool_calls": [BOOKING]}, {"content": "Booked."}],
    "Where is my parcel": [{"content": "Tomorrow."}, {"content": "You are welcome."}],
    "A line about rain": [{"content": "Rain is falling on the sea."}],
    "Say hello": [{"tool_calls": [TRANSLATION]}, {"content": "I said hola."}],
    "Hello": [{"content": "Hola"}],
}


def reply(messages: list[dict[str, Any]], _model: str) -> Mapping[str, Any]:
    """Return the reply of the model; the first messages select the conversation."""
    users = [n for n, each in enumerate(messages) if each["role"] == "user"]
    beginning = " ".join(str(each["content"]) for each in messages[: users[0] + 1])
    turn = sum(each["role"] == "assistant" for each in messages)
    return next(replies[turn] for key, replies in REPLIES.items() if key in beginning)


REFERENCE = "\n".join(
    page.read_text(encoding="utf-8")
    for page in sorted((DOCS / "reference").glob("*.md"))
)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def address() -> Iterator[dict[str, str]]:
    """Run a model server, and return the variables that lead to it."""
    with ModelServer(reply) as server:
        yield server.environment


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_page_runs_as_printed(
    page: Path, tmp_path: Path, address: dict[str, str]
) -> None:
    with Replay(tmp_path, address) as replay:
        replay.run_page(page)

    assert replay.ran >= LEAST.get(str(page.relative_to(DOCS)), 0)


def test_readme_runs_as_printed(tmp_path: Path, address: dict[str, str]) -> None:
    with Replay(tmp_path, address) as replay:
        replay.run_page(ROOT / "README.md")

    assert replay.ran >= 3


def test_every_snippet_is_on_a_page() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    unused = [path.name for path in SNIPPETS.glob("*.py") if path.name not in text]

    assert [] == unused


@pytest.mark.parametrize("module", ["first_agent", "refunds", "onboarding"])
def test_snippet_can_be_imported(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SNIPPETS)

    assert runpy.run_path(f"{module}.py")


def test_matches_needs_every_part() -> None:
    assert matches("Finished\nrun: r1\n", "Finished\n…")
    assert not matches("Failed\nrun: r1\n", "Finished\n…")


def test_page_of_the_command_line_is_its_help() -> None:
    written = subprocess.run(
        [sys.executable, str(DOCS / "cli_reference.py")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert written == (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")


def _definition(name: str, value: object) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__name__', name)}"


def is_in_the_reference(path: str) -> bool:
    """Return whether a page renders a name by itself or with its module."""
    module, _, short = path.rpartition(".")
    whole_module = re.compile(
        rf"^::: {re.escape(module)}\n(.*?)(?=^:::|\Z)", re.MULTILINE | re.DOTALL
    )
    block = whole_module.search(REFERENCE)
    if f"::: {path}\n" in REFERENCE or block is None:
        return f"::: {path}\n" in REFERENCE
    members = re.search(r"^ +members: \[(.*)\]", block[1], re.MULTILINE)
    return members is None or short in members[1].split(", ")


def test_every_public_name_is_in_the_reference() -> None:
    values = public_values()

    assert not is_in_the_reference("continuations.engine.worker.worker.Worker")
    assert [] == [
        name
        for name, value in values.items()
        if (inspect.isclass(value) or inspect.isfunction(value))
        and not is_in_the_reference(_definition(name, value))
    ]


def test_every_decision_record_is_in_the_index() -> None:
    index = (DOCS / "decisions" / "index.md").read_text(encoding="utf-8")
    lost = [p.name for p in (DOCS / "decisions").glob("0*.md") if p.name not in index]

    assert [] == lost


def test_every_page_is_in_the_navigation() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    records = {page for page in pages if page.startswith("decisions/")}
    listed = re.findall(r"^ +- (?:.+: )?(\S+\.md)$", settings, re.MULTILINE)

    assert "\n  /decisions/\n" in settings.split("exclude_docs: |")[1].split("\nth")[0]
    assert sorted(pages - records) == sorted(listed)


def test_no_page_of_the_site_links_to_a_decision_record() -> None:
    pages = [page for page in DOCS.rglob("*.md") if page.parent.name != "decisions"]
    linking = [_name(p) for p in pages if "decisions/0" in p.read_text("utf-8")]

    assert [] == linking


def test_reference_names_exist() -> None:
    for path in re.findall(r"^::: ([\w.]+)$", REFERENCE, re.MULTILINE):
        try:
            importlib.import_module(path)
        except ModuleNotFoundError:
            module, _, name = path.rpartition(".")
            assert hasattr(importlib.import_module(module), name), path
