"""All cases, in the order in which a reader meets them."""

from __future__ import annotations

from tests.errors import (
    cases_bytes,
    cases_command_line,
    cases_deciding,
    cases_declaring,
    cases_http,
    cases_interop,
    cases_messages,
    cases_models,
    cases_running,
    cases_serving,
    cases_stores,
    cases_testing,
    cases_waits,
)

AREAS = (
    cases_declaring.AGENTS,
    cases_declaring.TOOLS,
    cases_declaring.SCHEMA_TOOLS,
    cases_declaring.POLICIES,
    cases_waits.WAITS,
    cases_models.OPENAI,
    cases_models.OTHERS,
    cases_running.OPTIONS,
    cases_running.STARTING,
    cases_running.RESUMING,
    cases_messages.ENDINGS,
    cases_deciding.DECIDING,
    cases_waits.DECIDING,
    cases_deciding.STORELESS,
    cases_running.SENDING,
    cases_interop.ADOPTING,
    cases_stores.URLS,
    cases_stores.STORES,
    cases_stores.FAILING,
    cases_bytes.BYTES,
    cases_bytes.STORED,
    cases_command_line.USAGE,
    cases_command_line.COMMANDS,
    cases_http.REQUESTS,
    cases_http.PROBLEMS,
    cases_http.LINKS,
    cases_serving.OPTIONS,
    cases_serving.DELIVERY,
    cases_serving.LAMBDA,
    cases_messages.MESSAGES,
    cases_testing.TESTING,
)
CASES = tuple(case for area in AREAS for case in area.cases)
