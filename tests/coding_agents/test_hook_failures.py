"""A hook never disturbs the agent: status 0, nothing printed, a line in the log."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import pytest
from helpers import processes
from helpers.coding_agents import (
    HOOK,
    IMPORTS,
    claude_line,
    cursor_line,
    quiet,
    run_hook,
    write_lines,
)
from vecall import MemoryService, StorageError

OWNER = {"app_name": "coding-agents", "user_id": "me"}
SECRET = "xylophone"  # a word of the user, which no log may have
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": SECRET}
FULL = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"


def claude_of(number, text):
    return claude_line(f"u{number}", "user", text)


def cursor_of(_, text):
    return cursor_line("user", text)


def stop(transcript, session="s1"):
    return {
        "hook_event_name": "Stop",
        "session_id": session,
        "transcript_path": str(transcript),
    }


@pytest.fixture
def file(home):
    path = home / ".local/share/vecall/memory.db"
    path.parent.mkdir(parents=True)
    with MemoryService(path, embedder=None) as memory:
        memory.sync.add_memory(**OWNER, memories=[f"The {SECRET} is loud."])
    return path


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", "not JSON"),
        (f"{SECRET}", "not JSON"),
        ('{"prompt": "' + SECRET, "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('["' + SECRET + '"]', "not a JSON object"),
        (json.dumps({"prompt": SECRET}), "no hook_event_name"),
        (json.dumps({**PROMPT, "hook_event_name": 7}), "no hook_event_name"),
    ],
)
def test_input_that_is_not_a_payload(log, given, why):
    verb = ("recall", "retain", "start")[len(given) % 3]
    assert quiet(run_hook(verb, given))
    (line,) = log()
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\dT[\d:]+Z {verb}: the input .*{why}", line)


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": None},
        {"prompt": ["x"]},
        {"prompt": "  \n"},
        {"prompt": "\x00 \ud800 \u202e"},
        {"prompt": f"{SECRET} " * 200_000},
        {"session_id": None},
        {"session_id": 5},
        {"cwd": 5, "workspace_roots": [5]},
        {"cwd": "/no/such/folder"},
        {"hook_event_name": "Unknown"},
    ],
)
def test_fields_of_another_form_are_no_failure(file, log, fields):
    done = run_hook("recall", {**PROMPT, **fields})
    assert (done.returncode, done.stderr) == (0, "")
    if done.stdout:
        json.loads(done.stdout)
    assert not log()


@pytest.mark.parametrize("verb", ["recall", "retain"])
@pytest.mark.parametrize("name", ["s" * 600, "a\x00b"])
def test_a_session_with_an_impossible_name_is_a_line_in_the_log(
    file, log, tmp_path, verb, name
):
    path = write_lines(tmp_path / "t.jsonl", [claude_line("1", "user", SECRET)])
    payload = {**PROMPT, "session_id": name, "transcript_path": str(path)}
    assert quiet(run_hook(verb, payload))
    assert log()
    assert SECRET not in "".join(log())


def transcripts(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    return [
        tmp_path / "fifo",
        tmp_path / "folder",
        tmp_path / "loop",
        tmp_path / "none",
        "/dev/zero",
        "a\x00b",
        "x" * 5_000,
    ]


def test_a_transcript_that_cannot_be_read_is_a_line_in_the_log(file, log, tmp_path):
    paths = transcripts(tmp_path)
    for path in paths:
        assert quiet(run_hook("retain", stop(path))), path
    assert len(log()) == len(paths)
    assert quiet(run_hook("retain", {"hook_event_name": "Stop"}))
    assert log()[-1].endswith("the input names no session with a transcript")


def test_broken_lines_of_a_transcript_are_skipped(file, log, tmp_path):
    lines = [
        b"\xff\xfe\n",
        b"[" * 50_000 + b"\n",
        b"null\n7\n[]\n{}\n\n",
        json.dumps({"type": "user", "uuid": "1", "message": 5}).encode() + b"\n",
        json.dumps(claude_line("x", "user", [5, {"type": "text"}])).encode() + b"\n",
        json.dumps(claude_line("y", "user", "\ud800 ok")).encode() + b"\n",
        json.dumps(claude_line("z", "user", "a" * 5_000_000)).encode() + b"\n",
        json.dumps(claude_line("w", "user", "b" * 30_000 + "c" * 20_000)).encode()
        + b"\n",
        json.dumps({"role": "user", "message": "x"}).encode() + b"\n",
        json.dumps({"payload": {}, "type": "event_msg"}).encode() + b"\n",
    ]
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"".join(lines))
    assert quiet(run_hook("retain", stop(path)))
    with MemoryService(file, embedder=None) as memory:
        texts = [each.text for each in memory.sync.list_memories(**OWNER)]
    note = "\n[18000 more characters]\n"
    assert texts[1:] == ["\ufffd ok", "b" * 16_000 + note + "c" * 16_000]
    assert not log()


def test_of_a_huge_transcript_the_end_is_read(file, log, tmp_path, monkeypatch):
    from vecall.coding_agents import transcript

    monkeypatch.setattr(transcript, "MOST_BYTES", 10_000)
    lines = [claude_line(f"u{n}", "user", f"turn {n}") for n in range(500)]
    path = write_lines(tmp_path / "t.jsonl", lines)
    turns, unread = transcript.read_turns(path)
    assert path.stat().st_size - 10_000 <= unread < path.stat().st_size - 9_000
    assert turns[-1].text == "turn 499"
    assert [each.text for each in turns] == [
        f"turn {n}" for n in range(500 - len(turns), 500)
    ]
    assert 30 < len(turns) < 60


def test_turns_keep_their_ids_when_the_beginning_is_not_read_any_more(
    tmp_path, monkeypatch
):
    """Cursor's lines have no ids; a turn with a new one would be stored again."""
    from vecall.coding_agents import transcript

    lines = [cursor_line("user", f"turn {n}") for n in range(200)]
    path = write_lines(tmp_path / "t.jsonl", lines)
    whole = {each.text: each.id for each in transcript.read_turns(path).turns}
    assert len(set(whole.values())) == 200
    monkeypatch.setattr(transcript, "MOST_BYTES", 5_000)
    last = {each.text: each.id for each in transcript.read_turns(path).turns}
    assert 20 < len(last) < 100
    assert last.items() <= whole.items()


