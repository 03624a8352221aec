"""Requests of Slack: signatures, strangers, repeats, a slow store, each adapter."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from slack_bolt import BoltRequest
from slack_bolt.adapter.aws_lambda import SlackRequestHandler as LambdaHandler
from slack_bolt.adapter.socket_mode.internals import run_bolt_app
from slack_bolt.adapter.starlette import SlackRequestHandler as StarletteHandler
from slack_bolt.lazy_listener import LazyListenerRunner
from slack_sdk.socket_mode.request import SocketModeRequest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from continuations import ApprovalPolicy, Approve, Deny, Identity, tool
from continuations.interop import slack
from continuations.models.scripted import ToolCall
from continuations_storage import Unavailable
from tests.interop.slack.set_up import make_app, make_notifier, set_up
from tests.interop.slack.waiting_agents import (
    choose,
    make_runner,
    start,
    transfer,
    transfer_call,
    users,
)
from tests.interop.slack.web_api import (
    TEAM,
    TOKEN,
    Failure,
    Person,
    SlackApi,
    shown_text,
    signed,
)
from tests.stores import OneByOneStore


def waits_of(runner: Any) -> list[Any]:
    """Return the open waits."""
    return list(asyncio.run(runner.look("r-1")).waits)


def is_open(runner: Any) -> bool:
    """Return whether no decision is recorded."""
    return not asyncio.run(runner.audit("r-1"))


# Signatures ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "at",
    ["", "rubbish", "²", "1e9", "9" * 5000, "-1", str(int(time.time()) - 301), "nan"],
    ids=["empty", "word", "digit", "float", "long", "negative", "old", "nan"],
)
def test_a_timestamp_that_is_rubbish_or_old_is_401(api: SlackApi, at: str) -> None:
    """No timestamp raises, and a request of an hour ago is not repeated."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    ts = next(iter(api.messages))
    body, headers = signed(kim.click_payload(api.messages[ts], ts), at=at)
    headers["x-slack-request-timestamp"] = at
    response = kim.app.dispatch(BoltRequest(body=body, headers=dict(headers)))
    assert response.status == 401
    assert is_open(runner)
    assert api.names() == ["chat.postMessage"]


@pytest.mark.parametrize("signature", ["", "v0=", "v0=é", "v0=" + "0" * 64])
def test_a_wrong_signature_is_401(api: SlackApi, signature: str) -> None:
    """The verifier of the package decides."""
    _, kim = set_up(api, transfer_call(), [transfer])
    ts = next(iter(api.messages))
    body, headers = signed(kim.click_payload(api.messages[ts], ts))
    headers["x-slack-signature"] = signature
    response = kim.app.dispatch(BoltRequest(body=body, headers=dict(headers)))
    assert response.status == 401
    assert api.names() == ["chat.postMessage"]


def test_app_does_not_change_the_level_of_our_logger(api: SlackApi) -> None:
    """Otherwise a program with this door would lose what workers log."""
    logger = logging.getLogger("continuations")
    before = logger.level

    set_up(api, transfer_call(), [transfer])

    assert before == logger.level


def test_a_refused_request_is_not_logged(
    api: SlackApi, caplog: pytest.LogCaptureFixture
) -> None:
    """Its body may be a submission with an answer."""
    caplog.set_level("INFO")
    _, kim = set_up(api, transfer_call(), [transfer])
    body, headers = signed({"planted": "SECRETBODY"}, secret="another")  # noqa: S106 - invented
    assert kim.app.dispatch(BoltRequest(body=body, headers=dict(headers))).status == 401
    assert "SECRETBODY" not in caplog.text
    assert TOKEN not in caplog.text


def test_without_a_signing_secret_http_is_refused_and_socket_mode_works(
    api: SlackApi,
) -> None:
    """The connection of socket mode is authenticated by its token."""
    runner = make_runner(transfer_call(), [transfer], notify=make_notifier(api))
    asyncio.run(start(runner))
    app = slack.handler(runner, users=users, client=api.client)
    kim = Person(api=api, app=app)
    assert kim.click().status == 401
    kim.mode = "socket_mode"
    kim.submit(kim.review("Your decision"), "approve")
    api.view_with("Recorded: Approved")


