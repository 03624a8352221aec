"""A server process is killed between a question and its answer; both SDKs ask it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from a2a.types import ListTasksRequest

from tests.interop.a2a.clients import (
    COMPLETED,
    INPUT_REQUIRED,
    approval,
    output_of,
    sender,
    waits_of,
)
from tests.interop.a2a.servers import (
    JavaScriptError,
    is_javascript_installed,
    javascript_client,
    running_server,
)
from tests.run_environment import RunEnvironment


def message(part: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return the parameters of a message with one part."""
    own = {"messageId": str(part), "role": "ROLE_USER", "parts": [part], **options}
    return {"message": own}


async def test_answer_reaches_another_process(
    tmp_path: Path, environment: RunEnvironment
) -> None:
    with running_server(tmp_path) as server:
        async with sender(url=server.url, streaming=True) as client:
            task = await client.send("pay 5")
            assert INPUT_REQUIRED == task.status.state
            server.kill()
            server.start()

            assert task == await client.get(task.id)
            [listed] = (await client.client.list_tasks(ListTasksRequest())).tasks
            assert task.id == listed.id
            server.kill()
            server.start()

            ended = await client.send(approval(waits_of(task)[0]), task_id=task.id)
            assert COMPLETED == ended.status.state
            assert "Result: paid 5" == output_of(ended)
    assert ["pay 5"] == environment.effect_names()


if is_javascript_installed():

    @pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
    def test_javascript_client_answers_another_process(
        binding: str, tmp_path: Path, environment: RunEnvironment
    ) -> None:
        with (
            running_server(tmp_path) as server,
            javascript_client(server.url, binding) as client,
        ):
            events = client.call("stream", **message({"text": "pay 5"}))
            task_id = events[0]["task"]["id"]
            last = events[-1]["statusUpdate"]["status"]
            assert "TASK_STATE_INPUT_REQUIRED" == last["state"]
            [title, data] = last["message"]["parts"]
            assert "Pay 5 cents" == title["text"]
            server.kill()
            server.start()

            text = message({"text": "yes"}, taskId=task_id)
            same = client.call("send", **text)
            assert "TASK_STATE_INPUT_REQUIRED" == same["status"]["state"]
            wrong = {**approval(data["data"]), "decision": "yes"}
            with pytest.raises(JavaScriptError, match="decided nothing"):
                client.call("send", **message({"data": wrong}, taskId=task_id))
            assert [] == environment.effect_names()

            part = {"data": approval(data["data"])}
            ended = client.call("send", **message(part, taskId=task_id))
            assert "TASK_STATE_COMPLETED" == ended["status"]["state"]
            assert ended == client.call("get", id=task_id)
            assert [task_id] == [each["id"] for each in client.call("list")["tasks"]]
            with pytest.raises(JavaScriptError, match="cancel"):
                client.call("cancel", id=task_id)
        assert ["pay 5"] == environment.effect_names()
