"""A real server with TLS and SCRAM, and a real pgbouncer with TLS."""

from __future__ import annotations

import os
import random
import shutil
import warnings
from urllib.parse import quote

import pytest
from helpers.memories import ALICE
from helpers.pgbouncer import MISSING as NO_POOLER
from helpers.pgbouncer import Pgbouncer, program
from helpers.postgres_server import (
    MISSING,
    Schema,
    as_other_user,
    has_tls,
    is_available,
    new_server,
)
from helpers.tls_proxy import Authority
from vecall import ConfigError, MemoryService
from vecall.store import examine_database

pytest.importorskip("psycopg")
pytest.importorskip("cryptography")

NAME = "db.example"
PASSWORD = "geheim-4711"
TLS_MISSING = "needs VECALL_TEST_POSTGRES, the programs of a server with TLS"
RULES = """
local all all trust
hostssl all server 127.0.0.0/8 scram-sha-256
hostssl all plain 127.0.0.0/8 password
hostssl all certified 127.0.0.0/8 cert
hostnossl all all 127.0.0.0/8 reject
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


def own(path, target):
    """Copy a key to where the user of a server may read it, and nobody else."""
    shutil.copy(path, target)
    target.chmod(0o600)
    if ids := as_other_user():
        os.chown(target, ids["user"], ids["group"])


class TlsServer:
    """A server that accepts TLS connections on an address of its own."""

    def __init__(self, authority):
        self._server = new_server()
        self._authority = authority
        chance = random.Random(str(self._server.folder))
        self._address = "127." + ".".join(str(chance.randint(1, 250)) for _ in "123")
        self.schema = Schema(self._server)
        change = self._server.execute
        change("SET password_encryption = 'scram-sha-256'; "
               f"ALTER ROLE server PASSWORD '{PASSWORD}'")  # fmt: skip
        for role in ("plain", "certified"):
            change(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
        (self._server.data / "pg_hba.conf").write_text(RULES)
        settings = {
            "listen_addresses": self._address,
            "ssl_cert_file": "server.pem",
            "ssl_key_file": "server.pem",
            "ssl_ca_file": "ca.pem",
            "ssl": "on",
        }
        own(authority.path, self._server.data / "ca.pem")
        own(authority.file_of(NAME), self._server.data / "server.pem")
        for name, value in settings.items():
            change(f"ALTER SYSTEM SET {name} = '{value}'")
        self._server.stop()
        self._server.start()

    def present(self, file):
        """Use another certificate from now on."""
        own(file, self._server.data / "server.pem")
        self._server.execute("SELECT pg_reload_conf()")

    def restore(self):
        self.present(self._authority.file_of(NAME))

    def url(self, user="server", password=PASSWORD, **options):
        given = {"sslmode": "verify-full", "sslrootcert": self._authority.path}
        given |= options
        more = "".join(f"&{key}={quote(str(value))}" for key, value in given.items())
        return (
            f"postgresql://{user}:{password}@{NAME}/postgres"
            f"?hostaddr={self._address}&schema={self.schema.name}{more}"
        )

    def remove(self):
        self._server.remove()


@pytest.fixture(scope="module")
def server(authority):
    if not is_available():
        pytest.skip(MISSING)
    if not has_tls():
        pytest.skip(TLS_MISSING)
    made = TlsServer(authority)
    yield made
    made.remove()


def refusal(url):
    with pytest.raises(ConfigError) as caught:
        MemoryService(url, embedder=None)
    said = str(caught.value)
    assert PASSWORD not in said
    return said


def use(url):
    """Use a service without a warning; return its version of TLS."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        service = MemoryService(url, embedder=None)
    with service:
        service.sync.add_memory(**ALICE, memories=["zebra"])
        found = service.sync.search_memory(**ALICE, query="zebra").memories
        assert {each.text for each in found} == {"zebra"}
        connections = service._memory.storage._connections
        with connections.connect() as connection:
            assert connection.pgconn.ssl_in_use
            return connection.execute(
                "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
            ).fetchone()


def test_a_verified_server_with_scram_and_channel_binding_is_used(server):
    url = server.url(channel_binding="require")
    assert use(url) == ("TLSv1.3",)
    found = {each.about: each for each in examine_database(url)}
    assert found["connection"].message == "local, or verified (TLSv1.3)"


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"password": "wrong"}, "refused access"),
        ({"sslmode": "disable"}, "refused access"),
        ({"user": "never_created"}, "refused access"),
        ({"user": "certified"}, "refused access"),
        ({"user": "plain", "channel_binding": "require"}, "no channel binding"),
        ({"sslrootcert": "/nowhere/ca.pem"}, "sslrootcert does not exist"),
    ],
)
@pytest.mark.filterwarnings("ignore:path. the connection to the database")
def test_what_the_server_refuses_is_an_error_of_the_configuration(
    server, options, fault
):
    assert fault in refusal(server.url(**options))


@pytest.mark.parametrize(
    ("host", "days", "fault"),
    [("other.example", 1, "for another host name"), (NAME, -1, "has expired")],
)
def test_a_certificate_of_another_name_or_time_is_refused(
    server, authority, host, days, fault
):
    try:
        server.present(authority.file_of(host, days))
        assert fault in refusal(server.url())
    finally:
        server.restore()
    use(server.url())


def test_a_certificate_of_another_authority_is_refused(server, tmp_path):
    try:
        server.present(Authority(tmp_path, "other").file_of(NAME))
        assert "not of an authority in sslrootcert" in refusal(server.url())
    finally:
        server.restore()
    use(server.url())


@pytest.fixture
def pooler(schema, authority):
    """Starts a pgbouncer that presents a certificate."""
    if program() is None:
        pytest.skip(NO_POOLER)
    made = []

    def start(file):
        made.append(Pgbouncer(schema))
        made[-1].kill()
        folder = made[-1].folder
        own(file, folder / "server.pem")
        with (folder / "ini").open("a") as settings:
            settings.write("client_tls_sslmode = require\n")
            for name in ("cert", "key"):
                settings.write(f"client_tls_{name}_file = {folder}/server.pem\n")
        made[-1].start()
        return made[-1].url(
            host="localhost", sslmode="verify-full", sslrootcert=authority.path
        )

    yield start
    for each in made:
        each.remove()


def test_a_verified_pooler_is_used(pooler, authority):
    use(pooler(authority.file_of("localhost")))


def test_a_pooler_with_a_wrong_certificate_is_refused(pooler, authority, tmp_path):
    assert "for another host name" in refusal(pooler(authority.file_of(NAME)))
    other = Authority(tmp_path, "other").file_of("localhost")
    assert "not of an authority in sslrootcert" in refusal(pooler(other))
    plain = pooler(authority.file_of("localhost")).replace("verify-full", "disable")
    assert "the pooler demands TLS" in refusal(plain)
