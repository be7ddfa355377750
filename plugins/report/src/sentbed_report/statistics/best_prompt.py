"""Selection bias of the best of several prompts, which was chosen by the scores that are reported for it.

The best of k prompts is the best partly by chance: with other items and seeds, another would have been. On
new items and seeds its lead is expected to shrink by the share of the spread between prompts that is due to
chance (regression to the mean; empirical Bayes, Efron and Morris, 1977):

- x(p) is the mean score under prompt p, `spread` the sample variance of x over the prompts;
- `chance` is the part of the spread that is due to items and seeds: the mean over the prompts of the variance
  of x(p) minus the mean over all prompts, times k / (k - 1), over items (`item_components.py`) and over seeds;
- the lead of the best prompt over the mean of all is expected to shrink by the share min(1, chance / spread).

The remaining lead is that of this prompt. Another prompt of the same kind is expected to score the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from sentbed.errors import RunError
from sentbed.statistics import ItemComponents

from sentbed_report.statistics.item_components import (
    ComponentStore,
    PromptScores,
)


@attrs.frozen
class BestPrompt:
    """The best of several prompts for one cell, in the unit of the score."""

    prompt: str
    among: int
    """Number of prompts."""
    score: float
    """Mean score under it, over the seeds."""
    mean: float
    """Mean over all prompts, which is the expected score of another prompt of the same kind."""
    optimism: float | None
    """Part of `lead` that is expected to vanish on new items and seeds, >= 0; None if there are neither items
    nor several seeds."""

    @property
    def lead(self) -> float:
        """Distance of its score from the mean over all prompts."""
        return abs(self.score - self.mean)


def best_prompt(
    scores: Mapping[int, PromptScores], store: ComponentStore, lower: bool
) -> BestPrompt:
    """Return the best prompt of a cell; `scores` are seed -> scores under at least two prompts.

    The items are left out of `chance` if they are not the same under all prompts.
    """
    import numpy as np

    prompts = tuple(next(iter(scores.values())).of_prompts)
    of_seeds = []
    for of_seed in scores.values():
        of_seeds.append([of_seed.of_prompts[prompt].value for prompt in prompts])
    values = np.array(of_seeds).T
    means = values.mean(1)
    best = int(means.argmax())
    if lower:
        best = int(means.argmin())
    result = BestPrompt(
        prompts[best], len(prompts), float(means[best]), float(means.mean()), None
    )

    seeds = values.shape[1]
    chance = 0.0
    if seeds > 1:
        residuals = values - values.mean(0)
        variances = residuals.var(axis=1, ddof=1)
        chance += float(variances.sum()) / seeds / (len(prompts) - 1)
    components = _components(prompts, scores, store)
    if components:
        of_runs = np.array([component.values for component in components])
        of_prompts = of_runs.reshape(len(prompts), seeds, -1).mean(1)
        residuals = of_prompts - of_prompts.mean(0)
        chance += sum(map(components[0].variance, residuals)) / (len(prompts) - 1)
    if not components and seeds < 2:
        return result
    spread = float(means.var(ddof=1))
    share = min(1.0, chance / spread) if spread > 0 else 0.0
    return attrs.evolve(result, optimism=share * result.lead)


def _components(
    prompts: Sequence[str], scores: Mapping[int, PromptScores], store: ComponentStore
) -> list[ItemComponents]:
    """Return the item components of each prompt's score under each seed; empty if items are not the same."""
    scores_of_runs = []
    for prompt in prompts:
        for of_seed in scores.values():
            scores_of_runs.append(of_seed.of_prompts[prompt])
    try:
        return store.of_all(scores_of_runs)
    except RunError:
        return []