def test_headers_of_a_lazy_invocation_need_a_signature_too(api: SlackApi) -> None:
    """A request that claims to be the second invocation of Lambda is verified."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    view = kim.review("Your decision")
    body, headers = signed(kim.submission(view, "approve"), secret="another")  # noqa: S106 - invented
    headers |= {
        "x-slack-bolt-lazy-only": "1",
        "x-slack-bolt-lazy-function-name": "decide",
    }
    assert kim.app.dispatch(BoltRequest(body=body, headers=dict(headers))).status == 401
    assert is_open(runner)


def test_settings_of_another_app_in_the_environment_change_nothing(
    api: SlackApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package reads variables of the environment, and then asks Slack for tests."""
    names = ("BOT_TOKEN", "SIGNING_SECRET", "CLIENT_ID", "CLIENT_SECRET")
    for name in names:
        monkeypatch.setenv(f"SLACK_{name}", "another")
    _, kim = set_up(api, transfer_call(), [transfer])
    kim.submit(kim.review("Your decision"), "approve")
    api.view_with("Recorded: Approved")
    assert "auth.test" not in api.names()


# People --------------------------------------------------------------------------


@pytest.mark.parametrize("stranger", [("U9", TEAM), ("U1", "T2")])
def test_a_stranger_and_another_workspace_are_refused_in_private(
    api: SlackApi, stranger: tuple[str, str]
) -> None:
    """They see nothing of the call, and a submission of theirs decides nothing."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    view = kim.review("Your decision")
    kim.user, kim.team = stranger
    shown = kim.review("You are not known here")
    assert "Meridian" not in shown_text(shown["blocks"])
    kim.submit(view, "approve")
    api.wait_until(lambda: api.names().count("views.update") == 3)
    assert is_open(runner)


@pytest.mark.parametrize("answer", [True, "kim", {"name": "kim"}])
def test_only_an_identity_is_a_person(
    api: SlackApi, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    """A truthy value of `users` does not become a person."""
    runner = make_runner(transfer_call(), [transfer], notify=make_notifier(api))
    asyncio.run(start(runner))

    def any_users(_user: str, _team: str) -> Any:
        return answer

    app = make_app(api, runner, users=any_users)
    Person(api=api, app=app).review("The call cannot be shown")
    assert "users must return an Identity or None" in caplog.text


@pytest.mark.parametrize("right", ["view", "decide"])
def test_a_missing_right_is_refused(api: SlackApi, right: str) -> None:
    """Rights hold as over HTTP, also for a modal that was opened before."""
    runner = make_runner(transfer_call(), [transfer], notify=make_notifier(api))
    asyncio.run(start(runner))
    refused: set[str] = set()

    async def can(_person: Identity, act: str, _run: str | None) -> bool:
        return act not in refused

    kim = Person(api=api, app=make_app(api, runner, can=can))
    view = kim.review("Your decision")
    refused.add(right)
    kim.submit(view, "approve")
    api.view_with(f"You have no right to {right}")
    assert is_open(runner)
    shown = kim.review("no right to")
    assert "submit" not in shown


def test_the_requester_may_not_decide_and_votes_are_counted(api: SlackApi) -> None:
    """The rules of the policy hold, and the message changes with the last vote."""

    @tool(approval=ApprovalPolicy(votes=2, not_requester=True))
    def pay(to: str) -> str:
        """Pay."""
        return f"paid {to}"

    runner, kim = set_up(api, ToolCall("pay", {"to": "Jane"}), [pay])
    mara = Person(api=api, app=kim.app, user="U3")
    assert "submit" not in mara.review("You cannot decide this: mara requested")
    kim.submit(kim.review("Your decision"), "approve")
    api.view_with("Your vote is recorded")
    assert [b for b in api.message["blocks"] if b["type"] == "actions"]
    lee = Person(api=api, app=kim.app, user="U2")
    lee.submit(lee.review("kim: approved"), "approve")
    api.wait_until(lambda: "Approved by kim, lee." in shown_text(api.message["blocks"]))
    assert len(waits_of(runner)) == 1  # decided; no worker has resumed the run


# Repeats and races ---------------------------------------------------------------


def test_two_modals_of_one_wait_decide_it_once(api: SlackApi) -> None:
    """The second person reads who decided."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    lee = Person(api=api, app=kim.app, user="U2")
    first, second = kim.review("Your decision"), None
    lee.click()
    api.wait_until(
        lambda: sum("Your decision" in shown_text(v) for v in api.views.values()) == 2
    )
    second = list(api.views.values())[1]
    kim.submit(first, "approve")
    api.view_with("Recorded: Approved")
    lee.submit(second, "deny")
    api.view_with("Already decided.")
    [line] = asyncio.run(runner.audit("r-1"))
    assert (line.verdict, line.by) == ("approve", "kim")
    assert "Approved by kim." in shown_text(api.message["blocks"])


