"""Servers share periodic work: each piece is done once, without a leader."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import ExitStack

import numpy as np
import pytest
from helpers.clocks import SettableClock
from helpers.observed_sessions import EVERY, LEASE_S
from helpers.paths import TESTS
from helpers.processes import child, tell
from helpers.processes import said as line_of
from helpers.sessions import session, turn
from vecall import FunctionEmbedder, Inactivity, MemoryService, StorageOptions
from vecall.index.embedding import model_of_embedder

pytest.importorskip("psycopg")

SESSIONS, USERS, ROWS = 24, 40, 300
DUE_S = EVERY / 1000 + 1.0

# A server whose clock is some seconds ahead. It runs each line that it gets as Python,
# and answers with the value of `answer`.
SERVER = f"""
import json, re, sys, time
sys.path.insert(0, {str(TESTS)!r})
from vecall import Inactivity, LlmSummaryProvider, MemoryService, StorageOptions
from vecall.store import Sweep
from helpers.clocks import SettableClock
clock = SettableClock()
clock.let_pass(float(sys.argv[2]))
seen, swept = [], []
def model(prompt):
    seen.extend(re.findall(r"name(s\\d+)", prompt))
    time.sleep(0.02)  # a model takes longer than a claim
    return json.dumps(dict(summary="a summary", topics=[], keyFacts=[]))
service = MemoryService(
    sys.argv[1], trigger=Inactivity({EVERY}), embedder=None,
    summarizer=LlmSummaryProvider(model, prompt="{{events}}"),
    storage=StorageOptions(clock=clock, maintenance_interval=None))
storage = service._memory.storage
submit = storage.submit
def counted(job, then=None):
    if isinstance(job, Sweep):
        swept.append(job.user)
    return submit(job, then)
storage.submit = counted
print("open", flush=True)
for line in sys.stdin:
    answer = None
    exec(line)
    print(answer, flush=True)
"""


@pytest.fixture
def server(schema):
    """Starts another server whose clock is some seconds ahead."""
    with ExitStack() as stack:

        def start(ahead):
            return stack.enter_context(child(SERVER, schema.url, ahead))

        yield start


def opened(url, embedder=None):
    storage = StorageOptions(clock=SettableClock(), maintenance_interval=None)
    return MemoryService(
        url, embedder=embedder, storage=storage, trigger=Inactivity(EVERY)
    )


def observe(memory, name, user="alice"):
    told = session(
        turn(1, f"a turn of name{name}"), id_=name, app_name="app", user_id=user
    )
    memory.sync.observe_session(told)


def test_four_servers_do_each_due_piece_of_work_once(schema, server):
    with opened(schema.url) as memory:
        for n in range(SESSIONS):
            observe(memory, f"s{n}", f"user{n % 5}")
        for n in range(USERS):
            memory.sync.add_memory(
                app_name="app",
                user_id=f"old{n}",
                memories=["a word"],
                custom_metadata={"ttl": 60.0},
            )
    servers = [server(DUE_S) for _ in range(4)]
    assert [line_of(each) for each in servers] == ["open"] * 4
    for each in servers:
        tell(each, "answer = service.sync.admin.run_due()")
    assert sum(int(line_of(each)) for each in servers) == USERS
    seen: Counter[str] = Counter()
    swept: Counter[str] = Counter()
    at_work = 0
    for each in servers:
        tell(each, "answer = ' '.join(seen) + '|' + ' '.join(swept)")
        summarized, cleared = line_of(each).split("|")
        seen.update(summarized.split())
        swept.update(cleared.split())
        at_work += bool(summarized)
    assert seen == {f"s{n}": 1 for n in range(SESSIONS)}
    assert swept == {f"old{n}": 1 for n in range(USERS)}
    assert at_work > 1


def test_the_lease_of_a_killed_server_ends(schema, server):
    with opened(schema.url) as memory:
        observe(memory, "s0")
        memory.sync.add_memory(
            app_name="app",
            user_id="old",
            memories=["a word"],
            custom_metadata={"ttl": 60.0},
        )
    first = server(DUE_S)
    assert line_of(first) == "open"
    tell(
        first,
        "answer = storage.claims.claim_session(600.0).session, "
        "len(storage.claims.users(10, 600.0))",
    )
    assert line_of(first) == "('s0', 1)"
    first.kill()
    first.wait()
    for later, done in ((LEASE_S - 1.0, "(0, [])"), (LEASE_S + 1.0, "(1, ['s0'])")):
        other = server(DUE_S + later)
        assert line_of(other) == "open"
        tell(other, "answer = service.sync.admin.run_due(), seen")
        assert line_of(other) == done


class Model(FunctionEmbedder):
    """An embedder that counts the texts that it embeds."""

    def __init__(self, name, slow_s=0.0):
        self.counted: Counter[str] = Counter()
        self._pause = threading.Event()
        self._slow_s = slow_s
        super().__init__(self._embedded, dimensions=4, model_id=name)

    def _embedded(self, texts):
        self.counted.update(texts)
        self._pause.wait(self._slow_s)
        return np.array([[len(text), 1, 2, 3] for text in texts], np.float32)


def test_servers_share_a_change_of_the_model(schema):
    texts = [f"word {n}" for n in range(ROWS)]
    with opened(schema.url, Model("a")) as memory:
        memory.sync.add_memory(app_name="app", user_id="alice", memories=texts)
    models = [Model("b", slow_s=0.02) for _ in range(4)]
    done = []
    with ExitStack() as stack:
        memories = [stack.enter_context(opened(schema.url, Model("a"))) for _ in models]
        threads = [
            threading.Thread(
                target=lambda memory, model: done.append(
                    memory.sync.admin.reembed(model)
                ),
                args=pair,
            )
            for pair in zip(memories, models, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    total: Counter[str] = Counter()
    for model in models:
        total.update(model.counted)
    assert sum(done) == ROWS
    assert {text: total[text] for text in texts} == dict.fromkeys(texts, 1)
    assert sum(bool(model.counted.keys() & set(texts)) for model in models) > 1
    name = schema.name
    ((old, left),) = schema.server.execute(
        f"SELECT (SELECT count(*) FROM {name}.mem WHERE model <> "
        f"(SELECT id FROM {name}.model WHERE state = 'active')), "
        f"(SELECT count(*) FROM {name}.vec_next)"
    )
    assert (old, left) == (0, 0)


def test_rows_of_a_killed_server_are_embedded_by_others(schema):
    texts = [f"word {n}" for n in range(ROWS)]
    with opened(schema.url, Model("a")) as memory:
        memory.sync.add_memory(app_name="app", user_id="alice", memories=texts)
        storage = memory._memory.storage
        model = storage.begin_migration(model_of_embedder(Model("b")))
        # As if its server died with 64 rows that it never embedded.
        claimed = storage.claims.rows_to_embed(model.id, 64, -1.0)
        assert len(claimed.rows) == 64
        second = Model("b")
        assert memory.sync.admin.reembed(second) == ROWS
        assert {text: second.counted[text] for text in texts} == dict.fromkeys(texts, 1)
