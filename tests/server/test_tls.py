"""`vecall serve` over TLS: which ciphers it takes, and which clients."""

from __future__ import annotations

import ssl
import subprocess

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

import httpx
from helpers.http import vecall_process
from helpers.processes import said
from vecall.server import TokenFile, mint

OPENSSL = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
    "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
)


def test_it_serves_over_tls(tmp_path, monkeypatch):
    """With a certificate, and only over TLS."""
    certificate, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    made = subprocess.run(
        [*OPENSSL.split(), "-keyout", key, "-out", certificate],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("openssl cannot make a certificate here")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VECALL_PATH", "memory.db")
    TokenFile("memory.db.tokens").change(lambda _: [mint(app="hotel")[1]])
    tls = ["--tls-certificate", certificate, "--tls-key", key]
    with vecall_process("serve", "--embedder", "none", "--port", "0", *tls) as server:
        url = said(server).removeprefix("serving ")
        assert url.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=certificate)
        assert httpx.get(f"{url}/healthz", verify=trusted).json() == {"status": "ok"}
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{url}/healthz".replace("https", "http"))
        for offered, accepted in (
            ("ECDHE-ECDSA-AES128-GCM-SHA256", True),
            ("ECDHE-ECDSA-AES128-SHA", False),
            ("ECDHE-ECDSA-AES256-SHA384", False),
        ):
            old = ssl.create_default_context(cafile=certificate)
            old.maximum_version = ssl.TLSVersion.TLSv1_2
            old.set_ciphers(offered)
            if accepted:
                assert httpx.get(f"{url}/healthz", verify=old).status_code == 200
            else:
                with pytest.raises(httpx.HTTPError):
                    httpx.get(f"{url}/healthz", verify=old)
    # With a CA for clients, only one with a certificate is let in.
    with vecall_process(
        "serve", "--port", "0", *tls, "--tls-client-ca", certificate
    ) as s:
        url = said(s).removeprefix("serving ")
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{url}/healthz", verify=trusted)
        trusted.load_cert_chain(certificate, key)
        assert httpx.get(f"{url}/healthz", verify=trusted).status_code == 200
