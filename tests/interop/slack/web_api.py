"""A server on loopback that plays Slack's Web API, and a person who uses the client.

The server keeps messages and modals, and refuses what Slack refuses: blocks over the
limits, a modal that does not exist, a trigger that is used twice.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape, unescape
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode

from slack_bolt import App, BoltRequest, BoltResponse
from slack_sdk import WebClient
from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import Block
from slack_sdk.models.views import View
from slack_sdk.signature import SignatureVerifier

from continuations.core import jsontext
from tests.local_server import LocalHandler, LocalServer

SIGNING_SECRET = "a-signing-secret-of-slack"
TOKEN = "xoxb-planted-token"
CHANNEL, TEAM = "C1", "T1"
# The only text with formatting: a deadline in the time zone of the reader.
MRKDWN = re.compile(r"[\w ]+ <!date\^\d+\^{date_short_pretty} {time}\|[\w :,]+>")


@dataclass(kw_only=True)
class Failure:
    """How the next calls of a method fail: an error, a status, or no response."""

    error: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    delay: float = 0.0


class SlackApi:
    """The state of a workspace."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.messages: dict[str, dict[str, Any]] = {}
        self.views: dict[str, dict[str, Any]] = {}
        self.failures: dict[str, list[Failure]] = {}
        self.problems: list[str] = []
        self.url = ""
        self._changed = threading.Condition()
        self._triggers: set[str] = set()

    @property
    def client(self) -> WebClient:
        """A client of the server."""
        return WebClient(TOKEN, base_url=self.url, retry_handlers=[])

    def names(self) -> list[str]:
        """Return the methods that were called."""
        return [name for name, _ in self.calls]

    @property
    def message(self) -> dict[str, Any]:
        [message] = self.messages.values()
        return message

    def wait_until(self, is_so: Callable[[], Any], seconds: float = 60.0) -> Any:
        """Wait until something is so after a call; return it."""
        with self._changed:
            found = self._changed.wait_for(is_so, seconds)
        assert found, self.names()
        return found

    def view_with(self, text: str) -> dict[str, Any]:
        """Wait for a modal with a text, and return it."""

        def find() -> dict[str, Any] | None:
            shown = (v for v in self.views.values() if text in shown_text(v["blocks"]))
            return next(shown, None)

        return cast("dict[str, Any]", self.wait_until(find))

    def answer(self, method: str, sent: dict[str, Any]) -> dict[str, Any]:
        with self._changed:
            self.calls.append((method, sent))
            try:
                self._check(sent)
                act: Any = getattr(self, method.replace(".", "_"))
                result: dict[str, Any] = act(sent)
            except (AssertionError, SlackObjectFormationError, TypeError) as error:
                self.problems.append(f"{method}: {error}")
                result = {"ok": False, "error": "invalid_blocks"}
            self._changed.notify_all()
        return {"ok": True} | result

    def acknowledge(self, view_id: str, view: dict[str, Any]) -> None:
        """Replace a modal, as the response to its submission says."""
        check_view(view)
        with self._changed:
            self.views[view_id] = {**view, "id": view_id}
            self._changed.notify_all()

    def _check(self, sent: dict[str, Any]) -> None:
        for name in ("blocks", "view"):
            if isinstance(sent.get(name), str):
                sent[name] = json.loads(sent[name])
        if "blocks" in sent:
            check_blocks(sent["blocks"])
        if "text" in sent:
            # No mention and no link: each "<" is escaped.
            assert unescape(sent["text"]).count("<") == sent["text"].count("&lt;")
        if "view" in sent:
            check_view(sent["view"])

    def chat_postMessage(self, sent: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - its name
        ts = f"17000000{len(self.messages):02}.000100"
        self.messages[ts] = sent
        return {"channel": sent["channel"], "ts": ts}

    def chat_update(self, sent: dict[str, Any]) -> dict[str, Any]:
        if sent["ts"] not in self.messages:
            return {"ok": False, "error": "message_not_found"}
        self.messages[sent["ts"]] = sent
        return {"channel": sent["channel"], "ts": sent["ts"]}

    def chat_postEphemeral(self, sent: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - its name
        return {"message_ts": "1.1", "channel": sent["channel"]}

    def views_open(self, sent: dict[str, Any]) -> dict[str, Any]:
        if sent["trigger_id"] in self._triggers:
            return {"ok": False, "error": "exchanged_trigger_id"}
        self._triggers.add(sent["trigger_id"])
        view = {**sent["view"], "id": f"V{len(self.views)}"}
        self.views[view["id"]] = view
        return {"view": view}

    def views_update(self, sent: dict[str, Any]) -> dict[str, Any]:
        for view_id, view in self.views.items():
            external = view.get("external_id")
            if view_id == sent.get("view_id") or (
                external and external == sent.get("external_id")
            ):
                kept = {"id": view_id, "external_id": external}
                self.views[view_id] = {**sent["view"], **kept}
                return {"view": self.views[view_id]}
        return {"ok": False, "error": "not_found"}


def check_blocks(blocks: list[dict[str, Any]]) -> None:
    """Raise an error of the package for blocks that Slack refuses."""
    for block in blocks:
        parsed = cast("Any", Block).parse(block)
        assert parsed is not None, block
        parsed.to_dict()
    sizes = [len(block["text"]["text"]) for block in blocks if block.get("text")]
    assert all(1 <= size <= 3000 for size in sizes)
    # Foreign text is no mrkdwn, which has mentions and links, and no emoji.
    for text in texts_of(blocks):
        if text["type"] == "mrkdwn":
            assert MRKDWN.fullmatch(text["text"]), text
        else:
            assert text["emoji"] is False, text
            # Slack decodes three entities, and its payloads have them again.
            assert escape(unescape(text["text"]), quote=False) == text["text"], text
    ids = [block["block_id"] for block in blocks if "block_id" in block]
    assert len(ids) == len(set(ids)), ids


def check_view(view: dict[str, Any]) -> None:
    """Raise an error of the package for a modal that Slack refuses."""
    parsed: Any = View(**view)
    parsed.to_dict()
    check_blocks(view["blocks"])
    has_inputs = any(block["type"] == "input" for block in view["blocks"])
    assert ("submit" in view) or not has_inputs
    # Whether payloads have these characters escaped in values is not documented.
    values = [each["value"] for each in options_of(view["blocks"])]
    assert not set("&<>") & set("".join([view.get("private_metadata", ""), *values]))
    assert len(json.dumps(view, ensure_ascii=False)) <= 13_200


def texts_of(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield each text object of some blocks."""
    own = jsontext.as_object(part)
    if own is None:
        for each in jsontext.as_array(part) or ():
            yield from texts_of(each)
    elif isinstance(own.get("text"), str):
        yield own
    else:
        yield from texts_of([*own.values()])


def options_of(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the options of all inputs."""
    elements = [block.get("element", {}) for block in blocks]
    return [each for element in elements for each in element.get("options", ())]


def shown_text(blocks: Any) -> str:
    own = jsontext.as_object(blocks)
    if own is not None:
        text = own.get("text")
        texts = [unescape(text)] if isinstance(text, str) else []
        return "\n".join((*texts, *map(shown_text, own.values())))
    return "\n".join(map(shown_text, jsontext.as_array(blocks) or ()))


class _Server(LocalServer):
    api: SlackApi


class _Handler(LocalHandler):
    def do_POST(self) -> None:  # noqa: N802 - its name
        api = cast("_Server", self.server).api
        body = self.rfile.read(int(self.headers.get("content-length", "0"))).decode()
        is_json = self.headers.get_content_type() == "application/json"
        sent: dict[str, Any] = json.loads(body) if is_json else dict(parse_qsl(body))
        method = self.path.rpartition("/")[2]
        assert self.headers["authorization"] == f"Bearer {TOKEN}"
        failures = api.failures.get(method) or []
        if failures:
            failure = failures.pop(0)
            self.server_delay(failure.delay)
            api.calls.append((method, sent))
            answer = {"ok": False, "error": failure.error}
            if not failure.error:
                answer = api.answer(method, sent)
            self.respond(failure.status, answer, failure.headers)
            return
        self.respond(200, api.answer(method, sent), {})

    def server_delay(self, seconds: float) -> None:
        cast("_Server", self.server).closing.wait(seconds)

    def respond(
        self, status: int, answer: dict[str, Any], headers: Mapping[str, str]
    ) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
        del format, args


@contextmanager
def serve_slack() -> Generator[SlackApi]:
    """Serve a workspace; each block that it got is valid."""
    api = SlackApi()
    server = _Server(0, _Handler)
    server.api = api
    api.url = f"http://127.0.0.1:{server.server_port}/api/"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.hang_up()
        server.server_close()
        thread.join()
    assert api.problems == []


# A person ------------------------------------------------------------------------


def signed(
    payload: Mapping[str, Any], *, at: str | None = None, secret: str = SIGNING_SECRET
) -> tuple[str, dict[str, str]]:
    """Return the body and headers of an interaction, signed as Slack signs it."""
    body = urlencode({"payload": json.dumps(payload)})
    timestamp = at or str(int(time.time()))
    signature = SignatureVerifier(secret).generate_signature(
        timestamp=timestamp, body=body
    )
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "x-slack-request-timestamp": timestamp,
        "x-slack-signature": str(signature),
    }
    return body, headers


@dataclass(kw_only=True)
class Person:
    """A user of Slack, who clicks and submits."""

    api: SlackApi
    app: App
    user: str = "U1"
    team: str = TEAM
    mode: str = "http"
    _clicks: int = 0

    def send(self, payload: Mapping[str, Any]) -> BoltResponse:
        """Send an interaction to the app."""
        if self.mode == "socket_mode":
            return self.app.dispatch(BoltRequest(body=dict(payload), mode=self.mode))
        body, headers = signed(payload)
        return self.app.dispatch(BoltRequest(body=body, headers=dict(headers)))

    def click_payload(self, message: Mapping[str, Any], ts: str) -> dict[str, Any]:
        """Return the payload of a click on the button of a message."""
        [actions] = [b for b in message["blocks"] if b["type"] == "actions"]
        [button] = actions["elements"]
        self._clicks += 1
        return {
            "type": "block_actions",
            "user": {"id": self.user, "team_id": self.team},
            "team": {"id": TEAM, "domain": "t"},
            "api_app_id": "A1",
            "trigger_id": f"{self.user}.{self._clicks}.{time.monotonic_ns()}",
            "container": {
                "type": "message",
                "message_ts": ts,
                "channel_id": message["channel"],
            },
            "channel": {"id": message["channel"]},
            "message": {**message, "ts": ts},
            "actions": [{"type": "button", **button}],
        }

    def click(
        self, ts: str | None = None, message: Mapping[str, Any] | None = None
    ) -> BoltResponse:
        """Click on the button of the last message, or of an older copy of one."""
        ts = ts or next(reversed(self.api.messages))
        shown = self.api.messages[ts] if message is None else message
        return self.send(self.click_payload(shown, ts))

    def review(self, text: str, ts: str | None = None) -> dict[str, Any]:
        """Click, and return the modal once it has a text."""
        assert self.click(ts).status == 200
        return self.api.view_with(text)

    def submission(
        self,
        view: Mapping[str, Any],
        decision: str | None,
        reason: str = "",
        **values: Any,
    ) -> dict[str, Any]:
        """Return the payload of a submission; values are by the labels of inputs."""
        state: dict[str, Any] = {}
        option = None if decision is None else {"value": decision}
        state["choice"] = {"input": {"selected_option": option}}
        state["reason"] = {
            "input": {"type": "plain_text_input", "value": reason or None}
        }
        for block in view["blocks"]:
            label = block.get("label", {}).get("text")
            if label in values:
                value = entered(block["element"], values[label])
                state[block["block_id"]] = {"input": value}
            elif block["type"] == "input" and block["block_id"] not in state:
                state[block["block_id"]] = {"input": untouched(block["element"])}
        return {
            "type": "view_submission",
            "user": {"id": self.user, "team_id": self.team},
            "team": {"id": TEAM, "domain": "t"},
            "api_app_id": "A1",
            "trigger_id": "t",
            "view": {**view, "state": {"values": state}},
        }

    def submit(self, view: Mapping[str, Any], *args: Any, **values: Any) -> Any:
        """Submit a modal; return the body of the acknowledgement."""
        response = self.send(self.submission(view, *args, **values))
        assert response.status == 200
        reply: Any = json.loads(response.body) if response.body else {}
        if reply.get("response_action") == "update":
            # The acknowledgement arrives after what the app sends at once.
            time.sleep(0.02)
            self.api.acknowledge(view["id"], reply["view"])
        return reply


def untouched(element: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of an input that a person left as it was."""
    names = {
        "initial_value": "value",
        "initial_date": "selected_date",
        "initial_option": "selected_option",
        "initial_options": "selected_options",
    }
    return {own: element.get(name) for name, own in names.items()}


def entered(element: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """Return the state of an input after a person entered a value."""
    kind = element["type"]
    options: list[Any] = element.get("options") or []
    by_text = {unescape(option["text"]["text"]): option for option in options}
    if kind in ("static_select", "radio_buttons"):
        return {"type": kind, "selected_option": by_text[value]}
    if kind in ("checkboxes", "multi_static_select"):
        return {"type": kind, "selected_options": [by_text[each] for each in value]}
    key = {"datepicker": "selected_date", "timepicker": "selected_time"}
    return {"type": kind, key.get(kind, "value"): value}
