"""Published results in a study's tables: scores in files of results are matched with the tables' columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product, starmap
from typing import Any

import attrs

from sentbed_report.formatting import count, first_names
from sentbed_report.score_protocols import protocol_hash
from sentbed_report.study.published_scores import PublishedScore, PublishedSystem
from sentbed_report.study.summary_tables import ReferenceRow, Summary
from sentbed_report.tables.column import Column

MTEB = "mteb"
"""Protocol id of scores that the library MTEB computes."""

NO_TEST = "Rows of published results have no test, place or rank: their numbers have neither seeds nor items."


@attrs.frozen
class _Match:
    """Published number of a system for a column, or the reason why there is none."""

    value: float | None = None
    """The number; None if there is none."""
    obstacle: str = ""
    """Why there is no number; empty also for columns that need none, such as costs."""
    differences: tuple[str, ...] = ()
    """Reasons why the number may have another protocol or revision than the column; empty if it has the same."""
    scores: tuple[PublishedScore, ...] = ()
    """Scores in the files, whose mean is the number."""


def with_published_results(
    systems: Sequence[PublishedSystem], summaries: Sequence[Summary]
) -> list[Summary]:
    """Return the tables with a row for each system that has numbers in them.

    Notes say which results have no match. The rows are not in `Summary.rows`, so they are neither tested nor
    ranked.
    """
    tables = list(summaries)
    for system in systems:
        matches = [_matches_of_table(system, summary) for summary in summaries]
        source = _source_line(system, list(chain.from_iterable(matches)))
        notes_on_system = _notes_on_system(system, matches)
        for number, table in enumerate(tables):
            references = list(table.references)
            notes = list(table.reference_notes)
            if any(match.value is not None for match in matches[number]):
                references.append(_row(system, source, matches[number]))
                if NO_TEST not in notes:
                    notes.insert(0, NO_TEST)
            if _is_main(table):
                notes += _notes_on_table(system, table, matches[number])
                notes += notes_on_system
            tables[number] = attrs.evolve(
                table, references=tuple(references), reference_notes=tuple(notes)
            )
    return tables


def _is_main(summary: Summary) -> bool:
    """Whether published results are expected in a table.

    Published results are in the first metric of a task. So they are expected in a table that has rows, and that
    is neither for further metrics nor for costs.
    """
    has_scores = any(not column.cost for column in summary.columns)
    return bool(summary.rows) and not summary.metric and has_scores


def _row(
    system: PublishedSystem,
    source: str,
    matches: Sequence[_Match],
) -> ReferenceRow:
    values = []
    same_protocol = []
    for match in matches:
        values.append(match.value)
        same_protocol.append(match.value is not None and not match.differences)
    return ReferenceRow(
        system.name,
        source,
        "",
        tuple(values),
        model=system.model,
        revision=system.revision,
        software=_software(matches),
        same_protocol=tuple(same_protocol),
    )


def _source_line(system: PublishedSystem, matches: Sequence[_Match]) -> str:
    """Return the tag of a system's row: where it is published, its revision, and the software that scored it."""
    parts = ["published", system.source]
    if system.revision:
        parts.append(f"revision {system.revision[:12]}")
    parts += _software(matches)
    return ", ".join(parts)


def _software(matches: Sequence[_Match]) -> tuple[str, ...]:
    """Return the names and versions of the software that computed the scores."""
    names = set()
    for match in matches:
        for score in match.scores:
            names.add(score.software)
    return tuple(sorted(names - {""}))


# --- matching ----------------------------------------------------------------------------------------------


def _matches_of_table(system: PublishedSystem, summary: Summary) -> list[_Match]:
    """Return a system's number, or the reason why there is none, for each column of a table."""
    matches = []
    of_tasks = []
    for column in summary.columns:
        match = _Match()
        if not column.average:
            match = _match_of_column(system.scores, summary, column)
            of_tasks.append((column.task, match))
        matches.append(match)

    for place, column in enumerate(summary.columns):
        if not column.average or column.part:
            continue
        # The protocol of an average that an evaluator reports may name the tasks.
        tasks = column.protocol.get("of")
        averaged = []
        for task, match in of_tasks:
            if tasks is None or task in tasks:
                averaged.append(match)
        matches[place] = _match_of_average(averaged)
    return matches


def _match_of_average(matches: Sequence[_Match]) -> _Match:
    """Return the mean of the numbers of an average's tasks; no number if any task has none."""
    values = []
    differences: dict[str, None] = {}
    for match in matches:
        if match.value is None:
            return _Match()
        values.append(match.value)
        differences |= dict.fromkeys(match.differences)
    if not values:
        return _Match()
    return _Match(sum(values) / len(values), differences=tuple(differences))


