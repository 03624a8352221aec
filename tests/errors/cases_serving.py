"""Notifiers (webhook, mail) and AWS Lambda."""

from __future__ import annotations

from continuations.errors import InvalidInput
from continuations.serve.aws.lambda_events import UnknownEvent
from continuations.serve.notify.notifier import NotifyFailed
from tests.errors.case import Area, Case

_HOOK = 'WebhookNotifier("https://hooks.example/in", HOOK_SECRET)'
_MAIL = 'EmailNotifier("mail.example", 587, "runs@example.com", "kim@example.com")'


def _hook(name: str, code: str, *names: str) -> Case:
    return Case(f"webhook-{name}", InvalidInput, code, _HOOK, names=names)


def _mail(name: str, code: str, *names: str) -> Case:
    return Case(f"mail-{name}", InvalidInput, code, _MAIL, names=names)


OPTIONS = Area(
    "Notifier options",
    (
        _hook("url-type", "WebhookNotifier(5, HOOK_SECRET)", "url"),
        _mail("port", 'EmailNotifier("a", "587", "a@b.c", "kim@b.c")', "port"),
    ),
)

_WAIT = """
    wait = start()
    once = RetryPolicy(max_attempts=1)
    link = lambda wait: "https://runs.example"
"""

DELIVERY = Area(
    "Notifications that fail",
    (
        Case(
            "notify-answer-is-not-http",
            NotifyFailed,
            "await_(scene.webhook(0)(wait))",
            "await_(scene.webhook(204)(wait))",
            setup=_WAIT,
        ),
    ),
)

_HANDLER = """
    handle = scene.handler(agents=lambda: clerk())"""


def _event(name: str, event: str, *names: str) -> Case:
    return Case(
        f"lambda-event-{name}",
        UnknownEvent,
        f"handle({event})",
        'handle({"start": {"input": TASK, "run_id": "jane-1"}})',
        setup=_HANDLER,
        names=names,
    )


LAMBDA = Area(
    "AWS Lambda",
    (
        Case(
            "lambda-wake-type",
            InvalidInput,
            'handler(store="memory:", wake=5)',
            'handler(store="memory:", wake="inline").close()',
            names=("wake", "Dispatcher"),
        ),
        Case(
            "lambda-agents-type",
            InvalidInput,
            "scene.handler(agents=clerk())",
            "scene.handler(agents=lambda: clerk())",
            names=("agents", "Agent"),
        ),
        _event("no-object", '"sweep"'),
    ),
)
