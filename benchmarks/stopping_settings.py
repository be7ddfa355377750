"""Simulated studies under `[study.stop]` in settings by which nothing of the test was chosen.

    python benchmarks/stopping_settings.py [SETTING ...] [--studies 2000] [--seed 0] [--json FILE]

The prior degrees of freedom of a variance over seeds and the shares of the error rate among the looks were
chosen by the settings of `sequential_studies.py` and `study_statistics.py`. A figure by which something was
chosen is too good. The settings here were written down before any of them had been simulated, and none may
be used to choose anything: whoever changes the test by one of them has to think of others.

Scores are those of `sequential_studies.py`: means over items of parts for items, seeds, cells and what they
have in common. Each study is decided three times, on the same scores:

- `best`: every cell against every other, all claims are promised;
- `baseline`: against the first cell, all claims are promised;
- `stays`: every cell against every other, where only the best cell is promised to stay
  (`promise = "best"`): wrong is a study that stops the first of the best cells.

Most studies of equal cells claim nothing. Which may claim something is found for many studies at a time, with
critical values that are too small by a twentieth; these, and the first ones of each setting, are decided by
the test itself, and it is checked that those of the first ones that were left out claim nothing.

Printed are the studies with a wrong claim in per cent, of which 5 are promised, with the 95 % interval of
Clopper and Pearson; those in which only the best cell was left, where there is one; and the runs saved.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, TypeAlias

import attrs
import numpy as np
from scipy import special
from sentbed_report.study.decisions import Promise
from sentbed_studies.sequential_test import PRIOR_DEGREES, SequentialTest
from sentbed_studies.spending import shares
from sequential_studies import (
    ITEM,
    ITEM_CELL,
    REST,
    SEED,
    SEED_CELL,
    VariancesOverItems,
    covariances_over_seeds,
    interval,
    known_variances,
    of_differences,
    require_variances_of_the_product,
)
from study_statistics import options_of

Generator: TypeAlias = np.random.Generator
Mode: TypeAlias = Literal["best", "baseline", "stays"]
SeedPlan: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Seeds in their order, and numbers of seeds at looks."""

ERROR_RATE = 0.05
HARDLY = 0.1
"""Factor of items that hardly vary, so that seeds decide."""
ROUNDS = 5
"""Sets of seeds of a study whose seeds are exchanged."""
NEARLY = 0.95
"""Part of a critical value below which nothing is claimed."""
CHECKED = 20
"""Studies of each setting that are decided by the test itself in any case."""
NUMBERS = 3_000_000
"""Numbers that are drawn together."""


@attrs.frozen
class Setting:
    """What is true of a study and of its cells."""

    cells: int
    seeds: int
    items: int
    first_look: int = 2
    means: tuple[float, ...] = ()
    """One a cell, in points; by default all are equal."""
    margin: float = 0.0
    seed_factors: tuple[float, ...] = ()
    """Factors of the standard deviation of seed x cell, one per cell; by default 1."""
    item_factor: float = HARDLY
    """Factor of the standard deviations of item x cell and item x seed x cell."""
    rest_factor: float = 1.0
    """Further factor of the standard deviation of item x seed x cell."""
    draw: Literal["normal", "t3", "exponential"] = "normal"
    """Distribution of seed x cell; its variance is 1, whichever it is."""
    groups: tuple[int, ...] = ()
    """Number of each cell's group; seed x cell of cells in one group is correlated by 0.9."""
    history: Literal["planned", "one by one", "exchanged"] = "planned"
    """How seeds come to the study: as planned, each after a decision, or in whole sets, one after another."""

    @property
    def true_means(self) -> np.ndarray:
        """True mean of each cell."""
        return np.array(self.means or (0.0,) * self.cells)

    @property
    def plans(self) -> tuple[SeedPlan, ...]:
        """Seeds and looks by which the study decides, one plan after the other."""
        if self.history == "exchanged":
            looks = tuple(range(self.first_look, self.seeds + 1))
            sets = [
                tuple(range(self.seeds * r, self.seeds * (r + 1)))
                for r in range(ROUNDS)
            ]
            return tuple((seeds, looks) for seeds in sets)
        begin = self.first_look if self.history == "one by one" else self.seeds
        return tuple(
            (tuple(range(last)), tuple(range(self.first_look, last + 1)))
            for last in range(begin, self.seeds + 1)
        )


