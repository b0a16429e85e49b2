"""Facts and summaries are summed up, by a call and on a schedule."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import random
from concurrent.futures import Future
from typing import Any

import pytest
from helpers.clocks import DAY, SettableClock
from helpers.embedders import session
from helpers.join_runner import run_with
from helpers.lifecycle import add, kept
from helpers.memories import ALICE, BOB
from helpers.options import grouped
from helpers.scheduler import ByChance, Scheduler, run_one
from helpers.summaries import Scripted
from vecall import (
    ConfigError,
    ConsolidationPlan,
    InvalidArgumentError,
    MemoryService,
    StorageOptions,
)
from vecall.cli.main import main
from vecall.summaries import LlmSummaryProvider


def provider(*answers: str) -> LlmSummaryProvider:
    return LlmSummaryProvider(Scripted(*answers))


def opened(path, clock, *answers, **more) -> MemoryService:
    return MemoryService(
        path,
        **grouped(
            embedder=None,
            clock=clock,
            maintenance_interval=None,
            summarizer=provider(*answers) if answers else None,
            **more,
        ),
    )


def consolidate(service, *fold, **more):
    return service.sync.consolidate(**ALICE, older_than=7 * DAY, fold=fold, **more)


def test_old_facts_are_summed_up_and_come_back(tmp_path):
    clock = SettableClock()
    with opened(tmp_path / "m.db", clock, "Likes tea and cats.") as service:
        for number, text in enumerate(("likes tea", "likes cats")):
            add(service, text, f"f{number}")
        clock.let_pass(8 * DAY)
        add(service, "likes dogs", "new")
        done = consolidate(service, "facts")
        assert (done.folded, len(done.summaries)) == (2, 1)
        assert set(kept(service).values()) == {"Likes tea and cats.", "likes dogs"}
        assert kept(service, "archived").keys() == {"f0", "f1"}
        service.sync.restore_memory(**ALICE, memory_id=done.summaries[0])
        assert set(kept(service).values()) == {"likes tea", "likes cats", "likes dogs"}


def test_summaries_of_sessions_are_summed_up_in_turn(tmp_path):
    clock = SettableClock()
    answers = ("Flew to Rome.", "Flew to Oslo.", "Flew twice.")
    with opened(tmp_path / "m.db", clock, *answers) as service:
        for name in ("s", "t"):
            service.sync.add_session_to_memory(session(f"flight {name}", id_=name))
        assert set(kept(service).values()) == {"Flew to Rome.", "Flew to Oslo."}
        clock.let_pass(8 * DAY)
        done = consolidate(service, "summaries")
        assert done.folded == 2
        assert set(kept(service).values()) == {"Flew twice."}
        service.sync.restore_memory(**ALICE, memory_id=done.summaries[0])
        assert set(kept(service).values()) == {"Flew to Rome.", "Flew to Oslo."}


@pytest.mark.parametrize("field", ["author", "kind", "trust"])
def test_facts_of_different_origin_are_not_summed_up_together(tmp_path, field):
    clock = SettableClock()
    with opened(tmp_path / "m.db", clock, "never asked") as service:
        add(service, "likes tea", "a", **{field: "one"})
        add(service, "likes cats", "b", **{field: "two"})
        clock.let_pass(8 * DAY)
        assert consolidate(service, "facts").folded == 0


@pytest.mark.parametrize(
    "end", [{"valid_until": 9e9}, {"custom_metadata": {"ttl": 9e8}}]
)
def test_a_fact_with_an_end_is_not_summed_up(tmp_path, end):
    clock = SettableClock()
    with opened(tmp_path / "m.db", clock, "never asked") as service:
        add(service, "likes tea", "a", **end)
        add(service, "likes cats", "b", **end)
        clock.let_pass(8 * DAY)
        assert consolidate(service, "facts").folded == 0


def test_a_dry_run_counts_what_the_summarizer_would_be_given(tmp_path):
    clock = SettableClock()
    with opened(tmp_path / "m.db", clock) as service:
        add(service, "likes tea", "a")
        add(service, "likes cats", "b")
        service.sync.add_session_to_memory(session("one", "two", "three"))
        clock.let_pass(8 * DAY)
        assert consolidate(service, "facts", dry_run=True).folded == 2
        assert consolidate(service, "facts", "sessions", dry_run=True).folded == 5
        with pytest.raises(ConfigError, match="summarizer"):
            consolidate(service, "facts")


@pytest.mark.parametrize("bad", ["facts", ("turns",), (1,), 5])
def test_what_is_summed_up_has_a_name(tmp_path, bad):
    with (
        opened(tmp_path / "m.db", SettableClock(), "x") as service,
        pytest.raises(InvalidArgumentError, match="sessions, summaries, facts"),
    ):
        service.sync.consolidate(**ALICE, older_than=1, fold=bad)
    with pytest.raises(ConfigError, match="consolidation: fold"):
        ConsolidationPlan(fold=bad)


def test_a_plan_runs_when_it_is_due_and_once_for_all_processes(tmp_path):
    clock = SettableClock()
    plan = ConsolidationPlan(every=DAY)
    path = tmp_path / "m.db"
    with (
        opened(path, clock, consolidation=plan) as one,
        opened(path, clock, consolidation=plan) as two,
    ):
        one.sync.admin.run_due()
        for who in (ALICE, BOB):
            one.sync.add_memory(**who, memories=["Likes tea.", "likes TEA"])
        two.sync.admin.run_due()
        assert len(kept(two)) == 2  # the day is not over
        clock.let_pass(DAY + 1.0)
        two.sync.admin.run_due()
        for who in (ALICE, BOB):
            assert len(one.sync.list_memories(**who)) == 1
        add(one, "likes tea!", "again")
        one.sync.admin.run_due()
        assert len(kept(one)) == 2
    clock.let_pass(DAY + 1.0)
    with opened(path, clock, consolidation=plan) as three:
        three.sync.admin.run_due()
        assert len(kept(three)) == 1


def test_what_becomes_old_without_a_change_is_summed_up_by_a_later_run(tmp_path):
    """A run looks at who was changed since the last one, and at who grew old since."""
    clock = SettableClock()
    plan = ConsolidationPlan(every=DAY, older_than=7 * DAY, fold=("facts",))
    with opened(tmp_path / "m.db", clock, "Both.", consolidation=plan) as service:
        service.sync.add_memory(**ALICE, memories=["likes tea", "likes cats"])
        for days in range(9):
            service.sync.admin.run_due()
            assert len(kept(service)) == (2 if days < 7 else 1), days
            clock.let_pass(DAY + 1.0)


def test_a_run_that_two_processes_find_due_is_done_by_one_in_any_order(tmp_path):
    """Both have read when the plan ran last before either claims the run."""
    plan = ConsolidationPlan(every=DAY, older_than=7 * DAY, fold=("facts",))
    runs = itertools.count()

    def run(scheduler: Scheduler) -> None:
        clock = SettableClock()
        model = Scripted("Both.", "Both, again.")
        path = tmp_path / f"m{next(runs)}.db"
        with contextlib.ExitStack() as stack:
            options = StorageOptions(clock=clock, maintenance_interval=None)
            services = [
                stack.enter_context(
                    MemoryService(
                        path,
                        embedder=None,
                        storage=options,
                        summarizer=LlmSummaryProvider(model),
                        consolidation=plan,
                    )
                )
                for _ in range(2)
            ]
            add(services[0], "likes tea")
            add(services[0], "likes cats")
            clock.let_pass(8 * DAY)
            done: list[int] = []

            def wait(future: Future[Any]) -> Any:
                scheduler.point()
                scheduler.use("file", "w")
                return future.result(20)

            for at, service in enumerate(services):
                plan_of = service._consolidator
                scheduler.spawn(
                    f"process {at}",
                    lambda each=plan_of: done.append(
                        run_with(wait, each.run_consolidation_plan())
                    ),
                )
            scheduler.run()
            assert sorted(done) == [0, 2]
            assert len(model.asked) == 1

    for seed in range(30):
        run_one(run, ByChance(random.Random(seed)))


def test_a_user_that_cannot_be_consolidated_keeps_no_other_waiting(tmp_path, caplog):
    clock = SettableClock()
    plan = ConsolidationPlan(older_than=DAY, fold=("facts",))
    with MemoryService(
        tmp_path / "m.db",
        embedder=None,
        storage=StorageOptions(clock=clock, maintenance_interval=None),
        summarizer=Failing(),
        consolidation=plan,
    ) as service:
        for who in (ALICE, BOB):
            service.sync.add_memory(**who, memories=["secret tea", "secret cats"])
        clock.let_pass(2 * DAY)
        with caplog.at_level(logging.WARNING, logger="vecall"):
            service.sync.admin.run_due()
        assert len(service.sync.list_memories(**BOB)) == 1
        assert len(kept(service)) == 2
    assert "could not be consolidated: SummaryError" in caplog.text
    assert "secret" not in caplog.text


class Failing:
    """A summarizer that fails the first time."""

    def __init__(self) -> None:
        self.inner = provider("Both.")
        self.calls = 0

    def get_summaries(self, session):
        self.calls += 1
        if self.calls == 1:
            msg = "secret"
            raise ValueError(msg)
        return self.inner.get_summaries(session)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"consolidation": ConsolidationPlan(older_than=5)}, "needs a summarizer"),
        ({"consolidation": ConsolidationPlan(similarity=0.9)}, "embedder"),
        ({"consolidation": "daily"}, "ConsolidationPlan"),
    ],
)
def test_a_plan_that_the_service_cannot_follow_is_refused(tmp_path, options, match):
    with pytest.raises(ConfigError, match=match):
        MemoryService(tmp_path / "m.db", **grouped(embedder=None, **options))


@pytest.mark.parametrize(
    "bad",
    [{"every": 0}, {"every": "soon"}, {"similarity": 2}, {"older_than": -1}],
)
def test_a_plan_has_values_that_can_be_followed(bad):
    with pytest.raises(ConfigError, match="consolidation: "):
        ConsolidationPlan(**bad)


def test_a_service_that_only_reads_has_no_plan(tmp_path):
    MemoryService(tmp_path / "m.db", embedder=None).close()
    with pytest.raises(ConfigError, match="read_only"):
        MemoryService(
            tmp_path / "m.db",
            embedder=None,
            read_only=True,
            consolidation=ConsolidationPlan(),
        )


def test_the_command_shows_what_it_would_do_and_does_it_on_request(tmp_path, capsys):
    path = tmp_path / "m.db"
    with MemoryService(path, embedder=None) as service:
        add(service, "likes \x1b[31mtea", "a", timestamp=1.0)
        add(service, "Likes \x1b[31mtea", "b", timestamp=2.0)
    asked = ["consolidate", "--path", str(path), "--app", "app", "--user", "alice"]
    asked += ["--embedder", "none"]
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert "Likes tea" in shown
    assert "\x1b" not in shown
    assert "1 would be merged" in shown
    assert main([*asked, "--yes", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["merged"], done["dry_run"]) == (1, False)
    with MemoryService(path, embedder=None) as service:
        assert kept(service).keys() == {"b"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--fold", "turns"], "sessions, summaries, facts"),
        (["--similarity", "2"], "similarity"),
        (["--similarity", "0.9"], "embedder"),
        (["--older-than", "7s", "--yes"], "summarizer"),
        (["--summarizer", "json"], "MODULE:NAME"),
        (["--summarizer", "json:nothing"], "AttributeError"),
    ],
)
def test_the_command_refuses_what_it_cannot_do(tmp_path, capsys, more, said):
    path = tmp_path / "m.db"
    with MemoryService(path, embedder=None) as service:
        add(service, "likes tea", "a")
    asked = ["consolidate", "--path", str(path), "--app", "app", "--user", "alice"]
    assert main([*asked, "--embedder", "none", *more]) != 0
    assert said in capsys.readouterr().err


def test_over_http_a_dry_run_is_the_default(tmp_path):
    pytest.importorskip("httpx")
    from helpers.http import ALICE as HTTP_ALICE
    from helpers.http import door_to

    with MemoryService(tmp_path / "m.db", embedder=None) as service:
        door = door_to(service)
        facts = {"memories": ["Likes tea.", "likes tea"]}
        ids = door.ask("POST", f"{HTTP_ALICE}/memories", json=facts).json()["ids"]
        route = f"{HTTP_ALICE}/consolidate"
        plan = door.ask("POST", route, json={}).json()
        assert (plan["merged"], plan["dry_run"]) == (1, True)
        (group,) = plan["groups"]
        assert {group["kept"], *group["merged"]} == set(ids)
        done = door.ask("POST", route, json={"dry_run": False}).json()
        assert done == {**plan, "dry_run": False}
        assert door.ask("POST", route, json={}).json()["merged"] == 0
        refused = door.ask("POST", route, json={"similarity": 0.9})
        assert refused.status_code == 422
        assert "embedder" in refused.text
        bad = door.ask("POST", route, json={"fold": ["turns"]})
        assert bad.status_code == 422
