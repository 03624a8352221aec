"""The core is pure: its source has no input, output, clock or global state."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import continuations.core

CORE = Path(str(continuations.core.__file__)).parent
FILES = sorted(CORE.rglob("*.py"))

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


def impurities(name: str, source: str) -> list[str]:
    """Return what the source of a module does that the core must not do."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found += [
                    f"{name}:{node.lineno} imports {each.name}"
                    for each in names
                    if not is_pure(each.name)
                ]
            case ast.ImportFrom(module=module, level=level):
                if level or not is_pure(module or ""):
                    found.append(f"{name}:{node.lineno} imports {module}")
            case ast.Attribute(attr=attribute) if attribute in CLOCK_METHODS:
                found.append(f"{name}:{node.lineno} reads a clock: {attribute}")
            case ast.Call(func=ast.Name(id=called)) if called in FORBIDDEN_BUILTINS:
                found.append(f"{name}:{node.lineno} calls {called}")
            case ast.Global():
                found.append(f"{name}:{node.lineno} has a global statement")
            case _:
                pass
    return found


def is_pure(module: str) -> bool:
    """Return whether the core may import a module, also only for type checkers."""
    top = module.split(".", maxsplit=1)[0]
    if top == "continuations":
        return ".".join(module.split(".")[:2]) in ALLOWED_PACKAGES
    return module == "datetime" or top in ALLOWED_MODULES


def test_core_is_pure() -> None:
    """An event has the same effect whatever the process did before."""
    names = {path.stem for path in FILES}
    found = [each for path in FILES for each in impurities(path.name, path.read_text())]

    assert {"reducer", "transitions", "plan", "delta", "jsontext"} <= names
    assert [] == found


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "from os import path",
        "from . import calls",
        "from continuations.engine.worker import worker",
        "import continuations.ledger.claims",
        "datetime.now()",
        "open('file')",
        "def f():\n    global x",
    ],
)
def test_each_impurity_is_found(source: str) -> None:
    assert 1 == len(impurities("module.py", source))
