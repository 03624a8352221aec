"""Approvals of a whole run: its audit and its grants."""

from __future__ import annotations

from continuations.errors import Corrupt, DecisionRefused, InvalidInput, RunNotFound
from tests.errors import cases_command_line
from tests.errors.case import Area, Case

_GRANTED = """
    from continuations import Grant
    wait = start()
    runner.decide(wait.id, Approve(remember=Grant("pay")))
"""

_FORM = """
    from typing_extensions import TypedDict
    Ticket = TypedDict("Ticket", {"number": int})
    def close() -> str:
        "Close it."
        return "closed"
    closing = tool(approval=ApprovalPolicy(form=Ticket))(close)
    forms = Agent("forms", tools=[closing], model=ScriptedModel([ToolCall("close", {}), "done"]))
    runner = Runner(forms, store=store)
    [form_wait] = runner.start("go", run_id="forms-1").waits
"""

APPROVALS = Area(
    "Approvals of a whole run",
    (
        Case(
            "audit-of-no-run",
            RunNotFound,
            'runner.audit("jane-2")',
            'assert [] == runner.audit("jane-1")',
            setup="start()",
            names=("jane-2",),
        ),
        Case(
            "policy-editable",
            InvalidInput,
            'ApprovalPolicy(editable="cents")',
            'ApprovalPolicy(editable=["cents"])',
            names=("editable",),
        ),
        Case(
            "policy-editable-unknown",
            InvalidInput,
            'tool(pay.function, approval=ApprovalPolicy(editable=["cent"]))',
            'tool(pay.function, approval=ApprovalPolicy(editable=["cents"]))',
            names=("editable", "cent", "cents"),
        ),
        Case(
            "policy-recheck",
            InvalidInput,
            "ApprovalPolicy(recheck=True)",
            "ApprovalPolicy(recheck=lambda cents: cents < 1000)",
            names=("recheck",),
        ),
        Case(
            "decide-edit-of-another-argument",
            DecisionRefused,
            'runner.decide(wait.id, Approve(arguments={"cents": 5, "note": "x"}))',
            'runner.decide(wait.id, Approve(arguments={"cents": 5, "note": wait.arguments["note"]}))',
            setup="""
                policy = ApprovalPolicy(editable=["cents"])
                runner = Runner(clerk(tool(pay.function, approval=policy)), store=store, clock=clock)
                wait = start("jane-1", runner)
            """,
            names=("note", "cents"),
        ),
        Case(
            "decide-all-no-mapping",
            InvalidInput,
            "runner.decide_all([wait.id])",
            "runner.decide_all({wait.id: Approve()})",
            setup="wait = start()",
            names=("verdicts",),
        ),
        Case(
            "decide-all-too-many",
            InvalidInput,
            "runner.decide_all({str(number): Approve() for number in range(1001)})",
            "runner.decide_all({wait.id: Approve()})",
            setup="wait = start()",
            names=("1001", "1000"),
        ),
        Case(
            "http-decisions-list",
            "problem 400 malformed",
            'http("POST", "/decisions", {"decisions": []})',
            'http("POST", "/decisions", {"decisions": [{"wait_id": wait.id, "decision": "approve"}]})',
            setup="wait = start()",
            names=("decisions",),
        ),
        Case(
            "http-decisions-wait",
            "problem 400 malformed",
            'http("POST", "/decisions", {"decisions": [{"decision": "approve"}]})',
            'http("POST", "/decisions", {"decisions": [{"wait_id": wait.id, "decision": "approve"}]})',
            setup="wait = start()",
            names=("wait_id",),
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
            "grant-tool",
            InvalidInput,
            'Grant("")',
            'Grant("pay")',
            setup="from continuations import Grant",
            names=("tool",),
        ),
        Case(
            "grant-arguments",
            InvalidInput,
            'Grant("pay", "cents < 100")',
            'Grant("pay", {"properties": {"cents": {"maximum": 100}}})',
            setup="from continuations import Grant",
            names=("arguments",),
        ),
        Case(
            "grant-until",
            InvalidInput,
            'Grant("pay", until=datetime(2027, 1, 1))',
            'Grant("pay", until=datetime.now(UTC) + timedelta(days=1))',
            setup="from continuations import Grant",
            names=("until",),
        ),
        Case(
            "grant-for-another-tool",
            DecisionRefused,
            'runner.decide(wait.id, Approve(remember=Grant("refund")))',
            'runner.decide(wait.id, Approve(remember=Grant("pay")))',
            setup="from continuations import Grant; wait = start()",
            names=("refund",),
        ),
        Case(
            "grant-condition",
            DecisionRefused,
            'runner.decide(wait.id, Approve(remember=Grant("pay", {"cents": 100})))',
            'runner.decide(wait.id, Approve(remember=Grant("pay", LIMIT)))',
            setup="""
    from continuations import Grant
    LIMIT = {"properties": {"cents": {"type": "number", "maximum": 100}}}
    wait = start()
""",
            names=("cents", "arguments"),
        ),
        Case(
            "form-missing",
            DecisionRefused,
            "runner.decide(form_wait.id, Approve())",
            'runner.decide(form_wait.id, Approve(form={"number": 1}))',
            setup=_FORM,
            names=("form", "number"),
        ),
        Case(
            "form-of-another-type",
            DecisionRefused,
            "runner.decide(form_wait.id, Approve(form=[1]))",
            'runner.decide(form_wait.id, Approve(form={"number": 1}))',
            setup=_FORM,
            names=("form",),
        ),
        Case(
            "form-with-a-wrong-field",
            DecisionRefused,
            'runner.decide(form_wait.id, Approve(form={"number": "one"}))',
            'runner.decide(form_wait.id, Approve(form={"number": 1}))',
            setup=_FORM,
            names=("number",),
        ),
        Case(
            "form-that-is-not-asked-for",
            DecisionRefused,
            'runner.decide(wait.id, Approve(form={"number": 1}))',
            "runner.decide(wait.id, Approve())",
            setup="wait = start()",
            names=("form",),
        ),
        Case(
            "policy-form-without-fields",
            InvalidInput,
            "ApprovalPolicy(form=int)",
            "ApprovalPolicy(form=Ticket)",
            setup=_FORM,
            names=("form",),
        ),
        Case(
            "policy-form-as-text",
            InvalidInput,
            'ApprovalPolicy(form="Missing")',
            "ApprovalPolicy(form=Ticket)",
            setup=_FORM,
            names=("form",),
        ),
        Case(
            "revoke-no-grant",
            InvalidInput,
            'runner.revoke("jane-1", "01grant")',
            'runner.revoke("jane-1", runner.grants("jane-1")[0].id)',
            setup=_GRANTED,
            names=("jane-1", "01grant"),
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
