"""A change that is committed is found, also where the engine failed to take it."""

from __future__ import annotations

import logging

import pytest
from helpers.memories import ALICE, texts
from vecall.index import partition_cache as _filling


@pytest.mark.parametrize("durable", [False, True])
def test_a_change_that_the_engine_could_not_take_is_read_back(
    open_service, tmp_path, monkeypatch, caplog, durable
):
    """Guarantee 3: the file is the truth, what is in memory is rebuilt from it."""
    service = open_service(tmp_path / "m.db" if durable else None)
    service.sync.add_memory(**ALICE, memories=["zebra one"])
    assert texts(service, "zebra") == ["zebra one"]
    real = _filling.add_rows

    def fails(*_):
        monkeypatch.setattr(_filling, "add_rows", real)
        raise MemoryError

    monkeypatch.setattr(_filling, "add_rows", fails)
    with caplog.at_level(logging.ERROR, logger="vecall"):
        service.sync.add_memory(**ALICE, memories=["zebra two"])
    assert "read back" in caplog.text
    assert sorted(texts(service, "zebra")) == ["zebra one", "zebra two"]
    service.sync.add_memory(**ALICE, memories=["zebra three"])
    assert len(texts(service, "zebra")) == 3