def one_of(cells: int, factor: float) -> tuple[float, ...]:
    """Return factors of which the first is another one."""
    return (factor,) + (1.0,) * (cells - 1)


def a_third(cells: int, factor: float) -> tuple[float, ...]:
    """Return factors of which a third, rounded up, are others; the first cell is one of these."""
    return tuple(factor if cell % 3 == 0 else 1.0 for cell in range(cells))


def better(cells: int, points: float) -> tuple[float, ...]:
    """Return means of which the first is better."""
    return (points,) + (0.0,) * (cells - 1)


def steps(cells: int, apart: float) -> tuple[float, ...]:
    """Return ascending means."""
    return tuple(apart * cell for cell in range(cells))


SETTINGS: Mapping[str, Setting] = {
    "equal, K=5, S=4, n=100, items vary": Setting(5, 4, 100, item_factor=1.0),
    "equal, K=15, S=6, n=1000, items vary": Setting(15, 6, 1000, item_factor=1.0),
    "equal, K=25, S=6, n=100": Setting(25, 6, 100),
    "equal, K=15, S=6, n=100, rest 3 x": Setting(
        15, 6, 100, item_factor=1.0, rest_factor=3.0
    ),
    "one 2 x, K=5, S=4, n=1000": Setting(5, 4, 1000, seed_factors=one_of(5, 2.0)),
    "one 4 x, K=15, S=6, n=100": Setting(15, 6, 100, seed_factors=one_of(15, 4.0)),
    "one 6 x, K=25, S=4, n=1000": Setting(25, 4, 1000, seed_factors=one_of(25, 6.0)),
    "one 6 x, K=5, S=12, n=100": Setting(5, 12, 100, seed_factors=one_of(5, 6.0)),
    "one 4 x, K=5, S=6, n=1000, first look 3": Setting(
        5, 6, 1000, first_look=3, seed_factors=one_of(5, 4.0)
    ),
    "a third 3 x, K=15, S=6, n=100": Setting(15, 6, 100, seed_factors=a_third(15, 3.0)),
    "a third 3 x, K=25, S=4, n=1000": Setting(
        25, 4, 1000, seed_factors=a_third(25, 3.0)
    ),
    "a third 3 x, K=5, S=12, n=100": Setting(5, 12, 100, seed_factors=a_third(5, 3.0)),
    "spread grows with the mean, K=15, S=6, n=100": Setting(
        15, 6, 100, means=steps(15, 0.02), seed_factors=tuple(np.linspace(1, 4, 15))
    ),
    "spread falls with the mean, K=5, S=6, n=1000": Setting(
        5, 6, 1000, means=steps(5, 0.02), seed_factors=tuple(np.linspace(4, 1, 5))
    ),
    "t with 3 degrees, K=5, S=4, n=1000": Setting(5, 4, 1000, draw="t3"),
    "t with 3 degrees, K=15, S=12, n=100": Setting(15, 12, 100, draw="t3"),
    "t with 3 degrees, one 4 x, K=15, S=6, n=100": Setting(
        15, 6, 100, draw="t3", seed_factors=one_of(15, 4.0)
    ),
    "exponential, K=15, S=6, n=100": Setting(15, 6, 100, draw="exponential"),
    "groups of 5 correlated, K=15, S=6, n=100": Setting(
        15, 6, 100, groups=tuple(cell // 5 for cell in range(15))
    ),
    "all but one correlated, K=25, S=4, n=1000": Setting(
        25, 4, 1000, groups=(0,) + (1,) * 24
    ),
    "seeds one by one, one 4 x, K=5, S=12, n=100": Setting(
        5, 12, 100, seed_factors=one_of(5, 4.0), history="one by one"
    ),
    "seeds one by one, a third 3 x, K=15, S=6, n=100": Setting(
        15, 6, 100, seed_factors=a_third(15, 3.0), history="one by one"
    ),
    "seeds exchanged, one 4 x, K=5, S=6, n=100": Setting(
        5, 6, 100, seed_factors=one_of(5, 4.0), history="exchanged"
    ),
    "seeds exchanged, equal, K=15, S=4, n=100": Setting(
        15, 4, 100, history="exchanged"
    ),
    "margin 0.3, cells 0.02 apart, one 4 x, K=15, S=6, n=100": Setting(
        15, 6, 100, means=steps(15, 0.02), margin=0.3, seed_factors=one_of(15, 4.0)
    ),
    "at the margin: better by 0.5, margin 0.5, K=5, S=12, n=1000": Setting(
        5, 12, 1000, means=better(5, 0.5), margin=0.5, item_factor=1.0
    ),
    "winner: better by 2, K=15, S=6, n=1000, items vary": Setting(
        15, 6, 1000, means=better(15, 2.0), item_factor=1.0
    ),
    "winner: better by 1.5, one other 4 x, K=5, S=6, n=1000": Setting(
        5, 6, 1000, means=better(5, 1.5), seed_factors=(1.0, 4.0, 1.0, 1.0, 1.0)
    ),
    "winner: better by 2, K=25, S=4, n=100": Setting(25, 4, 100, means=better(25, 2.0)),
}


def draw_studies(setting: Setting, studies: int, rng: Generator) -> np.ndarray:
    """Return the scores of the items, `(studies, cells, seeds, items)`."""
    cells, items = setting.cells, setting.items
    seeds = 1 + max(max(of_plan) for of_plan, _ in setting.plans)
    seed_cell = _standard(setting, (studies, cells, seeds), rng)
    if setting.groups:
        of_groups = _standard(setting, (studies, max(setting.groups) + 1, seeds), rng)
        of_group = of_groups[:, [*setting.groups]]
        seed_cell = np.sqrt(0.9) * of_group + np.sqrt(0.1) * seed_cell
    factors = np.array(setting.seed_factors or (1.0,) * cells)
    per_run = (
        SEED * rng.standard_normal((studies, 1, seeds))
        + SEED_CELL * factors[:, None] * seed_cell
    )
    per_item = ITEM * rng.standard_normal((studies, 1, items))
    per_item = per_item + setting.item_factor * ITEM_CELL * rng.standard_normal(
        (studies, cells, items)
    )
    values: np.ndarray = rng.standard_normal((studies, cells, seeds, items))
    values *= setting.rest_factor * setting.item_factor * REST
    values += (setting.true_means[:, None] + per_run)[..., None]
    values += per_item[:, :, None, :]
    return values


def _standard(setting: Setting, shape: tuple[int, ...], rng: Generator) -> np.ndarray:
    """Draw from the setting's distribution, with mean 0 and variance 1."""
    values: np.ndarray = rng.standard_normal(shape)
    if setting.draw == "t3":
        values = rng.standard_t(3, shape) / np.sqrt(3)
    if setting.draw == "exponential":
        values = rng.standard_exponential(shape) - 1
    return values


@attrs.frozen
class Outcome:
    """The decisions of one study."""

    wrong: bool
    only_best_left: bool
    """Whether only the best cell was left."""
    runs: int
    """Runs of the last plan."""
    claims: int


@attrs.frozen(eq=False)
class Drawn:
    """Studies that were drawn together."""

    setting: Setting
    scores: np.ndarray
    """`(studies, cells, seeds)`."""
    items: int
    variances: Mapping[tuple[int, ...], np.ndarray]
    """Seeds of a look -> variances of all pairs over the items, `(studies, cells, cells)`."""

    @classmethod
    def of(cls, setting: Setting, studies: int, rng: Generator) -> Drawn:
        """Draw studies."""
        of_items = VariancesOverItems.of(draw_studies(setting, studies, rng))
        looks = {
            seeds[:seeds_of_look]
            for seeds, looks in setting.plans
            for seeds_of_look in looks
        }
        variances = {seeds: of_items.after(seeds) for seeds in looks}
        return cls(setting, of_items.scores, of_items.items, variances)


def decided_plans(setting: Setting) -> list[tuple[SeedPlan, Mapping[int, float]]]:
    """Return the plans by which a study is decided, with the shares of the error rate at their looks."""
    plans = setting.plans
    plans_and_shares = [
        (plan, shares(plan, plans[:number])) for number, plan in enumerate(plans)
    ]
    # Where seeds are added, the last plan makes the looks of the earlier ones again, at the same levels.
    return (
        plans_and_shares[-1:] if setting.history == "one by one" else plans_and_shares
    )


def make_test(
    setting: Setting, mode: Mode, plan: SeedPlan, of_looks: Mapping[int, float]
) -> SequentialTest:
    """Return the test of `[study.stop]` by one plan."""
    names = tuple(map(str, range(setting.cells)))
    promise: Promise = "best" if mode == "stays" else "all"
    baseline = names[0] if mode == "baseline" else None
    return SequentialTest(
        names,
        plan[1],
        ERROR_RATE,
        setting.margin,
        baseline,
        promise=promise,
        shares=of_looks,
    )


def may_claim(drawn: Drawn, mode: Mode) -> np.ndarray:
    """Return which studies may make a claim: those that would by critical values that are a little smaller.

    It is `SequentialTest.look` for many studies, as long as all cells are at work.
    """
    setting = drawn.setting
    cells = setting.cells
    tested = ~np.eye(cells, dtype=bool)
    if mode == "baseline":
        tested[1:] = False
    may = np.zeros(len(drawn.scores), dtype=bool)
    for plan, of_looks in decided_plans(setting):
        test = make_test(setting, mode, plan, of_looks)
        prior = np.zeros(len(may))
        prior_degrees = np.zeros(len(may))
        for seeds_of_look in plan[1]:
            seeds = plan[0][:seeds_of_look]
            scores = drawn.scores[..., [*seeds]]
            variances = of_differences(covariances_over_seeds(scores))
            residuals = (
                scores - scores.mean(-1, keepdims=True) - scores.mean(-2, keepdims=True)
            )
            squares = ((residuals + scores.mean((-2, -1), keepdims=True)) ** 2).sum(-1)
            known_from = (
                (cells - 1) / cells * squares.sum(-1) ** 2 / (squares**2).sum(-1)
            )
            degrees = (seeds_of_look - 1) * np.maximum(1.0, known_from)
            newer = degrees >= prior_degrees
            prior = np.where(newer, variances[:, tested].mean(-1), prior)
            prior_degrees = np.where(newer, degrees, prior_degrees)
            of_pair = PRIOR_DEGREES + seeds_of_look - 1
            moderated = (
                PRIOR_DEGREES * prior[:, None, None] + (seeds_of_look - 1) * variances
            ) / of_pair
            level = test.level(seeds_of_look)
            over_seeds = special.stdtrit(np.minimum(of_pair, prior_degrees), level)[
                :, None, None
            ]
            over_items = special.stdtrit(drawn.items - 1.0, level)
            reach = np.sqrt(
                moderated / seeds_of_look * over_seeds**2
                + drawn.variances[seeds] * over_items**2
            )
            means = scores.mean(-1)
            differences = means[:, :, None] - means[:, None, :] - setting.margin
            may |= ((differences > NEARLY * reach) & tested).any((-2, -1))
    return may


def decide(drawn: Drawn, study: int, mode: Mode) -> Outcome:
    """Run the test of `[study.stop]` by each plan of a study."""
    setting = drawn.setting
    means = setting.true_means
    best = str(int(np.argmax(means)))
    wrong = False
    claims = 0
    at_work: tuple[str, ...] = ()
    runs = 0
    for plan, of_looks in decided_plans(setting):
        test = make_test(setting, mode, plan, of_looks)
        runs = done = 0
        for seeds_of_look in plan[1]:
            at_work = test.at_work
            if len(at_work) < 2:
                break
            runs += len(at_work) * (seeds_of_look - done)
            done = seeds_of_look
            seeds = plan[0][:seeds_of_look]
            scores = drawn.scores[study][:, [*seeds]]
            values = {name: scores[int(name)].tolist() for name in at_work}
            test.look(
                values,
                partial(
                    known_variances, drawn.variances[seeds][study], drawn.items - 1.0
                ),
            )
        at_work = test.at_work
        claims += len(test.claims)
        for claim in test.claims:
            if mode == "stays":
                wrong |= claim.cell == best
            else:
                wrong |= bool(
                    means[int(claim.than)] - means[int(claim.cell)]
                    <= setting.margin + 1e-9
                )
    return Outcome(wrong, at_work == (best,), runs, claims)


def outcomes_of(drawn: Drawn, mode: Mode, checked: int) -> list[Outcome]:
    """Decide studies, the first `checked` ones even if they cannot claim anything, which is checked."""
    setting = drawn.setting
    nothing = Outcome(False, False, setting.cells * len(setting.plans[-1][0]), 0)
    outcomes = []
    for study, may in enumerate(may_claim(drawn, mode)):
        outcome = nothing
        if may or study < checked:
            outcome = decide(drawn, study, mode)
        if not may and outcome != nothing:
            raise AssertionError(
                f"a study that was to claim nothing has decided {outcome}"
            )
        outcomes.append(outcome)
    return outcomes


def main() -> None:
    """Simulate and print."""
    options = options_of(__doc__)
    require_variances_of_the_product()
    rows = []
    print(
        f"{'setting':60} {'mode':9} {'wrong claims %':>20} {'winner %':>9} {'saved %':>8} {'seconds':>8}"
    )
    for name, setting in SETTINGS.items():
        if options.settings and not name.startswith(tuple(options.settings)):
            continue
        rng = np.random.default_rng(options.seed)
        start = time.process_time()
        outcomes: dict[Mode, list[Outcome]] = {"best": [], "baseline": [], "stays": []}
        runs = setting.cells * (1 + max(max(seeds) for seeds, _ in setting.plans))
        at_a_time = max(1, NUMBERS // (runs * max(setting.items, runs)))
        for begin in range(0, options.studies, at_a_time):
            drawn = Drawn.of(setting, min(at_a_time, options.studies - begin), rng)
            checked = CHECKED if begin == 0 else 0
            for mode, of_mode in outcomes.items():
                of_mode.extend(outcomes_of(drawn, mode, checked))
        seconds = time.process_time() - start
        for mode, of_mode in outcomes.items():
            row = {"setting": name, "mode": mode, **measured(setting, of_mode)}
            rows.append(row)
            share = f"{row['wrong']:.1f} [{row['low']:.1f}, {row['high']:.1f}]"
            winner = "" if row["winner"] is None else f"{row['winner']:.1f}"
            saved = "" if row["saved"] is None else f"{row['saved']:.1f}"
            print(
                f"{name:60} {mode:9} {share:>20} {winner:>9} {saved:>8} {seconds:8.0f}",
                flush=True,
            )
        if options.json is not None:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(rows, indent=1))


def measured(setting: Setting, outcomes: list[Outcome]) -> dict[str, Any]:
    """Return the shares of one mode in one setting, in per cent."""
    of = len(outcomes)
    wrong = sum(outcome.wrong for outcome in outcomes)
    low, high = interval(wrong, of)
    has_winner = np.count_nonzero(setting.true_means == setting.true_means.max()) == 1
    winner = (
        100 * sum(outcome.only_best_left for outcome in outcomes) / of
        if has_winner
        else None
    )
    saved = None
    if setting.history != "exchanged":
        saved = 100 * (
            1
            - sum(outcome.runs for outcome in outcomes)
            / (of * setting.cells * setting.seeds)
        )
    return {
        "studies": of,
        "wrong": 100 * wrong / of,
        "low": low,
        "high": high,
        "winner": winner,
        "saved": saved,
    }


if __name__ == "__main__":
    main()
