"""A TCP proxy before a database that delays, loses answers, cuts, and falls silent."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import quote

from helpers.postgres_server import Schema

COMMITTED = b"COMMIT\0"
"""The end of a server's answer to COMMIT."""

Rule = Callable[[bytes], str]
"""What becomes of an answer of the server: "pass", "cut" or "silent"."""


class DatabaseProxy:
    """Passes bytes between clients and a server on a unix socket.

    Attributes:
        rule: Decides about each piece that the server answers.
        delay: Seconds by which each piece is delayed.
        is_silent: Accept connections and bytes, and answer nothing.
    """

    def __init__(self, schema: Schema) -> None:
        """Listen on a free port."""
        self._schema = schema
        self._target = str(schema.server.folder / ".s.PGSQL.5432")
        self.rule: Rule = lambda _: "pass"
        self.delay = 0.0
        self.is_silent = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._silenced: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, **options: object) -> str:
        """The URL of the schema through the proxy."""
        port = self._listener.getsockname()[1]
        more = "".join(f"&{name}={quote(str(o))}" for name, o in options.items())
        return (
            f"postgresql://server@127.0.0.1:{port}/postgres?schema={self._schema.name}"
            f"&sslmode=disable&gssencmode=disable{more}"
        )

    def once(self, what: str, answer: bytes = COMMITTED) -> None:
        """Let the next answer of the server that has some bytes be lost."""

        def rule(piece: bytes) -> str:
            if answer in piece:
                self.rule = lambda _: "pass"
                return what
            return "pass"

        self.rule = rule

    def sometimes(self, chance: random.Random, share: float) -> None:
        """Lose that share of the answers to COMMIT, and some of the others."""

        def rule(piece: bytes) -> str:
            odds = share if COMMITTED in piece else share / 8
            return "cut" if chance.random() < odds else "pass"

        self.rule = rule

    def cut(self) -> None:
        """End all connections."""
        while self._open:
            _end(self._open.pop())

    def silence(self) -> None:
        """Let the connections that are open now be silent; new ones are answered."""
        self._silenced.update(self._open)

    def close(self) -> None:
        """End the proxy."""
        _end(self._listener)
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                self._open += [client, server]
                for source, target, answers in (
                    (client, server, False),
                    (server, client, True),
                ):
                    threading.Thread(
                        target=self._pass, args=(source, target, answers), daemon=True
                    ).start()

    def _pass(
        self, source: socket.socket, target: socket.socket, answers: bool
    ) -> None:
        silent = False
        with suppress(OSError):
            while piece := source.recv(65536):
                if self.delay:
                    time.sleep(self.delay)
                fate = self.rule(piece) if answers else "pass"
                if fate == "cut":
                    break
                silent = silent or fate == "silent"
                if not (silent or self.is_silent or target in self._silenced):
                    target.sendall(piece)
        for end in (source, target):
            _end(end)


def _end(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
