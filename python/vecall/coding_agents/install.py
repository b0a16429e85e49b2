"""Adds hooks or a server to the settings of a coding agent, and takes them out.

The settings are another program's, so an edit is atomic, leaves all else as it is, and
is refused if the file is not what is expected. The bytes before the first installation
stay in a backup beside the file, until an uninstallation restores them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vecall import system
from vecall.coding_agents.options import MARK
from vecall.errors import ConfigError
from vecall.text import lazy_pattern

# numpy starts a thread for each core otherwise, which takes longer than a search.
_ONE_THREAD = "OPENBLAS_NUM_THREADS=1"

_PROMPT_SECONDS = 5
_RETAIN_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Agent:
    """A coding agent.

    One without events has hooks that cannot add to a prompt; it gets `vecall mcp` as a
    server instead. The place of its settings is a folder, the environment variable that
    names another, and a file in it. `extra` has further fields of the hook of an event.
    """

    name: str
    place: tuple[str, str | None, str]
    events: Mapping[str, str] = field(default_factory=dict)  # the verb of each
    grouped: bool = True  # an event holds groups with "hooks", not hooks
    first: Mapping[str, Any] = field(default_factory=dict)  # in a new file
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    timeout: tuple[str, int] = ("timeout", 1)  # its field, its units in a second
    commented: bool = False  # the settings may have comments
    plugin: str | None = None  # a program for hooks, beside this module

    @property
    def key(self) -> str:
        """The name of the object that is edited in the settings."""
        return "hooks" if self.events else "mcpServers"

    def settings(self) -> Path:
        """Return the path of the user's settings."""
        folder, variable, file = self.place
        named = os.environ.get(variable) if variable else None
        return Path(named or folder).expanduser() / file

    def hooks(self, command: Sequence[str], arguments: Sequence[str]) -> dict[str, Any]:
        """Return the entry of each event, or that of the server, with arguments."""
        if not self.events:
            args = [*command[1:], "mcp", *arguments]
            return {SERVER: {"command": command[0], "args": args, "env": _OWN}}
        entries: dict[str, Any] = {}
        name, units = self.timeout
        for event, verb in self.events.items():
            seconds = _RETAIN_SECONDS if verb == "retain" else _PROMPT_SECONDS
            line = system.shell_words([*command, "hook", verb, *arguments])
            # The shell hides what Python says if it is interrupted while it starts, or
            # if vecall is no longer there.
            hook: dict[str, Any] = {
                "command": f"{system.silent_command(line, _ONE_THREAD)} {MARK}",
                name: seconds * units,
                **self.extra.get(event, {}),
            }
            if self.grouped:
                entries[event] = {"hooks": [{"type": "command", **hook}]}
            else:
                entries[event] = hook
        return entries


# The server of an agent without hooks: its name, and the environment that marks it.
SERVER = "vecall"
_OWN = {"VECALL_INSTALL": "1"}


def _verbs_of(start: str, recall: str, retain: str) -> dict[str, str]:
    """Return the verb of each event, by the names of the events of each verb."""
    verbs = {"start": start, "recall": recall, "retain": retain}
    return {event: verb for verb, names in verbs.items() for event in names.split()}


AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            "claude-code",
            ("~/.claude", "CLAUDE_CONFIG_DIR", "settings.json"),
            _verbs_of("SessionStart", "UserPromptSubmit", "Stop PreCompact SessionEnd"),
            extra={"Stop": {"async": True}},
        ),
        Agent(
            "codex",
            ("~/.codex", "CODEX_HOME", "hooks.json"),
            _verbs_of("SessionStart", "UserPromptSubmit", "Stop"),
        ),
        Agent(
            "cursor",
            ("~/.cursor", None, "hooks.json"),
            _verbs_of("sessionStart", "beforeSubmitPrompt", "stop sessionEnd"),
            grouped=False,
            first={"version": 1},
        ),
        Agent(
            "gemini-cli",
            ("~", "GEMINI_CLI_HOME", ".gemini/settings.json"),
            _verbs_of("SessionStart", "BeforeAgent", "AfterAgent"),
            timeout=("timeout", 1000),
            commented=True,
        ),
        Agent(
            "copilot-cli",
            ("~/.copilot", "COPILOT_HOME", "hooks/vecall.json"),
            _verbs_of("sessionStart", "userPromptTransformed", "agentStop"),
            grouped=False,
            first={"version": 1},
            timeout=("timeoutSec", 1),
        ),
        Agent(
            "opencode",
            ("~/.config/opencode", "OPENCODE_CONFIG_DIR", "plugins/vecall.js"),
            _verbs_of("", "chat.message", "session.idle"),
            grouped=False,
            plugin="opencode.js",
        ),
        Agent(
            "cline",
            ("~/.cline/data", "CLINE_DATA_DIR", "settings/cline_mcp_settings.json"),
        ),
        Agent("goose", ("~/.agents", None, "plugins/vecall/.mcp.json")),
    )
}


