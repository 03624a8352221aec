"""The house style that a machine can hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import continuations

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path
    for room in ("continuations", "storage/continuations_storage")
    for path in (ROOT / room).rglob("*.py")
)
ALL_FILES = sorted(
    path
    for folder in ("continuations", "storage", "tests", "examples", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)
CATCH_ALL_NAMES = {
    "utils",
    "util",
    "common",
    "helpers",
    "misc",
    "base",
    "types",
    "logging",
}


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_file_name_is_specific_and_file_has_at_most_400_lines(path: Path) -> None:
    assert path.stem not in CATCH_ALL_NAMES
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_function_has_at_most_60_lines(path: Path) -> None:
    long = [
        f"{node.name} has {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= 60
    ]

    assert [] == long


def _public(tree: ast.Module) -> Iterator[ast.AST]:
    yield tree
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node
            yield from (inner for inner in node.body if _is_public(inner))
        elif _is_public(node):
            yield node


def _is_public(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return not node.name.startswith("_")
    return False


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_every_public_thing_has_a_docstring(path: Path) -> None:
    tree = ast.parse(path.read_text())
    if not tree.body or path.stem == "conformance":  # a test's name is its docstring
        return
    bare = [
        getattr(node, "name", path.stem)
        for node in _public(tree)
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        )
        and ast.get_docstring(node) is None
        and not any(
            isinstance(mark, ast.Name) and mark.id == "overload"
            for mark in getattr(node, "decorator_list", [])
        )
    ]

    assert [] == bare


def test_no_todo_and_no_skipped_test() -> None:
    words = ("TODO", "FIXME", "XXX")
    marks = ("mark.skip", "pytest.skip", "mark.xfail", "no cover")
    left = [
        f"{_name(path)}: {word}"
        for path in ALL_FILES
        if path != Path(__file__)
        for word in (*words, *marks)
        if word in path.read_text()
    ]

    assert [] == left


# What a cold process pays for a name: the module path is the price.
FORBIDDEN_IMPORTS = {
    "import continuations": ("asyncio", "pydantic", "openai", "boto3", "msgpack"),
    "from continuations import Runner, Approve": ("pydantic", "openai", "boto3"),
    "from continuations import Agent, tool, ToolContext, ApprovalPolicy": (
        "pydantic",
        "openai",
        "boto3",
        "msgpack",
    ),
    "import continuations.engine.worker": ("pydantic", "openai", "boto3"),
    "import continuations.models.openai_chat": ("openai", "httpx2", "pydantic"),
    "import continuations.serve.http.api": (
        "pydantic",
        "openai",
        "boto3",
        "starlette",
        "continuations.serve.http.pages",
    ),
    "import continuations.serve.aws_lambda": (
        "pydantic",
        "openai",
        "boto3",
        "botocore",
    ),
    "import continuations.serve.notify.webhook": ("pydantic", "openai", "http.client"),
    "import continuations.serve.notify.mail": ("pydantic", "openai", "smtplib"),
    "import continuations_storage": ("pydantic", "openai", "boto3", "msgpack"),
    "import continuations_storage.s3": ("openai", "boto3", "botocore"),
    "import continuations_storage.obstore": ("openai", "boto3", "obstore"),
}


@pytest.mark.parametrize("statement", FORBIDDEN_IMPORTS)
def test_import_loads_no_heavy_modules(statement: str) -> None:
    dear = FORBIDDEN_IMPORTS[statement]
    code = f"{statement}\nimport sys\nprint([m for m in {dear!r} if m in sys.modules])"

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert "[]" == done.stdout.strip()


def test_every_name_in_all_exists() -> None:
    lost = [name for name in continuations.__all__ if not hasattr(continuations, name)]

    assert [] == lost
    assert sorted(continuations.__all__) == sorted(set(continuations.__all__))


def test_package_and_changelog_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text()

    assert project["version"] == continuations.__version__
    assert f"## [{continuations.__version__}]" in changelog


def test_lifecycle_diagram_equals_the_transition_table() -> None:
    drawn = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "lifecycle.py")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()

    assert drawn in (ROOT / "docs" / "how-it-works.md").read_text()


LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize(
    "page",
    [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))],
    ids=_name,
)
def test_links_in_the_docs_exist(page: Path) -> None:
    lost = [
        target
        for target in LINK.findall(page.read_text())
        if not (page.parent / target).exists()
    ]

    assert [] == lost