@pytest.mark.parametrize("size", [1_000, 1_001])
def test_an_input_is_read_up_to_a_size(monkeypatch, size):
    from vecall.coding_agents import hook_command as hook

    monkeypatch.setattr(hook, "MOST_INPUT_BYTES", 1_000)
    reader, writer = os.pipe()
    os.write(writer, json.dumps(PROMPT).ljust(size).encode())
    os.close(writer)
    try:
        if size == 1_000:
            assert hook.read_hook_payload(reader).prompt == SECRET
        else:
            with pytest.raises(hook.PayloadError, match="more than 1000 bytes"):
                hook.read_hook_payload(reader)
    finally:
        os.close(reader)


def test_the_log_repeats_no_message_that_may_hold_a_text():
    from vecall.coding_agents.hook_command import hook_error_reason

    assert hook_error_reason(ValueError(SECRET)) == "ValueError"
    assert hook_error_reason(OSError(2, SECRET)) == "FileNotFoundError"
    assert (
        hook_error_reason(StorageError("the disk failed"))
        == "StorageError: the disk failed"
    )


def test_turns_that_a_service_refuses_are_counted(tmp_path):
    """All of a transaction, if their session is refused; the others are stored."""
    from vecall.coding_agents.hook_command import retain_turns
    from vecall.coding_agents.transcript import Turn

    turns = [Turn(f"u{n}", "user", f"turn {n}", None) for n in range(300)]
    with MemoryService(tmp_path / "m.db", embedder=None) as memory:
        assert retain_turns(memory, OWNER, "\0", turns, lambda: 1.0) == (300, 0)
        odd = [*turns[:299], Turn("u299", "user", " ", None)]
        assert retain_turns(memory, OWNER, "s", odd, lambda: 1.0)[1] == 0
        assert memory.sync.count_memories(**OWNER) == 299