def test_a_replayed_submission_records_nothing_new(api: SlackApi) -> None:
    """The same signed request within five minutes is the same decision."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    body, headers = signed(kim.submission(kim.review("Your decision"), "approve"))
    for _ in range(3):
        request = BoltRequest(body=body, headers=dict(headers))
        assert kim.app.dispatch(request).status == 200
    api.wait_until(lambda: api.names().count("views.update") == 4)
    assert len(asyncio.run(runner.audit("r-1"))) == 1


def test_a_click_on_an_old_message_edits_it(api: SlackApi) -> None:
    """A message that no process edited says on the next click who decided."""
    call = transfer_call(to="R&D <!here>")
    runner = make_runner(call, [transfer], store="memory:old-message")
    wait = asyncio.run(start(runner))
    asyncio.run(make_notifier(api)(wait))
    asyncio.run(runner.decide(wait.id, Deny(by="lee", reason="no")))
    kim = Person(api=api, app=make_app(api, runner))
    assert "Reason: no" in shown_text(kim.review("Already decided.")["blocks"])
    api.wait_until(lambda: "Denied by lee." in shown_text(api.message["blocks"]))
    assert "Send €12,400.00 to R&D <!here>" in shown_text(api.message["blocks"])


def test_an_expired_and_a_cancelled_wait_say_so(api: SlackApi) -> None:
    """Nothing is approved, and the message loses its button."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    asyncio.run(runner.cancel("r-1"))
    asyncio.run(runner.resume("r-1"))
    api.wait_until(lambda: "Closed: the run was" in shown_text(api.message["blocks"]))
    old = {**api.message, "blocks": api.calls[0][1]["blocks"]}
    assert kim.click(message=old).status == 200
    api.view_with("Closed: the run was")


def test_a_wait_that_changed_is_refused_and_shown_again(api: SlackApi) -> None:
    """The decision carries the digest that the modal showed."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    view = kim.review("Your decision")
    shown = json.loads(view["private_metadata"]) | {"shown": "0" * 64}
    kim.submit({**view, "private_metadata": json.dumps(shown)}, "approve")
    again = api.view_with("the call is not the one that you saw")
    assert is_open(runner)
    kim.submit(again, "approve")
    api.view_with("Recorded: Approved")


def test_an_answer_that_is_refused_is_shown_again_with_its_values(
    api: SlackApi,
) -> None:
    """The modal says why, and the person corrects one value."""
    runner, kim = set_up(api, ToolCall("choose", {}), [choose])
    view = kim.review("Which laptop?")
    values = {"Model": "M-1", "Count": "2.5", "Size": "large", "Insured": "Yes"}
    kim.submit(view, "answer", **values)
    again = api.view_with("was not decided")
    assert is_open(runner)
    [model] = [b for b in again["blocks"] if b.get("label", {}).get("text") == "Model"]
    assert model["element"]["initial_value"] == "M-1"
    kim.submit(again, "answer", **values | {"Count": "3"})
    api.view_with("Recorded: Answered")


@pytest.mark.parametrize("choice", [None, "", "yes", "APPROVE", "approve ", "fail"])
def test_no_other_word_approves(api: SlackApi, choice: str | None) -> None:
    """Silence and unknown words leave the wait open."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    view = kim.review("Your decision")
    reply = kim.submit(view, choice)
    if choice is not None:
        api.wait_until(lambda: api.names().count("views.update") == 2)
    else:
        assert reply["response_action"] == "errors"
    assert is_open(runner)


