"""Both adapters: for chat completions and for the Responses API."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import pytest

from continuations.core.messages import user_message
from continuations.errors import ModelError
from continuations.models.interface import ModelRequest
from continuations.models.openai_chat import OpenAIChat
from continuations.models.openai_responses import OpenAIResponses
from tests.models.model_calls import adapter_error
from tests.models.response_calls import error_of

Api: TypeAlias = Literal["chat completions", "Responses API"]
MODELS: dict[Api, Callable[..., OpenAIChat | OpenAIResponses]] = {
    "chat completions": OpenAIChat,
    "Responses API": OpenAIResponses,
}
RESERVED: dict[Api, str] = {
    "chat completions": "model messages tools stream",
    "Responses API": """
        model input tools stream background previous_response_id conversation messages
    """,
}
of_each_api = pytest.mark.parametrize("api", MODELS)


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        *((status, False) for status in (400, 401, 403, 404, 413, 422)),
        *((status, True) for status in (408, 409, 429, 500, 502, 503, 529)),
    ],
)
@of_each_api
def test_status_decides_whether_an_error_is_retryable(
    api: Api, status: int, *, retryable: bool
) -> None:
    body = {"error": {"message": "Key sk-test is not known."}}
    if api == "chat completions":
        error = adapter_error({"": [{"status": status, "body": body}]})
    else:
        # A request that is invalid for one dialect is sent again in another one.
        error = error_of(lambda _: {"status_code": status, "body": body})

    assert (status, retryable) == (error.status, error.retryable)
    assert "sk-test" not in str(error)


@pytest.mark.parametrize(
    ("api", "name"), [(api, name) for api in RESERVED for name in RESERVED[api].split()]
)
def test_reserved_settings_are_rejected(api: Api, name: str) -> None:
    request = ModelRequest(messages=[user_message("a")], settings={name: []})
    error_in: Callable[[Any, ModelRequest], ModelError]
    error_in = adapter_error if api == "chat completions" else error_of

    assert (
        f"model gpt-5-mini: settings must not contain {name}: the adapter sets them."
        == str(error_in({}, request))
    )


@of_each_api
def test_repr_contains_only_the_name(api: Api) -> None:
    make = MODELS[api]
    model = make("gpt-5-mini", api_key="sk-1", base_url="https://u:p@h/v1")

    assert f"{make.__name__}('gpt-5-mini')" == repr(model)
    assert "gpt-5-mini" == model.name


@pytest.mark.parametrize(
    "made",
    [
        "openai_chat.OpenAIChat('m')",
        "openai_responses.OpenAIResponses('m', background=True)",
    ],
)
def test_importing_an_adapter_does_not_load_openai(made: str) -> None:
    code = (
        "import sys, continuations.models.scripted;"
        f"import continuations.models.{made.partition('.')[0]};"
        f"continuations.models.{made};"
        "print(sorted({'openai', 'httpx2', 'httpx', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert "[]\n" == done.stdout
