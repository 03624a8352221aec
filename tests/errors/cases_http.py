"""Answers of the HTTP API that are problems, pages of links, and the links."""

from __future__ import annotations

from continuations.errors import InvalidInput
from continuations.serve.http.links import LinkInvalid
from tests.errors.case import Area, Case

_MALFORMED = "problem 400 malformed"
_WAIT = "wait = start(); path = f'/waits/{wait.id}/decision'"
_APPROVE = 'http("POST", path, {"decision": "approve"})'
_LINK = """
    wait = start()
    links = Links(LINK_SECRET, base_url="https://runs.example", clock=clock)
    token = links.token(wait)
    form = {"content_type": "application/x-www-form-urlencoded"}
    shown = b"&shown=" + wait.digest.encode()
"""
_TYPED = "decision=answer&as=fields&"
_CLICK = 'http("POST", f"/d/{token}", content=b"decision=approve" + shown, **form)'


def _typed(name: str, fields: str, *names: str) -> Case:
    return Case(
        f"link-typed-{name}",
        "page 400",
        f'http("POST", f"/d/{{token}}", content=b"{_TYPED}{fields}" + shown, **form)',
        f'http("POST", f"/d/{{token}}", content=b"{_TYPED}value:text:=x" + shown, **form)',
        setup=_LINK,
        names=names,
    )


def _decision(name: str, body: str, *names: str) -> Case:
    return Case(
        f"http-{name}",
        _MALFORMED,
        f'http("POST", path, {body})',
        _APPROVE,
        setup=_WAIT,
        names=names,
    )