BACKUP = ".before-vecall"
"""The suffix of the backup."""


def vecall_command() -> list[str]:
    """Return the command of this installation: absolute, whatever PATH an agent has."""
    script = Path(sys.argv[0])
    if script.name in ("vecall", "vecall.exe") and os.access(script, os.X_OK):
        return [script.absolute().as_posix()]
    if (found := shutil.which("vecall", path=str(Path(sys.executable).parent))) and (
        os.access(found, os.X_OK)
    ):
        return [Path(found).as_posix()]
    return [Path(sys.executable).as_posix(), "-m", "vecall.cli.main"]


def install(agent: Agent, path: Path, hooks: Mapping[str, Any]) -> bool:
    """Add hooks in place of those of an earlier installation; whether that changed it.

    A symbolic link stays, and its target is written. A ConfigError says that the file
    is no JSON object of this form, or not regular; then it was not changed.
    """
    real = Path(os.path.realpath(path))
    real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _lock_settings_folder(real.parent):
        before = _read_settings_file(real)
        text = _decoded_settings(before)
        if agent.plugin is not None:
            return _install_plugin(real, text, installed_settings_text(agent, hooks))
        if text is None:
            text = _new_agent_settings(agent)
        settings = _checked_settings(text, agent)
        if _our_entries(settings, agent) == {name: [hooks[name]] for name in hooks}:
            return False
        cleared = _without_our_hooks(text, agent)
        filled = _with_our_hooks(cleared, agent, hooks)
        if before is not None and cleared == text:
            # An older backup must not survive: what it restores is older than this.
            _replace_settings_file(real.with_name(real.name + BACKUP), before, real)
        _replace_settings_file(real, filled.encode(), real)
        return True


def uninstall_hooks(agent: Agent, path: Path) -> bool:
    """Take the hooks of `install` out of a settings file; return whether it had any.

    The bytes before the installation are restored if nothing else has changed. A file
    that holds nothing more and was made by `install` is removed. Errors: as `install`.
    """
    real = Path(os.path.realpath(path))
    if not real.parent.is_dir():
        return False
    with _lock_settings_folder(real.parent):
        text = _decoded_settings(_read_settings_file(real))
        if agent.plugin is not None:
            ours = text is not None and text.startswith(_PLUGIN_MARK)
            if ours:
                real.unlink()
            return ours
        if text is None or not _our_entries(_checked_settings(text, agent), agent):
            return False
        cleared = _without_our_hooks(text, agent)
        backup = real.with_name(real.name + BACKUP)
        saved = _read_settings_file(backup)
        is_empty = _parsed_settings(cleared) in (
            {},
            dict(agent.first),
        ) and not js_comments(cleared)
        if saved is None and is_empty:
            real.unlink()
        elif saved is not None and _differ_in_form_only(agent, saved, cleared):
            _replace_settings_file(real, saved, real)
            backup.unlink()
        else:
            _replace_settings_file(real, cleared.encode(), real)
        return True


def installed_settings_text(agent: Agent, hooks: Mapping[str, Any]) -> str:
    """Return what `install` writes into a new file."""
    if agent.plugin is None:
        return _with_our_hooks(_new_agent_settings(agent), agent, hooks)
    source = Path(__file__).with_name(agent.plugin).read_text("utf-8")
    commands = {agent.events[event]: hooks[event]["command"] for event in hooks}
    return source.replace("COMMANDS = {}", f"COMMANDS = {json.dumps(commands)}")


