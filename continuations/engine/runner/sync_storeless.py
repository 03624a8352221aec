"""run and resume without a store, for code without an event loop.

Their types and docstrings are in `sync_storeless.pyi`, which `tools/sync_stubs.py`
writes.
"""

from __future__ import annotations

from continuations.engine.runner.storeless import (
    resume_async,
    resume_stream_async,
    run_async,
    run_stream_async,
)
from continuations.engine.sync import sync_face

run = sync_face.sync_function(run_async, __name__)
resume = sync_face.sync_function(resume_async, __name__)
run_stream = sync_face.sync_function(run_stream_async, __name__, sync_face.run_stream)
resume_stream = sync_face.sync_function(
    resume_stream_async, __name__, sync_face.run_stream
)
