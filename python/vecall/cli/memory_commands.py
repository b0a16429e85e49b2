"""Commands about memories, `vecall ls` to `vecall forget`, and about all of a user."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from vecall.cli import console as ui
from vecall.cli import options as cli
from vecall.errors import ConfigError, NotFoundError
from vecall.filters.rights import Rights
from vecall.limits import SHARED_APP, Scope, Scopes
from vecall.operations.options import WritePolicy
from vecall.service._user_sync import SyncUserMemory
from vecall.service.memory_service import MemoryService
from vecall.store import State, forget_hidden_users, name_traces, partitions_of_user
from vecall.summaries import SessionSummary, SummaryProvider
from vecall.types import Filter, ListedSession, MemoryEntry, Page
from vecall.validation import is_database_url

_AT_ONCE = 1_000  # memories that are read together

command = cli.Commands()


@command("""ls, list: list apps, users, sessions, memories
    List the apps of a file, the users of an app, the sessions of a user and the
    memories of none, or the turns of a session. An app or a user that is the only one
    need not be named.

    app APP ?
    user USER ?
    session SESSION ?
    --memories  a user's memories, not the sessions
    | --archived  a user's archived memories
    | --held  a user's memories that are held for review
    --prefix PREFIX = ""  only names that begin so
    --limit LIMIT int = 100  at most (%(default)s)
    --after NAME  only what follows this one
    @path @listing""")
def _run_ls(options: argparse.Namespace) -> int:
    page = {"prefix": options.prefix, "after": options.after, "limit": options.limit}
    is_plain = not (options.memories or options.archived or options.held)
    with cli.open_without_embedder(options.path, read_only=True) as memory:
        names, admin = _with_known_names(memory, options), memory.sync.admin
        if not names and is_plain:
            ui.print_listing(options, apps=admin.list_apps(**page))
            return 0
        app = cli.choose_app(memory, names[0] if names else None)
        if len(names) < 2 and is_plain:
            ui.print_listing(options, users=admin.list_users(app_name=app, **page))
            return 0
        name = cli.choose_user(memory, app, names[1] if names[1:] else None, [app])
        rights = Rights(review=options.held)
        user = memory.restricted(rights).sync.user(app, name)
        if is_plain and len(names) < 3:
            sessions = user.list_sessions(**page)
            facts = _memories_of_no_session(user, sessions, options)
            ui.print_listing(options, sessions=sessions, memories=facts)
            return 0
        state: State = "archived" if options.archived else "live"
        session = cli.choose_session(user, names[2], [app, name]) if names[2:] else None
        prefix = options.prefix or None  # of the sessions
        memories = user.list(
            state="quarantined" if options.held else state,
            cursor=options.after,
            limit=options.limit,
            filter=Filter(session_id=session, session_prefix=prefix),
        )
    ui.print_listing(options, memories=memories)
    return 0


def _with_known_names(memory: MemoryService, options: argparse.Namespace) -> list[str]:
    """Return the given names, with those in front that there is only one of."""
    given = (options.app, options.user, options.session)
    names = [name for name in given if name is not None]
    admin = memory.sync.admin
    apps = admin.list_apps(limit=2)
    if names and len(apps) == 1 and names[0] != apps[0].app_name:
        names.insert(0, apps[0].app_name)
    if len(names) > 1:
        users = admin.list_users(app_name=names[0], limit=2)
        if len(users) == 1 and names[1] != users[0].user_id:
            names.insert(1, users[0].user_id)
    if len(names) > len(given):
        cli.choose_app(memory, options.app)  # says that it is unknown
        cli.choose_user(memory, names[0], options.user)
    return names


def _memories_of_no_session(
    user: SyncUserMemory, sessions: Page[ListedSession], options: argparse.Namespace
) -> list[MemoryEntry]:
    """Return the first memories of no session, if the page has all sessions."""
    if sessions.next or options.after or options.prefix:
        return []
    left = user.count() - sum(session.memories for session in sessions)
    facts: list[MemoryEntry] = []
    page: Page[MemoryEntry] = Page(next=None)
    while len(facts) < min(left, options.limit):
        page = user.list(cursor=page.next, limit=_AT_ONCE)
        facts += [memory for memory in page if memory.session_id is None]
        if page.next is None:
            break
    return facts[: options.limit]


@command("""show, get: show all fields of a memory
    Show all fields of a memory.

    @owner @path @json @id""")
def _run_show(options: argparse.Namespace) -> int:
    with cli.open_user(options, writes=False) as user:
        revisions = user.history(options.id)
    now = revisions[-1]
    state = {"state": now.state, "why": now.why, "by": now.by}
    facts: dict[str, Any] = {"id": None, **state, "text": now.memory.text}
    facts |= asdict(now.memory)
    if options.json:
        former = [asdict(each) for each in revisions[:-1]]
        ui.print_json({"memory": facts, "history": former})
        return 0
    del facts["content"]
    if revisions[1:]:
        count = ui.counted(len(revisions) - 1, "former text")
        facts["history"] = f"{count}: vecall history {options.id}"
    known = {name: each for name, each in facts.items() if each not in (None, {})}
    indent = " " * (max(map(len, known)) + 2)
    for name, value in known.items():
        is_time = name.endswith("_at") or name in ("timestamp", "valid_until")
        told = ui.format_time(value) if is_time else value
        first = ui.dim(f"{name.replace('_', ' '):{len(indent)}}")
        if name in ("id", "by"):  # never broken, so that it can be copied
            print(first + ui.one_line(told))
            continue
        for line in ui.shown(str(told)).splitlines():
            print(ui.wrap_for_terminal(line, indent, first))
            first = indent
    return 0


@command("""history: show the former texts of a memory
    Show the former texts of a memory.

    @owner @path @listing @id""")
def _run_history(options: argparse.Namespace) -> int:
    """Show the revisions of a memory and of those it replaced."""
    with cli.open_user(options, writes=False) as user:
        revisions = user.history(options.id)
    ui.print_listing(options, revisions=revisions)
    return 0


@command("""add, remember: remember a text
    Remember a text. A new file, app or user begins with it.

    @owner @path @json
    text  the text; "-" is standard input
    @fields @embedder
    --session SESSION  its session
    --ttl TTL  its lifetime: seconds, or 12h or 30d""")
def _run_add(options: argparse.Namespace) -> int:
    text = _text_to_add(options)
    given = {**_fields_to_add(options), "session_id": options.session}
    with cli.open_user(options, is_new=True) as user:
        id_ = user.add({"content": text, **given}, ttl=options.ttl).id
    return ui.print_facts(options, {"id": id_}, f"remembered as {ui.one_line(id_)}")


def _text_to_add(options: argparse.Namespace) -> str:
    typed: str = options.text
    return sys.stdin.read() if typed == "-" else typed


def _fields_to_add(options: argparse.Namespace) -> dict[str, Any]:
    fields = ("author", "kind", "source", "importance")
    given = {name: getattr(options, name) for name in fields}
    given["custom_metadata"] = cli.parse_metadata(options.metadata)
    return {name: value for name, value in given.items() if value is not None}


@command("""edit, update: correct a memory
    Correct a memory. With neither a text nor an option $EDITOR opens. The history keeps
    the former text.

    @owner @path @json @id @fields @embedder
    text ?  the new text""")
def _run_edit(options: argparse.Namespace) -> int:
    """Correct a memory, if nobody changed it meanwhile."""
    changes = _fields_to_add(options)
    with cli.open_user(options) as user:
        memory = user.get(options.id)
        text = options.text
        if text is None and not changes:
            text = _edit_in_editor(memory.text)
        if text is not None and text != memory.text:
            if not isinstance(memory.content, str):
                parts = memory.content.get("parts", ())
                if any(set(part) != {"text"} for part in parts):
                    msg = "text: would replace parts of the memory that are no text"
                    raise ConfigError(msg)
            changes["content"] = text
        if changes:
            memory = user.update(options.id, if_version=memory.version, **changes)
    undo = f"; vecall history {ui.one_line(memory.id)} has the former text"
    told = "corrected" + undo * ("content" in changes) if changes else "nothing changed"
    return ui.print_facts(options, {"id": memory.id, "changed": sorted(changes)}, told)


def _edit_in_editor(text: str) -> str:
    """Return a text after $EDITOR had it."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise ConfigError("text: give the new text, or set EDITOR")
    with tempfile.TemporaryDirectory(prefix="vecall-") as folder:
        file = Path(folder) / "memory.txt"
        file.write_text(f"{text}\n", encoding="utf-8")
        try:
            subprocess.run([*shlex.split(editor), str(file)], check=True)
            return file.read_text(encoding="utf-8").removesuffix("\n")
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            msg = f"EDITOR: failed with {type(error).__name__}; nothing was changed"
            raise ConfigError(msg) from error


