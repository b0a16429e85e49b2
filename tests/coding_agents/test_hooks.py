"""`vecall hook` as agents run it: real processes, payloads and transcripts."""

from __future__ import annotations

import json
import subprocess

import pytest
from helpers.coding_agents import (
    claude_line,
    codex_line,
    cursor_line,
    quiet,
    run_hook,
    write_lines,
)
from vecall import MemoryEntry, MemoryService
from vecall.coding_agents.hook_command import hook_parser
from vecall.coding_agents.options import Options, agent_options_of, user_of_project

OWNER = {"app_name": "coding-agents", "user_id": "me"}
NINJA = "We build project zebra with ninja, never with make."


def prompt(text, session="now", **fields):
    return {
        "hook_event_name": "UserPromptSubmit",
        "session_id": session,
        "cwd": "/",
        "transcript_path": None,
        "prompt": text,
        **fields,
    }


def stop(transcript, session="s1", **fields):
    return {
        "hook_event_name": "Stop",
        "session_id": session,
        "cwd": "/",
        "transcript_path": str(transcript),
        "stop_hook_active": False,
        **fields,
    }


def stored(home, **owner):
    with MemoryService(home / ".local/share/vecall/memory.db", embedder=None) as memory:
        return memory.sync.list_memories(**{**OWNER, **owner}, limit=1_000)


def block_of(done):
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]


def test_what_was_said_in_one_session_is_recalled_in_another(home, tmp_path):
    path = write_lines(
        tmp_path / "t.jsonl",
        [claude_line("u1", "user", NINJA), claude_line("a1", "assistant", "Noted.")],
    )
    assert quiet(run_hook("retain", stop(path)))
    done = run_hook("recall", prompt("how do we build zebra?"))
    answer = json.loads(done.stdout)
    assert answer["suppressOutput"] is True
    assert answer["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    assert set(answer) == {"suppressOutput", "hookSpecificOutput"}
    assert NINJA in block_of(done)


def test_a_prompt_that_hardly_fits_a_memory_gets_nothing_unless_it_is_to(home):
    path = home / ".local/share/vecall/memory.db"
    path.parent.mkdir(parents=True)
    texts = [
        "The shopping list has eggs and bread.",
        "I like green tea.",
        "Tom is a cat.",
    ]
    with MemoryService(path, embedder=None) as memory:
        memory.sync.add_memory(**OWNER, memories=texts)
        (found,) = memory.sync.search_memory(**OWNER, query="sort list python")
    assert found.confidence < 0.2
    assert quiet(run_hook("recall", prompt("sort list python")))
    done = run_hook("recall", prompt("sort list python"), "--min-confidence", 0)
    assert "shopping list" in block_of(done)


@pytest.mark.parametrize("verb", ["recall", "retain", "start"])
def test_a_hook_has_the_options_of_the_guide_by_default(home, verb):
    assert agent_options_of(hook_parser().parse_args([verb])) == Options(
        path=home / ".local/share/vecall/memory.db",
        app="coding-agents",
        user="me",
        max_tokens=1_500,
        min_confidence=None,
        embedder="none",
    )


def test_the_present_session_is_not_recalled(home, tmp_path):
    path = write_lines(tmp_path / "t.jsonl", [claude_line("u1", "user", NINJA)])
    run_hook("retain", stop(path))
    assert quiet(run_hook("recall", prompt("how do we build zebra?", "s1")))
    assert NINJA in block_of(run_hook("recall", prompt("how do we build zebra?")))


def test_a_claude_code_transcript_gives_what_was_said_and_nothing_else(home, tmp_path):
    text = [{"type": "thinking", "thinking": "hmm"}, {"type": "text", "text": "Done."}]
    result = [{"type": "tool_result", "tool_use_id": "t", "content": "output"}]
    call = [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}]
    reminder = "<system-reminder>\ninner\n</system-reminder>\nPlain question?"
    path = write_lines(
        tmp_path / "t.jsonl",
        [
            {"type": "summary", "summary": "a title", "leafUuid": "x"},
            {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
            claude_line("1", "user", NINJA),
            claude_line("2", "assistant", call),
            claude_line("3", "user", result),
            claude_line("4", "assistant", text),
            claude_line("5", "user", "meta", isMeta=True),
            claude_line("6", "assistant", "from a subagent", isSidechain=True),
            claude_line("7", "user", "summary", isCompactSummary=True),
            claude_line("8", "user", "<command-name>/clear</command-name>"),
            claude_line("9", "user", reminder, timestamp="yesterday"),
            {"type": "attachment", "attachment": {"content": "context"}, "uuid": "10"},
        ],
    )
    path.write_text(path.read_text() + '{"type": "user", "uuid": "11", "mess')
    assert quiet(run_hook("retain", stop(path)))
    found = stored(home)
    assert [(each.text, each.author, each.event_id) for each in found] == [
        (NINJA, "user", "1"),
        ("Done.", "assistant", "4"),
        ("Plain question?", "user", "9"),
    ]
    assert found[0].session_id == "s1"
    assert found[0].timestamp == 1793527200.0
    assert found[0].custom_metadata == {
        "agent": "claude-code",
        "branch": "main",
        "folder": "/src/zebra",
    }
    assert found[2].timestamp is None


@pytest.mark.parametrize(
    "line",
    [
        claude_line("1", "user", "<command-message>init</command-message>"),
        claude_line("1", "user", "<local-command-stdout>ok</local-command-stdout>"),
        claude_line("1", "user", "<bash-input>ls</bash-input>"),
        claude_line("1", "user", "<bash-stdout>a file</bash-stdout>"),
        claude_line("1", "user", "<task-notification>done</task-notification>"),
        claude_line("1", "user", "[Request interrupted by user]"),
        claude_line("1", "user", "Caveat: The messages below were generated by"),
        claude_line("1", "assistant", "API Error: 500", isApiErrorMessage=True),
        codex_line(
            "response_item",
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "# AGENTS.md of a project"}],
            },
        ),
    ],
)
def test_what_an_agent_writes_in_the_name_of_the_user_is_no_turn(tmp_path, line):
    from vecall.coding_agents.transcript import read_turns

    path = write_lines(tmp_path / "t.jsonl", [line])
    assert read_turns(path).turns == []


