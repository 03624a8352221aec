"""Slack: a message for each wait, and its decision in a private modal.

    from continuations.interop import slack

    runner = AsyncRunner(agents, store=store, notify=slack.Notifier("C123", token=...))
    app = slack.handler(runner, users=users, token=..., signing_secret=...)

`app` is an `App` of `slack_bolt` (extra `slack`). An adapter of that package serves it:
`slack_bolt.adapter.starlette`, `.aws_lambda`, `.socket_mode` and others.
"""

from __future__ import annotations

from continuations.interop import missing_package

try:
    from continuations.interop.slack.decisions import MakeLink, Users
    from continuations.interop.slack.listeners import handler
    from continuations.interop.slack.posting import Notifier
except ImportError as error:
    raise missing_package("slack", "'slack-bolt>=1.30'", error) from None

__all__ = ["MakeLink", "Notifier", "Users", "handler"]
