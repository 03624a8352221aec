"""The parts of a wait: the same facts at every door, in one order, always escaped."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime
from html import unescape
from typing import Any

import pytest

from continuations import Wait
from continuations.cli.formatting import title_lines, wait_lines
from continuations.cli.terminal import page_lines
from continuations.core.jsontext import dump
from continuations.core.rows.decisions import (
    Answer,
    Decision,
    Deny,
    Escalate,
    Fail,
    dump_action,
)
from continuations.core.rows.quorum import Quorum, Vote
from continuations.core.words.call_display import CallDisplay, Finding
from continuations.core.words.summaries import MoneyReading
from continuations.present.json_forms import wait_json, wait_notice_json
from continuations.present.wait_view import argument_views
from continuations.present.wait_words import (
    decision_word,
    effect_text,
    title,
    wait_facts,
)
from continuations.serve.notify import mail
from tests.ledger.fake_clock import MOMENT
from tests.ledger.runs import make_wait
from tests.present.schema_check import assert_matches_schema
from tests.serve.pages.wait_html import wait_html

SCHEMA = {
    "properties": {
        "cents": {"type": "integer", "description": "The amount."},
        "day": {"type": "string", "format": "date", "default": "2026-11-24"},
        "pin": {"type": "string"},
        "items": {"type": "array"},
    }
}
ARGUMENTS = {
    "cents": 1240000,
    "day": "2026-11-24",
    "pin": "9876",
    "items": [{"cents": 5}, {"cents": 700}],
}
DISPLAY = CallDisplay(
    title="Send €12,400.00",
    template="Send {cents}",
    money=(("cents", MoneyReading("EUR", 100)), ("items/*/cents", MoneyReading("", 1))),
    secrets=("pin",),
    reversible=False,
    evidence=(
        Finding("find", "the register has it", 19),
        Finding("hr", "x" * 240, 5210, by_agent=True),
    ),
    agent_words="It is due.",
    requester="mara",
)
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</code></td></tr></table><form method=post>",
    "\u202eevorppa\u2066",
    "a\u200bb\x00\x1b[2J",
    "line\ndecide by: never",
]


def full_wait(**changes: Any) -> Wait:
    """Return a wait with everything that people read."""
    wait = replace(
        make_wait(deadline=MOMENT),
        arguments_json=dump(ARGUMENTS),
        schema_json=dump(SCHEMA),
        display=replace(DISPLAY, **changes),
    )
    return replace(wait, note="new account")


def page_text(wait: Wait) -> str:
    """Return the text of a wait's page."""
    body = wait_html(wait, ["approve", "deny"])
    return unescape(re.sub(r"<[^>]+>", "\n", body.partition("<body>")[2]))


def mail_text(wait: Wait) -> str:
    """Return the text of a wait's mail, with arguments."""
    return mail.body_text(wait, None, with_arguments=True)


def cli_text(wait: Wait) -> str:
    """Return a wait as the command line shows it."""
    return "\n".join(wait_lines(wait))


def terminal_text(wait: Wait) -> str:
    """Return a wait as the command line shows it on a terminal."""
    lines = page_lines(wait, (), MOMENT)
    return "\n".join(f"{line.prefix}{line.text}" for line in lines)


DOORS = [page_text, mail_text, cli_text, terminal_text]
PARTS = (
    "Send €12,400.00",
    "cannot be undone",
    "mara",
    "1240000",
    "the register has it",
    "It is due.",
)


@pytest.mark.parametrize("door", DOORS)
def test_every_door_shows_all_parts_in_one_order(door: Any) -> None:
    """First the title, then the arguments, evidence, the deadline and the origin."""
    text = door(full_wait())

    # A page names the requester beside its kind, above the title.
    parts = [part for part in PARTS if (door, part) != (page_text, "mara")]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert text.lower().rindex("decide by") > places[-1]
    deadline = text.index("expired, nothing runs")
    assert deadline > places[-1]
    origin = " > " if door in (mail_text, cli_text) else "Where it comes from"
    assert text.rindex(origin) > deadline
    for part in (
        "€12,400.00",
        "Tuesday, 24 November 2026",
        "(5,210 characters)",
        "Results of other agents" if door is terminal_text else "hr (an agent)",
        "[secret]",
        "not checked",
    ):
        assert part in text
    assert "9876" not in text


@pytest.mark.parametrize("door", DOORS)
def test_every_door_has_the_same_words_for_a_deadline(door: Any) -> None:
    for action, words in (
        (None, "expired, nothing runs"),
        (Deny(), "denied, nothing runs"),
        (Fail("no reply"), "the call fails: no reply"),
        (Answer({"size": 3}), "the answer is size: 3"),
        (
            Escalate(to=("cfo",), within=60),
            "nothing runs, and other people are asked: cfo",
        ),
    ):
        stored = None if action is None else dump_action(action)
        wait = replace(make_wait(deadline=MOMENT), on_deadline_json=stored)

        assert words in door(wait), action


