"""Files that a person gives to a command are refused before anything is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from continuations.cli.chat_session import ChatFiles, completed_lines, shown_text
from continuations.cli.options import UsageError, read_file
from continuations.core import attachment_parts
from continuations.core.rows import attachments
from continuations.errors import InvalidInput
from tests.cli.command_line import CommandLine
from tests.cli.test_run_options import TELLING
from tests.present.schema_check import assert_matches_schema


def test_send_takes_files_and_an_id(cli: CommandLine, tmp_path: Path) -> None:
    """A repeated command with the same id sends one message."""
    report = tmp_path / "report.pdf"
    report.write_bytes(b"%PDF")
    cli.start(TELLING, "--no-work")
    send = ("send", "j1", "And this?", "--id", "m1")

    for _ in range(2):
        sent = cli(*send, "--file", str(report))
        assert "j1: message 1 is recorded" == sent.lines[0]
    missing = cli(*send, "--file", str(tmp_path / "none.pdf"))
    other = cli(*send)

    assert (2, 5) == (missing.exit_code, other.exit_code)
    cli("resume", "j1", "--app", TELLING)
    messages: list[Any] = cli.runner.look("j1").root.messages
    listed = [each["content"] for each in messages if type(each["content"]) is list]
    names = [part["name"] for parts in listed for part in parts if "name" in part]
    assert ["report.pdf"] == names


def test_large_file_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the size, the limit and the path as it was typed."""
    monkeypatch.setattr(attachment_parts, "MAX_RUN_BYTES", 3)
    path = tmp_path / "large.bin"
    path.write_bytes(b"1234")

    with pytest.raises(UsageError, match=r"large\.bin. is too large: it has 4 bytes"):
        read_file("--file", str(path))


@pytest.mark.parametrize("name", ["none.png", "\0", "."])
def test_path_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"--file .* cannot be read"):
        read_file("--file", name)


def test_empty_file_and_hostile_name_are_refused(tmp_path: Path) -> None:
    """A name with a control character would change the lines of a terminal."""
    for name, content in (("empty.png", b""), ("a\x1b[2Jb.png", b"PNG")):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InvalidInput):
            read_file("--file", str(path))


def test_files_of_a_chat_have_the_limit_of_a_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The file that is too much is not attached; the others stay."""
    monkeypatch.setattr(attachments, "MAX_RUN_BYTES", 6)
    files = ChatFiles()
    for name in ("a.png", "b.pdf"):
        (tmp_path / name).write_bytes(name.encode())
        files.attach(str(tmp_path / name))

    text = "look\n[image: a.png, image/png, 5 bytes]"
    assert text == shown_text(files.with_text("look"))
    assert "at most 6 are allowed" in capsys.readouterr().err
    files.remove_all()
    assert "look" == files.with_text("look")


def test_paths_are_completed_after_the_command_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spaces and the characters of patterns are part of a path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "folder").mkdir()
    for name in ("my photo.png", "folder/a [1].png", "folder/a1.png"):
        (tmp_path / name).write_bytes(b"PNG")

    assert ["/file my photo.png"] == completed_lines("/file my p")
    assert ["/file folder/"] == completed_lines("/file fol")
    assert ["/file folder/a [1].png"] == completed_lines("/file folder/a [")
    assert [f"/file {tmp_path}/my photo.png"] == completed_lines("/file ~/my")
    assert [] == completed_lines("my p")


def test_show_has_messages_that_the_run_has_not_read(
    cli: CommandLine, tmp_path: Path
) -> None:
    """Each has its sender, time and files; an earlier version does not have them."""
    report = tmp_path / "report.pdf"
    report.write_bytes(b"%PDF")
    cli.start(TELLING, "--no-work")
    nothing = cli("show", "j1").out
    cli("send", "j1", "And this?", "--by", "ann", "--file", str(report))

    shown = cli("show", "j1")
    form = json.loads(cli("show", "j1", "--json").out)

    assert "not read yet" not in nothing
    [line] = [each for each in shown.lines if each.startswith("not read yet: ")]
    [unread] = form["unread"]
    assert f"not read yet: message 1 from ann, {unread['at'][:10]}" in line
    assert r"UTC: And this?\n[file: report.pdf" in line
    [attached] = [each for each in shown.lines if each.startswith("  attachment ")]
    assert "report.pdf" in attached
    assert "sha256:" in attached
    assert (1, "ann") == (unread["number"], unread["by"])
    assert_matches_schema("run", form)
    assert "not read" not in cli("show", "j1", "--version", "1").out
    cli("resume", "j1", "--app", TELLING)
    assert "not read" not in cli("show", "j1").out
