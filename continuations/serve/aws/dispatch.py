"""Waking a run on AWS: by a message to a queue, or by invoking a function.

Either is asked for in one request, and asked for again if that fails: a wake-up that
comes twice is harmless. One that is lost strands nobody, the next sweep finds the run.
Only these two import botocore beside the store, and only when the first run is woken.
"""

from __future__ import annotations

import asyncio
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from continuations.errors import ContinuationsError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["InvokeDispatcher", "SqsDispatcher", "WakeFailed"]

# An HTTP answer waits for it, and a sweep will come: better given up than long.
_TIMEOUT_SECONDS = 3


class WakeFailed(ContinuationsError):
    """A run could not be woken; its marker stays due, the next sweep resumes it."""


class SqsDispatcher:
    """Wakes by a message `{"resume": run_id}`; needs `sqs:SendMessage` on the queue.

    The queue is a standard one. A ready-made `client` of boto3's may be given.
    """

    def __init__(self, queue_url: str, *, client: Any = None) -> None:
        if not queue_url.startswith(("https://", "http://")):
            msg = f"{queue_url[:80]!r} is no URL of a queue"
            raise InvalidInput(msg)
        if queue_url.endswith(".fifo"):
            # It drops what looks the same for five minutes, and a lost wake-up costs
            # more than one too many.
            raise InvalidInput("A FIFO queue would drop wake-ups: use a standard one.")
        self._queue_url = queue_url
        self._given_client = client

    @cached_property
    def _client(self) -> Any:
        return self._given_client or _create_client("sqs")

    async def wake(self, run_id: str) -> None:
        """Send the message; raises `WakeFailed`."""
        await _send_wake_up(
            run_id,
            lambda: self._client.send_message(
                QueueUrl=self._queue_url, MessageBody=_resume_event(run_id)
            ),
        )


class InvokeDispatcher:
    """Wakes by invoking a function without waiting for it.

    Needs `lambda:InvokeFunction` on that function. `function` is a name or an ARN, also
    with an alias; without one the handler of `aws_lambda` fills in its own. A
    ready-made `client` of boto3's may be given.
    """

    def __init__(self, function_name: str = "", *, client: Any = None) -> None:
        self.function_name = function_name
        self.targets_itself = not function_name
        self._given_client = client

    @cached_property
    def _client(self) -> Any:
        return self._given_client or _create_client("lambda")

    async def wake(self, run_id: str) -> None:
        """Invoke the function; raises `WakeFailed`."""
        await _send_wake_up(
            run_id,
            lambda: self._client.invoke(
                FunctionName=self.function_name,
                InvocationType="Event",
                Payload=_resume_event(run_id).encode(),
            ),
        )


def _resume_event(run_id: str) -> str:
    return json.dumps({"resume": run_id})


async def _send_wake_up(run_id: str, send: Callable[[], object]) -> None:
    try:
        await asyncio.to_thread(send)
    except Exception as error:
        # Whatever a client raises: a wake-up that fails is of one kind to its caller.
        msg = (
            f"Run {run_id} could not be woken ({type(error).__name__}). Nothing is "
            "lost: its marker is due, and the next sweep resumes it."
        )
        raise WakeFailed(msg, run_id=run_id) from error


def _create_client(service: str) -> Any:
    from botocore.config import Config  # noqa: PLC0415 - deciding alone never wakes
    from botocore.loaders import Loader  # noqa: PLC0415 - likewise
    from botocore.session import Session  # noqa: PLC0415 - likewise

    class OnlyThis(Loader):
        # A walk through the folders of 400 other services is what this leaves out.
        def list_available_services(self, type_name: str) -> list[str]:
            del type_name
            return [service]

    session = Session()
    session.register_component("data_loader", OnlyThis())
    config = Config(
        connect_timeout=_TIMEOUT_SECONDS,
        read_timeout=_TIMEOUT_SECONDS,
        retries={"total_max_attempts": 3, "mode": "standard"},
    )
    return session.create_client(service, config=config)
