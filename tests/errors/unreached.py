"""The `raise` statements that no case reaches, each with the reason.

A key is a file, `file:function` or `file:function#n`. The test fails for a key that is
not needed any more.
"""

from __future__ import annotations

from continuations.errors import ContinuationsError, IllegalTransition

_FAULT_OF_OURS = "an event that the run loop never makes; it would be a bug of ours"
_BYTES = "bytes with a right digest that no version of this library writes"
_ERASED = "another process erases the run between two requests"
_LOGGED = "the text goes to the log; see test_damaged_events.py"
_BACKSTOP = "a limit that an earlier check of the same text reaches first"
_OBSTORE_REPLY = "a server that is not S3 answers; see test_obstore_replies.py"
_SYSTEM_CALL = "a system call fails between two others; see test_files_system_calls.py"

_HOOK_PROBLEM = "it is a part of another text; see test_hooks.py"

_PART = "it is a part of another text; see tests/hostile/test_forged_attachments.py"

_FORGED_FORM = "a form that no page has; see test_wait_pages.py"
_FORGED_ADDRESS = "an address that no page links to; see test_run_pages.py"
_CUT_STREAM = "a server cuts its stream, or stalls; see test_chat_deltas.py"

_CONSOLE_PAGE = "a page of the console shows it; see tests/serve/console"

_MISTAKE = "see tests/engine/test_usual_mistakes.py"

_AGENTLESS = "see tests/engine/test_agentless_threads.py"
_OF_STATE = "see tests/engine/test_instructions_of_state.py"
_FULL = "see tests/engine/test_inbox_limits.py"

