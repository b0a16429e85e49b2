"""How much one user of `vecall serve` may have."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.http import ALICE, serving
from vecall.cli.main import command_parser

MEMORIES = f"{ALICE}/memories"


def texts_after(folder, options, told):
    """The texts of each add, with its status; then what is there."""
    statuses = []
    with serving(folder, *options) as (server, _), server.client() as client:
        for memories in told:
            answer = client.post(MEMORIES, json={"memories": memories})
            statuses.append(answer.status_code)
        listed = client.get(MEMORIES).json()["memories"]
    return statuses, [entry["content"] for entry in listed]


@pytest.mark.parametrize("options", [["--quota-memories", "2"], ["--quota-bytes", "6"]])
def test_a_user_has_no_more_than_the_quota(tmp_path, options):
    """What exceeds it is refused whole, and what is there stays."""
    told = [["one", "two"], ["three"]]
    assert texts_after(tmp_path, options, told) == ([201, 422], ["one", "two"])


def test_eviction_makes_room(tmp_path):
    """The oldest goes for what is new."""
    options = ["--quota-memories", "2", "--eviction", "oldest"]
    told = [["one"], ["two"], ["three"]]
    assert texts_after(tmp_path, options, told) == ([201] * 3, ["two", "three"])


def test_there_is_a_quota_by_default():
    """One that no test of another thing can fill."""
    options = command_parser().parse_args(["serve"])
    quota = options.quota_memories, options.quota_bytes, options.eviction
    assert quota == (100_000, 256 * 1024 * 1024, "reject")


def test_turns_that_wait_count(tmp_path):
    """They are memories to be."""
    options = ["--quota-memories", "2"]
    turns = [{"id": f"e{n}", "content": f"turn {n}"} for n in range(3)]
    with serving(tmp_path, *options) as (server, _), server.client() as client:
        path = f"{ALICE}/sessions/s/observe"
        first = client.post(path, json={"events": turns[:2]})
        more = client.post(path, json={"events": turns})
        fact = client.post(MEMORIES, json={"memories": ["tea"]})
    assert first.status_code == 200
    assert more.status_code == fact.status_code == 422
    assert "turns that wait" in more.json()["error"]["message"]


def test_the_command_line_limits_how_long_overwritten_texts_are_kept(tmp_path):
    """No quota counts them."""
    with serving(tmp_path, "--history-ttl", "1") as (server, _), server.client() as c:
        answer = c.post(MEMORIES, json={"memories": ["zebra old"]})
        path = f"{MEMORIES}/{answer.json()['ids'][0]}"
        c.patch(path, json={"content": "zebra new"})
        deadline = time.monotonic() + 30
        while len(c.get(f"{path}/history").json()["revisions"]) > 1:
            assert time.monotonic() < deadline
            time.sleep(0.1)
