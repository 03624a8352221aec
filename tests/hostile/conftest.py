"""No fsync: the files of these tests need not survive a power cut."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _disable_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(descriptor: int) -> None:
        del descriptor

    monkeypatch.setattr(os, "fsync", fsync)
