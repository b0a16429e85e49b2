"""A socket that listens, and bounds the connections that are only beginning."""

from __future__ import annotations

import socket
from contextlib import suppress


class Listener(socket.socket):
    """Lets go of the oldest of too many connections whose TLS handshake is not over.

    The server knows no connection before that, and waits a minute for each.
    """

    most: int = 256

    def __init__(self, *args: int, **more: int) -> None:
        """Begin with no connection."""
        super().__init__(*args, **more)
        self._begun: dict[int, socket.socket] = {}

    def accept(self) -> tuple[socket.socket, object]:
        """Take a connection; where too many are beginning, end the oldest."""
        connection, address = super().accept()
        self._begun.pop(connection.fileno(), None)  # a number that is used again
        self._begun[connection.fileno()] = connection
        if len(self._begun) > self.most:
            oldest = self._begun.pop(next(iter(self._begun)))
            with suppress(OSError):  # it is closed, or its client has gone
                oldest.shutdown(socket.SHUT_RDWR)
        return connection, address

    def begun(self, number: int) -> None:
        """Count a connection no more: it is the server's from now on.

        Args:
            number: Its file descriptor.
        """
        self._begun.pop(number, None)
