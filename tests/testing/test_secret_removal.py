"""No secret is written to a recording, wherever it was planted."""

from __future__ import annotations

import asyncio
import json
import string
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from continuations.models.interface import Message, ModelReply, ModelRequest, ToolSpec
from continuations.models.openai_chat import OpenAIChat
from continuations.models.scripted import ScriptedModel
from continuations.testing import RecordedModel
from continuations.testing.recording_file import REMOVED, SecretRemover
from tests.model_server import ModelServer
from tests.sampling import examples

SECRET = 'p4ss"w\\ord-ünï/+1'


def forms(secret: str) -> list[str]:
    """Return how a secret may stand in a file."""
    once = json.dumps(secret)[1:-1]
    plain = json.dumps(secret, ensure_ascii=False)[1:-1]
    twice = json.dumps(once)[1:-1]
    return [secret, once, plain, twice, json.dumps(plain, ensure_ascii=False)[1:-1]]


def recorded(path: Path, request: ModelRequest, reply: Any, *secrets: str) -> str:
    """Record one request; return the text of the file."""
    model = RecordedModel(
        path, ScriptedModel(lambda _: reply), record=True, secrets=secrets
    )
    asyncio.run(model.reply(request))
    # The recording replays for the same request, on a machine without the secrets.
    asyncio.run(RecordedModel(path).reply(request))
    return path.read_text()


def user(text: str) -> Message:
    """Return a user message."""
    return Message.from_mapping({"role": "user", "content": text})


def request_with(options: dict[str, Any]) -> ModelRequest:
    """Return a request with some fields."""
    fields: dict[str, Any] = {"messages": [user("Hi")], **options}
    return ModelRequest(**fields)


PLACES: dict[str, tuple[dict[str, Any], Any]] = {
    "message": ({"messages": [user(f"the key is {SECRET}!")]}, "Ok."),
    "setting": ({"settings": {"user": SECRET}}, "Ok."),
    "header": ({"settings": {"extra_headers": {"X-Team": SECRET}}}, "Ok."),
    "field-name": ({"settings": {SECRET: 1}}, "Ok."),
    "tool": (
        {"tools": [ToolSpec(name="t", description=SECRET, parameters={SECRET: {}})]},
        "Ok.",
    ),
    "reply": ({}, f"It is {SECRET}."),
    "unknown-field": ({}, {"role": "assistant", "content": "x", "extra": [[SECRET]]}),
    "arguments": (
        {},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "t", "arguments": json.dumps({"a": [SECRET]})},
                }
            ],
        },
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("source", ["option", "environment"])
def test_known_secret_is_written_nowhere(
    place: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, reply = PLACES[place]
    secrets = (SECRET,) if source == "option" else ()
    if source == "environment":
        monkeypatch.setenv("BANK_API_KEY", SECRET)
    request = request_with(options)
    path = tmp_path / "a.json"
    model = RecordedModel(
        path, ScriptedModel(lambda _: reply), record=True, secrets=secrets
    )
    asyncio.run(model.reply(request))

    written = path.read_text()
    assert [] == [form for form in forms(SECRET) if form in written]
    assert REMOVED in written
    assert asyncio.run(RecordedModel(path, secrets=secrets).reply(request))


def test_escaped_and_quoted_secret_inside_a_text_is_removed() -> None:
    inner = json.dumps({"b": SECRET})
    text = f"log: {json.dumps({'a': inner})} {inner} ?p={quote(SECRET, safe='')}"
    cleaned = SecretRemover([SECRET], {}).clean(text)

    assert 3 == cleaned.count(REMOVED)
    assert [] == [form for form in forms(SECRET) if form in cleaned]


@pytest.mark.parametrize("place", sorted(PLACES.keys() - {"field-name", "tool"}))
def test_recording_replays_where_the_secret_is_unknown(
    place: str, tmp_path: Path
) -> None:
    options, reply = PLACES[place]
    request = request_with(options)

    assert REMOVED in recorded(tmp_path / "a.json", request, reply, SECRET)


KEYS = [
    "sk-proj-abcDEF0123456789abcdef",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "xoxb-123456789012-abcdefghij",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "Bearer abcDEF0123456789",
    "bearer dGVzdHRlc3Q=",
    "Basic dXNlcjpwYXNzd29yZA==",
    "Authorization: Token-1234abcd",
    "postgresql://kim:hunter22@db.example.com/x",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----",
    "api_key=hunter2hunter2",
]


@pytest.mark.parametrize("key", KEYS)
def test_text_with_the_form_of_a_key_is_removed(key: str, tmp_path: Path) -> None:
    secret = key.rpartition(" ")[2] if "PRIVATE" not in key else "MIIabc"
    secret = "hunter2" if "hunter" in key else secret
    request = ModelRequest(messages=[user(f"Use {key} please")])
    written = recorded(tmp_path / "a.json", request, f"I used {key} now.")

    assert secret not in written
    assert "please" in written
    assert " now." in written


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "api_key",
        "apiKey",
        "x-api-key",
        "client_secret",
        "password",
        "accessToken",
        "AWS_SECRET_ACCESS_KEY",
        "Set-Cookie",
    ],
)
def test_value_of_a_field_with_a_secret_name_is_removed(
    name: str, tmp_path: Path
) -> None:
    arguments = json.dumps({name: "plain words"})
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "t", "arguments": arguments},
    }
    reply = {"role": "assistant", "content": None, "tool_calls": [call]}
    request = ModelRequest(
        messages=[user("Hi")], settings={"extra_body": {name: "plain words"}}
    )
    written = recorded(tmp_path / "a.json", request, reply)

    assert "plain words" not in written
    assert 2 <= written.count(name)


