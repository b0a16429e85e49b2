"""An import that passes the hook: what is refused, quarantined and redacted of it."""

from __future__ import annotations

import json

import pytest
from helpers.memories import ALICE
from helpers.sessions import session, turn
from helpers.write_hooks import MASK, SECRET, AsyncReviewHook, ReviewHook, found, listed
from vecall import (
    ClosedError,
    ConfigError,
    FunctionEmbedder,
    MemoryEntry,
    SessionEnd,
    Verdict,
    WriteHookError,
)
from vecall.cli.main import main
from vecall.hooks import ALLOW, QUARANTINE

TEXTS = (
    "zebra fine",
    "zebra held",
    "zebra refused",
    f"zebra {SECRET}",
    "zebra dropped",
)
EVERY = ["zebra fine", f"zebra {MASK}"]


@pytest.fixture(params=[ReviewHook, AsyncReviewHook], ids=["plain", "coroutine"])
def judge(request) -> ReviewHook:
    hook: ReviewHook = request.param()
    return hook


def exported(service, path):
    service.sync.admin.export_jsonl(path)
    return path


def test_a_gated_import_writes_what_the_hook_lets_through(
    open_service, tmp_path, judge
):
    """Each verdict has the effect that it has on a write of a turn."""
    origin = open_service()
    origin.sync.add_memory(**ALICE, memories=TEXTS)
    file = exported(origin, tmp_path / "out")
    service = open_service(tmp_path / "new.db", on_write=judge)
    count = service.sync.admin.import_jsonl(file, gate=True)
    assert (count, count.rejected, count.quarantined) == (3, 2, 1)
    assert listed(service) == EVERY
    assert found(service) == sorted(EVERY)
    assert listed(service, "quarantined") == ["zebra held"]
    assert sorted(judge.texts) == sorted(TEXTS)
    assert {(write.app_name, write.user_id) for write in judge.seen} == {
        (ALICE["app_name"], ALICE["user_id"])
    }


def test_without_the_gate_an_import_is_a_copy(open_service, tmp_path, judge):
    origin = open_service()
    origin.sync.add_memory(**ALICE, memories=TEXTS)
    file = exported(origin, tmp_path / "out")
    service = open_service(tmp_path / "new.db", on_write=judge)
    count = service.sync.admin.import_jsonl(file)
    assert (count, count.rejected, count.quarantined) == (5, 0, 0)
    assert listed(service) == list(TEXTS)
    assert judge.seen == []


def test_a_gated_import_needs_a_hook(open_service, tmp_path):
    file = exported(open_service(), tmp_path / "out")
    service = open_service(tmp_path / "new.db")
    with pytest.raises(ConfigError, match="on_write"):
        service.sync.admin.import_jsonl(file, gate=True)


def test_archived_and_quarantined_memories_are_judged_and_stay_so(
    open_service, tmp_path, judge
):
    """No verdict releases what is quarantined or brings back what is archived."""
    held = {"zebra kept": QUARANTINE, "zebra refused": QUARANTINE}
    origin = open_service(on_write=lambda w: held.get(w.memory.text, ALLOW))
    texts = ("zebra kept", "zebra refused", "zebra old", "zebra old held")
    ids = origin.sync.add_memory(**ALICE, memories=texts)
    for id_ in ids[2:]:
        origin.sync.archive_memory(**ALICE, memory_id=id_)
    file = exported(origin, tmp_path / "out")
    service = open_service(tmp_path / "new.db", on_write=judge)
    count = service.sync.admin.import_jsonl(file, gate=True)
    assert (count, count.rejected, count.quarantined) == (3, 1, 1)
    assert listed(service, "quarantined") == ["zebra kept", "zebra old held"]
    assert listed(service, "archived") == ["zebra old"]
    assert listed(service) == []