_PLUGIN_MARK = "// vecall install"  # the beginning of a plugin of ours


def _install_plugin(path: Path, before: str | None, text: str) -> bool:
    """Write a program of ours; tell whether it was not there."""
    if before is not None and not before.startswith(_PLUGIN_MARK):
        msg = "path: another program's file has this name; it was not changed"
        raise ConfigError(msg)
    if before != text:
        _replace_settings_file(path, text.encode(), path)
    return before != text


def _new_agent_settings(agent: Agent) -> str:
    return json.dumps({**agent.first, agent.key: {}}, indent=2) + "\n"


def _parsed_settings(text: str) -> Any:
    """Return the value of settings that were checked."""
    return json.loads(blank_json_comments(text))


@contextmanager
def _lock_settings_folder(folder: Path) -> Iterator[None]:
    """Let one installation at a time edit the files of a folder."""
    try:
        with system.lock_folder(folder):
            yield
    except RecursionError:
        msg = "path: the settings are nested too deeply; they were not changed"
        raise ConfigError(msg) from None


def _read_settings_file(path: Path) -> bytes | None:
    try:
        file = system.open_to_read(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise ConfigError("path: the settings are not a regular file")
    with os.fdopen(file, "rb") as stream:
        return stream.read()


def _decoded_settings(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        msg = "path: the settings are not UTF-8; they were not changed"
        raise ConfigError(msg) from None


def _checked_settings(text: str, agent: Agent) -> dict[str, Any]:
    """Return the settings if their hooks can be edited."""
    try:
        shown = blank_json_comments(text) if agent.commented else text
        settings = json.loads(shown, object_pairs_hook=_Object)
    except (ValueError, RecursionError):
        msg = "path: the settings are not valid JSON; they were not changed"
        raise ConfigError(msg) from None
    hooks = settings.get(agent.key, {}) if isinstance(settings, dict) else None
    kind, parts = (list, "lists") if agent.events else (dict, "objects")
    if not isinstance(hooks, dict) or not all(
        isinstance(entries, kind) for entries in hooks.values()
    ):
        msg = f"path: expected an object, with {parts} in its {agent.key}; "
        raise ConfigError(msg + "it was not changed")
    found: dict[str, Any] = settings
    if settings.repeated & {agent.key, *agent.first} or _has_repeated_key(hooks):
        msg = "path: a key that would be edited is there twice; it was not changed"
        raise ConfigError(msg)
    return found


class _Object(dict[str, Any]):
    """An object of a JSON document, and the keys that it has more than once."""

    def __init__(self, members: Sequence[tuple[str, Any]]) -> None:
        super().__init__(members)
        counts = Counter(name for name, _ in members)
        self.repeated = {name for name, count in counts.items() if count > 1}


def _has_repeated_key(value: object) -> bool:
    """Whether an object in a value has a key more than once."""
    if isinstance(value, _Object):
        return bool(value.repeated) or any(map(_has_repeated_key, value.values()))
    return isinstance(value, list) and any(map(_has_repeated_key, value))


def _our_entries(settings: Mapping[str, Any], agent: Agent) -> dict[str, list[Any]]:
    """Return the entries of each event, or the server, that `install` wrote."""
    return {
        event: ours
        for event, entries in settings.get(agent.key, {}).items()
        if (ours := [e for e in _entries_of_event(entries) if _has_our_hook(e, agent)])
    }


def _entries_of_event(entries: Any) -> list[Any]:
    """Return the entries of an event; those of a server are the server."""
    return entries if isinstance(entries, list) else [entries]


def _has_our_hook(entry: Any, agent: Agent) -> bool:
    if not agent.events:
        return bool(entry.get("env") == _OWN)
    return (
        any(map(_is_ours, _group_handlers(entry))) if agent.grouped else _is_ours(entry)
    )


def _group_handlers(group: Any) -> list[Any]:
    handlers = group.get("hooks") if isinstance(group, dict) else None
    return handlers if isinstance(handlers, list) else []


def _is_ours(hook: Any) -> bool:
    command = hook.get("command") if isinstance(hook, dict) else None
    return isinstance(command, str) and command.endswith(MARK)


def _without_our_hooks(text: str, agent: Agent) -> str:
    """Return the text without our hooks, and without what they leave empty."""
    key = agent.key
    for event, entries in _parsed_settings(text).get(key, {}).items():
        left = len(_entries_of_event(entries))
        for at in reversed(range(left)) if agent.events else ():
            if not _has_our_hook(entries[at], agent):
                continue
            handlers = _group_handlers(entries[at]) if agent.grouped else []
            places = [n for n, each in enumerate(handlers) if _is_ours(each)]
            if len(places) == len(handlers):
                text = remove_json_value(text, [key, event, at])
                left -= 1
                continue
            for n in reversed(places):
                text = remove_json_value(text, [key, event, at, "hooks", n])
        ours = entries and not left if agent.events else _has_our_hook(entries, agent)
        if ours:
            text = _remove_empty_container(text, [key, event])
            if not _parsed_settings(text)[key]:
                text = _remove_empty_container(text, [key])
    return text


def _remove_empty_container(text: str, path: Sequence[str]) -> str:
    """Return the text without a container, unless somebody commented in it."""
    shorter = remove_json_value(text, path)
    return shorter if js_comments(shorter) == js_comments(text) else text


def _with_our_hooks(text: str, agent: Agent, hooks: Mapping[str, Any]) -> str:
    key = agent.key
    for name, value in agent.first.items():
        if name not in _parsed_settings(text):
            text = with_json(text, [name], value)
    if key not in _parsed_settings(text):
        text = with_json(text, [key], {})
    for event, entry in hooks.items():
        entries = _parsed_settings(text)[key].get(event)
        if entries is None:
            text = with_json(text, [key, event], [entry] if agent.events else entry)
        elif agent.events:
            text = with_json(text, [key, event, len(entries)], entry)
        else:
            msg = f"path: {key} has another {event!r} already; it was not changed"
            raise ConfigError(msg)
    return text


def _differ_in_form_only(agent: Agent, saved: bytes, cleared: str) -> bool:
    """Tell whether settings differ only in formatting and in what `install` leaves."""
    try:
        text = saved.decode("utf-8")
        before = _parsed_settings(text)
    except ValueError:
        return False
    return (
        isinstance(before, dict)
        and js_comments(text) == js_comments(cleared)
        and _comparable_settings(agent, before)
        == _comparable_settings(agent, _parsed_settings(cleared))
    )


def _comparable_settings(agent: Agent, settings: dict[str, Any]) -> dict[str, Any]:
    entries = settings.get(agent.key, {})
    kept = {name: each for name, each in entries.items() if each != []}
    return {**agent.first, **settings, agent.key: kept}


def _replace_settings_file(path: Path, data: bytes, like: Path) -> None:
    """Replace a file, with the permissions of another, if that exists."""
    mode = stat.S_IMODE(like.stat().st_mode) if like.exists() else 0o600
    file, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(mode)
        system.replace_file(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    system.sync_folder(path.parent)


# Edits a JSON document as text, so that what is not edited keeps its formatting.


_SPACE = lazy_pattern(r"[ \t\r\n]*")
_NO_NEWLINE = lazy_pattern(r"[^\r\n]")
# A string, which may have no end, or what JSON does not know.
_COMMENT = lazy_pattern(r'"(?:[^"\\]|\\.)*"?|(//[^\r\n]*|/\*.*?(?:\*/|\Z))', re.DOTALL)
_decoded = json.JSONDecoder().raw_decode

Key = str | int
"""The name of a member of an object, or the index of an element of an array."""


def js_comments(text: str) -> list[str]:
    """Return the comments of a document, which begin as those of JavaScript."""
    return [each[1] for each in _COMMENT.finditer(text) if each[1]]


def blank_json_comments(text: str) -> str:
    """Return a document with spaces for its comments; all else stays at its place."""
    return _COMMENT.sub(lambda e: _NO_NEWLINE.sub(" ", e[1]) if e[1] else e[0], text)


@dataclass(slots=True)
class _JsonNode:
    """A value; its parts have a key, the start of key or value, and a value."""

    start: int  # its first character
    end: int = 0  # the character after its last one
    parts: list[tuple[Key, int, _JsonNode]] = field(default_factory=list)

    def place_of_key(self, key: Key) -> int:
        """Return the place of a key among the parts, the last of equal ones."""
        return max(n for n, (known, _, _) in enumerate(self.parts) if known == key)


def with_json(text: str, path: Sequence[Key], value: object) -> str:
    """Return the document with a JSON value appended to a container at a path."""
    node = _json_node_at(text, path[:-1])
    plain = blank_json_comments(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    indented = re.search(r"\n([ \t]+)\S", text)
    unit = indented[1] if indented else "  "
    label = f"{json.dumps(path[-1])}: " if isinstance(path[-1], str) else ""
    line = text[text.rfind("\n", 0, node.start) + 1 : node.start]
    outer = line[: len(line) - len(line.lstrip())]
    inner = outer + unit
    if node.parts:
        first, last = node.parts[0][1], node.parts[-1][2].end
        before = plain[node.start + 1 : first]
        many_lines = "\n" in before
        if many_lines:
            inner = before.rpartition("\n")[2]
        shown = _json_of_value(value, unit if many_lines else None, inner, newline)
        between = f",{newline}{inner}" if many_lines else ", "
        return f"{text[:last]}{between}{label}{shown}{text[last:]}"
    inside = text[node.start + 1 : node.end - 1]
    if "\n" not in text.strip() and text.strip() not in ("{}", "[]"):
        filled = f"{label}{_json_of_value(value, None, '', newline)}{inside.strip()}"
    else:
        shown = _json_of_value(value, unit, inner, newline)
        after = inside if inside.strip() else f"{newline}{outer}"
        filled = f"{newline}{inner}{label}{shown}{after}"
    return text[: node.start + 1] + filled + text[node.end - 1 :]


def remove_json_value(text: str, path: Sequence[Key]) -> str:
    """Return the document without the member or element at a path."""
    node = _json_node_at(text, path[:-1])
    at = node.place_of_key(path[-1])
    _, start, value = node.parts[at]
    plain = blank_json_comments(text)
    if at > 0:  # with the comma before it, and without the comments
        before, kept = node.parts[at - 1][2].end, ""
        if js_comments(text[before:start]):
            comma = plain.index(",", before)
            kept = text[before:comma] + text[comma + 1 : start]
        return text[:before] + kept + text[value.end :]
    if len(node.parts) > 1:
        until = node.parts[1][1]
        if js_comments(text[value.end : until]):
            until = plain.index(",", value.end) + 1
        return text[:start] + text[until:]
    if js_comments(text[node.start : start]) or js_comments(text[value.end : node.end]):
        return text[:start] + text[value.end :]
    return text[: node.start + 1] + text[node.end - 1 :]


def _json_of_value(value: object, unit: str | None, inner: str, newline: str) -> str:
    if unit is None:
        return json.dumps(value)
    return json.dumps(value, indent=unit).replace("\n", newline + inner)


def _json_node_at(text: str, path: Sequence[Key]) -> _JsonNode:
    text = blank_json_comments(text)
    node = _parse_json_value(text, _skip_json_space(text, 0))
    for key in path:
        node = node.parts[node.place_of_key(key)][2]
    return node


def _parse_json_value(text: str, start: int) -> _JsonNode:
    """Return the value that starts at a place of a valid document."""
    node = _JsonNode(start)
    opening = text[start]
    if opening not in "{[":
        _, node.end = _decoded(text, start)
        return node
    closing = "}" if opening == "{" else "]"
    at = _skip_json_space(text, start + 1)
    while text[at] != closing:
        begin, key = at, len(node.parts)
        named: Any = key
        if opening == "{":
            named, at = _decoded(text, at)
            at = _skip_json_space(text, _skip_json_space(text, at) + 1)
        value = _parse_json_value(text, at)
        node.parts.append((named, begin, value))
        at = _skip_json_space(text, value.end)
        if text[at] == ",":
            at = _skip_json_space(text, at + 1)
    node.end = at + 1
    return node


def _skip_json_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()
