"""Published results beside a study's: which scores of files of results stand in which columns of its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import attrs

from sentbed_report.comparability import protocol_hash
from sentbed_report.formatting import count, first_names
from sentbed_report.study.published_scores import PublishedScore, PublishedSystem
from sentbed_report.study.summary_tables import ReferenceRow, Summary
from sentbed_report.tables.column import Column

MTEB = "mteb"
"""Id of the protocol of scores that the library computes."""

NO_TEST = "Rows of published results have no test, place or rank: their numbers have neither seeds nor items."


@attrs.frozen
class _Match:
    """What a column has of a published system."""

    value: float | None = None
    obstacle: str = ""
    """Why there is no number."""
    differences: tuple[str, ...] = ()
    """Why a number is not known to be of the column's protocol and revisions."""
    scores: tuple[PublishedScore, ...] = ()


def with_published_results(
    systems: Sequence[PublishedSystem], summaries: Sequence[Summary]
) -> list[Summary]:
    """Return the tables with a row for each system that has a number in it, and what could not be matched.

    These rows are no part of `rows`, so that no test, rank or place counts them.
    """
    rows: list[list[ReferenceRow]] = [[] for _ in summaries]
    notes: list[list[str]] = [[] for _ in summaries]
    for system in systems:
        matches = [_matches(system, summary) for summary in summaries]
        source = _source_line(system, matches)
        left_over = _left_over(system, matches)
        for place, summary in enumerate(summaries):
            of_summary = matches[place]
            if any(match.value is not None for match in of_summary):
                rows[place].append(_row(system, source, of_summary))
            if _is_main(summary):
                notes[place] += _notes(system, summary, of_summary)
                notes[place] += left_over

    with_rows = []
    for summary, references, sentences in zip(summaries, rows, notes, strict=True):
        if references:
            sentences.insert(0, NO_TEST)
        with_rows.append(
            attrs.evolve(
                summary,
                references=(*summary.references, *references),
                reference_notes=tuple(sentences),
            )
        )
    return with_rows


def _is_main(summary: Summary) -> bool:
    """Whether a table has tasks by their first metric, of which published results have numbers."""
    has_scores = any(not column.cost for column in summary.columns)
    return bool(summary.rows) and not summary.metric and has_scores


def _row(
    system: PublishedSystem, source: str, matches: Sequence[_Match]
) -> ReferenceRow:
    values = tuple(match.value for match in matches)
    same = tuple(match.value is not None and not match.differences for match in matches)
    return ReferenceRow(
        system.name,
        source,
        "",
        values,
        model=system.model,
        revision=system.revision,
        software=_software(matches),
        same_protocol=same,
    )


def _source_line(
    system: PublishedSystem, matches_of_tables: Sequence[Sequence[_Match]]
) -> str:
    """Return what marks the row: that it is published, where, of which revision and by what software."""
    parts = ["published", system.source]
    if system.revision:
        parts.append(f"revision {system.revision[:12]}")
    every = [match for matches in matches_of_tables for match in matches]
    parts += _software(every)
    return ", ".join(parts)


def _software(matches: Sequence[_Match]) -> tuple[str, ...]:
    names = {score.software for match in matches for score in match.scores}
    return tuple(sorted(names - {""}))


# --- matching ----------------------------------------------------------------------------------------------


def _matches(system: PublishedSystem, summary: Summary) -> list[_Match]:
    """Return what each column of a table has of a system."""
    of_tasks = {
        place: _match(system.scores, summary, column)
        for place, column in enumerate(summary.columns)
        if not column.average
    }
    matches = []
    for place, column in enumerate(summary.columns):
        if not column.average:
            matches.append(of_tasks[place])
        elif column.part:
            matches.append(_Match())
        else:
            tasks = column.protocol.get("of", [other.task for other in summary.columns])
            averaged = []
            for other, match in of_tasks.items():
                if summary.columns[other].task in tasks:
                    averaged.append(match)
            matches.append(_average(averaged))
    return matches


def _average(matches: Sequence[_Match]) -> _Match:
    """Return the plain mean over the tasks of an average; nothing where one of them has no number."""
    values = [match.value for match in matches if match.value is not None]
    if not values or len(values) < len(matches):
        return _Match()
    differences: dict[str, None] = {}
    for match in matches:
        differences |= dict.fromkeys(match.differences)
    return _Match(sum(values) / len(values), differences=tuple(differences))