def test_former_versions_are_judged(open_service, tmp_path, judge):
    """A text that is refused stands in no history, and a held one is marked."""
    origin = open_service()
    (id_, other) = origin.sync.add_memory(**ALICE, memories=["zebra refused", "gnu"])
    for text in ("zebra held", f"zebra {SECRET}", "zebra now"):
        origin.sync.update_memory(**ALICE, memory_id=id_, content=text)
    origin.sync.update_memory(**ALICE, memory_id=other, content="gnu refused")
    file = exported(origin, tmp_path / "out")
    service = open_service(tmp_path / "new.db", on_write=judge)
    count = service.sync.admin.import_jsonl(file, gate=True)
    assert (count, count.rejected, count.quarantined) == (1, 2, 1)
    past = service.sync.memory_history(**ALICE, memory_id=id_)
    assert [(each.memory.text, each.state) for each in past] == [
        ("zebra held", "quarantined"),
        (f"zebra {MASK}", "overwritten"),
        ("zebra now", "live"),
    ]
    again = exported(service, tmp_path / "again").read_text()
    assert "gnu" not in again
    assert "refused" not in again
    assert SECRET not in again


def test_waiting_turns_are_judged(open_service, tmp_path, judge):
    origin = open_service(trigger=SessionEnd())
    turns = [turn(n, text) for n, text in enumerate(TEXTS)]
    origin.sync.observe_session(session(*turns))
    file = exported(origin, tmp_path / "out")
    service = open_service(tmp_path / "new.db", on_write=judge, trigger=SessionEnd())
    count = service.sync.admin.import_jsonl(file, gate=True)
    assert (count, count.rejected, count.quarantined) == (0, 2, 1)
    service.sync.end_session(session())
    assert listed(service) == EVERY
    assert listed(service, "quarantined") == ["zebra held"]
    assert sorted(judge.texts) == sorted(TEXTS), "what was judged is not judged again"


def test_a_vector_does_not_outlast_its_redacted_text(open_service, tmp_path, judge):
    """It would find the memory by words that it no longer has."""
    asked: list[str] = []

    def embed(texts):
        asked.extend(texts)
        return [[1.0, float(SECRET in text)] for text in texts]

    embedder = FunctionEmbedder(embed, model_id="m", dimensions=2)
    origin = open_service(embedder=embedder)
    origin.sync.add_memory(**ALICE, memories=[f"zebra {SECRET}", "zebra fine"])
    file = exported(origin, tmp_path / "out")
    asked.clear()
    with open_service(
        tmp_path / "new.db", embedder=embedder, on_write=judge
    ) as service:
        assert service.sync.admin.import_jsonl(file, gate=True) == 2
    with open_service(
        tmp_path / "new.db", embedder=embedder, on_write=judge
    ) as service:
        lines = exported(service, tmp_path / "again").read_text().splitlines()
    vectors = [json.loads(line).get("mem", {}).get("vec") for line in lines]
    assert len({vector for vector in vectors if vector}) <= 1
    assert not any(SECRET in text for text in asked)


def test_a_lower_trust_of_the_hook_counts(open_service, tmp_path):
    origin = open_service()
    entry = MemoryEntry("zebra", trust="first-party")
    origin.sync.add_memory(**ALICE, memories=[entry])
    file = exported(origin, tmp_path / "out")
    low = Verdict("allow", trust="unverified")
    service = open_service(tmp_path / "new.db", on_write=lambda _: low)
    service.sync.admin.import_jsonl(file, gate=True)
    assert service.sync.list_memories(**ALICE)[0].trust == "unverified"


def test_a_hook_that_fails_ends_the_import(open_service, tmp_path):
    """What was imported before it stays, and nothing after it."""

    def hook(write):
        if write.user_id == "bob":
            raise RuntimeError(SECRET)
        return ALLOW

    origin = open_service()
    for user in ("alice", "bob", "carol"):
        origin.sync.add_memory(app_name="app", user_id=user, memories=["zebra"])
    file = exported(origin, tmp_path / "out")
    service = open_service(tmp_path / "new.db", on_write=hook)
    with pytest.raises(WriteHookError) as told:
        service.sync.admin.import_jsonl(file, gate=True)
    assert SECRET not in str(told.value)
    counts = [
        len(service.sync.list_memories(app_name="app", user_id=user))
        for user in ("alice", "bob", "carol")
    ]
    assert counts == [1, 0, 0]


