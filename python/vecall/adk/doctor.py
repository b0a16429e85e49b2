"""Checks a folder of google-adk's agents, without running its code.

google-adk reports a missing memory service poorly. It only logs a services file that
cannot be loaded. A server without a URI keeps memories in RAM, until it ends. A tool
that preloads memories then does nothing. So this module checks the configuration.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import google.adk
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.utils.yaml_utils import load_yaml_file

from vecall import adk
from vecall.adk.memory_service import (
    DATABASE_SCHEME,
    SCHEME,
    SCHEMES,
    VecallMemoryService,
    is_vecall_uri,
    parse_adk_uri,
    with_uri_options,
)
from vecall.errors import ConfigError, VecallError
from vecall.index.partition_cache import examine_storage
from vecall.store import Finding, url_without_secrets

_YAML = ("services.yaml", "services.yml")
_BUILT_IN = {"memory", "rag", "agentengine", "sqlite"}
_CLASS = "vecall.adk.VecallMemoryService"
_REGISTERING = {"vecall.adk.register", "vecall.adk.memory_service.register"}
_READING = set(
    "LoadMemoryTool PreloadMemoryTool RecallMemoryTool load_memory load_memory_tool "
    "preload_memory preload_memory_tool recall_memory".split()
)
_WRITING = set(
    "RememberTool VecallMemoryPlugin add_events_to_memory add_memory "
    "add_session_to_memory remember".split()
)
_OWN_TOOLS = {*adk.__all__} - set(
    "VecallMemoryPlugin VecallMemoryService entry register".split()
)


def examine_agents(folder: Path, uri: str | None = None) -> list[Finding]:
    """Check a folder of agents for `adk web` and `adk api_server`, and its URI."""
    # Changes nothing, runs no code of the agents, and creates no file. Level "error":
    # the server will not use this memory service.
    folder = folder.resolve()
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder")
    findings = [Finding("ok", "google-adk", google.adk.__version__)]
    needs_ours = uri is not None and is_vecall_uri(uri)
    scheme = SCHEME if uri is None or not needs_ours else uri.partition(":")[0]
    is_known = False
    for finding, registers in _adk_services_findings(folder, scheme):
        findings.append(finding)
        is_known |= registers
        if finding.level == "error":
            break  # later entries do not count
    if not is_known:
        message = (
            f"no services file in {folder} makes {scheme}:// known; write "
            f'services.yaml with "scheme: {scheme}", "type: memory" and '
            f'"class: {_CLASS}"'
        )
        findings.append(
            Finding("error" if needs_ours else "warning", "services", message)
        )
    findings += _adk_uri_findings(folder, uri)
    for agent in _adk_agent_folders(folder):
        findings += _agent_findings(
            agent, is_ours=needs_ours, waits=_uri_waits_for_session_end(uri)
        )
    return findings


def _adk_services_findings(folder: Path, scheme: str) -> Iterator[tuple[Finding, bool]]:
    """Yield findings on the services files, and whether each registers the scheme."""
    for name in _YAML:
        if (folder / name).is_file():
            yield from _services_yaml_findings(folder, name, scheme)
    yield from _services_module_findings(folder / "services.py")


def _services_yaml_findings(
    folder: Path, name: str, ours: str
) -> Iterator[tuple[Finding, bool]]:
    """Yield findings on a YAML file, and whether each registers the scheme `ours`."""
    try:
        services = (load_yaml_file(folder / name) or {}).get("services") or []
        entries = [(each.get("scheme"), each.get("class"), each) for each in services]
    except Exception as error:
        message = f"cannot be read ({_error_line(error)}); google-adk only logs that"
        yield Finding("error", name, message), False
        return
    for scheme, path, entry in entries:
        is_memory = scheme in SCHEMES and entry.get("type") == "memory"
        if is_memory and isinstance(path, str):
            finding = _service_class_finding(name, folder, scheme, path)
            yield finding, finding.level == "ok" and scheme == ours
        elif scheme in SCHEMES:
            message = f'no memory: expected "type: memory" and "class: {_CLASS}"'
            yield Finding("warning", name, message), False
        elif isinstance(path, str) and not _is_class_installed(folder, path):
            message = (
                f"class {path}: there is no such module; later entries do not count"
            )
            yield Finding("error", name, message), False
    if not any(scheme == ours for scheme, *_ in entries):
        message = f'has no service with "scheme: {ours}"'
        yield Finding("note", name, message), False


def _service_class_finding(name: str, folder: Path, scheme: str, path: str) -> Finding:
    module, _, class_name = path.rpartition(".")
    if module.partition(".")[0] != "vecall":
        if _is_class_installed(folder, path):
            return Finding("ok", name, f"{scheme}:// is {path}, which was not loaded")
        return Finding("error", name, f"class {path}: there is no such module")
    try:
        found: Any = getattr(import_module(module), class_name)
    except Exception as error:
        return Finding("error", name, f"class {path}: {_error_line(error)}")
    if not (isinstance(found, type) and issubclass(found, BaseMemoryService)):
        return Finding("error", name, f"class {path}: is no memory service")
    return Finding("ok", name, f"{scheme}:// is {path}")


def _is_class_installed(folder: Path, path: str) -> bool:
    """Whether the package of a class is installed, without importing it."""
    first = path.partition(".")[0]
    return PathFinder.find_spec(first, [str(folder), *sys.path]) is not None


def _services_module_findings(path: Path) -> Iterator[tuple[Finding, bool]]:
    if not path.is_file():
        return
    try:
        names = names_used_in_file(path)
    except (SyntaxError, ValueError, OSError) as error:
        message = f"cannot be read ({_error_line(error)}); google-adk only logs that"
        yield Finding("error", path.name, message), False
        return
    if names & _REGISTERING:
        yield Finding("ok", path.name, "calls vecall.adk.register"), True
    elif any(name.rpartition(".")[2] == "register_memory_service" for name in names):
        message = "registers memories of its own, which were not looked at"
        yield Finding("ok", path.name, message), True
    else:
        yield Finding("note", path.name, "does not call vecall.adk.register"), False


def _adk_uri_findings(folder: Path, uri: str | None) -> Iterator[Finding]:
    if uri is None:
        message = (
            "none given: without --memory_service_uri google-adk's server has a memory "
            "that ends with it"
        )
        yield Finding("warning", "uri", message)
        return
    if not is_vecall_uri(uri):
        yield _other_uri_finding(folder, uri)
        return
    # As in google-adk, paths are relative to the folder of the agents.
    holder = folder.parent if _is_adk_agent_folder(folder) else folder
    try:
        path, options = parse_adk_uri(uri, holder)
        rest = {name: value for name, value in options.items() if name != "read_only"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            VecallMemoryService(**with_uri_options({}, rest)).close()
    except (VecallError, ImportError) as error:
        yield Finding("error", "uri", str(error))
        return
    if uri.startswith(f"{DATABASE_SCHEME}:"):
        try:
            yield Finding("ok", "uri", url_without_secrets(str(path)))
            yield from examine_storage(str(path))
        except (VecallError, ImportError) as error:
            yield Finding("error", "uri", str(error).removeprefix("path: "))
    elif not isinstance(path, Path):
        yield Finding("warning", "uri", "nothing outlives the process")
    elif path.is_file():
        yield Finding("ok", "uri", f"{path}")
        yield from examine_storage(path)
    elif not path.parent.is_dir():
        yield Finding("error", "uri", f"{path.parent}: there is no such folder")
    elif options.get("read_only"):
        yield Finding("error", "uri", f"{path}: is not there, and read_only makes none")
    else:
        yield Finding("note", "uri", f"{path} will be made at the first start")


def _other_uri_finding(folder: Path, uri: str) -> Finding:
    """Return how google-adk interprets a URI that is not vecall's."""
    scheme = urlsplit(uri).scheme
    others = any((folder / name).is_file() for name in (*_YAML, "services.py"))
    if scheme in _BUILT_IN or (scheme and others):
        return Finding("warning", "uri", "names another memory than vecall")
    message = (
        f'google-adk knows no such scheme and will not start; vecall has "{SCHEME}"'
    )
    return Finding("error", "uri", message)


