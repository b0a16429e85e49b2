"""vecall beside other vector libraries, the candidates taking turns.

    python -m bench.vector.compare --out results.json --tables tables.md \\
        --picture bench/results/performance.svg
    python -m bench.vector.compare --out results.json --quick --only exact,graph

The script measures, writes the figures as JSON and as Markdown tables, and draws two of
them; bench.common.tables and bench.common.plot do the latter from existing JSON.
VECALL_EMBEDDINGS may name a folder with real embeddings (bench/common/datasets.py).
Every figure is the median over rounds of the median query; ratios are taken round by
round. Everything runs on one thread unless a table says otherwise.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from bench.common import arguments
from bench.common.tables import SECTIONS, document, section_tables


def main() -> None:
    """Run the sections and write what they found."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where the JSON goes")
    parser.add_argument("--tables", type=Path, help="where Markdown tables go")
    parser.add_argument("--picture", type=Path, help="where the SVG goes")
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, by comma")
    options = parser.parse_args()
    chosen = options.only.split(",")
    unknown = set(chosen) - set(SECTIONS)
    if unknown:
        parser.error(f"no such section: {', '.join(sorted(unknown))}")

    # Before anything loads a BLAS.
    os.environ["OMP_NUM_THREADS"] = "1"
    from bench.common.measure import machine

    results: dict[str, Any] = {"quick": options.quick, "machine": machine()}
    print(section_tables("machine", results["machine"]), flush=True)
    for section in SECTIONS:
        if section in chosen:
            begin = time.perf_counter()
            results[section] = run(section, options.quick)
            options.out.write_text(json.dumps(results, indent=1))
            print(section_tables(section, results[section]))
            print(f"({section}: {time.perf_counter() - begin:.0f} s)\n", flush=True)
    if options.tables is not None:
        options.tables.write_text(document(results))
    if options.picture is not None:
        from bench.common.plot import draw

        draw(results, options.picture)


def run(section: str, quick: bool) -> Any:
    """Run one section."""
    from bench.vector import concurrent, exact, filters, graph, partitions

    sections = {
        "exact": exact.run_exact,
        "graph": graph.run_graph,
        "threads": concurrent.run_threads,
        "filters": filters.run_filters,
        "hybrid": filters.run_hybrid,
        "tenants": partitions.run_tenants,
        "overhead": exact.run_overhead,
    }
    return sections[section](quick)


if __name__ == "__main__":
    main()
