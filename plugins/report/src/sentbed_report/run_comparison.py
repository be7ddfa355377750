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
from sentbed_report.run_results import Results, read_results
from sentbed_report.score_items import attach_items
from sentbed_report.statistics.resampling import RESAMPLES, Comparison, Method, compare
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
    sides = read_results(run_a), read_results(run_b)
    names = [_chosen(run, name) for run, name in zip(sides, _names_of_both(encoders), strict=True)]
    if sides[0].directory.resolve() == sides[1].directory.resolve() and names[0] == names[1]:
        choices = ", ".join(f"`{encoder}`" for encoder in sides[0].encoders)
        raise RunError(
            f"both are the encoder `{names[0]}` of one run; name two of {choices} with `--encoder`"
        )
    labels = [f"{run.name}/{name}" for run, name in zip(sides, names, strict=True)]
    if labels[0] == labels[1]:
        labels = [f"{run.directory}/{name}" for run, name in zip(sides, names, strict=True)]
    first, second = (_scores_of(run, name) for run, name in zip(sides, names, strict=True))

    rows = []
    refused = []
    alone = []
    for a in first:
        b = _take(second, a, same_protocol=True)
        if b is None:
            alone.append(a)
            continue
        try:
            rows.append(Compared(a, b, _comparison(a, b, resamples, method)))
        except RunError as error:
            refused.append(f"{_title(a)}: {error}")
    for a in alone:
        b = _take(second, a, same_protocol=False)
        if b is None:
            refused.append(f"{_title(a)}: only {labels[0]} has it")
        else:
            entries = ", ".join(unlike(evaluation_protocol(a), evaluation_protocol(b)))
            refused.append(f"{_title(a)}: not compared, the protocols differ in {entries}")
    refused += [f"{_title(b)}: only {labels[1]} has it" for b in second]
    if not rows:
        listed = "\n".join(f"  {reason}" for reason in refused)
        raise RunError(f"nothing of {labels[0]} and {labels[1]} can be compared:\n{listed}")
    remarks = (*_remarks(rows), *refused)
    return RunComparison(labels[0], labels[1], method, resamples, tuple(rows), remarks)


def comparison_text(comparison: RunComparison) -> str:
    """Return a comparison as text for a terminal."""
    table = [("task", "metric", "protocol", "A", "B", "B − A", "95 % interval", "p")]
    tested = 0
    for row in comparison.rows:
        a, b = row.a.value, row.b.value
        digits = score_digits((a, b))
        interval, p_value = "–", "–"
        if row.comparison is not None:
            tested += 1
            interval = interval_text((row.comparison.low, row.comparison.high), digits)
            p_value = chance(row.comparison.p_value).ljust(7)
        names = row.a.task, row.a.metric, row.a.protocol_name
        table.append((*names, number(a, digits), number(b, digits), signed(b - a, digits), interval, p_value))
    lines = [f"A: {comparison.a}", f"B: {comparison.b}", "", *aligned(table, left=3), ""]
    if tested:
        lines.append(pairing(tested, comparison.resamples, comparison.method))
    if tested < len(comparison.rows):
        lines.append("Where there is no p, the score is degenerate, or has no items that could be resampled.")
    return "\n".join([*lines, *comparison.remarks])


def comparison_json(comparison: RunComparison) -> str:
    """Return a comparison as JSON."""
    rows = []
    for row in comparison.rows:
        tested = row.comparison
        rows.append(
            {
                "evaluator": row.a.evaluator,
                "task": row.a.task,
                "metric": row.a.metric,
                "protocol": evaluation_protocol(row.a),
                "a": row.a.value,
                "b": row.b.value,
                "difference": row.b.value - row.a.value,
                "low": None if tested is None else tested.low,
                "high": None if tested is None else tested.high,
                "p_value": None if tested is None else tested.p_value,
            }
        )
    document = {
        "a": comparison.a,
        "b": comparison.b,
        "method": comparison.method,
        "resamples": comparison.resamples,
        "comparisons": rows,
        "remarks": comparison.remarks,
    }
    return json.dumps(plain(document), indent=2, ensure_ascii=False)


def _names_of_both(encoders: Sequence[str]) -> Sequence[str | None]:
    """Return the encoder that was named for each run; None where none was."""
    if not encoders:
        return None, None
    return encoders if len(encoders) > 1 else (encoders[0], encoders[0])


def _chosen(run: Results, name: str | None) -> str:
    """Return the encoder of a run that is compared."""
    if name is not None:
        if name not in run.encoders:
            hint = suggest(name, run.encoders)
            raise RunError(f"the run in `{run.directory}` has no scores of an encoder `{name}`.{hint}")
        return name
    trained = [encoder for encoder in run.encoders if not encoder.endswith(START)] or run.encoders
    if len(trained) > 1:
        listed = ", ".join(f"`{encoder}`" for encoder in run.encoders)
        raise RunError(f"the run in `{run.directory}` has scores of {listed}; choose one with `--encoder`")
    return trained[0]


def _scores_of(run: Results, encoder: str) -> list[Score]:
    """Return the scores of an encoder, with their items."""
    return [score for score in attach_items(run.directory, run.scores) if score.encoder == encoder]


def _take(scores: list[Score], like: Score, same_protocol: bool) -> Score | None:
    """Remove the first score of the same evaluator, task and metric, and return it; None if there is none."""
    for place, score in enumerate(scores):
        if (score.evaluator, score.task, score.metric) != (like.evaluator, like.task, like.metric):
            continue
        if not same_protocol or evaluation_protocol(score) == evaluation_protocol(like):
            return scores.pop(place)
    return None


def _comparison(a: Score, b: Score, resamples: int, method: Method) -> Comparison | None:
    if a.items is None or b.items is None or degenerate_of(a) or degenerate_of(b):
        return None
    return compare(a.items, b.items, resamples, method=method)


def _title(score: Score) -> str:
    return f"{score.evaluator} {score.task} {score.metric} ({score.protocol_name})"


def _remarks(rows: Sequence[Compared]) -> Iterator[str]:
    """Yield remarks on degenerate scores, and on what the encoders and their plugins differ in."""
    differences: dict[str, None] = {}
    plugins: dict[tuple[str, str], None] = {}
    for row in rows:
        # A degenerate score says nothing about its encoder, and so was not tested.
        for name, score in (("A", row.a), ("B", row.b)):
            if reason := degenerate_of(score):
                yield f"{_title(score)}: not tested, the score of {name} is degenerate: {reason}."
        differences |= dict.fromkeys(unlike(encoder_protocol(row.a), encoder_protocol(row.b)))
        if row.a.plugin != row.b.plugin:
            plugins[row.a.plugin, row.b.plugin] = None
    if differences:
        yield f"The encoders differ in {', '.join(differences)}."
    for a, b in plugins:
        yield f"A was scored by {a or 'a plugin that is not known'}, B by {b or 'one that is not known'}."
