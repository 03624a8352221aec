"""The zstd dictionary of format 1: what most bodies of versions have in common.

The body of a version is small, and most of it is names of fields. With the dictionary,
such a body takes a fifth less. The dictionary is part of the format: its bytes never
change. A later format may bring another dictionary, with a codec of its own.
"""

from __future__ import annotations

from typing import Any

import msgpack

_MOMENT = 1_795_317_735_000
_WAIT_ID = "approval-01m"

_STATES: tuple[dict[str, Any], ...] = (
    {"kind": "proposed"},
    {"kind": "ready"},
    {"kind": "nested", "frame": "f5"},
    {"kind": "unknown", "wait": "unknown-01m", "checked": True},
    {"kind": "errored", "code": "exception", "content": "ERROR: "},
    {"kind": "refused", "code": "denied", "content": "DENIED: a person refused this"},
    {"kind": "returned", "content": ""},
    {"kind": "waiting", "wait": _WAIT_ID},
    {"kind": "started"},
)
_CALL = {
    "id": "c3",
    "frame": "f1",
    "tool": "",
    "provider_id": "call_",
    "written": '{"',
    "state": _STATES[-2],
    "arguments": '{"',
    "original": "{}",
    "meaning": "",
    "approved": "",
    "approved_until": _MOMENT,
    "repeatable": True,
    "verifiable": True,
    "attempts": 1,
}
_SCHEMA = (
    '{"additionalProperties":false,"properties":{"a":{"type":"boolean"},"b":{"items":'
    '{"type":"object"},"type":"array"},"c":{"anyOf":[{"type":"string"},{"type":"null"}'
    '],"default":null,"description":"","enum":["a"],"minimum":0},"d":{"type":"number"},'
    '"e":{"type":"string"},"f":{"type":"integer"}},"required":["'
)
_WAIT = {
    "id": _WAIT_ID,
    "run": "",
    "call": "c3",
    "kind": "approval",
    "path": [""],
    "tool": "",
    "arguments": '{"',
    "schema": _SCHEMA,
    "digest": "",
    "created": _MOMENT,
    "deadline": _MOMENT,
    "valid_for": 0,
    "policy": "",
    "denial_stops": True,
    "expiry_stops": True,
    "note": "",
}
_DECISION = {
    "id": "01m",
    "wait": _WAIT_ID,
    "kind": "approve",
    "at": _MOMENT,
    "digest": "",
    "by": "",
    "reason": "",
    "arguments": '{"',
    "value": "",
    "marker": "markers/1795317735000-d-01m",
}
_USAGE = {
    "requests": 1,
    "input_tokens": 1,
    "output_tokens": 1,
    "cached_tokens": 1,
    "reasoning_tokens": 1,
}
_CALLING_MESSAGE = (
    '{"role":"assistant","content":"","refusal":null,"annotations":[],"tool_calls":'
    '[{"id":"call_","type":"function","function":{"name":"","arguments":'
    '"{\\"\\": \\""}}]}'
)
_MESSAGES = [
    '{"role":"system","content":"',
    '{"role":"user","content":"',
    _CALLING_MESSAGE,
    '{"role":"assistant","content":null,"tool_calls":[{"id":"call_',
    '{"role":"tool","tool_call_id":"call_","content":"',
]
_FULL_COPY = {
    "run": {
        "id": "",
        "birth": "01m",
        "agent": "",
        "created": _MOMENT,
        "input": "",
        "budget": {"requests": 1, "tokens": 1},
        "status": "finished",
        "next": 3,
        "inbox": 1,
        "claim": {"worker": "01m", "until": _MOMENT, "attempt": 1},
        "usage": _USAGE,
        "output": "",
        "failure": {"code": "cancelled", "message": ""},
    },
    "manifest": '{"agents":{"',
    "frames": [
        {
            "id": "f5",
            "agent": "",
            "call": "c3",
            "depth": 1,
            "turns": 1,
            "max_turns": 10,
            "open": ["c3"],
        }
    ],
    "calls": [_CALL, *({"state": state} for state in _STATES)],
    "waits": [_WAIT],
    "logs": {"f1": {"id": 2, "keep": 1, "add": _MESSAGES}},
    "gone": [_WAIT_ID, "c3", "f5"],
}
_RUN = {
    "status": "running",
    "next": 3,
    "claim": {"worker": "01m", "until": _MOMENT},
    "usage": {"requests": 1, "input_tokens": 1, "output_tokens": 1},
}
_DELTA = {
    "run": _RUN,
    "frames": [{"id": "f1", "agent": "", "turns": 1, "open": ["c3"]}],
    "calls": [
        {
            "id": "c3",
            "frame": "f1",
            "tool": "",
            "provider_id": "call_",
            "written": "{",
            "state": {"kind": "started"},
            "arguments": "{",
            "meaning": "",
        }
    ],
}
_SUSPENDED = {"run": {"status": "suspended", "next": 3, "usage": {"requests": 1}}}

# zstd refers best to the end, so the most frequent parts are there.
DICTIONARY: bytes = b"".join(
    msgpack.packb(part) for part in (_DECISION, _FULL_COPY, _DELTA, _SUSPENDED)
)
