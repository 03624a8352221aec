"""Models: the OpenAI adapter, scripted models, and models of an application."""

from __future__ import annotations

from continuations.engine.model_delays import ReplyLost
from continuations.errors import InvalidInput, ModelError
from tests.errors.case import Area, Case

_OPENAI = """
    scene.without_openai()
    request = ModelRequest(messages=[user_message(TASK)], run_id="jane-1")
"""
_ASK = "await_(model.reply(request))"
_REPLY = "{'content': 'done'}"


def _server(*replies: str) -> str:
    lines = ", ".join((*replies, _REPLY))
    return f"""{_OPENAI}
    model = scene.provider({lines})"""


_REQUEST = """
    import asyncio
    from continuations.core.messages import user_message
    from continuations.models.interface import ModelRequest
    said = user_message(TASK)"""


def _provider(name: str, reply: str, *names: str) -> Case:
    """Return a case in which the provider answers once, and well when asked again."""
    return Case(name, ModelError, _ASK, _ASK, setup=_server(reply), names=names)


_FALLBACK = """
    from continuations import Fallback
    from continuations.errors import ModelError
    import asyncio
    from continuations.core.messages import user_message
    from continuations.models.interface import ModelRequest
    first = ScriptedModel([ModelError("down", retryable=True)], "a")
    second = ScriptedModel(["done"], "b")
    request = ModelRequest(messages=[user_message(TASK)], run_id="jane-1")"""

FALLBACK = Area(
    "Fallback models",
    (
        Case(
            "fallback-of-one",
            InvalidInput,
            "Fallback([first])",
            "Fallback([first, second])",
            setup=_FALLBACK,
            names=("models", "two"),
        ),
        Case(
            "fallback-no-model",
            InvalidInput,
            "Fallback([first, 7])",
            "Fallback([first, second])",
            setup=_FALLBACK,
            names=("models", "name"),
        ),
        Case(
            "fallback-kinds",
            InvalidInput,
            'Fallback([first, second], on="retryable")',
            'Fallback([first, second], on=["retryable"])',
            setup=_FALLBACK,
            names=("on", "retryable"),
        ),
        Case(
            "fallback-name",
            InvalidInput,
            'Fallback([first, second], name="")',
            'Fallback([first, second], name="main")',
            setup=_FALLBACK,
            names=("name",),
        ),
        Case(
            "fallback-all-down",
            ModelError,
            "asyncio.run(Fallback([first, first]).reply(request))",
            "asyncio.run(Fallback([first, second]).reply(request))",
            setup=_FALLBACK,
            names=("jane-1", "down"),
            is_list=True,
        ),
        Case(
            "fallback-owner-is-missing",
            ModelError,
            "asyncio.run(Fallback([first, second]).poll(pending.id, request))",
            "asyncio.run(Fallback([first, later]).poll(pending.id, request))",
            setup=f"""{_FALLBACK}
    from continuations.models.scripted import LaterReply
    later = ScriptedModel([LaterReply("done")], "c")
    pending = asyncio.run(Fallback([first, later]).reply(request))""",
            names=("jane-1", "c"),
        ),
    ),
)

