"""The write gate over HTTP: who wrote a quarantined memory does not release it."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.http import ALICE, Door, error_of, serving
from helpers.write_hooks import ReviewHook
from vecall.server import Tokens, create_app, mint

MEMORIES = f"{ALICE}/memories"
HELD = {"content": "held zebra", "id": "q"}
RULES = """
from vecall.hooks import ALLOW, QUARANTINE

def judge(write):
    return QUARANTINE if "held" in write.memory.text else ALLOW
"""


@pytest.fixture
def doors(open_service) -> dict[str, Door]:
    """One memory behind a hook, and who may what: writer, reader, reviewer, auditor."""
    whose = {"app": "hotel", "user": "alice"}
    rights: dict[str, dict[str, Any]] = {
        "writer": {},
        "backend": {"user": None},
        "reader": {"read_only": True},
        "reviewer": {"review": True},
        "auditor": {"review": True, "read_only": True},
    }
    made = {name: mint(**{**whose, **more}) for name, more in rights.items()}
    tokens = Tokens([token for _, token in made.values()])
    app = create_app(open_service(on_write=ReviewHook()), tokens=tokens)
    return {name: Door(app, bearer) for name, (bearer, _) in made.items()}


def texts(door: Door, **query: str) -> list[str]:
    answer = door.ask("GET", MEMORIES, params=query)
    return [entry["content"] for entry in answer.json()["memories"]]


def test_only_a_reviewer_releases_what_is_quarantined(doors):
    """Neither `restore` nor `release` with another token brings it into a search."""
    body = {"memories": [HELD]}
    assert doors["writer"].ask("POST", MEMORIES, json=body).status_code == 201
    for name, door in doors.items():
        if name != "auditor":
            answer = door.ask("POST", f"{MEMORIES}/q/restore")
            assert answer.status_code == (403 if name == "reader" else 404)
        if name != "reviewer":
            answer = door.ask("POST", f"{MEMORIES}/q/release", json={})
            assert error_of(answer)[0] == 403
    assert texts(doors["writer"]) == []
    (held,) = (
        doors["reviewer"]
        .ask("GET", MEMORIES, params={"state": "quarantined"})
        .json()["memories"]
    )
    late = {"updated_at": held["updated_at"] - 1}
    answer = doors["reviewer"].ask("POST", f"{MEMORIES}/q/release", json=late)
    assert error_of(answer) == (409, "conflict")
    seen = {"updated_at": held["updated_at"]}
    answer = doors["reviewer"].ask("POST", f"{MEMORIES}/q/release", json=seen)
    assert answer.json() == {"ids": ["q"]}
    assert texts(doors["writer"]) == ["held zebra"]


def test_what_is_quarantined_is_shown_to_reviewers_alone(doors):
    """In lists, histories and exports; an auditor sees it and changes nothing."""
    facts = [HELD, {"content": "held before", "id": "v"}]
    for memories in (facts, [{"content": "allowed", "id": "v"}]):
        body = {"memories": memories}
        assert doors["writer"].ask("POST", MEMORIES, json=body).status_code == 201
    for name, door in doors.items():
        sees = name in ("reviewer", "auditor")
        listed = door.ask("GET", MEMORIES, params={"state": "quarantined"})
        if sees:
            assert "held zebra" in listed.text
        else:
            assert error_of(listed) == (403, "review")
        past = door.ask("GET", f"{MEMORIES}/q/history")
        assert past.status_code == (200 if sees else 404)
        for path in (f"{MEMORIES}/v/history", f"{ALICE}/export"):
            told = door.ask("GET", path)
            assert told.status_code == 200
            assert "allowed" in told.text
            assert ("held" in told.text) == sees


def test_the_command_serves_behind_a_hook(tmp_path, monkeypatch):
    """`--on-write MODULE:NAME`; a token from `--review` releases."""
    (tmp_path / "rules_here.py").write_text(RULES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    bound = {"app": "hotel", "user": "alice", "review": True}
    running = serving(tmp_path, "--on-write", "rules_here:judge", **bound)
    with running as (server, _), server.client() as client:
        for text in ("zebra", "held zebra"):
            body = {"memories": [{"content": text, "id": text[0]}]}
            assert client.post(MEMORIES, json=body).status_code == 201
        live = client.get(MEMORIES).json()["memories"]
        assert [entry["content"] for entry in live] == ["zebra"]
        answer = client.post(f"{MEMORIES}/h/release", json={})
        assert answer.json() == {"ids": ["h"]}
        again = client.post(f"{MEMORIES}/h/release", json={})
        assert error_of(again) == (404, "not_found")
