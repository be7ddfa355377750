"""Power of comparisons with a baseline: the table of `sentbed study power`, and the section of a study's page."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import attrs

from sentbed_report.formatting import cost_digits
from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.statistics.difference import REPLICATES, Difference
from sentbed_report.statistics.levels import SIGNIFICANT
from sentbed_report.statistics.power import (
    MOST,
    POWER,
    Spread,
    seeds_needed,
    smallest_difference,
)
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Table

TIMES = (1, 2, 4)
"""Numbers of seeds for which the power is shown, as multiples of the study's number of seeds."""


@attrs.frozen
class Comparisons:
    """Comparisons with a baseline in a column, whose differences have the same spread."""

    name: str
    """Title of the column."""
    spread: Spread
    number: int
    """Number of the comparisons."""
    level: float
    """Level of each comparison."""
    seeds: int = 0
    """Number of seeds of most comparisons; 0 if they have not been run."""

    @classmethod
    def planned(cls, spread: Spread, cells: int) -> Comparisons:
        """Return comparisons of `cells` cells with the baseline.

        All other pairs of cells have one half of the level (`difference.corrected`).
        """
        level = SIGNIFICANT
        if cells > 1:
            level = SIGNIFICANT / (2 * cells)
        return cls("planned", spread, cells, level)


def observed_comparisons(summaries: Sequence[Summary]) -> list[Comparisons]:
    """Return the comparisons in the last column of each table in which higher, or lower, scores are better.

    Tables without a comparison under at least two seeds are left out, since the spread over seeds is then
    unknown.
    """
    comparisons = []
    for summary in summaries:
        if not summary.columns[-1].ranked:
            continue
        estimates = []
        level = SIGNIFICANT
        for row in summary.rows:
            judged = row.cells[-1].judged
            if judged is not None and judged.tested is not None:
                estimates.append(judged.tested)
                level = judged.level
        observed = observed_spread(estimates)
        if observed is not None:
            spread, seeds = observed
            name = title_of(summary)
            of_column = Comparisons(name, spread, len(estimates), level, seeds)
            comparisons.append(of_column)
    return comparisons


def observed_spread(differences: Sequence[Difference]) -> tuple[Spread, int] | None:
    """Return the average spread of differences, and the most frequent number of seeds among them.

    Variances over seeds and over prompts are pooled, variances over items are averaged. The result is None if
    no difference has two seeds or more, since the standard deviation over seeds is then unknown. It is also
    None if nothing varies.
    """
    squares: defaultdict[str, float] = defaultdict(float)
    weights: defaultdict[str, float] = defaultdict(float)
    degrees: defaultdict[str, Counter[float]] = defaultdict(Counter)
    for difference in differences:
        for name, source in difference.sources.items():
            weight = 1.0
            if name in REPLICATES:
                weight = source.degrees
            squares[name] += weight * difference.stds[name] ** 2
            weights[name] += weight
            degrees[name][source.degrees] += 1
    if "seeds" not in squares or not any(squares.values()):
        return None

    stds: defaultdict[str, float] = defaultdict(float)
    for name, square in squares.items():
        stds[name] = math.sqrt(square / weights[name])
    prompts = 1
    if "prompts" in degrees:
        prompts = int(_most_frequent(degrees["prompts"])) + 1
    spread = Spread(
        stds["seeds"],
        stds["items"],
        min(degrees["items"], default=math.inf),
        stds["prompts"],
        prompts,
    )
    return spread, int(_most_frequent(degrees["seeds"])) + 1


def _most_frequent(counts: Counter[float]) -> float:
    """Return the most frequent number, of equally frequent ones the largest."""
    return max(counts, key=lambda number: (counts[number], number))


def power_table(
    comparisons: Comparisons,
    seeds: Sequence[int] = (),
    differences: Sequence[float] = (),
) -> Table:
    """Return a table of one row: the spread, the smallest difference that is found, and the seeds needed.

    Args:
        comparisons: Comparisons whose power is asked for.
        seeds: Numbers of seeds for which the smallest difference is computed; by default multiples of
            `comparisons.seeds`.
        differences: True differences for which the number of seeds is computed.

    Raises:
        RunError: if an argument is out of range.
    """
    spread = comparisons.spread
    level = comparisons.level
    numbers = {
        "std over seeds": spread.seed_std,
        "error of items": spread.item_std,
        "std over prompts": spread.prompt_std,
    }
    for number in seeds or [times * comparisons.seeds for times in TIMES]:
        numbers[f"{number:,} seeds"] = smallest_difference(spread, number, level)

    digits = cost_digits(numbers.values())
    columns = [Column("comparisons", form="count")]
    for heading in numbers:
        columns.append(Column(heading, digits=digits))
    row: list[Value] = [comparisons.name, comparisons.number, *numbers.values()]

    for difference in differences:
        needed = seeds_needed(spread, difference, level)
        columns.append(Column(f"seeds for {difference:g}", form="count"))
        row.append(needed or f"over {MOST:,}")
    return table_of("", ["column"], columns, [row])


NOTES = (
    f"Under a number of seeds: the smallest true difference from the baseline that is found with a probability "
    f"of {100 * POWER:g} %, at a level of {SIGNIFICANT:g} for all comparisons of its column together.",
    "Standard deviations are of the paired differences; more seeds reduce neither the error of the items nor the "
    "variance over prompts.",
)


def power_section(summaries: Sequence[Summary]) -> Section | None:
    """Return the section of a study's page; None if no cells were compared under at least two seeds."""
    tables = list(map(power_table, observed_comparisons(summaries)))
    if not tables:
        return None
    return Section("Power", tables=tables, notes=NOTES)
