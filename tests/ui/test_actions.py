"""What a person changes on the page is changed in the file, and can be undone."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.pages import FISH, HELD, HOME, LOW, QUIET, SEA, VIEWS, show, view

TEA = "Alice likes green tea."


@pytest.fixture
def opened(browser, own_site):
    """The page of a server of its own."""
    browser.go(own_site.page())
    browser.settled()
    return own_site


def of(text: str) -> str:
    """The card of a memory."""
    return f'//li[contains(@class,"card")][.//*[normalize-space(.)="{text}"]]'


def do(browser, text: str, label: str) -> None:
    browser.button(label, of(text)).click()


def undo(browser) -> None:
    browser.button("Undo").click()
    browser.says("It is undone.")


def test_a_memory_is_corrected_and_the_correction_undone(browser, opened):
    show(browser, VIEWS["memories"])
    do(browser, TEA, "Correct")
    browser.field("content").write("Alice likes <b>black</b> tea.\nAnd milk.")
    browser.field("importance").write("0.75")
    browser.one("//dialog//input[@name='kind']").write("preference")
    browser.button("Save").click()
    browser.says("Corrected.")
    browser.says("Alice likes <b>black</b> tea.")
    stored = opened.memory("tea1")
    assert stored["content"] == "Alice likes <b>black</b> tea.\nAnd milk."
    assert (stored["kind"], stored["importance"]) == ("preference", 0.75)
    undo(browser)
    stored = opened.memory("tea1")
    assert (stored["content"], stored["kind"]) == (TEA, "fact")
    assert stored.get("importance", 0.5) == 0.5


def test_an_end_of_validity_is_set_in_the_time_of_the_browser(browser, opened):
    show(browser, view("hotel", "alice", "memory", "tea1"))
    browser.button("Correct").click()
    browser.run(
        "document.querySelector('[name=valid_until]').value = '2031-02-03T04:05'"
    )
    browser.button("Save").click()
    browser.says("Valid until")
    expected = browser.run("return new Date('2031-02-03T04:05').getTime() / 1000")
    assert opened.memory("tea1")["valid_until"] == expected
    undo(browser)
    assert "valid_until" not in opened.memory("tea1")


def test_a_correction_after_a_search_leaves_the_importance(browser, opened):
    show(browser, view("hotel", "alice", "search", q="allergic"))
    before = opened.memory("fish")
    do(browser, "Alice is allergic to fish.", "Correct")
    browser.field("content").write("Alice is allergic to nuts.")
    browser.button("Save").click()
    browser.says("Corrected.")
    assert opened.memory("fish")["importance"] == before["importance"] == 0.9
    undo(browser)
    assert opened.memory("fish")["content"] == before["content"]


def test_a_page_whose_last_memory_is_gone_begins_again(browser, opened):
    more = [{"content": f"memory number {n}", "id": f"n{n}"} for n in range(100)]
    opened.ask("POST", f"{HOME}/memories", json={"memories": more})
    show(browser, VIEWS["memories"])
    cards = "//main//li[contains(@class,'card')]"
    browser.one(f"({cards})[100]")
    last = opened.ask("GET", f"{HOME}/memories").json()["memories"][-1]
    opened.ask("DELETE", f"{HOME}/memories/{last['id']}")  # somebody else
    assert browser.find(of(last["content"]))
    browser.button("Show more").click()
    browser.wait(lambda: not browser.find(of(last["content"])))
    browser.wait(lambda: len(browser.find(cards)) == 100)
    browser.button("Show more").click()
    browser.wait(lambda: len(browser.find(cards)) == len(opened.texts()))


def test_nothing_is_changed_by_a_dialog_that_is_left(browser, opened):
    show(browser, VIEWS["memories"])
    before = opened.memory("tea1")
    do(browser, TEA, "Correct")
    browser.field("content").write("x")
    browser.button("Cancel").click()
    browser.wait(lambda: not browser.find("//dialog"))
    do(browser, TEA, "Correct")
    browser.button("Save").click()
    browser.wait(lambda: not browser.find("//dialog"))
    assert opened.memory("tea1") == before


def test_what_somebody_else_has_changed_is_not_overwritten(browser, opened):
    show(browser, VIEWS["memories"])
    opened.ask("PATCH", f"{HOME}/memories/tea1", json={"content": "Alice likes rum."})
    do(browser, TEA, "Correct")
    browser.field("content").write("Alice likes gin.")
    browser.button("Save").click()
    browser.says("Somebody else has changed it meanwhile.")
    typed = browser.run("return document.querySelector('[name=content]').value")
    assert typed == "Alice likes gin."  # it is not lost
    assert opened.memory("tea1")["content"] == "Alice likes rum."
    browser.button("Cancel").click()
    do(browser, TEA, "Delete")
    browser.says("Somebody else has changed it meanwhile.")
    assert opened.memory("tea1")["content"] == "Alice likes rum."


def test_a_memory_is_archived_restored_and_both_undone(browser, opened):
    show(browser, VIEWS["memories"])
    do(browser, FISH, "Archive")
    browser.says("Archived:")
    browser.wait(lambda: not browser.find(of(FISH)))
    assert FISH in opened.texts("archived")
    undo(browser)
    browser.one(of(FISH))
    assert FISH in opened.texts()
    show(browser, VIEWS["archived"])
    do(browser, "Alice has a dog.", "Restore")
    browser.says("Restored:")
    assert "Alice has a dog." in opened.texts()
    undo(browser)
    assert "Alice has a dog." in opened.texts("archived")


@pytest.mark.parametrize("where", ["session", "search"])
def test_a_deleted_memory_comes_back_with_all_its_fields(browser, opened, where):
    fields = {
        "id": "full",
        "content": {"parts": [{"text": "one"}, {"text": "two"}]},
        "custom_metadata": {"n": [1, {"x": "</script>"}]},
        "importance": 0.25,
        "kind": "fact",
        "source": "crm",
        "trust": "third-party-public",
        "author": "agent",
        "timestamp": 1.79e9,
        "session_id": "s / 1?",
        "valid_until": 9e9,
    }
    opened.ask("POST", f"{HOME}/memories", json={"memories": [fields]})
    before = opened.memory("full")
    if where == "search":  # which shows an importance that it derives
        show(browser, view("hotel", "alice", "search", q="one two"))
    else:
        show(browser, view("hotel", "alice", "session", "s / 1?"))
    browser.find("//button[.='Delete']")[0].click()
    browser.says("Deleted.")
    assert opened.ask("GET", f"{HOME}/memories/full").status_code == 404
    undo(browser)
    after = opened.memory("full")
    assert {**after, "updated_at": 0} == {**before, "updated_at": 0}


def test_a_deletion_is_final_when_the_page_is_left(browser, opened):
    """Whoever may write only below a tier of trust undoes it, too."""
    fact = {"id": "own", "content": "A door code.", "trust": "first-party"}
    given = {"memories": [fact], "ttl": 86_400}
    opened.ask("POST", f"{HOME}/memories", json=given)
    ends = opened.ask("GET", f"{HOME}/memories/own/history").json()["revisions"]
    browser.go(opened.page("writes"))
    browser.settled()
    show(browser, VIEWS["memories"])
    do(browser, "A door code.", "Delete")
    browser.says("Deleted.")
    show(browser, VIEWS["sessions"])
    undo(browser)
    found = opened.ask("GET", f"{HOME}/memories/own/history").json()["revisions"]
    assert found[-1]["expires_at"] == ends[-1]["expires_at"]
    show(browser, VIEWS["memories"])
    for text in ("A door code.", TEA):
        do(browser, text, "Delete")
        browser.wait(lambda: not browser.find(of(text)))  # noqa: B023
    assert opened.texts("archived").count(TEA) == 1
    browser.go("about:blank")
    browser.wait(lambda: TEA not in opened.texts("archived"))
    browser.wait(lambda: "A door code." not in opened.texts("archived"))
    assert not {TEA, "A door code."} & set(opened.texts())
    history = opened.ask("GET", f"{HOME}/memories/own/history")
    assert history.status_code == 404


def test_each_of_two_corrections_is_undone_from_the_page_of_the_memory(browser, opened):
    show(browser, view("hotel", "alice", "memory", "tea1"))
    for text in ("One tea.", "Two teas."):
        browser.button("Correct").click()
        browser.field("content").write(text)
        browser.button("Save").click()
        browser.wait(lambda: not browser.find("//dialog"))
        browser.one(of(text))
    assert len(browser.find("//main//b[.='Former text']")) == 2
    browser.find("//button[.='Undo']")[1].click()
    browser.one(of("One tea."))
    undo(browser)
    browser.one(of(TEA))
    assert opened.memory("tea1")["content"] == TEA


@pytest.mark.parametrize("state", ["archived", "held"])
def test_the_history_of_what_is_not_live_is_shown(browser, opened, state):
    show(browser, VIEWS[state])
    text = {"archived": "Alice has a dog.", "held": HELD}[state]
    browser.one(f"{of(text)}//a[.='History']").click()
    browser.says("All fields")
    browser.says({"archived": "Archived", "held": "Held"}[state])
    browser.says(text)


def test_held_memories_are_approved_or_rejected(browser, opened):
    show(browser, VIEWS["held"])
    do(browser, HELD, "Approve")
    browser.says("Approved:")
    assert HELD in opened.texts()
    assert opened.texts("quarantined") == []


def test_a_rejected_memory_waits_a_minute_and_is_deleted(browser, opened):
    show(browser, VIEWS["held"])
    do(browser, HELD, "Reject")
    browser.says("Rejected: it is deleted in a minute.")
    browser.wait(lambda: not browser.find(of(HELD)))
    undo(browser)
    browser.one(of(HELD))
    assert opened.texts("quarantined") == [HELD]
    do(browser, HELD, "Reject")
    browser.says("Rejected: it is deleted in a minute.")
    browser.one("(//button[@aria-label='Close this message'])[last()]").click()
    browser.wait(lambda: not opened.texts("quarantined"))
    assert HELD not in opened.texts()


def test_of_two_that_say_the_same_one_is_kept(browser, opened):
    show(browser, VIEWS["duplicates"])
    do(browser, TEA, "Keep only this, archive 1")
    browser.says("Kept one, archived 1.")
    assert opened.texts("archived").count("Alice likes green tea!") == 1
    assert TEA in opened.texts()
    undo(browser)
    assert {TEA, "Alice likes green tea!"} <= set(opened.texts())


def test_of_two_that_contradict_each_other_the_later_one_is_kept(browser, opened):
    if "/users/{user}/conflicts" not in opened.ask("GET", "/openapi.json").text:
        pytest.skip("needs the operation `conflicts`")
    facts = [
        {"id": "then", "content": "Alice lives in Berlin.", "timestamp": 1.7e9},
        {"id": "now", "content": "Alice lives in Paris.", "timestamp": 1.8e9},
    ]
    for fact in facts:
        given = {"memories": [{**fact, "kind": "fact"}]}
        opened.ask("POST", f"{HOME}/memories", json=given)
    show(browser, VIEWS["duplicates"])
    pair = '//section[.//*[.="Alice lives in Berlin."]]'
    browser.button("The later one replaces the earlier one", pair).click()
    browser.says("Replaced:")
    assert "Alice lives in Berlin." in opened.texts("archived")
    undo(browser)
    assert "Alice lives in Berlin." in opened.texts()


def test_what_is_about_something_is_forgotten_by_choice(browser, opened):
    show(browser, VIEWS["person"])
    browser.field("q").write("green tea")
    browser.button("Look for it").click()
    browser.one("//input[@value='tea1']")
    (other,) = browser.find("//input[@value='tea2']")
    other.click()
    browser.button("Delete what is chosen").click()
    browser.says("deleted.")
    assert TEA not in opened.texts()
    assert "Alice likes green tea!" in opened.texts()
    undo(browser)
    assert TEA in opened.texts()


def test_a_session_is_deleted_after_a_question(browser, opened):
    show(browser, VIEWS["session"])
    browser.button("Delete this session").click()
    browser.button("Delete the session").click()
    browser.says("2 memories deleted.")
    assert FISH not in opened.texts()
    browser.says("Sessions of")
    assert not browser.find("//main//td[contains(., 'trip-3')]")


def test_an_export_of_one_person_is_saved(browser, opened):
    show(browser, VIEWS["person"])
    browser.button("Export this person").click()
    browser.says("The export was saved.")
    file = browser.downloads / "hotel-alice.jsonl"
    browser.wait(file.exists)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    texts = {line["mem"]["text"] for line in lines if "mem" in line}
    assert {FISH, QUIET, LOW, HELD} <= texts
    assert not any("zebra-1" in text for text in texts)
    file.unlink()


def test_a_person_is_erased_after_their_name_is_written_with_a_receipt(browser, opened):
    show(browser, VIEWS["memories"])
    do(browser, SEA, "Delete")
    browser.says("Undo")
    assert browser.run("return pending.size") == 1
    show(browser, VIEWS["person"])
    number = len(opened.texts()) + len(opened.texts("archived")) + 1  # held
    browser.button("Erase this person").click()
    browser.field("word").write("bob")
    browser.button("Erase").click()
    browser.says("The name differs; nothing was done.")
    assert FISH in opened.texts()
    browser.button("Erase this person").click()
    browser.field("word").write("alice")
    browser.button("Erase").click()
    browser.says("Receipt")
    browser.says(str(number))
    assert not browser.find("//button[.='Undo']")  # nothing of theirs comes back
    assert browser.run("return pending.size") == 0  # and no message about it
    assert opened.texts() == []
    users = opened.ask("GET", "/apps/hotel/users").json()["users"]
    assert [each["user_id"] for each in users] == ["bob"]
    browser.button("Save the receipt").click()
    (file,) = browser.wait(lambda: list(browser.downloads.glob("erased-*.json")))
    told = json.loads(file.read_text())
    assert (told["app"], told["user"]) == ("hotel", "alice")
    assert told["memories_deleted"] == number
    file.unlink()


def test_pages_lead_to_all(browser, opened):
    more = [{"content": f"memory number {n}", "id": f"n{n}"} for n in range(120)]
    opened.ask("POST", f"{HOME}/memories", json={"memories": more})
    show(browser, VIEWS["memories"])
    total = len(opened.texts())
    while found := browser.find("//button[.='Show more']"):
        before = len(browser.find("//main//li[contains(@class,'card')]"))
        found[0].click()
        browser.wait(
            lambda: len(browser.find("//main//li[contains(@class,'card')]")) > before  # noqa: B023
        )
    assert len(browser.find("//main//li[contains(@class,'card')]")) == total
