"""`--json` of every command prints one JSON value of the documented forms."""

from __future__ import annotations

import json
from typing import Any

import pytest

from continuations import Runner
from continuations.cli.options import resolve_actor
from continuations.cli.program import program
from continuations.results import Door
from tests.cli.command_line import RUNNERS, CommandLine, CommandResult
from tests.present.schema_check import assert_matches_schema

APP = f"{RUNNERS}:boss"


def value_of(result: CommandResult) -> Any:
    """Return the JSON value of a command's output, which is one line of ASCII."""
    [line] = result.lines
    assert line.isascii()
    return json.loads(line)


def test_every_command_that_prints_results_has_the_option() -> None:
    """`ui` prints an address for a person, and `completion` a script for a shell."""
    from typer.main import get_command  # noqa: PLC0415 - only this test reads the tree

    root: Any = get_command(program())
    without = [
        name
        for name, command in root.commands.items()
        if all("--json" not in each.opts for each in command.params)
    ]

    assert {"completion", "ui"} == set(without)


def test_start_decide_and_resume_print_forms(cli: CommandLine) -> None:
    started = value_of(cli.start(APP, "--json"))
    decided = value_of(cli("approve", cli.single_wait_id(), "--json"))
    resumed = value_of(cli("resume", "j1", "--app", APP, "--json"))

    assert_matches_schema("outcome", started)
    assert_matches_schema("decision", decided)
    assert_matches_schema("outcome", resumed)
    assert ("suspended", "finished") == (started["status"], resumed["status"])
    assert ("approve", "kim") == (decided["kind"], decided["by"])


@pytest.mark.parametrize(
    ("command", "kind"), [(("deny",), "deny"), (("answer", "5"), "answer")]
)
def test_other_decisions_print_a_decision(
    cli: CommandLine, command: tuple[str, ...], kind: str
) -> None:
    cli.start(APP)
    name, *value = command

    decided = value_of(cli(name, cli.single_wait_id(), *value, "--json"))

    assert_matches_schema("decision", decided)
    assert kind == decided["kind"]


def test_sweep_send_signal_and_cancel_print_forms(cli: CommandLine) -> None:
    cli.runner.start("go", run_id="j1", work=False)

    swept = value_of(cli("sweep", "--app", APP, "--json"))
    sent = value_of(cli("send", "j1", "And Lee?", "--json"))
    signal = ("signal", "j1", "receipt", "--data", '{"cents": 5}', "--id", "s1")
    signalled = value_of(cli(*signal, "--json"))
    assert signalled == value_of(cli(*signal, "--json"))
    cancelled = value_of(cli("cancel", "j1", "--json"))

    assert_matches_schema("sweep_result", swept)
    assert_matches_schema("sent_message", sent)
    assert_matches_schema("sent_signal", signalled)
    assert {"run_id": "j1", "number": 1} == signalled
    event = ("publish", "receipt", "--key", "A-17", "--data", "5", "--id", "e1")
    published = value_of(cli(*event, "--json"))
    assert published == value_of(cli(*event, "--json"))
    assert_matches_schema("published_event", published)
    assert [] == published["run_ids"]
    assert_matches_schema("run", cancelled)
    assert ("suspended", 1) == (swept["resumed"][0]["status"], sent["number"])
    assert "cancelled" == cancelled["status"]


def test_audit_prints_json_lines_with_the_door(cli: CommandLine) -> None:
    """A name of --by is not checked; the user of the process is."""
    for run_id in ("j1", "j2"):
        cli.runner.start("go", run_id=run_id)
    first, second = (wait.id for wait in cli.runner.waiting())
    cli("deny", first, "--by", "kim", "--reason", "no")
    cli("approve", second)

    [named] = (json.loads(line) for line in cli("audit", "j1").out.splitlines())
    [own] = (json.loads(line) for line in cli("audit", "j2").out.splitlines())

    assert_matches_schema("audit_line", named)
    assert ("cli", "kim", None) == (named["door"], named["by"], named["identity"])
    assert ("deny", "no", first) == (named["verdict"], named["reason"], named["wait"])
    assert own["identity"] is None
    assert Door("cli", "login") == resolve_actor(None).door
    assert 2 == cli("audit", first).exit_code


