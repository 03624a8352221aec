"""The conformance kit of MCP, which no one here wrote: the server, and `McpTools`."""

from __future__ import annotations

from pathlib import Path

from tests.sampling import RUNS_ALL_CASES
from tools import conformance

_FOLDER = Path(__file__).parent / "conformance"
_SAMPLE = ("tools_call", "sep-2322-client-request-state", "auth/basic-cimd")

if conformance.KIT.exists():

    def test_results_are_those_of_the_repository(tmp_path: Path) -> None:
        known = (_FOLDER / "mcp_server.md").read_text("utf-8")
        assert conformance.report(conformance.run_kit(tmp_path)) == known
        assert "NO REASON" not in known

    def test_results_of_the_client_are_those_of_the_repository(tmp_path: Path) -> None:
        scenarios = () if RUNS_ALL_CASES else _SAMPLE
        results = conformance.run_client_kit(tmp_path, *scenarios)
        known = (_FOLDER / "mcp_client.md").read_text("utf-8").splitlines()
        rows = conformance.report(results, "client").splitlines()
        assert set(rows) <= set(known)
        assert len(rows) - len(known) == 0 or not RUNS_ALL_CASES
        assert len(results) >= len(_SAMPLE)
        assert not [row for row in known if "NO REASON" in row]
