"""The options of `start`, `resume` and `sweep`, and the command `send`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from continuations import Runner
from tests.cli.command_line import RUNNERS, CommandLine

TELLING = f"{RUNNERS}:telling"


def told(runner: Runner) -> str:
    """Return the result of the tool `tell` of run `j1`."""
    messages = runner.look("j1").root.messages
    [text] = [str(each["content"]) for each in messages if each["role"] == "tool"]
    return text


def test_start_without_work_stores_the_run_for_a_sweep(cli: CommandLine) -> None:
    stored = cli.start(TELLING, "--no-work")
    swept = cli("sweep", "--app", TELLING)

    assert (0, "Suspended") == (stored.exit_code, stored.lines[0])
    assert f"next: continuations resume j1 --app {TELLING}" in stored.lines
    assert "Finished" in swept.lines


def test_start_records_labels_title_and_requester(cli: CommandLine) -> None:
    described = ("--label", "team=finance", "--label", "country=de")
    cli.start(TELLING, *described, "--title", "Pay Jane", "--by", "ann", "--no-work")

    lines = cli("show", "j1").lines
    assert " by ann; " in lines[1]
    assert ["title: Pay Jane", "labels: country=de team=finance"] == lines[2:4]
    shown = json.loads(cli("show", "j1", "--json").out)
    assert {"country": "de", "team": "finance"} == shown["labels"]
    assert ("Pay Jane", "ann") == (shown["title"], shown["requester"])
    assert "ann" == cli.runner.look("j1").run_state.run.requester


def test_start_stores_settings_as_json_or_words(cli: CommandLine) -> None:
    options = ("--setting", "seed=7", "--setting", "reasoning_effort=low")
    cli.start(TELLING, *options, "--setting", 'stop=["a b"]', "--no-work")

    stored = cli.runner.look("j1").run_state.run.settings_json
    expected = {"seed": 7, "reasoning_effort": "low", "stop": ["a b"]}
    assert expected == json.loads(str(stored))


def test_budget_in_money_ends_a_run_and_the_cost_is_shown(cli: CommandLine) -> None:
    """Each request costs one cent."""
    done = cli.start(f"{RUNNERS}:priced", "--max-cost", "0.03")

    assert 1 == done.exit_code
    assert "the budget of 0.03 USD is used up" in done.out
    assert "3 requests, 30 tokens in, 0 out, 0.03 USD" in cli("show", "j1").out
    usage = json.loads(cli("show", "j1", "--json").out)["usage"]
    assert ("0.03", "USD") == (usage["cost"], usage["currency"])


def test_budget_in_money_needs_prices(cli: CommandLine) -> None:
    done = cli.start(TELLING, "--max-cost", "0.03")

    assert "PriceUnknown" in done.err
    assert "" == done.out


@pytest.mark.parametrize(
    "settings",
    [
        *(("seed",), ("a=1", "a=2"), ("a={",), ("=1",)),
        *(('a={"b": 1, "b": 2}',), ("a=0.10000000000000000001",)),
    ],
)
def test_setting_without_a_value_or_twice_is_a_usage_error(
    cli: CommandLine, settings: tuple[str, ...]
) -> None:
    done = cli.start(TELLING, *(f"--setting={setting}" for setting in settings))

    assert (2, "") == (done.exit_code, done.out)
    assert done.err.startswith("Error: --setting ")


@pytest.mark.parametrize("labels", [("team",), ("team=a", "team=b")])
def test_label_without_value_or_twice_is_a_usage_error(
    cli: CommandLine, labels: tuple[str, ...]
) -> None:
    done = cli.start(TELLING, *(f"--label={label}" for label in labels))

    assert (2, "") == (done.exit_code, done.out)
    assert done.err.startswith("Error: --label 'team")


@pytest.mark.parametrize(
    ("context", "expected"), [("make_context", "'made'"), ("number", "5")]
)
@pytest.mark.parametrize("command", ["start", "resume", "sweep"])
def test_context_reaches_the_tools(
    cli: CommandLine, command: str, context: str, expected: str
) -> None:
    option = ("--context", f"{RUNNERS}:{context}")
    if command == "start":
        cli.start(TELLING, *option)
    else:
        cli.start(TELLING, "--no-work")
        run = ("j1",) if command == "resume" else ()
        cli(command, *run, "--app", TELLING, *option)

    assert f"the context is {expected}" == told(cli.runner)


def test_context_that_cannot_be_loaded_is_a_usage_error(cli: CommandLine) -> None:
    done = cli.start(TELLING, "--context", "nowhere_written:thing")

    assert (2, "") == (done.exit_code, done.out)
    assert done.err.startswith("Error: --context: cannot load ")


@pytest.mark.parametrize("option", ["--max-requests", "--max-tokens"])
def test_budget_ends_the_run(cli: CommandLine, option: str) -> None:
    done = cli.start(TELLING, option, "1")

    budget = cli.runner.look("j1").run_state.run.budget
    assert budget is not None
    assert 1 in (budget.requests, budget.tokens)
    assert (option == "--max-requests") == (1 == done.exit_code)


def test_budget_of_zero_is_a_usage_error(cli: CommandLine) -> None:
    assert 2 == cli.start(TELLING, "--max-requests", "0").exit_code


def test_start_without_id_names_the_new_run(cli: CommandLine) -> None:
    first = cli("start", "go", "--app", TELLING)
    second = cli("start", "go", "--app", TELLING)

    assert ("Finished", "Finished") == (first.lines[0], second.lines[0])
    assert first.lines[1] != second.lines[1]


def test_message_is_recorded_and_read(cli: CommandLine) -> None:
    cli.start(TELLING, "--no-work")

    sent = cli("send", "j1", "Be brief.")

    assert ["j1: message 1 is recorded", "next: continuations resume j1"] == sent.lines
    cli("resume", "j1", "--app", TELLING)
    texts = [each.get("content") for each in cli.runner.look("j1").root.messages]
    assert "Be brief." in texts


def test_message_to_a_wait_or_an_ended_run_is_refused(cli: CommandLine) -> None:
    cli.start(f"{RUNNERS}:boss")
    to_wait = cli("send", cli.single_wait_id(), "Hello")
    cli("cancel", "j1")
    to_ended = cli("send", "j1", "Hello")

    assert (2, True) == (to_wait.exit_code, "is the id of a wait" in to_wait.err)
    assert (5, True) == (to_ended.exit_code, "does not accept" in to_ended.err)


def test_start_takes_files(cli: CommandLine, tmp_path: Path) -> None:
    """The ending of the name tells the kind; a file that is missing starts nothing."""
    photo, report = tmp_path / "photo.png", tmp_path / "report.pdf"
    photo.write_bytes(b"PNG")
    report.write_bytes(b"%PDF")
    files = ("--file", str(photo), "--file", str(report))
    missing = cli.start(TELLING, *files, "--file", str(tmp_path / "none.png"))
    assert 2 == missing.exit_code
    assert "none.png' cannot be read" in missing.err

    assert 0 == cli.start(TELLING, *files, "--no-work").exit_code
    *_, message = cli.runner.look("j1").root.messages
    text, *parts = message["content"]
    assert "text" == text["type"]
    assert [("image", "photo.png"), ("file", "report.pdf")] == [
        (part["kind"], part["name"]) for part in parts
    ]
    digest = parts[0]["digest"]
    label = f"[image: photo.png, image/png, 3 bytes] {digest}"
    assert f"attachment {label}" in cli("show", "j1").out
    assert "[file: report.pdf, application/pdf, 4 bytes]" in cli("watch", "j1").out


def test_start_with_the_id_of_a_thread_is_refused(cli: CommandLine) -> None:
    run_id = f"t-support-{'0' * 32}-1"

    refused = cli("start", "go", "--run-id", run_id, "--app", TELLING)

    assert refused.err.startswith(f"InvalidId: run_id '{run_id}' is not allowed: ")
    assert [] == list(cli.runner.runs())
