"""`vecall install` and `vecall uninstall` on the settings of the agents."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from helpers.coding_agents import claude_line, write_lines
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall.cli.main import main
from vecall.coding_agents.hook_command import VERBS
from vecall.coding_agents.install import AGENTS, BACKUP, MARK, install, uninstall_hooks

FILES = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "cursor": ".cursor/hooks.json",
    "gemini-cli": ".gemini/settings.json",
    "copilot-cli": ".copilot/hooks/vecall.json",
    "opencode": ".config/opencode/plugins/vecall.js",
    "cline": ".cline/data/settings/cline_mcp_settings.json",
    "goose": ".agents/plugins/vecall/.mcp.json",
}
HOOKS = [name for name in FILES if AGENTS[name].events and not AGENTS[name].plugin]
SERVERS = [name for name in FILES if not AGENTS[name].events]
EVENTS = {
    "claude-code": {
        "SessionStart": ["start"],
        "UserPromptSubmit": ["recall"],
        "Stop": ["retain"],
        "PreCompact": ["retain"],
        "SessionEnd": ["retain"],
    },
    "codex": {
        "SessionStart": ["start"],
        "UserPromptSubmit": ["recall"],
        "Stop": ["retain"],
    },
    "cursor": {
        "sessionStart": ["start"],
        "beforeSubmitPrompt": ["recall"],
        "stop": ["retain"],
        "sessionEnd": ["retain"],
    },
    "gemini-cli": {
        "SessionStart": ["start"],
        "BeforeAgent": ["recall"],
        "AfterAgent": ["retain"],
    },
    "copilot-cli": {
        "sessionStart": ["start"],
        "userPromptTransformed": ["recall"],
        "agentStop": ["retain"],
    },
}
VECALL = [sys.executable, "-m", "vecall.cli.main"]
OTHER = {"type": "command", "command": "say done", "async": False, "x-own": [1, {}]}
THEIRS = """{
\t"model" : "opus",
\t"permissions": {"allow": ["Bash(ls)"],   "deny":[] },
\t"hooks": {
\t\t"Stop": [ {"matcher": "", "hooks": [ {"type": "command", "command": "x"} ]} ],
\t\t"PreToolUse": []
\t},
\t"note": "\\u00e9 é \\ud83d\\ude00"
}"""


def hooks_of(agent, options=""):
    return AGENTS[agent].hooks(VECALL, shlex.split(options))


def commands(agent, text):
    """The commands of each event, read as the agent reads them."""
    found = {}
    for event, entries in json.loads(text)["hooks"].items():
        grouped = AGENTS[agent].grouped
        hooks = [h for e in entries for h in (e["hooks"] if grouped else [e])]
        found[event] = [hook.get("command") for hook in hooks]
    return found


@pytest.fixture(params=HOOKS)
def agent(request):
    return request.param


@pytest.fixture(params=FILES)
def any_agent(request):
    return request.param


@pytest.fixture
def path(request, home):
    name = "agent" if "agent" in request.fixturenames else "any_agent"
    return home / FILES[request.getfixturevalue(name)]


@pytest.mark.parametrize("how", [[], ["--print"]])
@pytest.mark.parametrize("named_by", ["option", "environment"])
def test_hooks_over_a_database_are_refused_and_nothing_is_written(
    any_agent, path, capsys, monkeypatch, named_by, how
):
    """Else the hooks would remember in a file that is named like the URL."""
    url = "postgresql://host/memories"
    given = ["--path", url] if named_by == "option" else []
    if named_by == "environment":
        monkeypatch.setenv("VECALL_PATH", url)
    assert main(["install", any_agent, *given, *how]) == 1
    said = capsys.readouterr()
    assert "need a file, not a database" in said.err
    assert said.out == ""
    assert not path.exists()


@pytest.mark.parametrize(
    ("option", "allowed", "typed"),
    [
        ("--max-tokens", "must be an integer of at least 1", typed)
        for typed in ("", "x", "0", "-1", "1.5", "nan", "inf", "9" * 5_000)
    ]
    + [
        ("--min-confidence", "must be a number from 0 to 1", typed)
        for typed in ("", "x", "-1", "1.5", "nan", "inf", "9" * 5_000)
    ],
)
def test_a_number_of_an_option_is_refused_with_what_is_allowed(
    any_agent, path, capsys, option, allowed, typed
):
    with pytest.raises(SystemExit):
        main(["install", any_agent, f"{option}={typed}"])
    assert capsys.readouterr().err.rstrip().endswith(f"argument {option}: {allowed}")
    assert not path.exists()


def test_the_hooks_of_an_agent_are_added_once_and_removed_without_a_trace(
    agent, path, capsys
):
    assert main(["install", agent]) == 0
    assert "hooks were added" in capsys.readouterr().out
    text = path.read_text()
    verbs = {
        event: [line.split(" hook ")[1].split()[0] for line in lines]
        for event, lines in commands(agent, text).items()
    }
    assert verbs == EVENTS[agent]
    assert main(["install", agent]) == 0
    assert "no change" in capsys.readouterr().out
    assert path.read_text() == text
    assert main(["uninstall", agent]) == 0
    assert list(path.parent.iterdir()) == []
    assert main(["install", agent, "--uninstall"]) == 0
    assert "no change" in capsys.readouterr().out


def test_other_options_replace_the_hooks(agent, path):
    main(["install", agent])
    main(["install", agent, "--user-from", "cwd", "--path", "my memory.db"])
    whole = Path("my memory.db").absolute()
    for lines in commands(agent, path.read_text()).values():
        (line,) = lines
        assert f" --path '{whole}' --user-from cwd 2>/dev/null" in line


def test_printing_the_hooks_changes_nothing(any_agent, path, capsys):
    assert main(["install", any_agent, "--print"]) == 0
    printed = capsys.readouterr().out
    assert not path.exists()
    main(["install", any_agent])
    assert path.read_text() == printed


def test_what_others_wrote_stays_as_it_is(agent, path):
    path.parent.mkdir(parents=True)
    path.write_text(THEIRS)
    path.chmod(0o640)
    install(AGENTS[agent], path, hooks_of(agent))
    text = path.read_text()
    for line in THEIRS.splitlines()[:3]:
        assert line in text
    assert '"note": "\\u00e9 é \\ud83d\\ude00"' in text
    assert '{"type": "command", "command": "x"} ]}' in text
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.with_name(path.name + BACKUP).read_text() == THEIRS
    assert uninstall_hooks(AGENTS[agent], path)
    assert path.read_text() == THEIRS
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_second_installation_leaves_the_backup_of_the_first(agent, path):
    path.parent.mkdir(parents=True)
    path.write_text(THEIRS)
    install(AGENTS[agent], path, hooks_of(agent))
    assert install(AGENTS[agent], path, hooks_of(agent, "--user bob"))
    assert path.with_name(path.name + BACKUP).read_text() == THEIRS
    assert uninstall_hooks(AGENTS[agent], path)
    assert path.read_text() == THEIRS


def test_changes_after_the_installation_survive_the_uninstallation(agent, path):
    path.parent.mkdir(parents=True)
    path.write_text(THEIRS)
    install(AGENTS[agent], path, hooks_of(agent))
    changed = json.loads(path.read_text())
    changed["model"] = "sonnet"
    event = next(iter(AGENTS[agent].events))
    entry = changed["hooks"][event][-1]
    if not AGENTS[agent].grouped:
        changed["hooks"][event].insert(0, OTHER)
    else:
        entry["hooks"].append(OTHER)  # in our own group
    path.write_text(json.dumps(changed))
    assert uninstall_hooks(AGENTS[agent], path)
    left = json.loads(path.read_text())
    assert MARK not in path.read_text()
    assert left["model"] == "sonnet"
    expected = [{"hooks": [OTHER]}] if AGENTS[agent].grouped else [OTHER]
    assert left["hooks"][event] == expected
    assert left["hooks"].get("Stop") == json.loads(THEIRS)["hooks"]["Stop"]


def test_new_settings_are_for_their_owner_alone(any_agent, path):
    before = os.umask(0)
    try:
        install(AGENTS[any_agent], path, hooks_of(any_agent))
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_symbolic_link_stays_a_link(agent, path, tmp_path):
    real = tmp_path / "dotfiles" / "settings.json"
    real.parent.mkdir()
    real.write_text(THEIRS)
    path.parent.mkdir(parents=True)
    path.symlink_to(real)
    install(AGENTS[agent], path, hooks_of(agent))
    assert path.is_symlink()
    assert MARK in real.read_text()
    uninstall_hooks(AGENTS[agent], path)
    assert path.is_symlink()
    assert real.read_text() == THEIRS


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"{",
        b'{"hooks": {}} // a comment',
        b"[]",
        b'{"hooks": []}',
        b'{"hooks": {"Stop": {}}}',
        b'{"hooks": null}',
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"hooks": 5, "hooks": {}}',
        b'{"hooks": {}, "hooks": {"Stop": []}}',
        b'{"hooks": {"Stop": [], "Stop": []}}',
        b'{"hooks": {"Stop": [{"hooks": [], "hooks": []}]}}',
        b'{"hooks": {"X": ' + b"[" * 900 + b"]" * 900 + b"}}",
    ],
)
def test_settings_of_another_form_are_refused_and_left_alone(broken, tmp_path, capsys):
    path = tmp_path / "settings.json"
    path.write_bytes(broken)
    for verb in ("install", "uninstall"):
        assert main([verb, "claude-code", "--settings", str(path)]) == 1
        told = capsys.readouterr().err
        assert told.startswith(f"vecall: {path}: ")
        assert "not changed" in told
    assert path.read_bytes() == broken
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == [path.name]


def test_settings_that_are_no_file_are_refused(tmp_path, capsys):
    assert main(["install", "codex", "--settings", str(tmp_path)]) == 1
    assert "not a regular file" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("file/hooks.json", "loop"):
        assert main(["install", "codex", "--settings", str(tmp_path / name)]) == 1
        assert "not changed" in capsys.readouterr().err


def test_installations_at_once_add_the_hooks_once(agent, path):
    path.parent.mkdir(parents=True)
    path.write_text(THEIRS)
    with ThreadPoolExecutor(8) as pool:
        done = list(
            pool.map(lambda _: install(AGENTS[agent], path, hooks_of(agent)), range(8))
        )
    assert sorted(done) == [False] * 7 + [True]
    uninstall_hooks(AGENTS[agent], path)
    assert path.read_text() == THEIRS


@pytest.mark.parametrize("edit", [install, uninstall_hooks])
def test_settings_that_another_installation_edits_are_waited_for(path, edit, agent):
    path.parent.mkdir(parents=True)
    path.write_text(THEIRS)
    if edit is uninstall_hooks:
        install(AGENTS[agent], path, hooks_of(agent))
    before = path.read_text()
    own = (hooks_of(agent),) if edit is install else ()
    with ThreadPoolExecutor(1) as pool:
        lock = os.open(path.parent, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        edited = pool.submit(edit, AGENTS[agent], path, *own)
        with pytest.raises(FutureTimeoutError):
            edited.result(0.2)
        assert path.read_text() == before
        os.close(lock)
        assert edited.result(20)


def test_an_installed_command_remembers_and_recalls(home, tmp_path, log):
    """The commands run in a shell, as an agent runs them.

    On a machine so busy that Python starts slowly, a hook ends at its deadline and the
    log says so; then it is run again.
    """
    path = home / FILES["claude-code"]
    install(AGENTS["claude-code"], path, hooks_of("claude-code", "--user bob"))
    lines = commands("claude-code", path.read_text())
    transcript = write_lines(
        tmp_path / "t.jsonl", [claude_line("1", "user", "The zebra is fast.")]
    )
    payload = {
        "session_id": "s1",
        "transcript_path": str(transcript),
        "prompt": "which zebra?",
    }

    def run(event: str, session: str) -> str:
        given = {**payload, "hook_event_name": event, "session_id": session}
        for _ in range(8):
            late = len(log())
            done = subprocess.run(
                lines[event][0],
                shell=True,
                input=json.dumps(given),
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, "")
            new = [line.partition(" ")[2] for line in log()[late:]]
            if not new:
                return done.stdout
            assert set(new) <= {f"{verb}: ended at its deadline" for verb in VERBS}
        began = time.monotonic()
        code = "import vecall.coding_agents.hook_command"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
        if time.monotonic() - began < 1.0:
            pytest.fail("each hook ended at its deadline on a machine that is not busy")
        pytest.skip("this machine is too busy to start Python within two seconds")

    assert run("Stop", "s1") == ""
    assert "The zebra is fast." in run("UserPromptSubmit", "s2")


def test_a_command_whose_vecall_is_gone_says_nothing():
    hooks = AGENTS["codex"].hooks(["/no/such/vecall"], [])
    (hook,) = hooks["Stop"]["hooks"]
    done = subprocess.run(
        hook["command"], shell=True, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


names = st.text(max_size=6) | st.sampled_from(["hooks", "Stop", "version", "stop"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
    ),
    max_leaves=8,
)
events = st.sampled_from(["Stop", "UserPromptSubmit", "stop", "sessionStart", "Other"])
entries = st.lists(st.just(OTHER) | st.just({"hooks": [OTHER]}) | values, max_size=3)
documents = st.dictionaries(names, values, max_size=4).flatmap(
    lambda rest: st.one_of(
        st.just({key: value for key, value in rest.items() if key != "hooks"}),
        st.dictionaries(events, entries, max_size=3).map(
            lambda hooks: {**rest, "hooks": hooks}
        ),
    )
)
styles = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 1, 2, 4, "\t"]),
        "ensure_ascii": st.booleans(),
        "separators": st.sampled_from([None, (",", ":"), (" , ", " :  ")]),
    }
)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(HOOKS),
    documents,
    styles,
    st.sampled_from(["", "\n", " \r\n"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_installing_and_uninstalling_gives_back_the_bytes(
    name, document, style, end, newline
):
    agent = AGENTS[name]
    text = json.dumps(document, **style).replace("\n", newline) + end
    before = text.encode("utf-8", "surrogatepass")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "settings.json"
        path.write_bytes(before)
        hooks = agent.hooks(["vecall"], [])
        assert install(agent, path, hooks)
        after = json.loads(path.read_bytes())
        expected = {**agent.first, **document}
        expected["hooks"] = {
            **document.get("hooks", {}),
            **{
                event: [*document.get("hooks", {}).get(event, []), entry]
                for event, entry in hooks.items()
            },
        }
        assert after == expected
        assert not install(agent, path, hooks)
        backup = path.with_name(path.name + BACKUP)
        assert backup.read_bytes() == before
        backup.unlink()
        installed = path.read_bytes()
        assert uninstall_hooks(agent, path)  # without a backup
        if path.exists():
            left = json.loads(path.read_bytes())
            left_hooks, own = left.pop("hooks", {}), dict(document)
            own_hooks = own.pop("hooks", {})
            assert left == {**agent.first, **own}
            assert {event: each for event, each in left_hooks.items() if each} == {
                event: each for event, each in own_hooks.items() if each
            }
        path.write_bytes(installed)
        backup.write_bytes(before)
        assert uninstall_hooks(agent, path)
        assert path.read_bytes() == before
