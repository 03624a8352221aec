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


def _refused(name: str, code: str, advice: str, *names: str) -> Case:
    return Case(f"http-{name}", _MALFORMED, code, advice, setup=_WAIT, names=names)


def _decision(name: str, body: str, *names: str) -> Case:
    return _refused(name, f'http("POST", path, {body})', _APPROVE, *names)


def _clicked(name: str, content: str, *names: str) -> Case:
    code = f'http("POST", f"/d/{{token}}", content={content}, **form)'
    return Case(
        f"link-click-{name}", "page 400", code, _CLICK, setup=_LINK, names=names
    )


REQUESTS = Area(
    "HTTP: requests that are refused",
    (
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
        _refused(
            "empty-body",
            'http("POST", "/runs/jane-1/pause", content=b"")',
            'http("POST", "/runs/jane-1/pause", {})',
            "{}",
        ),
        _refused(
            "empty-text",
            'http("POST", "/runs/jane-1/messages", {"text": ""})',
            'http("POST", "/runs/jane-1/messages", {"text": "Hurry"})',
            "text",
        ),
        _refused(
            "too-many-files",
            'http("POST", "/runs/jane-1/messages", {"text": "x", "files": [{}] * 999})',
            'http("POST", "/runs/jane-1/messages", {"text": "x", "files": []})',
            "files",
        ),
        _refused(
            "version-of-a-path",
            'http("GET", "/runs/jane-1/versions/first")',
            'http("GET", "/runs/jane-1/versions/1")',
            "number",
            "version",
        ),
        _refused(
            "no-json",
            'http("POST", path, content=b"decision=approve")',
            _APPROVE,
            "JSON",
        ),
        _refused(
            "key-twice",
            'http(\'POST\', path, content=b\'{"decision": "approve", "decision": "deny"}\')',
            _APPROVE,
        ),
        _refused(
            "large-number",
            "http('POST', path, content=b'{\"decision\": 1e999}')",
            _APPROVE,
        ),
        _refused(
            "nan", "http('POST', path, content=b'{\"decision\": NaN}')", _APPROVE, "NaN"
        ),
        _refused(
            "approver-and-due",
            'http("GET", "/waits", query={"approver": "kim", "order": "due"})',
            'http("GET", "/waits", query={"approver": "kim"})',
            "approver",
            "order=due",
        ),
        _refused(
            "cursor",
            'http("GET", "/waits", query={"after": "~x"})',
            'http("GET", "/waits")',
            "list",
            "beginning",
        ),
        _decision("no-object", '["approve"]', "object"),
        _decision("decision-kind", '{"decision": "yes"}', '"decision"', "approve"),
        _decision("answer-without-value", '{"decision": "answer"}', "answer", "value"),
        _decision(
            "arguments-type", '{"decision": "approve", "arguments": [5]}', '"arguments"'
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
            "links-allowed-type",
            InvalidInput,
            'links.link(wait, allowed="approve")',
            'links.link(wait, allowed=["approve"])',
            setup=_LINK,
            names=("allowed",),
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
        _typed("two-values", "value:text:=x&value=y", "answer"),
        _clicked("malformed", 'b"decision" + shown'),
        _clicked("without-the-digest", 'b"decision=approve"', "shown"),
        _clicked("field-twice", 'b"decision=deny&decision=deny" + shown'),
        _clicked("with-arguments", 'b"decision=approve&arguments=5" + shown'),
    ),
)