def _is_adk_agent_folder(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("agent.py", "root_agent.yaml"))


def _adk_agent_folders(folder: Path) -> list[Path]:
    if _is_adk_agent_folder(folder):
        return [folder]
    return sorted(
        each
        for each in folder.iterdir()
        if not each.name.startswith((".", "__"))
        and (_is_adk_agent_folder(each) or (each / "__init__.py").is_file())
    )


def _uri_waits_for_session_end(uri: str | None) -> bool:
    """Whether memories are made at session end, which google-adk does not signal."""
    try:
        return parse_adk_uri(uri or "")[1].get("trigger") == "session_end"
    except ConfigError:
        return False


def _agent_findings(folder: Path, *, is_ours: bool, waits: bool) -> Iterator[Finding]:
    """Check the files of one agent."""
    names: set[str] = set()
    for path in sorted(folder.rglob("*.py")):
        try:
            names |= names_used_in_file(path)
        except (SyntaxError, ValueError, OSError) as error:
            message = (
                f"{path.relative_to(folder)} cannot be read ({_error_line(error)})"
            )
            yield Finding("error", folder.name, message)
    names |= _tools_in_yaml(folder / "root_agent.yaml")
    by_name = {name.rpartition(".")[2]: name for name in names}
    reading, writing = (sorted(by_name.keys() & some) for some in (_READING, _WRITING))
    own = sorted(n for n in _OWN_TOOLS if f"vecall.adk.{n}" in names)
    # A memory that code creates is not the one checked here.
    makes = "VecallMemoryService" in by_name
    if own and not (is_ours or makes):
        message = (
            f"{', '.join(own)} of vecall.adk: needs a VecallMemoryService, see uri"
        )
        yield Finding("warning", folder.name, message)
    if reading and not writing:
        message = (
            f"uses {', '.join(reading)}, but nothing here writes to the memory, as "
            "VecallMemoryPlugin does; google-adk writes only on PATCH …/memory"
        )
        yield Finding("note", folder.name, message)
    elif reading or writing:
        message = f"uses {', '.join(reading + writing)}"
        yield Finding("ok", folder.name, message)
    else:
        yield Finding("note", folder.name, "uses no memory")
    if waits and "VecallMemoryPlugin" in by_name and "end_session" not in by_name:
        message = (
            "trigger=session_end remembers nothing here until end_session is called, "
            "and nothing here calls it; inactivity and message_count need no call"
        )
        yield Finding("warning", folder.name, message)
    if reading and "AgentTool" in by_name:
        message = (
            "an AgentTool has an empty memory of its own; inside it, name the memory: "
            "LoadMemoryTool(memory=service)"
        )
        yield Finding("note", folder.name, message)


def _tools_in_yaml(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    try:
        tools = load_yaml_file(path).get("tools") or []
        return {each["name"] for each in tools}
    except Exception:  # google-adk reports the error when it loads the agent
        return set()


def _error_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def names_used_in_file(path: Path) -> set[str]:
    """Return the full names that a file imports or uses."""
    # `from vecall.adk import load_memory as lm` gives "vecall.adk.load_memory", and so
    # does `import vecall.adk` with `vecall.adk.load_memory`.
    tree = ast.parse(path.read_bytes())
    full = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    full[alias.asname] = alias.name
    reached = set(full.values())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            reached.add(_dotted_attribute_name(node, full))
    return reached


def _dotted_attribute_name(node: ast.Attribute, full: dict[str, str]) -> str:
    names = [node.attr]
    inner: ast.expr = node.value
    while isinstance(inner, ast.Attribute):
        names.append(inner.attr)
        inner = inner.value
    if isinstance(inner, ast.Name):
        names.append(full.get(inner.id, inner.id))
    return ".".join(reversed(names))
