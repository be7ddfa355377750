"""Section of a run's report on the result of its demonstration search."""

from __future__ import annotations

from sentbed_report.figures.demonstration_scores import candidates_plot
from sentbed_report.formatting import number, share_of
from sentbed_report.page.sections import Section, table_of
from sentbed_report.run_report import Ranking
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Table


def search_section(ranking: Ranking | None) -> Section | None:
    """Return the section; None without a search.

    The section has the best candidate, as in PromptEOL's table 4, then all candidates.
    """
    if ranking is None:
        return None

    plot = candidates_plot(ranking)
    plots = []
    if plot is not None:
        plots.append(plot)
    return Section(
        "Search",
        sentences=[verdict(ranking)],
        tables=[_winner(ranking), _candidates(ranking)],
        plots=plots,
        is_open=True,
    )


def verdict(ranking: Ranking) -> str:
    """Return a sentence with the result of a search."""
    best = ranking.winner
    demonstration = f"“{best.sentence}”"
    if best.word:
        demonstration += f" → “{best.word}”"
    score = number(best.score, ranking.digits)
    baseline = number(ranking.baseline.score, ranking.digits)
    against = f"{score}, against {baseline} without a demonstration"

    if best.score <= ranking.baseline.score:
        return f"No demonstration is better than none: the best, {demonstration}, has {against}."
    return f"The best demonstration is {demonstration}: {against}."


def _winner(ranking: Ranking) -> Table:
    best, shares = ranking.winner, ranking.shares
    improvement = Column("improvement", form="signed", digits=ranking.digits)
    helped = share_of(shares.helped, shares.total)
    harmed = share_of(shares.harmed, shares.total)
    row = (best.sentence, best.word, ranking.improvement, helped, harmed)
    return table_of(
        "", ["best demonstration"], ["word", improvement, "help", "harm"], [row]
    )


def _candidates(ranking: Ranking) -> Table:
    columns = (
        "word",
        Column("rank", form="count"),
        Column(ranking.evaluator, digits=ranking.digits),
        Column("difference", form="signed", digits=ranking.digits),
    )
    rows = []
    for rank, candidate, difference in ranking.rows:
        rows.append(
            (candidate.sentence, candidate.word, rank, candidate.score, difference)
        )
    return table_of("", ["sentence"], columns, rows)
