"""What `vecall export` writes for people comes in again as it was."""

from __future__ import annotations

import pytest
from vecall import ConfigError, InvalidArgumentError, MemoryService
from vecall.importing import EXPORTS, export_file, import_file

APP = {"app_name": "hotel"}
TEXTS = [
    "Keeps zebras.",
    'Two\nlines, and "quotes"; \ttabs',
    '---\ntype: none\n---\n# no heading\n<!-- vecall {"lines": 9} -->',
    " Żubr \u2028 and\r\nother ends\r",
    "```\nopen fence\n\n",
]


def facts(memory):
    found = []
    for user in ("ann", "bo / ł"):
        for each in memory.sync.list_memories(**APP, user_id=user, limit=1_000):
            names = (
                "id text author timestamp session_id event_id kind source trust "
                "importance custom_metadata valid_until"
            ).split()
            found.append((user, *(getattr(each, name) for name in names)))
    return found


@pytest.mark.parametrize("form", EXPORTS)
def test_an_export_comes_back_with_ids_times_sessions_and_metadata(tmp_path, form):
    with MemoryService(tmp_path / "a.db", embedder=None) as memory:
        for user in ("ann", "bo / ł"):
            memory.sync.add_memory(
                **APP,
                user_id=user,
                memories=[
                    {
                        "text": text,
                        "timestamp": 1_700_000_000.123456 + n,
                        "kind": "fact",
                        "importance": 0.25,
                        "custom_metadata": {"n": n, "ttl": "kept", "a": ["ż", None]},
                    }
                    for n, text in enumerate(TEXTS)
                ],
                verbatim=True,
            )
            turns = [
                {"role": "user", "content": text, "id": f"e{n}", "timestamp": n}
                for n, text in enumerate(TEXTS)
            ]
            turns.append({"role": "user", "content": "without an id"})
            memory.sync.add_events_to_memory(
                **APP, user_id=user, session_id="s", events=turns
            )
        expected = facts(memory)
        count = export_file(memory, tmp_path / "out.md", format=form)
        with pytest.raises(ConfigError):
            export_file(memory, tmp_path / "out.md", format=form)
        with pytest.raises(InvalidArgumentError):
            export_file(memory, tmp_path / "other", format="pdf")
    assert count == len(expected) == 22
    read = {"csv": "csv", "md": "markdown", "okf": "okf"}[form]
    with MemoryService(tmp_path / "b.db", embedder=None) as memory:
        report = import_file(memory, tmp_path / "out.md", format=read)
        assert sorted(facts(memory), key=str) == sorted(expected, key=str)
        assert (report.new, report.left_out, +report.fields) == (22, {}, {})
        assert import_file(memory, tmp_path / "out.md", format=read).new == 0
