"""Notes and errors: one line for programs, wrapped between words on a terminal."""

from __future__ import annotations

import sys

import pytest

from continuations.cli.output import wrap_text, write_note

WAIT_ID = "approval-01m7xzj8asw1ramfcps55vy294@jane-1"


def test_wrapped_text_keeps_words_and_ids_whole() -> None:
    line = f"Error: {WAIT_ID} has an unknown outcome."

    assert [
        "Error:",
        f"  {WAIT_ID}",
        "  has an unknown",
        "  outcome.",
    ] == wrap_text(line, 20).splitlines()


def test_note_is_wrapped_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")

    write_note("note: some words on a line")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    write_note("note: some words on a line")

    assert [
        "note: some words on a line",
        "note: some words on",
        "  a line",
    ] == capsys.readouterr().err.splitlines()