def test_a_codex_transcript_gives_its_user_and_agent_messages(home, tmp_path):
    item = {"type": "message", "role": "user"}
    injected = [{"type": "input_text", "text": "<environment_context>"}]
    path = write_lines(
        tmp_path / "rollout.jsonl",
        [
            codex_line("session_meta", {"id": "s1", "cwd": "/src"}),
            codex_line("response_item", {**item, "content": injected}),
            codex_line("event_msg", {"type": "user_message", "message": NINJA}, 1),
            codex_line("event_msg", {"type": "agent_reasoning", "text": "hmm"}, 2),
            codex_line("event_msg", {"type": "agent_message", "message": "Yes."}, 3),
            codex_line("event_msg", {"type": "agent_message", "message": "Yes."}, 4),
            codex_line("event_msg", {"type": "token_count", "info": None}, 5),
        ],
    )
    for _ in range(2):
        assert quiet(run_hook("retain", stop(path, turn_id="1", model="gpt")))
    assert [(each.text, each.author) for each in stored(home)] == [
        (NINJA, "user"),
        ("Yes.", "assistant"),
        ("Yes.", "assistant"),
    ]


def test_a_codex_transcript_without_events_gives_the_messages_to_the_model(
    home, tmp_path
):
    def message(role, kind, text):
        content = [{"type": kind, "text": text}]
        return {"type": "message", "role": role, "content": content}

    path = write_lines(
        tmp_path / "rollout.jsonl",
        [
            codex_line("response_item", message("developer", "input_text", "rules")),
            codex_line("response_item", message("user", "input_text", "# AGENTS.md x")),
            codex_line("response_item", message("user", "input_text", NINJA)),
            codex_line("response_item", message("assistant", "output_text", "Yes.")),
        ],
    )
    run_hook("retain", stop(path))
    assert [each.text for each in stored(home)] == [NINJA, "Yes."]


