"""The page's files and their headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

import vecall.server.ui
from helpers.http import door_to

FOLDER = Path(vecall.server.ui.__file__).parent
FILES = ["index.html", "app.js", "style.css"]
SINKS = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|"
    r"DOMParser|createContextualFragment|srcdoc|setHTML|import\(|https?://(?!www\.w3\.org)"
)


def test_the_page_is_small_and_writes_text_alone():
    sizes = [(FOLDER / name).stat().st_size for name in FILES]
    assert sum(sizes) <= 90 * 1024
    assert {each.name for each in FOLDER.iterdir() if each.is_file()} == {
        *FILES,
        "__init__.py",
    }
    for name in FILES:
        text = (FOLDER / name).read_text(encoding="utf-8")
        assert not re.search(SINKS, text), name
    html = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"\son\w+=|\sstyle=|<style|<script(?! src=)", html)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/ui", "text/html"),
        ("/ui/app.js", "text/javascript"),
        ("/ui/style.css", "text/css"),
    ],
)
def test_the_headers_forbid_all_that_the_page_does_not_need(open_service, path, kind):
    opened = door_to(open_service())
    answer = opened._replace(bearer=None).ask("GET", path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].split(";")[0] == kind
    name = path.removeprefix("/ui").removeprefix("/") or "index.html"
    assert answer.content == (FOLDER / name).read_bytes()
    rules = dict(
        rule.strip().split(" ", 1)
        for rule in answer.headers["content-security-policy"].split(";")
    )
    assert rules["default-src"] == rules["frame-ancestors"] == "'none'"
    for name in ("base-uri", "form-action", "trusted-types"):
        assert rules[name] == "'none'"
    assert rules["require-trusted-types-for"] == "'script'"
    for name in ("script-src", "style-src", "connect-src"):
        assert rules[name] == "'self'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert opened.ask("POST", path).status_code == 405
    assert opened.ask("HEAD", path).status_code == 200


def test_there_is_no_other_file(open_service):
    opened = door_to(open_service())
    for path in (
        "/ui/",
        "/ui/__init__.py",
        "/ui/../app.py",
        "/ui/%2e%2e/app.py",
        "/ui//",
    ):
        assert opened.ask("GET", path).status_code == 404
    document = opened.ask("GET", "/openapi.json").json()
    assert not [path for path in document["paths"] if path.startswith("/ui")]
    # Answers of the API keep the policy without exceptions.
    policy = opened.ask("GET", "/healthz").headers["content-security-policy"]
    assert policy == "default-src 'none'; frame-ancestors 'none'"