@pytest.mark.parametrize(
    "view",
    [
        {},
        {"private_metadata": "[]"},
        {"private_metadata": "{", "state": {"values": {}}},
        {"private_metadata": '{"wait":1,"shown":2,"origin":[],"names":[]}'},
    ],
)
def test_a_submission_of_another_form_decides_nothing(
    api: SlackApi, view: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """It is acknowledged, and logged without its content."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    own = kim.submission({"blocks": []}, "approve")
    own["view"] = {"callback_id": "continuations_decide", "type": "modal", **view}
    assert kim.send(own).status == 200
    deadline = time.monotonic() + 60
    while "has another form" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "has another form" in caplog.text
    assert is_open(runner)


# A slow store, and Slack that fails ----------------------------------------------


class SlowStore(OneByOneStore):
    """A store whose reads wait while a test wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = True

    async def read(self, key: str) -> bytes:
        """Read as soon as the store answers; fail after 30 seconds."""
        for _ in range(3000):
            if self.answers:
                return await super().read(key)
            await asyncio.sleep(0.01)
        raise Unavailable(key, "simulated: too slow")


def test_a_click_and_a_submission_are_acknowledged_before_a_slow_store(
    api: SlackApi,
) -> None:
    """The modal opens at once, and changes when the store has answered."""
    store = SlowStore()
    runner = make_runner(
        transfer_call(), [transfer], store=store, notify=make_notifier(api)
    )
    asyncio.run(start(runner))
    kim = Person(api=api, app=make_app(api, runner))
    store.answers = False
    assert kim.click().status == 200
    api.view_with("Reading the call")
    store.answers = True
    view = api.view_with("Your decision")
    store.answers = False
    assert "Recording" in str(kim.submit(view, "approve"))
    store.answers = True
    api.view_with("Recorded: Approved")


def test_many_submissions_at_once_are_one_decision(api: SlackApi) -> None:
    """Each person reads who was first; the store is asked after each click."""
    store = SlowStore()
    runner = make_runner(
        transfer_call(), [transfer], store=store, notify=make_notifier(api)
    )
    asyncio.run(start(runner))
    app = make_app(api, runner)
    people = [Person(api=api, app=app, user=f"U{n % 2 + 1}") for n in range(12)]
    for each in people:
        each.click()
    shown = api.wait_until(lambda: _all_with(api, "Your decision", len(people)))
    store.answers = False
    for number, (each, view) in enumerate(zip(people, shown, strict=True)):
        body, headers = signed(each.submission(view, ["approve", "deny"][number % 2]))
        assert app.dispatch(BoltRequest(body=body, headers=dict(headers))).status == 200
    store.answers = True
    api.wait_until(
        lambda: (
            _all_with(api, "Recorded", 1) + _all_with(api, "Already decided", 1)
            and api.names().count("views.update") == 2 * len(people)
        )
    )
    assert len(asyncio.run(runner.audit("r-1"))) == 1


def _all_with(api: SlackApi, text: str, count: int) -> list[dict[str, Any]]:
    """Return the modals with a text, if there are so many."""
    shown = [v for v in api.views.values() if text in shown_text(v["blocks"])]
    return shown if len(shown) >= count else []


def test_a_failing_edit_loses_no_decision(api: SlackApi) -> None:
    """Each call of the Web API may fail; the decision is recorded."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    view = kim.review("Your decision")
    for method in ("views.update", "chat.update"):
        api.failures[method] = [Failure(error="invalid_auth")] * 5
    kim.submit(view, "approve")
    api.wait_until(lambda: "chat.postEphemeral" in api.names())
    [line] = asyncio.run(runner.audit("r-1"))
    assert line.verdict == "approve"


def test_a_trigger_that_is_too_old_asks_for_another_click(api: SlackApi) -> None:
    """The person hears of it in private."""
    _, kim = set_up(api, transfer_call(), [transfer])
    api.failures["views.open"] = [Failure(error="expired_trigger_id")]
    kim.click()
    api.wait_until(lambda: "chat.postEphemeral" in api.names())
    [sent] = [sent for name, sent in api.calls if name == "chat.postEphemeral"]
    assert "Click Review again" in sent["text"]
    assert sent["user"] == "U1"
    assert "Meridian" not in str(sent)


# Adapters ------------------------------------------------------------------------


def test_the_app_is_served_by_starlette(api: SlackApi) -> None:
    """The package has the HTTP."""
    _, kim = set_up(api, transfer_call(), [transfer])
    adapter = StarletteHandler(kim.app)
    routes = [Route("/slack/events", adapter.handle, methods=["POST"])]
    client = TestClient(Starlette(routes=routes))
    ts = next(iter(api.messages))
    body, headers = signed(kim.click_payload(api.messages[ts], ts))
    assert (
        client.post("/slack/events", content=body, headers=headers).status_code == 200
    )
    api.view_with("Your decision")


def _given(value: Any, _logger: Any) -> Any:
    return value


class _SecondInvocation(LazyListenerRunner):
    """Invokes the function of the adapter again, as Lambda does."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger
        self.events: list[dict[str, Any]] = []

    def start(self, function: Any, request: BoltRequest) -> None:
        del function
        event: dict[str, Any] = {**request.context["lambda_request"]}
        event["headers"] |= {
            "x-slack-bolt-lazy-only": "1",
            "x-slack-bolt-lazy-function-name": str(request.lazy_function_name),
        }
        event["requestContext"] = {"http": {"method": "NONE"}}
        self.events.append(event)


def test_the_app_runs_in_lambda_in_two_invocations(
    api: SlackApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first opens the modal and answers; the second reads the store."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    app = make_app(api, runner, process_before_response=True)
    invocations = _SecondInvocation(app.logger)
    monkeypatch.setattr(
        "slack_bolt.adapter.aws_lambda.handler.LambdaLazyListenerRunner",
        partial(_given, invocations),
    )
    adapter: Any = LambdaHandler(app)
    context = SimpleNamespace(function_name="f", invoked_function_arn="arn")

    def invoke(payload: dict[str, Any]) -> None:
        body, headers = signed(payload)
        event = {
            "body": body,
            "headers": headers,
            "isBase64Encoded": False,
            "requestContext": {"http": {"method": "POST"}},
        }
        assert adapter.handle(event, context)["statusCode"] == 200

    ts = next(iter(api.messages))
    invoke(kim.click_payload(api.messages[ts], ts))
    api.view_with("Reading the call")
    assert adapter.handle(invocations.events.pop(), context)["statusCode"] == 200
    view = api.view_with("Your decision")
    invoke(kim.submission(view, "approve"))
    api.view_with("Your decision")
    assert is_open(runner)
    assert adapter.handle(invocations.events.pop(), context)["statusCode"] == 200
    api.view_with("Recorded: Approved")


def test_the_app_runs_in_socket_mode(api: SlackApi) -> None:
    """The adapter of the package hands payloads to the app."""
    _, kim = set_up(api, transfer_call(), [transfer])
    ts = next(iter(api.messages))
    payload = kim.click_payload(api.messages[ts], ts)
    request = SocketModeRequest(type="interactive", envelope_id="e", payload=payload)
    assert run_bolt_app(kim.app, request).status == 200
    api.view_with("Your decision")


def test_a_decision_through_the_api_of_python_beats_a_modal(api: SlackApi) -> None:
    """The modal says who was first."""
    runner, kim = set_up(api, transfer_call(), [transfer])
    view = kim.review("Your decision")
    asyncio.run(runner.decide(waits_of(runner)[0].id, Approve(by="lee")))
    kim.submit(view, "deny")
    api.view_with("Approved by lee.")
