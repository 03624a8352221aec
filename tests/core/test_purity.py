"""The core is pure: its source has no input, output, clock or global state."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import continuations.core.reducer

CORE = Path(continuations.core.reducer.__file__).parent
FILES = sorted(CORE.glob("*.py"))

# The core needs no other modules of the standard library.
ALLOWED_MODULES = {
    "__future__",
    "collections",
    "continuations",
    "dataclasses",
    "hashlib",
    "itertools",
    "decimal",
    "json",
    "math",
    "re",
    "string",
    "typing",
    "unicodedata",
    "typing_extensions",  # only for type checkers
}
ALLOWED_PACKAGES = {
    "continuations.core",
    "continuations.errors",
    "continuations.value_class",
}
CLOCK_METHODS = {"now", "utcnow", "today"}
FORBIDDEN_BUILTINS = {
    "open",
    "eval",
    "exec",
    "compile",
    "__import__",
    "input",
    "breakpoint",
}


def imported_modules(path: Path) -> list[str]:
    """Return the modules that a file imports, also those only for type checkers."""
    modules: list[str] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name} imports relatively"
            modules.append(node.module or "")
    return modules


def test_all_core_modules_are_checked() -> None:
    names = {path.stem for path in FILES}

    assert {"reducer", "transitions", "plan", "delta", "jsontext"} <= names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_core_imports_only_pure_modules(path: Path) -> None:
    for module in imported_modules(path):
        top = module.split(".")[0]
        if module == "datetime":
            continue
        assert top in ALLOWED_MODULES, f"{path.name} imports {module}"
        if top == "continuations":
            assert ".".join(module.split(".")[:2]) in ALLOWED_PACKAGES, (
                f"{path.name}: {module}"
            )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_core_reads_no_clock_and_opens_nothing(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute):
            assert node.attr not in CLOCK_METHODS, f"{path.name} line {node.lineno}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in FORBIDDEN_BUILTINS, (
                f"{path.name} line {node.lineno}"
            )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_core_has_no_global_statement(path: Path) -> None:
    """An event has the same effect whatever the process did before."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        assert not isinstance(node, ast.Global), f"{path.name} line {node.lineno}"
