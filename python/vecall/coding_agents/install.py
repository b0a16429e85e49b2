"""Adds hooks to the settings of a coding agent, and takes them out again.

The settings are another program's, so an edit is atomic, leaves all else as it is, and
is refused if the file is not what is expected. The bytes before the first installation
stay in a backup beside the file, until an uninstallation restores them.
"""

from __future__ import annotations

import json
import os
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

from vecall.coding_agents.options import MARK
from vecall.coding_agents.transcript import with_value, without
from vecall.errors import ConfigError
from vecall.system import (
    lock_folder,
    open_to_read,
    replace,
    shell_words,
    silent_command,
    sync_folder,
)

# The coding agents: where their settings are, and which hooks they get.


# numpy starts a thread for each core otherwise, which takes longer than a search.
_ONE_THREAD = "OPENBLAS_NUM_THREADS=1"

_PROMPT_SECONDS = 5
_RETAIN_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Agent:
    """A coding agent.

    Attributes:
        name: The argument of `vecall install`.
        folder: The folder of the user's settings, if `variable` is not set.
        variable: The environment variable with another folder; None without one.
        file: The settings' file in it.
        events: The verb of `vecall hook` for each event.
        grouped: Whether an event holds groups, each with "hooks". Otherwise it holds
            the hooks themselves.
        first: What a new settings' file begins with.
        extra: Further fields of the hook of an event.
    """

    name: str
    folder: str
    variable: str | None
    file: str
    events: Mapping[str, str]
    grouped: bool = True
    first: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def settings(self) -> Path:
        """Return the path of the user's settings."""
        named = os.environ.get(self.variable) if self.variable else None
        return Path(named or self.folder).expanduser() / self.file

    def hooks(self, command: str, arguments: str) -> dict[str, Any]:
        """Return the entry of each event.

        Args:
            command: Starts vecall, quoted for a shell.
            arguments: The options of the hooks, quoted for a shell.
        """
        entries: dict[str, Any] = {}
        for event, verb in self.events.items():
            seconds = _RETAIN_SECONDS if verb == "retain" else _PROMPT_SECONDS
            line = " ".join(filter(None, (command, "hook", verb, arguments)))
            # The shell hides what Python says if it is interrupted while it starts, or
            # if vecall is no longer there.
            hook: dict[str, Any] = {
                "command": f"{silent_command(line, _ONE_THREAD)} {MARK}",
                "timeout": seconds,
                **self.extra.get(event, {}),
            }
            if self.grouped:
                entries[event] = {"hooks": [{"type": "command", **hook}]}
            else:
                entries[event] = hook
        return entries


AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            name="claude-code",
            folder="~/.claude",
            variable="CLAUDE_CONFIG_DIR",
            file="settings.json",
            events={
                "SessionStart": "start",
                "UserPromptSubmit": "recall",
                "Stop": "retain",
                "PreCompact": "retain",
                "SessionEnd": "retain",
            },
            extra={"Stop": {"async": True}},
        ),
        Agent(
            name="codex",
            folder="~/.codex",
            variable="CODEX_HOME",
            file="hooks.json",
            events={
                "SessionStart": "start",
                "UserPromptSubmit": "recall",
                "Stop": "retain",
            },
        ),
        Agent(
            name="cursor",
            folder="~/.cursor",
            variable=None,
            file="hooks.json",
            events={
                "sessionStart": "start",
                "beforeSubmitPrompt": "recall",
                "stop": "retain",
                "sessionEnd": "retain",
            },
            grouped=False,
            first={"version": 1},
        ),
    )
}


BACKUP = ".before-vecall"
"""The suffix of the backup."""


def vecall_command() -> str:
    """Return the command that starts this installation of vecall, quoted for a shell.

    It has absolute paths, since an agent may have another PATH.
    """
    script = Path(sys.argv[0])
    if script.name in ("vecall", "vecall.exe") and os.access(script, os.X_OK):
        return shell_words([script.absolute().as_posix()])
    if (found := shutil.which("vecall", path=str(Path(sys.executable).parent))) and (
        os.access(found, os.X_OK)
    ):
        return shell_words([Path(found).as_posix()])
    return shell_words([Path(sys.executable).as_posix(), "-m", "vecall.cli.main"])


def install(agent: Agent, path: Path, hooks: Mapping[str, Any]) -> bool:
    """Add hooks to a settings file, in place of those of an earlier installation.

    Args:
        agent: The agent.
        path: Its settings. A symbolic link stays, and its target is written.
        hooks: The entry of each event.

    Returns:
        Whether the file was changed; not if it has these hooks already.

    Raises:
        ConfigError: The file is not a JSON object, its hooks have another form, or it
            is no regular file. It was not changed.
        OSError: The file cannot be read or written.
    """
    real = Path(os.path.realpath(path))
    real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _lock_settings_folder(real.parent):
        before = _read(real)
        text = _decoded_settings(before)
        if text is None:
            text = json.dumps({**agent.first, "hooks": {}}, indent=2) + "\n"
        settings = _checked_settings(text, agent)
        if _our_entries(settings, agent) == {name: [hooks[name]] for name in hooks}:
            return False
        cleared = _without_our_hooks(text, agent)
        if before is not None and cleared == text:
            # An older backup must not survive: what it restores is older than this.
            _write(real.with_name(real.name + BACKUP), before, real)
        _write(real, _with_our_hooks(cleared, agent, hooks).encode(), real)
        return True


