"""Notifiers (webhook, mail) and AWS Lambda."""

from __future__ import annotations

from continuations.errors import InvalidId, InvalidInput
from continuations.serve.aws.dispatch import WakeFailed
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
        _hook("url-form", 'WebhookNotifier("hooks.example", HOOK_SECRET)', "url"),
        _hook("url-port", 'WebhookNotifier("https://a:b", HOOK_SECRET)', "url"),
        _hook(
            "url-characters", 'WebhookNotifier("https://a/my hook", HOOK_SECRET)', "url"
        ),
        _hook(
            "url-with-user",
            'WebhookNotifier(f"https://kim:{PASSWORD}@a/in", HOOK_SECRET)',
            "url",
        ),
        _hook(
            "url-plain-http",
            'WebhookNotifier("http://hooks.example/in", HOOK_SECRET)',
            "url",
            "https",
        ),
        _hook("secret-missing", 'WebhookNotifier("https://a", [])', "secret"),
        _hook("secret-form", 'WebhookNotifier("https://a", PASSWORD)', "secret"),
        _hook("secret-base64", 'WebhookNotifier("https://a", "whsec_?")', "secret"),
        _hook(
            "timeout",
            'WebhookNotifier("https://a", HOOK_SECRET, timeout=0)',
            "timeout",
        ),
        _hook("url-type", "WebhookNotifier(5, HOOK_SECRET)", "url"),
        _hook("secret-type", 'WebhookNotifier("https://a", 5)', "secret"),
        _hook(
            "link-type",
            'WebhookNotifier("https://a", HOOK_SECRET, link="https://b")',
            "link",
        ),
        _mail("port", 'EmailNotifier("a", "587", "a@b.c", "kim@b.c")', "port"),
        _mail("to-missing", 'EmailNotifier("a", 587, "a@b.c", [])', "to"),
        _mail("to-form", 'EmailNotifier("a", 587, "a@b.c", "Kim <kim@b.c>")', "to"),
        _mail("sender-form", 'EmailNotifier("a", 587, "runs", "kim@b.c")', "sender"),
        _mail(
            "security",
            'EmailNotifier("a", 587, "a@b.c", "kim@b.c", security="ssl")',
            "security",
        ),
        _mail(
            "without-security",
            'EmailNotifier("mail.example", 587, "a@b.c", "kim@b.c", security="none")',
            "security",
            "mail.example",
        ),
        _mail(
            "login",
            'EmailNotifier("a", 587, "a@b.c", "kim@b.c", password=PASSWORD)',
            "username",
            "password",
        ),
        Case(
            "notify-all-of-nothing",
            InvalidInput,
            "NotifyAll()",
            f"NotifyAll({_HOOK}, print)",
            names=("NotifyAll",),
        ),
    ),
)

_WAIT = """
    wait = start()
    once = RetryPolicy(max_attempts=1)
    link = lambda wait: "https://runs.example"
"""
_WELL = "await_(NotifyAll(lambda wait: None)(wait))"
_NOBODY = 'WebhookNotifier("http://127.0.0.1:9/in", HOOK_SECRET, retry_policy=once)'
_NOBODY_MAIL = """EmailNotifier("127.0.0.1", 9, "a@b.c", "kim@b.c", security="none", retry_policy=once)"""

