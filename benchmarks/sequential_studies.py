"""Simulated studies under `[study.stop]`: wrong claims, runs saved, and what a t-test after each seed makes.

    python benchmarks/sequential_studies.py [--studies 1000] [--cells 8] [--seeds 10] [--items 300]
                                            [--error-rate 0.05] [--seed 0] [--json FILE]

The score of a cell under a seed is the mean over items of

    mean of the cell + item + item x cell + seed + seed x cell + item x seed x cell,

normal parts in points: items are hard or easy for all cells and for one, a seed is good or bad for all cells
(they share the order of the data) and for one. So the scores of cells, seeds and items are correlated, and
seeds share their items. A claim "A is worse than B" is wrong if the mean of A is not below that of B by more
than the margin. A winner is declared when all other cells are shown to be worse; it is wrong if another cell
has a higher mean by more than the margin.

The variance due to the items is that of the product (`item_variances`), for all pairs at once; before the
first study, the two are compared.

By hand: the same looks, a paired t-test over the seeds so far against the cell with the best mean, at the
same rate and not corrected, as one does who looks at the results after each seed and stops what is beaten.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from scipy import special, stats
from sentbed.protocols import Items, Score
from sentbed_report.statistics.item_components import ComponentStore, MeanScore
from sentbed_studies.deciding_evidence import item_variances
from sentbed_studies.sequential_test import SequentialTest
from sentbed_studies.spending import shares


@attrs.frozen
class Scenario:
    """What is true of the cells of a simulated study."""

    name: str
    means: tuple[float, ...]
    seed_factors: tuple[float, ...] = ()
    """Factors of the standard deviation of seed x cell, one per cell; by default 1."""
    tails: float = np.inf
    """Degrees of freedom of Student's t of seed x cell; normal if infinite."""
    margin: float = 0.0
    items: float = 1.0
    """Factor of the standard deviations of item x cell and item x seed x cell."""


ITEM, ITEM_CELL, SEED, SEED_CELL, REST = 20.0, 4.0, 0.5, 0.3, 3.0
"""Standard deviations of the parts, in points."""


def scenarios(cells: int) -> tuple[Scenario, ...]:
    """Return the scenarios."""
    spread = tuple(0.1 * place for place in range(cells))
    every_second = tuple(2.0 if place % 2 == 0 else 1.0 for place in range(cells))
    return (
        Scenario("null: all equal", (0.0,) * cells),
        Scenario("one better by 3 points", (3.0,) + (0.0,) * (cells - 1)),
        Scenario("one better by 1.5 points", (1.5,) + (0.0,) * (cells - 1)),
        Scenario("many close: 0.1 apart", spread),
        Scenario("many close, margin 0.3", spread, margin=0.3),
        Scenario(
            "at the margin: one better by 0.5, margin 0.5",
            (0.5,) + (0.0,) * (cells - 1),
            margin=0.5,
        ),
        Scenario(
            "null, one cell with 3 x the spread",
            (0.0,) * cells,
            (3.0,) + (1.0,) * (cells - 1),
        ),
        Scenario(
            "null, one cell with 10 x the spread",
            (0.0,) * cells,
            (10.0,) + (1.0,) * (cells - 1),
        ),
        Scenario(
            "null, half the cells with 2 x the spread", (0.0,) * cells, every_second
        ),
        Scenario("null, items hardly vary", (0.0,) * cells, items=0.1),
        Scenario(
            "null, seeds with heavy tails (t, 3 degrees)", (0.0,) * cells, tails=3.0
        ),
    )


@attrs.frozen
class Simulated:
    """Scores of one study."""

    scores: np.ndarray
    """`(cells, seeds)`."""
    items: np.ndarray
    """`(cells, seeds, items)`."""


def simulate(
    scenario: Scenario, seeds: int, items: int, rng: np.random.Generator
) -> Simulated:
    """Draw a study."""
    cells = len(scenario.means)
    factors = np.array(scenario.seed_factors or (1.0,) * cells)
    noise = rng.standard_normal((cells, seeds))
    if np.isfinite(scenario.tails):
        # Of variance 1, as the others.
        noise = rng.standard_t(scenario.tails, (cells, seeds)) / np.sqrt(
            scenario.tails / (scenario.tails - 2)
        )
    per_run = SEED * rng.standard_normal(seeds) + SEED_CELL * factors[:, None] * noise
    per_item = ITEM * rng.standard_normal(
        items
    ) + scenario.items * ITEM_CELL * rng.standard_normal((cells, items))
    values = (
        np.array(scenario.means)[:, None, None]
        + per_run[:, :, None]
        + per_item[:, None, :]
        + scenario.items * REST * rng.standard_normal((cells, seeds, items))
    )
    return Simulated(values.mean(2), values)