@command("""rm, delete: archive memories; with --forever, delete them
    Archive memories; with --forever, delete them. No search finds what is archived;
    `vecall restore` brings it back. Nothing brings back what --forever deletes; `vecall
    purge` then rewrites the file.

    @owner @path @json @ids
    --yes  do not ask
    --forever  delete""")
def _run_rm(options: argparse.Namespace) -> int:
    """Archive or delete memories: all of them, or none if one is unknown."""
    with cli.open_user(options) as user:
        ids = list(dict.fromkeys(options.id))
        for id_ in ids:
            state = user.history(id_)[-1].state
            if state != "live" and not options.forever:
                msg = f"ID: {ui.one_line(id_)} is {state} already; --forever deletes it"
                raise ConfigError(msg)
        count = ui.counted(len(ids), "memory")
        if options.forever:
            if not ui.is_confirmed(options, f"Delete {count}? This cannot be undone."):
                return ui.print_facts(options, {"deleted": 0}, "nothing was deleted")
            user.delete_many(ids)
            return ui.print_facts(options, {"deleted": len(ids)}, f"{count} deleted")
        for id_ in ids:
            user.archive(id_)
    told = f"{count} archived; undo it by vecall restore "
    told += " ".join(map(ui.one_line, ids))
    return ui.print_facts(options, {"archived": len(ids)}, told)


