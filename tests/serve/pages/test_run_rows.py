"""The tree of a run is one flat table: a row for each frame and each call."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations import Agent, Approve, Deny, Runner, tool
from continuations.core.reading.run_past import VersionWindow
from continuations.core.rows.calls import Nested
from continuations.core.ulid import encode_ulid
from continuations.engine.event_reading import read_window
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.repair.doctor import repair
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.pages.call_arguments import CallArguments
from continuations.serve.pages.log_entries import run_log
from continuations.serve.pages.run_tree import RunRows, Tree, tree
from continuations.serve.pages.run_view import call_view, run_view
from continuations_storage import MemoryStore, Store
from tests import scripts
from tests.clocks import ManualClock
from tests.sampling import RUNS_ALL_CASES, examples
from tests.serve.pages.invoice_run import RUN, TITLE, InvoiceRun


def read(store: Store, run_id: str = RUN, **options: Any) -> VersionWindow:
    """Return the last versions of a run."""
    return asyncio.run(read_window(Objects(store), run_id, **options))


def table(window: VersionWindow, clock: ManualClock, **options: Any) -> Tree:
    rows = RunRows.of_window(window, clock.now())
    return tree(
        rows,
        rows.states(window),
        subject=TITLE,
        arguments=CallArguments.of_window(window),
        **options,
    )


def lines(found: Tree) -> list[str]:
    """Return the rows as text, as a person reads them."""
    return [
        f"{'  ' * row.indent}{row.name} | {row.note} | {row.state.words}"
        for row in found.rows
    ]


# The table ---------------------------------------------------------------------


def test_table_has_the_order_and_the_words_of_the_run() -> None:
    run = InvoiceRun.interrupted()

    found = table(read(run.store), run.clock)

    assert [
        "back-office | Pay the supplier invoices due before 30 November | waits",
        "  read_mailbox | invoices | 1.2 s",
        "  payables | Meridian Freight | waits",
        "    match_order | Meridian Freight | 1.6 s",
        "    transfer | Send €12,400.00 to Meridian Freight | waits",
        "  payables | Studio Halm | 3.5 s",
        "    match_order | Studio Halm | 1.6 s",
        "    transfer | to: Studio Halm, cents: 86000 | 1.9 s",
        "  payables | Kettenwerk | waits",
        "    ask_ines | €214 more than ordered: pay it? | answered by Ines Albrecht",
        "    transfer | Send €3,182.40 to Kettenwerk | unknown",
    ] == lines(found)
    kinds = {row.key: [bar.kind for bar in row.bars] for row in found.rows}
    by_name = {(row.name, row.note): kinds[row.key] for row in found.rows}
    assert ["hold"] == by_name["transfer", "Send €12,400.00 to Meridian Freight"]
    assert ["work", "lost"] == by_name["transfer", "Send €3,182.40 to Kettenwerk"]
    assert ["work", "hold"] == by_name["ask_ines", "€214 more than ordered: pay it?"]
    assert ["frame", *["model"] * 3] == by_name["payables", "Studio Halm"]


def test_older_version_shows_what_was_known_then() -> None:
    run = InvoiceRun.suspended()
    suspended = run.runner.look(RUN).version
    run.vote()
    run.die()

    found = table(read(run.store, version=suspended), run.clock)

    assert "    ask_ines | €214 more than ordered: pay it? | asks" in lines(found)
    assert 2 == sum(row.name == "transfer" for row in found.rows)


def test_window_shows_the_open_rows_of_earlier_versions() -> None:
    """The cost of a page has a limit: it reads some versions, and the state before."""
    run = InvoiceRun.interrupted()

    window = read(run.store, limit=2)
    found = table(window, run.clock, earlier=window.first_number - 1)

    assert 2 == len(window.versions)
    names = Counter(row.name for row in found.rows)
    assert {"back-office": 1, "payables": 3, "transfer": 2} == names
    assert window.first_number - 1 == found.earlier > 0


# Each frame and each call has one row ---------------------------------------------

Spec = dict[str, Any]
LEAVES = st.sampled_from(["read", "ask", "fail", "missing"])
SPECS: st.SearchStrategy[Spec] = st.recursive(
    st.fixed_dictionaries({"leaf": LEAVES}),
    lambda below: st.fixed_dictionaries(
        {"below": st.lists(below, min_size=0, max_size=3)}
    ),
    max_leaves=6,
)


@tool(read_only=True)
def read_it() -> str:
    """Read."""
    return "read"


@tool(approval=True)
def ask_it() -> str:
    """Ask."""
    return "done"


@tool
def fail_it() -> str:
    """Fail."""
    raise ValueError


def agents(levels: int = 5) -> Agent:
    """Return agents in a chain; the task of each says in JSON what it calls."""

    def reply(request: Any) -> Any:
        messages = [each.data for each in request.messages]
        if scripts.turn_count(messages):
            return "ready"
        spec = json.loads(scripts.first_user_message(messages))
        calls = [_call(each) for each in spec.get("below", ())]
        return calls or "nothing to do"

    below: list[Any] = []
    for level in range(levels, 0, -1):
        agent = Agent(
            f"agent{level}",
            tools=[read_it, ask_it, fail_it, *below],
            model=ScriptedModel(reply),
        )
        below = [agent]
    root: Agent = below[0]
    return root


def _call(spec: Spec) -> ToolCall:
    if "leaf" in spec:
        return ToolCall(f"{spec['leaf']}_it")
    return ToolCall(spec["agent"], {"input": json.dumps(spec)})


def with_agents(spec: Spec, level: int = 1) -> Spec:
    """Return a specification with the name of each agent."""
    below = [with_agents(each, level + 1) for each in spec.get("below", ())]
    return {**spec, "agent": f"agent{level}", **({"below": below} if below else {})}


@given(SPECS, st.lists(st.booleans(), max_size=8), st.integers(1, 4))
@settings(max_examples=examples(25), deadline=None)
def test_every_frame_and_call_has_one_row(
    spec: Spec, approvals: Sequence[bool], limit: int
) -> None:
    store, clock = MemoryStore(), ManualClock()
    runner = Runner(agents(), store=store, clock=clock)
    runner.start(json.dumps(with_agents({"below": [spec]})), run_id="r1")
    for approved in approvals:
        clock.seconds += 60
        for wait in runner.waiting():
            verdict = Approve(by="kim") if approved else Deny(by="kim")
            runner.decide(wait.id, verdict)
            break
        runner.resume("r1")

    newest = read(store, "r1")
    _check_rows(newest, clock, whole=True)
    for version in range(1, newest.newest_number + 1):
        _check_rows(read(store, "r1", version=version), clock, whole=True)
        _check_rows(read(store, "r1", version=version, limit=limit), clock)


def _check_rows(
    window: VersionWindow, clock: ManualClock, *, whole: bool = False
) -> None:
    found = RunRows.of_window(window, clock.now())
    keys = Counter(row.key for row in found.rows)
    frames = Counter(row.frame_id for row in found.rows if row.frame_id)
    calls = Counter(row.call_id for row in found.rows if row.call_id)
    assert {1} == set(keys.values())
    assert {1} >= set(frames.values())
    assert {1} >= set(calls.values())
    state = window.state
    assert state.frames.keys() <= frames.keys()
    assert state.calls.keys() <= calls.keys()
    for row in found.rows:
        # A row stands below the row of the frame that made its call.
        call = state.calls.get(row.call_id or "")
        if call is not None:
            assert row.parent is not None
            assert call.frame_id == row.parent.frame_id
            if isinstance(call.state, Nested):
                assert call.state.frame_id == row.frame_id
        assert row.ended is None or row.open_spans == []
    if whole:
        told = {
            getattr(event, "call", None)
            for version in window.versions
            for event in version.events
            if getattr(event, "call", None) is not None
        }
        assert told == calls.keys()
    _check_page(window, found, clock)


def _check_page(window: VersionWindow, found: RunRows, clock: ManualClock) -> None:
    states, arguments = found.states(window), CallArguments.of_window(window)
    options: dict[str, Any] = {"subject": TITLE, "arguments": arguments}
    shown = tree(found, states, **options)
    hidden = sum(row.fold.rows for row in shown.rows if row.fold)
    assert len(found.rows) == len(shown.rows) + hidden
    keys = {row.key for row in shown.rows}
    assert keys >= {key for key, state in states.items() if state.matters}
    assert {wait.call_id for wait in window.state.waits.values()} <= keys
    for row in found.rows:
        picked = tree(found, states, chosen=row, **options)
        assert 1 == sum(each.is_selected for each in picked.rows)
        call_view(row, states[row.key], window.state, clock.now(), arguments)
    run_view(
        window.state,
        found.time,
        version=window.last_number,
        newest=window.newest_number,
        now=clock.now(),
    )
    log = run_log(window)
    cursors = [tuple(map(int, entry.cursor.split("."))) for entry in log.entries]
    assert sorted(cursors, reverse=True) == cursors


# Many levels -----------------------------------------------------------------------

LEVELS = 1000 if RUNS_ALL_CASES else 100


@pytest.fixture(scope="module")
def deep() -> tuple[VersionWindow, ManualClock]:
    """Return a run of many agents below each other; the deepest one waits."""
    store, clock = MemoryStore(), ManualClock()
    agent = Agent(
        f"level{LEVELS}", tools=[ask_it], model=ScriptedModel([ToolCall("ask_it")])
    )
    for level in range(LEVELS - 1, 0, -1):
        call = ToolCall(agent.name, {"input": f"level {level + 1}"})
        agent = Agent(f"level{level}", tools=[agent], model=ScriptedModel([call]))
    Runner(agent, store=store, clock=clock).start("go", run_id="deep")
    return read(store, "deep"), clock


def test_levels_between_the_first_ones_and_the_call_that_waits_are_folded(
    deep: tuple[VersionWindow, ManualClock],
) -> None:
    window, clock = deep

    found = table(window, clock)

    shown = ["level1", "level2", "level3", f"level{LEVELS}", "ask_it"]
    assert shown == [row.name for row in found.rows]
    assert (LEVELS + 1, {"waits"}) == (
        found.total,
        {row.state.words for row in found.rows},
    )
    fold = found.rows[2].fold
    assert fold is not None
    assert (LEVELS - 4, 0) == (fold.rows, fold.waiting)
    assert [0, 0, 0, LEVELS - 4, 0] == [row.left_out for row in found.rows]


def test_row_of_any_level_can_be_opened(
    deep: tuple[VersionWindow, ManualClock],
) -> None:
    window, clock = deep
    rows = RunRows.of_window(window, clock.now())
    names = {row.name: row.key for row in rows.rows}

    opened = table(window, clock, opened=names["level50"])
    chosen = rows.first(rows.states(window))
    deepest = table(window, clock, chosen=chosen)

    first, last = ["level1", "level2", "level3"], [f"level{LEVELS}", "ask_it"]
    below = [f"level{number}" for number in range(49, 54)]
    assert [*first, *below, *last] == [row.name for row in opened.rows]
    assert [0, 1, 2, 3, 4, 5, 6, 6, 6, 6] == [row.indent for row in opened.rows]
    left_out = [0, 0, 0, 45, 0, 0, 0, 0, LEVELS - 54, 0]
    assert left_out == [row.left_out for row in opened.rows]
    assert [*first, *last] == [row.name for row in deepest.rows]
    assert deepest.rows[-1].is_selected


# Endings ----------------------------------------------------------------------------


def test_ended_run_has_no_open_bars() -> None:
    run = InvoiceRun.suspended()
    run.runner.cancel(RUN, by="kim", reason="wrong month")

    window = read(run.store)
    rows = RunRows.of_window(window, run.clock.now())
    states = rows.states(window)

    assert [] == [span for row in rows.rows for span in row.open_spans]
    assert "cancelled" == states[rows.rows[0].key].words
    assert rows.first(states) is None
    assert not any(state.waits for state in states.values())


def test_repaired_run_has_each_row_once() -> None:
    run = InvoiceRun.interrupted()
    assert 11 == run.runner.look(RUN).version
    # Version 11 is rebuilt from this one.
    asyncio.run(run.store.delete(layout.version_key(RUN, 9)))
    numbers, now = count(1), run.clock.now()

    def new_ulid() -> str:
        return encode_ulid(int(now.timestamp() * 1000), next(numbers).to_bytes(10))

    asyncio.run(repair(Objects(run.store), RUN, now=now, new_ulid=new_ulid))

    window = read(run.store)
    _check_rows(window, run.clock)
    assert "repaired" in " ".join(_sentences(window))


def test_rewound_run_has_each_row_once() -> None:
    """After a rewind to version 4, the calls of later versions are gone."""
    run = InvoiceRun.suspended()
    run.runner.rewind(RUN, 4)

    window = read(run.store)
    _check_rows(window, run.clock)
    names = Counter(row.name for row in table(window, run.clock).rows)
    assert 0 == names["transfer"]
    said = " ".join(_sentences(window))
    assert "it continues from version 4." in said


def _sentences(window: VersionWindow) -> list[str]:
    return [entry.last.line.before for entry in run_log(window).entries]