UNREACHED: dict[str, str] = {
    "continuations/engine/async_thread.py:AsyncThread.state#1": _AGENTLESS,
    "continuations/engine/async_ticket.py:AsyncTicket._reply_of_others#1": _AGENTLESS,
    "continuations/engine/state_checks.py:with_rendered#1": _OF_STATE,
    "continuations/ledger/inbox_limits.py:_unread_bytes#1": _FULL,
    "continuations/authoring/tool_waits.py:ToolWait.__await__": _MISTAKE,
    "continuations/authoring/tool_waits.py:check_returned": _MISTAKE,
    "continuations/engine/async_runner.py:AsyncRunner.__getattr__": _MISTAKE,
    "continuations/value_class.py:NamedOnly.__new__": _MISTAKE,
    "continuations/core/past_rules.py:_row": "a rule without code; see its tests",
    "continuations/engine/sync_runner.py:Runner.__getattr__": _MISTAKE,
    "continuations/engine/sync_face.py:call": "see test_sync_and_async.py",
    "continuations/engine/run_streams.py:AsyncRunStream.__iter__": _MISTAKE,
    "continuations/engine/outcomes.py:Queued.result": "see test_threads.py",
    "continuations/engine/run_loop.py:RunLoop._look_before_turn": (
        "control flow inside the engine; no caller sees it"
    ),
    "continuations/cli/ui_command.py": "see test_ui_command.py",
    "continuations/cli/entry_point.py:_check_encoding": (
        "a process whose arguments are no text; see test_hostile_shells.py"
    ),
    "continuations/serve/console/console.py": _CONSOLE_PAGE,
    "continuations/serve/console/decided_page.py": _CONSOLE_PAGE,
    "continuations/serve/console/inbox_page.py": _CONSOLE_PAGE,
    "continuations/serve/console/page.py": _CONSOLE_PAGE,
    "continuations/serve/console/fork_page.py:fork": _FORGED_FORM,
    "continuations/serve/console/fork_page.py:_verdict": _FORGED_FORM,
    "continuations/serve/console/fork_page.py:_value": _CONSOLE_PAGE,
    "continuations/serve/console/drift_page.py": _CONSOLE_PAGE,
    "continuations/serve/console/messages_page.py": _FORGED_ADDRESS,
    "continuations/serve/console/rewind_page.py": _CONSOLE_PAGE,
    "continuations/serve/console/run_acts_page.py": _FORGED_FORM,
    "continuations/serve/console/run_page.py": _FORGED_ADDRESS,
    "continuations/serve/console/runs_page.py": _FORGED_ADDRESS,
    "continuations/serve/console/threads_page.py": _FORGED_FORM,
    "continuations/serve/http/run_handlers.py:fork#2": (
        "the application's function refuses; see test_rights_of_routes.py"
    ),
    "continuations/engine/past_reading.py": _CONSOLE_PAGE,
    "continuations/serve/console/local_identity.py": (
        "only a program that opens its own console twice asks for it"
    ),
    "continuations/serve/console/identities.py": (
        "a token of a login proxy is not valid; see test_identities.py"
    ),
    "continuations/serve/http/file_routes.py:file_response#2": (
        "the text goes to the log; see test_downloads.py"
    ),
    "continuations/serve/http/route_rights.py": (
        "the application's function refuses; see test_rights_of_routes.py"
    ),
    "continuations/serve/rights.py": "the text goes to the log; see above",
    "continuations/models/chat_reply.py:_chunks": _CUT_STREAM,
    "continuations/models/openai_chat.py:OpenAIChat.reply#1": _CUT_STREAM,
    "continuations/engine/guarded_calls.py": _HOOK_PROBLEM,
    "continuations/engine/guarded_turn.py": _HOOK_PROBLEM,
    "continuations/engine/hook_calls.py": _HOOK_PROBLEM,
    "continuations/core/judged_texts.py": _FAULT_OF_OURS,
    "continuations/core/attachment_parts.py": _PART,
    "continuations/core/messages.py:_has_attachments": _PART,
    "continuations/authoring/tool_results.py:_result_with_files": (
        "it is a part of the text that the model reads; see test_attachments.py"
    ),
    "continuations/serve/console/wait_edits.py": _FORGED_FORM,
    "continuations/serve/console/wait_grants.py": _FORGED_FORM,
    "continuations/serve/pages/environment.py": (
        "a fault of a view of ours; see test_environment.py"
    ),
    "continuations/serve/console/run_snapshot.py": _CONSOLE_PAGE,
    "continuations/serve/console/event_streams.py": _CONSOLE_PAGE,
    "continuations/serve/pages/asset_files.py": (
        "the console answers with a page; see test_console_app.py"
    ),
    "continuations/core/output_retries.py:check_reply": _FAULT_OF_OURS,
    "continuations/models/openai_responses.py": (
        "the adapter catches it and returns a LostReply; see test_responses_later.py"
    ),
    "continuations/value_class.py": "it is the wording of the standard library",
    "continuations/ledger/heartbeats.py:extend_deadline#4": (
        "another process passes the deadline between two requests"
    ),
    "continuations/__init__.py:__getattr__": "the wording is Python's own",
    "continuations_storage/__init__.py:__getattr__": "the wording is Python's own",
    "continuations/testing/__init__.py:__getattr__": "the wording is Python's own",
    "continuations/serve/console/__init__.py:__getattr__": (
        "the wording is Python's own"
    ),
    "continuations/authoring/schema_parameters.py:SchemaParameters.effective_arguments#1": (
        _BACKSTOP
    ),
    "continuations/authoring/schema_parameters.py:SchemaParameters.values_by_name": (
        "another schema is another contract, which is compared before"
    ),
    "continuations/authoring/call_gate.py:CallGate.enter": (
        "the run loop catches it; see test_late_calls.py"
    ),
    "continuations/authoring/callables.py:accepted_arguments": (
        "the declaration refuses such a function, if its signature can be read"
    ),
    "continuations/authoring/base_tool.py:BaseTool._asked": (
        "the tool is not offered; the text goes to the log"
    ),
    "continuations/authoring/agent.py:AgentTool.invoke": _FAULT_OF_OURS,
    "continuations/authoring/base_tool.py:BaseTool.receive_answer": _FAULT_OF_OURS,
    "continuations/authoring/tool.py:Tool.receive_answer": (
        "the text is that of the model; see test_function_waits_only_once"
    ),
    "continuations/authoring/agent.py:_no_type": "the check of a summary catches it",
    "continuations/core/deadline_actions.py": _BYTES,
    "continuations/engine/model_delays.py": (
        "the run fails with its text; see test_model_waits.py"
    ),
    "continuations/cli/chat_terminal.py": (
        "the chat catches it; see test_chat_in_a_terminal.py"
    ),
    "continuations/cli/interruption.py": "stops a command; see test_interruption.py",
    "continuations/cli/serve_command.py": (
        "a command that works until a signal; see test_serve_command.py"
    ),
    "continuations/core/delta.py": _BYTES,
    "continuations/core/draft.py": _FAULT_OF_OURS,
    "continuations/core/jsontext.py:check_limits#2": "a text of a million brackets",
    "continuations/core/jsontext.py:_refuse_lossy#3": "a value of a million lists",
    "continuations/core/jsontext.py:parse#1": _BACKSTOP,
    "continuations/core/jsontext.py:refuse_reference": (
        "schema-tool-reference reaches it; another language is between the frames"
    ),
    "continuations/core/messages.py:_facts_of_text": _BYTES,
    "continuations/core/reducer.py": _FAULT_OF_OURS,
    "continuations/core/run_events.py": _FAULT_OF_OURS,
    "continuations/core/history.py": _FAULT_OF_OURS,
    "continuations/core/threads.py": _FAULT_OF_OURS,
    "continuations/engine/async_thread.py:AsyncThread.post": (
        "another process closes the thread between two requests"
    ),
    "continuations/core/usage.py:text_units": "its callers name the stored object",
    "continuations/core/grants.py:parse_grant_text": _BYTES,
    "continuations/core/transitions.py": _FAULT_OF_OURS,
    "continuations/engine/journal.py:StoreJournal._check_still_newest": (
        "another worker writes a version between the claim and the look after it"
    ),
    "continuations/engine/stack_binding.py:StackBinding.agent": (
        "check_agents finds a missing agent before"
    ),
    "continuations/ledger/arrivals.py:_follow": _ERASED,
    "continuations/ledger/recorded_decisions.py:_read_first_decision": _ERASED,
    "continuations/ledger/decisions.py:record_decision": _ERASED,
    "continuations/ledger/wait_slots.py:_read_listed": (
        "an object is removed from the store; see test_forged_slots.py"
    ),
    "continuations/ledger/wait_slots.py:read": (
        "a forged object; see test_forged_slots.py"
    ),
    "continuations/ledger/decisions.py:_decide_closed_wait": _ERASED,
    "continuations/ledger/doctor.py:repair": "two repairs at the same moment",
    "continuations/ledger/doctor.py:_check_repairable#5": "version 9,999,999,999",
    "continuations/ledger/doctor.py:_check_repairable#6": _BYTES,
    "continuations/ledger/doctor.py:_check_claims_ended": (
        "a version whose header can be read and whose body cannot; see test_doctor.py"
    ),
    "continuations/ledger/pruning.py:Eraser.erase#2": "five processes advance it",
    "continuations/ledger/pruning.py:Eraser._read_tombstone": _BYTES,
    "continuations/ledger/inbox.py:record_cancel_request": _ERASED,
    "continuations/ledger/other_runs.py": _BYTES,
    "continuations/ledger/audit_records.py": (
        "an object that is deleted between a listing and the read after it"
    ),
    "continuations/ledger/arrival_logs.py:ArrivalLog._read_first": _ERASED,
    "continuations/ledger/arrival_logs.py:ArrivalLog.keep_lowest": _BYTES,
    "continuations/ledger/signal_limits.py:_read_all": _ERASED,
    "continuations/ledger/event_waiters.py:read": _LOGGED,
    "continuations/ledger/published_events.py:read_event": _LOGGED,
    "continuations/ledger/versions.py:Versions.rebuild_from": (
        "a finding of the doctor, who shows it in his own words"
    ),
    "continuations/ledger/versions.py:Versions._check_identity#2": _BYTES,
    "continuations/serve/http/api.py:HttpApi._identify": (
        "http-verifier-returns-true reaches it; the text goes to the log"
    ),
    "continuations/wire/envelope.py": _BYTES,
    "continuations/serve/http/decision_bodies.py:_typed_verdict": (
        "no page sends such fields; see test_approval_forms.py and test_link_pages.py"
    ),
    "continuations/wire/fields.py": _BYTES,
    "continuations/wire/rows.py": _BYTES,
    "continuations/wire/records.py": _BYTES,
    "continuations/wire/arrivals.py": _BYTES,
    "continuations/wire/formats.py": _BYTES,
    "continuations/wire/versions.py": _BYTES,
    "continuations_storage/files.py:FileStore._publish#3": _SYSTEM_CALL,
    "continuations_storage/files.py:FileStore._read_many": _SYSTEM_CALL,
    "continuations_storage/obstore.py:ObjectStore._modified_at": _OBSTORE_REPLY,
    "continuations_storage/obstore.py:ObjectStore._check_listing_works": _OBSTORE_REPLY,
    "continuations_storage/files.py:_has_key": _SYSTEM_CALL,
    "continuations_storage/filesystem.py:_make_root": (
        "a file system without new folders, such as /proc; see test_files.py"
    ),
    "continuations_storage/files.py:FileStore._raise_taken#2": _SYSTEM_CALL,
    "continuations_storage/files.py:FileStore._raise_taken#3": (
        "a file system that ignores case; see test_file_systems.py"
    ),
    "continuations_storage/new_file.py": (
        "a reason to make the file in another way, which no caller of a store sees"
    ),
    "continuations_storage/files.py:_flush_published": _SYSTEM_CALL,
}

CLASSES: dict[type[BaseException], str] = {
    ContinuationsError: "reached by name in start-within-an-async-tool",
    IllegalTransition: _FAULT_OF_OURS,
}
