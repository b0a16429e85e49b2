"""What an embedder is asked, and that it is asked once."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings

import pytest
from helpers.embedders import Recorder, embedded, found, session
from helpers.memories import ALICE, BOB
from vecall import MemoryEntry, MemoryService, RawTurnsWarning


def test_embedded_texts_name_their_author(open_service):
    recorder = Recorder()
    service = open_service(embedder=recorder)
    service.sync.add_session_to_memory(session("I like parrots"))
    assert recorder.asked == ["user: I like parrots"]


def test_each_distinct_text_is_embedded_once_and_at_ingest_only(open_service, tmp_path):
    """S0.17, S0.18, S4.13: nothing is embedded again by re-ingest or search."""
    recorder = Recorder()
    path = tmp_path / "m.db"
    service = open_service(path, embedder=recorder)
    texts = ["zebra", "okapi", "zebra", "quagga", "zebra"]
    for _ in range(3):
        service.sync.add_session_to_memory(session(*texts))
        assert recorder.asked == ["user: zebra", "user: okapi", "user: quagga"]
    found(service, "zebra one")
    found(service, "zebra one")
    assert recorder.asked[3:] == ["zebra one"]
    service.close()
    again = open_service(path, embedder=recorder)
    again.sync.add_session_to_memory(session(*texts))
    found(again, "okapi")
    assert recorder.asked[4:] == ["okapi"]
    again.sync.add_session_to_memory(session(*texts, "tapir"))
    assert recorder.asked[5:] == ["user: tapir"]


def test_a_changed_text_is_embedded_again_and_only_it(open_service):
    """S0.17: the vector follows the text."""
    recorder = Recorder()
    service = open_service(embedder=recorder)
    service.sync.add_session_to_memory(session("zebra", "okapi"))
    recorder.asked.clear()
    service.sync.add_session_to_memory(session("zebra", "tapir"))
    assert recorder.asked == ["user: tapir"]
    (memory,) = service.sync.search_memory(
        **ALICE, query="user: tapir", top_k=1
    ).memories
    assert memory.text == "tapir"
    assert memory.similarity == pytest.approx(1.0, abs=1e-5)


def test_a_deleted_turn_is_not_embedded_again(open_service):
    """S0.17: what will not be written is not paid for."""
    recorder = Recorder()
    service = open_service(embedder=recorder)
    ids = service.sync.add_session_to_memory(session("zebra", "okapi"))
    service.sync.delete_memory(**ALICE, memory_id=ids[0])
    recorder.asked.clear()
    service.sync.add_session_to_memory(session("zebra", "okapi"))
    assert recorder.asked == []
    service.sync.add_session_to_memory(session("zebra", "okapi"), restore=True)
    assert recorder.asked == ["user: zebra"]
    assert embedded(service) == 2


def test_a_changed_author_changes_what_was_embedded(open_service):
    """The author is part of what the embedder saw, so the vector must follow it."""
    recorder = Recorder()
    service = open_service(embedder=recorder)
    for author in ("user", "agent"):
        service.sync.add_memory(
            **ALICE, memories=[MemoryEntry("zebra", id="x", author=author)]
        )
    (memory,) = service.sync.search_memory(**ALICE, query="agent: zebra").memories
    assert memory.similarity == pytest.approx(1.0, abs=1e-5)


def test_a_query_is_embedded_once_for_each_user(open_service):
    """S0.18: kept for the user who asked, and for no one else."""
    recorder = Recorder()
    service = open_service(embedder=recorder)
    for scope in (ALICE, BOB, ALICE, BOB):
        service.sync.search_memory(**scope, query="where is it")
    assert recorder.asked == ["where is it"] * 2


@pytest.mark.parametrize("query", ["", "  ", "?!"])
def test_a_query_without_a_word_is_not_embedded(open_service, query):
    """It finds nothing and costs nothing."""
    recorder = Recorder()
    service = open_service(embedder=recorder)
    assert found(service, query) == []
    assert recorder.asked == []


def test_turns_embedded_as_they_are_are_warned_about_once(tmp_path):
    """S4.47: where the category is selected; words alone warn of nothing."""
    with pytest.warns(RawTurnsWarning, match="without a summary") as caught:
        MemoryService(embedder=Recorder()).close()
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MemoryService(embedder=None).close()


def test_a_program_that_selects_no_warnings_sees_none_of_raw_turns():
    """S4.47: the filters of an interpreter that has just started ignore the category;
    one filter of the program shows it."""
    program = (
        "import vecall, warnings\n"
        "embed = lambda texts: [[1.0]] * len(texts)\n"
        "vecall.MemoryService(embedder=embed).close()\n"
        "print('quiet', flush=True)\n"
        "warnings.simplefilter('error', vecall.RawTurnsWarning)\n"
        "try:\n"
        "    vecall.MemoryService(embedder=embed)\n"
        "except vecall.RawTurnsWarning:\n"
        "    print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("quiet\nrefused\n", "")


def test_a_refused_warning_leaves_no_open_service(tmp_path):
    """With warnings as errors the constructor raises; it must not keep its threads."""
    before = set(threading.enumerate())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RawTurnsWarning):
            MemoryService(tmp_path / "m.db", embedder=Recorder())
    assert set(threading.enumerate()) <= before


def test_what_was_embedded_of_a_user_goes_with_him_and_with_nobody_else(open_service):
    """Deleting forgets the vectors of his texts; deleting all, those of his queries."""
    recorder = Recorder()
    service = open_service(embedder=recorder)
    bob = {**ALICE, "user_id": "bob"}
    for user in (ALICE, bob):
        (id_, _) = service.sync.add_memory(**user, memories=["zebra", "okapi"])
        service.sync.search_memory(**user, query="quagga")
        if user is ALICE:
            mine = id_
    recorder.asked.clear()
    service.sync.delete_memory(**ALICE, memory_id=mine)
    service.sync.search_memory(**ALICE, query="quagga")
    assert recorder.asked == []
    service.sync.add_memory(**bob, memories=["zebra"])
    assert recorder.asked == []
    service.sync.add_memory(**ALICE, memories=["zebra"], restore=True)
    assert recorder.asked == ["zebra"]
    service.sync.delete_user(**ALICE)
    service.sync.search_memory(**ALICE, query="quagga")
    service.sync.search_memory(**bob, query="quagga")
    assert recorder.asked == ["zebra", "quagga"]
