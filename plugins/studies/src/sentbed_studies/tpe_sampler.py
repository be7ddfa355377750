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

    Labels are categories; if all labels of an axis have numbers, Optuna gets the ranks of these, as learning
    rates and temperatures are usually spaced by factors. Optuna proposes a label of each axis. If the proposal
    is not a cell of the study, or was chosen before, the nearest cell that was not is chosen. The distance is
    the sum over axes of 1 for a different label or, on an axis with numbers, of the difference of the ranks
    divided by the largest one; ties are broken at random.

    Nothing is kept between calls: each builds an Optuna study of all scores, seeded by `seed` and the number
    of scores, so that a study that is resumed, or run by several processes, chooses the same cells.
    """

    name: ClassVar[str] = "tpe"

    startup: int = attrs.field(default=10, validator=ge(1))
    """Number of cells with a score that are chosen at random before scores are used."""
    multivariate: bool = False
    """Whether all axes are modelled together, for axes that depend on each other; by default each alone."""

    def check(self) -> Iterator[str]:
        """Yield a problem if Optuna is missing."""
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
        """Return the cells nearest to the proposals of Optuna."""
        import numpy as np
        import optuna
        from optuna.distributions import (
            BaseDistribution,
            CategoricalDistribution,
            IntDistribution,
        )
        from optuna.samplers import TPESampler
        from optuna.trial import TrialState, create_trial

        ordered = {
            axis for axis, label in cells[0].items() if not isinstance(label, str)
        }
        labels: dict[str, list[Any]] = {}
        space: dict[str, BaseDistribution] = {}
        for axis in cells[0]:
            of_axis = list(dict.fromkeys(cell[axis] for cell in cells))
            if len(of_axis) == 1:
                # An axis with one label decides nothing.
                continue
            if axis in ordered:
                labels[axis] = sorted(of_axis)
                space[axis] = IntDistribution(0, len(of_axis) - 1)
            else:
                labels[axis] = of_axis
                space[axis] = CategoricalDistribution(range(len(of_axis)))

        places = []
        for labels_of_cell in cells:
            place = {}
            for axis, of_axis in labels.items():
                place[axis] = of_axis.index(labels_of_cell[axis])
            places.append(place)

        rng = np.random.default_rng([seed, len(scores)])
        # Optuna would log a line for each cell.
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = TPESampler(
            seed=int(rng.integers(2**31)),
            n_startup_trials=self.startup,
            multivariate=self.multivariate,
            # Cells without a score yet count as bad ones, so that proposals keep away from them.
            constant_liar=True,
        )
        study = optuna.create_study(direction="maximize", sampler=sampler)

        def add(cell: int, state: TrialState, value: float | None = None) -> None:
            trial = create_trial(
                state=state, params=places[cell], distributions=space, value=value
            )
            study.add_trial(trial)

        for cell, score in scores.items():
            if score is not None:
                add(cell, TrialState.COMPLETE, score)

        free = [
            cell for cell in rng.permutation(len(cells)).tolist() if cell not in scores
        ]
        steps = {axis: len(labels[axis]) - 1 for axis in ordered & labels.keys()}
        chosen: list[int] = []
        for _ in range(count):
            trial = study.ask(space)
            proposal = dict(trial.params)
            study.tell(trial, state=TrialState.FAIL)
            cell = min(free, key=lambda c: _distance(places[c], proposal, steps))
            free.remove(cell)
            chosen.append(cell)
            # Its score is not known yet.
            add(cell, TrialState.RUNNING)
        return chosen


def _distance(
    place: Mapping[str, int], proposal: Mapping[str, int], steps: Mapping[str, int]
) -> float:
    """Return the distance of a cell from a proposal; `steps` has the largest index of each ordered axis."""
    total = 0.0
    for axis, index in place.items():
        if axis in steps:
            total += abs(index - proposal[axis]) / steps[axis]
        elif index != proposal[axis]:
            total += 1
    return total
