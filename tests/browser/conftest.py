"""Modules that are not collected on a machine without Chromium."""

from __future__ import annotations

from tests.browser import chromium

collect_ignore = [] if chromium.is_installed() else ["test_run_pages.py"]