@command("""restore: make archived memories live again
    Make archived memories live again. With --held, release those that are held for
    review.

    @owner @path @json @ids""")
def _run_restore(options: argparse.Namespace) -> int:
    with cli.open_user(options) as user:
        bring = user.release if options.held else user.restore
        ids = [id_ for each in options.id for id_ in bring(each)]
    count = ui.counted(len(ids), "memory is", "memories are")
    return ui.print_facts(options, {"restored": ids}, f"{count} live again")


@command("""forget: search for memories and delete them
    Search for memories and delete them. It shows those that match about as well as the
    best one, and asks. Nothing brings them back.

    @owner @path @json
    text  the text; "-" is standard input
    --yes  do not ask
    @embedder""")
def _run_forget(options: argparse.Namespace) -> int:
    with cli.open_user(options) as user:
        proposal = user.propose_forget(_text_to_add(options))
        found = proposal.memories
        if not options.json:
            print("\n".join(map(ui.show_memory, found)) or "no memory matches")
        deleted = 0
        if found and (options.yes or not options.json):
            count = ui.counted(len(found), "memory")
            if ui.is_confirmed(options, f"Delete {count} for ever?"):
                deleted = user.confirm_forget(proposal.token)
    proposed = [asdict(memory) for memory in found]
    told = f"{ui.counted(deleted, 'memory')} deleted" if deleted else ""
    facts = {"proposed": proposed, "deleted": deleted}
    return ui.print_facts(options, facts, told or "nothing was deleted")