@pytest.mark.parametrize("what", ["export", "import", "purge"])
def test_a_hook_that_needs_the_thread_of_the_import_is_refused(
    open_service, tmp_path, what
):
    """It would wait for the import, which waits for the hook."""
    origin = open_service()
    origin.sync.add_memory(**ALICE, memories=["zebra"])
    file = exported(origin, tmp_path / "out")
    calls = {
        "export": lambda: service.sync.admin.export_jsonl(tmp_path / "more"),
        "import": lambda: service.sync.admin.import_jsonl(file),
        "purge": lambda: service.sync.admin.purge(),
    }

    def hook(_):
        calls[what]()
        return ALLOW

    service = open_service(tmp_path / "new.db", on_write=hook)
    with pytest.raises(WriteHookError, match="its own memory service"):
        service.sync.admin.import_jsonl(file, gate=True)
    assert listed(service) == []


def test_two_services_whose_hooks_import_into_each_other_do_not_wait_for_ever(
    open_service, tmp_path
):
    origin = open_service()
    origin.sync.add_memory(**ALICE, memories=["zebra"])
    file = exported(origin, tmp_path / "out")
    services = []
    for number in range(2):

        def hook(_, other=1 - number):
            services[other].sync.admin.import_jsonl(file, gate=True)
            return ALLOW

        services.append(open_service(tmp_path / f"{number}.db", on_write=hook))
    with pytest.raises(WriteHookError):
        services[0].sync.admin.import_jsonl(file, gate=True)
    assert listed(services[0]) == listed(services[1]) == []


def test_the_command_judges_an_import(open_service, tmp_path, monkeypatch, capsys):
    """--on-write judges exports and plain lines, and says what it refused.

    It is looked for in the current folder too, which a script's path does not have.
    """
    (tmp_path / "rules_of_import.py").write_text(
        "from vecall.hooks import ALLOW, QUARANTINE, REJECT\n"
        "def judge(write):\n"
        "    text = write.memory.text\n"
        "    held = QUARANTINE if 'held' in text else ALLOW\n"
        "    return REJECT if 'refused' in text else held\n"
    )
    monkeypatch.chdir(tmp_path)
    origin = open_service()
    origin.sync.add_memory(**ALICE, memories=TEXTS[:3])
    file = exported(origin, tmp_path / "out")
    lines = [
        {"app_name": "app", "user_id": "alice", "text": text} for text in TEXTS[:3]
    ]
    plain = tmp_path / "plain"
    plain.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rules = ["--on-write", "rules_of_import:judge", "--embedder", "none", "--json"]
    for name, source in (("a.db", file), ("b.db", plain)):
        path = tmp_path / name
        assert main(["import", str(source), "--path", str(path), *rules]) == 0
        told = json.loads(capsys.readouterr().out)
        if source is file:
            assert (told["memories"], told["rejected"], told["quarantined"]) == (
                2,
                1,
                1,
            )
        else:
            assert (told["memories"], told["left_out"]) == (2, {"rejected": 1})
        service = open_service(path)
        assert listed(service) == ["zebra fine"]
        assert listed(service, "quarantined") == ["zebra held"]


def test_an_import_into_a_closing_service_ends(open_service, tmp_path):
    origin = open_service()
    origin.sync.add_memory(**ALICE, memories=["zebra"])
    file = exported(origin, tmp_path / "out")
    service = open_service(tmp_path / "new.db", on_write=ReviewHook())
    service.close()
    with pytest.raises(ClosedError):
        service.sync.admin.import_jsonl(file, gate=True)