def test_several_decisions_in_one_command(cli: CommandLine) -> None:
    """Each has a line; the exit code tells that one was not recorded."""
    for run_id in ("j1", "j2"):
        cli.runner.start("go", run_id=run_id)
    first, second = (wait.id for wait in cli.runner.waiting())
    items = [
        {"wait_id": first, "decision": "approve"},
        {"wait_id": second, "decision": "deny", "reason": "no"},
    ]
    done = cli("decide", json.dumps(items), "--json")
    assert 0 == done.exit_code
    kinds = [json.loads(line)["decision"]["kind"] for line in done.out.splitlines()]
    assert ["approve", "deny"] == kinds

    other = [{"wait_id": first, "decision": "deny"}]
    late = cli("decide", json.dumps(other))
    assert (5, True) == (late.exit_code, "AlreadyDecided" in late.out)
    [line] = cli("decide", json.dumps(other), "--json").out.splitlines()
    assert "already-decided" == json.loads(line)["error"]
    for wrong in ("{}", "[]", "[1]", '[{"wait_id": "x"}]'):
        assert 2 == cli("decide", wrong).exit_code


def test_failing_lookup_of_groups_fails_one_decision(cli: CommandLine) -> None:
    """The function of the application does not know this person."""
    app = ("--app", "tests.cli.sample_runners:voting")
    for run_id in ("j1", "j2"):
        cli("start", "go", "--run-id", run_id, *app)
    store = cli.store
    first, second = (wait.id for wait in Runner([], store=store).waiting())
    items = [{"wait_id": each, "decision": "approve"} for each in (first, second)]

    done = cli("decide", json.dumps(items), "--json", "--by", "zoe", *app)

    assert 5 == done.exit_code
    results = [json.loads(line) for line in done.out.splitlines()]
    assert ["internal", "internal"] == [each["error"] for each in results]
    text = cli("decide", json.dumps(items), "--by", "zoe", *app)
    assert f"{first}: KeyError: 'zoe'" in text.out
    assert 0 == cli("decide", json.dumps(items), "--by", "kim", *app).exit_code


def test_grants_are_given_listed_and_revoked(cli: CommandLine) -> None:
    """The grant is JSON; the list has its id, and so has the revocation."""
    cli.runner.start("go", run_id="j1")
    [wait] = list(cli.runner.waiting())
    tool = cli.runner.wait(wait.id).tool
    grant = json.dumps({"tool": tool, "until": "2999-01-01T00:00:00Z"})
    given = value_of(cli("approve", wait.id, "--remember", grant, "--json"))
    assert_matches_schema("decision", given)

    [listed] = value_of(cli("grants", "j1", "--json"))
    assert_matches_schema("kept_grant", listed)
    assert (given["grant"], tool, False) == (
        listed["id"],
        listed["tool"],
        listed["revoked"],
    )
    assert listed["id"] in cli("grants", "j1").out
    revoked = value_of(cli("revoke", "j1", listed["id"], "--json"))
    assert_matches_schema("revoked_grant", revoked)
    assert f"{listed['id']}, revoked" in cli("grants", "j1").out
    assert "ends at the next claim" in cli("revoke", "j1", listed["id"]).out
    assert 5 == cli("revoke", "j1", "other").exit_code
    assert 2 == cli("approve", wait.id, "--remember", "{}").exit_code
    cli.runner.start("go", run_id="j2")
    assert "has no grants" in cli("grants", "j2").err


@pytest.mark.parametrize(
    "condition",
    [
        {"what": "x"},
        {"properties": {"what": {"pattern": "x|.*"}}},
        {"required": ["waht"]},
    ],
)
def test_condition_of_a_grant_that_does_not_limit_is_refused(
    cli: CommandLine, condition: dict[str, object]
) -> None:
    """Nothing is recorded, and the condition that the error suggests works."""
    cli.runner.start("go", run_id="j1")
    [wait] = list(cli.runner.waiting())
    tool = cli.runner.wait(wait.id).tool
    grant = json.dumps({"tool": tool, "arguments": condition})

    refused = cli("approve", wait.id, "--remember", grant)

    assert 0 != refused.exit_code
    assert "was not decided" in refused.err or "not decided" in refused.err
    assert "has no grants" in cli("grants", "j1").err
    text = refused.err.partition("for example with arguments=")[2].strip()
    works = {"tool": tool, "arguments": json.loads(text.removesuffix("."))}
    assert 0 == cli("approve", wait.id, "--remember", json.dumps(works)).exit_code


def test_cancel_of_an_ended_run_prints_it_and_exits_with_1(cli: CommandLine) -> None:
    cli("start", "go", "--run-id", "j1", "--app", f"{RUNNERS}:telling")

    done = cli("cancel", "j1", "--json")

    assert (1, "finished") == (done.exit_code, value_of(done)["status"])


def test_error_is_text_on_standard_error(cli: CommandLine) -> None:
    (cli.folder / "runs").mkdir()
    done = cli("resume", "nothing", "--app", APP, "--json")

    assert (5, "") == (done.exit_code, done.out)
    assert done.err.startswith("RunNotFound: ")
