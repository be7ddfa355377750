"""Section on the demonstration searches of a study's cells."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed.helpers import score_digits

from sentbed_report.figures.study_figures import ranked_tables
from sentbed_report.formatting import share_of
from sentbed_report.page.sections import Section, table_of
from sentbed_report.study.found_demonstrations import FoundRow, found_demonstrations
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Header, Table


def demonstrations_section(
    data: StudyData, summaries: Sequence[Summary]
) -> Section | None:
    """Return the section; None if no cell has a search."""
    ranked = ranked_tables(summaries)
    searches = found_demonstrations(data, ranked)
    if not searches:
        return None

    evaluators: dict[str, None] = {}
    tables_with_gains = set()
    for search in searches:
        evaluators[search.found.evaluator] = None
        for gain in search.gains:
            tables_with_gains.add(id(gain.summary))
    gained = [summary for summary in ranked if id(summary) in tables_with_gains]

    note = (
        "Improvement, help and harm are against the prompt without a demonstration, on the development "
        f"data of the search ({', '.join(evaluators)})."
    )
    if gained:
        note += " Columns of evaluations: the mean of the cell minus that of the cell without a search."
    best = max(searches, key=lambda search: search.found.score).found
    line = f"best: “{best.sentence}” → “{best.word}”"
    return Section("Demonstrations", line, tables=[_table(searches, gained, note)])


def _table(
    searches: Sequence[FoundRow],
    gained: Sequence[Summary],
    note: str,
) -> Table:
    """Return a table with one row per search: columns as in PromptEOL's table 4, shares as in its figure 3."""
    scores: list[float] = []
    cells: set[str] = set()
    for search in searches:
        scores += search.found.scores
        cells.add(search.cell.name)
    columns: list[Column | str] = [
        "best demonstration",
        "word",
        Column("score", digits=score_digits(scores)),
        Column("improvement", form="signed", digits=score_digits(scores)),
        "help",
        "harm",
    ]
    for summary in gained:
        columns.append(Column(title_of(summary), form="signed", digits=summary.digits))

    rows = []
    for search in searches:
        best = search.found
        helped = harmed = None
        if best.shares is not None:
            helped = share_of(best.shares.helped, best.shares.total)
            harmed = share_of(best.shares.harmed, best.shares.total)
        gains = {id(gain.summary): gain.difference for gain in search.gains}
        rows.append(
            (
                search.cell.name,
                str(search.seed),
                best.sentence,
                best.word,
                best.score,
                best.improvement,
                helped,
                harmed,
                *map(gains.get, map(id, gained)),
            )
        )

    headers: list[Header | str] = [
        "cell",
        Header("seed", shown=len(cells) < len(searches)),
    ]
    return table_of("", headers, columns, rows, [note])