def _match_of_column(
    scores: Sequence[PublishedScore],
    summary: Summary,
    column: Column,
) -> _Match:
    """Return the number for a column: the mean over the splits and subsets of its task, in its metric."""
    if column.cost:
        return _Match()

    name_in_sentbed = f"{summary.evaluator} {column.task} ({column.metric})"
    metrics = set()
    of_metric = []
    for score in scores:
        task = column.task
        if score.is_ours:
            task = name_in_sentbed
        if score.task != task:
            continue
        metrics.add(" ".join(score.metrics) or "unnamed")
        if _has_metric(score, summary, column):
            of_metric.append(score)
    if not metrics:
        return _Match(obstacle="the task is not among its results")
    if not of_metric:
        names = first_names(sorted(metrics))
        obstacle = f"its metric is {names}, that of the study {column.metric}"
        return _Match(obstacle=obstacle)

    parts = of_metric[:1]
    if not of_metric[0].is_ours:
        parts = _scores_of_places(of_metric, column.protocol)
    if not parts:
        published = set()
        for score in of_metric:
            published.add(_place_in_words(score.split, score.subset))
        measured = set(starmap(_place_in_words, _places(column.protocol)))
        obstacle = (
            f"it is on {first_names(sorted(published))}, the study on "
            f"{first_names(sorted(measured))}"
        )
        return _Match(obstacle=obstacle)

    total = 0.0
    differences: dict[str, None] = {}
    for score in parts:
        total += score.value
        differences |= dict.fromkeys(_protocol_differences(score, column.protocol))
    return _Match(total / len(parts), "", tuple(differences), tuple(parts))


def _has_metric(
    score: PublishedScore,
    summary: Summary,
    column: Column,
) -> bool:
    """Whether a score is in the metric of a column.

    If the file does not name the metric of a score, it is taken to be the task's first metric. Further metrics
    of the evaluator `mteb` are named METRIC-PART: the same metric on a part of the task.
    """
    metric = column.metric
    if column.protocol.get("id") == MTEB:
        metric = metric.partition("-")[0]
    if not score.metrics:
        return not summary.metric
    if column.protocol.get("similarity") == "cosine":
        return metric in score.metrics or f"cosine_{metric}" in score.metrics
    return metric in score.metrics


def _scores_of_places(
    scores: Sequence[PublishedScore], protocol: Mapping[str, Any]
) -> list[PublishedScore]:
    """Return the score of each split and subset over which a column is a mean; empty if any is missing."""
    by_place = {}
    for score in scores:
        by_place[score.split, score.subset] = score
    parts = []
    for place in _places(protocol):
        if place not in by_place:
            return []
        parts.append(by_place[place])
    return parts


def _places(protocol: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the pairs of split and subset over which a column is a mean.

    The subset of a task without subsets is `default`.
    """
    splits = _as_list(protocol.get("split", ""))
    subsets = _as_list(protocol.get("subset", "default"))
    return list(product(splits, subsets))


def _as_list(value: Any) -> list[str]:
    if isinstance(value, list | tuple):
        return list(map(str, value))
    return [str(value)]


def _place_in_words(split: str, subset: str) -> str:
    """Return a split and subset in words."""
    place = f"the split `{split}`"
    if subset != "default":
        place += f", subset `{subset}`"
    return place


def _protocol_differences(
    score: PublishedScore, protocol: Mapping[str, Any]
) -> Iterator[str]:
    """Yield reasons why a score may have another protocol or revision than a column."""
    if score.is_ours:
        if score.data_revision != protocol_hash(protocol):
            yield "the protocol of the evaluation is another one"
        return
    if not score.metrics:
        yield "its file does not name the metric"
    if protocol.get("id") != MTEB:
        software = score.software or "software that its file does not name"
        yield f"computed by {software}, here by the protocol `{protocol.get('id', '')}`"
        return
    revision = str(protocol.get("revision", ""))
    if score.data_revision != revision:
        published = score.data_revision[:12] or "unknown"
        yield f"revision of the data {published}, here {revision[:12]}"
    if score.software != f"mteb {protocol.get('mteb', '')}":
        software = score.software or "an unknown version of mteb"
        yield f"{software}, here mteb {protocol.get('mteb', '')}"


# --- notes -------------------------------------------------------------------------------------------------


def _notes_on_table(
    system: PublishedSystem,
    summary: Summary,
    matches: Sequence[_Match],
) -> Iterator[str]:
    """Yield sentences on how a system's numbers relate to those of the study, and on columns without a number."""
    same: list[str] = []
    unlike: dict[str, list[str]] = {}
    missing: dict[str, list[str]] = {}
    for column, match in zip(summary.columns, matches, strict=True):
        if column.average:
            continue
        if match.obstacle:
            missing.setdefault(match.obstacle, []).append(column.heading)
        elif match.differences:
            unlike.setdefault("; ".join(match.differences), []).append(column.heading)
        elif match.value is not None:
            same.append(column.heading)

    if same:
        yield f"{system.name}: protocol and revisions are those of the study in {first_names(same)}."
    for difference, headings in unlike.items():
        yield (
            f"{system.name}: not known to be of the study's protocol and revisions in "
            f"{first_names(headings)} ({difference})."
        )
    for obstacle, headings in missing.items():
        yield f"{system.name} has no number in {first_names(headings)}: {obstacle}."


def _notes_on_system(
    system: PublishedSystem, matches_of_tables: Sequence[Sequence[_Match]]
) -> list[str]:
    """Return sentences on results that match no column of any table, and on results that were not read."""
    unmatched = dict.fromkeys(score.task for score in system.scores)
    for match in chain.from_iterable(matches_of_tables):
        for score in match.scores:
            unmatched.pop(score.task, None)
    notes = list(system.notes)
    if unmatched:
        tasks = list(unmatched)
        notes.append(
            f"No column has {count(len(tasks), 'task')} of {system.name}: {first_names(tasks)}."
        )
    return notes
