"""Print the JSON of bench.vector.compare as Markdown tables.

    python -m bench.common.tables results.json > tables.md

bench/results has the tables of published runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.common import arguments
from bench.common.targets import targets

SECTIONS = ("exact", "graph", "threads", "filters", "hybrid", "tenants", "overhead")


def document(results: dict[str, Any]) -> str:
    """Return the machine, the targets and every section of the results."""
    parts = [section_tables("machine", results["machine"])]
    rows = targets(results)
    parts.append(
        "### Targets\n\n" + table(("target", "required", "measured", "met"), rows)
    )
    parts += [section_tables(s, results[s]) for s in SECTIONS if s in results]
    return "\n".join(parts)


def section_tables(section: str, found: Any) -> str:
    """Return one section."""
    return {
        "machine": _machine,
        "exact": _exact,
        "graph": _graph,
        "threads": _threads,
        "filters": _filters,
        "hybrid": _hybrid,
        "tenants": _tenants,
        "overhead": _overhead,
    }[section](found)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def _machine(facts: dict[str, Any]) -> str:
    return "### Machine\n\n" + table(("", ""), facts.items())


def _exact(found: list[dict[str, Any]]) -> str:
    return "\n".join(_exact_size(one) for one in found)


def _exact_size(one: dict[str, Any]) -> str:
    head = (
        "",
        "code",
        "us a query",
        "/ vecall",
        "recall@10",
        "share of bandwidth",
        "build s",
    )
    rows = [
        (
            name + (f", breadth {facts['breadth']}" if facts["breadth"] else ""),
            facts["code"],
            1e6 * facts["seconds"],
            facts["to_vecall"],
            f"{facts['recall']:.4f}",
            f"{facts['bandwidth_share']:.0%}",
            facts["build_seconds"],
        )
        for name, facts in one["candidates"].items()
    ]
    stream = 1e6 * one["float32_stream_seconds"]
    return (
        f"### Exact: {one['rows']:,} rows of {one['data']}, "
        f"{one['queries']} queries\n\n"
        f"{table(head, rows)}\n"
        f"Best rival in float32: {one['best_float32']}; of any code at recall "
        f"{one['target']}: {one['best_of_any_code']}. One core reads the\nrows as "
        f"float32 in {stream:.0f} us. Share of bandwidth: of what one core reads from "
        "so many bytes,\nfor the bytes that a scan must read.\n"
    )


def _graph(found: dict[str, Any]) -> str:
    recalls = tuple(found["at"])
    head = ["", "code"]
    for target in recalls:
        head += [f"ef at {target}", "recall", "us", "QPS", "/ vecall"]
    rows = []
    for name, facts in found["candidates"].items():
        row: list[Any] = [name, facts["code"]]
        for target in recalls:
            at = found["at"][target].get(name)
            if at is None:
                row += [None] * 5
                continue
            row += [at["ef"], f"{at['recall']:.4f}"]
            row += [1e6 * at["seconds"], 1 / at["seconds"], at["to_vecall"]]
        rows.append(row)
    return (
        f"### Graph: {found['rows']:,} rows of {found['data']}, 10 neighbours\n\n"
        f"{table(head, rows)}\n{_graph_build(found)}"
    )


def _graph_build(found: dict[str, Any]) -> str:
    head = (
        "",
        "ef_construction",
        "build s",
        "its CPU s",
        "recall at ef 64",
        "RSS bytes a row",
        "by its own account",
    )
    rows = []
    for name, facts in found["candidates"].items():
        at_64 = [p["recall"] for p in facts["curve"] if p["ef"] == 64]
        weights = [
            None if weight is None else weight / found["rows"]
            for weight in (facts["rss_bytes"], facts["nbytes"])
        ]
        rows.append(
            (
                name,
                facts["ef_construction"],
                facts["build_seconds"],
                facts["build_cpu_seconds"],
                f"{at_64[0]:.4f}" if at_64 else None,
                *weights,
            )
        )
    return table(head, rows)


def _threads(found: dict[str, Any]) -> str:
    batches, writer = found["batches"], found["writer"]
    head = ("", "recall", "us a query, 1 thread", "2 threads", "QPS, 1 thread", "2")
    parts = []
    for kind in ("graph", "exact"):
        rows = [
            (
                name,
                f"{facts['recall']:.4f}",
                *(1e6 * seconds for seconds in facts["seconds"]),
                *(1 / seconds for seconds in facts["seconds"]),
            )
            for name, facts in batches[kind].items()
        ]
        queries = next(iter(batches[kind].values()))["queries"]
        parts.append(
            f"### Batches of {queries}, {kind}: {batches['rows']:,} rows of "
            f"{batches['data']}\n\n{table(head, rows)}"
        )
    head = ("", "p50 us", "p99 us", "p99.9 us", "searches")
    rows = [
        (
            name,
            *(1e6 * writer[name][p] for p in ("p50", "p99", "p999")),
            writer[name]["searches"],
        )
        for name in ("quiet", "busy")
    ]
    parts.append(
        f"### Searches beside a writer, from Python: graph of {writer['rows']:,} rows, "
        f"{writer['inserted_a_second']:,.0f} inserts a second\n\n{table(head, rows)}"
    )
    return "\n".join(parts)


def _filters(found: list[dict[str, Any]]) -> str:
    head = ["kept", "rows"]
    for way in ("graph", "flat"):
        head += [f"{way}: us", "ef", "recall"]
    rows = []
    for facts in found:
        row: list[Any] = [f"{facts['share']:.1%}", facts["kept"]]
        for way in (facts["graph"], facts["flat"]):
            row += [1e6 * way["seconds"], way["ef"], f"{way['recall']:.4f}"]
        rows.append([*row, facts["flat_to_graph"]])
    return (
        f"### Filters: {found[0]['rows']:,} rows of {found[0]['data']}\n\n"
        f"{table([*head, 'flat / graph'], rows)}"
    )


def _hybrid(found: list[dict[str, Any]]) -> str:
    names = tuple(found[0]["seconds"])
    rows = [
        (
            one["rows"],
            *(1e6 * one["seconds"][name] for name in names),
            one["to_search"]["recall, both"],
        )
        for one in found
    ]
    words = (
        f"{found[0]['words_a_row']} words a row, {found[0]['words_a_query']} a query"
    )
    head = ("rows", *(f"{name}: us" for name in names), "both / search")
    return f"### Words and vector, scanned: {words}\n\n{table(head, rows)}"


def _tenants(found: list[dict[str, Any]]) -> str:
    head = (
        "partitions",
        "rows each",
        "dimensions",
        "created/s",
        "bytes each",
        "less its rows",
        "RSS each",
        "less its rows",
        "search p50 us",
        "p99 us",
        "p50 of one partition",
    )
    rows = [
        (
            one["partitions"],
            one["rows"],
            one["dim"],
            one["created_a_second"],
            one["nbytes"],
            one["nbytes"] - one["of_rows"],
            one["rss"],
            None if one["rss"] is None else one["rss"] - one["of_rows"],
            1e6 * one["p50"],
            1e6 * one["p99"],
            1e6 * one["p50_of_one"],
        )
        for one in found
    ]
    return (
        f"### Partitions\n\n{table(head, rows)}\n"
        "Its rows: what one row more takes in a small partition, times their number. "
        "What is left is\nof the partition itself, its key's strings included.\n"
    )


def _overhead(found: list[dict[str, Any]]) -> str:
    head = ("", *(f"{one['dim']} dimensions, ns" for one in found))
    names = found[0]["seconds"]
    rows = [(n, *(1e9 * one["seconds"][n] for one in found)) for n in names]
    return f"### A search among ten vectors\n\n{table(head, rows)}"


def main() -> None:
    """Print the tables."""
    parser = arguments.parser(__doc__)
    parser.add_argument("results", type=Path, help="JSON of bench.vector.compare")
    print(document(json.loads(parser.parse_args().results.read_text())))


if __name__ == "__main__":
    main()