def test_cursor_names_its_fields_otherwise(home, tmp_path):
    query = f"<timestamp>Monday</timestamp>\n<user_query>\n{NINJA}\n</user_query>"
    lines = [cursor_line("user", query), cursor_line("assistant", "Yes.")]
    path = write_lines(tmp_path / "t.jsonl", [*lines, {"type": "turn_ended"}])
    payload = {
        "hook_event_name": "stop",
        "conversation_id": "c1-0000000",
        "generation_id": "g",
        "workspace_roots": [str(tmp_path)],
        "transcript_path": str(path),
    }
    for _ in range(2):  # equal lines have equal ids
        assert quiet(run_hook("retain", payload))
    assert [(each.text, each.author) for each in stored(home)] == [
        (NINJA, "user"),
        ("Yes.", "assistant"),
    ]
    asked = {
        "hook_event_name": "beforeSubmitPrompt",
        "conversation_id": "c2",
        "workspace_roots": [str(tmp_path)],
        "prompt": "how do we build zebra?",
    }
    answer = json.loads(run_hook("recall", asked).stdout)
    assert answer.keys() == {"continue", "additional_context"}
    assert answer["continue"] is True
    assert NINJA in answer["additional_context"]


def test_a_cursor_transcript_that_is_not_named_is_found_by_its_session(home):
    folder = home / ".cursor/projects/src-zebra/agent-transcripts"
    write_lines(folder / "11111111.jsonl", [cursor_line("user", NINJA)])
    write_lines(folder / "22222222/22222222.jsonl", [cursor_line("user", "Hello!")])
    for session in ("11111111", "22222222", "33333333", "../../../etc"):
        payload = {"hook_event_name": "stop", "conversation_id": session}
        assert quiet(run_hook("retain", payload))
    assert {each.text for each in stored(home)} == {NINJA, "Hello!"}


def test_recalled_text_is_not_remembered_again(home, tmp_path):
    path = write_lines(tmp_path / "t.jsonl", [claude_line("u1", "user", NINJA)])
    run_hook("retain", stop(path))
    block = block_of(run_hook("recall", prompt("how do we build zebra?")))
    lines = [
        claude_line("u2", "user", f"how do we build zebra?\n{block}"),
        claude_line("u3", "user", [{"type": "text", "text": block}]),
        claude_line("a2", "assistant", "With ninja."),
    ]
    again = write_lines(tmp_path / "t2.jsonl", lines)
    assert quiet(run_hook("retain", stop(again, "s2")))
    assert [each.text for each in stored(home)] == [
        NINJA,
        "how do we build zebra?",
        "With ninja.",
    ]


def test_a_session_begins_with_the_newest_preferences_and_decisions(home, tmp_path):
    path = write_lines(tmp_path / "t.jsonl", [claude_line("u1", "user", NINJA)])
    run_hook("retain", stop(path))
    with MemoryService(home / ".local/share/vecall/memory.db", embedder=None) as memory:
        memory.sync.add_memory(
            **OWNER,
            memories=[
                MemoryEntry("Decided on SQLite.", kind="decision"),
                MemoryEntry("Prefers tabs.", kind="preference"),
                MemoryEntry("Prefers short answers.", kind="preference"),
            ],
        )
    payload = {"hook_event_name": "SessionStart", "session_id": "n", "source": "clear"}
    block = block_of(run_hook("start", payload))
    places = [
        block.index(text)
        for text in ("Prefers short answers.", "Prefers tabs.", "Decided on SQLite.")
    ]
    assert places == sorted(places)
    assert NINJA not in block
    small = block_of(run_hook("start", payload, "--max-tokens", 140))
    assert "Prefers short answers." in small
    assert "Decided on SQLite." not in small
    answer = json.loads(
        run_hook("start", {**payload, "hook_event_name": "sessionStart"}).stdout
    )
    assert answer == {"additional_context": answer["additional_context"]}


