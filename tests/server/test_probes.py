"""What an operator sees: probes, metrics of durations, logs for programs, uses."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import platform
import re
import signal
import time
from bisect import bisect_left

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

import vecall
from helpers.http import ALICE, SECRET, Door, bearing, error_of, load_session, serving
from vecall import ConfigError
from vecall.cli.main import main
from vecall.server import TokenFile, Tokens, create_app, mint
from vecall.server import limits as measures
from vecall.server.limits import BUCKETS_S, Durations
from vecall.server.run import Drain, JsonLines


def door_to(memory, **more):
    """An app with a token of a user, and one of an admin."""
    (bearer, one), (admin, two) = mint(app="hotel"), mint(admin=True)
    app = create_app(
        memory, tokens=Tokens([one, two]), session_loader=load_session, **more
    )
    return Door(app, bearer), Door(app, admin)


def test_a_server_is_alive_whatever_its_storage_does_and_ready_if_it_answers(
    open_service,
):
    """Neither needs a token, nor tells anything else."""
    memory = open_service()
    nobody = door_to(memory)[0]._replace(bearer=None)
    for path in ("/livez", "/readyz", "/healthz"):
        answer = nobody.ask("GET", path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    memory.close()
    fresh = door_to(memory)[0]._replace(bearer=None)
    assert error_of(fresh.ask("GET", "/readyz")) == (503, "not_ready")
    assert fresh.ask("GET", "/livez").status_code == 200


def test_a_server_that_is_about_to_end_is_not_ready(open_service):
    accepting = [True]
    door, _ = door_to(open_service(), accepting=lambda: accepting[0])
    assert door.ask("GET", "/readyz").status_code == 200
    accepting[0] = False
    answer = door.ask("GET", "/readyz")
    assert error_of(answer) == (503, "not_ready")
    assert answer.headers["retry-after"] == "1"
    assert door.ask("GET", f"{ALICE}/memories").status_code == 200


def test_an_app_without_a_memory_and_a_part_of_a_memory_are_ready(open_service):
    assert door_to(None)[0].ask("GET", "/readyz").status_code == 200
    part = open_service().restricted(vecall.Rights(min_trust="first-party"))
    assert door_to(part)[0].ask("GET", "/readyz").status_code == 200


def test_many_probes_ask_the_storage_once(open_service, monkeypatch):
    """A client without a token costs the storage one question a second."""
    memory = open_service()
    asked = []
    real = memory.admin.stats

    async def stats():
        asked.append(1)
        return await real()

    monkeypatch.setattr(memory.admin, "stats", stats)
    door, _ = door_to(memory)
    answers = asyncio.run(door.ask_all([("GET", "/readyz", {})] * 50))
    assert {each.status_code for each in answers} == {200}
    assert len(asked) <= 2


def test_a_storage_that_does_not_answer_is_not_ready_and_holds_up_nobody(
    open_service, monkeypatch
):
    """The probe of a client that leaves does not end that of the next one."""
    monkeypatch.setattr(measures, "_PATIENCE_S", 0.05)
    memory = open_service()
    door, _ = door_to(memory)

    async def both():
        go = asyncio.Event()

        async def stats():
            await go.wait()
            return {}

        monkeypatch.setattr(memory.admin, "stats", stats)
        first = asyncio.ensure_future(door.ask_all([("GET", "/readyz", {})]))
        await asyncio.sleep(0.01)
        first.cancel()
        (late,) = await door.ask_all([("GET", "/readyz", {})])
        (other,) = await door.ask_all([("GET", f"{ALICE}/memories", {})])
        go.set()
        await asyncio.sleep(0)
        (after,) = await door.ask_all([("GET", "/readyz", {})])
        return late, other, after

    late, other, after = asyncio.run(both())
    assert [each.status_code for each in (late, other, after)] == [503, 200, 200]


def test_after_a_signal_the_server_answers_for_as_long_as_it_was_told(tmp_path):
    """A load balancer has that long to notice; then it ends as without."""
    with (
        serving(tmp_path, "--drain", "1.5") as (server, process),
        server.client() as client,
    ):
        assert client.get("/readyz").status_code == 200
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        statuses = set()
        while time.monotonic() < begin + 0.7:
            statuses.add(client.get("/readyz").status_code)
            added = client.post(f"{ALICE}/memories", json={"memories": ["tea"]})
            assert added.status_code == 201
            time.sleep(0.1)
        assert 503 in statuses
        assert process.wait(20) == 0
        assert time.monotonic() - begin >= 1.5


def test_a_second_signal_ends_a_server_that_drains(tmp_path):
    with serving(tmp_path, "--drain", "600") as (server, process):
        with server.client() as client:
            assert client.get("/readyz").status_code == 200
            process.send_signal(signal.SIGTERM)
            while client.get("/readyz").status_code != 503:
                time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_a_server_drains_for_a_number_of_seconds(seconds):
    with pytest.raises(ConfigError, match="drain"):
        Drain(seconds)


def lines_of(admin):
    return admin.ask("GET", "/metrics").text.splitlines()


def test_durations_are_counted_by_operation_in_fixed_buckets():
    """As bisection of all of them would count; a bound belongs to its bucket."""
    durations = Durations()
    given = [0.0, 0.0005, 0.00051, 0.3, 29.0, 30.0, 31.0, 1e9]
    for seconds in given:
        durations.add_duration("get", seconds)
    expected = [0] * (len(BUCKETS_S) + 1)
    for seconds in given:
        expected[bisect_left(BUCKETS_S, seconds)] += 1
    assert durations.counts == {"get": expected}
    assert expected[0] == 2
    assert expected[-1] == 2
    assert durations.sums["get"] == sum(given)


def test_the_metrics_have_a_histogram_and_what_was_built(open_service):
    """In the format of Prometheus: cumulative, with a sum and the number of answers."""
    door, admin = door_to(open_service())
    for _ in range(3):
        door.ask("POST", f"{ALICE}/memories/search", json={"query": "tea"})
    door.ask("GET", "/nowhere")
    lines = lines_of(admin)
    name = "vecall_http_request_duration_seconds"
    assert f"# TYPE {name} histogram" in lines
    buckets = [
        (found[1], int(found[2]))
        for line in lines
        if (
            found := re.fullmatch(
                rf'{name}_bucket{{operation="searchMemories",le="(.*)"}} (\d+)', line
            )
        )
    ]
    assert [bound for bound, _ in buckets] == [*map(str, BUCKETS_S), "+Inf"]
    counts = [count for _, count in buckets]
    assert counts == sorted(counts)
    assert counts[-1] == 3
    assert f'{name}_count{{operation="searchMemories"}} 3' in lines
    assert f'{name}_count{{operation="-"}} 1' in lines
    (total,) = [line for line in lines if line.startswith(f'{name}_sum{{operation="s')]
    assert 0 < float(total.split()[1]) < 60
    (build,) = [line for line in lines if line.startswith("vecall_build_info{")]
    assert f'version="{vecall.__version__}"' in build
    assert f'python="{platform.python_version()}"' in build
    assert build.endswith(" 1")


def test_each_log_line_for_programs_is_an_object_without_content(open_service):
    """Of a request: its id, route, status and time; of an error its class and place."""
    door, _ = door_to(open_service())
    lines = []

    class Kept(logging.Handler):
        def emit(self, record):
            lines.append(self.format(record))

    kept = Kept()
    kept.setFormatter(JsonLines())
    log = logging.getLogger("vecall.server")
    before = log.level
    log.addHandler(kept)
    log.setLevel(logging.INFO)
    try:
        answer = door.ask("POST", f"{ALICE}/memories", json={"memories": [SECRET]})
        door.ask("PATCH", f"{ALICE}/memory", json={"sessionId": "broken"})
        door.ask("GET", f"/{SECRET}?{SECRET}={SECRET}")
        try:
            raise ValueError(SECRET)
        except ValueError:
            log.exception("it failed\nin two lines")
    finally:
        log.removeHandler(kept)
        log.setLevel(before)
    assert all("\n" not in line and SECRET not in line for line in lines)
    for word in ("alice", "hotel", "vecall_"):
        assert word not in "".join(lines)
    added, failed, told, nowhere, other = map(json.loads, lines)
    assert {name: added[name] for name in ("level", "logger", "method", "status")} == {
        "level": "info", "logger": "vecall.server", "method": "POST", "status": 201,
    }  # fmt: skip
    assert added["route"] == "/apps/{app}/users/{user}/memories"
    assert added["request_id"] == answer.headers["x-request-id"]
    assert 0 <= added["duration_ms"] < 60_000
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", added["time"])
    assert (failed["level"], failed["error"]) == ("error", "RuntimeError")
    assert re.fullmatch(r"http\.py:\d+", failed["where"])
    assert failed["request_id"] == told["request_id"]
    assert told["status"] == 503
    assert (nowhere["route"], nowhere["status"]) == ("-", 404)
    assert (other["message"], other["error"]) == (
        "it failed\nin two lines",
        "ValueError",
    )


@pytest.fixture
def tokens(tmp_path):
    """A token file with two labelled tokens; their bearers."""
    file = TokenFile(tmp_path / "memory.db.tokens")
    bearers = []
    for label in ("billing", "büro 2"):
        bearer, token = mint(app="hotel", label=label)
        file.change(lambda known, token=token: [*known, token])
        bearers.append(bearer)
    return file, bearers


def listed(tmp_path, capsys):
    assert main(["token", "list", "--path", str(tmp_path / "memory.db"), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["tokens"]


def test_the_list_of_tokens_has_labels_and_when_each_was_last_used(
    tokens, tmp_path, capsys
):
    file, (first, _) = tokens
    before = time.time()
    assert file.find(first).label == "billing"
    file.save_uses()
    shown = listed(tmp_path, capsys)
    assert [each["label"] for each in shown] == ["billing", "büro 2"]
    assert before - 1 <= shown[0]["last_used"] <= time.time() + 1
    assert shown[1]["last_used"] is None
    main(["token", "list", "--path", str(tmp_path / "memory.db")])
    text = capsys.readouterr().out
    assert re.search(r"label=billing last_used=\d{4}-\d\d-\d\dT", text)
    assert "label=büro 2 last_used=never" in text
    used = tmp_path / "memory.db.tokens.used"
    assert used.stat().st_mode & 0o777 == 0o600
    assert first.split("_", 2)[2] not in used.read_text()


def test_a_use_is_saved_without_being_asked_for(tokens, tmp_path, capsys):
    """A second later, on a thread; many uses are one write."""
    file, (first, second) = tokens
    used = tmp_path / "memory.db.tokens.used"
    for _ in range(1000):
        assert file.find(first)
        assert file.find(second)
    assert not used.exists()
    until = time.monotonic() + 20
    while not used.exists() and time.monotonic() < until:
        time.sleep(0.05)
    written = used.stat().st_mtime_ns, used.stat().st_ino
    assert all(each["last_used"] for each in listed(tmp_path, capsys))
    for _ in range(1000):
        assert file.find(first)
    file._saver.join(20)
    assert (used.stat().st_mtime_ns, used.stat().st_ino) == written


def test_the_later_use_of_several_servers_counts(tokens, tmp_path):
    file, (first, second) = tokens
    other = TokenFile(tmp_path / "memory.db.tokens")
    ids = [token.id for token in file.read()]
    file.find(first)
    other.find(second)
    file._uses[ids[0]] += 100
    other._uses[ids[0]] = time.time()
    later = round(file._uses[ids[0]])
    file.save_uses()
    other.save_uses()
    found = TokenFile(tmp_path / "memory.db.tokens").last_uses()
    assert found == {ids[0]: later, ids[1]: round(other._uses[ids[1]])}


def test_a_revoked_token_leaves_no_use(tokens, tmp_path):
    file, bearers = tokens
    for bearer in bearers:
        file.find(bearer)
    assert (
        main(["token", "revoke", "büro 2", "--path", str(tmp_path / "memory.db")]) == 0
    )
    file.save_uses()
    (left,) = file.read()
    assert left.label == "billing"
    assert set(file.last_uses()) == {left.id}


def test_a_label_of_two_tokens_revokes_neither(tokens, tmp_path, capsys):
    file, _ = tokens
    token = mint(app="hotel", label="billing")[1]
    file.change(lambda known: [*known, token])
    arguments = ["token", "revoke", "billing", "--path", str(tmp_path / "memory.db")]
    assert main(arguments) == 1
    assert "several tokens have this label" in capsys.readouterr().err
    assert len(file.read()) == 3


@pytest.mark.parametrize(
    "content", ["", "[]", "{", "null", '{"a": "x"}', '{"%s": 1e400}', "[" * 100_000]
)
def test_a_damaged_file_of_uses_is_no_use(tokens, tmp_path, capsys, content):
    file, (first, _) = tokens
    used = tmp_path / "memory.db.tokens.used"
    used.write_text(content)
    assert [each["last_used"] for each in listed(tmp_path, capsys)] == [None, None]
    file.find(first)
    file.save_uses()
    assert listed(tmp_path, capsys)[0]["last_used"] is not None


def test_a_use_that_cannot_be_saved_lets_the_token_in(tokens, tmp_path):
    """As in a folder of secrets that is mounted to be read only."""
    file, (first, _) = tokens
    (tmp_path / "memory.db.tokens.lock").unlink()
    (tmp_path / "memory.db.tokens.lock").mkdir()
    assert file.find(first)
    file.save_uses()
    assert file.last_uses() == {}
    assert file.find(first)


def test_the_server_saves_the_uses_when_it_ends(tmp_path, capsys):
    with serving(tmp_path) as (server, process):
        with server.client() as client:
            assert client.get(f"{ALICE}/memories").status_code == 200
            client.get("/metrics", headers=bearing("vecall_0123456789abcdef_x"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert listed(tmp_path, capsys)[0]["last_used"] is not None