# `vecall consolidate`: merges duplicate memories and summarizes old ones.


@command("""consolidate: merge a user's duplicates, sum up what is old
    Merge memories that say the same, and with --similarity those that mean the same;
    with --older-than and --summarizer sum up what is old. Without --yes nothing is
    changed, and what would be merged is shown. What is merged or summed up is archived,
    and restore_memory brings it back.

    @owner
    --similarity COSINE float  also merge facts whose vectors have at least this cosine,
      such as 0.95
    --older-than TIME  sum up what is older, such as "30d"
    --fold WHAT = sessions  what is summed up: comma-separated sessions, summaries,
      facts (%(default)s)
    --summarizer MODULE:NAME  a function from a prompt to a text, or an object with
      get_summaries
    --yes  do it
    @json @path @embedder""")
def _run_consolidate(options: argparse.Namespace) -> int:
    cli.require_existing_file(options.path)
    summarizer = _import_summarizer(options.summarizer)
    only_shown = not options.yes
    told = ui.Progress("consolidating", after="what was merged stays merged")
    with cli.open_service(
        options.path, options.embedder, read_only=only_shown
    ) as memory:
        app = cli.choose_app(memory, options.app)
        user = cli.choose_user(memory, app, options.user)
        consolidate = partial(
            memory.sync.consolidate,
            app_name=app,
            user_id=user,
            older_than=options.older_than,
            similarity=options.similarity,
            fold=tuple(name.strip() for name in options.fold.split(",")),
        )
        with told.watching():
            done = consolidate(dry_run=only_shown or summarizer is not None)
        if options.yes and summarizer is not None:
            counting = _CountingSummarizer(summarizer)
            with told.watching(lambda: counting.turns, done.folded):
                done = consolidate(summarizer=counting, dry_run=False)
        if options.json:
            ui.print_json(asdict(done))
            return 0
        if not options.yes:
            owner = memory.sync.user(app, user)
            for group in done.groups:
                how = "the same words"
                if group.similarity is not None:
                    how = f"cosine {group.similarity:.3f} or more"
                kept, *merged = owner.get_many([group.kept, *group.merged])
                print(f"{_printed_memory_line(kept)}  {ui.dim(how)}")
                for each in merged:
                    print(f"  = {_printed_memory_line(each)}")
    verb = "" if options.yes else "would be "
    made = f" into {len(done.summaries)} summaries" if options.yes else ""
    print(f"{done.merged} {verb}merged, {done.folded} {verb}summed up{made}")
    if not options.yes:
        print("nothing was changed; --yes does it")
    return 0


class _CountingSummarizer:
    """A summarizer that counts the memories it was given."""

    def __init__(self, provider: SummaryProvider) -> None:
        self._provider = provider
        self.turns = 0

    def get_summaries(
        self, session: Any
    ) -> Sequence[SessionSummary] | Awaitable[Sequence[SessionSummary]]:
        self.turns += len(session["events"])
        return self._provider.get_summaries(session)


def _printed_memory_line(memory: MemoryEntry | None) -> str:
    text = "" if memory is None else ui.one_line(memory.text)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _import_summarizer(name: str | None) -> SummaryProvider | None:
    """Import what --summarizer names, or raise ConfigError."""
    if name is None:
        return None
    expected = "MODULE:NAME of a function, or of an object with get_summaries,"
    found = cli.import_object(name, "summarizer", expected)
    if isinstance(found, SummaryProvider):
        return found
    if not callable(found):
        raise ConfigError(f"summarizer: expected {expected[:-1]}")
    from vecall.summaries import LlmSummaryProvider

    return LlmSummaryProvider(found)


# `vecall erase`: removes all data of a user, and the user's name.

HIDDEN = "an app that a purge has hidden"
"""The label of an app that holds only tombstones of the user."""

SHARED = "the shared scope"
"""The label of the user's memories that all apps share."""

