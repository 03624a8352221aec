"""The names that a user imports, as the code of a case finds them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, field_validator

import continuations_storage
from continuations import testing
from continuations.authoring.errors import StateInvalid
from continuations.authoring.tool.tool import Tool
from continuations.core.messages import system_message, tool_message, user_message
from continuations.engine.model_delays import ReplyLost
from continuations.models.dialect import ChatDialect
from continuations.models.interface import ModelReply, ModelRequest
from continuations.models.openai_chat import OpenAIChat
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.aws.dispatch import InvokeDispatcher, SqsDispatcher
from continuations.serve.aws.lambda_events import UnknownEvent
from continuations.serve.aws_lambda import handler
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.links import CallbackInvalid, LinkInvalid, Links
from continuations.serve.notify.mail import EmailNotifier
from continuations.serve.notify.notifier import NotifyAll, NotifyFailed
from continuations.serve.notify.webhook import WebhookNotifier
from continuations_storage import faults
from continuations_storage.obstore import ObjectStore
from continuations_storage.retries import RetryPolicy
from continuations_storage.s3 import S3Store
from tests.errors.case import Shown
from tests.public_names import public_values

_BY_PATH: dict[str, Any] = {
    "asyncio": asyncio,
    "json": json,
    "dataclass": dataclass,
    "datetime": datetime,
    "timedelta": timedelta,
    "UTC": UTC,
    "Decimal": Decimal,
    "Any": Any,
    "BaseModel": BaseModel,
    "field_validator": field_validator,
    "ModelReply": ModelReply,
    "ModelRequest": ModelRequest,
    "user_message": user_message,
    "system_message": system_message,
    "result_message": tool_message,
    "ChatDialect": ChatDialect,
    "OpenAIChat": OpenAIChat,
    "ScriptedModel": ScriptedModel,
    "ToolCall": ToolCall,
    "InvokeDispatcher": InvokeDispatcher,
    "SqsDispatcher": SqsDispatcher,
    "handler": handler,
    "HttpApi": HttpApi,
    "Request": Request,
    "Links": Links,
    "CallbackInvalid": CallbackInvalid,
    "LinkInvalid": LinkInvalid,
    "NotifyFailed": NotifyFailed,
    "ReplyLost": ReplyLost,
    "StateInvalid": StateInvalid,
    "UnknownEvent": UnknownEvent,
    "EmailNotifier": EmailNotifier,
    "NotifyAll": NotifyAll,
    "WebhookNotifier": WebhookNotifier,
    "faults": faults,
    "ObjectStore": ObjectStore,
    "Shown": Shown,
    "Tool": Tool,
    "S3Store": S3Store,
    "RetryPolicy": RetryPolicy,
    "testing": testing,
    "storage": continuations_storage,
}


def exported() -> dict[str, Any]:
    """Return every public name, with those that are imported by path."""
    return {**public_values(), **_BY_PATH}
