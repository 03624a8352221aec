"""examples/fastapi_app: request a refund, open the link, and decide."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.examples.example_process import EXAMPLES

FILE = EXAMPLES / "fastapi_app" / "app.py"
HOST = "http://localhost:8000"
KEY = "sesame-sesame"


@pytest.fixture
def example_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Load the example in an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("API_KEYS", f"kim={KEY},lee=other")
    monkeypatch.setenv("LINK_SECRET", "0123456789abcdef" * 2)
    for name in ("OPENAI_API_KEY", "BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return load_example()


def load_example() -> Any:
    """Return a new copy of the example, like a new process."""
    spec = spec_from_file_location("fastapi_app_example", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def client(example_app: Any) -> httpx.AsyncClient:
    """Return an HTTP client of the example."""
    transport = httpx.ASGITransport(app=example_app.app)
    return httpx.AsyncClient(transport=transport, base_url=HOST)


async def test_link_opened_and_submitted_twice_pays_once(
    example_app: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Given a run that waits for an approval
    async with client(example_app) as http:
        assert 404 == (await http.get("/refunds/A-17")).status_code
        assert 422 == (await http.post("/refunds/a%0A1")).status_code
        started = await http.post("/refunds/A-17")
    assert "suspended" == started.json()["status"]
    [link] = re.findall(r"http://\S+", capsys.readouterr().out)

    # When another process shows the page, and the form is submitted twice
    async with client(load_example()) as http:
        page = await http.get(link)
        scanned = [await http.head(link), await http.get(link)]
        assert not (tmp_path / "refunds.txt").exists()
        [shown] = set(re.findall(r'name="shown" value="(\w+)"', page.text))
        form = {"decision": "approve", "shown": shown}
        submitted = await http.post(link, data=form)
        again = await http.post(link, data=form)
        refund = await http.get("/refunds/A-17")

    # Then the refund was paid once, as shown
    assert "A-17" in page.text
    assert "1250" in page.text
    assert [200, 200] == [each.status_code for each in scanned]
    assert [200, 200] == [submitted.status_code, again.status_code]
    assert "1250 cents for A-17\n" == (tmp_path / "refunds.txt").read_text()
    assert "finished" == refund.json()["status"]
    assert "Refunded 1250 cents" in refund.json()["output"]


async def test_api_key_decides_under_the_name_of_its_owner(
    example_app: Any, tmp_path: Path
) -> None:
    denial = {"decision": "deny", "reason": "It was used for a year."}
    async with client(example_app) as http:
        await http.post("/refunds/A-17")
        unidentified = [
            await http.get("/agents/waits"),
            await http.get("/agents/waits", headers={"authorization": "Bearer x"}),
        ]
        http.headers["authorization"] = f"Bearer {KEY}"
        listed = (await http.get("/agents/waits")).json()["waits"]
        where = f"/agents/waits/{listed[0]['id']}/decision"
        denied = await http.post(where, json=denial)
        refund = await http.get("/refunds/A-17")

    assert [401, 401] == [each.status_code for each in unidentified]
    assert 1 == len(listed)
    assert "kim" == denied.json()["decision"]["by"]
    assert denied.json()["woken"]
    assert "It was used for a year." in refund.json()["output"]
    assert not (tmp_path / "refunds.txt").exists()


@pytest.mark.parametrize("keys", ["", "kim=", "=sesame", "kim", ","])
async def test_requests_are_rejected_without_api_keys(
    example_app: Any, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    del example_app
    monkeypatch.setenv("API_KEYS", keys)

    async with client(load_example()) as http:
        for headers in ({}, {"authorization": "Bearer "}):
            response = await http.get("/agents/waits", headers=headers)
            assert 401 == response.status_code
        assert 200 == (await http.get("/agents/healthz")).status_code