def test_mail_without_arguments_has_no_answer_of_the_deadline() -> None:
    stored = dump_action(Answer("0042"))
    wait = replace(make_wait(deadline=MOMENT), on_deadline_json=stored)

    assert "0042" not in mail.body_text(wait, None, with_arguments=False)


def test_page_shows_readings_beside_values_and_marks_them() -> None:
    body = wait_html(full_wait(), ["approve"])

    assert "<h1>Send €12,400.00</h1>" in body
    assert '<b>€12,400.00</b><code class="value raw">1240000</code>' in body
    assert "<span>The amount.</span>" in body
    assert '<span class="tag">default</span>' in body
    assert '<span class="value">[secret]</span> <span class="tag">secret' in body
    assert "<b>items[1].cents: 700</b>" in body


def test_wait_without_display_is_shown_with_its_arguments() -> None:
    wait = make_wait()

    assert (None, None, ()) == (effect_text(wait), wait.agent_words, wait.evidence)
    lines = list(wait_lines(wait))
    assert f"arguments: {wait.arguments_json}" == lines[1]
    form = wait_json(wait)
    assert (None, None, None, {}, [], []) == (
        form["title"],
        form["reversible"],
        form["requester"],
        form["readings"],
        form["secrets"],
        form["evidence"],
    )


def test_json_has_every_part_and_no_secret() -> None:
    form = wait_json(full_wait(), now=MOMENT)

    assert_matches_schema("wait", form)
    assert "9876" not in json.dumps(form)
    assert {
        "cents": "€12,400.00",
        "day": "Tuesday, 24 November 2026",
        "items[0].cents": "5",
        "items[1].cents": "700",
    } == form["readings"]
    assert ["find", "hr"] == [each["source"] for each in form["evidence"]]


@pytest.mark.parametrize("with_arguments", [True, False])
def test_notice_has_what_is_made_of_arguments_only_on_request(
    with_arguments: bool,
) -> None:
    """A title contains arguments, so it is as private as they are."""
    form = wait_notice_json(full_wait(), with_arguments=with_arguments)
    text = mail.body_text(full_wait(), None, with_arguments=with_arguments)

    assert_matches_schema("wait_notice", form)
    assert with_arguments == ("title" in form) == ("€12,400.00" in text)
    assert with_arguments == ("evidence" in form) == ("the register" in text)
    assert ("mara", False) == (form["requester"], form["reversible"])
    assert "9876" not in json.dumps(form) + text


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_forges_nothing_at_any_door(text: str) -> None:
    wait = full_wait(
        title=text,
        evidence=(Finding(text, text, 5),),
        agent_words=text,
        requester=text,
    )
    arguments = {text: text, "cents": text}
    wait = replace(wait, arguments_json=dump(arguments))
    harmless = wait_html(full_wait(), ["approve", "deny"])

    body = wait_html(wait, ["approve", "deny"])

    assert harmless.count("<form") == body.count("<form")
    assert "<script" not in body
    assert "<img" not in body
    for shown in (body, cli_text(wait), mail_text(wait)):
        assert all(char.isprintable() or char == "\n" for char in shown)
    for lines in (cli_text(wait), mail_text(wait)):
        assert not any(line.startswith("decide by: never") for line in lines.split())


def test_decided_edit_has_the_title_of_the_edit() -> None:
    """A template is rendered again; the title of a function would be wrong."""
    wait = full_wait()
    decision = Decision(
        id="x", wait_id=wait.id, kind="approve", at=MOMENT, digest=wait.digest
    )
    edited = replace(decision, arguments='{"cents":500,"pin":"[secret]"}')

    assert ["title: Send €12,400.00"] == list(title_lines(wait, decision))
    assert ["title: Send €5.00"] == list(title_lines(wait, edited))
    assert [] == list(title_lines(full_wait(template=None), edited))
    assert [] == list(title_lines(make_wait(), decision))


def test_vote_for_an_edit_shows_the_edit_and_its_title() -> None:
    """The next person must see what the first one voted for."""
    edit = '{"cents":500,"pin":"[secret]"}'
    vote = Vote(
        id="x",
        wait_id="w",
        by="kim",
        kind="approve",
        at=MOMENT,
        votes_needed=2,
        still_needed=1,
        digest="d",
        arguments=edit,
    )
    rule = Quorum(votes=2)
    with_title = replace(full_wait(), votes=(vote,), quorum=rule)
    plain = replace(make_wait(), votes=(vote,), quorum=rule)

    assert (
        f"kim: approve with edited arguments {edit} (Send €5.00); 2 needed"
        == wait_facts(with_title)["Votes"]
    )
    assert (
        f"kim: approve with edited arguments {edit}; 2 needed"
        == wait_facts(plain)["Votes"]
    )


