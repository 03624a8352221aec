"""A Postgres server of this machine for tests, on loopback, stopped by its process id.

Where Postgres or PgBouncer is not installed, their tests are left out, and the head of
the output of pytest says so.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from tests.ports import free_port, wait_for_port

__all__ = [
    "DATABASE",
    "OWNER",
    "PASSWORD",
    "PostgresServer",
    "missing",
    "run_bouncer",
    "run_server",
]

ADMIN, OWNER, DATABASE = "admin", "owner", "app"
PASSWORD = "pa:ss/w@rd-of-owner"
_QUOTED_PASSWORD = "pa%3Ass%2Fw%40rd-of-owner"
_PLACES = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "opt/homebrew/opt/*/bin")
_SECONDS = 60.0
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "120",
    "shared_buffers": "16MB",
    "autovacuum": "off",
    "lc_messages": "C",
    "log_statement": "none",
}
# Most tests do not need a server that survives a power cut.
_FAST = {"fsync": "off", "full_page_writes": "off"}
_BOUNCER = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
"""


def missing() -> dict[str, tuple[str, ...]]:
    """Return the servers that this machine lacks, with the fixtures that need them."""
    programs = {
        "Postgres": ("initdb", "postgres", "durable_postgres", "bouncer"),
        "PgBouncer": ("pgbouncer", "bouncer"),
    }
    return {
        name: tuple(fixtures)
        for name, (program, *fixtures) in programs.items()
        if _program(program) is None
    }


def _program(name: str) -> str | None:
    """Return the path of a program, of the newest release in the usual places."""
    found = [path for each in _PLACES for path in Path("/").glob(f"{each}/{name}")]
    if found:
        return str(
            max(found, key=lambda path: [*map(int, re.findall(r"\d+", str(path)))])
        )
    return shutil.which(
        name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    )


