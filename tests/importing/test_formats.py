"""Each format comes in whole: with its ids, times, roles and metadata, and once.

tests/fixtures/import/make.py wrote the fixtures with the programs themselves; what is
expected here is what they were told.
"""

from __future__ import annotations

import json
import zipfile
from datetime import datetime, timezone
from pathlib import Path

import pytest
from vecall import InvalidArgumentError, MemoryService, VecallError
from vecall.importing import FORMATS, import_file
from vecall.importing.documents import MARK, TITLE
from vecall.importing.import_job import ImportReport

FIXTURES = Path(__file__).parent.parent / "fixtures" / "import"
OWNER = {"app_name": "zoo", "user_id": "ann"}
AT = 1_700_000_000.25


def utc(*parts):
    return datetime(*parts, tzinfo=timezone.utc).timestamp()


@pytest.fixture
def memory(tmp_path):
    with MemoryService(tmp_path / "memory.db", embedder=None) as service:
        yield service


def stored(memory, user="ann"):
    found = memory.sync.list_memories(app_name="zoo", user_id=user)
    return [(each.author, each.text, each.timestamp) for each in found]


KEEP, HOW = "I keep zebras.", "How many?"
SAID = {
    "chatgpt.json": [
        ("user", "I keep zebras in Zürich.", AT),
        ("assistant", "The second answer.", 1_700_000_002.0),
        ("user", "What is this?", 1_700_000_004.5),
    ],
    "claude.json": [
        ("user", KEEP, utc(2024, 5, 1, 10, 0, 1, 500_000)),
        ("assistant", HOW, utc(2024, 5, 1, 10, 0, 2)),
    ],
    "openai.jsonl": [
        ("user", KEEP, None),
        ("assistant", HOW, None),
        ("user", "Three.", None),
        ("assistant", HOW, None),
        ("user", "Three.", None),
    ],
    "claude-code.jsonl": [
        ("user", KEEP, utc(2024, 5, 1, 10, 0, 0, 500_000)),
        ("assistant", HOW, utc(2024, 5, 1, 10, 0, 1, 500_000)),
    ],
    "codex.jsonl": [
        ("user", KEEP, utc(2024, 5, 1, 10, 0, 0, 200_000)),
        ("assistant", HOW, utc(2024, 5, 1, 10, 0, 2)),
    ],
    "langchain.json": [
        ("user", KEEP, None),
        ("assistant", HOW, None),
        ("user", "Three.", None),
        ("assistant", HOW, None),
    ],
    "adk-sqlite.db": [
        ("user", "I keep zebras in Zürich.", AT),
        ("keeper", "How many zebras?", AT + 1),
        ("user", "Three zebras.", AT + 5),
    ],
    "chroma.json": [
        (None, "Ann keeps zebras.", None),
        (None, "Bo keeps a żubr.", None),
    ],
    "mem0.json": [("ann", "Keeps three zebras.", utc(2024, 5, 1, 8))],
    "mem0-history.db": [("ann", "Keeps three zebras.", utc(2024, 5, 1, 8))],
}
SAID["langchain-file.json"] = SAID["langchain.json"]
SAID["langchain.db"] = SAID["langchain.json"] * 2  # two sessions
SAID["adk-database.db"] = SAID["adk-sqlite.db"]
SAID["mem0.json"] = [(None, *SAID["mem0.json"][0][1:])]


@pytest.mark.parametrize("name", SAID)
def test_a_file_of_a_program_comes_in_and_a_second_time_adds_nothing(memory, name):
    report = import_file(memory, FIXTURES / name, **OWNER)
    others = 1 if name == "mem0.json" else 0  # of its other user
    assert stored(memory) == SAID[name]
    assert (report.new, report.known) == (len(SAID[name]) + others, 0)
    again = import_file(memory, FIXTURES / name, **OWNER)
    assert (again.new, again.known) == (0, len(SAID[name]) + others)
    assert stored(memory) == SAID[name]
    assert (again.left_out, again.fields) == (report.left_out, report.fields)