@attrs.frozen
class Outcome:
    """The decisions of one study."""

    wrong: bool
    """Whether a claim was wrong."""
    runs: int
    winner: int | None


def sequential(
    study: Simulated, scenario: Scenario, looks: tuple[int, ...], error_rate: float
) -> Outcome:
    """Run the test of `[study.stop]`."""
    cells, items = len(scenario.means), study.items.shape[2]
    names = tuple(map(str, range(cells)))
    plan = tuple(range(looks[-1])), looks
    test = SequentialTest(
        names, looks, error_rate, scenario.margin, shares=shares(plan)
    )
    variances = VariancesOverItems.of(study.items)
    runs = 0
    done = 0
    for seeds_of_look in looks:
        at_work = [int(name) for name in test.at_work]
        if len(at_work) < 2:
            break
        runs += len(at_work) * (seeds_of_look - done)
        done = seeds_of_look
        test.look(
            {
                str(cell): study.scores[cell, :seeds_of_look].tolist()
                for cell in at_work
            },
            partial(
                known_variances, variances.after(range(seeds_of_look)), items - 1.0
            ),
        )
    wrong = any(
        scenario.means[int(claim.than)] - scenario.means[int(claim.cell)]
        <= scenario.margin
        for claim in test.claims
    )
    winner = int(test.at_work[0]) if len(test.at_work) == 1 else None
    return Outcome(wrong, runs, winner)


@attrs.frozen(eq=False)
class VariancesOverItems:
    """Variances over the items of the differences of all pairs of cells, after any seeds of studies."""

    covariances: np.ndarray
    """Covariances over the items of runs, `(..., cells, seeds, cells, seeds)`."""
    scores: np.ndarray
    """`(..., cells, seeds)`."""
    items: int

    @classmethod
    def of(cls, values: np.ndarray) -> VariancesOverItems:
        """Prepare the variances of `values`, `(..., cells, seeds, items)`."""
        *studies, cells, seeds, items = values.shape
        scores = values.mean(-1)
        centred = (values - scores[..., None]).reshape(*studies, cells * seeds, items)
        covariances = centred @ centred.swapaxes(-1, -2) / (items - 1)
        return cls(
            covariances.reshape(*studies, cells, seeds, cells, seeds), scores, items
        )

    def after(self, seeds: Sequence[int]) -> np.ndarray:
        """Return the variances of the means over `seeds`, two or more, `(..., cells, cells)`.

        As in `sentbed_report.statistics.significance.estimated`: less what one seed does to one item, which
        is in the variance over seeds, but by no more than that.
        """
        count = len(seeds)
        chosen = [*seeds]
        covariances = self.covariances[..., chosen, :, :][..., chosen]
        of_means = covariances.mean((-3, -1))
        within_seeds = np.einsum("...asbs->...ab", covariances)
        variances = of_differences(of_means) / self.items
        interaction = (
            of_differences(within_seeds - count * of_means)
            / self.items
            / (count * (count - 1))
        )
        over_seeds = (
            of_differences(covariances_over_seeds(self.scores[..., chosen])) / count
        )
        remaining: np.ndarray = np.maximum(
            0.0, variances - np.minimum(interaction, over_seeds)
        )
        return remaining


def of_differences(covariances: np.ndarray) -> np.ndarray:
    """Return the variances of the differences of all pairs, from covariances `(..., cells, cells)`."""
    variance_of_cell = np.diagonal(covariances, axis1=-2, axis2=-1)
    variances: np.ndarray = np.maximum(
        0.0,
        variance_of_cell[..., :, None]
        + variance_of_cell[..., None, :]
        - 2 * covariances,
    )
    return variances


def covariances_over_seeds(scores: np.ndarray) -> np.ndarray:
    """Return the sample covariances over seeds of all pairs, from scores `(..., cells, seeds)`."""
    residuals = scores - scores.mean(-1, keepdims=True)
    covariances: np.ndarray = (
        residuals @ residuals.swapaxes(-1, -2) / (scores.shape[-1] - 1)
    )
    return covariances


