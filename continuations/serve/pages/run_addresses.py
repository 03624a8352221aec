"""The addresses of the pages of one run."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from continuations.value_class import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAddresses:
    """Makes the addresses of one run, below the mount point of the console.

    Attributes:
        root: The mount point, without a slash at its end.
        run_id: Id of the run.
        version: The older version that the page shows, or `None` for the newest.
    """

    root: str
    run_id: str
    version: int | None = None

    @property
    def run(self) -> str:
        """The page of the run, in the shown version."""
        return self._query()

    @property
    def newest(self) -> str:
        """The page of the run in its newest version."""
        return self.below("")

    def below(self, part: str) -> str:
        """Return the address of a page about the run, such as `messages`."""
        path = f"{self.root}/runs/{quote(self.run_id, safe='')}"
        return f"{path}/{part}" if part else path

    def call(self, key: str) -> str:
        """Return the page with a selected row."""
        return f"{self._query(call=key)}#call"

    def open(self, key: str) -> str:
        """Return the page with an opened row."""
        return f"{self._query(open=key)}#tree"

    def rows(self, opened: str, offset: int) -> str:
        """Return the page with the rows that follow."""
        return f"{self._query(open=opened, rows=str(offset))}#tree"

    def log(self, before: str) -> str:
        """Return the page with older lines of the log."""
        return f"{self._query(before=before)}#log"

    def at(self, version: int) -> str:
        """Return the page of the run in a version."""
        return f"{self.below('')}?version={version}"

    def version_of(self, run_id: str, version: str) -> str:
        """Return the page of another run in a version."""
        run = RunAddresses(root=self.root, run_id=run_id)
        return f"{run.newest}?{urlencode({'version': version})}"

    def cancel(self, call_id: str) -> str:
        """Return the question whether to cancel a call."""
        return f"{self.below('cancel')}?{urlencode({'call': call_id})}"

    def fork(self, version: int) -> str:
        """Return the form that forks a version."""
        return f"{self.below('fork')}?version={version}"

    def rewind(self, version: int) -> str:
        """Return the form that rewinds the run to a version."""
        return f"{self.below('rewind')}?version={version}"

    def messages(self, frame: str, before: int = 0) -> str:
        """Return the transcript of an agent."""
        fields = {"frame": frame} | ({"before": str(before)} if before else {})
        if self.version is not None:
            fields["version"] = str(self.version)
        return f"{self.below('messages')}?{urlencode(fields)}"

    def versions(self, before: int) -> str:
        """Return the page of the versions before a number."""
        return f"{self.below('versions')}?before={before}"

    def difference(self, first: int, second: int) -> str:
        """Return the page that compares two versions."""
        return f"{self.below('versions')}?from={first}&to={second}"

    def wait(self, wait_id: str) -> str:
        """Return the page of a wait."""
        return f"{self.root}/waits/{quote(wait_id, safe='@')}"

    @property
    def thread(self) -> str:
        """The conversation, if the run is a thread."""
        return f"{self.root}/threads/{quote(self.run_id, safe='')}"

    def _query(self, **fields: str) -> str:
        known = {name: text for name, text in fields.items() if text}
        if self.version is not None:
            known["version"] = str(self.version)
        query = f"?{urlencode(known)}" if known else ""
        return self.below("") + query