def test_the_agents_sdk_and_the_memory_of_adk_come_in(memory):
    import_file(memory, FIXTURES / "openai-agents.db", **OWNER)
    said = [each[:2] for each in stored(memory)]
    assert said == [("user", KEEP), ("assistant", "Three zebras."), ("user", KEEP)]
    report = import_file(memory, FIXTURES / "adk-memory.db")
    assert report.new == 5
    assert ("keeper", "How many zebras?", AT + 1) in stored(memory)


def test_ids_sessions_and_metadata_are_kept(memory):
    for name in ("chatgpt.json", "adk-sqlite.db", "mem0.json", "chroma.json"):
        import_file(memory, FIXTURES / name, **OWNER)
    found = {each.text: each for each in memory.sync.list_memories(**OWNER)}
    answer = found["The second answer."]
    assert (answer.session_id, answer.event_id) == ("c-1", "a1b")
    assert answer.custom_metadata == {"title": "Zebras", "model": "gpt-5"}
    assert found["Three zebras."].custom_metadata == {"mood": "calm"}
    fact = found["Keeps three zebras."]
    assert (fact.id, fact.custom_metadata) == (
        "m1",
        {"mood": "calm", "agent_id": "keeper"},
    )
    pet = found["Ann keeps zebras."]
    assert (pet.id, pet.custom_metadata) == ("a", {"age": 3, "calm": True})
    other = memory.sync.list_memories(app_name="zoo", user_id="bo")
    assert [(each.text, each.session_id) for each in other] == [
        ("Lives in Zürich.", "r1")
    ]


def test_a_folder_of_chroma_keeps_documents_of_equal_ids_apart(memory):
    report = import_file(memory, FIXTURES / "chroma", **OWNER)
    found = {each.id: each for each in memory.sync.list_memories(**OWNER)}
    assert {id_: each.text for id_, each in found.items()} == {
        "pets:a": "Ann keeps zebras.",
        "pets:b": "Bo keeps a żubr.",
        "other:a": "The same id.",
    }
    assert found["pets:b"].custom_metadata == {
        "weight": 1.5,
        "place": "Kraków",
        "collection": "pets",
    }
    assert report.left_out == {"no_text": 1}
    assert report.fields == {"embedding": 4}


def test_items_of_langgraph_stay_items_with_their_times(memory):
    for _ in range(2):
        report = import_file(memory, FIXTURES / "langgraph.db", **OWNER)
    assert report.items == 2
    keys = [(("users", "ann"), "pet"), (("users", "bo"), "trip")]
    pet, trip = memory.items.sync.get(keys, **OWNER)
    assert pet.value == {"text": "Ann keeps zebras.", "n": 3}
    assert trip.value == {"to": ["Kraków"]}
    assert pet.created_at < utc(2026, 12, 31)
    assert pet.version == 1


def test_what_is_left_out_is_named(memory):
    report = import_file(memory, FIXTURES / "chatgpt.json", **OWNER)
    assert report.left_out == {"hidden": 1, "other_branch": 1, "thoughts": 1}
    assert report.fields["image_asset_pointer"] == 1
    report = import_file(memory, FIXTURES / "claude.json", **OWNER)
    assert report.fields == {"account": 1, "attachments": 1, "content.thinking": 1}
    report = import_file(memory, FIXTURES / "adk-sqlite.db")
    assert report.left_out == {"rewound": 3}


def test_an_archive_is_read_by_its_conversations(memory, tmp_path):
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(FIXTURES / "chatgpt.json", "conversations.json")
        archive.writestr("chat.html", "<html>")
    report = import_file(memory, path, **OWNER)
    assert stored(memory) == SAID["chatgpt.json"]
    assert report.left_out["other_file"] == 1


