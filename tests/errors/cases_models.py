"""Models: the OpenAI adapter, scripted models, and models of an application."""

from __future__ import annotations

from continuations.engine.model_delays import ReplyLost
from continuations.errors import ModelError
from tests.errors.case import Area, Case

_OPENAI = """
    scene.without_openai()
    request = ModelRequest(messages=[user_message(TASK)], run_id="jane-1")
"""


OPENAI = Area(
    "The OpenAI model",
    (
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
    ),
)

OTHERS = Area(
    "Other models",
    (
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
    ),
)