def _match(
    scores: Sequence[PublishedScore], summary: Summary, column: Column
) -> _Match:
    """Return the number for a column: of its task, metric, split and subset, or the mean over several."""
    if column.cost:
        return _Match()
    name_of_ours = f"{summary.evaluator} {column.task} ({column.metric})"
    of_task = []
    for score in scores:
        task = column.task
        if score.is_ours:
            task = name_of_ours
        if score.task == task:
            of_task.append(score)
    if not of_task:
        return _Match(obstacle="the task is not among its results")

    of_metric = [score for score in of_task if _has_metric(score, summary, column)]
    if not of_metric:
        metrics = {" ".join(score.metrics) or "unnamed" for score in of_task}
        return _Match(
            obstacle=f"its metric is {first_names(sorted(metrics))}, that of the study {column.metric}"
        )
    if of_metric[0].is_ours:
        parts = of_metric[:1]
    else:
        parts = _parts(of_metric, column.protocol)
    if not parts:
        published = {_place(score.split, score.subset) for score in of_metric}
        measured = {_place(*place) for place in _places(column.protocol)}
        return _Match(
            obstacle=f"it is on {first_names(sorted(published))}, the study on "
            f"{first_names(sorted(measured))}"
        )
    differences: dict[str, None] = {}
    for score in parts:
        differences |= dict.fromkeys(_differences(score, column.protocol))
    value = sum(score.value for score in parts) / len(parts)
    return _Match(value, "", tuple(differences), tuple(parts))


def _has_metric(score: PublishedScore, summary: Summary, column: Column) -> bool:
    """Whether a score is in the metric of a column.

    Where its file names no metric it is taken for the first one of the task. A further metric of `mteb` is
    the same on a part of the task, which stands behind its name.
    """
    metric = column.metric
    if column.protocol.get("id") == MTEB:
        metric = metric.partition("-")[0]
    if not score.metrics:
        return not summary.metric
    if column.protocol.get("similarity") == "cosine":
        return metric in score.metrics or f"cosine_{metric}" in score.metrics
    return metric in score.metrics


def _parts(
    scores: Sequence[PublishedScore], protocol: Mapping[str, Any]
) -> list[PublishedScore]:
    """Return the score of each split and subset that a column is the mean of; none where one is missing."""
    by_place = {(score.split, score.subset): score for score in scores}
    places = _places(protocol)
    if any(place not in by_place for place in places):
        return []
    return [by_place[place] for place in places]


def _places(protocol: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the splits and subsets of a column; `default` is the subset of a task without some."""
    splits = _as_list(protocol.get("split", ""))
    subsets = _as_list(protocol.get("subset", "default"))
    return list(product(splits, subsets))


def _as_list(value: Any) -> list[str]:
    if isinstance(value, list | tuple):
        return [str(part) for part in value]
    return [str(value)]


def _place(split: str, subset: str) -> str:
    """Return a split and subset for readers."""
    place = f"the split `{split}`"
    if subset != "default":
        place += f", subset `{subset}`"
    return place


def _differences(score: PublishedScore, protocol: Mapping[str, Any]) -> Iterator[str]:
    """Yield why a score is not known to be of a column's protocol and revisions."""
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


def _notes(
    system: PublishedSystem, summary: Summary, matches: Sequence[_Match]
) -> Iterator[str]:
    """Yield how the published numbers of a table relate to the study's, and which columns have none."""
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


def _left_over(
    system: PublishedSystem, matches_of_tables: Sequence[Sequence[_Match]]
) -> list[str]:
    """Return sentences on the results that no column has, and on those that were left out before."""
    matched = set()
    for matches in matches_of_tables:
        for match in matches:
            matched |= {score.task for score in match.scores}
    tasks = dict.fromkeys(score.task for score in system.scores)
    left = [task for task in tasks if task not in matched]
    notes = list(system.notes)
    if left:
        notes.append(
            f"No column has {count(len(left), 'task')} of {system.name}: {first_names(left)}."
        )
    return notes
