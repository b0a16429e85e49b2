"""A paper plan for many users: bytes, rates, memory, cores and databases.

    python -m bench.service.capacity [--users 1e6 1e8] [--figures many_users.json]

Arithmetic only: nothing is measured here. The figures of one user, row and call are
measured by `bench.service.many_users` (--json writes a file for --figures),
`bench.service.rss`, `bench.service.balancer` and `bench.service.file_and_database`;
options replace them. "Peak" is --peak times the mean of a day.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

from bench.common import arguments, tables

DAY_S = 86_400
# Name, default, and what it is. A name is a key of the file of --figures, too.
FIGURES = (
    ("rows", 200, "rows of a user"),
    ("turns", 20, "turns that a user adds a day"),
    ("searches", 50, "searches of a user a day"),
    ("peak", 10, "the busiest minute in means"),
    ("user_bytes", 285, "bytes of a user in the database, with indexes"),
    (
        "row_bytes",
        782,
        "bytes of a row without its vector, with indexes and its change",
    ),
    ("vector_bytes", 1_540, "bytes of the vector of a row; 384 dimensions of float32"),
    ("write_us", 560, "time of an add of one turn, with its sync: at least its CPU"),
    ("check_us", 62, "time of a version check"),
    ("load_us", 980, "time of a load of a user, from a snapshot"),
    ("loads", 0.056, "loads a search, with sticky routing"),
    ("search_us", 137, "CPU of a search on a server"),
    ("add_us", 500, "CPU of an add on a server, without embedding"),
    ("active", 0.01, "share of the users that servers have loaded"),
    ("engine_row_bytes", 1_100, "bytes of a row in an engine"),
    ("engine_user_bytes", 3_000, "bytes of a user in an engine"),
    ("usage", 0.5, "share of a core that is used at the peak"),
    ("database_cores", 16, "cores of a database"),
    ("database_bytes", 4e12, "bytes that one database may have"),
    ("server_cores", 8, "cores of a server"),
    ("server_bytes", 8e9, "bytes for the engine of a server"),
)


def plan(users: float, one: argparse.Namespace) -> dict[str, float]:
    """Return the plan for a number of users."""
    row = one.row_bytes + one.vector_bytes
    writes, searches = (users * each / DAY_S for each in (one.turns, one.searches))
    peak = {"writes": writes * one.peak, "searches": searches * one.peak}
    database_us = peak["writes"] * one.write_us + peak["searches"] * (
        one.check_us + one.loads * one.load_us
    )
    server_us = peak["writes"] * one.add_us + peak["searches"] * one.search_us
    tables_ = users * one.rows * row
    directory = users * one.user_bytes
    engine = (
        users * one.active * (one.engine_user_bytes + one.rows * one.engine_row_bytes)
    )
    database_cores = database_us / 1e6 / one.usage
    server_cores = server_us / 1e6 / one.usage
    return {
        "bytes of rows": tables_,
        "bytes of users": directory,
        "writes a second, mean": writes,
        "writes a second, peak": peak["writes"],
        "checks a second, mean": searches,
        "checks a second, peak": peak["searches"],
        "loads a second, peak": peak["searches"] * one.loads,
        "engine memory of all servers": engine,
        "cores of the databases": database_cores,
        "cores of the servers": server_cores,
        "databases": max(
            1,
            math.ceil(database_cores / one.database_cores),
            math.ceil((tables_ + directory) / one.database_bytes),
        ),
        "servers, one of them spare": 1
        + max(
            1,
            math.ceil(server_cores / one.server_cores),
            math.ceil(engine / one.server_bytes),
        ),
    }


def shown(name: str, value: float) -> str:
    """Return a figure with its unit."""
    if "bytes" in name or "memory" in name:
        power = min(5, int(math.log(max(1.0, value), 1000)))
        return f"{value / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB', 'PB')[power]}"
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    """Return the options; those that are given go before the file of --figures."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--users", type=float, nargs="+", default=[1e6, 1e8])
    parser.add_argument("--figures", type=Path, help="JSON: names below and numbers")
    for name, default, what in FIGURES:
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=float,
            default=default,
            help=f"{what} ({default:g})",
        )
    given = parser.parse_args(words)
    if given.figures is not None:
        known = {name for name, _, _ in FIGURES}
        found = json.loads(given.figures.read_text())
        if not isinstance(found, dict) or not found.keys() <= known:
            parser.error(f"--figures: the names are {', '.join(sorted(known))}")
        parser.set_defaults(**found)
        given = parser.parse_args(words)
    if any(not getattr(given, name) >= 0 for name, _, _ in FIGURES) or not given.usage:
        parser.error("figures are numbers of at least 0; --usage is above 0")
    return given


def main() -> None:
    """Print the plan."""
    options = parsed()
    plans = [plan(users, options) for users in options.users]
    head = ("", *(f"{users:,.0f} users" for users in options.users))
    print(
        tables.table(
            head,
            [(name, *(shown(name, each[name]) for each in plans)) for name in plans[0]],
        )
    )
    print("of these figures:")
    lines = [(what, f"{getattr(options, name):g}") for name, _, what in FIGURES]
    print(tables.table(("figure", "value"), lines))


if __name__ == "__main__":
    main()
