"""Models: the adapter for the Responses API."""

from __future__ import annotations

from continuations.errors import InvalidInput, ModelError
from tests.errors.case import Area, Case

_SETUP = """
    from tests.responses_server import call, response, text
    scene.without_openai()
    request = ModelRequest(messages=[user_message(TASK)], run_id="jane-1")
    async def listen(delta): pass
    streamed = ModelRequest(messages=[user_message(TASK)], on_delta=listen)
    done = response(text("done"))
"""
_ASK = "await_(model.reply(request))"
_ASK_FOR_STREAM = "await_(model.reply(streamed))"


def _provider(
    name: str, reply: str, *names: str, ask: str = _ASK, options: str = ""
) -> Case:
    """Return a case in which the provider answers once, and well when asked again."""
    setup = f"{_SETUP}\n    model = scene.responses({reply}, done{options})"
    return Case(name, ModelError, ask, ask, setup=setup, names=names)


def _polled(name: str, reply: str, *names: str, ask: str) -> Case:
    """Return a case in which a stored response is read once, and then another one."""
    setup = f"""{_SETUP}
    model = scene.responses(background=True)
    stored = scene.stored_responses
    stored["resp_1"] = {reply}
    stored["resp_2"] = response(text("done"), metadata={{}})"""
    advice = ask.replace("resp_1", "resp_2")
    return Case(name, ModelError, ask, advice, setup=setup, names=names)


def _option(name: str, wrong: str, right: str, *names: str) -> Case:
    return Case(
        name,
        InvalidInput,
        f'OpenAIResponses("gpt-5-mini", {wrong})',
        f'OpenAIResponses("gpt-5-mini", {right})',
        setup="from continuations.models.openai_responses import OpenAIResponses",
        names=names,
    )


_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
_NOT_JSON = '{"raw": "<html>"}'
_BAD_EVENT = '{"raw_events": "data: {\\n\\n"}'

RESPONSES = Area(
    "The Responses API",
    (
        _option(
            "responses-hosted-tools",
            'hosted_tools=["web_search"]',
            'hosted_tools=[{"type": "web_search"}]',
            "hosted_tools",
            "type",
        ),
        _option(
            "responses-background-type",
            'background="yes"',
            "background=True",
            "background",
        ),
        _option(
            "responses-background-and-batch",
            "background=True, batch=True",
            "batch=True",
            "background",
            "batch",
        ),
        _option(
            "responses-poll-after",
            "poll_after=5",
            "poll_after=timedelta(seconds=5)",
            "poll_after",
            "timedelta",
        ),
        Case(
            "responses-reserved-setting",
            ModelError,
            'await_(model.reply(ModelRequest(messages=[said], settings={"previous_response_id": "r"})))',
            'await_(model.reply(ModelRequest(messages=[said], settings={"top_p": 0.5})))',
            setup=f"{_SETUP}\n    model = scene.responses(done)\n    said = user_message(TASK)",
            names=("settings", "previous_response_id"),
        ),
        Case(
            "responses-setting-that-is-no-json",
            ModelError,
            'await_(model.reply(ModelRequest(messages=[said], settings={"top_p": {1}})))',
            'await_(model.reply(ModelRequest(messages=[said], settings={"top_p": 0.5})))',
            setup=f"{_SETUP}\n    model = scene.responses(done)\n    said = user_message(TASK)",
            names=("settings",),
        ),
        Case(
            "responses-setting-that-is-no-object",
            ModelError,
            'await_(model.reply(ModelRequest(messages=[said], settings={"text": "short"})))',
            'await_(model.reply(ModelRequest(messages=[said], settings={"text": {"verbosity": "low"}})))',
            setup=f"{_SETUP}\n    model = scene.responses(done)\n    said = user_message(TASK)",
            names=("text", "object"),
        ),
        Case(
            "openai-webhook-model",
            InvalidInput,
            f'openai_webhook("{_SECRET}", "gpt-5-mini")',
            f'openai_webhook("{_SECRET}", OpenAIResponses("gpt-5-mini"))',
            setup="""
                from continuations.models.openai_responses import OpenAIResponses
                from continuations.serve.http.openai_webhook import openai_webhook
            """,
            names=("model", "OpenAIResponses"),
        ),
        _provider(
            "responses-429", '{"status_code": 429, "body": {"error": "no"}}', "429"
        ),
        _provider("responses-not-json", _NOT_JSON),
        _provider("responses-no-object", '{"raw": "[]"}'),
        _provider("responses-no-output", '{"raw": "{}"}', "output"),
        _provider(
            "responses-failed",
            'response(status="failed", error={"code": "server_error", "message": "no"})',
        ),
        _provider("responses-in-progress", 'response(status="queued")', "queued"),
        _provider("responses-strange-item", "response(output=[5])"),
        _provider("responses-strange-call", 'response({**call("pay"), "name": 5})'),
        _provider(
            "responses-hosted-approval",
            'response({"type": "mcp_approval_request", "id": "mcpr_1"})',
            "mcp_approval_request",
        ),
        _provider(
            "responses-pending-without-id",
            'response(id="", status="queued")',
            "id",
            options=", background=True",
        ),
        _provider(
            "responses-cut-stream", '{"events": []}', "stream", ask=_ASK_FOR_STREAM
        ),
        _provider(
            "responses-error-event",
            '{"events": [{"type": "error", "code": "server_error", "message": "no"}]}',
            ask=_ASK_FOR_STREAM,
        ),
        _provider(
            "responses-error-in-an-event",
            '{"events": [{"type": "error", "error": {"message": "no"}}]}',
            ask=_ASK_FOR_STREAM,
        ),
        _provider(
            "responses-event-not-json",
            _BAD_EVENT,
            "stream",
            ask=_ASK_FOR_STREAM,
        ),
        _polled(
            "responses-poll-refused",
            '{"status_code": 500, "body": {"error": "no"}}',
            "500",
            ask='await_(model.poll("resp_1", request))',
        ),
        _polled(
            "responses-poll-not-json",
            _NOT_JSON,
            ask='await_(model.poll("resp_1", request))',
        ),
        _polled(
            "responses-find-run-refused",
            '{"status_code": 500, "body": {"error": "no"}}',
            "500",
            ask='await_(model.find_run("resp_1"))',
        ),
        _polled(
            "responses-find-run-unusable",
            _NOT_JSON,
            ask='await_(model.find_run("resp_1"))',
        ),
    ),
)