@dataclass
class PostgresServer:
    """A server with a database `app`, which belongs to `owner`.

    Attributes:
        folder: The folder of its files and of its log.
        port: Its port on 127.0.0.1.
        durable: Whether it flushes.
    """

    folder: Path
    port: int
    durable: bool = False
    _process: subprocess.Popen[Any] | None = None
    _schemas: int = 0
    _certificate: str = ""

    def url(self, user: str = OWNER, port: int | None = None, **parameters: str) -> str:
        """Return the URL of the database for a user; all have the same password."""
        place = f"127.0.0.1:{port or self.port}/{DATABASE}"
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        return f"postgresql://{user}:{_QUOTED_PASSWORD}@{place}{query and f'?{query}'}"

    def new_url(self, port: int | None = None, **parameters: str) -> str:
        """Make an empty store, and return its URL."""
        from continuations_storage.postgres import PostgresStore  # noqa: PLC0415 - most test sessions need no server

        self._schemas += 1
        schema = f"store_{os.getpid()}_{self._schemas}"
        self.rows(PostgresStore(self.url(schema=schema)).migration(), user=OWNER)
        return self.url(port=port, schema=schema, **parameters)

    def connect(self, user: str = OWNER) -> psycopg.Connection[Any]:
        """Open a connection with autocommit."""
        import psycopg  # noqa: PLC0415 - likewise

        return psycopg.connect(self.url(user), autocommit=True)

    def rows(self, query: str, *values: object, user: str = ADMIN) -> list[Any]:
        """Return the rows of a query, made by the administrator."""
        with self.connect(user) as connection:
            cursor = connection.execute(query.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def terminate_others(self, condition: str = "true") -> int:
        """End the connections of the database, wait for it, and return their number."""
        others = f"datname = '{DATABASE}' AND pid <> pg_backend_pid() AND {condition}"
        query = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE "
        return len(self.rows(query + others))

    def use_certificate(self, certificate: Path) -> None:
        """Let the stopped server speak TLS when it starts again."""
        copy = Path(shutil.copy(certificate, self.folder / "server.pem"))
        copy.chmod(0o600)
        if os.getuid() == 0:
            os.chown(copy, _unprivileged()["user"], -1)
        self._certificate = str(copy)

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        settings = _SETTINGS | ({} if self.durable else _FAST)
        if self._certificate:
            settings |= dict.fromkeys(
                ("ssl_cert_file", "ssl_key_file"), self._certificate
            )
            settings["ssl"] = "on"
        options = [f"--{name}={value}" for name, value in settings.items()]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(_program("postgres")),
                    *("-D", self.folder / "data", "-p", str(self.port)),
                    *("-k", ""),  # no socket in the file system
                    *options,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                **_unprivileged(),
            )
        self._wait()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends its connections, SIGQUIT is a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_SECONDS)
            self._process = None

    def become_standby(self) -> None:
        """Let the stopped server be a standby when it starts again."""
        (self.folder / "data" / "standby.signal").touch()

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server and start it again."""
        self.stop(how)
        self.start()

    def _wait(self) -> None:
        import psycopg  # noqa: PLC0415 - likewise

        until = time.monotonic() + _SECONDS
        while True:
            try:
                psycopg.connect(self.url(ADMIN), dbname="postgres").close()
            except psycopg.OperationalError:
                ended = self._process is None or self._process.poll() is not None
                if ended or time.monotonic() > until:
                    raise
                time.sleep(0.02)
            else:
                return


@contextmanager
def run_server(*, durable: bool = False) -> Generator[PostgresServer]:
    """Make a server, run it, and remove it.

    Args:
        durable: Whether it flushes what it writes.
    """
    with _new_folder() as folder:
        # With the owner of each file.
        subprocess.run(
            ["/bin/cp", "-a", f"{_template().name}/data", folder], check=True
        )
        server = PostgresServer(Path(folder), free_port(), durable)
        try:
            server.start()
            yield server
        finally:
            server.stop(signal.SIGQUIT)


@cache
def _template() -> TemporaryDirectory[str]:
    """Return a folder with the data of a new server, made once in a process."""
    import psycopg  # noqa: PLC0415 - likewise

    made = _new_folder()
    folder = Path(made.name)
    secret = folder / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    subprocess.run(
        [
            str(_program("initdb")),
            *("-D", folder / "data", "-U", ADMIN, "--pwfile", secret),
            *("-A", "scram-sha-256", "-E", "UTF8", "--locale", "C", "--no-sync"),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=folder,
        **_unprivileged(),
    )
    server = PostgresServer(folder, free_port())
    server.start()
    with psycopg.connect(
        server.url(ADMIN), dbname="postgres", autocommit=True
    ) as admin:
        admin.execute(f"CREATE ROLE {OWNER} LOGIN PASSWORD '{PASSWORD}'".encode())
        admin.execute(f"CREATE DATABASE {DATABASE} OWNER {OWNER}".encode())
    server.stop()
    return made


@contextmanager
def run_bouncer(server: PostgresServer) -> Generator[int]:
    """Run PgBouncer in transaction mode before a server; yield its port."""
    with _new_folder() as name:
        folder, port = Path(name), free_port()
        files = {
            "bouncer.ini": _BOUNCER.format(
                server=server.port, port=port, folder=folder
            ),
            "users.txt": f'"{OWNER}" "{PASSWORD}"\n',
        }
        for file, text in files.items():
            (folder / file).write_text(text)
            (folder / file).chmod(0o644)
        with (folder / "bouncer.log").open("wb") as log:
            bouncer = subprocess.Popen(
                [str(_program("pgbouncer")), "-q", folder / "bouncer.ini"],
                stdout=log,
                stderr=subprocess.STDOUT,
                **_unprivileged(),
            )
        try:
            wait_for_port(port, _SECONDS)
            yield port
        finally:
            bouncer.kill()
            bouncer.wait()


def _new_folder() -> TemporaryDirectory[str]:
    """Make a folder for the user of the servers, who cannot enter those of pytest."""
    made = TemporaryDirectory(
        prefix="continuations-postgres-", ignore_cleanup_errors=True
    )
    Path(made.name).chmod(0o755)
    if os.getuid() == 0:
        os.chown(made.name, _unprivileged()["user"], -1)
    return made


def _unprivileged() -> dict[str, Any]:
    """Return options of `Popen`: Postgres refuses to run as root."""
    if os.getuid():
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise RuntimeError("there is no user postgres or nobody to run Postgres")
