"""The section `clean` of a run's report, and tables of the same numbers for the command `overlap`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sentbed.helpers import score_digits
from sentbed.protocols import ReportSection, Score
from sentbed_report.page.sections import table_of
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Table

from sentbed_audit.clean.clean_scores import CleanScore, clean_score
from sentbed_audit.clean.overlap import Overlap, SeenItems
from sentbed_audit.clean.seen_texts import FEWEST_WORDS, RUN

COLUMNS = (
    "encoder",
    "task",
    "metric",
    "items",
    "seen exactly",
    "seen nearly",
    "all texts seen",
    "score",
    "on clean items",
    "difference",
    "from",
    "to",
)


def clean_scores(
    overlap: Overlap, scores: Iterable[Score]
) -> tuple[list[CleanScore], list[Score]]:
    """Return clean scores for the scores whose items have known texts, and the list of all other scores.

    Raises:
        RunError: if a score cannot be computed from its items.
    """
    counted, not_counted = [], []
    for score in scores:
        seen = overlap.of(score)
        if seen is None:
            not_counted.append(score)
        else:
            counted.append(clean_score(score, seen))
    return counted, not_counted


def counts_of(seen: SeenItems) -> tuple[int, int, int, int]:
    """Return four numbers of items: all, seen exactly, seen only nearly, and those with all texts seen."""
    exactly, exactly_or_nearly = int(seen.exactly.sum()), int(seen.seen.sum())
    only_nearly = exactly_or_nearly - exactly
    return len(seen.seen), exactly, only_nearly, int(seen.wholly.sum())


def clean_section(
    overlap: Overlap,
    near: float,
    scores: Iterable[Score],
) -> ReportSection:
    """Return the section of a run: numbers of seen items, scores on clean items, intervals of differences."""
    counted, not_counted = clean_scores(overlap, scores)
    rows = []
    for row in counted:
        score = row.score
        low, high = row.interval or (None, None)
        digits = score_digits([score.value])
        rounded: list[float | None] = []
        for number in (score.value, row.value_on_clean, row.difference, low, high):
            if number is None:
                rounded.append(None)
            else:
                rounded.append(round(number, digits))
        names = score.encoder, score.task, score.metric
        rows.append((*names, *counts_of(row.seen), *rounded))

    return ReportSection(
        "clean",
        "Scores on items that do not occur in training texts",
        COLUMNS,
        tuple(rows),
        " ".join(notes(overlap, near, not_counted)),
    )


def notes(
    overlap: Overlap,
    near: float,
    not_counted: Iterable[Score],
) -> Iterator[str]:
    """Yield sentences that explain the numbers, and one that names the scores in `not_counted`."""
    sources = [path.name for path in overlap.training.files]
    sources += [f"the data `{source.name}`" for source in overlap.training.sources]
    yield f"{overlap.read:,} training texts were read, of {', '.join(sources)}."
    yield (
        "Case and punctuation are ignored. A text is seen exactly if a training text has the same words. It is "
        f"seen nearly if it has {FEWEST_WORDS} words or more and a training text differs in one word, or if "
        f"{100 * near:.4g} % of its words are in runs of {RUN} words that training texts have."
    )
    yield (
        "An item is seen if any of its texts is seen. The other items are clean: none of their texts is seen."
    )
    if overlap.short:
        yield (
            f"{overlap.short:,} of {overlap.texts:,} texts of items have fewer than {FEWEST_WORDS} words; they "
            "can only be seen exactly."
        )
    yield (
        "`difference` is the score on clean items minus the score on all items, with a 95 % confidence interval, "
        "paired by item. Seen items may be easier or harder for other reasons: to say which encoder is better, "
        "compare scores on clean items."
    )
    names = set()
    for score in not_counted:
        names.add(f"{score.evaluator} {score.task} ({score.metric})")

    if names:
        yield (
            f"Not counted, since they have no items or the texts of their items are unknown: "
            f"{', '.join(sorted(names))}."
        )


def counts_table(overlap: Overlap) -> Table:
    """Return a table with a row per task: the number of its items, and how many of them are seen."""
    rows = []
    for evaluator, task, seen in overlap.tasks():
        rows.append((evaluator, task, *counts_of(seen)))
    columns = [Column(name, form="count") for name in COLUMNS[3:7]]
    return table_of(
        "Items that occur in training texts", ("evaluator", "task"), columns, rows
    )


def scores_table(rows: Iterable[tuple[str, CleanScore]]) -> Table:
    """Return a table of each run's scores on all and on clean items, with differences and their intervals."""
    table_rows = []
    for run, row in rows:
        score = row.score
        names = run, score.encoder, score.task, score.metric
        difference = Estimate(value=row.difference, interval=row.interval)
        table_rows.append((*names, score.value, row.value_on_clean, difference))

    columns = (
        Column("score"),
        Column("on clean items"),
        Column("difference, 95 % interval", form="signed"),
    )
    headers = ("run", "encoder", "task", "metric")
    return table_of("Scores on clean items", headers, columns, table_rows)