def test_a_transcript_in_an_archive_has_each_turn_once(memory, tmp_path):
    """Codex repeats what was said; a stream cannot be searched for that before."""
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.write(FIXTURES / "codex.jsonl", "conversations.json")
    import_file(memory, tmp_path / "t.zip", **OWNER)
    assert stored(memory) == SAID["codex.jsonl"]


def test_messages_that_nobody_saw_are_left_out(memory, tmp_path):
    seen = {"author": {"role": "user"}, "metadata": {}}
    seen["content"] = {"content_type": "text", "parts": [KEEP]}
    hidden = {**seen, "metadata": {"is_visually_hidden_from_conversation": True}}
    call = {**seen, "author": {"role": "assistant"}, "recipient": "python"}
    said = {"a": seen, "b": hidden, "c": call}
    nodes = {
        id_: {"message": {**each, "id": id_}, "parent": chr(ord(id_) - 1)}
        for id_, each in said.items()
    }
    chat = {"conversation_id": "c-1", "mapping": nodes, "current_node": "c"}
    (tmp_path / "chat.json").write_text(json.dumps([chat]))
    report = import_file(memory, tmp_path / "chat.json", **OWNER)
    assert stored(memory) == [("user", KEEP, None)]
    assert report.left_out == {"hidden": 1, "call": 1}


def test_each_array_of_a_file_is_a_chat_of_its_own(memory, tmp_path):
    chat = json.dumps([{"role": "user", "content": KEEP}])
    (tmp_path / "chats.json").write_text(f"{chat}\n{chat}\n")
    assert import_file(memory, tmp_path / "chats.json", **OWNER).new == 2


def test_a_memory_of_mem0_is_there_on_its_last_day(memory, tmp_path):
    """As in `vecall.mem0`; a time is that moment. What has no text has no end."""
    ends = {"a": "2999-05-01", "b": "2999-05-01T10:00:00Z", "c": None}
    ends |= {"d": "9999-12-31", "e": "1999999999", "none": "not a day"}
    entries = [
        {"id": id_, "memory": KEEP, "expiration_date": end} for id_, end in ends.items()
    ]
    entries[-1]["memory"] = None
    (tmp_path / "mem0.json").write_text(json.dumps({"results": entries}))
    import_file(memory, tmp_path / "mem0.json", **OWNER)
    found = memory.sync.list_memories(**OWNER)
    until = [utc(2999, 5, 2), utc(2999, 5, 1, 10), None]
    until += [utc(9999, 12, 31, 23, 59, 59), utc(2033, 5, 18, 3, 33, 19)]
    assert [each.valid_until for each in found] == until