OPENAI = Area(
    "The OpenAI model",
    (
        Case(
            "openai-without-key",
            ModelError,
            'await_(OpenAIChat("gpt-5-mini").reply(request))',
            """
                model = scene.provider({"content": "done"})
                await_(model.reply(request))
            """,
            setup=_OPENAI,
            names=("OPENAI_API_KEY", "api_key"),
        ),
        Case(
            "openai-not-installed",
            ModelError,
            'await_(OpenAIChat("gpt-5-mini").reply(request))',
            """
                scene.close()
                model = scene.provider({"content": "done"})
                await_(model.reply(request))
            """,
            setup=f"""{_OPENAI}
    scene.without_module("openai")""",
            names=("pip install",),
            is_list=True,
        ),
        Case(
            "openai-base-url",
            ModelError,
            'await_(OpenAIChat("gpt-5-mini", api_key=API_KEY, base_url="http://127.0.0.1:port").reply(request))',
            """
                model = scene.provider({"content": "done"})
                await_(model.reply(request))
            """,
            setup=_OPENAI,
            names=("OPENAI_BASE_URL",),
        ),
        Case(
            "openai-nobody-listens",
            ModelError,
            _ASK,
            """
                model = scene.provider({"content": "done"})
                await_(model.reply(request))
            """,
            setup=f"""{_OPENAI}
    model = OpenAIChat("gpt-5-mini", api_key=API_KEY, base_url="http://127.0.0.1:9", max_retries=0)""",
            names=("127.0.0.1", "OPENAI_BASE_URL"),
        ),
        Case(
            "openai-first-request-is-refused",
            ModelError,
            'Runner(Agent("a", model=model), store=store).start(TASK, run_id="jane-1")',
            """
                model = scene.provider({"content": "done"})
                Runner(Agent("a", model=model), store=store).resume("jane-1")
            """,
            setup=f"""{_OPENAI}
    store = Runner([], store="memory:").store
    model = OpenAIChat("gpt-5-mini", api_key=API_KEY, base_url="http://127.0.0.1:9", max_retries=0)""",
            names=("127.0.0.1:9", "OPENAI_BASE_URL", "resume"),
        ),
        _provider(
            "openai-no-credit",
            '{"status": 429, "body": {"error": {"code": "insufficient_quota"}}}',
            "429",
            "credit",
        ),
        Case(
            "model-lost-reply",
            ReplyLost,
            'runner.resume("jane-1")',
            'runner.resume("jane-1")',
            setup="""
    from continuations.models.interface import LostReply
    from continuations.models.scripted import LaterReply
    model = ScriptedModel([LaterReply(LostReply(reason="no credit", retryable=False))])
    runner = Runner(Agent("a", model=model), store="memory:")
    runner.start(TASK, run_id="jane-1")
    runner.wake("jane-1")""",
            names=("jane-1", "no credit", "resume"),
        ),
        Case(
            "openai-timeout",
            ModelError,
            _ASK,
            "await_(scene.provider({'content': 'done'}).reply(request))",
            setup=f"""{_OPENAI}
    model = scene.provider({{"content": "done", "delay": 0.5}}, timeout=0.05)""",
        ),
        _provider(
            "openai-401", '{"status": 401, "body": "no"}', "401", "OPENAI_API_KEY"
        ),
        _provider("openai-403", '{"status": 403, "body": "no"}', "403"),
        _provider("openai-404", '{"status": 404, "body": "no"}', "404", "gpt-5-mini"),
        _provider("openai-413", '{"status": 413, "body": "no"}', "413"),
        _provider("openai-429", '{"status": 429, "body": "no"}', "429"),
        _provider("openai-500", '{"status": 500, "body": "no"}', "500"),
        _provider(
            "openai-error-that-quotes",
            '{"status": 400, "body": {"error": {"message": f"Bad key {API_KEY}, or text: {TASK}"}}}',
            "400",
        ),
        _provider("openai-not-json", '{"raw": "<html>"}'),
        _provider("openai-no-completion", '{"raw": "[]"}'),
        _provider("openai-no-choices", '{"raw": "{}"}'),
        _provider(
            "openai-credit-in-200",
            """{"raw": '{"error": {"code": 402, "message": "no"}}'}""",
            "402",
            "credit",
        ),
        _provider(
            "openai-error-beside-a-reply",
            """{"raw": '{"choices": [{"message": {"content": "a"}}], "error": {"message": "no"}}'}""",
        ),
        _provider(
            "openai-error-in-a-reply",
            """{"raw": '{"choices": [{"message": {"content": "a"}, "finish_reason": "error"}]}'}""",
        ),
        _provider(
            "openai-cut-stream",
            r"""{"raw": 'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'}""",
            "stream",
        ),
        _provider("openai-no-message", """{"raw": '{"choices": [{}]}'}"""),
        _provider(
            "openai-other-role",
            """{"raw": '{"choices": [{"message": {"role": "user"}}]}'}""",
        ),
        _provider(
            "openai-malformed-message",
            """{"raw": '{"choices": [{"message": {"role": "assistant", "tool_calls": 5}}]}'}""",
        ),
        _provider(
            "openai-audio-without-text",
            """{"raw": '{"choices": [{"message": {"audio": {"id": "au_1"}}}]}'}""",
            "audio",
            "transcript",
        ),
        _provider(
            "openai-invalid-request-as-500",
            '{"status": 500, "body": {"detail": "Input should be a valid list"}}',
            "500",
        ),
        Case(
            "openai-dialect",
            InvalidInput,
            'OpenAIChat("gpt-5-mini", dialect="llama")',
            'OpenAIChat("gpt-5-mini", dialect=ChatDialect(null_content=False))',
            names=("dialect", "ChatDialect"),
        ),
        Case(
            "openai-reserved-setting",
            ModelError,
            'asyncio.run(model.reply(ModelRequest(messages=[said], settings={"stream": True})))',
            'asyncio.run(model.reply(ModelRequest(messages=[said], settings={"seed": 5})))',
            setup=_server() + _REQUEST,
            names=("settings", "stream"),
        ),
        Case(
            "openai-setting-that-is-no-json",
            ModelError,
            'run(Agent("clerk", model=model, settings={"stop": {"."}}), TASK)',
            'finished(run(Agent("clerk", model=model, settings={"stop": ["."]}), TASK))',
            setup=_server(),
            names=("settings",),
        ),
    ),
)

