"""A suspended run in S3 that an HTTP request resumes: `make demo-s3`.

It runs the agents of three_deep.py in AWS Lambda on this machine, with S3 and SQS from
ministack. For every event a cold process runs the runtime client of AWS, and is killed
after its response. It needs no account and no key, and takes about ten seconds.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3

# Run as a file, Python looks for modules beside the file only.
sys.path.insert(0, str(Path(__file__).parents[1]))
from examples import local_cloud
from examples.local_cloud import queue_event, url_event

HERE = Path(__file__).parent
RUN = "onboard-jane"
TASK = (
    "Jane Doe starts on Monday. Pay her the welcome bonus of 500.00 EUR and give her "
    "access to the payroll system."
)


class Demo:
    """A bucket, a queue, a model, and the processes so far."""

    def __init__(self, home: Path, aws: str, model: str) -> None:
        self.home = home
        self.effects_file = home / "ledger.txt"
        self.s3: Any = boto3.client("s3", endpoint_url=aws)
        self.sqs: Any = boto3.client("sqs", endpoint_url=aws)
        self.s3.create_bucket(Bucket="runs")
        self.queue = self.sqs.create_queue(QueueName="wakes")["QueueUrl"]
        self.request_counter = local_cloud.RequestCounter(aws)
        self.environment = {
            "PYTHONPATH": str(HERE),
            "AWS_ENDPOINT_URL": aws,
            "AWS_ENDPOINT_URL_S3": self.request_counter.url,
            "STORE": "s3://runs/demo",
            "QUEUE": self.queue,
            "LEDGER": str(self.effects_file),
            "OPENAI_BASE_URL": model,
            "OPENAI_API_KEY": "offline",
        }
        self.pids: list[int] = []
        self._titles = itertools.count(1)

    def print_title(self, text: str) -> None:
        """Print the title of the next step."""
        print(f"\n{next(self._titles)}. {text}")

    def invoke(self, event: dict[str, Any]) -> Any:
        """Process an event in a cold process; print its cost."""
        before = Counter(self.request_counter.counts)
        begun = time.monotonic()
        with local_cloud.ExecutionEnvironment(
            "s3_handler.handle", folder=self.home, environment=self.environment
        ) as process:
            process.send_event(event)
            result = process.result()
            took = time.monotonic() - begun
            self.pids.append(process.process.pid)
        requests = self.request_counter.counts - before
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(requests.items()))
        print(f"   process {self.pids[-1]}: {took * 1000:.0f} ms, S3: {kinds}")
        return result

    def http(self, method: str, path: str, body: object = None) -> Any:
        """Send a request to the function's URL."""
        print(f"   {method} {path} {json.dumps(body)[:60] if body else ''}")
        event = url_event(method, path, body, **{"x-who": "kim@example.com"})
        response = self.invoke(event)
        if response["statusCode"] != 200:  # noqa: PLR2004 - OK
            sys.exit(f"{method} {path}: {response}")
        return json.loads(response["body"])

    def deliver_messages(self, *, twice: bool = False) -> None:
        """Pass the messages of the queue to the function."""
        received = self.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10)
        for message in received.get("Messages", []):
            for _ in range(2 if twice else 1):
                print(f"   message {message['Body']}")
                result = self.invoke(queue_event(message["Body"]))
                if result["batchItemFailures"]:
                    sys.exit(f"The message failed: {result}")
            self.sqs.delete_message(
                QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"]
            )

    def print_stored(self) -> None:
        """Print the stored bytes and the living processes between two events."""
        listed = self.s3.list_objects_v2(Bucket="runs")["Contents"]
        size = sum(each["Size"] for each in listed)
        alive = living_pids(self.pids) or "none"
        print(f"   {len(listed)} objects, {size:,} bytes; processes alive: {alive}")

    @property
    def effects(self) -> list[str]:
        """The recorded effects of the tools."""
        return (
            self.effects_file.read_text().splitlines()
            if self.effects_file.exists()
            else []
        )


def living_pids(pids: list[int]) -> list[int]:
    """Return the processes that are still alive."""
    alive: list[int] = []
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, 0)
            alive.append(pid)
    return alive


def decide(demo: Demo, decision: str, tool: str, *, twice: bool = False) -> None:
    """Decide the call of a tool over HTTP, and resume the run from the queue."""
    demo.print_title(f"An HTTP request decides {decision}: {tool}")
    waits = demo.http("GET", f"/runs/{RUN}")["waits"]
    wait = next(wait for wait in waits if wait["tool"] == tool)
    path = f"/waits/{wait['id']}/decision"
    demo.http("POST", path, {"decision": decision})
    demo.print_title(
        "The queue resumes the run" + (", with a repeated message" if twice else "")
    )
    demo.deliver_messages(twice=twice)
    demo.print_stored()


def run_demo(demo: Demo) -> dict[str, bool]:
    """Start a run, decide twice, and return which promises were kept."""
    demo.print_title("Start")
    run = demo.http("POST", "/runs", {"input": TASK, "run_id": RUN})
    for wait in run["waits"]:
        print(f"   waits: {' > '.join(wait['path'])}")
    demo.print_stored()
    decide(demo, "approve", "transfer", twice=True)
    decide(demo, "deny", "grant_access")
    demo.print_title("The end")
    run = demo.http("GET", f"/runs/{RUN}")
    print(f"   {run['status']}: {run['output']}")
    demo.print_title(f"The effects, from {demo.effects_file}")
    for effect in demo.effects:
        print(f"   {effect}")
    transfers = [effect for effect in demo.effects if "Transferred" in effect]
    return {
        "the run finished": run["status"] == "finished",
        "the money was transferred once": len(transfers) == 1,
        "the denied call did not run": transfers == demo.effects,
        "no process is left": not living_pids(demo.pids),
    }


def print_cost(counts: Counter[str]) -> None:
    """Print the price of the S3 requests in us-east-1 (2026)."""
    writes = counts["PUT"] + counts["LIST"]
    reads = counts["GET"] + counts["HEAD"]
    cents = writes * 0.0005 + reads * 0.00004
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    print(f"\nAll S3 requests: {kinds}. They cost {cents:.4f} US cents.")


def main() -> None:
    """Run the demo and check its promises."""
    os.environ.update(local_cloud.CREDENTIALS)
    home = Path(tempfile.mkdtemp(prefix="s3-demo-"))
    with (
        local_cloud.serving(home) as aws,
        subprocess.Popen(
            [sys.executable, HERE / "scripted_api.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as model,
    ):
        print(f"S3 and SQS at {aws} until this program ends; logs in {home}.")
        demo = Demo(home, aws, next(iter(model.stdout or ())).strip())
        kept = run_demo(demo)
        demo.request_counter.close()
        model.communicate()
    print_cost(demo.request_counter.counts)
    for promise, holds in kept.items():
        print(f"{'Yes' if holds else 'NO'}: {promise}.")
    if not all(kept.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