REQUESTS = Area(
    "HTTP: requests that are refused",
    (
        Case(
            "http-empty-body",
            _MALFORMED,
            'http("POST", "/runs/jane-1/pause", content=b"")',
            'http("POST", "/runs/jane-1/pause", {})',
            setup="wait = start()",
            names=("{}",),
        ),
        Case(
            "http-field-of-wrong-length",
            _MALFORMED,
            'http("POST", "/runs/jane-1/pause", {"reason": "x" * 4001})',
            'http("POST", "/runs/jane-1/pause", {"reason": "x" * 4000})',
            setup="wait = start()",
            names=("reason", "4000"),
        ),
        Case(
            "http-empty-text",
            _MALFORMED,
            'http("POST", "/runs/jane-1/messages", {"text": ""})',
            'http("POST", "/runs/jane-1/messages", {"text": "Hurry"})',
            setup="wait = start()",
            names=("text",),
        ),
        Case(
            "http-too-many-files",
            _MALFORMED,
            'http("POST", "/runs/jane-1/messages", {"text": "x", "files": [{}] * 999})',
            'http("POST", "/runs/jane-1/messages", {"text": "x", "files": []})',
            setup="wait = start()",
            names=("files",),
        ),
        Case(
            "http-version-of-a-path",
            _MALFORMED,
            'http("GET", "/runs/jane-1/versions/first")',
            'http("GET", "/runs/jane-1/versions/1")',
            setup="wait = start()",
            names=("number", "version"),
        ),
        Case(
            "http-resume-with-unknown-field",
            _MALFORMED,
            'http("POST", "/runs/jane-1/resume", {"reopn": True})',
            'http("POST", "/runs/jane-1/resume", {"reopen": True})',
            setup="wait = start()",
            names=("reopen",),
        ),
        Case(
            "http-api-of-a-runner",
            InvalidInput,
            "HttpApi(runner)",
            "HttpApi(runner.async_runner)",
            names=("runner", "runner.async_runner"),
        ),
        Case(
            "http-api-of-a-text",
            InvalidInput,
            'HttpApi("runner")',
            "HttpApi(runner.async_runner)",
            names=("runner",),
        ),
        Case(
            "http-api-verify",
            InvalidInput,
            'HttpApi(runner.async_runner, verify="kim")',
            'HttpApi(runner.async_runner, verify=lambda request: "kim")',
            names=("verify",),
        ),
        Case(
            "http-api-max-body-bytes",
            InvalidInput,
            'HttpApi(runner.async_runner, max_body_bytes="1 MB")',
            "HttpApi(runner.async_runner, max_body_bytes=1_000_000)",
            names=("max_body_bytes",),
        ),
        Case(
            "http-unidentified",
            "problem 401 unidentified",
            'http("GET", "/waits", by=None)',
            'http("GET", "/waits", by="kim")',
        ),
        Case(
            "http-without-verifier",
            "problem 401 unidentified",
            'http("GET", "/waits", verify=None)',
            'http("GET", "/waits", verify=lambda request: "kim")',
            names=("verify",),
        ),
        Case(
            "http-no-such-path",
            "problem 404 no-such-path",
            'http("GET", "/wait")',
            'http("GET", "/waits")',
        ),
        Case(
            "http-method-not-allowed",
            "problem 405 method-not-allowed",
            'http("DELETE", "/waits")',
            'http("GET", "/waits")',
            names=("GET",),
        ),
        Case(
            "http-too-large",
            "problem 413 too-large",
            'http("POST", path, {"decision": "deny", "reason": "x" * 99}, max_body_bytes=99)',
            'http("POST", path, {"decision": "deny", "reason": "x"}, max_body_bytes=99)',
            setup=_WAIT,
            names=("99",),
        ),
        Case(
            "http-media-type",
            "problem 415 unsupported-media-type",
            'http("POST", path, {"decision": "approve"}, content_type="text/plain")',
            _APPROVE,
            setup=_WAIT,
            names=("application/json",),
        ),
        Case(
            "http-no-json",
            _MALFORMED,
            'http("POST", path, content=b"decision=approve")',
            _APPROVE,
            setup=_WAIT,
            names=("JSON",),
        ),
        Case(
            "http-key-twice",
            _MALFORMED,
            'http(\'POST\', path, content=b\'{"decision": "approve", "decision": "deny"}\')',
            _APPROVE,
            setup=_WAIT,
        ),
        Case(
            "http-large-number",
            _MALFORMED,
            "http('POST', path, content=b'{\"decision\": 1e999}')",
            _APPROVE,
            setup=_WAIT,
        ),
        Case(
            "http-nan",
            _MALFORMED,
            "http('POST', path, content=b'{\"decision\": NaN}')",
            _APPROVE,
            setup=_WAIT,
            names=("NaN",),
        ),
        Case(
            "http-too-deep",
            _MALFORMED,
            "http('POST', path, content=b'[' * 999)",
            _APPROVE,
            setup=_WAIT,
        ),
        _decision("no-object", '["approve"]', "object"),
        _decision("decision-kind", '{"decision": "yes"}', '"decision"', "approve"),
        _decision(
            "unknown-field",
            '{"decision": "approve", "by": "jo"}',
            "arguments",
            "decision",
            "shown",
        ),
        _decision("answer-without-value", '{"decision": "answer"}', "answer", "value"),
        _decision(
            "arguments-type", '{"decision": "approve", "arguments": [5]}', '"arguments"'
        ),
        _decision(
            "grant-fields",
            '{"decision": "approve", "remember": {"for": 1}}',
            "remember",
        ),
        _decision(
            "grant-tool",
            '{"decision": "approve", "remember": {"tool": 7}}',
            '"remember"',
            "tool",
        ),
        _decision(
            "grant-until",
            '{"decision": "approve", "remember": {"tool": "pay", "until": "later"}}',
            "until",
            "time zone",
        ),
        _decision("reason-type", '{"decision": "deny", "reason": 5}', '"reason"'),
        _decision(
            "reason-length",
            '{"decision": "deny", "reason": "x" * 4001}',
            '"reason"',
            "4000",
        ),
        Case(
            "http-start-without-id",
            _MALFORMED,
            'http("POST", "/runs", {"input": TASK})',
            'http("POST", "/runs", {"input": TASK, "run_id": "jane-1"})',
            names=("run_id",),
        ),
        Case(
            "http-event-without-name",
            _MALFORMED,
            'http("POST", "/events", {"key": "A-17"})',
            'http("POST", "/events", {"key": "A-17", "name": "receipt"})',
            names=("name",),
        ),
        Case(
            "http-signal-without-name",
            _MALFORMED,
            'http("POST", "/signals", {"run_id": "jane-1"})',
            'http("POST", "/signals", {"run_id": "jane-1", "name": "receipt"})',
            setup="start()",
            names=("run_id", "name"),
        ),
        Case(
            "http-start-work",
            _MALFORMED,
            'http("POST", "/runs", {"input": TASK, "run_id": "jane-1", "work": 0})',
            'http("POST", "/runs", {"input": TASK, "run_id": "jane-1", "work": False})',
            names=("work", "false"),
        ),
        Case(
            "http-approver-and-due",
            _MALFORMED,
            'http("GET", "/waits", query={"approver": "kim", "order": "due"})',
            'http("GET", "/waits", query={"approver": "kim"})',
            names=("approver", "order=due"),
        ),
        Case(
            "http-cursor",
            _MALFORMED,
            'http("GET", "/waits", query={"after": "~x"})',
            'http("GET", "/waits")',
            names=("list", "beginning"),
        ),
        Case(
            "http-drift-query",
            _MALFORMED,
            'http("GET", "/drift", query={"agent": "clerk"})',
            'http("GET", "/drift", query={"limit": "5"})',
            names=("limit", "after"),
        ),
        Case(
            "http-events-query",
            _MALFORMED,
            'http("GET", "/runs/jane-1/events", query={"follow": "1"})',
            'http("GET", "/runs/jane-1/events", query={"limit": "5"})',
            setup="wait = start()",
            names=("limit", "after"),
        ),
        Case(
            "http-events-wait",
            _MALFORMED,
            'http("GET", "/runs/jane-1/events", query={"wait": "21"})',
            'http("GET", "/runs/jane-1/events", query={"wait": "20"})',
            setup="wait = start()",
            names=("wait", "20"),
        ),
        Case(
            "http-limit",
            _MALFORMED,
            'http("GET", "/waits", query={"limit": "0"})',
            'http("GET", "/waits", query={"limit": "1000"})',
            names=("limit", "1000"),
        ),
        Case(
            "http-order",
            _MALFORMED,
            'http("GET", "/waits", query={"order": "deadline"})',
            'http("GET", "/waits", query={"order": "due"})',
            names=("order", "due"),
        ),
        Case(
            "http-after",
            _MALFORMED,
            'http("GET", "/waits", query={"after": "jane-1"})',
            'http("GET", "/waits", query={"after": wait.id})',
            setup="wait = start()",
            names=("after",),
        ),
    ),
)