# Titles that the console makes ------------------------------------------------------


def made_title(arguments: dict[str, Any], **changes: Any) -> str:
    """Return the title of a call of `send` without a summary."""
    properties = changes.pop("properties", {})
    schema = {"properties": properties, "required": [*arguments]}
    wait = make_wait(1)
    return title(
        replace(
            wait,
            tool="send",
            display=None,
            arguments_json=dump(arguments),
            schema_json=dump(schema),
            **changes,
        )
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "Run send"),
        ({"a": "x", "b": "y"}, "Run send: x, y"),
        # Amounts, ids and addresses are chosen before other texts.
        (
            {"mood": "calm", "tone": "dry", "form": "long", "to": "kim@x.com"},
            "Run send: calm, dry, kim@x.com, and 1 more argument",
        ),
        (
            {"a": "x", "b": "y", "c": "z", "amount": 12400, "order": "B-7"},
            "Run send: x, 12400, B-7, and 2 more arguments",
        ),
        (
            {"to": "DE89 3704 0044 0532 0130 00", "text": "long " * 30},
            "Run send: DE89 3704 0044 0532 0130 00, and 1 more argument",
        ),
        # A truth value and a list are not shown, and not left out without a word.
        ({"name": "bob", "force": True}, "Run send: bob, and 1 more argument"),
        ({"name": "bob", "tags": ["a"]}, "Run send: bob, and 1 more argument"),
        ({"name": "bob", "note": "", "at": None, "tags": []}, "Run send: bob"),
        ({"text": "long " * 30}, "Run send"),
        ({"text": "a\u202eb", "id": 7}, "Run send: 7, and 1 more argument"),
    ],
)
def test_made_title_leaves_out_nothing_without_a_word(
    arguments: dict[str, Any], words: str
) -> None:
    assert words == made_title(arguments)


def test_made_title_leaves_out_defaults() -> None:
    properties = {"retries": {"default": 3}, "force": {"default": False}}
    arguments = {"name": "bob", "retries": 3, "force": False}
    assert "Run send: bob" == made_title(arguments, properties=properties)
    arguments["force"] = True
    expected = "Run send: bob, and 1 more argument"
    assert expected == made_title(arguments, properties=properties)


def test_made_title_has_the_reading_of_an_amount_and_no_secret() -> None:
    display = CallDisplay(
        money=(("cents", MoneyReading("EUR", 100)),), secrets=("pin",)
    )
    wait = replace(
        make_wait(1),
        tool="send",
        display=display,
        arguments_json=dump({"a": "x1", "b": "y2", "c": "z3", "cents": 5, "pin": "9"}),
    )
    assert "Run send: €0.05, x1, y2, and 2 more arguments" in {
        title(wait),
        title(wait).replace("x1, y2, €0.05", "€0.05, x1, y2"),
    }


# Marks of arguments -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "marks"),
    [
        (18204, ("18,204",)),
        (-1240000, ("-1,240,000",)),
        (1999, ()),
        (18204.5, ()),
        (10**20, ()),
        ("18204", ()),
        (True, ()),
        ("2001-02-03", ("in the past",)),
        ("2001-02-03T10:00:00Z", ("in the past",)),
        ("2001-02-03 10:00", ("in the past",)),
        ("9999-12-31", ()),
        ("2001-02-33", ()),
        ("2001-02-03 is the day", ()),
        ("20010203", ()),
    ],
)
def test_marks_separate_thousands_and_name_the_past(
    value: object, marks: tuple[str, ...]
) -> None:
    wait = replace(make_wait(1), arguments_json=dump({"v": value}), schema_json="{}")
    [view] = argument_views(wait)
    assert marks == view.marks


def test_day_is_past_only_where_it_has_ended_everywhere() -> None:
    wait = replace(make_wait(1), arguments_json='{"by":"2026-11-24"}')
    for now, is_past in {
        "2026-11-25T11:59:59+00:00": False,  # the day of Baker Island
        "2026-11-25T12:00:00+00:00": True,
    }.items():
        [view] = argument_views(wait, now=datetime.fromisoformat(now))
        assert is_past == view.is_past


@pytest.mark.parametrize(
    ("wait", "kind", "words"),
    [
        ("approval", "deny", "Denied"),
        ("question", "answer", "Answered"),
        ("unknown", "answer", "It happened"),
        ("unknown", "deny", "It did not happen: do not run it"),
        ("unknown", "expire", "Expired"),
    ],
)
def test_decision_of_an_unknown_outcome_says_what_happened(
    wait: str, kind: str, words: str
) -> None:
    assert words == decision_word(f"{wait}-01m8m8q7mkc3nqr89ta20asm3x@r1", kind)
