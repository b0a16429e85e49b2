"""What does the local encoder cost a new process, from the weights and from the cache?

    python -m bench.service.encoder_start

Processor time of making the encoder, in processes of their own that alternate. The
vectors of both are compared bit by bit.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

from bench.common import arguments

PROGRAM = """
import hashlib, sys, time
from vecall.embedders import LocalEmbedder, local
if sys.argv[1] == "weights":
    local._encoder_cache_file = lambda key: None
embedder = LocalEmbedder()
begin = time.process_time()
embedder._model.encoder()
spent = time.process_time() - begin
vectors = embedder.embed(["Which room?", "\\u65e5\\u672c\\u8a9e", "a b " * 500])
print(spent, hashlib.sha256(vectors.tobytes()).hexdigest())
"""


def main() -> None:
    """Print the medians."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    spent: dict[str, list[float]] = {"weights": [], "cache": []}
    digests = set()
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "XDG_CACHE_HOME": folder}
        for _ in range(options.runs + 1):  # the first one fills the cache
            for name, taken in spent.items():
                command = [sys.executable, "-c", PROGRAM, name]
                line = subprocess.check_output(command, env=env, text=True)
                seconds, digest = line.split()
                taken.append(float(seconds))
                digests.add(digest)
    for name, taken in spent.items():
        rest = taken[1:]
        print(
            f"from the {name:8} {1000 * statistics.median(rest):.0f} ms, "
            f"fastest {1000 * min(rest):.0f} ms"
        )
    print("the vectors are equal" if len(digests) == 1 else "THE VECTORS DIFFER")


if __name__ == "__main__":
    main()