def test_a_profile_is_read_as_far_as_the_time_allows(tmp_path, monkeypatch):
    from vecall.coding_agents import hook_command as hook

    monkeypatch.setattr(hook, "_PAGE", 2)
    with MemoryService(tmp_path / "m.db", embedder=None) as memory:
        told = [{"content": f"tea {n}", "kind": "preference"} for n in range(9)]
        memory.sync.add_memory(**OWNER, memories=told)
        for seconds, read in (([1.0, 0.51, 0.49], 4), ([1.0] * 9, 9)):
            given = iter(seconds)
            block = hook.profile_for_hook(
                memory, OWNER, max_tokens=1_500, left=lambda given=given: next(given)
            )
            assert sorted(re.findall(r"tea (\d)", block)) == list("012345678")[:read]


@pytest.mark.parametrize("name", ["????????", "*", "../other/abcdefgh", "abcdefg[h]"])
def test_a_session_that_is_a_pattern_or_a_path_names_no_transcript(home, name):
    from vecall.coding_agents.transcript import find_transcript

    folder = home / ".cursor/projects/p/agent-transcripts"
    path = write_lines(folder / "abcdefgh.jsonl", [cursor_line("user", "hello")])
    write_lines(folder.parent / "other/abcdefgh.jsonl", [cursor_line("user", "hello")])
    assert find_transcript(None, "abcdefgh") == path
    assert find_transcript(None, name) is None


def test_no_transaction_is_begun_when_the_time_is_nearly_over(tmp_path):
    """Each has 256 turns; the rest is left for the next hook, which stores it."""
    from vecall.coding_agents.hook_command import retain_turns
    from vecall.coding_agents.transcript import Turn

    turns = [Turn(f"u{n}", "user", f"turn {n}", None) for n in range(600)]
    with MemoryService(tmp_path / "m.db", embedder=None) as memory:
        seconds = iter([1.0, 0.21, 0.19])
        assert retain_turns(memory, OWNER, "s", turns, lambda: next(seconds)) == (0, 88)
        assert memory.sync.count_memories(**OWNER) == 512
        assert retain_turns(memory, OWNER, "s", turns, lambda: 1.0) == (0, 0)
        assert memory.sync.count_memories(**OWNER) == 600


def test_of_a_transcript_that_is_read_in_part_the_log_says_so(file, log, tmp_path):
    line = json.dumps(claude_line("u0", "user", "the first turn"))
    path = tmp_path / "t.jsonl"
    with path.open("w") as stream:
        stream.write(line + "\n")
        stream.truncate(40_000_000)  # zeros, as of a file system after a power cut
        stream.seek(0, os.SEEK_END)
        stream.write("\n" + line.replace("u0", "u1").replace("first", "last") + "\n")
    assert quiet(run_hook("retain", stop(path)))
    with MemoryService(file, embedder=None) as memory:
        texts = [each.text for each in memory.sync.list_memories(**OWNER)]
    assert texts[1:] == ["the last turn"]
    assert re.search(r" retain: \d+ bytes of the transcript were not read$", log()[0])


def test_of_a_transcript_that_takes_too_long_the_beginning_is_read(tmp_path):
    from vecall.coding_agents import transcript

    lines = [claude_line(f"u{n}", "user", f"turn {n}") for n in range(50)]
    path = write_lines(tmp_path / "t.jsonl", lines)
    seconds = iter([2.0] * 21 + [0.9])
    turns, unread = transcript.read_turns(path, lambda: next(seconds))
    assert [each.text for each in turns] == [f"turn {n}" for n in range(20)]
    assert unread == sum(len(json.dumps(line)) + 1 for line in lines[20:])


@pytest.mark.parametrize("tag", ["<system-reminder>", "<timestamp>", "<user_query>"])
@pytest.mark.parametrize("make", [claude_of, cursor_of], ids=["claude", "cursor"])
def test_a_turn_of_tags_without_ends_is_stored_as_its_neighbours_are(
    file, log, tmp_path, tag, make
):
    said = ["I like green tea.", tag * 30_000, "And quiet rooms."]
    lines = [make(n, text) for n, text in enumerate(said)]
    path = write_lines(tmp_path / "t.jsonl", lines)
    assert quiet(run_hook("retain", stop(path), seconds=2.0))
    with MemoryService(file, embedder=None) as memory:
        texts = [each.text for each in memory.sync.list_memories(**OWNER)]
    assert [text[:17] for text in texts[1:]] == [text[:17] for text in said]
    assert not log()


