"""Runs the server: its address, TLS, and the checks before it listens."""

from __future__ import annotations

import gc
import ipaddress
import logging
import socket
import ssl
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from vecall.errors import ConfigError
from vecall.server.connections import guarded
from vecall.server.limits import HttpLimits
from vecall.server.listener import Listener

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The ciphers of TLS 1.2 with forward secrecy and authenticated encryption."""


@dataclass(frozen=True, kw_only=True)
class Binding:
    """The address of the server, and its TLS files.

    Attributes:
        host: The address.
        port: The port; 0 selects a free port.
        certificate: The file of the TLS certificate chain.
        key: The file of its private key.
        client_ca: The file of the CA certificates for clients. Clients need a
            certificate signed by one of them. None: no client certificates.
        insecure: Whether to allow a non-loopback address without TLS, for use behind a
            proxy that terminates TLS.
        hosts: Allowed values of the Host header in addition to the loopback ones.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    insecure: bool = False
    hosts: Collection[str] = ()

    def check(self, *, tokens: int) -> None:
        """Check that other machines can reach the server only over TLS.

        Args:
            tokens: The number of tokens.

        Raises:
            ConfigError: A non-loopback address without TLS, hosts or tokens.
        """
        if (self.certificate is None) != (self.key is None):
            msg = "TLS needs both a certificate and a key"
            raise ConfigError(msg)
        if self.client_ca is not None and self.certificate is None:
            msg = "certificates of clients need TLS: give a certificate and a key"
            raise ConfigError(msg)
        if is_loopback(self.host):
            return
        if self.certificate is None and not self.insecure:
            msg = (
                "other machines could reach this address without TLS: give a "
                "certificate and a key, or --insecure-bind behind a proxy with TLS"
            )
            raise ConfigError(msg)
        if not tokens:
            msg = "other machines could reach this address and there is no token yet"
            raise ConfigError(msg)
        if not self.hosts:
            msg = "other machines could reach this address: name it with --allow-host"
            raise ConfigError(msg)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(
    app: ASGIApp,
    binding: Binding,
    limits: HttpLimits,
    started: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        app: The app from `create_app`.
        binding: The address, already checked.
        limits: The limits of the app.
        started: Called with the URL once the server accepts connections.

    Raises:
        ConfigError: The address, the certificate or the key cannot be used.
    """
    listener = listen(binding)
    listener.limit = limits.max_connections
    port = listener.getsockname()[1]
    scheme = "http" if binding.certificate is None else "https"
    shown = f"[{binding.host}]" if ":" in binding.host else binding.host
    config = uvicorn.Config(
        app,
        http=guarded(limits, listener),
        ws="none",
        loop="asyncio",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=limits.max_header_bytes,
        backlog=128,  # all accepted in one go, before the server can close any
        timeout_graceful_shutdown=5,
        ssl_certfile=binding.certificate,
        ssl_keyfile=binding.key,
        ssl_ciphers=_CIPHERS,
        ssl_ca_certs=None if binding.client_ca is None else str(binding.client_ca),
        ssl_cert_reqs=ssl.CERT_NONE if binding.client_ca is None else ssl.CERT_REQUIRED,
    )
    _load(config, listener)
    logging.getLogger("uvicorn.error").addFilter(_without_trace)
    # A garbage collection visits only what comes from now on, not the modules, which
    # takes 10 ms. A thread that asks for the GIL gets it after 0.5 ms, not 5.
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(0.0005)
    with listener:
        started(f"{scheme}://{shown}:{port}")
        uvicorn.Server(config).run(sockets=[listener])


def _load(config: uvicorn.Config, listener: Listener) -> None:
    """Read the certificates, and allow no TLS below 1.2."""
    try:
        config.load()
    except OSError as error:  # includes SSLError
        listener.close()
        msg = "TLS: the certificate, the key or the clients' CA cannot be used"
        raise ConfigError(msg) from error
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2


def _without_trace(record: logging.LogRecord) -> bool:
    """Log the type of an error, not its message, which may contain user text."""
    record.exc_info = None
    return True


def listen(binding: Binding) -> Listener:
    """Return a listening socket with TCP_NODELAY.

    A response is sent as head and body. Without TCP_NODELAY the body would wait some
    40 ms until the client acknowledges the head.

    Raises:
        ConfigError: The address cannot be used.
    """
    family = socket.AF_INET6 if ":" in binding.host else socket.AF_INET
    try:
        opened = socket.create_server((binding.host, binding.port), family=family)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or "not a port"
        msg = f"the address cannot be listened on: {why}"
        raise ConfigError(msg) from error
    listener = Listener(fileno=opened.detach())
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
