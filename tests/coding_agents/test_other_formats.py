"""Agents with other formats: comments, programs as hooks, servers instead of hooks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from helpers.coding_agents import HOOK, quiet, run_hook, write_lines
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import MemoryEntry, MemoryService
from vecall.cli.main import main
from vecall.coding_agents.install import AGENTS, BACKUP, MARK, install, uninstall_hooks

NINJA = "We build project zebra with ninja, never with make."
ASKED = "how do we build zebra?"
OWNER = {"app_name": "coding-agents", "user_id": "me"}
VECALL = [sys.executable, "-m", "vecall.cli.main"]
GEMINI = AGENTS["gemini-cli"]
SERVERS = [name for name, agent in AGENTS.items() if not agent.events]


def stored(home):
    with MemoryService(home / ".local/share/vecall/memory.db", embedder=None) as memory:
        found = memory.sync.list_memories(**OWNER, limit=1_000)
        return [(each.text, each.author, each.session_id) for each in found]


def remember(home):
    path = home / ".local/share/vecall/memory.db"
    path.parent.mkdir(parents=True)
    with MemoryService(path, embedder=None) as memory:
        memory.sync.add_memory(**OWNER, memories=[NINJA])


def parsed(text):
    """A document with comments, read character by character."""
    shown, at, is_string = "", 0, False
    while at < len(text):
        if is_string or text[at] == '"':
            if text[at] == "\\":
                shown += text[at : at + 2]
                at += 2
                continue
            is_string ^= text[at] == '"'
        elif text.startswith("//", at):
            while at < len(text) and text[at] not in "\r\n":
                at += 1
            continue
        elif text.startswith("/*", at):
            at = text.index("*/", at) + 2
            continue
        shown += text[at]
        at += 1
    return json.loads(shown)


COMMENTED = """// mine
{
  /* the theme */
  "theme": "GitHub", // "dark": 5
  "hooks": {
    // of another program
    "AfterAgent": [
      {"hooks": [{"type": "command", "command": "echo // no comment"}]} // last
    ]
  },
  "url": "http://host/*" /* end */
}
// after
"""


@pytest.mark.parametrize("has_backup", [True, False])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_comments_stay_byte_for_byte(tmp_path, has_backup, newline):
    path = tmp_path / "settings.json"
    before = COMMENTED.replace("\n", newline).encode()
    path.write_bytes(before)
    hooks = GEMINI.hooks(VECALL, [])
    assert install(GEMINI, path, hooks)
    text = path.read_bytes().decode()
    found = parsed(text)["hooks"]
    assert found["SessionStart"] == [hooks["SessionStart"]]
    assert found["AfterAgent"][1:] == [hooks["AfterAgent"]]
    assert not install(GEMINI, path, hooks)
    if not has_backup:
        path.with_name(path.name + BACKUP).unlink()
    assert uninstall_hooks(GEMINI, path)
    assert path.read_bytes() == before
    assert not uninstall_hooks(GEMINI, path)
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == [path.name]


def test_a_comment_written_after_the_installation_survives(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text('{\n  "theme": "dark"\n}\n')
    install(GEMINI, path, GEMINI.hooks(VECALL, []))
    path.write_text(path.read_text().replace('"theme"', '// mine\n  "theme"'))
    assert uninstall_hooks(GEMINI, path)
    assert path.read_text() == '{\n  // mine\n  "theme": "dark"\n}\n'


@pytest.mark.parametrize(
    "broken", ["// x", "{} /", '{"hooks": {"enabled": true}}', "{,}", '{"a": 1,}']
)
def test_settings_with_comments_of_another_form_are_left_alone(
    tmp_path, capsys, broken
):
    path = tmp_path / "settings.json"
    path.write_text(broken)
    assert main(["install", "gemini-cli", "--settings", str(path)]) == 1
    assert "not changed" in capsys.readouterr().err
    assert path.read_text() == broken


PIECES = ["{", "}", "[", "]", ":", ","]
values = st.recursive(
    st.none() | st.integers() | st.sampled_from(["", "//", "/*", "*/", '\\"', "a,]"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "// b", "hooks"]), inner, max_size=2)
    ),
    max_leaves=5,
)
between = st.sampled_from(["", " ", "\n  ", "/* c */", " // ] } ,\n", "/*\n*/\t"])


@st.composite
def commented_documents(draw):
    """A document as text, with comments between its tokens, and its value."""
    document = draw(st.dictionaries(st.sampled_from(["a", "// b"]), values, max_size=2))
    if draw(st.booleans()):
        theirs = {"hooks": [{"type": "command", "command": "// theirs"}]}
        document["hooks"] = {"AfterAgent": [theirs] * draw(st.integers(0, 2))}
    tokens, word = [], ""
    plain, is_string, at = json.dumps(document), False, 0
    while at < len(plain):
        step = 2 if plain[at] == "\\" else 1
        is_string ^= plain[at] == '"'
        if not is_string and plain[at] in PIECES:
            tokens += [word, plain[at]]
            word = ""
        elif is_string or plain[at] != " ":
            word += plain[at : at + step]
        at += step
    text = draw(between)
    for token in filter(None, tokens):
        text += token + draw(between)
    return text, document


@settings(max_examples=100, deadline=None)
@given(commented_documents())
def test_any_place_of_a_comment_is_kept(tmp_path_factory, made):
    text, document = made
    assert parsed(text) == document
    path = tmp_path_factory.mktemp("agent") / "settings.json"
    path.write_bytes(text.encode())
    hooks = GEMINI.hooks(["vecall"], [])
    assert install(GEMINI, path, hooks)
    installed = path.read_bytes()
    own = document.get("hooks", {})
    added = {event: [*own.get(event, []), hooks[event]] for event in hooks}
    assert parsed(installed.decode()) == {**document, "hooks": {**own, **added}}
    assert uninstall_hooks(GEMINI, path)
    assert path.read_bytes() == text.encode()
    path.write_bytes(installed)  # without a backup
    assert uninstall_hooks(GEMINI, path)
    if path.exists():
        left = parsed(path.read_text())
        kept = {event: each for event, each in left.pop("hooks", {}).items() if each}
        assert kept == {event: each for event, each in own.items() if each}
        assert left == {name: document[name] for name in document if name != "hooks"}
        assert path.read_text().count("/* c */") == text.count("/* c */")


def test_gemini_remembers_a_prompt_with_its_answer_and_recalls_it(home):
    about = {"cwd": "/src", "transcript_path": "/none.json", "stop_hook_active": False}
    after = {
        **about,
        "hook_event_name": "AfterAgent",
        "session_id": "s1",
        "timestamp": "2026-11-01T10:00:00.000Z",
        # Without a terminal, the answer to SessionStart stands before the prompt.
        "prompt": f"<hook_context>&lt;recalled&gt;</hook_context>\n\n{NINJA}",
        "prompt_response": "Noted.",
    }
    for _ in range(2):  # once, however often it runs
        assert quiet(run_hook("retain", after))
    silent = {**after, "prompt": "", "prompt_response": "[no response text]"}
    assert quiet(run_hook("retain", silent))
    assert stored(home) == [(NINJA, "user", "s1"), ("Noted.", "assistant", "s1")]
    asked = {**about, "hook_event_name": "BeforeAgent", "session_id": "s2"}
    done = run_hook("recall", {**asked, "prompt": ASKED, "timestamp": "x"})
    specific = json.loads(done.stdout)["hookSpecificOutput"]
    assert specific["hookEventName"] == "BeforeAgent"
    assert NINJA in specific["additionalContext"]
    assert GEMINI.hooks(VECALL, [])["BeforeAgent"]["hooks"][0]["timeout"] == 5_000


def copilot_line(number, kind, data):
    moment = f"2026-11-01T10:00:0{number}.000Z"
    return {"type": kind, "data": data, "id": f"e{number}", "timestamp": moment}


def test_copilot_remembers_what_was_said_and_recalls_it(home, tmp_path):
    lines = [
        copilot_line(1, "session.start", {"sessionId": "s1", "context": {"cwd": "/"}}),
        copilot_line(
            2, "user.message", {"content": NINJA, "transformedContent": "<x>"}
        ),
        copilot_line(3, "assistant.message", {"content": "", "toolRequests": [{}]}),
        copilot_line(4, "tool.execution_complete", {"result": {"content": "output"}}),
        copilot_line(5, "assistant.message", {"content": "Yes.", "messageId": "m"}),
        copilot_line(6, "assistant.message", {"content": "x", "parentToolCallId": "t"}),
        copilot_line(7, "user.message", {"content": "x", "source": "skill-pdf"}),
    ]
    path = write_lines(tmp_path / "events.jsonl", lines)
    about = {"sessionId": "s1", "timestamp": 1_793_527_200_000, "cwd": "/src"}
    stop = {**about, "transcriptPath": str(path), "stopReason": "end_turn"}
    for _ in range(2):
        assert quiet(run_hook("retain", stop))
    assert stored(home) == [(NINJA, "user", "s1"), ("Yes.", "assistant", "s1")]
    sent = {**about, "sessionId": "s2", "prompt": ASKED, "transformedPrompt": "<t>?"}
    answer = json.loads(run_hook("recall", sent).stdout)
    assert answer.keys() == {"modifiedTransformedPrompt"}
    assert answer["modifiedTransformedPrompt"].startswith("<t>?\n\n")
    assert NINJA in answer["modifiedTransformedPrompt"]
    assert quiet(run_hook("recall", {**sent, "sessionId": "s1"}))


def test_a_session_of_copilot_begins_with_preferences(home):
    path = home / ".local/share/vecall/memory.db"
    path.parent.mkdir(parents=True)
    with MemoryService(path, embedder=None) as memory:
        entry = MemoryEntry("Prefers tabs.", kind="preference")
        memory.sync.add_memory(**OWNER, memories=[entry])
    given = {"sessionId": "s", "timestamp": 1, "cwd": "/", "source": "startup"}
    answer = json.loads(run_hook("start", given).stdout)
    assert answer.keys() == {"additionalContext"}
    assert "Prefers tabs." in answer["additionalContext"]


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_stands_beside_those_of_others(name, tmp_path, capsys):
    path = tmp_path / "mcp.json"
    before = '{ "mcpServers": {"other" : {"command":"x", "disabled": true} } }\n'
    path.write_text(before)
    command = ["install", name, "--settings", str(path), "--user", "bob"]
    assert main(command) == 0
    servers = json.loads(path.read_text())["mcpServers"]
    assert list(servers) == ["other", "vecall"]
    assert servers["vecall"]["args"][-3:] == ["mcp", "--user", "bob"]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "the server was added" in told
    assert "no change" in told
    assert main([*command[:-1], "alice"]) == 0
    assert path.read_text().count("--user") == 1
    assert main(["uninstall", name, "--settings", str(path)]) == 0
    assert path.read_text() == before
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == [path.name]


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize(
    "broken",
    [
        '{"mcpServers": {"vecall": {"command": "mine"}}}',
        '{"mcpServers": []}',
        '{"mcpServers": {"x": []}}',
        '{"mcpServers": {}} // a comment',
    ],
)
def test_servers_of_another_form_are_refused_and_left_alone(
    name, broken, tmp_path, capsys
):
    path = tmp_path / "mcp.json"
    path.write_text(broken)
    assert main(["install", name, "--settings", str(path)]) == 1
    assert "not changed" in capsys.readouterr().err
    assert path.read_text() == broken
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["mcp.json"]


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_takes_no_option_that_only_hooks_have(name, home, capsys):
    assert main(["install", name]) == 0
    assert main(["uninstall", name]) == 0
    file = home / AGENTS[name].settings().relative_to(home)
    assert not file.exists()
    for option in (["--user-from", "cwd"], ["--min-confidence", "0.5"]):
        assert main(["install", name, *option]) == 1
        assert "only hooks have them" in capsys.readouterr().err
    assert not file.exists()


@pytest.mark.parametrize("name", SERVERS)
def test_the_installed_server_answers(name, home):
    pytest.importorskip("mcp")
    main(["install", name, "--embedder", "none"])
    path = AGENTS[name].settings()
    server = json.loads(path.read_text())["mcpServers"]["vecall"]
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    done = subprocess.run(
        [server["command"], *server["args"]],
        input=json.dumps(asked) + "\n",
        env={**os.environ, **server["env"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "vecall"


def test_a_plugin_is_written_once_and_removed(home, capsys):
    path = home / ".config/opencode/plugins/vecall.js"
    assert main(["install", "opencode"]) == 0
    text = path.read_text()
    assert main(["install", "opencode"]) == 0
    assert "no change" in capsys.readouterr().out
    assert text.count(MARK) == 2
    assert main(["install", "opencode", "--user", "bob"]) == 0
    assert path.read_text() == text.replace(
        " recall 2", " recall --user bob 2"
    ).replace(" retain 2", " retain --user bob 2")
    assert main(["uninstall", "opencode"]) == 0
    assert list(path.parent.iterdir()) == []
    path.write_text("export const Mine = 1")
    assert main(["install", "opencode"]) == 1
    assert "not changed" in capsys.readouterr().err
    assert main(["uninstall", "opencode"]) == 0
    assert path.read_text() == "export const Mine = 1"


RUN = """
import { Vecall } from "./vecall.mjs"
const said = JSON.parse(process.argv[2])
const client = { session: {
  get: async ({ path }) => ({ data: { id: path.id, ...said.session } }),
  messages: async () => ({ data: said.messages }),
} }
const hooks = await Vecall({ client, directory: "/src" })
const idle = { type: "session.idle", properties: { sessionID: "ses_1" } }
await hooks.event({ event: idle })
const parts = [{ id: "prt_1", type: "text", text: said.prompt }]
await hooks["chat.message"]({ sessionID: "ses_2" }, { message: { id: "msg_9" }, parts })
console.log(JSON.stringify(parts))
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
@pytest.mark.parametrize("is_subagent", [False, True])
def test_the_plugin_of_opencode_remembers_and_recalls(home, tmp_path, is_subagent):
    agent = AGENTS["opencode"]
    command = [sys.executable, "-c", HOOK, "30"]  # a deadline for a busy machine
    install(agent, tmp_path / "vecall.mjs", agent.hooks(command, []))
    (tmp_path / "run.mjs").write_text(RUN)

    def message(number, role, *parts, **info):
        time = {"created": 1_793_527_200_000 + number}
        about = {"id": f"msg_{number}", "role": role, "time": time, **info}
        return {"info": about, "parts": list(parts)}

    def text(said, **more):
        return {"type": "text", "text": said, **more}

    said = {
        "session": {"parentID": "ses_0"} if is_subagent else {},
        "messages": [
            message(1, "user", text(NINJA), text("a file's content", synthetic=True)),
            message(2, "assistant", {"type": "reasoning", "text": "hm"}, text("Yes.")),
            message(3, "assistant", {"type": "tool", "tool": "bash"}),
            message(4, "assistant", text("a compaction"), summary=True),
        ],
        "prompt": ASKED,
    }
    done = subprocess.run(
        ["node", "run.mjs", json.dumps(said)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    parts = json.loads(done.stdout)
    if is_subagent:
        assert not (home / ".local/share/vecall/memory.db").exists()
        return
    assert stored(home) == [(NINJA, "user", "ses_1"), ("Yes.", "assistant", "ses_1")]
    assert NINJA in parts[1].pop("text")
    assert parts[1] == {
        "id": "prt_10",
        "sessionID": "ses_2",
        "messageID": "msg_9",
        "type": "text",
        "synthetic": True,
    }


def test_a_plugin_whose_vecall_is_gone_changes_no_prompt(home, tmp_path):
    if shutil.which("node") is None:
        pytest.skip("no node")
    remember(home)
    agent = AGENTS["opencode"]
    install(agent, tmp_path / "vecall.mjs", agent.hooks(["/no/such/vecall"], []))
    (tmp_path / "run.mjs").write_text(RUN)
    said = {"session": {}, "messages": [], "prompt": ASKED}
    command = ["node", "run.mjs", json.dumps(said)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert len(json.loads(done.stdout)) == 1
    assert done.stderr == ""
