"""A balancer before many servers: what sticky routing saves.

    python -m bench.service.balancer [--servers 1 2 4 8 16] [--load-us 980] [--seed 7]

A simulation. Users come back by a power law, each for a conversation of some turns. A
turn is a write and some searches. Sticky routing sends a user to one server, by a hash;
otherwise every request goes to any server. Each server has a real engine of vecall as
its cache, and evicts as the service does: eight victims of `Engine.sweep`, the engine's
clock algorithm, whenever it holds more users than --capacity.

A search asks the database for the version of its user; what is asked while a statement
runs goes with the next one. Then it finds the user loaded and current (a hit), loads
what changed (another server has written), or loads the user. The times are measured
figures: `bench.service.many_users` prints the check, `bench.service.file_and_database`
the load.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate

import numpy as np
from vecall import Engine

from bench.common import arguments, tables

_VICTIMS = 8  # of vecall.index.partition_cache
_NEVER = np.iinfo(np.int64).max
_VECTOR = np.array([[1.0, 0.0]], np.float32)


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a user.

    Attributes:
        at: When it comes, in seconds.
        user: The number of the user.
        is_write: Whether it adds a turn; else it searches.
    """

    at: float
    user: int
    is_write: bool


def requests(options: argparse.Namespace) -> list[Request]:
    """Return the requests of all users in order of time."""
    choose = random.Random(options.seed)
    weights = list(
        accumulate(1 / (n + 1) ** options.skew for n in range(options.users))
    )
    made: list[Request] = []
    length = options.turns * (1 + options.searches)
    conversations = max(1, round(options.requests / length))
    span = options.requests / options.rate
    for user in choose.choices(
        range(options.users), cum_weights=weights, k=conversations
    ):
        at = choose.uniform(0, span)
        for _ in range(options.turns):
            for n in range(1 + options.searches):
                made.append(Request(at + n * 0.05, user, n == options.searches))
            at += choose.expovariate(1 / options.pause)
    return sorted(made, key=lambda one: (one.at, one.user))


@dataclass(slots=True)
class Server:
    """A server with the engine as its cache.

    Attributes:
        capacity: Users that it holds.
        statements: Version statements that it sent.
        hits: Searches whose user was loaded and current.
        replays: Searches that loaded what changed.
        loads: Searches that loaded the user.
    """

    capacity: int
    check_s: float
    more_s: float
    statements: int = 0
    hits: int = 0
    replays: int = 0
    loads: int = 0
    _engine: Engine = field(default_factory=lambda: Engine(2, kind="flat"))
    _versions: dict[int, int] = field(default_factory=dict)
    _busy_until: float = 0.0
    _waiting: int = 0

    def search(self, at: float, user: int, version: int) -> None:
        """Check the version, and load the user unless it is current."""
        self._check(at)
        if user in self._versions:
            key = _key(user)
            if self._versions[user] == version:
                self.hits += 1
            else:
                self.replays += 1
            self._engine.search(key, _VECTOR[0], 1)  # a look-up, for the clock
            self._versions[user] = version
            return
        self.loads += 1
        self._add(user)
        self._versions[user] = version
        while len(self._versions) > self.capacity:
            for key in self._engine.sweep(_VICTIMS):
                self._engine.drop(key)
                del self._versions[int(key[1])]

    def write(self, user: int, version: int) -> None:
        """Take over a write of this server: a loaded user stays current."""
        if self._versions.get(user) == version - 1:
            self._versions[user] = version

    def finish(self) -> None:
        """Send the statement that waits."""
        self.statements += self._waiting > 0
        self._waiting = 0

    def _check(self, at: float) -> None:
        """Send a statement, or go with the next one."""
        if at >= self._busy_until and self._waiting:
            # The statement that waited began when the one before it ended.
            self.statements += 1
            self._busy_until += self.check_s + (self._waiting - 1) * self.more_s
            self._waiting = 0
        if at >= self._busy_until:
            self.statements += 1
            self._busy_until = at + self.check_s
        else:
            self._waiting += 1

    def _add(self, user: int) -> None:
        number = np.array([1], np.int64)
        self._engine.add_rows(
            _key(user),
            number,
            number,
            np.array([_NEVER], np.int64),
            np.zeros(1, np.uint64),
            np.zeros(1, np.int32),
            np.zeros(0, np.uint64),
            np.zeros(2, np.int64),
            _VECTOR,
        )


