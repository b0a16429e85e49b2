"""vecall beside other libraries, the candidates taking turns.

    python bench/compare.py --out results.json --tables tables.md \\
        --picture docs/results/performance.svg
    python bench/compare.py --out results.json --quick --only exact,graph

measures, writes the figures as JSON, then as Markdown tables, and draws two of them;
tables.py and plot.py do the latter from JSON that is there already. VECALL_EMBEDDINGS
may name a folder with real embeddings (see datasets.py). Every figure is the median
over rounds of the median query; ratios are taken round by round. Everything runs on
one thread unless a table says otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from tables import SECTIONS, document, section_tables


def main() -> None:
    """Run the sections and write what they found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
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
    from measure import machine

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
        from plot import draw

        draw(results, options.picture)


def run(section: str, quick: bool) -> Any:
    """Run one section."""
    import compare_exact
    import compare_filters
    import compare_graph
    import compare_live
    import compare_tenants

    sections = {
        "exact": compare_exact.run_exact,
        "graph": compare_graph.run_graph,
        "threads": compare_live.run_threads,
        "filters": compare_filters.run_filters,
        "hybrid": compare_filters.run_hybrid,
        "tenants": compare_tenants.run_tenants,
        "overhead": compare_exact.run_overhead,
    }
    return sections[section](quick)


if __name__ == "__main__":
    main()