PROBLEMS = Area(
    "HTTP: problems of runs and waits",
    (
        Case(
            "http-run-not-found",
            "problem 404 run-not-found",
            'http("GET", "/runs/jane-2")',
            'http("GET", "/runs/jane-1")',
            setup="start()",
            names=("jane-2",),
        ),
        Case(
            "http-wait-not-found",
            "problem 404 wait-not-found",
            'http("GET", "/waits/approval-1")',
            'http("GET", f"/waits/{wait.id}")',
            setup="wait = start()",
            names=("approval-1",),
        ),
        Case(
            "http-invalid-id",
            "problem 400 invalid-id",
            'http("POST", "/runs", {"input": TASK, "run_id": "Jane Doe"})',
            'http("POST", "/runs", {"input": TASK, "run_id": "jane-1"})',
            names=("Jane Doe",),
        ),
        Case(
            "http-invalid-input",
            "problem 400 invalid-input",
            'http("POST", "/runs", {"input": TASK, "run_id": "jane-1", "agent": "boss"})',
            'http("POST", "/runs", {"input": TASK, "run_id": "jane-1", "agent": "clerk"})',
            names=("boss", "clerk"),
        ),
        Case(
            "http-run-exists",
            "problem 409 run-exists",
            'http("POST", "/runs", {"input": "Pay Joe", "run_id": "jane-1"})',
            'http("POST", "/runs", {"input": "Pay Joe", "run_id": "joe-1"})',
            setup="start()",
        ),
        Case(
            "http-run-busy",
            "problem 409 run-busy",
            'http("POST", "/runs/jane-1/resume")',
            'clock.advance(31); http("POST", "/runs/jane-1/resume")',
            setup="""
                plan = faults.on("create", faults.crashed("after"), prefix="runs/")
                try: Runner(clerk(), store=faults.FaultyStore(store, plan), clock=clock).start(TASK, run_id="jane-1")
                except BaseException: pass
            """,
        ),
        Case(
            "http-already-decided",
            "problem 409 already-decided",
            'http("POST", path, {"decision": "deny"})',
            'http("POST", "/runs/jane-1/resume")',
            setup=f'{_WAIT}; runner.decide(wait.id, Approve(by="jo"))',
            names=("jo",),
        ),
        Case(
            "http-decision-refused",
            "problem 422 decision-refused",
            'http("POST", path, {"decision": "approve", "arguments": {"cents": "x"}})',
            _APPROVE,
            setup=_WAIT,
            names=("arguments", "cents"),
        ),
        Case(
            "http-wait-expired",
            "problem 410 wait-expired",
            _APPROVE,
            'http("POST", "/runs/jane-1/resume")',
            setup="""
                policy = ApprovalPolicy(expires_after=60)
                runner = Runner(clerk(tool(pay.function, name="pay", approval=policy)), store=store, clock=clock)
                scene.runner = runner
                wait = start("jane-1", runner)
                path = f"/waits/{wait.id}/decision"
                clock.advance(61)
            """,
        ),
        Case(
            "http-cancelled",
            "problem 410 cancelled",
            _APPROVE,
            'http("GET", "/runs/jane-1")',
            setup=f'{_WAIT}; runner.cancel("jane-1")',
        ),
        Case(
            "http-agent-changed",
            "problem 409 agent-changed",
            'http("POST", "/runs/jane-1/resume")',
            'runner.resume("jane-1")',
            setup="""
                wait = start(); runner.decide(wait.id, Approve())
                scene.runner = Runner(talker(), store=store, clock=clock)
            """,
            names=("clerk",),
        ),
        Case(
            "http-model-error",
            "problem 502 model-error",
            'http("POST", "/runs", {"input": TASK, "run_id": "jane-1"})',
            """
                scene.runner = Runner(talker(), store=store, clock=clock)
                http("POST", "/runs/jane-1/resume")
            """,
            setup='scene.runner = Runner(Agent("talker"), store=store, clock=clock)',
        ),
        Case(
            "http-clock-off",
            "problem 503 clock-off",
            'http("POST", "/runs", {"input": TASK, "run_id": "jane-1"})',
            'clock.advance(3600); http("POST", "/runs", {"input": TASK, "run_id": "jane-1"})',
            setup="""
                right_time = clock.now() + timedelta(hours=1)
                scene.runner = Runner(clerk(), store=storage.MemoryStore(clock=lambda: right_time), clock=clock)
            """,
        ),
        *(
            Case(
                f"http-{slug}",
                f"problem {status} {slug}",
                'http("POST", "/runs", {"input": TASK, "run_id": "jane-1"})',
                """
                    scene.runner = Runner(clerk(), store=good, clock=clock)
                    http("POST", "/runs", {"input": TASK, "run_id": "jane-1"})
                """,
                setup=f"""
                    plan = faults.on("create", faults.refused(storage.{error}), prefix="runs/")
                    good = store
                    scene.runner = Runner(clerk(), store=faults.FaultyStore(good, plan), clock=clock)
                """,
            )
            for slug, status, error in (
                ("store-unavailable", 503, "Unavailable"),
                ("inconclusive", 503, "Inconclusive"),
                ("store-error", 500, "StorageError"),
            )
        ),
        Case(
            "http-unreadable",
            "problem 500 unreadable",
            'http("GET", "/runs/jane-1")',
            'store._bodies.update(kept); http("GET", "/runs/jane-1")',
            setup="""
                start()
                kept = dict(store._bodies)
                key = min(key for key in kept if "/v/" in key)
                store._bodies[key] = b"rubbish"
            """,
        ),
        Case(
            "http-verifier-returns-true",
            "problem 500 internal",
            'http("GET", "/waits", verify=lambda request: True)',
            'http("GET", "/waits", verify=lambda request: "kim")',
        ),
    ),
)

