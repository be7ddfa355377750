"""Simulated studies with prompts: how often the test is wrong, and what other analyses make of the same data.

    python benchmarks/prompt_statistics.py [table|random|power|best] [--studies 1000] [--seed 0]

The score of a cell under prompt p and seed s is the mean over n items of

    item x cell + prompt x cell + seed x cell + prompt x seed x cell + prompt x item x cell + rest,

all of them normal and of a cell of its own: what a prompt, a seed or an item does to all cells alike cancels
in the difference. `sampled` is the test of studies with `prompts`; `averaged` the same scores with
`prompt_factor = "fixed"`, which is what a study has that averages its prompts; `as seeds` takes each prompt
under each seed for a seed of its own. Printed is the share of studies in per cent in which two equal cells
are told apart at a level of 5 %, or, for `power`, in which a difference is found.
The standard error of a share p of N studies is the root of p (1 - p) / N.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping

import attrs
import numpy as np
from sentbed.protocols import Items, Score
from sentbed_report.statistics.item_components import ComponentStore, PromptScores
from sentbed_report.statistics.power import Spread, power_of
from sentbed_report.statistics.significance import Judged, judge_cell

Generator = np.random.Generator


@attrs.frozen
class Setting:
    """A study of two cells. Standard deviations are those of the difference of two cells."""

    prompts: int = 4
    seeds: int = 3
    items: int = 200
    item_std: float = 1.0
    """Of one item."""
    prompt_std: float = 0.0
    seed_std: float = 0.1
    prompt_seed_std: float = 0.0
    prompt_item_std: float = 0.0
    """Of one item under one prompt."""
    rest_std: float = 0.5
    """Of one item under one prompt and seed."""
    difference: float = 0.0
    """True difference of the cells."""


def differences(setting: Setting, rng: Generator) -> np.ndarray:
    """Return the differences `(prompts, seeds, items)` of a simulated study."""
    prompts, seeds, items = setting.prompts, setting.seeds, setting.items
    values = setting.difference + setting.item_std * rng.standard_normal((1, 1, items))
    values = values + setting.prompt_std * rng.standard_normal((prompts, 1, 1))
    values = values + setting.seed_std * rng.standard_normal((1, seeds, 1))
    values = values + setting.prompt_seed_std * rng.standard_normal((prompts, seeds, 1))
    values = values + setting.prompt_item_std * rng.standard_normal((prompts, 1, items))
    return values + setting.rest_std * rng.standard_normal((prompts, seeds, items))


def score_of(values: np.ndarray) -> Score:
    """Return a score that is the mean of `values`, one per item."""
    protocol = {"encoder": {}, "evaluator": {"id": "p"}}
    items = Items("mean", values, scale=1.0)
    return Score("T", "accuracy", float(values.mean()), protocol, "en", "e", items)


def scores_of(values: np.ndarray, are_sample: bool) -> dict[int, PromptScores]:
    """Return the scores of a cell from `(prompts, seeds, items)`."""
    column = {}
    for seed in range(values.shape[1]):
        of_prompts = {
            str(prompt): score_of(of[seed]) for prompt, of in enumerate(values)
        }
        column[seed] = PromptScores(of_prompts, are_sample)
    return column


def judged_by(values: np.ndarray) -> Mapping[str, Judged]:
    """Return the result of each analysis for differences `(prompts, seeds, items)`."""
    store = ComponentStore()
    zeros = np.zeros_like(values)
    results = {}
    for name, are_sample in (("sampled", True), ("averaged", False)):
        results[name] = judge_cell(
            scores_of(zeros, are_sample), scores_of(values, are_sample), store
        )
    runs = values.reshape(-1, values.shape[2])
    before = {number: score_of(np.zeros_like(of)) for number, of in enumerate(runs)}
    after = {number: score_of(of) for number, of in enumerate(runs)}
    results["as seeds"] = judge_cell(before, after, store)
    return results


def shares(setting: Setting, studies: int, rng: Generator) -> dict[str, float]:
    """Return the share of studies in which each analysis finds a difference, in per cent.

    `coverage` is that in which the interval of the test with sampled prompts has the true difference.
    """
    counts = dict.fromkeys(("sampled", "averaged", "as seeds", "coverage"), 0)
    for _ in range(studies):
        results = judged_by(differences(setting, rng))
        for name, judged in results.items():
            counts[name] += judged.p_value is not None and judged.p_value < 0.05
        low, high = results["sampled"].interval or (math.nan, math.nan)
        counts["coverage"] += low <= setting.difference <= high
    return {name: 100 * count / studies for name, count in counts.items()}


TABLE = {
    "prompt x cell 0": Setting(),
    "prompt x cell 0.3": Setting(prompt_std=0.03),
    "prompt x cell 1": Setting(prompt_std=0.1),
    "prompt x cell 3": Setting(prompt_std=0.3),
    "only prompts vary": Setting(
        item_std=0.01, prompt_std=1.0, seed_std=0.0, rest_std=0.0, prompt_item_std=0.01
    ),
    "only seeds vary": Setting(
        item_std=0.01, seed_std=1.0, rest_std=0.0, prompt_item_std=0.01
    ),
    "only items vary": Setting(seed_std=0.0, rest_std=0.0),
    "only prompt x seed varies": Setting(
        item_std=0.01, seed_std=0.0, prompt_seed_std=1.0, rest_std=0.0
    ),
    "only prompt x item varies": Setting(
        item_std=0.0, seed_std=0.0, prompt_item_std=1.0, rest_std=0.01
    ),
    "only prompt x seed x item varies": Setting(
        item_std=0.0, seed_std=0.0, rest_std=1.0
    ),
}
"""Studies of equal cells; prompt x cell is in standard deviations of seed x cell."""


def random_setting(rng: Generator) -> Setting:
    """Return a study of 3 to 8 prompts, 3 to 10 seeds and 40 to 2,000 items; half have no prompt x cell."""
    items = round(math.exp(rng.uniform(math.log(40), math.log(2000))))
    error = 1 / math.sqrt(items)
    has_interaction = rng.random() < 0.5
    stds = (
        error
        * np.exp(rng.uniform(math.log(0.1), math.log(10), 3))
        * (rng.random(3) < 0.8)
    )
    return Setting(
        prompts=int(rng.integers(3, 9)),
        seeds=int(rng.integers(3, 11)),
        items=items,
        prompt_std=float(stds[0]) if has_interaction else 0.0,
        seed_std=float(stds[1]),
        prompt_seed_std=float(stds[2]) if has_interaction else 0.0,
        prompt_item_std=float(rng.uniform(0, 2)) if has_interaction else 0.0,
        rest_std=float(rng.uniform(0, 2)),
    )


POWER = {
    "P=4, S=3, n=200": Setting(prompt_std=0.3, difference=0.8),
    "P=8, S=3, n=200": Setting(prompts=8, prompt_std=0.3, difference=0.4),
    "P=3, S=5, n=1000": Setting(
        prompts=3, seeds=5, items=1000, prompt_std=0.1, difference=0.3
    ),
    "P=4, S=10, n=40": Setting(seeds=10, items=40, prompt_std=0.2, difference=0.7),
}


def predicted(setting: Setting) -> float:
    """Return the power that the formula gives, in per cent.

    The variances are those of the means that are tested, with what the interactions add to them.
    """
    prompts, seeds, items = setting.prompts, setting.seeds, setting.items
    rest = setting.rest_std**2 / (prompts * seeds * items)
    prompt_item = setting.prompt_item_std**2 / (prompts * items)
    prompt_seed = setting.prompt_seed_std**2 / (prompts * seeds)
    of_items = setting.item_std**2 / items + prompt_item + rest
    of_prompts = setting.prompt_std**2 / prompts + prompt_item + prompt_seed + rest
    of_seeds = setting.seed_std**2 / seeds + prompt_seed + rest
    spread = Spread(
        math.sqrt(of_seeds * seeds),
        math.sqrt(of_items),
        items - 1,
        math.sqrt(of_prompts * prompts),
        prompts,
    )
    return 100 * power_of(spread, setting.difference, seeds)


def best_prompt_is_claimed(setting: Setting, rng: Generator) -> tuple[bool, bool]:
    """Return whether a cell equal to the baseline is claimed better by its best prompt, and by all prompts.

    By its best prompt: that with the largest difference from the baseline is compared alone, over items and
    seeds, as a study does in which the prompt was chosen by its scores.
    """
    values = differences(setting, rng)
    best = int(values.mean((1, 2)).argmax())
    alone = values[best : best + 1]
    zeros = np.zeros_like(alone)
    of_best = judge_cell(
        scores_of(zeros, False), scores_of(alone, False), ComponentStore()
    )
    of_all = judged_by(values)["sampled"]
    return _is_better(of_best), _is_better(of_all)


def _is_better(judged: Judged) -> bool:
    return (
        judged.p_value is not None
        and judged.p_value < 0.05
        and (judged.difference or 0) > 0
    )


def main() -> None:
    """Run the parts that are named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["table", "random", "power", "best"])
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)

    if "table" in arguments.what:
        for name, setting in TABLE.items():
            print(f"{name}: {shares(setting, arguments.studies, rng)}", flush=True)
    if "random" in arguments.what:
        results = [
            shares(random_setting(rng), 4, rng) for _ in range(arguments.studies)
        ]
        for name in results[0]:
            mean = sum(result[name] for result in results) / len(results)
            print(
                f"{len(results)} random settings, 4 studies each: {name} {mean:.2f}",
                flush=True,
            )
    if "power" in arguments.what:
        for name, setting in POWER.items():
            share = shares(setting, arguments.studies, rng)
            print(
                f"power, {name}: {share}, predicted {predicted(setting):.1f}",
                flush=True,
            )
    if "best" in arguments.what:
        setting = Setting(prompts=8, prompt_std=0.3)
        claims = [
            best_prompt_is_claimed(setting, rng) for _ in range(arguments.studies)
        ]
        by_best = 100 * sum(best for best, _ in claims) / len(claims)
        by_all = 100 * sum(every for _, every in claims) / len(claims)
        print(
            f"claimed better, equal cells, 8 prompts: by the best {by_best:.1f}, by all {by_all:.1f}"
        )


if __name__ == "__main__":
    main()
