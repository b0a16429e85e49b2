"""The times of the page's views over many users: requests, and what the browser paints.

    python -m bench.service.page [--users 100000] [--memories 10] \\
        [--rounds 5] [--file FILE]

It fills a file as `bench.service.listings` does, gives one user more memories, serves
it, and opens each view in Chromium. It prints, for each view, the median over the
rounds of: the longest request, the time until all is shown, and the first paint of a
page that is loaded at that view; and how many requests went to other servers.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from pathlib import Path
from typing import Any

from helpers.browser import Browser, browsing
from helpers.pages import SERVER, show, view
from helpers.processes import child
from vecall import MemoryService, StorageOptions
from vecall.server import TokenFile, mint

from bench.common import arguments, tables
from bench.service.file_and_database import text
from bench.service.listings import TEXTS, app_of, fill

LARGE = 5_000  # memories of the user whose views are opened
WHOSE = {"app_name": app_of(0, 4), "user_id": "large"}
WATCH = """
window.begun = performance.now();
performance.clearResourceTimings();
performance.setResourceTimingBufferSize(1000);
"""
TOLD = """
const asked = performance.getEntriesByType('resource');
return [Math.max(0, ...asked.map((each) => each.duration)), asked.length]
"""
PAINT = """
const [paint] = performance.getEntriesByName('first-contentful-paint');
return paint ? paint.startTime : null
"""


def prepared(path: Path, users: int, per: int) -> None:
    """Fill a file that is not there yet."""
    if path.exists():
        return
    options = StorageOptions(durability="process", maintenance_interval=None)
    with MemoryService(path, embedder=None, storage=options) as service:
        fill(service, users, 4, per, 2)
        user = service.sync.user(**WHOSE)
        for begin in range(0, LARGE, 250):
            said = [
                {
                    "id": f"e{n}",
                    "author": "user" if n % 2 else "agent",
                    "content": f"{TEXTS[n % len(TEXTS)]} {n}",
                    "timestamp": 1.75e9 + 3_000 * n,
                }
                for n in range(begin, begin + 250)
            ]
            user.add_events(said, session_id=f"session-{begin // 250:03}")


def addresses() -> dict[str, str]:
    """Return the views and their addresses."""
    owner = tuple(WHOSE.values())
    query = text(random.Random(7), 6)
    return {
        "apps": view(all="1"),
        "people": view(owner[0]),
        "people by name": view(owner[0], prefix="user-0005"),
        "memories": view(*owner),
        "sessions": view(*owner, "sessions"),
        "session": view(*owner, "session", "session-003"),
        "search": view(*owner, "search", q=query),
        "why not": view(*owner, "search", q=query, why="e17"),
        "what the agent sees": view(*owner, "agent", q=query),
        "held": view(*owner, "held"),
        "archived": view(*owner, "archived"),
        "duplicates": view(*owner, "duplicates"),
        "person": view(*owner, "person"),
        "memory": view(*owner, "memory", "e17"),
    }


def timed(browser: Browser, address: str) -> tuple[float, float]:
    """Return the longest request of a view, and the time until it is shown, in ms."""
    browser.run(WATCH)
    show(browser, address)
    whole = browser.run("return window.shownAt - window.begun")
    longest, _ = browser.run(TOLD)
    return longest, whole


NOTE = """
window.shownAt = 0;
new MutationObserver(() => { window.shownAt = performance.now(); })
  .observe(document.getElementById('main'), {childList: true});
"""


def main() -> None:
    """Fill a file, open each view, and print the times."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--memories", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--file", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = asked.file or Path(folder) / "m.db"
        prepared(path, asked.users, asked.memories)
        bearer, token = mint(all_apps=True, review=True)
        file = Path(folder) / "tokens"
        TokenFile(file).change(lambda _: [token])
        with (
            child(SERVER, path, file, imports="vecall.server.run") as process,
            browsing(Path(folder)) as browser,
        ):
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            print_times(browser, url, bearer, asked.rounds)


def print_times(browser: Browser, url: str, bearer: str, rounds: int) -> None:
    """Print the times of each view."""
    browser.go(f"{url}/ui#token={bearer}")
    browser.settled()
    rows: list[list[Any]] = []
    for name, address in addresses().items():
        browser.run(NOTE)
        timed(browser, address)  # what is loaded once, as by a second look
        views = [timed(browser, address) for _ in range(rounds)]
        paints = []
        for _ in range(rounds):
            browser.go(f"{url}/ui{address}")
            browser.ask("POST", "/refresh")
            browser.settled()
            paints.append(browser.wait(lambda: browser.run(PAINT)))
        longest, whole = map(statistics.median, zip(*views, strict=True))
        paint = statistics.median(paints)
        rows.append([name, f"{longest:.0f}", f"{whole:.0f}", f"{paint:.0f}"])
    heads = ["view", "longest request, ms", "all is shown, ms", "first paint, ms"]
    print(tables.table(heads, rows))
    own = (url, "data:", "blob:", "chrome")
    foreign = [each for each in browser.requests() if not each.startswith(own)]
    print(f"requests to other servers: {len(foreign)}")


if __name__ == "__main__":
    main()