def test_a_table_comes_in_by_its_columns(memory, tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text(
        'when;who;note;mood\n2024-05-01 10:00;ann;"two\nlines; one";calm\n;bo;x;\n'
    )
    columns = {"text": "note", "timestamp": "when", "author": "who"}
    report = import_file(memory, path, **OWNER, columns=columns)
    assert report.new == 2
    found = memory.sync.list_memories(**OWNER)
    assert [(each.author, each.text) for each in found] == [
        ("ann", "two\nlines; one"),
        ("bo", "x"),
    ]
    assert found[0].timestamp == utc(2024, 5, 1, 10)
    assert found[0].custom_metadata == {"mood": "calm"}


def test_a_second_column_of_a_field_is_metadata(memory, tmp_path):
    (tmp_path / "t.csv").write_text("text,body\nx,y\n")
    import_file(memory, tmp_path / "t.csv", **OWNER)
    (found,) = memory.sync.list_memories(**OWNER)
    assert (found.text, found.custom_metadata) == ("x", {"body": "y"})


def test_equal_turns_of_a_table_are_as_many_as_its_rows(memory, tmp_path):
    (tmp_path / "t.csv").write_text("session_id,author,text\n" + "s,ann,yes\n" * 3)
    assert import_file(memory, tmp_path / "t.csv", **OWNER).new == 3
    assert import_file(memory, tmp_path / "t.csv", **OWNER).known == 3


def test_documents_are_split_at_headings_with_their_places(memory, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    body = "# Zoo\n\n## Zebras\n\nThree.\n\n```\n# no heading\n```\n\n## Żubr\n\nOne.\n"
    long = "".join(f"Sentence {n} of a long text. " for n in range(400))
    head = '---\ntype: Note\ntags: [a, "b"]\ntimestamp: 2024-05-01T10:00:00Z\n---\n'
    (folder / "zoo.md").write_text(head + body)
    (folder / "long.txt").write_text(long)
    (folder / "index.md").write_text("- [Zoo](zoo.md)\n")
    (folder / "cat.png").write_bytes(b"\x89PNG\0")
    report = import_file(memory, folder, **OWNER)
    assert report.left_out == {"other_file": 1, "index_or_log": 1}
    whole = {"zoo.md": head + body, "long.txt": long}
    parts = {"zoo.md": [], "long.txt": []}
    for each in memory.sync.list_memories(**OWNER):
        place = each.custom_metadata
        text = whole[place["document"]][place["start"] : place["end"]]
        assert text == each.text
        assert len(each.text.encode()) <= 2_000
        parts[place["document"]].append((place.get("heading"), each.text))
    assert "".join(text for _, text in parts["long.txt"]) == long
    assert [heading for heading, _ in parts["zoo.md"]] == ["Zoo > Zebras", "Zoo > Żubr"]
    note = memory.sync.list_memories(**OWNER, filter={"metadata": {"type": "Note"}})
    assert note[0].timestamp == utc(2024, 5, 1, 10)
    assert note[0].custom_metadata["tags"] == ["a", "b"]
    assert import_file(memory, folder, **OWNER).new == 0


def test_a_text_of_any_length_is_split_and_not_cut(memory, tmp_path):
    text = "".join(f"Sentence {n} is not cut. " for n in range(20_000))
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps({"role": "user", "content": text}) + "\n")
    import_file(memory, path, **OWNER)
    found = [each.text for each in memory.sync.list_memories(**OWNER)]
    assert len(found) > 1
    assert "".join(found) == text


def test_a_transcript_is_known_by_a_line_of_any_length_and_is_not_cut(memory, tmp_path):
    text = "".join(f"Sentence {n} is not cut. " for n in range(6_000))
    line = {"type": "user", "uuid": "u1", "sessionId": "s"}
    line["message"] = {"role": "user", "content": text.strip()}
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(line))
    report = import_file(memory, path, **OWNER)
    assert report.formats == {"transcript": 1}
    found = memory.sync.list_memories(**OWNER)
    assert "".join(each.text for each in found) == text.strip()


def test_metadata_of_a_message_may_have_any_names(memory, tmp_path):
    """Also those of the fields of a turn, and of the chat message."""
    own = {"session": "s", "role": "r", "place": "p", "name": "n", "topic": "birds"}
    said = {"role": "user", "content": "A zebra.", "name": "Ann", "metadata": own}
    file = tmp_path / "chat.json"
    file.write_text(json.dumps([said]))
    import_file(memory, file, **OWNER)
    (turn,) = memory.sync.list_memories(**OWNER)
    assert turn.custom_metadata == {**own, "name": "Ann"}


def test_a_chat_that_has_grown_adds_its_new_turns_alone(memory, tmp_path):
    path = tmp_path / "chat.jsonl"
    lines = ['{"role": "user", "content": "yes"}\n'] * 3
    for count in (1, 3):
        path.write_text("".join(lines[:count]))
        report = import_file(memory, path, **OWNER)
    assert (report.new, report.known) == (2, 1)
    assert [text for _, text, _ in stored(memory)] == ["yes"] * 3


