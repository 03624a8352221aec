"""A run that waits, its message in Slack, and a person who may decide it."""

from __future__ import annotations

import asyncio
from typing import Any

from continuations import AsyncRunner
from continuations.interop import slack
from continuations.models.scripted import ToolCall
from tests.interop.slack.waiting_agents import make_runner, start, users
from tests.interop.slack.web_api import CHANNEL, SIGNING_SECRET, Person, SlackApi


def make_app(api: SlackApi, runner: AsyncRunner[Any], **options: Any) -> Any:
    options.setdefault("users", users)
    return slack.handler(
        runner, client=api.client, signing_secret=SIGNING_SECRET, **options
    )


def make_notifier(api: SlackApi, **options: Any) -> slack.Notifier:
    """Return a notifier of the workspace."""
    return slack.Notifier(CHANNEL, client=api.client, **options)


def set_up(
    api: SlackApi, call: ToolCall, tools: list[Any], **options: Any
) -> tuple[AsyncRunner[Any], Person]:
    """Start a run that waits, with its message; return the runner and a person."""
    runner = make_runner(call, tools, notify=make_notifier(api), **options)
    asyncio.run(start(runner, by="mara"))
    return runner, Person(api=api, app=make_app(api, runner))
