"""A listening socket with a limit on connections in their TLS handshake."""

from __future__ import annotations

import socket
from contextlib import suppress


class Listener(socket.socket):
    """Closes the oldest of too many connections in their TLS handshake.

    uvicorn does not count connections before the end of the handshake, and waits a
    minute for each.
    """

    limit: int = 256

    def __init__(self, *args: int, **more: int) -> None:
        """Create the object without connections."""
        super().__init__(*args, **more)
        self._begun: dict[int, socket.socket] = {}

    def accept(self) -> tuple[socket.socket, object]:
        """Accept a connection; if too many are in their handshake, close the oldest."""
        connection, address = super().accept()
        self._begun.pop(connection.fileno(), None)  # a reused file descriptor
        self._begun[connection.fileno()] = connection
        if len(self._begun) > self.limit:
            oldest = self._begun.pop(next(iter(self._begun)))
            with suppress(OSError):  # closed already, or the client has disconnected
                oldest.shutdown(socket.SHUT_RDWR)
        return connection, address

    def begun(self, number: int) -> None:
        """Stop counting a connection: the server handles it from now on.

        Args:
            number: Its file descriptor.
        """
        self._begun.pop(number, None)
