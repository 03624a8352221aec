"""Approvals of a whole run: its audit and its grants."""

from __future__ import annotations

from continuations.errors import Corrupt
from tests.errors import cases_command_line
from tests.errors.case import Area, Case

_GRANTED = """
    from continuations import Grant
    wait = start()
    runner.decide(wait.id, Approve(remember=Grant("pay")))
"""


APPROVALS = Area(
    "Approvals of a whole run",
    (
        Case(
            "http-decisions-list",
            "problem 400 malformed",
            'http("POST", "/decisions", {"decisions": []})',
            'http("POST", "/decisions", {"decisions": [{"wait_id": wait.id, "decision": "approve"}]})',
            setup="wait = start()",
            names=("decisions",),
        ),
        Case(
            "http-decisions-item",
            "problem 400 malformed",
            'http("POST", "/decisions", {"decisions": [{"wait_id": wait.id, "decision": "yes"}]})',
            'http("POST", "/decisions", {"decisions": [{"wait_id": wait.id, "decision": "approve"}]})',
            setup="wait = start()",
            names=("decisions[0]", "approve"),
        ),
        Case(
            "cli-decide-no-list",
            "exit 2",
            "cli('decide', '{}')",
            'cli(\'decide\', \'[{"wait_id": "%s", "decision": "approve"}]\' % wait_id)',
            setup=cases_command_line.STARTED,
            names=("wait_id",),
        ),
        Case(
            "cli-decide-invalid",
            "exit 2",
            'cli(\'decide\', \'[{"wait_id": "%s", "decision": "yes"}]\' % wait_id)',
            'cli(\'decide\', \'[{"wait_id": "%s", "decision": "approve"}]\' % wait_id)',
            setup=cases_command_line.STARTED,
            names=("decision",),
        ),
        Case(
            "revocation-of-another-number",
            Corrupt,
            'runner.resume("jane-1")',
            "store._bodies[key] = kept; finished(runner.resume('jane-1'))",
            setup=_GRANTED
            + """
    runner.revoke("jane-1", runner.grants("jane-1")[0].id)
    (key,) = (key for key in store._bodies if "/in/g-" in key)
    kept = store._bodies[key]
    from dataclasses import replace
    from continuations.wire import arrivals
    record = arrivals.REVOCATION.decode(kept, key, "jane-1")
    other = arrivals.REVOCATION.encode(replace(record, number=2), "jane-1")
    store._bodies[key] = other
            """,
            names=("runs/jane-1/in/g-",),
        ),
        Case(
            "revocation-listed-and-gone",
            Corrupt,
            'runner.resume("jane-1")',
            "finished(Runner(clerk(), store=good, clock=clock).resume('jane-1'))",
            setup=_GRANTED
            + """
    runner.revoke("jane-1", runner.grants("jane-1")[0].id)
    good = store
    plan = faults.on("read", faults.refused(storage.NotFound), prefix="runs/jane-1/in/g-")
    runner = Runner(clerk(), store=faults.FaultyStore(good, plan), clock=clock)
            """,
            names=("runs/jane-1/in/g-",),
        ),
    ),
)
