"""Acknowledged and lost calls when processes of the service are killed with SIGKILL.

    python -m bench.durability.kill_campaign --kills 200 [--folder DIR]
        [--only "three processes"]

One row for each workload: kills, acknowledged calls, calls that were in the file
without an acknowledgement, lost and torn ones, failed integrity checks, and the time to
open the file again and search it once. The exit status is 1 if anything was wrong.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from pathlib import Path

from helpers.fork_pool import ForkPool
from helpers.kill_campaign import WORKLOADS, Campaign, Tally

from bench.common import arguments


def main() -> int:
    parser = arguments.parser(__doc__)
    parser.add_argument("--kills", type=int, default=200, help="of each workload")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--folder", type=Path, help="on the disk to be tried")
    parser.add_argument("--only", action="append", choices=WORKLOADS)
    options = parser.parse_args()
    print(f"seed {options.seed}")
    logging.getLogger("vecall").setLevel(logging.ERROR)  # damaged snapshots are meant
    total = Tally()
    with ForkPool("helpers.workloads") as pool:
        for name, workload in WORKLOADS.items():
            if options.only and name not in options.only:
                continue
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                campaign = Campaign(pool, Path(folder), workload, options.seed)
                for _ in range(options.kills):
                    campaign.kill()
            print(f"{name:28}{campaign.tally.row()}", flush=True)
            for problem in campaign.tally.problems[:5]:
                print(f"    {problem}")
            total.add(campaign.tally)
    print(f"{'all':28}{total.row()}")
    return bool(total.problems)


if __name__ == "__main__":
    sys.exit(main())
