"""The operations of the HTTP API: one row for each, and what follows from it.

The route and its right follow from a row, and so do the check of the body or query, the
call of the runner, the response, and the OpenAPI document. A row that names a method of
`AsyncRunner` needs no other code. A row without one has a function in
`continuations.serve.http`: streams, files, lists, decisions, signed links.

The rows are data only, so a cold process that decides loads this table and no schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from continuations.serve.rights import Act

Subject: TypeAlias = Literal["run", "wait", "thread", "body", "decisions", "store"]
"""The part of a request that names the run of which a right is asked.

`body`: the field `run_id`. `decisions`: the waits of several decisions. `store`: the
request concerns no single run.
"""
Actor: TypeAlias = Literal["by", "identity", "door"]
"""A fact about the sender that a method of the runner takes.

`by`: the name. `identity`: the name with its groups, as `by`. `door`: the way, HTTP.
"""


class Operation(NamedTuple):
    """One operation of the HTTP API.

    Attributes:
        method: The HTTP method.
        path: The path, with parameters as `{name}`; a parameter is one path segment.
        id: The id in the OpenAPI document.
        right: The right that the sender needs. `read` needs `view` too. `None`: the
            handler asks for each row, or the response tells of no run, or the path has
            a secret of its own.
        summary: The summary in the OpenAPI document.
        form: The name of the JSON form of the response, a schema of
            `continuations.present.schemas`; "" for a response of another kind.
        returns: The description of the response.
        call: The method of `AsyncRunner`; "": the operation has a function of its own.
        command: The command that makes this call too; "" for none. If HTTP has a
            function of its own, the command calls the method `id`.
        positional: The fields that the method takes by position, after the parameters
            of the path. The others are passed by name.
        sender: The facts about the sender that the method takes.
        wakes: Whether the run is given to the dispatcher afterwards. A run that is not
            suspended is not, and neither is one for which nothing was done.
        body: The name of the schema of the JSON body; "" for no body.
        needs_body: Whether the body may not be left out.
        query: The names of the query's parameters in
            `continuations.serve.http.request_fields`.
        ignores_unknown_query: Whether other parameters of the query are ignored.
        problems: The statuses of problems, besides those that each route has.
        accepted: The form and description of a response with status 202.
        streams: The name of the last event, if the response may be server-sent events
            of the work.
        subject: The part of the request that names the run of the right.
        tells_nothing: Whether the response has nothing of the run.
        is_public: Whether the route needs no identity.
        is_html_page: Whether errors are pages, not problem details.
        works_without_folder: Whether it also works if the folder of a `file:` store
            does not exist: it reads no store, or may be the first to write.
    """

    method: str
    path: str
    id: str
    right: Act | None
    summary: str
    form: str
    returns: str
    call: str = ""
    command: str = ""
    positional: tuple[str, ...] = ()
    sender: tuple[Actor, ...] = ()
    wakes: bool = False
    body: str = ""
    needs_body: bool = True
    query: tuple[str, ...] = ()
    ignores_unknown_query: bool = False
    problems: tuple[int, ...] = (400, 404, 410, 503)
    accepted: tuple[str, str] | None = None
    streams: str = ""
    subject: Subject = "run"
    tells_nothing: bool = False
    is_public: bool = False
    is_html_page: bool = False
    works_without_folder: bool = False

    @property
    def hides_content(self) -> bool:
        """Whether a sender who may not view the run learns less of the response."""
        if self.right in (None, "view", "read") or self.tells_nothing:
            return False
        # The handlers of these ask for each run that their response names.
        return self.subject not in ("decisions", "store")


# The key of a thread is any text, so these paths are split before they are decoded.
THREADS = "/threads/"
_RUN = "/runs/{run_id}"
_THREAD = f"{THREADS}{{agent}}/{{key}}"
_BY: tuple[Actor, ...] = ("by", "door")
_ONLY_STORE = (400, 503)

_WAITS = (
    Operation(
        *("GET", "/waits", "listWaits", None),
        "List open waits. A wait that was just decided may still be listed.",
        *("wait_page", "One page of open waits."),
        query=("limit", "after", "order", "approver"),
        ignores_unknown_query=True,
        problems=_ONLY_STORE,
    ),
    Operation(
        *("GET", "/waits/{wait_id}", "showWait", "view"),
        "Show a wait with everything that its decider needs",
        *("wait", "The wait; it is not decided."),
        problems=(404, 409, 410, 503),
        subject="wait",
    ),
    Operation(
        *("POST", "/waits/{wait_id}/decision", "decide", "decide"),
        "Decide a wait; the first decision is recorded",
        "decide_response",
        "The decision is recorded, now or by an equal earlier request.",
        body="verdict",
        problems=(400, 404, 409, 410, 422, 503),
        subject="wait",
    ),
)
_RUNS = (
    Operation(
        *("GET", "/runs", "listRuns", None),
        "List runs: live ones by id, then ended ones by day",
        *("run_page", "One page of runs."),
        query=("limit", "agent", "status", "label", "after"),
        problems=_ONLY_STORE,
    ),
    Operation(
        *("POST", "/runs", "start", "message"),
        "Start a run and work on it until it ends or waits, or only store it",
        *("outcome", "The run, after its last step."),
        body="start_request",
        problems=(400, 409, 410, 502, 503),
        accepted=("outcome", "The run is stored, and no more."),
        streams="outcome",
        subject="body",
        works_without_folder=True,
    ),
    Operation(
        *("GET", "/drift", "drift", None),
        "List the runs that have not ended, with what the code of the server would do "
        "with each; nothing is written",
        *("drift_page", "One page of runs."),
        query=("limit", "after_run"),
        problems=_ONLY_STORE,
    ),
    Operation(
        *("GET", _RUN, "showRun", "view"),
        "Show a run",
        *("run", "The run."),
        call="look",
    ),
    Operation(
        *("DELETE", _RUN, "erase", "erase"),
        "Erase a run; a repeated request returns an empty receipt",
        *("erased_run", "The run is erased."),
        call="erase",
        problems=(400, 404, 409, 503),
    ),
    Operation(
        *("POST", f"{_RUN}/resume", "resume", "message"),
        "Resume a run in this process, or by the dispatcher",
        *("outcome", "The run, after its last step."),
        body="resume_request",
        needs_body=False,
        problems=(400, 404, 409, 410, 502, 503),
        accepted=("wake_response", "The dispatcher resumes the run."),
        streams="outcome",
    ),
    Operation(
        *("POST", "/sweep", "sweep", "message"),
        "Check every run that has a due marker",
        *("sweep_result", "The result of the sweep."),
        problems=(503,),
        subject="store",
    ),
)
_APPROVALS = (
    Operation(
        *("POST", "/decisions", "decideAll", "decide"),
        "Decide several waits; each has a result of its own",
        *("decision_results", "One result for each."),
        body="decision_batch",
        problems=(400,),
        subject="decisions",
    ),
    Operation(
        *("GET", f"{_RUN}/audit", "auditRun", "view"),
        "Show who decided what about a run, how and when",
        *("audit", "The recorded decisions."),
        call="audit",
    ),
    Operation(
        *("GET", f"{_RUN}/events", "listEvents", "view"),
        "List what happened in a run, derived from its versions",
        *("event_page", "One page of events."),
        query=("limit", "after_event", "wait"),
    ),
    Operation(
        *("GET", f"{_RUN}/grants", "listGrants", "view"),
        "List the grants of a run that have not ended",
        *("grant_list", "The grants."),
        call="grants",
        command="grants",
    ),
    Operation(
        *("POST", f"{_RUN}/grants/{{grant}}/revoke", "revokeGrant", "decide"),
        "Revoke a grant; it ends at the next claim of the run",
        *("revoked_grant", "The grant is revoked."),
        call="revoke",
        command="revoke",
        sender=_BY,
        body="revoke_request",
        tells_nothing=True,
    ),
)
_OPERATORS = (
    Operation(
        *("POST", f"{_RUN}/cancel", "cancel", "cancel"),
        "Cancel a run, or one of its calls",
        *("run", "The run."),
        call="cancel",
        command="cancel",
        sender=_BY,
        wakes=True,
        body="cancel_request",
        problems=(400, 404, 409, 410, 503),
    ),
    Operation(
        *("POST", f"{_RUN}/pause", "pause", "cancel"),
        "Pause a run until it is unpaused",
        *("run", "The run."),
        call="pause",
        command="pause",
        sender=_BY,
        body="pause_request",
    ),
    Operation(
        *("POST", f"{_RUN}/unpause", "unpause", "cancel"),
        "End a pause, and the waits of conditions of agents",
        *("run", "The run."),
        call="unpause",
        command="unpause",
        sender=_BY,
        wakes=True,
        body="unpause_request",
    ),
    Operation(
        *("GET", f"{_RUN}/signals", "listSignals", "view"),
        "List the signals that no wait of a run has taken",
        *("signal_list", "The signals."),
        call="signals",
        command="signals",
    ),
    Operation(
        *("POST", f"{_RUN}/signals/drop", "dropSignals", "cancel"),
        "Drop the signals that no wait of a run has taken",
        *("dropped_signals", "The signals are dropped."),
        call="drop_signals",
        command="drop-signals",
        sender=_BY,
        body="drop_signals_request",
    ),
    Operation(
        *("POST", f"{_RUN}/wake", "wake", "message"),
        "Let the next resume ask the models that a run waits for",
        *("woken_waits", "The waits have ended."),
        call="wake",
        command="wake",
        sender=_BY,
        wakes=True,
        body="wake_request",
    ),
)
_SENDERS = (
    Operation(
        *("POST", f"{_RUN}/messages", "send", "message"),
        "Send a message to a run; its root agent reads it before its next turn",
        *("sent_message", "The message is recorded."),
        call="send",
        command="send",
        positional=("text",),
        sender=("by",),
        wakes=True,
        body="run_message_request",
        problems=(400, 404, 410, 429, 503),
        tells_nothing=True,
    ),
    Operation(
        *("POST", "/signals", "signal", "message"),
        "Send a signal to a run; it ends a wait for an event, or is kept",
        *("sent_signal", "The signal is recorded."),
        call="signal",
        command="signal",
        positional=("run_id", "name"),
        sender=_BY,
        wakes=True,
        body="signal_request",
        subject="body",
        tells_nothing=True,
    ),
    Operation(
        *("POST", "/events", "publish", "message"),
        "Publish an event for all runs that wait for its name and key",
        *("published_event", "The event is published."),
        command="publish",
        sender=_BY,
        body="event_request",
        problems=_ONLY_STORE,
        subject="store",
        works_without_folder=True,
    ),
)
_PAST = (
    Operation(
        *("POST", f"{_RUN}/fork", "fork", "fork"),
        "Start a new run from a version of a run; a resume continues it",
        *("forked_run", "The fork is stored."),
        body="fork_request",
        problems=(400, 404, 409, 410, 422, 503),
        tells_nothing=True,
    ),
    Operation(
        *("GET", f"{_RUN}/rewind", "planRewind", "view"),
        "Show what a rewind would end, and what it would not undo",
        *("rewind_plan", "The plan; nothing is written."),
        call="plan_rewind",
        positional=("version",),
        query=("version",),
    ),
    Operation(
        *("POST", f"{_RUN}/rewind", "rewind", "fork"),
        "Let a live run go on from an earlier version",
        *("rewound", "The run is rewound."),
        call="rewind",
        positional=("version",),
        sender=("identity", "door"),
        body="rewind_request",
        problems=(400, 404, 409, 410, 503),
    ),
    Operation(
        *("GET", f"{_RUN}/versions", "listVersions", "view"),
        "List the versions of a run, the oldest first",
        *("version_page", "One page of versions."),
        query=("limit", "after_version"),
    ),
    Operation(
        *("GET", f"{_RUN}/versions/{{number}}", "showVersion", "view"),
        "Show a run as it was in a version, with its agents and messages",
        *("run", "The run in this version."),
    ),
    Operation(
        *("GET", f"{_RUN}/diff", "compareVersions", "view"),
        "Compare two versions of a run",
        *("run_difference", "The differences."),
        call="diff",
        positional=("from", "to"),
        query=("from", "to"),
    ),
    Operation(
        *("GET", f"{_RUN}/files/{{digest}}", "downloadFile", "read"),
        "Return the bytes of an attachment of a run",
        *("", "The bytes."),
        query=("name", "media_type"),
        ignores_unknown_query=True,
    ),
)
_THREADS = (
    Operation(
        *("GET", _THREAD, "showThread", "view"),
        "Show a thread with its conversation",
        *("thread", "The thread."),
        subject="thread",
    ),
    Operation(
        *("POST", f"{_THREAD}/messages", "postMessage", "message"),
        "Post a message, and work on the thread until it has its reply",
        *("thread_reply", "The reply, or why it failed."),
        body="message_request",
        problems=(400, 409, 410, 429, 502, 503),
        accepted=("thread_reply", "The reply is missing."),
        streams="reply",
        subject="thread",
        works_without_folder=True,
    ),
    Operation(
        *("GET", f"{_THREAD}/messages/{{number}}", "showMessage", "view"),
        "Return the reply to a message; nothing runs",
        *("thread_reply", "The reply, or why it failed."),
        query=("run_id",),
        ignores_unknown_query=True,
        accepted=("thread_reply", "The reply is missing."),
        subject="thread",
    ),
    Operation(
        *("GET", f"{_THREAD}/events", "streamThreadEvents", "view"),
        "Return the next events of a thread, as server-sent events",
        *("", "The events."),
        query=("limit", "wait", "words"),
        ignores_unknown_query=True,
        subject="thread",
        # A client may follow a thread before its first message.
        works_without_folder=True,
    ),
    Operation(
        *("POST", f"{_THREAD}/stop", "stopTurn", "cancel"),
        "Stop the reply to the present message",
        *("changed_thread", "The request is recorded."),
        body="stop_request",
        subject="thread",
    ),
    Operation(
        *("POST", f"{_THREAD}/close", "closeThread", "cancel"),
        "Close a thread once the messages before have their replies",
        *("changed_thread", "The request is recorded."),
        body="close_request",
        problems=(400, 404, 409, 410, 502, 503),
        subject="thread",
    ),
)
_OTHER_SYSTEMS = (
    Operation(
        *("POST", "/callbacks/{token}", "reportResult", None),
        "Record the result of a job at its callback URL",
        *("reported_result", "The result is recorded."),
        body="job_result",
        problems=(400, 404, 409, 410, 422, 503),
        is_public=True,
    ),
    Operation(
        *("POST", "/callbacks/{token}/heartbeat", "extendJob", None),
        "Say at a callback URL that the job is in progress",
        *("extended_job", "The job has more time."),
        body="heartbeat",
        problems=(400, 404, 409, 410, 503),
        is_public=True,
    ),
    Operation(
        *("POST", "/webhooks/{name}", "receiveWebhook", None),
        "Do what a message means that is signed as Standard Webhooks say",
        *("received_webhook", "The message is recorded."),
        problems=(400, 401, 404, 422, 503),
        is_public=True,
        works_without_folder=True,
    ),
)
_PAGES_AND_SERVICE = (
    Operation(
        *("GET", "/d/{token}", "showLink", None),
        "Show the wait of a signed link; change nothing",
        *("", "The wait, or its recorded decision."),
        problems=(404, 503),
        is_public=True,
        is_html_page=True,
    ),
    Operation(
        *("POST", "/d/{token}", "decideByLink", None),
        "Decide the wait of a signed link",
        "",
        "The decision is recorded, now or by an equal earlier request.",
        body="link_form",
        problems=(400, 403, 404, 409, 410, 503),
        is_public=True,
        is_html_page=True,
    ),
    Operation(
        *("GET", "/healthz", "healthz", None),
        "Report that the process answers",
        *("health", "The process answers."),
        problems=(),
        is_public=True,
        works_without_folder=True,
    ),
    Operation(
        *("GET", "/openapi.json", "openapi", None),
        "Return this document",
        *("", "This document."),
        problems=(),
        works_without_folder=True,
    ),
)
OPERATIONS: tuple[Operation, ...] = (
    *_WAITS,
    *_RUNS,
    *_APPROVALS,
    *_OPERATORS,
    *_SENDERS,
    *_PAST,
    *_THREADS,
    *_OTHER_SYSTEMS,
    *_PAGES_AND_SERVICE,
)
