"""The option `--storage`: the behaviour suite over a file or over PostgreSQL.

With `--storage=postgres` each path of a file that a test opens becomes a schema of a
real server. Tests of what only a file has are marked `file_only` with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from vecall import validation
from vecall.operations import runtime

from helpers.postgres_server import MISSING, Schema, is_available


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--storage",
        choices=("sqlite", "postgres"),
        default="sqlite",
        help="where services of the tests store memories",
    )


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Skip the tests of files over a database."""
    if config.getoption("--storage") == "sqlite":
        return
    for item in items:
        mark = item.get_closest_marker("file_only")
        if mark is not None:
            item.add_marker(pytest.mark.skip(reason=f"file only: {mark.args[0]}"))


@pytest.fixture(autouse=True)
def storage_of_services(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Let services open schemas instead of files."""
    if request.config.getoption("--storage") == "sqlite":
        yield
        return
    if not is_available():
        pytest.skip(MISSING)
    schemas: dict[Path, Schema] = {}

    def place(path: object) -> Path | str | None:
        found = validation.check_storage_path(path)
        if not isinstance(found, Path) or found.exists():
            return found
        if not found.parent.is_dir():
            return found  # refused, as without the option
        key = found.absolute()
        if key not in schemas:
            schemas[key] = Schema()
        return schemas[key].url

    monkeypatch.setattr(runtime, "check_storage_path", place)
    yield
    for schema in schemas.values():
        schema.drop()