BROKEN = {
    "empty.json": (b"", "it is empty"),
    "array.json": (b"[]", "line 1: expected a JSON object"),
    "binary.json": (b"\0\1\2\3" * 99, "expected text, JSON, a SQLite file or a zip"),
    "damaged.db": (b"SQLite format 3\0" + bytes(99), "damaged"),
    "damaged.zip": (b"PK\x03\x04" + bytes(99), "damaged"),
    "cut.json": ((FIXTURES / "chatgpt.json").read_bytes()[:900], "record 1 (line 1)"),
    "type.json": (b'[{"mapping": 3, "id": "a"}]', "record 1, mapping: expected a JSON"),
    "role.jsonl": (b'{"role": "user", "content": "a"}\n{"role": 3}\n', "line 2: "),
    "time.json": (
        b'{"results": [{"id": "a", "memory": "b", "created_at": "x"}]}',
        "1: ",
    ),
    "latin.csv": ("text\nżubr\n".encode("latin2"), "expected text in UTF-8"),
    "wide.csv": (b"text,a\nx,1\nx,1,2\n", "record 2 (line 3): expected at most 2"),
    "other.csv": (b"a,b\n1,2\n", "use --map text="),
    "chroma.json": (
        b'{"ids": ["a"], "documents": ["b"], "metadatas": [null, null]}',
        "as many documents and metadatas",
    ),
    "cut.md": (f'{TITLE}\n{MARK}"lines": 2}} -->\nx\n'.encode(), "as many lines"),
    "unknown.xyz": (b"some text", "use --from"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_with_the_place(memory, tmp_path, name):
    data, message = BROKEN[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(VecallError) as raised:
        import_file(memory, tmp_path / name, **OWNER)
    assert message in str(raised.value)
    assert str(raised.value).startswith(name)


def test_what_stands_before_a_broken_record_is_stored_and_reported(memory, tmp_path):
    path = tmp_path / "chat.jsonl"
    lines = [json.dumps({"role": "user", "content": f"say {n}"}) for n in range(1_200)]
    path.write_text("\n".join([*lines, '{"role": "user", "content": ']))
    report = ImportReport()
    with pytest.raises(InvalidArgumentError, match=r"^chat.jsonl, line 1201: "):
        import_file(memory, path, **OWNER, report=report)
    assert report.new == len(memory.sync.list_memories(**OWNER, limit=1_000)) + 200


def test_a_dry_run_reads_all_and_writes_nothing(memory):
    report = import_file(None, FIXTURES / "adk-sqlite.db")
    turns = report.kinds["turn"]
    assert (turns.count, turns.first, turns.last) == (3, AT, AT + 5)
    assert memory.sync.admin.stats()["memories"] == 0


def test_values_that_span_what_is_read_at_once_are_whole(tmp_path, monkeypatch):
    """Every way to cut the file gives the values of `json.loads`."""
    from vecall.importing import sources

    values = [
        {"a": "ż\u2028\U0001f600", "n": [12, -3.5e7, True, None]},
        12,
        "x",
        [[]],
    ]
    data = json.dumps(values).encode()
    path = tmp_path / "v.json"
    path.write_bytes(data)
    for size in range(1, 40):
        monkeypatch.setattr(sources, "_CHUNK", size)
        with path.open("rb") as stream:
            read = [each.value for each in sources.JsonReader(stream)]
        assert read == values


def test_every_format_has_a_name_that_the_guide_has():
    guide = Path(__file__).parents[2] / "docs" / "guide" / "import.md"
    text = guide.read_text()
    assert [name for name in FORMATS if f"`{name}`" not in text] == []


def test_the_metadata_of_a_message_stand_after_what_its_program_says(memory, tmp_path):
    """And lose against it; another order would be another metadata to the store."""
    message = {"role": "user", "content": KEEP, "id": "m1", "name": "Bo"}
    message["metadata"] = {"z": 1, "name": "Ann", "a": 2}
    (tmp_path / "openai.jsonl").write_text(json.dumps({"messages": [message]}))
    import_file(memory, tmp_path / "openai.jsonl", **OWNER)
    (found,) = memory.sync.list_memories(**OWNER)
    assert list(found.custom_metadata.items()) == [
        ("name", "Bo"),
        ("message_id", "m1"),
        ("z", 1),
        ("a", 2),
    ]