LINKS = Area(
    "Signed links",
    (
        Case(
            "links-secret",
            InvalidInput,
            'Links("too-short-secret", base_url="https://runs.example")',
            'Links(LINK_SECRET, base_url="https://runs.example")',
            names=("secret", "32"),
        ),
        Case(
            "links-base-url",
            InvalidInput,
            'Links(LINK_SECRET, base_url="runs.example")',
            'Links(LINK_SECRET, base_url="https://runs.example")',
            names=("base_url",),
        ),
        Case(
            "links-valid-for",
            InvalidInput,
            'Links(LINK_SECRET, base_url="https://runs.example", valid_for=5)',
            'Links(LINK_SECRET, base_url="https://runs.example", valid_for=timedelta(5))',
            names=("valid_for", "timedelta"),
        ),
        Case(
            "links-base-url-type",
            InvalidInput,
            "Links(LINK_SECRET, base_url=5)",
            'Links(LINK_SECRET, base_url="https://runs.example")',
            names=("base_url",),
        ),
        Case(
            "links-allowed-type",
            InvalidInput,
            'links.link(wait, allowed="approve")',
            'links.link(wait, allowed=["approve"])',
            setup=_LINK,
            names=("allowed",),
        ),
        Case(
            "links-allowed",
            InvalidInput,
            'links.link(wait, allowed=["expire"])',
            'links.link(wait, allowed=["deny"])',
            setup=_LINK,
            names=("allow", "expire", "approve", "deny", "answer"),
        ),
        Case(
            "links-no-decision",
            InvalidInput,
            "links.link(pause)",
            "links.link(wait)",
            setup=_LINK
            + """
    (pause,) = [w for w in runner.pause("jane-1").waits if w.kind == "operator"]
""",
            names=("operator", "unpause"),
        ),
        Case(
            "links-actor",
            InvalidInput,
            'links.link(wait, actor="")',
            'links.link(wait, actor="kim")',
            setup=_LINK,
            names=("actor", "255"),
        ),
        Case(
            "links-until",
            InvalidInput,
            "links.link(wait, until=datetime(2027, 1, 1))",
            "links.link(wait, until=datetime(2027, 1, 1, tzinfo=UTC))",
            setup=_LINK,
            names=("until",),
        ),
        *(
            Case(
                f"link-{name}",
                LinkInvalid,
                f"links.read({code})",
                "links.read(links.token(wait))",
                setup=_LINK + setup,
            )
            for name, code, setup in (
                ("changed", 'token[:-1] + ("A" if token[-1] != "A" else "E")', ""),
                (
                    "of-another-secret",
                    "Links('x' * 32, base_url='https://a').token(wait)",
                    "",
                ),
                ("not-ascii", '"ä"', ""),
                ("not-base64", '"a"', ""),
                ("too-short", '"abcd"', ""),
                ("expired", "token", "    clock.advance(8 * 86400)"),
                (
                    "of-a-newer-format",
                    "newer",
                    """
    from base64 import urlsafe_b64decode, urlsafe_b64encode
    claims = b"\\x02" + urlsafe_b64decode(token + "=" * (-len(token) % 4))[1:-16]
    newer = urlsafe_b64encode(claims + links._signer._key.mac(claims)).rstrip(b"=").decode()""",
                ),
            )
        ),
        Case(
            "link-page-of-rubbish",
            "page 404",
            'http("GET", "/d/abcd")',
            'http("GET", f"/d/{token}")',
            setup=_LINK,
        ),
        Case(
            "link-page-without-links",
            "page 404",
            'http("GET", f"/d/{token}", links=None)',
            'http("GET", f"/d/{token}")',
            setup=_LINK,
        ),
        Case(
            "link-page-of-another-wait",
            "page 404",
            'http("GET", f"/d/{other}")',
            'http("GET", f"/d/{token}")',
            setup=f"""{_LINK}
    from dataclasses import replace
    other = links.token(replace(wait, digest="0" * 64))""",
        ),
        Case(
            "link-page-of-a-lost-wait",
            "page 404",
            'http("GET", f"/d/{other}")',
            'http("GET", f"/d/{token}")',
            setup=f"""{_LINK}
    from dataclasses import replace
    other = links.token(replace(wait, id=wait.id.replace("-0", "-1")))""",
        ),
        Case(
            "link-click-on-a-lost-wait",
            "page 404",
            'http("POST", f"/d/{other}", content=b"decision=approve" + shown, **form)',
            _CLICK,
            setup=f"""{_LINK}
    from dataclasses import replace
    other = links.token(replace(wait, id=wait.id.replace("-0", "-1")))""",
        ),
        Case(
            "link-click-that-is-not-allowed",
            "page 403",
            'http("POST", f"/d/{denying}", content=b"decision=approve" + shown, **form)',
            'http("POST", f"/d/{denying}", content=b"decision=deny" + shown, **form)',
            setup=f"""{_LINK}
    denying = links.token(wait, allowed=["deny"])""",
        ),
        Case(
            "link-answer-no-json",
            "page 400",
            """
                content = b"decision=answer&as=json&value=five" + shown
                http("POST", f"/d/{token}", content=content, **form)
            """,
            """
                content = b"decision=answer&as=json&value=5" + shown
                http("POST", f"/d/{token}", content=content, **form)
            """,
            setup=_LINK,
            names=("value", "JSON"),
        ),
        Case(
            "link-answer-in-another-form",
            "page 400",
            """
                content = b"decision=answer&as=yaml&value=5" + shown
                http("POST", f"/d/{token}", content=content, **form)
            """,
            """
                content = b"decision=answer&as=json&value=5" + shown
                http("POST", f"/d/{token}", content=content, **form)
            """,
            setup=_LINK,
            names=("as", "json"),
        ),
        _typed("no-place", "value:text:/a=x", "value:text:/a"),
        _typed("no-value", "reason=x", "value"),
        _typed("kind", "value:secret:=x", "secret"),
        _typed("json", "value:json:=x", "JSON"),
        _typed("no-digits", "value:number:=x", "number"),
        _typed("no-number", "value:number:=true", "number"),
        _typed("approval", "value:text:=x&arguments=5", "decision"),
        _typed("two-values", "value:text:=x&value=y", "answer"),
        Case(
            "link-click-malformed",
            "page 400",
            'http("POST", f"/d/{token}", content=b"decision" + shown, **form)',
            _CLICK,
            setup=_LINK,
        ),
        Case(
            "link-click-without-the-digest",
            "page 400",
            'http("POST", f"/d/{token}", content=b"decision=approve", **form)',
            _CLICK,
            setup=_LINK,
            names=("shown",),
        ),
        Case(
            "link-click-field-twice",
            "page 400",
            'http("POST", f"/d/{token}", content=b"decision=deny&decision=deny" + shown, **form)',
            _CLICK,
            setup=_LINK,
        ),
        Case(
            "link-click-with-arguments",
            "page 400",
            'http("POST", f"/d/{token}", content=b"decision=approve&arguments=5" + shown, **form)',
            _CLICK,
            setup=_LINK,
        ),
        Case(
            "link-click-after-a-decision",
            "page 409",
            'http("POST", f"/d/{token}", content=b"decision=deny" + shown, **form)',
            'http("POST", "/runs/jane-1/resume")',
            setup=f'{_LINK}\n    runner.decide(wait.id, Approve(by="jo"))',
            names=("jo",),
            is_list=True,
        ),
        Case(
            "link-click-in-a-cancelled-run",
            "page 410",
            _CLICK,
            'http("GET", "/runs/jane-1")',
            setup=f'{_LINK}\n    runner.cancel("jane-1")',
        ),
    ),
)
