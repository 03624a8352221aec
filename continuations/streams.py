"""Runs whose events are read while they happen.

from continuations.streams import AsyncRunStream, RunStream
"""

from __future__ import annotations

from continuations.engine.run_streams import AsyncRunStream, RunStream
from continuations.engine.sync_storeless import resume_stream, run_stream

__all__ = [
    "AsyncRunStream",
    "RunStream",
    "resume_stream",
    "run_stream",
]
