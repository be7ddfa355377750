"""Sampler `tpe`: Optuna's tree-structured Parzen estimator over the axes of a study."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import attrs
from attrs.validators import ge
from sentbed.protocols import CellSampler


@attrs.frozen
class TPE(CellSampler):
    """Tree-structured Parzen estimator (Bergstra et al., 2011): labels that are common in good cells.

    Optuna proposes a label of each axis, and the nearest cell that has not been chosen yet is taken. The
    distance is a sum over the axes: 1 for a different label or, on an axis with numbers, the difference between
    the ranks of the numbers, divided by the largest such difference. Ties are broken at random.

    Labels are categories for Optuna. If all labels of an axis have numbers, Optuna gets the ranks of the numbers,
    since learning rates and temperatures are usually spaced by factors.

    Nothing is kept between calls. Each call builds an Optuna study of all scores, seeded by `seed` and the number
    of scores, so that a study that is resumed, or run by several processes, chooses the same cells.
    """

    name: ClassVar[str] = "tpe"

    startup: int = attrs.field(default=10, validator=ge(1))
    """Number of cells that must have scores before Optuna learns from them. Until then, it chooses at random."""
    multivariate: bool = False
    """Whether all axes are modelled together, for axes that depend on each other. By default, each axis is
    modelled alone."""

    def check(self) -> Iterator[str]:
        """Yield a problem if Optuna is not installed."""
        if importlib.util.find_spec("optuna") is None:
            yield (
                "the sampler `tpe` needs the package `optuna`, which is not installed; "
                "run `pip install 'sentbed-studies[optuna]'`"
            )

    def choose(
        self,
        cells: Sequence[Mapping[str, Any]],
        scores: Mapping[int, float | None],
        count: int,
        seed: int,
    ) -> list[int]:
        """Return the indices of `count` cells: for each proposal of Optuna, the nearest cell that is left."""
        import numpy as np
        import optuna
        from optuna.distributions import (
            BaseDistribution,
            CategoricalDistribution,
            IntDistribution,
        )
        from optuna.samplers import TPESampler
        from optuna.trial import TrialState, create_trial

        labels: dict[str, list[Any]] = {}
        space: dict[str, BaseDistribution] = {}
        largest_ranks: dict[str, int] = {}
        for axis, label in cells[0].items():
            of_axis = list(dict.fromkeys(cell[axis] for cell in cells))
            if len(of_axis) == 1:
                # An axis with one label leaves nothing to choose.
                continue
            if isinstance(label, str):
                labels[axis] = of_axis
                space[axis] = CategoricalDistribution(range(len(of_axis)))
            else:
                labels[axis] = sorted(of_axis)
                largest_ranks[axis] = len(of_axis) - 1
                space[axis] = IntDistribution(0, largest_ranks[axis])

        # Coordinates of each cell: axis -> index of its label.
        places = []
        for cell in cells:
            place = {}
            for axis, of_axis in labels.items():
                place[axis] = of_axis.index(cell[axis])
            places.append(place)

        rng = np.random.default_rng([seed, len(scores)])
        # Optuna would log a line for each cell.
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = TPESampler(
            seed=int(rng.integers(2**31)),
            n_startup_trials=self.startup,
            multivariate=self.multivariate,
            # Running trials count as bad ones, so that proposals keep away from cells without a score yet.
            constant_liar=True,
        )
        study = optuna.create_study(direction="maximize", sampler=sampler)

        def add(
            index: int,
            state: TrialState,
            value: float | None = None,
        ) -> None:
            trial = create_trial(
                state=state,
                params=places[index],
                distributions=space,
                value=value,
            )
            study.add_trial(trial)

        for index, score in scores.items():
            if score is not None:
                add(index, TrialState.COMPLETE, score)

        order = rng.permutation(len(cells)).tolist()
        unchosen = [index for index in order if index not in scores]
        chosen: list[int] = []
        for _ in range(count):
            trial = study.ask(space)
            proposal = dict(trial.params)
            # The cell that is run may be another one than the proposal.
            study.tell(trial, state=TrialState.FAIL)
            distances = []
            for index in unchosen:
                distances.append(_distance(places[index], proposal, largest_ranks))
            nearest = unchosen.pop(int(np.argmin(distances)))
            chosen.append(nearest)
            add(nearest, TrialState.RUNNING)
        return chosen


def _distance(
    place: Mapping[str, int],
    proposal: Mapping[str, int],
    largest_ranks: Mapping[str, int],
) -> float:
    """Return the distance of a cell from a proposal. `largest_ranks`: axis with numbers -> its last rank."""
    total = 0.0
    for axis, index in place.items():
        if axis in largest_ranks:
            total += abs(index - proposal[axis]) / largest_ranks[axis]
        elif index != proposal[axis]:
            total += 1
    return total