ENDLESS = """
import re, sys
from vecall.coding_agents.hook_command import Deadline
from vecall.coding_agents import hook_command as hook
hook.SECONDS["recall"] = 0.4
Deadline("recall")
print("begins", flush=True)
re.match("(a*)*b", "a" * 10_000)
"""


def test_a_hook_that_python_cannot_interrupt_ends_at_its_deadline(log):
    """One call of a regular expression keeps the interpreter for years."""
    done = processes.run(ENDLESS, imports=IMPORTS, timeout_s=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "begins\n", "")
    assert [line.partition(" ")[2] for line in log()] == [
        "recall: ended at its deadline"
    ]


LEFT = """
from vecall.coding_agents.hook_command import Deadline
for verb in ("recall", "start", "retain"):
    end = Deadline(verb)
    end.cancel_deadline()
    print(end.seconds_left())
"""

SLOW_START = """
import time
time.sleep(0.5)
from vecall.coding_agents import hook_command as hook
hook.SECONDS["recall"] = 0.4
print("begins", flush=True)
hook.Deadline("recall")
time.sleep(0.15)  # less than it would have if its start did not count
print("still works")
"""


def test_remembering_has_more_time_than_what_an_agent_waits_for():
    done = processes.run(LEFT, imports=IMPORTS, timeout_s=30)
    recall, start, retain = map(float, done.stdout.split())
    assert max(recall, start) <= 1.9
    assert 5.0 < retain <= 7.9  # less than the ten seconds that the agents give it


@pytest.mark.skipif(sys.platform != "linux", reason="the age of a process, by /proc")
def test_the_time_of_a_hook_counts_from_the_start_of_its_process(log):
    done = processes.run(SLOW_START, imports=IMPORTS, timeout_s=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "begins\n", "")
    assert [line.partition(" ")[2] for line in log()] == [
        "recall: ended at its deadline"
    ]


def broken_files(tmp_path):
    (tmp_path / "folder.db").mkdir()
    (tmp_path / "text.db").write_text(SECRET * 1_000)
    (tmp_path / "loop.db").symlink_to(tmp_path / "loop.db")
    (tmp_path / "plain").write_text("x")
    return [tmp_path / "folder.db", tmp_path / "text.db", tmp_path / "plain/memory.db"]


def test_a_file_that_is_not_a_memory_is_a_line_in_the_log(log, tmp_path):
    path = write_lines(tmp_path / "t.jsonl", [claude_line("1", "user", SECRET)])
    for file in broken_files(tmp_path):
        assert quiet(run_hook("retain", stop(path), "--path", file)), file
        assert quiet(run_hook("recall", PROMPT, "--path", file)), file
    assert len(log()) >= 4
    assert SECRET not in "".join(log())


@pytest.mark.parametrize("verb", ["recall", "retain", "start"])
def test_a_locked_file_ends_the_hook_at_its_deadline(file, log, tmp_path, verb):
    path = write_lines(tmp_path / "t.jsonl", [claude_line("1", "user", SECRET)])
    with processes.child(processes.HOLDER, file) as holder:
        assert processes.said(holder) == "held"
        assert quiet(run_hook(verb, {**PROMPT, **stop(path)}, seconds=0.4))
    assert [line.partition(" ")[2] for line in log()] == [
        f"{verb}: ended at its deadline"
    ]


def test_input_that_never_ends_ends_the_hook_at_its_deadline(file, log):
    with processes.child(HOOK, 0.3, "hook", "recall", imports=IMPORTS) as hook:
        hook.stdin.write("{")
        hook.stdin.flush()
        assert hook.wait(30) == 0
        assert hook.stdout.read() == ""
    assert log()[0].endswith("recall: ended at its deadline")


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_FSIZE as on Linux")
def test_a_full_disk_is_no_failure_of_the_agent(file, tmp_path):
    before = file.read_bytes()
    path = write_lines(tmp_path / "t.jsonl", [claude_line("1", "user", SECRET)])
    for verb in ("retain", "recall", "start"):
        done = processes.run(
            FULL + HOOK,
            30,
            "hook",
            verb,
            imports=IMPORTS,
            stdin=json.dumps({**PROMPT, **stop(path)}),
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), verb
        assert done.stdout == "" or verb == "recall"
    assert file.read_bytes() == before


