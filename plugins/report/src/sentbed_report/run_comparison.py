"""Comparison of two finished runs, score by score."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from sentbed.errors import RunError, suggest
from sentbed.helpers import score_digits
from sentbed.protocols import START, Score
from sentbed.tools import plain

from sentbed_report.comparability import encoder_protocol, evaluation_protocol, unlike
from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.formatting import chance, interval_text, number, pairing, signed
from sentbed_report.resampling import RESAMPLES, Comparison, Method, compare
from sentbed_report.run_results import Results, read_results
from sentbed_report.score_items import attach_items
from sentbed_report.tables.terminal import aligned


@attrs.frozen
class Compared:
    """Comparison of two encoders in one score."""

    a: Score
    b: Score
    comparison: Comparison | None
    """Comparison; None if the scores cannot be resampled."""


@attrs.frozen
class RunComparison:
    """Comparison of two encoders, score by score."""

    a: str
    b: str
    """What they are called: run/encoder."""
    method: Method
    resamples: int
    rows: tuple[Compared, ...]
    remarks: tuple[str, ...]
    """Remarks on differences between the encoders and on skipped scores."""


def compare_runs(
    run_a: str | Path,
    run_b: str | Path,
    encoders: Sequence[str] = (),
    resamples: int = RESAMPLES,
    method: Method = "bootstrap",
) -> RunComparison:
    """Compare an encoder of one run with an encoder of another or the same run on all shared scores.

    `encoders` names one for both runs, or one for each; where it is empty, each run has only one.

    Raises:
        RunError: if no scores can be compared; lists the reason for each score.
    """
    runs = read_results(run_a), read_results(run_b)
    named = (*encoders, *encoders)[:2] if len(encoders) < 2 else tuple(encoders)
    chosen = [_chosen(run, name) for run, name in zip(runs, named or (None, None), strict=True)]
    if runs[0].directory.resolve() == runs[1].directory.resolve() and chosen[0] == chosen[1]:
        known = ", ".join(f"`{encoder}`" for encoder in runs[0].encoders)
        raise RunError(f"both are the encoder `{chosen[0]}` of one run; name two of {known} with `--encoder`")
    labels = [f"{run.name}/{name}" for run, name in zip(runs, chosen, strict=True)]
    if labels[0] == labels[1]:
        labels = [f"{run.directory}/{name}" for run, name in zip(runs, chosen, strict=True)]
    first, second = (
        [score for score in attach_items(run.directory, run.scores) if score.encoder == name]
        for run, name in zip(runs, chosen, strict=True)
    )
    rows, refused = [], []
    left = list(second)
    alone = []
    for a in first:
        b = next((b for b in left if _score_key(a) == _score_key(b) and _same_protocol(a, b)), None)
        if b is None:
            alone.append(a)
            continue
        left.remove(b)
        try:
            rows.append(Compared(a, b, _comparison(a, b, resamples, method)))
        except RunError as error:
            refused.append(f"{_title(a)}: {error}")
    for a in alone:
        b = next((b for b in left if _score_key(a) == _score_key(b)), None)
        if b is None:
            refused.append(f"{_title(a)}: only {labels[0]} has it")
            continue
        left.remove(b)
        entries = ", ".join(unlike(evaluation_protocol(a), evaluation_protocol(b)))
        refused.append(f"{_title(a)}: not compared, the protocols differ in {entries}")
    refused += [f"{_title(b)}: only {labels[1]} has it" for b in left]
    if not rows:
        listed = "\n".join(f"  {reason}" for reason in refused)
        raise RunError(f"nothing of {labels[0]} and {labels[1]} can be compared:\n{listed}")
    remarks = (*_degenerate(rows), *_encoders_differ(rows), *_plugins_differ(rows), *refused)
    return RunComparison(labels[0], labels[1], method, resamples, tuple(rows), remarks)


def comparison_text(found: RunComparison) -> str:
    """Return a comparison as text for a terminal."""
    table: list[tuple[str, ...]] = [("task", "metric", "protocol", "A", "B", "B − A", "95 % interval", "p")]
    for row in found.rows:
        values, judged = (row.a.value, row.b.value), row.comparison
        places = score_digits(values)
        table.append(
            (
                *(row.a.task, row.a.metric, row.a.protocol_name),
                *(number(value, places) for value in values),
                signed(values[1] - values[0], places),
                "–" if judged is None else interval_text((judged.low, judged.high), places),
                "–" if judged is None else chance(judged.p_value).ljust(7),
            )
        )
    count = sum(row.comparison is not None for row in found.rows)
    lines = [f"A: {found.a}", f"B: {found.b}", "", *aligned(table, left=3), ""]
    if count:
        lines.append(pairing(count, found.resamples, found.method))
    if count < len(found.rows):
        lines.append("Where there is no p, the score is degenerate, or has no items that could be resampled.")
    return "\n".join([*lines, *found.remarks])


def comparison_json(found: RunComparison) -> str:
    """Return a comparison as JSON."""
    rows = []
    for row in found.rows:
        judged = {} if row.comparison is None else attrs.asdict(row.comparison)
        rows.append(
            {
                **dict(zip(("evaluator", "task", "metric"), _score_key(row.a), strict=True)),
                "protocol": evaluation_protocol(row.a),
                "a": row.a.value,
                "b": row.b.value,
                "difference": row.b.value - row.a.value,
                **{name: judged.get(name) for name in ("low", "high", "p_value")},
            }
        )
    about = {"a": found.a, "b": found.b, "method": found.method, "resamples": found.resamples}
    document = {**about, "comparisons": rows, "remarks": found.remarks}
    return json.dumps(plain(document), indent=2, ensure_ascii=False)


def _chosen(run: Results, name: str | None) -> str:
    if name is not None:
        if name not in run.encoders:
            hint = suggest(name, run.encoders)
            raise RunError(f"the run in `{run.directory}` has no scores of an encoder `{name}`.{hint}")
        return name
    ends = [encoder for encoder in run.encoders if not encoder.endswith(START)] or list(run.encoders)
    if len(ends) > 1:
        listed = ", ".join(f"`{encoder}`" for encoder in run.encoders)
        raise RunError(f"the run in `{run.directory}` has scores of {listed}; choose one with `--encoder`")
    return ends[0]


def _comparison(a: Score, b: Score, resamples: int, method: Method) -> Comparison | None:
    if a.items is None or b.items is None or degenerate_of(a) or degenerate_of(b):
        return None
    return compare(a.items, b.items, resamples, method=method)


def _score_key(score: Score) -> tuple[str, str, str]:
    return score.evaluator, score.task, score.metric


def _same_protocol(a: Score, b: Score) -> bool:
    return evaluation_protocol(a) == evaluation_protocol(b)


def _title(score: Score) -> str:
    return f"{score.evaluator} {score.task} {score.metric} ({score.protocol_name})"


def _degenerate(rows: Sequence[Compared]) -> Iterator[str]:
    """Yield a remark for each score that says nothing about its encoder, and so was not tested."""
    for row in rows:
        for name, score in (("A", row.a), ("B", row.b)):
            if reason := degenerate_of(score):
                yield f"{_title(score)}: not tested, the score of {name} is degenerate: {reason}."


def _encoders_differ(rows: Sequence[Compared]) -> Iterator[str]:
    """Yield a remark on the differences between the encoders' protocols."""
    found = (entry for row in rows for entry in unlike(encoder_protocol(row.a), encoder_protocol(row.b)))
    if entries := list(dict.fromkeys(found)):
        yield f"The encoders differ in {', '.join(entries)}."


def _plugins_differ(rows: Sequence[Compared]) -> Iterator[str]:
    """Yield a remark for each pair of different plugin versions of compared scores."""
    found = dict.fromkeys((row.a.plugin, row.b.plugin) for row in rows if row.a.plugin != row.b.plugin)
    for a, b in found:
        yield f"A was scored by {a or 'a plugin that is not known'}, B by {b or 'one that is not known'}."