def _key(user: int) -> tuple[str, str]:
    return ("app", str(user))


def home(user: int, servers: int) -> int:
    """Return the server of a user under sticky routing (rendezvous hashing)."""
    return max(
        range(servers),
        key=lambda n: blake2b(f"{user}:{n}".encode(), digest_size=8).digest(),
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What all servers did.

    Attributes:
        searches: Number of searches.
        hits: Of these, those that loaded nothing.
        replays: Those that loaded what changed.
        loads: Those that loaded the user.
        statements: Version statements.
        most: Share of the requests of the busiest server.
    """

    searches: int
    hits: int
    replays: int
    loads: int
    statements: int
    most: float


def simulate(
    made: list[Request], servers: int, options: argparse.Namespace, *, sticky: bool
) -> Outcome:
    """Send requests through a balancer."""
    choose = random.Random(options.seed + 1)
    check_s, more_s = options.check_us / 1e6, options.more_us / 1e6
    all_ = [Server(options.capacity, check_s, more_s) for _ in range(servers)]
    homes: dict[int, int] = {}
    versions: dict[int, int] = {}
    counts = [0] * servers
    for one in made:
        if not sticky:
            number = choose.randrange(servers)
        else:
            number = homes.setdefault(one.user, -1)
            if number < 0:
                number = homes[one.user] = home(one.user, servers)
        counts[number] += 1
        if one.is_write:
            versions[one.user] = version = versions.get(one.user, 0) + 1
            all_[number].write(one.user, version)
        else:
            all_[number].search(one.at, one.user, versions.get(one.user, 0))
    for server in all_:
        server.finish()
    hits, replays, loads = (
        sum(getattr(server, name) for server in all_)
        for name in ("hits", "replays", "loads")
    )
    return Outcome(
        sum(not one.is_write for one in made),
        hits,
        replays,
        loads,
        sum(server.statements for server in all_),
        max(counts) / len(made),
    )


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    """Return the options."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--servers", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--capacity", type=int, default=2_000, help="users of a server")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=5_000, help="requests a second")
    parser.add_argument("--turns", type=int, default=5, help="of a conversation")
    parser.add_argument("--searches", type=int, default=2, help="of a turn")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds, mean")
    parser.add_argument("--skew", type=float, default=0.8, help="of the power law")
    parser.add_argument("--check-us", type=float, default=62)
    parser.add_argument("--more-us", type=float, default=1.2, help="each further user")
    parser.add_argument("--replay-us", type=float, default=150)
    parser.add_argument("--load-us", type=float, default=980)
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args(words)


def rows(options: argparse.Namespace) -> Iterator[tuple[object, ...]]:
    """Yield a row of the table for each number of servers and kind of routing."""
    made = requests(options)
    for servers in options.servers:
        for sticky in (True, False):
            found = simulate(made, servers, options, sticky=sticky)
            further = found.searches - found.statements
            spent = (
                found.statements * options.check_us
                + further * options.more_us
                + found.replays * options.replay_us
                + found.loads * options.load_us
            )
            yield (
                servers,
                "sticky" if sticky else "any server",
                f"{found.hits / found.searches:.1%}",
                f"{1000 * found.replays / found.searches:.0f}",
                f"{1000 * found.loads / found.searches:.0f}",
                f"{1000 * found.statements / found.searches:.0f}",
                f"{spent / found.searches:.0f}",
                f"{found.most * servers:.2f}",
            )


def main() -> None:
    """Print the table."""
    options = parsed()
    head = (
        *("servers", "routing", "hits", "replays", "loads", "check statements"),
        *("database us a search", "busiest server"),
    )
    print("of 1,000 searches; the busiest server in shares of the mean")
    print(tables.table(head, rows(options)))


if __name__ == "__main__":
    main()
