"""Selection bias of the best of several prompts, if it was chosen by the scores that are reported for it.

The best of k prompts is the best partly by chance: with other items and seeds, another prompt might be the
best. On new items and seeds, the lead of the best prompt over the mean of all prompts is expected to shrink
(regression to the mean; empirical Bayes, Efron and Morris, 1977):

- x(p) is the mean score under prompt p, `spread` the sample variance of x over the prompts;
- `chance` is the part of the spread that is due to items and seeds. For each prompt p, let y(p) be x(p) minus
  the mean over all prompts. The variance of y(p) over items (`item_components.py`) and its variance over seeds
  are added. `chance` is the mean of this sum over the prompts, times k / (k - 1);
- the lead is expected to shrink by the share min(1, chance / spread).

On new items and seeds, the best prompt is expected to keep what remains of its lead. Another prompt of the same
kind is expected to score the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from sentbed.errors import RunError

from sentbed_report.statistics.item_components import (
    ComponentStore,
    PromptScores,
)
from sentbed_report.statistics.sampling_error import ItemComponents


@attrs.frozen
class BestPrompt:
    """The best of several prompts for one cell, in the unit of the score."""

    prompt: str
    among: int
    """Number of prompts that were compared."""
    score: float
    """Mean score under the best prompt, over the seeds."""
    mean: float
    """Mean score over all prompts, which is the expected score of another prompt of the same kind."""
    optimism: float | None
    """Part of `lead`, >= 0, that is expected to vanish on new items and seeds. None if it cannot be estimated:
    there is a single seed, and the scores have no items in common."""

    @property
    def lead(self) -> float:
        """Absolute difference between `score` and `mean`."""
        return abs(self.score - self.mean)


def best_prompt(
    scores: Mapping[int, PromptScores],
    store: ComponentStore,
    lower: bool,
) -> BestPrompt:
    """Return the best prompt of a cell; `lower` says whether lower scores are better.

    `scores` maps each seed to its scores under two or more prompts. If the scores under the prompts are not on
    the same items, the module's `chance` is computed from the seeds alone.
    """
    import numpy as np

    prompts = tuple(next(iter(scores.values())).of_prompts)
    of_seeds = []
    for of_seed in scores.values():
        of_seeds.append([of_seed.of_prompts[prompt].value for prompt in prompts])
    values = np.array(of_seeds).T  # (prompts, seeds)
    means = values.mean(axis=1)
    best = int(means.argmax())
    if lower:
        best = int(means.argmin())
    result = BestPrompt(
        prompts[best], len(prompts), float(means[best]), float(means.mean()), None
    )

    seeds = values.shape[1]
    components = _components(prompts, scores, store)
    if not components and seeds < 2:
        return result

    chance = 0.0
    if seeds > 1:
        residuals = values - values.mean(axis=0)
        variances = residuals.var(axis=1, ddof=1)
        chance += float(variances.sum()) / seeds / (len(prompts) - 1)
    if components:
        of_runs = np.array([component.values for component in components])
        of_prompts = of_runs.reshape(len(prompts), seeds, -1).mean(axis=1)
        residuals = of_prompts - of_prompts.mean(axis=0)
        chance += sum(map(components[0].variance, residuals)) / (len(prompts) - 1)

    spread = float(means.var(ddof=1))
    share = 0.0
    if spread > 0:
        share = min(1.0, chance / spread)
    return attrs.evolve(result, optimism=share * result.lead)


def _components(
    prompts: Sequence[str],
    scores: Mapping[int, PromptScores],
    store: ComponentStore,
) -> list[ItemComponents]:
    """Return the item components under each prompt and seed; empty if the scores are not on the same items."""
    scores_of_runs = []
    for prompt in prompts:
        for of_seed in scores.values():
            scores_of_runs.append(of_seed.of_prompts[prompt])
    try:
        return store.of_all(scores_of_runs)
    except RunError:
        return []
