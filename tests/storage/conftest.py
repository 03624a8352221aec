"""Asserts of the inherited suite explain themselves like those written here."""

import pytest

pytest.register_assert_rewrite("continuations_storage.conformance")
