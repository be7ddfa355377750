"""How much the best of several prompts owes to having been chosen by the scores that it is reported with.

Of k prompts the one with the highest score is the best partly by chance: other items and seeds would have
favoured another. What is expected to remain of its lead on new items and seeds follows from how much of the
spread between the prompts is chance (regression to the mean; empirical Bayes, Efron and Morris, 1977):

- x(p) is the mean score under prompt p, `spread` the sample variance of x over the prompts;
- `chance` is what items and seeds give to it: the mean over the prompts of the variance of x(p) less the mean
  x over the prompts, times k / (k - 1), over items (`item_components.py`) and over seeds;
- of the lead of the best prompt over the mean of all, the share min(1, chance / spread) is expected to be
  gone.

What remains is the lead of this one prompt. Another prompt of the same kind is expected at the mean.
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
    """Mean over all prompts: what another prompt of the kind is expected to give."""
    optimism: float | None
    """Part of `lead` that is expected to be gone on new items and seeds, >= 0; None where there are neither
    items nor several seeds to tell."""

    @property
    def lead(self) -> float:
        """How far its score is from the mean of all."""
        return abs(self.score - self.mean)


def best_prompt(
    scores: Mapping[int, PromptScores], store: ComponentStore, lower: bool
) -> BestPrompt:
    """Return the best prompt of a cell; `scores` are seed -> scores under each of two prompts or more.

    Where the items are not the same under all of them, their part is not known and left out.
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
        chance += (
            float(residuals.var(axis=1, ddof=1).sum()) / seeds / (len(prompts) - 1)
        )
    components = _components(prompts, scores, store)
    if components:
        parts = (
            np.array([each.values for each in components])
            .reshape(len(prompts), seeds, -1)
            .mean(1)
        )
        of_items = [components[0].variance(part) for part in parts - parts.mean(0)]
        chance += sum(of_items) / (len(prompts) - 1)
    if not components and seeds < 2:
        return result
    spread = float(means.var(ddof=1))
    share = min(1.0, chance / spread) if spread > 0 else 0.0
    return attrs.evolve(result, optimism=share * result.lead)


def _components(
    prompts: Sequence[str], scores: Mapping[int, PromptScores], store: ComponentStore
) -> list[ItemComponents]:
    """Return the components of each prompt's score under each seed; empty where they cannot be compared."""
    of_runs = []
    for prompt in prompts:
        of_runs += [of_seed.of_prompts[prompt] for of_seed in scores.values()]
    try:
        return store.of_all(of_runs)
    except RunError:
        return []