def test_a_log_that_cannot_be_written_is_no_failure(file, home):
    (home / ".local/state").mkdir()
    (home / ".local/state/vecall").write_text("not a folder")
    assert quiet(run_hook("recall", "nonsense"))


def test_the_log_does_not_grow_without_end(file, home, log):
    path = home / ".local/state/vecall/hooks.log"
    path.parent.mkdir(parents=True)
    path.write_text("x" * 1_000_001)
    run_hook("recall", "nonsense")
    assert len(log()) == 1
    assert path.with_name("hooks.log.1").stat().st_size == 1_000_001


@pytest.mark.parametrize("arguments", [[], ["bogus"], ["recall", "--top"]])
def test_wrong_arguments_do_not_block_the_prompt(log, arguments):
    done = processes.run(
        HOOK, 30, "hook", *arguments, imports=IMPORTS, stdin="", check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr
    assert log()[0].endswith("wrong arguments: see vecall hook --help")


def test_a_reader_that_is_gone_is_no_failure(file):
    line = json.dumps({**PROMPT, "session_id": "other"})
    command = [sys.executable, "-m", "vecall.cli.main", "hook", "recall"]
    hook = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    hook.stdout.close()
    hook.stdin.write(line.encode())
    hook.stdin.close()
    assert hook.stderr.read() == b""
    assert hook.wait(60) == 0
    hook.stderr.close()


def test_a_killed_hook_loses_nothing_and_the_next_one_completes_it(file, tmp_path):
    lines = [claude_line(f"u{n}", "user", f"turn number {n}") for n in range(1_000)]
    path = write_lines(tmp_path / "t.jsonl", lines)
    whole = {f"turn number {n}" for n in range(1_000)}
    seen: set[str] = set()
    for delay in (0.0, 0.01, 0.02, 0.04, 0.08):
        with processes.child(HOOK, 30, "hook", "retain", imports=IMPORTS) as hook:
            hook.stdin.write(json.dumps(stop(path)))
            hook.stdin.close()
            hook.stdin = None
            time.sleep(delay)
        with MemoryService(file, embedder=None) as memory:
            page = memory.sync.list_memories(**OWNER, limit=1_000)
        now = {each.text for each in page} & whole
        assert seen <= now
        seen = now
    assert quiet(run_hook("retain", stop(path)))
    with MemoryService(file, embedder=None) as memory:
        first = memory.sync.list_memories(**OWNER, limit=1_000)
        rest = memory.sync.list_memories(**OWNER, cursor=first[-1].id, limit=1_000)
    texts = [each.text for each in first + rest][1:]
    assert texts == [f"turn number {n}" for n in range(1_000)]


def test_several_sessions_remember_and_recall_in_one_file_at_once(file, log, tmp_path):
    running = []
    for session in range(4):
        lines = [
            claude_line(f"{session}-{n}", "user", f"{SECRET} {session} {n}")
            for n in range(50)
        ]
        path = write_lines(tmp_path / f"{session}.jsonl", lines)
        asked = {**PROMPT, "session_id": f"{session}"}
        given = {"retain": stop(path, f"{session}"), "recall": asked}
        for verb, payload in given.items():
            hook = processes.child(HOOK, 30, "hook", verb, imports=IMPORTS)
            process = hook.__enter__()
            running.append((hook, process))
            process.stdin.write(json.dumps(payload))
            process.stdin.close()
            process.stdin = None
    for hook, process in running:
        assert process.wait(60) == 0
        hook.__exit__(None, None, None)
    assert not log()
    with MemoryService(file, embedder=None) as memory:
        texts = [each.text for each in memory.sync.list_memories(**OWNER, limit=500)]
    assert sorted(texts[1:]) == sorted(
        f"{SECRET} {session} {n}" for session in range(4) for n in range(50)
    )
