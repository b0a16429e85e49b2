"""A real pgbouncer between services and the PostgreSQL server of the tests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from helpers.postgres_server import Schema, as_other_user

MISSING = "needs pgbouncer (apt-get install pgbouncer)"
_FORM = """
[databases]
postgres = host={server} port=5432
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = 3
logfile = {folder}/log
pidfile = {folder}/pid
admin_users = admin
"""


def program() -> str | None:
    """The path of pgbouncer: that of VECALL_TEST_PGBOUNCER, or the installed one."""
    given = os.environ.get("VECALL_TEST_PGBOUNCER")
    return given or shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")


class Pgbouncer:
    """One pgbouncer in transaction mode, before the server of a schema.

    Attributes:
        folder: Where its configuration is, in the file `ini`.
        port: Its port on localhost.
    """

    def __init__(self, schema: Schema, **settings: object) -> None:
        """Start it.

        Args:
            schema: The schema.
            settings: Further lines of its configuration.
        """
        self._schema = schema
        self.folder = Path(tempfile.mkdtemp(prefix="pgb"))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        form = _FORM.format(
            server=schema.server.folder, port=self.port, folder=self.folder
        )
        more = "".join(f"{name} = {value}\n" for name, value in settings.items())
        (self.folder / "ini").write_text(form + more)
        (self.folder / "users").write_text('"server" ""\n"admin" ""\n')
        ids = as_other_user()
        for path in (self.folder, *self.folder.iterdir()):
            if ids:
                os.chown(path, ids["user"], ids["group"])
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start the process, and wait until it accepts connections."""
        found = program()
        assert found is not None
        self._process = subprocess.Popen(
            [found, str(self.folder / "ini")],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder,
            **as_other_user(),
        )  # fmt: skip
        deadline = time.monotonic() + 20
        while True:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill it, as a crash does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
        for left in (self.folder / "pid", *self.folder.glob(".s.*")):
            left.unlink(missing_ok=True)

    def remove(self) -> None:
        """Kill it and delete its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, host: str = "127.0.0.1", **options: object) -> str:
        """The URL of the schema through it."""
        more = "".join(f"&{name}={quote(str(o))}" for name, o in options.items())
        return (
            f"postgresql://server@{host}:{self.port}/postgres"
            f"?schema={self._schema.name}{more}"
        )

    def log(self) -> str:
        """What it has logged."""
        return (self.folder / "log").read_text()