def uninstall(agent: Agent, path: Path) -> bool:
    """Take the hooks of `install` out of a settings file.

    The bytes before the installation are restored if nothing else has changed. A file
    that holds nothing more and was made by `install` is removed.

    Args:
        agent: The agent.
        path: Its settings.

    Returns:
        Whether there were such hooks.

    Raises:
        ConfigError: As in `install`.
        OSError: As in `install`.
    """
    real = Path(os.path.realpath(path))
    if not real.parent.is_dir():
        return False
    with _lock_settings_folder(real.parent):
        text = _decoded_settings(_read(real))
        if text is None or not _our_entries(_checked_settings(text, agent), agent):
            return False
        cleared = _without_our_hooks(text, agent)
        backup = real.with_name(real.name + BACKUP)
        saved = _read(backup)
        if saved is None:
            if json.loads(cleared) in ({}, dict(agent.first)):
                real.unlink()
            else:
                _write(real, cleared.encode(), real)
        elif _same(agent, saved, cleared):
            _write(real, saved, real)
            backup.unlink()
        else:
            _write(real, cleared.encode(), real)
        return True


def installed_text(agent: Agent, hooks: Mapping[str, Any]) -> str:
    """Return what `install` writes into a new file."""
    text = json.dumps({**agent.first, "hooks": {}}, indent=2) + "\n"
    return _with_our_hooks(text, agent, hooks)


@contextmanager
def _lock_settings_folder(folder: Path) -> Iterator[None]:
    """Let one installation at a time edit the files of a folder."""
    try:
        with lock_folder(folder):
            yield
    except RecursionError:
        msg = "path: the settings are nested too deeply; they were not changed"
        raise ConfigError(msg) from None


def _read(path: Path) -> bytes | None:
    try:
        file = open_to_read(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        msg = "path: the settings are not a regular file"
        raise ConfigError(msg)
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
        settings = json.loads(text, object_pairs_hook=_Object)
    except (ValueError, RecursionError):
        msg = "path: the settings are not valid JSON; they were not changed"
        raise ConfigError(msg) from None
    hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
    if not isinstance(hooks, dict) or not all(
        isinstance(entries, list) for entries in hooks.values()
    ):
        msg = "path: expected an object, with lists in its hooks; it was not changed"
        raise ConfigError(msg)
    found: dict[str, Any] = settings
    if settings.repeated & {"hooks", *agent.first} or _has_repeated_key(hooks):
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
    """Return the entries of each event that hold a hook of `install`."""
    return {
        event: ours
        for event, entries in settings.get("hooks", {}).items()
        if (ours := [each for each in entries if _has_our_hook(each, agent)])
    }


def _has_our_hook(entry: Any, agent: Agent) -> bool:
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
    for event, entries in json.loads(text).get("hooks", {}).items():
        left = len(entries)
        for at in reversed(range(len(entries))):
            if not _has_our_hook(entries[at], agent):
                continue
            handlers = _group_handlers(entries[at]) if agent.grouped else []
            places = [n for n, each in enumerate(handlers) if _is_ours(each)]
            if len(places) == len(handlers):
                text = without(text, ["hooks", event, at])
                left -= 1
                continue
            for n in reversed(places):
                text = without(text, ["hooks", event, at, "hooks", n])
        if entries and not left:
            text = without(text, ["hooks", event])
            if not json.loads(text)["hooks"]:
                text = without(text, ["hooks"])
    return text


def _with_our_hooks(text: str, agent: Agent, hooks: Mapping[str, Any]) -> str:
    for name, value in agent.first.items():
        if name not in json.loads(text):
            text = with_value(text, [name], value)
    if "hooks" not in json.loads(text):
        text = with_value(text, ["hooks"], {})
    for event, entry in hooks.items():
        entries = json.loads(text)["hooks"].get(event)
        if entries is None:
            text = with_value(text, ["hooks", event], [entry])
        else:
            text = with_value(text, ["hooks", event, len(entries)], entry)
    return text


def _same(agent: Agent, saved: bytes, cleared: str) -> bool:
    """Tell whether settings differ only in formatting and in what `install` leaves."""
    try:
        before = json.loads(saved)
    except ValueError:
        return False
    after = json.loads(cleared)
    return isinstance(before, dict) and _comparable_settings(
        agent, before
    ) == _comparable_settings(agent, after)


def _comparable_settings(agent: Agent, settings: dict[str, Any]) -> dict[str, Any]:
    hooks = {name: each for name, each in settings.get("hooks", {}).items() if each}
    rest = {name: each for name, each in settings.items() if name != "hooks"}
    return {**agent.first, **rest, "hooks": hooks}


def _write(path: Path, data: bytes, like: Path) -> None:
    """Replace a file, with the permissions of another, if that exists."""
    mode = stat.S_IMODE(like.stat().st_mode) if like.exists() else 0o600
    file, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(mode)
        replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