@pytest.mark.parametrize(
    "text",
    [
        "A basic understanding of bearer responsibilities.",
        "max_tokens, the token, and the password policy",
        '{"max_tokens": 5, "note":  "keep my spaces"}',
        "https://example.com/a:b@c",
        "skating and risk-management",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert text == SecretRemover((), {}).clean(text)


def test_schema_of_a_field_with_a_secret_name_stays() -> None:
    schema = {"properties": {"password": {"type": "string"}}, "required": ["password"]}

    assert schema == SecretRemover((), {}).clean(schema)


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "OPENAI_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "SECRET_KEY_BASE",
        "DB_PASS",
        "db_password",
        "GITHUB_TOKEN",
        "GH_PAT",
        "SENTRY_DSN",
    ],
)
def test_value_of_a_variable_with_a_secret_name_is_removed(name: str) -> None:
    remover = SecretRemover((), {name: "plain words"})

    assert f"the {REMOVED}!" == remover.clean("the plain words!")


def test_short_values_and_other_variables_are_no_secrets() -> None:
    remover = SecretRemover(
        (), {"API_TOKEN": "abc", "HOME": "/home/jane/x", "AUTHOR": "Jane Doe!"}
    )

    assert "abc in /home/jane/x by Jane Doe!" == remover.clean(
        "abc in /home/jane/x by Jane Doe!"
    )


# Neither brackets nor letters, which are parts of the file around the secret.
ALPHABET = "0123456789ABCXYZ!#$%&*+-./\\\"'ß€ "
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(string.ascii_lowercase),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(string.ascii_lowercase), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    secret=st.text(ALPHABET, min_size=8, max_size=20).filter(lambda s: s.strip() == s),
    data=st.data(),
)
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
def test_no_planted_secret_survives(secret: str, data: st.DataObject) -> None:
    def plant(value: Any) -> Any:
        kind = data.draw(st.sampled_from(["text", "field", "name", "json", "beside"]))
        return {
            "text": f"a{secret}b",
            "field": {"a": secret},
            "name": {secret: value},
            "json": json.dumps({"x": [secret, value]}),
            "beside": [value, secret],
        }[kind]

    cleaned = SecretRemover([secret], {}).clean(plant(plant(data.draw(JSON))))

    written = json.dumps(cleaned, ensure_ascii=False)
    assert [] == [form for form in forms(secret) if form in written]


def test_key_of_a_real_client_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    request = ModelRequest(messages=[user("Hi")], settings={"temperature": 0})
    with ModelServer({"gpt-5-mini": [{"content": "Hello."}]}) as server:
        monkeypatch.setenv("OPENAI_API_KEY", server.key)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        model = RecordedModel(path, lambda: OpenAIChat("gpt-5-mini"), record=True)
        replies = [asyncio.run(model.reply(request))]
        key = server.key
    replies.append(asyncio.run(RecordedModel(path).reply(request)))

    for reply in replies:
        assert isinstance(reply, ModelReply)
        assert "Hello." == reply.message.content
    assert key not in path.read_text()
    assert "uthorization" not in path.read_text()