DELIVERY = Area(
    "Notifications that fail",
    (
        Case(
            "notify-nobody-listens",
            NotifyFailed,
            f"await_({_NOBODY}(wait))",
            _WELL,
            setup=_WAIT,
            names=("127.0.0.1",),
        ),
        Case(
            "notify-link-fails",
            NotifyFailed,
            f"await_({_NOBODY[:-1]}, link=lambda wait: wait.link)(wait))",
            _WELL,
            setup=_WAIT,
            names=("link", "AttributeError"),
        ),
        Case(
            "notify-refused",
            NotifyFailed,
            "await_(scene.webhook(404)(wait))",
            "await_(scene.webhook(204)(wait))",
            setup=_WAIT,
            names=("404",),
        ),
        Case(
            "notify-answer-is-not-http",
            NotifyFailed,
            "await_(scene.webhook(0)(wait))",
            "await_(scene.webhook(204)(wait))",
            setup=_WAIT,
        ),
        Case(
            "notify-times-out",
            NotifyFailed,
            "await_(scene.webhook(204, delay=0.5, timeout=0.05)(wait))",
            "await_(scene.webhook(204)(wait))",
            setup=_WAIT,
            names=("0.05",),
        ),
        Case(
            "notify-untrusted-certificate",
            NotifyFailed,
            "await_(scene.webhook(204, tls=True)(wait))",
            "await_(scene.webhook(204)(wait))",
            setup=_WAIT,
            names=("localhost", "certificate"),
        ),
        Case(
            "notify-host-is-no-name",
            NotifyFailed,
            'await_(WebhookNotifier("https://" + "a" * 70 + ".example", HOOK_SECRET, retry_policy=once)(wait))',
            "await_(scene.webhook(204)(wait))",
            setup=_WAIT,
        ),
        Case(
            "notify-one-of-two-fails",
            NotifyFailed,
            f"await_(NotifyAll({_NOBODY}, lambda wait: None)(wait))",
            _WELL,
            setup=_WAIT,
            names=("1 of 2",),
        ),
        Case(
            "notify-function-fails",
            NotifyFailed,
            "await_(NotifyAll(lambda wait: wait.secret)(wait))",
            _WELL,
            setup=_WAIT,
            names=("AttributeError",),
        ),
        Case(
            "mail-nobody-listens",
            NotifyFailed,
            f"await_({_NOBODY_MAIL}(wait))",
            _WELL,
            setup=_WAIT,
            names=("127.0.0.1:9",),
        ),
        Case(
            "mail-refused",
            NotifyFailed,
            'await_(scene.mail("554 5.7.1 No.")(wait))',
            "await_(scene.mail('')(wait))",
            setup=_WAIT,
            names=("554",),
        ),
        Case(
            "mail-refused-for-one",
            NotifyFailed,
            'await_(scene.mail("550 5.1.1 Nobody.", only="jo@b.c")(wait))',
            "await_(scene.mail('')(wait))",
            setup=_WAIT,
            names=("550",),
        ),
    ),
)

_QUEUE = "https://sqs.eu-central-1.amazonaws.com/123456789012/wakes"
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


_MALFORMED = "problem 400 malformed"
_HTTP_EVENT = """
    event = {"version": "2.0", "rawPath": "/waits", "rawQueryString": "", "headers": {"x-user": "kim"},
             "requestContext": {"http": {"method": "GET"}}}
"""

