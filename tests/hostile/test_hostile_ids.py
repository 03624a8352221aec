"""Invalid ids raise typed errors before the store is used."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations import Approve, ContinuationsError, Runner
from continuations.cli import main
from continuations.errors import InvalidId, WaitNotFound
from tests.hostile import sample_store
from tests.hostile.editable_store import EditableStore
from tests.hostile.sampling import every_nth
from tests.sampling import examples
from tests.stores import OneByOneStore

PARENT_PATH = "../../../../tmp/outside"
RUN_IDS: list[str] = [
    "",
    ".",
    "..",
    PARENT_PATH,
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a/../b",
    "r-1/v/9999999998",
    "r-1\n",
    "r-1\0",
    "r-1 ",
    " r-1",
    "-r",
    ".r",
    "_r",
    "r-1@x",
    "r~1",
    "%2e%2e",
    "r\u0301",
    "\uff52-1",
    "\u202er",
    "\ud800",
    "a" * 201,
    "a" * 100_000,
    "CON:",
    "r*",
    "$(id)",
    "`id`",
    "r;id",
]
ULID = "01arz3ndektsv4rrffq69g5fav"
WAIT_IDS: list[str] = [
    *RUN_IDS,
    f"approval-{ULID}@{PARENT_PATH}",
    f"approval-{ULID}@..",
    f"approval-{ULID}@",
    f"approval-{ULID}",
    f"approval-{ULID}@r-1@r-1",
    f"approval-{ULID}@r-1/x",
    f"approval-{ULID}@r-1\n",
    f"approval-{ULID.upper()}@r-1",
    "approval-@r-1",
    "approval-../../x@r-1",
    f"../approval-{ULID}@r-1",
    f"other-{ULID}@r-1",
    f"APPROVAL-{ULID}@r-1",
    "approval-8zzzzzzzzzzzzzzzzzzzzzzzzz@r-1",
    "approval-zzzzzzzzzzzzzzzzzzzzzzzzzz@r-1",
    f"approval-{ULID}{ULID}@r-1",
    "approval-" + "0" * 25 + "\u0660@r-1",
]
NOT_STRINGS: list[Any] = [0, 1, True, b"r-1", ["r-1"], {"r-1": 1}, 1j, 1.5, ("r-1",)]
RUN_OPERATIONS: dict[str, Callable[[Runner, Any], Any]] = {
    "start": lambda runner, name: runner.start("go", run_id=name),
    "resume": lambda runner, name: runner.resume(name),
    "look": lambda runner, name: runner.look(name),
    "cancel": lambda runner, name: runner.cancel(name),
    "send": lambda runner, name: runner.send(name, "hello"),
    "signal": lambda runner, name: runner.signal(name, "receipt"),
    "wake": lambda runner, name: runner.wake(name),
}
WAIT_OPERATIONS: dict[str, Callable[[Runner, Any], Any]] = {
    "decide": lambda runner, name: runner.decide(name, Approve(by="kim")),
    "wait": lambda runner, name: runner.wait(name),
}


def short_id(value: object) -> str:
    return ascii(value)[:30]


class ForbiddenStore(OneByOneStore):
    """A store that fails on every operation."""

    async def create(self, key: str, body: bytes) -> Any:
        raise AssertionError(key, body)

    async def read(self, key: str) -> bytes:
        raise AssertionError(key)

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        raise AssertionError(prefix, after, limit)

    async def delete(self, key: str) -> None:
        raise AssertionError(key)


@pytest.mark.parametrize("name", [*RUN_IDS, *NOT_STRINGS], ids=short_id)
@pytest.mark.parametrize("operation", RUN_OPERATIONS)
def test_a_run_id_is_checked_before_the_store_is_asked(
    operation: str, name: Any
) -> None:
    """An invalid run id raises `InvalidId` before any store operation."""
    runner = Runner(sample_store.sample_agent(), store=ForbiddenStore())
    with pytest.raises(InvalidId) as raised:
        RUN_OPERATIONS[operation](runner, name)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize("name", [*WAIT_IDS, *NOT_STRINGS, None], ids=short_id)
@pytest.mark.parametrize("operation", WAIT_OPERATIONS)
def test_a_wait_id_is_checked_before_the_store_is_asked(
    operation: str, name: Any
) -> None:
    """An invalid wait id raises `WaitNotFound` before any store operation."""
    runner = Runner(sample_store.sample_agent(), store=ForbiddenStore())
    with pytest.raises(WaitNotFound) as raised:
        WAIT_OPERATIONS[operation](runner, name)
    assert len(str(raised.value)) < 500


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(st.text(max_size=40) | st.from_regex(r"approval-[0-9a-z]{26}@[\w./-]{1,9}"))
def test_any_text_as_id_raises_typed_error_and_creates_nothing(name: str) -> None:
    """Any text as an id raises a typed error and creates no object."""
    store = EditableStore()
    runner = Runner([], store=store)
    for operation_name in ("resume", "look", "cancel", "send", "signal", "wake"):
        with pytest.raises(ContinuationsError):
            RUN_OPERATIONS[operation_name](runner, name)
    for operation in WAIT_OPERATIONS.values():
        with pytest.raises(ContinuationsError):
            operation(runner, name)
    assert {} == store.bodies


VALID_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
# An argument of a process cannot contain NUL.
COMMAND_LINE_IDS = [
    name for name in dict.fromkeys([*RUN_IDS, *WAIT_IDS]) if "\0" not in name
]


@pytest.mark.parametrize(
    "words",
    [
        ["resume"],
        ["show"],
        ["cancel"],
        ["doctor"],
        ["doctor", "--repair"],
        ["approve"],
        ["deny"],
        ["answer"],
        ["start", "go", "--run-id"],
    ],
    ids=" ".join,
)
def test_command_with_invalid_id_prints_one_error_line(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command exits with an error code and prints one printable line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONTINUATIONS_BY", "kim")
    source = (
        "from tests.hostile import sample_store\nagent = sample_store.sample_agent()\n"
    )
    (tmp_path / "sample_app_module.py").write_text(source)
    folder = sample_store.copy_template(tmp_path)
    before = sample_store.store_bodies(folder)
    options = ["--store", f"file:{folder}"]
    if words[0] in ("resume", "start"):
        options += ["--app", "sample_app_module:agent"]
    for name in every_nth(COMMAND_LINE_IDS, 6, len(words[0])):
        if words[0] == "start" and VALID_RUN_ID.fullmatch(name):
            continue
        more = [f"{words[-1]}={name}"] if words[0] == "start" else ["--", name]
        more += ["1"] * (words[0] == "answer")
        head = words[:-1] if words[0] == "start" else words
        code = main([*head, *options, *more])
        printed = capsys.readouterr()
        assert (5, "") == (code, printed.out), name
        line, rest = printed.err.split("\n", 1)
        assert ("", True) == (rest, line.isprintable()), name
    assert before == sample_store.store_bodies(folder)
    assert not list(tmp_path.parent.glob("outside*"))


def test_foreign_keys_are_ignored(tmp_path: Path) -> None:
    """Keys with invalid names are ignored when the store lists them."""
    folder = sample_store.copy_template(tmp_path)
    runner = sample_store.sample_runner(folder)
    wait_ids = [wait.id for wait in runner.waiting()]
    marker, _, _ = sample_store.store_keys(folder, "markers/")[0].partition("@")
    foreign_keys = [
        "waits/x",
        f"waits/approval-{ULID}@.x",
        f"waits/approval-{ULID}@" + "a" * 201,
        "waits/a/b",
        "markers/x",
        marker,
        f"{marker}@.x",
        f"{marker}@" + "a" * 201,
        f"{marker}@nobody",
        "markers/9999999999999-q-1-x@r-1",
        "markers/0000000000000-g-99999999999-x@r-1",
        f"runs/{sample_store.RUN}/in/d-x",
        f"runs/{sample_store.RUN}/in/d-approval-{ULID}",
        f"runs/{sample_store.RUN}/in/e-x",
        f"runs/{sample_store.RUN}/in/e-0000000002.x",
        f"runs/{sample_store.RUN}/in/m-x",
        f"runs/{sample_store.RUN}/in/m-0000000002.x",
        f"runs/{sample_store.RUN}/in/zzz",
        f"runs/{sample_store.RUN}/zzz",
        "runs/zzz",
        "zzz",
    ]
    for key in foreign_keys:
        path = folder / key
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"?")

    assert wait_ids == [wait.id for wait in runner.waiting()]
    assert {} == runner.sweep().errors
    for run_id in (sample_store.RUN, sample_store.OTHER):
        assert "finished" == sample_store.finish_run(runner, run_id).continuation.status
