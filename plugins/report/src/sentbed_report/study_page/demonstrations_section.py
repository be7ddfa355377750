"""What the searches of a study's cells have found, as a section of its report."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed.helpers import score_digits

from sentbed_report.formatting import share_of
from sentbed_report.page.sections import Section, table_of
from sentbed_report.study.found_demonstrations import found_demonstrations
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Header


def demonstrations_section(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section; None if no cell has searched.

    The columns are those of PromptEOL's table 4, and the shares of its figure 3.
    """
    ranked = [summary for summary in summaries if summary.columns[-1].ranked]
    searches = found_demonstrations(data, ranked)
    if not searches:
        return None
    several = len({search.cell.name for search in searches}) < len(searches)
    gaining = {id(gain.summary) for search in searches for gain in search.gains}
    gained = [summary for summary in ranked if id(summary) in gaining]
    digits = score_digits(score for search in searches for score in search.found.scores)
    columns: tuple[Column | str, ...] = (
        "best demonstration",
        "word",
        Column("score", digits=digits),
        Column("improvement", form="signed", digits=digits),
        "help",
        "harm",
        *(Column(title_of(summary), form="signed", digits=summary.digits) for summary in gained),
    )
    rows = []
    for search in searches:
        best, shares = search.found, search.found.shares
        gains = {id(gain.summary): gain.difference for gain in search.gains}
        cells = (
            best.sentence,
            best.word,
            best.score,
            best.improvement,
            None if shares is None else share_of(shares.helped, shares.total),
            None if shares is None else share_of(shares.harmed, shares.total),
            *(gains.get(id(summary)) for summary in gained),
        )
        rows.append((search.cell.name, str(search.seed), *cells))
    evaluators = ", ".join(dict.fromkeys(search.found.evaluator for search in searches))
    note = (
        "Improvement, help and harm are against the prompt without a demonstration, on the development "
        f"data of the search ({evaluators})."
    )
    if gained:
        note += " Columns of evaluations: the mean of the cell less that of the cell without a search."
    table = table_of("", ["cell", Header("seed", shown=several)], columns, rows, [note])
    best = max(searches, key=lambda search: search.found.score).found
    return Section("Demonstrations", f"best: “{best.sentence}” → “{best.word}”", tables=[table])
