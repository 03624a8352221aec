"""Jobs of other systems: callbacks, their tokens, and what another system reads."""

from __future__ import annotations

from continuations import errors
from continuations.serve.http.links import CallbackInvalid
from tests.errors.case import Area, Case

_MALFORMED = "problem 400 malformed"
_LINK = """
    wait = start()
    links = Links(LINK_SECRET, base_url="https://runs.example", clock=clock)
    token = links.token(wait)
"""
_JOB = """
    links = Links(LINK_SECRET, base_url="https://runs.example", clock=clock)
    @tool
    def scan(trip: str, ctx: ToolContext):
        "Scan a ticket."
        urls.append(ctx.callback_url)
        return external("scan", int, within=3600)
    urls = []
    script = [ToolCall("scan", {"trip": "Rome"}), "done"]
    agent = clerk(scan, script=script)
    runner = Runner(agent, store=store, clock=clock, callback_url=links.callback_url)
    runner.start(TASK, run_id="jane-1")
    path = urls[0].removeprefix("https://runs.example")
"""
_RESULT = 'http("POST", path, {"value": 7}, by=None)'

_STOP = """
    @tool
    def scan(trip: str):
        "Scan a ticket."
        return external("scan", int)
    def stop(trip: str):
        pass
    script = [ToolCall("scan", {"trip": "Rome"}), "done"]
"""

CANCELLATIONS = Area(
    "Jobs that are cancelled",
    (
        Case(
            "on-cancel-is-missing",
            errors.AgentChanged,
            'other.resume("jane-1")',
            """
                runner.decide(wait.id, Fail("stopped"))
                other.resume("jane-1")
            """,
            setup=f"""{_STOP}
    other = Runner(clerk(tool(scan.function, name="scan"), script=script), store=store, clock=clock)
    scan.on_cancel(stop)
    runner = Runner(clerk(scan, script=script), store=store, clock=clock)
    (wait,) = runner.start(TASK, run_id="jane-1").waits
    runner.cancel("jane-1")""",
            names=("on_cancel",),
        ),
    ),
)

_BEAT = f"""{_JOB}
    (wait,) = runner.look("jane-1").waits
"""

HEARTBEATS = Area(
    "Heartbeats of jobs",
    (
        *(
            Case(
                f"heartbeat-{name}",
                errors.InvalidInput,
                f"runner.heartbeat(wait.id, {options})",
                "runner.heartbeat(wait.id, extend=60)",
                setup=_BEAT,
                names=(option,),
            )
            for name, options, option in (
                ("extend", "extend=0", "extend"),
                ("extend-none", "extend=None", "extend"),
                ("by", "extend=60, by=7", "by"),
            )
        ),
        Case(
            "heartbeat-of-an-approval",
            errors.DecisionRefused,
            "runner.heartbeat(wait.id, extend=60)",
            "runner.decide(wait.id, Approve())",
            setup="wait = start()",
        ),
        Case(
            "heartbeat-too-late",
            errors.WaitExpired,
            "runner.heartbeat(wait.id, extend=60)",
            'runner.resume("jane-1")',
            setup=f"{_BEAT}\n    clock.advance(7200)",
        ),
        Case(
            "heartbeat-body",
            _MALFORMED,
            'http("POST", f"{path}/heartbeat", {"extend": "60"}, by=None)',
            'http("POST", f"{path}/heartbeat", {"extend": 60}, by=None)',
            setup=_JOB,
            names=("extend",),
        ),
    ),
)

_WEBHOOK = """
    from continuations.serve import standard_webhooks
    from continuations.serve.http.webhook_receiver import WebhookReceiver
    secret = "whsec_" + "QUJD" * 8
    webhooks = {"scanner": WebhookReceiver(secret, lambda payload, headers: None)}
    def send(key_of, body=b"{}"):
        (key,) = standard_webhooks.decode_secrets(key_of)
        at = str(int(clock.now().timestamp()))
        signed = standard_webhooks.signature(key, "msg_1", at, body)
        names = ("webhook-id", "webhook-timestamp", "webhook-signature")
        headers = dict(zip(names, ("msg_1", at, signed)))
        http("POST", "/webhooks/scanner", content=body, by=None, webhooks=webhooks, extra_headers=headers)
"""

WEBHOOKS = Area(
    "HTTP: webhooks of other systems",
    (
        Case(
            "webhook-of-another-secret",
            "problem 401 webhook-refused",
            'send("whsec_" + "QkJC" * 8)',
            "send(secret)",
            setup=_WEBHOOK,
        ),
        Case(
            "webhook-without-json",
            _MALFORMED,
            'send(secret, b"{")',
            "send(secret)",
            setup=_WEBHOOK,
            names=("JSON",),
        ),
        Case(
            "webhook-meaning",
            TypeError,
            "asyncio.run(WebhookReceiver(secret, lambda payload, headers: 7).meaning({}, {}))",
            "send(secret)",
            setup=f"    import asyncio{_WEBHOOK}",
            names=("handle",),
        ),
    ),
)

CALLBACKS = Area(
    "HTTP: callbacks of jobs",
    (
        Case(
            "callback-url-of-the-runner",
            errors.InvalidInput,
            'Runner([], store=store, callback_url="https://a")',
            "Runner([], store=store, callback_url=links.callback_url)",
            setup=_LINK,
            names=("callback_url",),
        ),
        Case(
            "callback-token-of-a-link",
            CallbackInvalid,
            "links.read_callback(token)",
            'links.read_callback(links.callback_url(wait.id).rpartition("/")[2])',
            setup=_LINK,
        ),
        Case(
            "callback-without-links",
            "problem 404 callback-invalid",
            'http("POST", path, {"value": 7}, by=None, links=None)',
            _RESULT,
            setup=_JOB,
        ),
    ),
)