def test_a_long_answer_is_cut_to_what_an_agent_takes(home, tmp_path):
    words = " ".join(f"zebra{n} is built with ninja." for n in range(20_000))
    lines = [claude_line(f"u{n}", "user", f"{n} {words}") for n in range(12)]
    path = write_lines(tmp_path / "t.jsonl", lines)
    assert quiet(run_hook("retain", stop(path)))
    assert all("more characters]" in each.text for each in stored(home))
    asked = prompt("what is zebra7 built with?")
    assert 0 < len(block_of(run_hook("recall", asked))) <= 9_900
    huge = block_of(run_hook("recall", asked, "--max-tokens", 100_000))
    assert 0 < len(huge) <= 9_900


def git(*arguments, cwd):
    subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True)


def test_projects_share_nothing_but_worktrees_share_their_repository(home, tmp_path):
    for name in ("zebra", "other"):
        (tmp_path / name / "src").mkdir(parents=True)
        git("init", "-q", cwd=tmp_path / name)
    who = ["-c", "user.name=x", "-c", "user.email=x@x"]
    git(*who, "commit", "-q", "--allow-empty", "-m", "x", cwd=tmp_path / "zebra")
    git("worktree", "add", "-q", str(tmp_path / "tree"), cwd=tmp_path / "zebra")
    path = write_lines(tmp_path / "t.jsonl", [claude_line("u1", "user", NINJA)])
    from_cwd = ("--user-from", "cwd")
    run_hook("retain", stop(path, cwd=str(tmp_path / "zebra/src")), *from_cwd)
    asked = "how do we build zebra?"
    for folder, known in (("zebra", True), ("tree", True), ("other", False)):
        payload = prompt(asked, cwd=str(tmp_path / folder))
        assert quiet(run_hook("recall", payload, *from_cwd)) is not known
    assert quiet(run_hook("recall", prompt(asked, cwd=str(tmp_path / "zebra"))))


@pytest.mark.parametrize("link", ["none", "other", "back"])
def test_a_folder_that_names_another_repository_is_a_project_of_its_own(tmp_path, link):
    """Git refuses a worktree as well that the repository does not name."""
    mine = tmp_path / "zebra"
    unpacked = tmp_path / "unpacked"
    named = mine / ".git/worktrees/x"
    unpacked.mkdir()
    (unpacked / ".git").write_text(f"gitdir: {named}\n")
    named.mkdir(parents=True)
    if link != "none":
        there = unpacked if link == "back" else tmp_path / "tree"
        (named / "gitdir").write_text(f"{there}/.git\n")
    same = user_of_project(str(unpacked)) == user_of_project(str(mine))
    assert same is (link == "back")


@pytest.mark.parametrize("options", [("--app", "other"), ("--user", "bob")])
def test_another_app_or_user_recalls_nothing(tmp_path, options):
    path = write_lines(tmp_path / "t.jsonl", [claude_line("u1", "user", NINJA)])
    run_hook("retain", stop(path))
    asked = prompt("how do we build zebra?")
    assert quiet(run_hook("recall", asked, *options))


def test_a_deleted_turn_stays_deleted(home, tmp_path):
    path = write_lines(tmp_path / "t.jsonl", [claude_line("u1", "user", NINJA)])
    run_hook("retain", stop(path))
    with MemoryService(home / ".local/share/vecall/memory.db", embedder=None) as memory:
        (found,) = memory.sync.list_memories(**OWNER)
        memory.sync.delete_memory(**OWNER, memory_id=found.id)
    run_hook("retain", stop(path))
    assert stored(home) == []


def test_a_file_with_vectors_is_searched_by_words_without_a_warning(home, tmp_path):
    path = tmp_path / "vectors.db"
    with MemoryService(path, embedder=lambda texts: [[1.0, 0.0]] * len(texts)) as made:
        made.sync.add_memory(**OWNER, memories=[NINJA])
    asked = prompt("how do we build zebra?")
    assert NINJA in block_of(run_hook("recall", asked, "--path", path))


def test_without_memories_nothing_is_printed_and_no_file_is_made(home):
    assert quiet(run_hook("recall", prompt("how do we build zebra?")))
    assert quiet(run_hook("start", {"hook_event_name": "SessionStart"}))
    assert list(home.rglob("*")) == []
