"""What a client without a token learns of `/mcp` (RFC 9728, MCP 2025-11-25)."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("mcp", reason="mcp is not installed")
pytest.importorskip("httptools", reason="the extra server is not installed")
pytest.importorskip("httpx")

import httpx
from helpers.http import BASE, Door, known, serving
from mcp.client.auth.utils import (
    build_protected_resource_metadata_discovery_urls,
    extract_resource_metadata_from_www_auth,
)
from mcp.shared.auth import ProtectedResourceMetadata
from vecall import MemoryService
from vecall.mcp import asgi_app

WELL_KNOWN = "/.well-known/oauth-protected-resource"


def test_a_401_leads_to_metadata_of_the_very_url(tmp_path):
    with serving(tmp_path, "--mcp") as (server, _):
        url = f"{server.url}/mcp"
        for headers in ({}, {"Authorization": "Bearer vcl_wrong"}):
            refused = httpx.post(url, json={}, headers=headers)
            assert refused.status_code == 401
            named = extract_resource_metadata_from_www_auth(refused)
            assert named == f"{server.url}{WELL_KNOWN}/mcp"
        fallbacks = build_protected_resource_metadata_discovery_urls(None, url)
        assert fallbacks[0] == named
        for each in fallbacks:
            answer = httpx.get(each)
            assert answer.status_code == 200
            assert answer.json() == {
                "resource": url,
                "resource_name": "vecall",
                "bearer_methods_supported": ["header"],
            }
            assert answer.headers["cache-control"] == "no-store"
        # The JSON API has no such metadata, and its challenge stays.
        api = httpx.get(f"{server.url}/apps/hotel/users/alice/memories")
        assert api.headers["www-authenticate"] == 'Bearer realm="vecall"'
        assert httpx.get(f"{server.url}{WELL_KNOWN}/apps").status_code == 404


@pytest.fixture
def door():
    with MemoryService(":memory:", embedder=None) as memory:
        _, tokens = known(user="alice")
        issuers = ["https://login.example.com"]
        app = asgi_app(memory, tokens=tokens, authorization_servers=issuers)
        yield Door(app, None)


def test_the_issuers_of_an_own_token_source_are_named(door):
    found = ProtectedResourceMetadata.model_validate_json(
        door.ask("GET", f"{WELL_KNOWN}/mcp").content
    )
    assert [str(each).rstrip("/") for each in found.authorization_servers] == [
        "https://login.example.com"
    ]


def test_behind_a_proxy_that_ends_tls_the_url_is_that_of_the_client(door):
    headers = {"X-Forwarded-Proto": "https"}
    shown: Any = door.ask("GET", WELL_KNOWN, headers=headers).json()
    assert shown["resource"] == BASE.replace("http:", "https:") + "/mcp"
    odd = door.ask("GET", WELL_KNOWN, headers={"X-Forwarded-Proto": 'x" y'}).json()
    assert odd["resource"] == f"{BASE}/mcp"


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("HEAD", {}, 200),
        ("POST", {}, 405),
        ("DELETE", {}, 405),
        ("GET", {"Host": "evil.example"}, 403),
        ("GET", {"Origin": "https://evil.example"}, 403),
        ("GET", {"X": "x" * 100_000}, 400),
    ],
)
def test_metadata_have_the_checks_of_all_requests(door, method, headers, status):
    assert door.ask(method, WELL_KNOWN, headers=headers).status_code == status