OTHERS = Area(
    "Other models",
    (
        Case(
            "model-missing",
            ModelError,
            'run(Agent("clerk"), TASK)',
            'finished(run(Agent("clerk", model=ScriptedModel(["done"])), TASK))',
            names=("clerk", "model"),
        ),
        Case(
            "model-raises",
            ModelError,
            'runner.start(TASK, run_id="jane-1")',
            'broken = False; finished(runner.resume("jane-1"))',
            setup="""
                broken = True
                class Local:
                    name = "local"
                    async def reply(self, request):
                        if broken: raise LookupError(API_KEY)
                        return await ScriptedModel(["done"]).reply(request)
                runner = Runner(Agent("clerk", model=Local()), store=store, clock=clock)
            """,
            names=("clerk", "LookupError"),
        ),
        Case(
            "model-returns-no-reply",
            ModelError,
            'runner.start(TASK, run_id="jane-1")',
            'broken = False; finished(runner.resume("jane-1"))',
            setup="""
                broken = True
                class Local:
                    name = "local"
                    async def reply(self, request):
                        return "done" if broken else await ScriptedModel(["done"]).reply(request)
                runner = Runner(Agent("clerk", model=Local()), store=store, clock=clock)
            """,
            names=("clerk", "ModelReply"),
        ),
        Case(
            "model-that-cannot-poll",
            ModelError,
            'other.resume("jane-1")',
            'finished(runner.resume("jane-1"))',
            setup="""
                from continuations.models.scripted import LaterReply
                class Local:
                    name = "local"
                    async def reply(self, request): raise NotImplementedError
                later = ScriptedModel([LaterReply("done")])
                runner = Runner(Agent("clerk", model=later), store=store, clock=clock)
                other = Runner(Agent("clerk", model=Local()), store=store, clock=clock)
                runner.start(TASK, run_id="jane-1")
                clock.advance(100)
            """,
            names=("clerk", "poll"),
        ),
        Case(
            "script-without-the-later-reply",
            ModelError,
            'other.resume("jane-1")',
            'finished(runner.resume("jane-1"))',
            setup="""
                from continuations.models.scripted import LaterReply
                def agent(reply): return Agent("clerk", model=ScriptedModel([reply]))
                runner = Runner(agent(LaterReply("done")), store=store, clock=clock)
                other = Runner(agent("done"), store=store, clock=clock)
                runner.start(TASK, run_id="jane-1")
                clock.advance(100)
            """,
            names=("reply-0-0",),
        ),
        Case(
            "script-with-a-later-reply-in-another",
            ModelError,
            "await_(model.poll('reply-0-0', ModelRequest(messages=[user_message(TASK)])))",
            "await_(ScriptedModel([LaterReply('x')]).poll('reply-0-0', ModelRequest(messages=[user_message(TASK)])))",
            setup="""
                from continuations.models.scripted import LaterReply
                model = ScriptedModel([LaterReply(LaterReply("x"))])
            """,
            names=("LaterReply",),
        ),
        Case(
            "script-ends",
            ModelError,
            "run(clerk(script=[PAY_CALL]), TASK, context=None) and resume_it()",
            "finished(resume_it(clerk()))",
            setup="""
                def resume_it(agent=None):
                    outcome = run(clerk(), TASK)
                    answers = {outcome.waits[0].id: Approve()}
                    return resume(outcome.continuation, agent or clerk(script=[PAY_CALL]), answers=answers)
            """,
            names=("clerk",),
        ),
        Case(
            "script-of-another-agent",
            ModelError,
            'run(Agent("clerk", model=ScriptedModel({"boss": ["done"]})), TASK)',
            'finished(run(Agent("clerk", model=ScriptedModel({"clerk": ["done"]})), TASK))',
            names=("clerk", "boss"),
        ),
        Case(
            "script-line-of-another-role",
            ModelError,
            'run(Agent("clerk", model=ScriptedModel([{"role": "user", "content": "x"}])), TASK)',
            'run(Agent("clerk", model=ScriptedModel([{"role": "assistant", "content": "x"}])), TASK)',
            names=("assistant",),
        ),
        Case(
            "script-line-without-calls",
            ModelError,
            'run(Agent("clerk", model=ScriptedModel([[]])), TASK)',
            'run(Agent("clerk", model=ScriptedModel(["done"])), TASK)',
        ),
        Case(
            "script-conversation",
            ModelError,
            "await_(model.reply(ModelRequest(messages=[])))",
            "await_(model.reply(ModelRequest(messages=[user_message(TASK)])))",
            setup='model = ScriptedModel(["done"])',
        ),
    ),
)
