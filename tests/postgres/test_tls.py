"""With sslmode=verify-full a server is used only if its certificate is right."""

from __future__ import annotations

import warnings

import pytest
from helpers.memories import ALICE
from helpers.tls_proxy import Authority, TlsProxy
from vecall import ConfigError, MemoryService

pytest.importorskip("psycopg")
pytest.importorskip("cryptography")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def proxy(schema):
    """Starts a proxy that speaks TLS with a context."""
    made = []

    def start(context):
        made.append(TlsProxy(schema, context))
        return made[-1]

    yield start
    for each in made:
        each.close()


def verified(proxy, authority):
    return proxy.url(sslmode="verify-full", sslrootcert=authority.path)


def test_a_server_with_the_right_certificate_is_used_without_a_warning(
    proxy, authority
):
    url = verified(proxy(authority.server("localhost")), authority)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memory = MemoryService(url, embedder=None)
    with memory:
        memory.sync.add_memory(**ALICE, memories=["zebra"])
        (found,) = memory.sync.search_memory(**ALICE, query="zebra").memories
        assert found.text == "zebra"
        with memory._memory.storage._connections.connect() as connection:
            assert connection.pgconn.ssl_in_use


@pytest.mark.parametrize(
    ("host", "days", "fault"),
    [
        ("db.example", 1, "another host name"),
        ("localhost", -1, "expired"),
    ],
)
def test_a_wrong_certificate_is_refused_by_name(proxy, authority, host, days, fault):
    url = verified(proxy(authority.server(host, days)), authority)
    with pytest.raises(ConfigError, match=fault) as caught:
        MemoryService(url, embedder=None)
    assert "geheim" not in str(caught.value)


def test_a_certificate_of_another_authority_is_refused(proxy, authority, tmp_path):
    other = Authority(tmp_path, "other")
    url = verified(proxy(other.server("localhost")), authority)
    with pytest.raises(
        ConfigError, match="not of an authority in sslrootcert"
    ) as caught:
        MemoryService(url, embedder=None)
    assert "geheim" not in str(caught.value)


def test_a_missing_file_of_authorities_is_named(proxy, authority, tmp_path):
    running = proxy(authority.server("localhost"))
    url = running.url(sslmode="verify-full", sslrootcert=tmp_path / "none.crt")
    with pytest.raises(ConfigError, match="sslrootcert does not exist") as caught:
        MemoryService(url, embedder=None)
    assert str(tmp_path) not in str(caught.value)


def test_a_server_without_tls_is_refused(proxy, authority):
    url = verified(proxy(None), authority)
    with pytest.raises(ConfigError, match="has no TLS"):
        MemoryService(url, embedder=None)
