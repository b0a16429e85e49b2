"""Lost and torn calls when processes, backends and servers of a database are killed.

    python -m bench.durability.database_kills --kills 20 [--only failover]

Four processes write through the service over a primary with a synchronous replica. One
row for each kind of kill: kills, acknowledged calls, problems, and how long after the
restart or the promotion the next call was acknowledged. The exit status is 1 if
anything was wrong.
"""

from __future__ import annotations

import sys
import time

from helpers.database_campaign import KINDS, DatabaseCampaign
from helpers.fork_pool import ForkPool

from bench.common import arguments


def main() -> int:
    parser = arguments.parser(__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of each kind")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--only", action="append", choices=KINDS)
    options = parser.parse_args()
    print(f"seed {options.seed}")
    problems: list[str] = []
    with ForkPool("helpers.database_campaign") as pool:
        campaign = DatabaseCampaign(pool, seed=options.seed)
        try:
            for kind in options.only or KINDS:
                for _ in range(options.kills):
                    campaign.kill(kind)
                print(f"{kind:12}{campaign.tallies[kind].row()}", flush=True)
                problems += campaign.tallies[kind].problems
        finally:
            campaign.close()
    for problem in problems[:10]:
        print(f"    {problem}")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