NOT_REACHED = (
    "deleted rows in the files of the server, until VACUUM has removed them and others "
    "have overwritten them; VACUUM FULL rewrites the files",
    "statistics of the planner, until ANALYZE; logs of the server",
    "the write-ahead log and its archive, until they are recycled",
    "replicas, until they have applied the deletion",
    "backups, dumps and exports: delete them yourself",
    "the memory of running servers, until their next call for the user, or their end",
    "tables outside of the schema, or that vecall_keeper may not read",
)
"""Where a database may still have the user's data, and no program of vecall sees it."""


@command("""erase: erase a person: memories, tombstones and the name
    Delete all memories of a user in every app, and the name, and rewrite the file so
    that no trace is left; in a database, delete the rows and VACUUM. Then search for
    the name, and return 1 if it remains somewhere. Backups and exports are not changed:
    delete them yourself. If an old session of the user is ingested later, it is stored
    again, because its tombstones are gone too.

    --user USER !  user_id
    --app APP  only in this app
    --yes  do not ask
    @path @json""")
def _run_erase(options: argparse.Namespace) -> int:
    """Erase the user; return 1 if another user or app still has the name."""
    is_database = is_database_url(options.path)
    cli.require_existing_file(options.path)
    path, user = cli.shown_path(options.path), options.user
    place = options.path if is_database else Path(options.path)
    with ui.naming_path_in_errors(path):
        found, hidden, parts = partitions_of_user(place, user, options.app)
        apps = [app for app in found if options.app in (None, app)]
        if not (apps or hidden):
            msg = f"user: the {'database' if is_database else 'file'} has no such user"
            raise NotFoundError(msg)
        where = [SHARED if app == SHARED_APP else app for app in apps]
        where += [HIDDEN] * len(hidden)
        named = ", ".join(map(ui.one_line, where))
        question = f"Erase {ui.one_line(user)} in {named}? This cannot be undone."
        if not ui.is_confirmed(options, question):
            raise ConfigError("nothing was erased")
        if hidden:
            forget_hidden_users(place, hidden)
        writes = WritePolicy(scopes=Scopes(read=("shared",), write=("shared",)))
        with MemoryService(options.path, embedder="none", writes=writes) as memory:
            erased = 0
            for app in apps:
                # The shared scope belongs to the user; any app name selects it.
                scope: Scope = "shared" if app == SHARED_APP else "user"
                name = "any" if app == SHARED_APP else app
                erased += memory.sync.delete_user(
                    app_name=name, user_id=user, forget=True, scope=scope
                )
            memory.sync.admin.purge()
        places = name_traces(place, user, parts)
    _print_erase_report(options, where, erased, places)
    return int(bool(places) and len(apps) == len(found))


def _print_erase_report(
    options: argparse.Namespace,
    apps: list[str],
    erased: int,
    places: list[tuple[Path | str, str]],
) -> None:
    files = list(dict.fromkeys(ui.one_line(file) for file, _ in places))
    told = [f"{ui.one_line(file)}: {place}" for file, place in places]
    is_database = is_database_url(options.path)
    facts = {"memories": erased, "apps": apps, "name_is_in": files, "places": told}
    if is_database:
        facts["not_reached"] = NOT_REACHED
    memories = ui.counted(erased, "memory")
    where = ui.counted(sum(app != SHARED for app in apps), "app")
    if SHARED in apps:
        where += f" and {SHARED}"
    lines = [f"erased {memories} of {ui.one_line(options.user)} in {where}"]
    if places:
        lines += [
            "the name is still in another app, or in a name or a text of another "
            "user, or rows of the user remain:",
            *(f"  {each}" for each in told),
        ]
    elif is_database:
        lines.append("no row of the database has the name any more")
    else:
        lines.append("the file no longer has the name")
    if is_database:
        lines += ["what this command cannot reach:", *(f"  {e}" for e in NOT_REACHED)]
    ui.print_facts(options, facts, *lines)
