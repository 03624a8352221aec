"""Dispatchers for AWS: a message to an SQS queue, or an invocation of a function.

Each wake-up is one request, repeated if it fails. botocore is imported with the first
wake-up, and only the client of one service is made.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

from continuations.errors import ContinuationsError, InvalidInput
from continuations.serve.option_checks import check_type

__all__ = ["InvokeDispatcher", "SqsDispatcher", "WakeFailed"]

# An HTTP response waits for the request, and a sweep finds the run if it fails.
_TIMEOUT_SECONDS = 3


class WakeFailed(ContinuationsError):
    """A run could not be given to another process. The next sweep resumes it."""


class _AwsDispatcher(ABC):
    """Resumes a run by one request to a service of AWS."""

    def __init__(self, service: str, client: Any) -> None:
        self._service = service
        self._given_client = client

    @cached_property
    def _client(self) -> Any:
        return self._given_client or _create_client(self._service)

    async def wake(self, run_id: str) -> None:
        """Send the request for a run.

        Raises:
            WakeFailed: The request failed.
        """
        event = json.dumps({"resume": run_id})
        try:
            await asyncio.to_thread(self._send, event)
        except Exception as error:
            msg = (
                f"run {run_id} was not resumed: {type(error).__name__} from AWS. Its "
                "marker is due, so the next sweep resumes it."
            )
            raise WakeFailed(msg, run_id=run_id) from error

    @abstractmethod
    def _send(self, event: str) -> None:
        """Send the event that resumes the run."""


class SqsDispatcher(_AwsDispatcher):
    """Resume runs by messages `{"resume": run_id}` to a queue.

    Needs `sqs:SendMessage` on the queue.

    Args:
        queue_url: The URL of a standard queue.
        client: A boto3 client for SQS; made from the environment by default.

    Raises:
        InvalidInput: `queue_url` is not a URL, or the queue is a FIFO queue.
    """

    def __init__(self, queue_url: str, *, client: Any = None) -> None:
        check_type("queue_url", queue_url, str, "the URL of an SQS queue")
        if not queue_url.startswith(("https://", "http://")):
            msg = f"queue_url must be the URL of an SQS queue, got {queue_url[:80]!r}."
            raise InvalidInput(msg)
        if queue_url.endswith(".fifo"):
            # A FIFO queue drops equal messages for five minutes, and a lost wake-up
            # costs more than a repeated one.
            raise InvalidInput(
                "queue_url must be a standard queue: a FIFO queue drops repeated "
                "messages. Create a standard queue."
            )
        super().__init__("sqs", client)
        self._queue_url = queue_url

    def _send(self, event: str) -> None:
        self._client.send_message(QueueUrl=self._queue_url, MessageBody=event)


class InvokeDispatcher(_AwsDispatcher):
    """Resume runs by asynchronous invocations of a Lambda function.

    Needs `lambda:InvokeFunction` on the function.

    Args:
        function_name: The name or ARN of the function, with an alias if you use one.
            By default the function that runs `aws_lambda.handler`.
        client: A boto3 client for Lambda; made from the environment by default.

    Raises:
        InvalidInput: `function_name` is not a text.
    """

    def __init__(self, function_name: str = "", *, client: Any = None) -> None:
        check_type("function_name", function_name, str, "a name or an ARN")
        self.function_name = function_name
        self.targets_itself = not function_name
        super().__init__("lambda", client)

    def _send(self, event: str) -> None:
        self._client.invoke(
            FunctionName=self.function_name,
            InvocationType="Event",
            Payload=event.encode(),
        )


def _create_client(service: str) -> Any:
    from botocore.config import Config  # noqa: PLC0415 - only a wake-up needs it
    from botocore.loaders import Loader  # noqa: PLC0415 - likewise
    from botocore.session import Session  # noqa: PLC0415 - likewise

    class OneServiceLoader(Loader):
        # botocore would list the folders of 400 services.
        def list_available_services(self, type_name: str) -> list[str]:
            del type_name
            return [service]

    session = Session()
    session.register_component("data_loader", OneServiceLoader())
    config = Config(
        connect_timeout=_TIMEOUT_SECONDS,
        read_timeout=_TIMEOUT_SECONDS,
        retries={"total_max_attempts": 3, "mode": "standard"},
    )
    return session.create_client(service, config=config)
