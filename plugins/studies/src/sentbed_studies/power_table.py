"""Tables of power: the smallest difference that a number of seeds finds, and the seeds a difference needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
from sentbed.errors import RunError
from sentbed_report.formatting import count
from sentbed_report.statistics.power import (
    LEVEL,
    POWER,
    SeedsNeeded,
    Spread,
    prompts_needed,
    seeds_needed,
    smallest_difference,
)
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.observed_power import TIMES, observed_power
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import title_of
from sentbed_report.tables.terminal import aligned

SEEDS = (2, 3, 5, 10)
"""Numbers of seeds by default, where there is no study to take them from."""


@attrs.frozen
class PowerTable:
    """Power of comparisons with a baseline, in the unit of the score."""

    title: str
    """The column, and what its cells are compared with; empty for a given spread."""
    spread: Spread
    comparisons: int
    """Number of cells compared with the baseline."""
    power: float
    level: float
    smallest: Mapping[int, float]
    """Number of seeds -> smallest true difference that they find."""
    needed: Mapping[float, SeedsNeeded]
    """True difference -> seeds that find it."""
    prompts_needed: Mapping[float, SeedsNeeded] = attrs.field(factory=dict)
    """True difference -> prompts that find it with `seeds`; empty where prompts are no source."""
    seeds: int = 0
    """Number of seeds of the study; 0 for a given spread."""

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
                f"{count(int(self.spread.prompts), 'prompt')}, whatever the number of seeds"
            )
        rows = [
            (f"{seeds:,}", f"{least:.3g}") for seeds, least in self.smallest.items()
        ]
        yield from aligned([("seeds", "smallest difference"), *rows], left=0)
        for difference, needed in self.needed.items():
            answer = needed.reason
            if needed.seeds is not None:
                answer = f"{count(needed.seeds, 'seed')} needed"
            yield f"difference {difference:g}: {answer}"
        for difference, needed in self.prompts_needed.items():
            answer = needed.reason
            if needed.seeds is not None:
                answer = f"{count(needed.seeds, 'prompt')} needed"
            yield f"difference {difference:g}, with {count(self.seeds, 'seed')}: {answer}"


def power_of_spread(
    seed_std: float,
    item_std: float,
    seeds: Sequence[int] = (),
    differences: Sequence[float] = (),
    power: float = POWER,
    level: float = LEVEL,
    comparisons: int | None = None,
) -> PowerTable:
    """Return the power for a given spread; by default of one comparison under 2, 3, 5 and 10 seeds.

    Raises:
        RunError: if an argument is out of its range.
    """
    return _table(
        "",
        Spread(seed_std, item_std),
        seeds or SEEDS,
        differences,
        power,
        level,
        comparisons or 1,
    )


def power_of_study(
    data: StudyData,
    seeds: Sequence[int] = (),
    differences: Sequence[float] = (),
    power: float = POWER,
    level: float = LEVEL,
    comparisons: int | None = None,
) -> tuple[PowerTable, ...]:
    """Return the power in the last column of each table of a study, by the spread of its finished runs.

    `seeds` are by default those of the study, twice and four times as many; `comparisons` its own number.
    Without a baseline, the spread is that of the differences from the first cell that has finished.

    Raises:
        RunError: if no cell was compared under two seeds or more, or an argument is out of its range.
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
        compared = comparisons or table.comparisons
        of_table = _table(
            title, table.spread, numbers, differences, power, level, compared
        )
        of_prompts = {}
        if table.spread.prompt_std:
            for difference in differences:
                of_prompts[difference] = prompts_needed(
                    table.spread, difference, table.seeds, power, level, compared
                )
        tables.append(
            attrs.evolve(of_table, prompts_needed=of_prompts, seeds=table.seeds)
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
) -> PowerTable:
    return PowerTable(
        title,
        spread,
        comparisons,
        power,
        level,
        {
            many: smallest_difference(spread, many, power, level, comparisons)
            for many in seeds
        },
        {
            difference: seeds_needed(spread, difference, power, level, comparisons)
            for difference in differences
        },
    )
