"""A server with memories to look at, and the page that shows them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
from vecall import MemoryEntry, MemoryService
from vecall.hooks import ALLOW, QUARANTINE
from vecall.operations.options import WritePolicy
from vecall.server import TokenFile, mint

from helpers.browser import Browser
from helpers.processes import child

ALICE = {"app_name": "hotel", "user_id": "alice"}
HOME = "/apps/hotel/users/alice"
SEA = "I want a room with a view of the sea."
FISH = "I do not eat fish, I am allergic."
QUIET = "Alice prefers a quiet room on a high floor."
HELD = "The password of the safe is 4711."
START = 1_790_000_000.0  # in seconds since 1970
DAY = 86_400.0
SAID = [
    SEA,
    "Can you book a table for two at eight?",
    "My flight lands at noon on Friday.",
    FISH,
    "The room was too loud last time.",
    "Please send the bill to my office.",
]
# Of others: no view of alice's may show one of them.
OTHERS = {
    ("hotel", "bob"): "bob-zebra-1",
    ("bank", "alice"): "bank-zebra-2",
}
LOW = "low-zebra-3"

SERVER = """
import sys
from vecall import MemoryService
from vecall.server import HttpLimits, TokenFile, create_app
from vecall.server.run import Binding, serve

path, tokens = sys.argv[1:]
limits = HttpLimits(reads_per_second=10_000, writes_per_second=10_000)
with MemoryService(path, embedder=None) as memory:
    app = create_app(memory, tokens=TokenFile(tokens), limits=limits)
    serve(app, Binding(port=0), limits, lambda url: print(url, flush=True))
"""


class Site(NamedTuple):
    """A running server and the page on it."""

    url: str
    tokens: dict[str, str]

    def page(self, token: str = "all") -> str:
        return f"{self.url}/ui#token={self.tokens[token]}"

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Ask the server itself, with full rights."""
        bearer = {"Authorization": f"Bearer {self.tokens['all']}"}
        with httpx.Client(base_url=self.url, headers=bearer, trust_env=False) as client:
            return client.request(method, path, **more)

    def texts(self, state: str = "live", home: str = HOME) -> list[str]:
        """What the server has stored."""
        found = self.ask("GET", f"{home}/memories?limit=1000&state={state}").json()
        return [each["content"] for each in found["memories"]]

    def memory(self, id_: str) -> dict[str, Any]:
        told: dict[str, Any] = self.ask("GET", f"{HOME}/memories/{id_}").json()
        return told


def fill(path: Path) -> None:
    """Write what the views show: two apps, three people, sessions, facts."""
    rule = WritePolicy(
        on_write=lambda write: (
            QUARANTINE if "password" in write.memory.text else ALLOW
        )
    )
    with MemoryService(path, embedder=None, writes=rule) as memory:
        user = memory.sync.user(**ALICE)
        for number, said in enumerate(SAID):
            at = START + 3 * DAY * number
            answer = "Of course, I have noted that for you."
            turns = [
                {"id": f"u{number}", "author": "user", "content": said},
                {"id": f"a{number}", "author": "agent", "content": answer},
            ]
            told = [{**turn, "timestamp": at + n} for n, turn in enumerate(turns)]
            user.add_events(told, session_id=f"trip-{number}")
        facts: list[dict[str, Any]] = [
            {
                "id": "fish",
                "content": "Alice is allergic to fish.",
                "source": "chat",
                "importance": 0.9,
            },
            {"id": "quiet", "content": "Alice prefers a room away from the lift."},
            {"id": "rate", "content": "The old rate.", "kind": "decision"},
            {"id": "tea1", "content": "Alice likes green tea."},
            {"id": "tea2", "content": "Alice likes green tea!"},
            {"id": "arabic", "content": "عليسة تحب الشاي الأخضر والغرفة الهادئة"},
            {"id": "held", "content": HELD, "source": "web"},
            {"id": "gone", "content": "Alice has a dog.", "kind": "preference"},
        ]
        for number, fact in enumerate(facts):
            fact.setdefault("kind", "fact")
            at = START + DAY * number
            given = {"author": "agent", "trust": "first-party", "timestamp": at, **fact}
            user.add([MemoryEntry(**given)])
        user.update("quiet", content=QUIET)
        user.archive("gone")
        new = {"id": "rate2", "content": "The new rate.", "supersedes": "rate"}
        user.add([MemoryEntry(**new, kind="decision", trust="first-party")])
        user.add([MemoryEntry(LOW, id="low", trust="unknown", kind="fact")])
        for (app, other), secret in OTHERS.items():
            memory.sync.user(app, other).add([f"{other} likes {secret}."])


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    """A server over a new file, with a token for each kind of right."""
    path, file = folder / "memory.db", folder / "tokens"
    fill(path)
    kinds: dict[str, dict[str, Any]] = {
        "all": {"all_apps": True, "review": True},
        "looks": {"all_apps": True, "review": True, "read_only": True},
        "alice": {
            "app": "hotel",
            "user": "alice",
            "min_trust": "third-party-private",
            "read_only": True,
        },
        "writes": {"app": "hotel", "user": "alice"},
        "admin": {"admin": True},
    }
    made = {name: mint(**rights) for name, rights in kinds.items()}
    TokenFile(file).change(lambda _: [token for _, token in made.values()])
    with child(SERVER, path, file, imports="vecall.server.run") as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        yield Site(url, {name: bearer for name, (bearer, _) in made.items()})


def view(*parts: str, **query: str) -> str:
    """The address of a view, after the #."""
    path = "/".join(quote(part, safe="") for part in parts)
    asked = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    return f"#/{path}" + (f"?{asked}" if asked else "")


VIEWS = {
    "apps": view(all="1"),
    "people": view("hotel"),
    "memories": view("hotel", "alice"),
    "sessions": view("hotel", "alice", "sessions"),
    "session": view("hotel", "alice", "session", "trip-3"),
    "search": view("hotel", "alice", "search", q="must not eat fish"),
    "why": view("hotel", "alice", "search", q="eat fish", why="tea1"),
    "agent": view("hotel", "alice", "agent", q="do not eat fish"),
    "held": view("hotel", "alice", "held"),
    "archived": view("hotel", "alice", "archived"),
    "duplicates": view("hotel", "alice", "duplicates"),
    "person": view("hotel", "alice", "person"),
    "memory": view("hotel", "alice", "memory", "quiet"),
}


def show(browser: Browser, address: str) -> None:
    """Go to a view of the page that is open, and wait for it."""
    before = browser.run("document.querySelector('main').replaceChildren()")
    assert before is None
    browser.run(
        "if (location.hash === arguments[0]) dispatchEvent(new Event('hashchange'));"
        "else location.hash = arguments[0]",
        address,
    )
    browser.settled()


def pictures_in(default: Path) -> Path:
    """The folder of the pictures: VECALL_UI_PICTURES, or else a temporary one."""
    folder = Path(os.environ.get("VECALL_UI_PICTURES") or default)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
