"""The tables that `vecall eval` prints. Shares are in percent, "-" is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vecall.cli.terminal import bold, dim, table
from vecall.evaluation.figures import LOCOMO_GROUPS, SHARES
from vecall.evaluation.runner import READ

_NAMES = {"mrr": "MRR", "ndcg@10": "nDCG@10"}


def text(document: Mapping[str, Any]) -> str:
    """Return all tables, the ablation first."""
    modes = document["modes"]
    parts = [bold(_head(document))]
    for name, mode in modes.items():
        if "ablation" in mode:
            parts.append(
                _titled(
                    f"Gain of each part of ranking: {name}",
                    _ablation(mode["ablation"]),
                    _ABLATION_NOTE,
                )
            )
    parts.append(_titled("Recall", _recall(modes), _RECALL_NOTE))
    calibrated = {name: mode for name, mode in modes.items() if "calibration" in mode}
    if calibrated:
        first = f"the first {document['top_k']} memories"
        parts.append(
            _titled(
                f"Confidence of {first}", _calibration(calibrated), _CALIBRATION_NOTE
            )
        )
        parts.append(
            _titled(
                "Reliability: predicted and true, by confidence",
                _reliability(calibrated),
            )
        )
        parts.append(
            _titled(
                "Silence: searches without a memory above a floor",
                _silence(calibrated),
                _SILENCE_NOTE,
            )
        )
    fits = {name: mode["fitted"] for name, mode in modes.items() if "fitted" in mode}
    if fits:
        parts.append(_titled("Confidence as fitted here", _fitted(fits), _FITTED_NOTE))
    if "query_map" in document:
        parts.append(
            _titled("Map on queries", _query_map(document["query_map"]), _MAP_NOTE)
        )
    parts.append(_titled("Time", _times(modes), _TIME_NOTE))
    return "\n\n".join(parts)


_ABLATION_NOTE = (
    "gain: points over the default, with the 95 % interval of the paired difference; "
    "a gain within it is noise"
)
_RECALL_NOTE = f"tokens: estimated, of the texts of the first {READ} memories"
_CALIBRATION_NOTE = (
    "constant: the Brier score of always saying the base rate; strangers: questions "
    "that only another user's memory can answer"
)
_SILENCE_NOTE = (
    "evidence kept: the share of evidence in results that is above the floor"
)
_FITTED_NOTE = "each user is evaluated with weights fitted on the other users"
_MAP_NOTE = "by the cosine alone; each user is evaluated with a map fitted on others"
_TIME_NOTE = (
    "search: 20 memories, warm, the query's vector cached; embed: the embedder alone, "
    "one new query; ingest: durable, including embedding"
)


def _query_map(figures: Mapping[str, Any]) -> str:
    rows = []
    for name in ("without", "with"):
        shares = figures[name] or {}
        cells = [_percent(shares.get(share)) for share in ("recall@10", "mrr")]
        rows.append([f"{name} the map", f"{figures['questions']:,}", *cells])
    return table(["", "questions", "recall@10", "MRR"], rows)


def _titled(title: str, body: str, note: str = "") -> str:
    lines = [bold(title), body]
    return "\n".join([*lines, dim(note)] if note else lines)


def _head(document: Mapping[str, Any]) -> str:
    counts = {
        "conversations": "conversations",
        "turns": "turns",
        "questions": "questions",
        "unanswerable": "unanswerable",
        "strangers": "of strangers",
    }
    return ", ".join(f"{document[name]:,} {label}" for name, label in counts.items())


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _gain(gain: Mapping[str, float | None]) -> str:
    if gain["mean"] is None:
        return "-"
    return f"{100 * gain['mean']:+.1f} ±{_percent(gain['half_width'])}"


def _ablation(rows: Sequence[Mapping[str, Any]]) -> str:
    groups = list(rows[0]["categories"])
    if set(LOCOMO_GROUPS) <= set(groups):
        groups = list(LOCOMO_GROUPS)
    head = ["setting", "all @5", "@10", "@20", "MRR", "nDCG@10", "gain @10", "gain MRR"]
    for group in groups:
        head += [f"{group} @10", "MRR"]
    shown = []
    for row in rows:
        cells = [_percent(row[share]) for share in SHARES]
        if row is rows[0]:
            cells += ["", ""]
        else:
            cells += [_gain(row["gain"]["recall@10"]), _gain(row["gain"]["mrr"])]
        for group in groups:
            shares = row["categories"][group]
            cells += [_percent(shares["recall@10"]), _percent(shares["mrr"])]
        shown.append([row["setting"], *cells])
    return table(head, shown)


def _recall(modes: Mapping[str, Any]) -> str:
    head = ["mode", "category", "questions", *(_NAMES.get(s, s) for s in SHARES)]
    head.append("tokens")
    rows = []
    for name, mode in modes.items():
        for group, shares in {"all": mode, **mode["categories"]}.items():
            cells = [_percent(shares[share]) for share in SHARES]
            tokens = f"{mode['tokens'] or 0:,.0f}" if group == "all" else ""
            rows.append([name, group, f"{shares['questions']:,}", *cells, tokens])
    return table(head, rows)


_CALIBRATION_HEAD = (
    "hits", "base rate", "mean", "deviation", "ECE", "Brier", "constant", "AUROC"
)  # fmt: skip


def _calibration_cells(figures: Mapping[str, Any]) -> list[str]:
    return [
        f"{figures['hits']:,}",
        _percent(figures["base_rate"]),
        _percent(figures["mean"]),
        _number(figures["deviation"]),
        _number(figures["ece"]),
        _number(figures["brier"]),
        _number(figures["constant_brier"]),
        _number(figures["auroc"]),
    ]


def _calibration(modes: Mapping[str, Any]) -> str:
    rows = []
    for name, mode in modes.items():
        for questions, key in (
            ("own", "calibration"),
            ("and strangers'", "calibration_with_strangers"),
        ):
            rows.append([name, questions, *_calibration_cells(mode[key])])
    return table(["mode", "questions", *_CALIBRATION_HEAD], rows)


def _fitted(fits: Mapping[str, Any]) -> str:
    rows = [
        [name, *_calibration_cells(figures["held_out"])]
        for name, figures in fits.items()
        if figures["held_out"] is not None
    ]
    if not rows:
        return "weights need two users: they are evaluated on users held out"
    return table(["mode", *_CALIBRATION_HEAD], rows)


def _reliability(modes: Mapping[str, Any]) -> str:
    """The reliability table: a row for each bin, the modes side by side."""
    by_mode = {
        name: {bin_["low"]: bin_ for bin_ in mode["calibration"]["reliability"]}
        for name, mode in modes.items()
    }
    head = ["from"]
    for name in by_mode:
        head += [f"{name}: hits", "predicted", "true"]
    rows = []
    for low in sorted({low for bins in by_mode.values() for low in bins}):
        row = [f"{low:.1f}"]
        for bins in by_mode.values():
            row += _bin(bins.get(low))
        rows.append(row)
    return table(head, rows)


def _bin(bin_: Mapping[str, Any] | None) -> list[str]:
    if bin_ is None:
        return ["0", "-", "-"]
    shares = [_percent(bin_["confidence"]), _percent(bin_["relevant"])]
    return [f"{bin_['hits']:,}", *shares]


def _silence(modes: Mapping[str, Any]) -> str:
    names = ("answerable", "unanswerable", "strangers", "evidence_kept")
    head = ["mode", "min_confidence", *(name.replace("_", " ") for name in names)]
    rows = [
        [
            name,
            f"{row['min_confidence']:.2f}",
            *(_percent(row[column]) for column in names),
        ]
        for name, mode in modes.items()
        for row in mode["silence"]
    ]
    return table(head, rows)


def _times(modes: Mapping[str, Any]) -> str:
    head = ["mode", "search p50 ms", "p99", "embed p50 ms", "p99", "ingest turns/s"]
    return table(head, list(_time_rows(modes)))


def _time_rows(modes: Mapping[str, Any]) -> Iterator[list[str]]:
    for name, mode in modes.items():
        rate = mode["turns"] / mode["ingest_s"]
        times: Iterable[float | None] = (
            mode["p50_ms"],
            mode["p99_ms"],
            mode["query_embedding"]["p50_ms"],
            mode["query_embedding"]["p99_ms"],
        )
        yield [name, *(_number(milliseconds) for milliseconds in times), f"{rate:,.0f}"]
