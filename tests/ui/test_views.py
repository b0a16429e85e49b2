"""What the page shows, how it looks, and what a screen reader finds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.pages import (
    ALICE,
    FISH,
    HELD,
    LOW,
    OTHERS,
    QUIET,
    SEA,
    VIEWS,
    Site,
    pictures_in,
    show,
    site,
    view,
)

AXE = os.environ.get("VECALL_AXE", "")
SEEN = {
    "apps": ["bank", "hotel"],
    "people": ["alice", "bob"],
    "memories": [SEA, "By agent", "Importance 0.90", "Source chat", "by day"],
    "sessions": ["trip-0", "trip-5"],
    "session": [FISH, "noted that", "2026"],
    "search": [FISH, "Score", "Words", "Confidence"],
    "why": ["It has nothing in common", "Alice likes green tea."],
    "agent": ["<PAST_CONVERSATIONS>", "tokens", "In the block"],
    "held": [HELD, "Approve", "Reject"],
    "archived": ["Alice has a dog.", "The old rate.", "Restore"],
    "duplicates": ["Alice likes green tea.", "Alice likes green tea!", "Keep only"],
    "person": ["Export this person", "Forget something", "Erase this person"],
    "memory": [QUIET, "Former text", "away from the lift", "0 times"],
}
LOOKS = {"desktop": (1200, 900, "light"), "phone": (390, 844, "dark")}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site")) as found:
        yield found


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pictures_in(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(params=LOOKS)
def look(request: pytest.FixtureRequest, browser: Any) -> Iterator[str]:
    """A width and a color scheme."""
    width, height, scheme = LOOKS[request.param]
    browser.resize(width, height)
    browser.scheme(scheme)
    yield request.param
    browser.resize(1200, 900)
    browser.scheme("light")


def test_a_person_is_one_click_away(browser, running):
    browser.go(running.page())
    browser.settled()
    browser.button("hotel").click()
    browser.says("bob")
    browser.button("alice").click()
    browser.says(SEA)
    assert "token" not in browser.run("return location.href")
    browser.ask("POST", "/refresh")
    browser.says(SEA)


@pytest.mark.parametrize("name", VIEWS)
def test_each_view_shows_what_is_stored(browser, running, pictures, look, name):
    """It fits its width, is accessible, and asks no other server for anything."""
    if browser.run("return location.origin") != running.url:
        browser.go(running.page())
        browser.settled()
    show(browser, VIEWS[name])
    for text in SEEN[name]:
        browser.says(text)
    browser.picture(pictures / f"{name}-{look}.png")
    assert not {"null", "undefined", "NaN"} & set(browser.text.split())
    width = browser.run("return document.documentElement.scrollWidth")
    assert width <= LOOKS[look][0]
    assert not [each for each in browser.log() if "favicon" not in each]
    foreign = [
        each
        for each in browser.requests()
        if not each.startswith((running.url, "data:", "blob:", "chrome"))
    ]
    assert not foreign
    assert not AXE or problems(browser) == []


def problems(browser: Any) -> list[str]:
    """What axe finds in the page that is open."""
    browser.run(Path(AXE).read_text(encoding="utf-8"))
    found = browser.run("return axe.run({resultTypes: ['violations']})")
    assert found["passes"]
    return [
        f"{each['impact']}: {each['id']}: {node['html'][:200]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


@pytest.mark.skipif(not AXE, reason="needs axe-core: VECALL_AXE names axe.min.js")
def test_the_dialog_and_the_message_are_accessible(browser, running, look):
    browser.go(running.page())
    browser.settled()
    show(browser, VIEWS["archived"])
    browser.find("//button[.='Restore']")[0].click()
    browser.says("Undo")
    assert problems(browser) == []
    browser.button("Undo").click()
    browser.says("It is undone.")
    show(browser, VIEWS["memories"])
    browser.find("//button[.='Correct']")[0].click()
    browser.one("//dialog")
    assert problems(browser) == []


def test_keys_alone_reach_and_do_all(browser, running):
    """From the first link to a search."""
    browser.go(running.page())
    browser.settled()
    show(browser, VIEWS["search"])
    press(browser, "\ue004")  # Tab
    focused = "return document.activeElement.textContent.trim()"
    seen = []
    for _ in range(60):
        seen.append(browser.run(focused))
        if browser.run("return document.activeElement.name") == "q":
            break
        press(browser, "\ue004")
    assert browser.run("return document.activeElement.name") == "q"
    press(browser, *"quiet room", "\ue007")
    browser.says(QUIET)
    assert browser.run("return document.activeElement.tagName") == "H1"
    browser.go(running.page())
    browser.settled()
    press(browser, "\ue004")
    assert browser.run(focused) == "Skip to the content"


def press(browser: Any, *keys: str) -> None:
    steps = [
        {"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")
    ]
    browser.ask(
        "POST", "/actions", actions=[{"type": "key", "id": "k", "actions": steps}]
    )


HEAR = """
window.told = [];
const fetched = window.fetch;
window.fetch = async (...given) => {
  const answer = await fetched(...given);
  window.told.push(await answer.clone().text());
  return answer;
};
"""


def test_a_token_shows_nothing_of_others_in_any_view(browser, running):
    """Neither another person or app, nor what is below its floor, nor what is held."""
    browser.go(running.page("alice"))
    browser.settled()
    browser.run(HEAR)
    secrets = [*OTHERS.values(), LOW, HELD, "bob", "bank"]
    for address in [
        *VIEWS.values(),
        view("hotel", "bob"),
        view("bank"),
        view("bank", "alice", "search", q="zebra"),
        view("hotel", "alice", "memory", "low"),
        view("hotel", "alice", "memory", "held"),
        view("hotel", "alice", "search", q="zebra password", why="low"),
        view("hotel", "alice", "agent", q="zebra password"),
    ]:
        show(browser, address)
        told = "\n".join(browser.run("return window.told.splice(0)"))
        assert told or "person" in address
        shown = browser.run("return document.querySelector('main').innerText")
        for secret in secrets:
            assert secret not in told, (address, secret)
        for secret in (*OTHERS.values(), LOW, HELD):
            assert secret not in shown, (address, secret)
        for label in ("Correct", "Archive", "Delete", "Erase this person", "Approve"):
            assert not browser.find(f"//button[.='{label}']"), (address, label)
    assert running.texts()  # and it has changed nothing


def test_an_admin_token_shows_no_memories(browser, running):
    browser.go(running.page("admin"))
    browser.settled()
    show(browser, VIEWS["people"])
    browser.says("alice")
    show(browser, VIEWS["memories"])
    browser.says("Your token does not allow this.")


def test_a_wrong_token_is_asked_for_again(browser, running):
    browser.go(f"{running.url}/ui#token=vecall_0000000000000000_{'a' * 43}")
    browser.says("This token is not valid")
    browser.field("token").write(running.tokens["looks"])
    browser.button("Open").click()
    browser.says("Only looking")
    browser.says("hotel")
    assert ALICE["user_id"] not in browser.run("return location.href")
