"""`vecall erase` says where a name remains, and does not take a part for the name."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from helpers.campaigns import scaled
from vecall import MemoryEntry, MemoryService, Put
from vecall.cli.main import main
from vecall.store import name_traces, partitions_of_user

AWKWARD = [
    "100%",
    "a_b",
    "[a-z]*?",
    "李",
    "Łukasz",
    'O"Brien',
    "back\\slash",
    "x'y",
    "é",
]


def erased(path, user, capsys):
    """The exit status of the command, and the places that it names."""
    code = main(["erase", "--user", user, "--yes", "--json", "--path", str(path)])
    return code, json.loads(capsys.readouterr().out)["places"]


def stored(path, texts):
    """A file with one memory of each user."""
    with MemoryService(path, embedder=None).sync as memory:
        for user, text in texts.items():
            memory.user("hotel", user).add([text])
    return path


@pytest.mark.campaign
def test_numbered_users_are_erased_one_after_another(tmp_path, capsys):
    users = {f"user{n}": f"Has dog {n}, as users do." for n in range(1, 101)}
    path = stored(tmp_path / "m.db", users)
    first = [1, 10, 100, 2, 20, 11]
    order = [*first, *(n for n in range(3, 101) if n not in first)]
    for n in order[: scaled(99, 6)]:
        assert erased(path, f"user{n}", capsys) == (0, [])
        assert b"user1" in path.read_bytes() or n not in first  # in another name


@pytest.mark.parametrize("name", AWKWARD)
def test_any_name_is_found_as_a_value_and_not_in_a_longer_name(tmp_path, capsys, name):
    longer = {f"{name}7": "one", f"7{name}": f"about {name}7 and x{name}", "x": "two"}
    if name == "李":  # such scripts have no spaces: any part may be the name
        longer = {f"{name}7": "one", "x": "two"}
    path = stored(tmp_path / "m.db", {name: "own", **longer})
    assert erased(path, name, capsys) == (0, [])
    path = stored(tmp_path / "n.db", {name: "own", **longer})
    with MemoryService(path, embedder=None).sync as memory:
        of_x = memory.user("hotel", "x")
        of_x.add([MemoryEntry("three", id="3", custom_metadata={"friends": [name]})])
        of_x.add_events([{"id": "e", "content": f"Ask {name}."}], session_id=name)
        memory.items.write(
            app_name="hotel",
            user_id="x",
            operations=[Put(("of", name), "k", {}), Put(("n",), "k", {name: 1})],
        )
    assert erased(path, name, capsys) == (
        1,
        [
            f"{path}: column {column}"
            for column in (
                "session of table mem",
                "text of table mem",
                "meta of table mem",
                "ns of table item",
                "value of table item",
                "name of table fig",
            )
        ],
    )


@pytest.mark.parametrize(
    ("text", "remains"),
    [
        ("Met user1 today.", True),
        ("(user1)", True),
        ("user1's dog", True),
        ("user1", True),
        ("user1.", True),
        ("Ask user1, user10.", True),
        ("Met user10 today.", False),
        ("superuser1", False),
        ("user1-2 and user1.old and user1@host", False),
        ("x.user1 and my_user1", False),
        ("user1_2", False),
        ("USER1", False),
    ],
)
def test_a_text_has_the_name_as_words_of_its_own(tmp_path, capsys, text, remains):
    path = stored(tmp_path / "m.db", {"user1": "own", "bob": text})
    places = [f"{path}: column text of table mem"] if remains else []
    assert erased(path, "user1", capsys) == (int(remains), places)


def test_the_name_in_another_app_and_what_it_is_told_by(tmp_path, capsys):
    path = stored(tmp_path / "m.db", {"user1": "own"})
    with MemoryService(path, embedder=None).sync as memory:
        memory.user("desk", "user1").add(["other"])
    asked = ["erase", "--user", "user1", "--app", "desk", "--yes", "--path", str(path)]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert f"  {path}: column user of table part\n" in said
    assert main([*asked[:3], *asked[5:]]) == 0
    assert "no longer has the name" in capsys.readouterr().out


@pytest.mark.parametrize("many", [1, 200])
def test_deleted_bytes_are_searched_too(tmp_path, many):
    """A file that was not purged still has them: in free pages or between rows."""
    path = tmp_path / "m.db"
    name = "somebody-4711"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("CREATE TABLE t (a TEXT)")
        rows = [(f"kept {n}",) for n in range(3)] + [(name,)] * many
        connection.executemany("INSERT INTO t VALUES (?)", rows)
        connection.commit()
        assert (path, "column a of table t") in name_traces(path, name)
        connection.execute("DELETE FROM t WHERE a = ?", (name,))
        connection.commit()
        places = {place for _, place in name_traces(path, name)}
        assert places <= {"the unused bytes of a page", "a free page"}
        assert places
        connection.execute("VACUUM")
    assert name_traces(path, name) == []


def test_rows_with_the_number_of_a_user_are_told(tmp_path, capsys):
    path = stored(tmp_path / "m.db", {"user1": "own", "bob": "other"})
    parts = partitions_of_user(path, "user1", None).parts
    assert len(parts) == 1
    remain = {place for _, place in name_traces(path, "nobody", parts)}
    assert remain == {f"rows of the user in table {t}" for t in ("part", "mem", "chg")}
    assert erased(path, "user1", capsys) == (0, [])
    assert name_traces(path, "nobody", parts) == []


def test_a_file_among_the_snapshots_is_searched_unless_it_is_one(tmp_path):
    path = stored(tmp_path / "m.db", {"user1": "own"})
    folder = tmp_path / "m.db.snap"
    folder.mkdir(exist_ok=True)
    (folder / "1.vs").write_bytes(b"vecallS1 somebody")
    assert name_traces(path, "somebody") == []
    (folder / "notes").write_bytes(b"for somebody")
    assert name_traces(path, "somebody") == [(folder / "notes", "no snapshot")]
