"""An object is loaded by `module:name`, and errors say what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from continuations.engine.loading import load_object
from continuations.errors import InvalidInput

SOURCE = """
class App:
    runner = "the runner"

def __getattr__(name):
    if name == "lazy":
        return "made on access"
    raise AttributeError(name)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder that is the current directory; undo the imports from it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("App.runner", "the runner"), ("lazy", "made on access")],
)
def test_object_is_loaded_from_the_current_directory_on_request(
    folder: Path, name: str, expected: str
) -> None:
    (folder / "loading_app.py").write_text(SOURCE)

    with pytest.raises(InvalidInput, match="no module 'loading_app'"):
        load_object(f"loading_app:{name}")

    assert expected == load_object(f"loading_app:{name}", from_current_directory=True)
    assert str(folder) == sys.path[0]


def test_installed_object_is_loaded_without_the_current_directory(folder: Path) -> None:
    assert load_object is load_object("continuations.engine.loading:load_object")
    assert str(folder) not in sys.path


@pytest.mark.parametrize(
    "spec", ["", ":", "payroll", "payroll:", ":runner", ".payroll:runner"]
)
def test_name_of_another_form_is_rejected(spec: str) -> None:
    with pytest.raises(InvalidInput, match="is not of the form module:name"):
        load_object(spec)


@pytest.mark.parametrize("name", ["gone", "App.gone", "App.runner.gone"])
def test_error_of_a_missing_name_contains_the_name(folder: Path, name: str) -> None:
    (folder / "loading_app.py").write_text(SOURCE)

    with pytest.raises(InvalidInput) as caught:
        load_object(f"loading_app:{name}", from_current_directory=True)

    assert f"module 'loading_app' has no '{name}'" in str(caught.value)


def test_error_of_a_missing_module_contains_the_module(folder: Path) -> None:
    (folder / "payroll").mkdir()
    (folder / "payroll" / "__init__.py").touch()

    with pytest.raises(InvalidInput, match=r"there is no module 'payroll\.agents'"):
        load_object("payroll.agents:runner", from_current_directory=True)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = 1\n1 / 0", "line 2: ZeroDivisionError: division by zero"),
        ("import nothing_like_it", "line 1: ModuleNotFoundError"),
        ("raise SystemExit(3)", "line 1: SystemExit: 3"),
        ("x = (", "SyntaxError"),
    ],
)
def test_error_of_a_failing_import_contains_the_line(
    folder: Path, source: str, expected: str
) -> None:
    (folder / "failing_app.py").write_text(source)

    with pytest.raises(InvalidInput) as caught:
        load_object("failing_app:runner", from_current_directory=True)

    assert "importing the module failed" in str(caught.value)
    assert expected in str(caught.value)
    assert caught.value.__cause__ is not None


def test_keyboard_interrupt_during_an_import_propagates(folder: Path) -> None:
    (folder / "failing_app.py").write_text("raise KeyboardInterrupt")

    with pytest.raises(KeyboardInterrupt):
        load_object("failing_app:runner", from_current_directory=True)
