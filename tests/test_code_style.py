"""Rules about the code of the project that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import continuations
from continuations.core.changes.events import CallCancelled
from continuations.core.changes.transitions import TRANSITIONS
from continuations.core.rows.calls import CLOSED_STATES, STATE_NAMES, Refused
from continuations.core.rows.wait_rules import WAIT_RULES
from tests.public_names import MAX_AT_THE_TOP
from tests.sampling import LONG_TESTS, SAMPLED_TESTS
from tools import check_layout

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path
    for package in ("continuations", "storage/continuations_storage")
    for path in (ROOT / package).rglob("*.py")
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


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_file_names_are_specific() -> None:
    assert [] == [_name(path) for path in SOURCES if path.stem in CATCH_ALL_NAMES]


def test_functions_have_at_most_60_lines() -> None:
    """A longer function is a sign of a missing table. A file has no such limit."""
    long = [
        f"{_name(path)}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= 60
    ]

    assert [] == long


def test_file_outside_the_layout_is_found() -> None:
    paths = ["README.md", "waiting/page.png", "docs/images/page.png", "notes.txt"]

    assert ["waiting/page.png", "notes.txt"] == check_layout.misplaced(paths)


# One concept in two packages: values in one, objects or commands in the other.
SHARED_MODULE_NAMES = {
    "__init__",
    "arrivals",
    "decisions",
    "dispatch",
    "errors",
    "problems",
    "versions",
    "waits",
}


def test_no_two_modules_share_a_name_by_accident() -> None:
    # A public module has the name of the room or the noun that it shows.
    private = [path for path in SOURCES if path.parent != ROOT / "continuations"]
    counted = Counter(path.stem for path in private)
    shared = {name for name, count in counted.items() if count > 1}

    # A name that is no longer shared leaves the list.
    assert shared == SHARED_MODULE_NAMES


def _is_table_of_kinds(node: ast.AST) -> bool:
    """Return whether a dict literal has a row for each of several wait kinds."""
    if not isinstance(node, ast.Dict) or len(node.keys) < 2:
        return False
    keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
    return len(keys) == len(node.keys) and keys <= WAIT_RULES.keys()


def _compares_a_kind(node: ast.AST) -> bool:
    """Return whether an expression compares a kind with wait kinds by their names."""
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    is_kind = any(re.search(r"\bwait\w*\.kind$", ast.unparse(each)) for each in sides)
    names = {
        each.value
        for side in sides
        for each in ast.walk(side)
        if isinstance(each, ast.Constant)
    }
    return is_kind and not names.isdisjoint(WAIT_RULES)


HOME_OF_WAIT_KINDS = "continuations/core/rows/wait_rules.py"


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("{'event': 1, 'timer': 2}", True),
        ("{'event': 1, 'other': 2}", False),
        ("wait.kind == 'approval'", True),
        ("self.wait.kind != 'input'", True),
        ("wait.kind in ('approval', 'unknown')", True),
        ("decision.kind == 'approve'", False),
        ("wait.rules.follows_policy", False),
    ],
)
def test_search_for_wait_kinds_finds_tables_and_comparisons(
    code: str, *, is_found: bool
) -> None:
    nodes = [*ast.walk(ast.parse(code))]

    found = any(_is_table_of_kinds(node) or _compares_a_kind(node) for node in nodes)
    assert is_found == found


def test_wait_kinds_have_one_table() -> None:
    """A new kind is one row of `WAIT_RULES`, not a search through the source."""
    trees = {_name(path): _tree(path) for path in SOURCES}
    del trees[HOME_OF_WAIT_KINDS]
    found = [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.expr)
        if _is_table_of_kinds(node) or _compares_a_kind(node)
    ]

    assert [] == found


def test_makefile_names_slow_tests_that_exist() -> None:
    """A renamed file would run in `make test-fast` again without notice."""
    named = re.findall(r"^\t(tests/\S+)", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert named
    assert [] == [name for name in named if not (ROOT / name).exists()]


def test_demonstration_in_a_browser_installs_no_test_tools() -> None:
    """`make demo-web` needs the package with its console, and no group of tools."""
    makefile = (ROOT / "Makefile").read_text()
    rules = dict(re.findall(r"^(\S+):.*\n((?:\t.*\n)+)", makefile, re.MULTILINE))
    needed = re.findall(
        r"^demo-web: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )

    assert [".venv/web"] == needed
    assert "--editable '.[cli,console]'" in rules[".venv/web"]
    assert "--group" not in rules[".venv/web"] + rules[".venv/package"]


def test_long_tests_exist() -> None:
    """A renamed test would run in `make test` again without notice.

    A name of `SAMPLED_TESTS` may be the beginning of the name of a test.
    """
    lost: list[str] = []
    for name in (*LONG_TESTS, *SAMPLED_TESTS):
        file, *words = name.partition("[")[0].split("::")
        text = (ROOT / file).read_text()
        lost += [
            f"{file}: {word}"
            for word in words[:1]
            if not re.search(rf"(class|def) {word}", text)
        ]

    assert [] == lost


# Ids of requirements from outside, for example R and a number.
OUTSIDE_IDS = re.compile(r"\b(?:R|X|SL|PA|EF|SC)-[A-Z]{0,2}\d+\b")


def test_no_file_mentions_ids_of_outside_documents() -> None:
    found = [
        f"{_name(path)}: {match}"
        for path in ALL_FILES
        for match in OUTSIDE_IDS.findall(path.read_text())
    ]

    assert [] == found


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


# A cold process pays for each import: these statements must not load these modules.
FORBIDDEN_IMPORTS = {
    "import continuations": ("asyncio", "pydantic", "openai", "boto3", "msgpack"),
    "from continuations import Runner, Approve": ("pydantic", "openai", "boto3"),
    "from continuations import Agent, tool, ToolContext, ApprovalPolicy": (
        "pydantic",
        "openai",
        "boto3",
        "msgpack",
    ),
    "import continuations.engine.worker.worker": ("pydantic", "openai", "boto3"),
    "import continuations.models.openai_chat": ("openai", "httpx2", "pydantic"),
    "import continuations.serve.http.api": (
        "pydantic",
        "openai",
        "boto3",
        "starlette",
        "continuations.serve.http.link_pages",
    ),
    "import continuations.serve.aws_lambda": (
        "pydantic",
        "openai",
        "boto3",
        "botocore",
    ),
    "import continuations.serve.notify.webhook": ("pydantic", "openai", "http.client"),
    "import continuations.serve.notify.mail": ("pydantic", "openai", "smtplib"),
    "import continuations.serve.lifespan": ("pydantic", "openai", "starlette"),
    "import continuations.testing.pytest_plugin": (
        "asyncio",
        "pydantic",
        "openai",
        "msgpack",
        "continuations.testing.harness",
    ),
    "import continuations_storage": ("pydantic", "openai", "boto3", "msgpack"),
    "import continuations_storage.s3": ("openai", "boto3", "botocore"),
    "import continuations_storage.obstore": ("openai", "boto3", "obstore"),
}


@pytest.mark.parametrize("statement", FORBIDDEN_IMPORTS)
def test_import_loads_no_heavy_modules(statement: str) -> None:
    forbidden = FORBIDDEN_IMPORTS[statement]
    loaded = f"[name for name in {forbidden!r} if name in sys.modules]"
    code = f"{statement}\nimport sys\nprint({loaded})"

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert "[]" == done.stdout.strip()


def test_every_name_in_all_exists() -> None:
    lost = [name for name in continuations.__all__ if not hasattr(continuations, name)]

    assert [] == lost
    assert sorted(continuations.__all__) == sorted(set(continuations.__all__))
    assert len(continuations.__all__) <= MAX_AT_THE_TOP


def test_package_and_changelog_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text()

    assert project["version"] == continuations.__version__
    assert f"## [{continuations.__version__}]" in changelog


def test_lifecycle_diagram_equals_the_transition_table() -> None:
    """Draw it again: `python docs/lifecycle.py > docs/images/lifecycle.svg`."""
    drawn = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "lifecycle.py")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    picture = ROOT / "docs" / "images" / "lifecycle.svg"
    titles = [
        f"{STATE_NAMES[state]} to {STATE_NAMES[after]}: {event.__name__}"
        for (state, event), after in TRANSITIONS.items()
        if event is not CallCancelled
    ]

    assert drawn == picture.read_text()
    assert sorted(titles) == sorted(re.findall("<g><title>(.*?)</title>", drawn))


def test_every_open_state_can_be_cancelled_as_the_page_says() -> None:
    open_states = set(STATE_NAMES) - set(CLOSED_STATES)
    cancelled = {
        state: after
        for (state, event), after in TRANSITIONS.items()
        if event is CallCancelled
    }

    assert dict.fromkeys(open_states, Refused) == cancelled


def test_no_page_has_a_mermaid_block() -> None:
    """A mermaid block would load its program from unpkg.com when the page is read."""
    pages = [path.read_text() for path in (ROOT / "docs").rglob("*.md")]

    assert "images/lifecycle.svg" in (ROOT / "docs" / "how-it-works.md").read_text()
    assert not [page for page in pages if "```mermaid" in page]


LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)(?:#[^)]*)?\)")


def test_links_in_the_docs_exist() -> None:
    pages = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    pages += [ROOT / "tests" / "README.md", ROOT / "storage" / "README.md"]
    lost = [
        f"{_name(page)}: {target}"
        for page in pages
        for target in LINK.findall(page.read_text())
        if not (page.parent / target).exists()
    ]

    assert [] == lost


# No index has the package, so there is one way to install it.
INSTALL = "pip install '.[all]'   # in a checkout of this repository"


def test_each_page_installs_the_package_with_the_same_line() -> None:
    places = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*"), *SOURCES]
    places += [*(ROOT / "examples").rglob("*.md"), ROOT / "storage" / "README.md"]
    lines = [
        line.strip().removeprefix("$ ")
        for path in places
        if path.suffix in (".md", ".py") and path != ROOT / "CHANGELOG.md"
        # A text of the source may be divided into several literals.
        for line in re.sub(r'"\n\s*f?"', "", path.read_text()).splitlines()
        if re.search(r"pip install.*(continuations|\.\[|install \.)", line)
    ]

    assert {INSTALL} == set(lines)
