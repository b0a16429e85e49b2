"""`vecall eval`: measures recall, confidences and times."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vecall.cli import options as cli
from vecall.cli.console import Progress, bold, dim, format_table, print_json
from vecall.errors import ConfigError
from vecall.evaluation import datasets, runner
from vecall.evaluation.datasets import Conversation
from vecall.evaluation.metrics import mean
from vecall.evaluation.runner import APP, READ, SHARES, Mode, QuestionResult
from vecall.ranking.calibration import Calibration

# The tables that `vecall eval` prints. Shares are in percent, "-" is unknown.

_NAMES = {"mrr": "MRR", "ndcg@10": "nDCG@10"}


def eval_report_text(document: Mapping[str, Any]) -> str:
    """Return all tables, the ablation first."""
    modes = document["modes"]
    calibrated = {name: mode for name, mode in modes.items() if "calibration" in mode}
    fits = {name: mode["fitted"] for name, mode in modes.items() if "fitted" in mode}
    sections: list[tuple[str, Any, Callable[[Any], str], str]] = [
        (
            f"Gain of each part of ranking: {name}",
            mode.get("ablation"),
            _ablation_table,
            "gain: points over the default, with the 95 % interval of the paired "
            "difference; a gain within it is noise",
        )
        for name, mode in modes.items()
    ]
    sections += [
        (
            "Recall",
            modes,
            _recall_table,
            f"tokens: estimated, of the texts of the first {READ} memories",
        ),
        (
            f"Confidence of the first {document['top_k']} memories",
            calibrated,
            _calibration_table,
            "constant: the Brier score of always saying the base rate; strangers: "
            "questions that only another user's memory can answer",
        ),
        (
            "Reliability: predicted and true, by confidence",
            calibrated,
            _reliability_table,
            "",
        ),
        (
            "Silence: searches without a memory above a floor",
            calibrated,
            _silence_table,
            "evidence kept: the share of evidence in results that is above the floor",
        ),
        (
            "Confidence as fitted here",
            fits,
            _fitted_calibration_table,
            "each user is evaluated with weights fitted on the other users",
        ),
        (
            "Map on queries",
            document.get("query_map"),
            _query_map_table,
            "by the cosine alone; each user is evaluated with a map fitted on others",
        ),
        (
            "Time",
            modes,
            _times_table,
            "search: 20 memories, warm, the query's vector cached; embed: the embedder "
            "alone, one new query; ingest: durable, including embedding",
        ),
    ]
    counted = ("conversations", "turns", "questions", "unanswerable")
    counts = ", ".join(f"{document[name]:,} {name}" for name in counted)
    parts = [bold(f"{counts}, {document['strangers']:,} of strangers")]
    for title, figures, table_of, note in sections:
        if figures:
            lines = [bold(title), table_of(figures), *([dim(note)] if note else [])]
            parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _query_map_table(figures: Mapping[str, Any]) -> str:
    rows = []
    for name in ("without", "with"):
        shares = figures[name] or {}
        cells = [_percent(shares.get(share)) for share in ("recall@10", "mrr")]
        rows.append([f"{name} the map", f"{figures['questions']:,}", *cells])
    return format_table(["", "questions", "recall@10", "MRR"], rows)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _number_text(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _gain_text(gain: Mapping[str, float | None]) -> str:
    if gain["mean"] is None:
        return "-"
    return f"{100 * gain['mean']:+.1f} ±{_percent(gain['half_width'])}"


def _ablation_table(rows: Sequence[Mapping[str, Any]]) -> str:
    groups = list(rows[0]["categories"])
    if set(runner.LOCOMO_GROUPS) <= set(groups):
        groups = list(runner.LOCOMO_GROUPS)
    head = ["setting", "all @5", "@10", "@20", "MRR", "nDCG@10", "gain @10", "gain MRR"]
    for group in groups:
        head += [f"{group} @10", "MRR"]
    shown = []
    for row in rows:
        cells = [_percent(row[share]) for share in SHARES]
        gains = [] if row is rows[0] else [row["gain"]["recall@10"], row["gain"]["mrr"]]
        cells += list(map(_gain_text, gains)) or ["", ""]
        for group in groups:
            shares = row["categories"][group]
            cells += [_percent(shares["recall@10"]), _percent(shares["mrr"])]
        shown.append([row["setting"], *cells])
    return format_table(head, shown)


def _recall_table(modes: Mapping[str, Any]) -> str:
    head = ["mode", "category", "questions", *(_NAMES.get(s, s) for s in SHARES)]
    head.append("tokens")
    rows = []
    for name, mode in modes.items():
        for group, shares in {"all": mode, **mode["categories"]}.items():
            cells = [_percent(shares[share]) for share in SHARES]
            tokens = f"{mode['tokens'] or 0:,.0f}" if group == "all" else ""
            rows.append([name, group, f"{shares['questions']:,}", *cells, tokens])
    return format_table(head, rows)


_CALIBRATION_HEAD = (
    "hits", "base rate", "mean", "deviation", "ECE", "Brier", "constant", "AUROC"
)  # fmt: skip


def _calibration_cells(figures: Mapping[str, Any]) -> list[str]:
    shares = [_percent(figures[name]) for name in ("base_rate", "mean")]
    names = ("deviation", "ece", "brier", "constant_brier", "auroc")
    return [f"{figures['hits']:,}", *shares, *(_number_text(figures[n]) for n in names)]


def _calibration_table(modes: Mapping[str, Any]) -> str:
    kinds = {"own": "calibration", "and strangers'": "calibration_with_strangers"}
    rows = [
        [name, questions, *_calibration_cells(mode[key])]
        for name, mode in modes.items()
        for questions, key in kinds.items()
    ]
    return format_table(["mode", "questions", *_CALIBRATION_HEAD], rows)


def _fitted_calibration_table(fits: Mapping[str, Any]) -> str:
    rows = [
        [name, *_calibration_cells(figures["held_out"])]
        for name, figures in fits.items()
        if figures["held_out"] is not None
    ]
    if not rows:
        return "weights need two users: they are evaluated on users held out"
    return format_table(["mode", *_CALIBRATION_HEAD], rows)


def _reliability_table(modes: Mapping[str, Any]) -> str:
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
            bin_ = bins.get(low, {"hits": 0, "confidence": None, "relevant": None})
            shares = [_percent(bin_[name]) for name in ("confidence", "relevant")]
            row += [f"{bin_['hits']:,}", *shares]
        rows.append(row)
    return format_table(head, rows)


def _silence_table(modes: Mapping[str, Any]) -> str:
    names = ("answerable", "unanswerable", "strangers", "evidence_kept")
    head = ["mode", "min_confidence", *(name.replace("_", " ") for name in names)]
    rows = [
        [name, f"{row['min_confidence']:.2f}", *(_percent(row[each]) for each in names)]
        for name, mode in modes.items()
        for row in mode["silence"]
    ]
    return format_table(head, rows)


def _times_table(modes: Mapping[str, Any]) -> str:
    head = ["mode", "search p50 ms", "p99", "embed p50 ms", "p99", "ingest turns/s"]
    rows = []
    for name, mode in modes.items():
        embedding = mode["query_embedding"]
        times = [each[p] for each in (mode, embedding) for p in ("p50_ms", "p99_ms")]
        rate = mode["turns"] / mode["ingest_s"]
        rows.append([name, *map(_number_text, times), f"{rate:,.0f}"])
    return format_table(head, rows)


_PICTURES = (".png", ".svg")
_READERS = {
    "locomo": datasets.read_locomo,
    "beam": datasets.read_beam,
    "jsonl": datasets.read_jsonl,
}


command = cli.Commands()


@command("""eval: measure recall on conversations with evidence
    Every turn becomes a memory, every question a search; recall@k is the share of a
    question's evidence turns among the first k, averaged over questions; MRR is the
    mean of 1 / rank of the first evidence turn among the first 20, nDCG counts all of
    them. Questions without evidence count only for confidence and silence.

    dataset {locomo,beam,demo,jsonl}  LoCoMo's file, BEAM's, the conversations that come
      with vecall, or yours
    file path ?  the path of LoCoMo's JSON, BEAM's, or yours
    --modes MODES  comma-separated: lexical (words alone); names of embedders, such as
      local or openai:MODEL (words and vectors); vectors (cosine alone) and rrf, which
      use the first embedder of the list, else local (default: lexical, and local if it
      is installed)
    --conversations CONVERSATIONS  the numbers of the conversations, counted from 0: 2-9
      or 0,3 (default: all)
    --lenient  accept the other half of an exchange between user and assistant as
      evidence too
    --no-ablation  skip the table of the gain of each part of ranking
    --calibration FILE path  calibrate confidences with this file instead of the shipped
      one
    --calibrate OUT.json path  fit confidences of the modes on this data, for
      MemoryService(calibration="OUT.json"); other models stay as they are
    --fit-map OUT.npy path  fit a map on the vectors of queries for the first embedder
      of the modes, for MappedEmbedder(embedder, "OUT.npy")
    --plot FILE.png path  draw recall and reliability, also as .svg; needs vecall[plot]
    @json

    jsonl: one JSON object a line. A turn has user_id, session_id, id, author, timestamp
    (seconds or ISO 8601) and text; a memory of its own has user_id, id, timestamp and
    memory, and may have kind; a question has user_id, question, category and evidence,
    a list of ids, empty for an unanswerable question.""")
def _run_eval(options: argparse.Namespace) -> int:
    _check_eval_outputs(options)
    modes = runner.choose_eval_modes(options.modes)
    calibration = Calibration.shipped()
    if options.calibration is not None:
        calibration = Calibration.load(options.calibration)
    conversations = _read_conversations(options)
    mapped: dict[str, Any] = {}
    if options.fit_map is not None:
        mapped["query_map"] = _fit_query_map(options.fit_map, conversations, modes)
    results, fits = run_evaluation(
        conversations,
        modes,
        calibration,
        ablation=not options.no_ablation,
        calibrate=options.calibrate is not None,
    )
    if options.calibrate is not None:
        for model_id, weights in fits:
            if model_id is None:
                calibration = replace(calibration, words=weights)
            else:
                calibration = calibration.with_model(model_id, weights)
        _write_eval_output(options.calibrate, calibration.save)
    document = {
        "dataset": options.dataset,
        **_eval_conversation_counts(conversations),
        "top_k": runner.TOP_K,
        "modes": results,
        **mapped,
    }
    if options.plot is not None:
        from vecall.evaluation.metrics import draw_eval_plot

        _write_eval_output(options.plot, lambda path: draw_eval_plot(document, path))
    if options.json:
        print_json(document)
    else:
        print(eval_report_text(document))
    return 0


def run_evaluation(
    conversations: Sequence[Conversation],
    modes: Sequence[Mode],
    calibration: Calibration,
    *,
    ablation: bool = True,
    calibrate: bool = False,
) -> tuple[dict[str, Any], list[tuple[str | None, Any]]]:
    """Return the figures of every mode, and the fitted weights by model."""
    results: dict[str, Any] = {}
    fits = []
    for embedder in {id(mode.embedder): mode.embedder for mode in modes}.values():
        with runner.ingested(conversations, embedder, calibration, Progress) as subject:
            for mode in modes:
                if mode.embedder is not embedder:
                    continue
                own = _ask_questions(subject, mode, runner.own_questions(conversations))
                figures = results[mode.name] = {
                    **runner.recall_figures(runner.evidence_figures(own)),
                    "tokens": mean([answer.tokens for answer in own]),
                    **runner.time_figures([answer.seconds for answer in own]),
                    "turns": runner.count_dataset_turns(conversations),
                    "ingest_s": subject.ingest_s,
                    "model_id": subject.model_id,
                    "query_embedding": {"queries": len(subject.queries)}
                    | runner.time_figures(subject.queries),
                }
                if not mode.is_default_mode:
                    continue
                strange = _ask_questions(
                    subject, mode, runner.stranger_pairs(conversations), "strangers"
                )
                figures |= _eval_confidence_figures(own, strange)
                if ablation:
                    figures["ablation"] = _ablation_rows(subject, mode, own)
                if calibrate:
                    weights, figures["fitted"] = runner.fit_calibration(
                        own + strange,
                        vectors=embedder is not None,
                        messages=calibration.messages,
                    )
                    fits.append((subject.model_id, weights))
    return {mode.name: results[mode.name] for mode in modes}, fits


def _ask_questions(
    subject: runner.SystemUnderTest,
    mode: Mode,
    questions: Sequence[Any],
    label: str = "search",
) -> list[QuestionResult]:
    progress = Progress(f"{mode.name}: {label}", len(questions))
    return subject.run_questions(questions, mode, progress)


def _eval_confidence_figures(
    own: list[QuestionResult], strange: list[QuestionResult]
) -> dict[str, Any]:
    confidence, with_strangers = (
        runner.calibration_figures(hit for result in some for hit in result.hits)
        for some in (own, own + strange)
    )
    if confidence is None:
        return {}
    return {
        "calibration": confidence,
        "calibration_with_strangers": with_strangers,
        "silence": runner.silence_figures(own, strange),
    }


def _ablation_rows(
    subject: runner.SystemUnderTest, mode: Mode, own: Sequence[QuestionResult]
) -> list[dict[str, Any]]:
    """Search for every answerable question under every setting."""
    rows = runner.ablation_settings(vectors=subject.model_id is not None)
    answerable = [(each.user, each.question) for each in own if each.question.evidence]
    default = runner.evidence_figures(own)
    total = (len(rows) - 1) * len(answerable)
    progress = Progress(f"{mode.name}: ablation", total)
    figures = []
    for setting in rows:
        found = default
        if setting is not runner.DEFAULT:
            other = mode._replace(ranking=setting.ranking)
            results = subject.run_questions(answerable, other, progress, fully=False)
            found = runner.evidence_figures(results)
        figures.append(runner.ablation_figures(setting.name, found, default))
    return figures


def _fit_query_map(
    path: Path, conversations: Sequence[Conversation], modes: Sequence[Mode]
) -> dict[str, Any]:
    embedders = [mode.embedder for mode in modes if mode.embedder is not None]
    if not embedders:
        raise ConfigError("--fit-map: --modes names no embedder")
    examples = runner.query_map_examples(conversations, embedders[0])
    query_map, figures = runner.fit_and_measure_map(examples)
    _write_eval_output(path, query_map.save)
    return {"model_id": embedders[0].model_id, **figures}


def _read_conversations(options: argparse.Namespace) -> list[Conversation]:
    if options.dataset == "demo":
        conversations = datasets.read_demo(APP, unanswerable=True)
    else:
        if options.file is None or not options.file.is_file():
            raise ConfigError(f"file: {options.dataset} needs the path of its file")
        conversations = _READERS[options.dataset](options.file, APP)
    if options.conversations is not None:
        conversations = datasets.chosen(conversations, options.conversations)
    if options.lenient:
        conversations = list(map(datasets.accept_both_halves, conversations))
    return conversations


def _eval_conversation_counts(conversations: Sequence[Conversation]) -> dict[str, Any]:
    questions = [q for conversation in conversations for q in conversation.questions]
    answerable = sum(bool(question.evidence) for question in questions)
    return {
        "conversations": len(conversations),
        "turns": runner.count_dataset_turns(conversations),
        "questions": answerable,
        "unanswerable": len(questions) - answerable,
        "strangers": len(runner.stranger_pairs(conversations)),
    }


def _check_eval_outputs(options: argparse.Namespace) -> None:
    """Check the output paths before the evaluation runs for minutes."""
    for name in ("calibrate", "fit-map", "plot"):
        path = getattr(options, name.replace("-", "_"))
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise ConfigError(f"--{name}: there is no such folder, or the file is one")
    if options.plot is None:
        return
    if options.plot.suffix not in _PICTURES:
        raise ConfigError(f"--plot: the name must end in {' or '.join(_PICTURES)}")
    if find_spec("matplotlib") is None:
        raise ImportError('--plot needs matplotlib: pip install "vecall[plot]"')


def _write_eval_output(path: Path, write: Any) -> None:
    try:
        write(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
