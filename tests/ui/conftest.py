"""One browser for all tests of a file, and a server for those that share one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from helpers.browser import Browser
    from helpers.pages import Site


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    from helpers.browser import BROWSER, DRIVER, MISSING, browsing

    if not (BROWSER and DRIVER):
        pytest.skip(MISSING)
    with browsing(tmp_path_factory.mktemp("downloads")) as opened:
        opened.resize(1200, 900)
        opened.scheme("light")
        yield opened


@pytest.fixture(autouse=True)
def nothing_logged_before(request: pytest.FixtureRequest) -> None:
    """What an earlier test did is not in the logs."""
    if "browser" in request.fixturenames:
        opened = request.getfixturevalue("browser")
        opened.go("about:blank")
        opened.log()
        opened.requests()


@pytest.fixture
def own_site(tmp_path: Path) -> Iterator[Site]:
    """A server of the test's own, which it may change."""
    from helpers.pages import site

    with site(tmp_path) as running:
        yield running