LAMBDA = Area(
    "AWS Lambda",
    (
        Case(
            "lambda-wake",
            InvalidInput,
            'handler(store="memory:", wake="kim")',
            'handler(store="memory:", wake="invoke").close()',
            names=("wake", "kim"),
        ),
        Case(
            "lambda-queue-url",
            InvalidInput,
            'handler(store="memory:", wake="sqs:wakes")',
            f'handler(store="memory:", wake="sqs:{_QUEUE}").close()',
            names=("wakes",),
        ),
        Case(
            "lambda-fifo-queue",
            InvalidInput,
            f'handler(store="memory:", wake="sqs:{_QUEUE}.fifo")',
            f'handler(store="memory:", wake="sqs:{_QUEUE}").close()',
            names=("FIFO",),
        ),
        Case(
            "lambda-margin",
            InvalidInput,
            'handler(store="memory:", margin=-1)',
            'handler(store="memory:", margin=10).close()',
            names=("margin",),
        ),
        Case(
            "lambda-margin-type",
            InvalidInput,
            'handler(store="memory:", margin="10")',
            'handler(store="memory:", margin=10).close()',
            names=("margin",),
        ),
        Case(
            "lambda-context-type",
            InvalidInput,
            'handler(store="memory:", context=5)',
            'handler(store="memory:", context=lambda: 5).close()',
            names=("context",),
        ),
        Case(
            "lambda-wake-type",
            InvalidInput,
            'handler(store="memory:", wake=5)',
            'handler(store="memory:", wake="inline").close()',
            names=("wake", "Dispatcher"),
        ),
        Case(
            "lambda-resume-id",
            InvalidId,
            'scene.handler(agents=lambda: clerk())({"resume": 5})',
            'start(); scene.handler(agents=lambda: clerk())({"resume": "jane-1"})',
            names=("resume",),
        ),
        Case(
            "dispatcher-queue-url-type",
            InvalidInput,
            "SqsDispatcher(5)",
            f'SqsDispatcher("{_QUEUE}")',
            names=("queue_url",),
        ),
        Case(
            "lambda-agents-type",
            InvalidInput,
            "scene.handler(agents=clerk())",
            "scene.handler(agents=lambda: clerk())",
            names=("agents", "Agent"),
        ),
        Case(
            "lambda-agents-form",
            InvalidInput,
            'scene.handler(agents="payroll")({"resume": "jane-1"})',
            'start(); scene.handler(agents="tests.errors.scene:clerk")({"resume": "jane-1"})',
            names=("payroll", "module:"),
        ),
        Case(
            "lambda-agents-attribute",
            InvalidInput,
            'scene.handler(agents="tests.errors.scene:boss")({"resume": "jane-1"})',
            'start(); scene.handler(agents="tests.errors.scene:clerk")({"resume": "jane-1"})',
            names=("tests.errors.scene", "boss"),
        ),
        Case(
            "lambda-without-agents",
            InvalidInput,
            'scene.handler()({"resume": "jane-1"})',
            'start(); scene.handler(agents=lambda: clerk())({"resume": "jane-1"})',
            names=("agents",),
        ),
        Case(
            "lambda-run-id",
            InvalidId,
            'handle({"resume": "Jane Doe"})',
            'start(); handle({"resume": "jane-1"})',
            setup=_HANDLER,
            names=("Jane Doe",),
        ),
        _event("no-object", '"sweep"'),
        _event("two-verbs", '{"sweep": True, "resume": "jane-1"}'),
        _event("unknown-verb", '{"restart": "jane-1"}'),
        _event("no-fields", '{"start": "Pay Jane"}', "start"),
        _event("unknown-field", '{"start": {"input": "x", "text": "y"}}', "input"),
        _event("missing-field", '{"start": {"run_id": "jane-1"}}', "start", "input"),
        _event("field-type", '{"start": {"input": 5}}', "start", "input"),
        _event(
            "files-data",
            '{"start": {"input": "x", "files": [{"data": "%", "media_type": '
            '"image/png", "name": "a"}]}}',
            "files[0].data",
            "6 MB",
        ),
        _event(
            "when-busy",
            '{"thread": {"key": "1", "message": "x", "when_busy": "wait"}}',
            "when_busy",
            "queue",
        ),
        _event("files-no-text", '{"start": {"input": [], "files": []}}', "files"),
        _event("records-type", '{"Records": 5}', "Records"),
        _event("records-of-s3", '{"Records": [{"eventSource": "aws:s3"}]}', "SQS"),
        Case(
            "lambda-http-malformed",
            _MALFORMED,
            "handle({**event, 'rawPath': None})",
            "handle(event)",
            setup=f"{_HANDLER}{_HTTP_EVENT}",
        ),
        Case(
            "lambda-http-header",
            _MALFORMED,
            "handle({**event, 'headers': {'x-user': 5}})",
            "handle(event)",
            setup=f"{_HANDLER}{_HTTP_EVENT}",
            names=("header",),
        ),
        Case(
            "lambda-http-body",
            _MALFORMED,
            "handle({**event, 'body': '?', 'isBase64Encoded': True})",
            "handle(event)",
            setup=f"{_HANDLER}{_HTTP_EVENT}",
            names=("base64",),
        ),
        Case(
            "lambda-wake-failed",
            WakeFailed,
            'await_(SqsDispatcher(queue, client=Broken()).wake("jane-1"))',
            "runner.sweep()",
            setup=f"""
                queue = "{_QUEUE}"
                start()
                class Broken:
                    def send_message(self, **_): raise LookupError(PASSWORD)
            """,
            names=("LookupError",),
        ),
        Case(
            "lambda-invoke-failed",
            WakeFailed,
            'await_(InvokeDispatcher("f", client=Broken()).wake("jane-1"))',
            "runner.sweep()",
            setup="""
                start()
                class Broken:
                    def invoke(self, **_): raise LookupError(PASSWORD)
            """,
            names=("LookupError",),
        ),
    ),
)
