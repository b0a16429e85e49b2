"""Exports that a killed server of an older version left behind."""

from __future__ import annotations

import os
import time

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("httpx")

from helpers.http import serving
from vecall.server.run import remove_old_exports

DAYS_AGO = time.time() - 3 * 86_400


def left(
    folder, name="vecall-ab12_xyz", *, mode=0o700, files=("export.jsonl",), at=0.0
):
    """A folder as an older version made one."""
    made = folder / name
    made.mkdir()
    for file in files:
        (made / file).write_text("secret")
        os.utime(made / file, (at or DAYS_AGO,) * 2)
    made.chmod(mode)
    os.utime(made, (at or DAYS_AGO,) * 2)
    return made


def test_an_old_export_is_deleted(tmp_path):
    made = left(tmp_path)
    assert remove_old_exports(tmp_path) == 1
    assert not made.exists()
    assert remove_old_exports(tmp_path) == 0


@pytest.mark.parametrize(
    "other",
    [
        {"name": "other-ab12_xyz"},
        {"name": "vecall-demo-ab12_xyz"},
        {"mode": 0o755},
        {"files": ("export.jsonl", "mine.txt")},
        {"files": ("memory.db",)},
        {"files": ()},
        {"at": time.time() - 60},
    ],
)
def test_nothing_else_is_touched(tmp_path, other):
    made = left(tmp_path, **other)
    before = sorted(made.iterdir())
    assert remove_old_exports(tmp_path) == 0
    assert sorted(made.iterdir()) == before


def test_no_link_is_followed(tmp_path):
    target = tmp_path / "export.jsonl"
    target.write_text("mine")
    made = left(tmp_path, files=())
    (made / "export.jsonl").symlink_to(target)
    os.utime(made, (DAYS_AGO,) * 2)
    (tmp_path / "vecall-linkedxx").symlink_to(left(tmp_path, "elsewhere"))
    remove_old_exports(tmp_path)
    assert target.read_text() == "mine"
    assert (tmp_path / "elsewhere" / "export.jsonl").exists()


def test_a_server_deletes_them_when_it_starts(tmp_path, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    made = left(temporary)
    monkeypatch.setenv("TMPDIR", str(temporary))
    with serving(tmp_path) as (server, _), server.client() as client:
        assert client.get("/healthz").status_code == 200
    assert not made.exists()
