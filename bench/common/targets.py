"""Compare the measured figures with the project's targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Rows of 384 dimensions: how many times faster than the best float32 candidate.
EXACT = {100: 2, 1_000: 5, 10_000: 8, 50_000: 6}
SHORT_CODE = {1_000: 2, 10_000: 2}
SHORT_CODES = ("float16", "bfloat16", "int8")
GRAPH_HNSWLIB, GRAPH_OTHERS = 4, 2
BUILD, MEMORY = 5, 0.5
FILTER_RECALL = 0.99
CALL_NS = 1_500
PARTITION_BYTES = 200

Target = tuple[str, str, str, str]


def targets(results: dict[str, Any]) -> list[Target]:
    """Return (target, required, measured, met) of each section in the results."""
    found: list[Target] = []
    for section, of in (
        ("exact", _exact),
        ("graph", _graph),
        ("filters", _filters),
        ("tenants", _tenants),
        ("overhead", _overhead),
    ):
        if section in results:
            found += of(results[section])
    return found


def _at_least(title: str, required: float, measured: float, note: str = "") -> Target:
    met = "yes" if measured >= required else "no"
    return title, f"{required:g} x", f"{measured:.2f} x{note}", met


def _at_most(title: str, required: float, measured: float, unit: str) -> Target:
    met = "yes" if measured <= required else "no"
    return title, f"{required:g} {unit}", f"{measured:.3g} {unit}", met


def _exact(found: list[dict[str, Any]]) -> Iterator[Target]:
    for one in found:
        if one["dim"] != 384:
            continue
        for required, best, what in (
            (EXACT.get(one["rows"]), one["best_float32"], "float32"),
            (SHORT_CODE.get(one["rows"]), _best_short(one), "16 or 8 bits"),
            (
                SHORT_CODE.get(one["rows"]),
                one["best_of_any_code"],
                "any code, trained too",
            ),
        ):
            if required is not None and best is not None:
                title = f"exact, {one['rows']:,} rows, to the best of {what}"
                yield from _codecs(one, title, required, best)


def _best_short(one: dict[str, Any]) -> str | None:
    """Return the fastest of the plain 16- and 8-bit codes whose recall is enough."""
    leads = {
        name: facts["to_vecall"]
        for name, facts in one["candidates"].items()
        if facts["code"] in SHORT_CODES and facts["recall"] >= one["target"]
    }
    return min(leads, key=leads.__getitem__, default=None)


def _codecs(
    one: dict[str, Any], title: str, required: float, best: str
) -> Iterator[Target]:
    """Give vecall as it comes and, where its recall is short, the next codec too."""
    candidates = one["candidates"]
    for name in ("vecall", "vecall int4+8+4"):
        recall = candidates[name]["recall"]
        lead = candidates[best]["to_vecall"] / candidates[name]["to_vecall"]
        note = f" ({best}; {candidates[name]['code']}, recall {recall:.4f})"
        line = _at_least(title, required, lead, note)
        if recall >= one["target"]:
            yield line
            return
        yield (*line[:3], "no: recall")


def _graph(found: dict[str, Any]) -> Iterator[Target]:
    for target, at in found["at"].items():
        others = {
            name: facts["to_vecall"]
            for name, facts in at.items()
            if "to_vecall" in facts and not name.startswith(("vecall", "hnswlib"))
        }
        name = f"graph at recall {target}"
        if "to_vecall" in at.get("hnswlib", {}):
            to = at["hnswlib"]["to_vecall"]
            yield _at_least(f"{name}, to hnswlib", GRAPH_HNSWLIB, to)
        if others:
            best = min(others, key=others.__getitem__)
            note = f" ({best})"
            yield _at_least(f"{name}, to the others", GRAPH_OTHERS, others[best], note)
    candidates = found["candidates"]
    ours, theirs = candidates["vecall"], candidates["hnswlib"]
    # At the same ef_construction: otherwise neither recall nor time is comparable.
    for one, other in (
        ("vecall", "hnswlib, built at 100"),
        ("vecall, built at 200", "hnswlib"),
    ):
        pair = candidates[one], candidates[other]
        recalls = " and ".join(f"{_recall_at_64(facts):.4f}" for facts in pair)
        yield _at_least(
            f"graph, CPU time of the build at {pair[0]['ef_construction']}, to hnswlib",
            BUILD,
            pair[1]["build_cpu_seconds"] / pair[0]["build_cpu_seconds"],
            f" (recall at ef 64: {recalls})",
        )
    if ours["rss_bytes"] and theirs["rss_bytes"]:
        share = ours["rss_bytes"] / theirs["rss_bytes"]
        yield _at_most("graph, memory, of hnswlib's", MEMORY, share, "x")


def _recall_at_64(facts: dict[str, Any]) -> float:
    return next(p["recall"] for p in facts["curve"] if p["ef"] == 64)


def _filters(found: list[dict[str, Any]]) -> Iterator[Target]:
    for one in found:
        recall = one["graph"]["recall"]
        name = f"filter that keeps {one['share']:.1%}"
        met = "yes" if recall >= FILTER_RECALL else "no"
        yield f"{name}, recall", f"{FILTER_RECALL}", f"{recall:.4f}", met
        # Equal where the same scan answers, but for the noise of the clock.
        title, _, measured, _ = _at_least(f"{name}, to a scan", 1, one["flat_to_graph"])
        met = "yes" if one["flat_to_graph"] >= 0.95 else "no"
        yield title, "not slower, within 5 %", measured, met


def _tenants(found: list[dict[str, Any]]) -> Iterator[Target]:
    for one in found:
        yield _at_most(
            f"bytes of a partition of {one['rows']} in {one['partitions']:,}, "
            "less its rows, with its key",
            PARTITION_BYTES,
            one["nbytes"] - one["of_rows"],
            "bytes",
        )


def _overhead(found: list[dict[str, Any]]) -> Iterator[Target]:
    for one in found:
        name = f"a search among ten vectors of {one['dim']}"
        yield _at_most(name, CALL_NS, 1e9 * one["seconds"]["vecall"], "ns")