def known_variances(
    variances: np.ndarray, degrees: float, cells: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and columns of `cells`, whose names are their numbers; see `ItemVariances`."""
    numbers = [int(cell) for cell in cells]
    return variances[np.ix_(numbers, numbers)], np.full(
        (len(cells), len(cells)), degrees
    )


def require_variances_of_the_product() -> None:
    """Raise `AssertionError` if variances over items are not those by which `[study.stop]` decides."""
    values = np.random.default_rng(0).normal(size=(3, 4, 50))
    scores: dict[str, list[MeanScore]] = {}
    for cell in range(3):
        of_cell = []
        for seed in range(4):
            items = Items("mean", values[cell, seed], scale=1.0)
            score = Score(
                "T", "accuracy", float(values[cell, seed].mean()), {}, "en", "e", items
            )
            of_cell.append(MeanScore((score,)))
        scores[str(cell)] = of_cell
    expected, degrees = item_variances(scores, ComponentStore(1), [*scores])
    np.testing.assert_allclose(VariancesOverItems.of(values).after(range(4)), expected)
    np.testing.assert_allclose(degrees[expected > 0], 49.0)


def by_hand(
    study: Simulated, scenario: Scenario, looks: tuple[int, ...], error_rate: float
) -> Outcome:
    """Stop each cell that a paired t-test over the seeds so far finds worse than the best mean."""
    at_work = list(range(len(scenario.means)))
    runs = done = 0
    wrong = False
    for seeds_of_look in looks:
        if len(at_work) < 2:
            break
        runs += len(at_work) * (seeds_of_look - done)
        done = seeds_of_look
        scores = study.scores[:, :seeds_of_look]
        best = max(at_work, key=lambda cell: scores[cell].mean())
        for cell in [worse for worse in at_work if worse != best]:
            differences = scores[best] - scores[cell] - scenario.margin
            error = differences.std(ddof=1) / np.sqrt(seeds_of_look)
            if differences.mean() / error > -special.stdtrit(
                seeds_of_look - 1, error_rate / 2
            ):
                at_work.remove(cell)
                wrong |= scenario.means[best] - scenario.means[cell] <= scenario.margin
    return Outcome(wrong, runs, at_work[0] if len(at_work) == 1 else None)


def interval(count: int, of: int) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of 95 % of a share, in per cent."""
    interval = stats.binomtest(count, of).proportion_ci(0.95)
    return 100 * interval.low, 100 * interval.high


def measured(outcomes: list[Outcome], scenario: Scenario, runs: int) -> dict[str, Any]:
    """Return the shares of one procedure in one scenario, in per cent."""
    of = len(outcomes)
    best = max(scenario.means)
    winners = [outcome.winner for outcome in outcomes if outcome.winner is not None]
    wrong = sum(outcome.wrong for outcome in outcomes)
    wrong_winners = sum(
        best - scenario.means[outcome] > scenario.margin for outcome in winners
    )
    low, high = interval(wrong, of)
    return {
        "wrong": 100 * wrong / of,
        "low": low,
        "high": high,
        "wrong winners": 100 * wrong_winners / of,
        "winners": 100 * len(winners) / of,
        "saved": 100 * (1 - sum(outcome.runs for outcome in outcomes) / (of * runs)),
    }


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--cells", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--first-look", type=int, default=2)
    parser.add_argument("--error-rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    require_variances_of_the_product()
    looks = tuple(range(options.first_look, options.seeds + 1))
    rows = []
    print(
        f"{options.studies} studies each of {options.cells} cells x {options.seeds} seeds x {options.items} "
        f"items, looks after {looks[0]} to {looks[-1]} seeds, error rate {options.error_rate:.0%}; "
        "in brackets: 95 % interval"
    )
    print(
        f"{'':48} {'wrong claims %':>22} {'winners %':>10} {'wrong':>6} {'runs saved %':>13}"
    )
    for scenario in scenarios(options.cells):
        rng = np.random.default_rng(options.seed)
        outcomes: dict[str, list[Outcome]] = {"sentbed": [], "by hand": []}
        for _ in range(options.studies):
            study = simulate(scenario, options.seeds, options.items, rng)
            outcomes["sentbed"].append(
                sequential(study, scenario, looks, options.error_rate)
            )
            outcomes["by hand"].append(
                by_hand(study, scenario, looks, options.error_rate)
            )
        for who, ones in outcomes.items():
            row = measured(ones, scenario, options.cells * options.seeds)
            rows.append({"scenario": scenario.name, "procedure": who, **row})
            share = f"{row['wrong']:.1f} [{row['low']:.1f}, {row['high']:.1f}]"
            title = (
                scenario.name
                if who == "sentbed"
                else f"  {who}: a t-test after each seed"
            )
            print(
                f"{title:48} {share:>22} {row['winners']:>10.1f} {row['wrong winners']:>6.1f} "
                f"{row['saved']:>13.1f}",
                flush=True,
            )
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(
            json.dumps(
                {"options": {**vars(options), "json": None}, "rows": rows}, indent=1
            )
        )


if __name__ == "__main__":
    main()
