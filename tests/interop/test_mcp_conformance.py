"""The conformance kit of MCP, which no one here wrote, against the server."""

from __future__ import annotations

from pathlib import Path

from tools import conformance

_RESULTS = Path(__file__).parent / "conformance/mcp_server.md"

if conformance.KIT.exists():

    def test_results_are_those_of_the_repository(tmp_path: Path) -> None:
        results = conformance.run_kit(tmp_path)
        assert conformance.report(results) == _RESULTS.read_text("utf-8")
        assert "NO REASON" not in _RESULTS.read_text("utf-8")
