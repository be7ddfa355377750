"""Power tables: the smallest difference that n seeds can show, and how many seeds a given difference needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
from sentbed.errors import RunError
from sentbed_report.formatting import count
from sentbed_report.statistics.levels import SIGNIFICANT
from sentbed_report.statistics.power import (
    MOST,
    POWER,
    Spread,
    seeds_needed,
    shares_of_level,
    smallest_difference,
)
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.observed_power import TIMES, observed_power
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import title_of
from sentbed_report.tables.terminal import aligned

SEEDS = (2, 3, 5, 10)
"""Default numbers of seeds if there is no study."""


@attrs.frozen
class PowerTable:
    """Power of comparisons with a baseline. Differences are in the unit of the score."""

    title: str
    """The study's table and column, and the baseline; empty without a study."""
    spread: Spread
    comparisons: int
    """Number of comparisons with the baseline."""
    shares: int
    """Number of equal shares of the level of which each comparison has one: twice as many as comparisons if
    other pairs of cells are tested, too."""
    power: float
    """Probability with which a true difference is to be found significant."""
    level: float
    """Significance level of all comparisons together."""
    smallest: Mapping[int, float]
    """Number of seeds -> smallest true difference that is found with probability `power`."""
    needed: Mapping[float, int | None]
    """True difference -> number of seeds with which it is found with probability `power`; None if 10,000 seeds
    do not suffice, since the items or prompts hide it."""

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.title:
            yield self.title
        yield (
            f"standard deviation over seeds {self.spread.seed_std:.3g}, standard error of items "
            f"{self.spread.item_std:.3g}; {count(self.comparisons, 'comparison')}, power {self.power:g}, "
            f"level {self.level:g}"
        )
        if self.spread.prompt_std:
            yield (
                f"standard deviation over prompts {self.spread.prompt_std:.3g}; "
                f"{count(self.spread.prompts, 'prompt')}, whatever the number of seeds"
            )

        rows = [("seeds", "smallest difference")]
        for seeds, difference in self.smallest.items():
            rows.append((f"{seeds:,}", f"{difference:.3g}"))
        yield from aligned(rows, left=0)

        for difference, needed in self.needed.items():
            answer = f"not found with {MOST:,} seeds: the items or prompts hide it"
            if needed is not None:
                answer = f"{count(needed, 'seed')} needed"
            yield f"difference {difference:g}: {answer}"


def power_of_spread(
    seed_std: float,
    item_std: float,
    seeds: Sequence[int] = (),
    differences: Sequence[float] = (),
    power: float = POWER,
    level: float = SIGNIFICANT,
    comparisons: int | None = None,
) -> PowerTable:
    """Return the power of comparisons whose spread is known.

    Args:
        seed_std: Standard deviation of the difference over seeds.
        item_std: Standard error of the difference that is due to the test items.
        seeds: Numbers of seeds for which the smallest difference is computed; by default 2, 3, 5 and 10.
        differences: True differences for which the number of seeds is computed.
        power: Probability that a difference is found significant.
        level: Significance level of all comparisons together.
        comparisons: Number of cells compared with the baseline, by default 1.

    Raises:
        RunError: if an argument is out of range.
    """
    cells = comparisons or 1
    return _table(
        "",
        Spread(seed_std, item_std),
        seeds or SEEDS,
        differences,
        power,
        level,
        cells,
        shares_of_level(cells),
    )


def power_of_study(
    data: StudyData,
    seeds: Sequence[int] = (),
    differences: Sequence[float] = (),
    power: float = POWER,
    level: float = SIGNIFICANT,
    comparisons: int | None = None,
) -> tuple[PowerTable, ...]:
    """Return a power table for the last column of each table of a study, by the spread of its finished runs.

    By default, `seeds` are the study's number of seeds and its multiples by two and four, and `comparisons` and
    their share of the level are those of the study's own tests. In a study without a baseline, cells are compared
    with the first cell that has scores. The other arguments are those of `power_of_spread`.

    Raises:
        RunError: if no cell was compared under two seeds or more, or if an argument is out of range.
    """
    baseline = data.baseline or _first_scored_cell(data)
    observed = observed_power(summarise(attrs.evolve(data, baseline=baseline)))
    if not observed:
        raise RunError(
            f"of {data.name}, no cell has been compared with another under two seeds or more, so that it is "
            "not known how much seeds differ; run more seeds, or give the spread with `--seed-std`"
        )

    tables = []
    for table in observed:
        title = f"{title_of(table.summary)}, against {baseline}"
        numbers = seeds or [times * table.seeds for times in TIMES]
        shares = table.shares
        if comparisons:
            shares = shares_of_level(comparisons)
        tables.append(
            _table(
                title,
                table.spread,
                numbers,
                differences,
                power,
                level,
                comparisons or table.comparisons,
                shares,
            )
        )
    return tuple(tables)


def _first_scored_cell(data: StudyData) -> str | None:
    for cell in data.cells:
        if any(run.scores for run in cell.runs):
            return cell.name
    return None


def _table(
    title: str,
    spread: Spread,
    seeds: Sequence[int],
    differences: Sequence[float],
    power: float,
    level: float,
    comparisons: int,
    shares: int,
) -> PowerTable:
    """Return a table: the smallest difference with each of `seeds`, and the seeds for each of `differences`."""
    smallest = {}
    for number in seeds:
        smallest[number] = smallest_difference(spread, number, power, level, shares)

    needed = {}
    for difference in differences:
        needed[difference] = seeds_needed(spread, difference, power, level, shares)
    return PowerTable(
        title,
        spread,
        comparisons,
        shares,
        power,
        level,
        smallest,
        needed,
    )
