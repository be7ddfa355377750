"""Rules of an engine: most of them compare it with a reference engine. They run with or without pytest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import cycle
from typing import Any, cast

import attrs
from sentbed.errors import SentbedError, suggest
from sentbed.protocols import Head, Runtime
from sentbed.tools import Plugins, load_plugins, runtime_misfits

from sentbed_testing.engine_cases import (
    OPTIMIZERS,
    PAIRS,
    Case,
    Table,
    cases,
    cover,
    part,
)
from sentbed_testing.engine_encoding import check_encode, check_saved
from sentbed_testing.engine_gradients import (
    check_derivative,
    check_frozen_columns,
    check_grad_cache,
    check_loss_and_gradients,
    check_towers,
    check_uneven_batch,
)
from sentbed_testing.engine_invariants import (
    check_counters_and_describe,
    check_dropout_advances,
    check_not_finite,
    check_state,
)
from sentbed_testing.engine_pair import EnginePair
from sentbed_testing.engine_steps import (
    check_clipping,
    check_momentum_and_queue,
    check_moving_average,
    check_steps,
)
from sentbed_testing.engine_transforms import HEAD_WITH_TRANSFORM, check_transform

DROPOUT = 0.1
HEAD_WITHOUT_TRANSFORM = Head(
    hidden=(24,),
    activation="gelu",
    projection=16,
    bias=True,
    dimensions=9,
    normalize=True,
)
"""Head that has every part of a head except a transform."""


@attrs.frozen(eq=False)
class EngineRule:
    """A rule of an engine in one case. Calling it raises `AssertionError` if the engine breaks the rule."""

    runtime: str
    """Name of the engine's runtime."""
    name: str
    """Rule and case, such as `gradients/bert/mean/info-nce`."""
    check: Callable[..., None] = attrs.field(repr=False)
    """Function that raises `AssertionError`; its arguments are the pair, the case and the options."""
    pair: Callable[[], EnginePair] = attrs.field(repr=False)
    """Function that returns the engine and its reference. All rules share them."""
    case: Case | None = attrs.field(default=None, repr=False)
    options: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    """Keyword arguments of `check`, such as a tolerance."""

    @property
    def id(self) -> str:
        """Id of the test, such as `cpu/gradients/bert/mean/info-nce`."""
        return f"{self.runtime}/{self.name}"

    def __call__(self) -> None:
        """Run the rule."""
        __tracebackhide__ = True
        if self.case is None:
            self.check(self.pair(), **self.options)
        else:
            self.check(self.pair(), self.case, **self.options)


def engine_rules(
    runtime: Runtime | Table,
    reference: Runtime | Table | None = None,
    plugins: Plugins | None = None,
    groups: Sequence[Sequence[str]] = PAIRS,
    tolerances: Mapping[str, Mapping[str, float]] | None = None,
    parts: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, EngineRule]:
    """Return all rules of an engine by name. Calling a rule runs it.

    Engines are built when the first rule is called, and shared by all rules. A runtime whose traits have
    `untrainable` has only the rules `describe`, `encode`, `transform` and `saved`. A case is left out if the
    runtime's `misfits` refuses it, for example because of the case's head. Rules and their cases:

    - `encode`: every backbone with every pooler that fits, and one case with a head;
    - `gradients`: a few cases that cover every combination of the parts in `groups`, and one case with a head;
    - `steps`: each backbone and each loss once, with every optimiser of `OPTIMIZERS`;
    - `grad-cache`: each backbone once;
    - `dropout`: each backbone that has dropout once;
    - `state`: each loss once, with the optimisers in turn; the first case has dropout;
    - `momentum-and-queue`: every loss that has a memory or a moving average, with one encoder;
    - `describe`: no case;
    - `not-finite`: the first case with a column `positive` and a loss that has a memory or a moving average;
    - all other rules: the first case; it has dropout in `derivative`, and a head in `saved`.

    Args:
        runtime: runtime to test, or its recipe table.
        reference: runtime to compare with, or its recipe table; by default `cpu` in fp32.
        plugins: plugins that offer the parts of cases; by default, all installed plugins.
        groups: groups of kinds for `cover`; `[("backbone", "pooler", "loss")]` means every combination.
        tolerances: rule -> keyword arguments of its check, such as `{"state": {"tolerance": 1e-6}}`.
        parts: kind (`backbone`, `pooler` or `loss`) -> the names in test ids to which the cases are limited, such
            as `{"pooler": ["mean"]}`; by default, cases are not limited.

    Raises:
        ValueError: if `parts` has an unknown kind or name, if `tolerances` has a rule of which no case is left,
            or if no encoder fits the runtime.
    """
    plugins = plugins or load_plugins()

    @cache
    def pair() -> EnginePair:
        engine = _runtime(runtime, plugins).build()
        reference_engine = _runtime(reference or {"use": "cpu"}, plugins).build()
        return EnginePair.of(engine, reference_engine, plugins)

    tested = None
    # A runtime that is not installed, for example, has all rules: calling one then raises the error.
    with suppress(SentbedError):
        tested = _runtime(runtime, plugins)
    fits = _fits_runtime(tested)
    without_dropout = _select(filter(fits, cases(plugins)), parts)
    checks = _encoding_checks(without_dropout, fits)
    if tested is None or tested.untrainable is None:
        with_dropout = _select(filter(fits, cases(plugins, dropout=DROPOUT)), parts)
        checks += _training_checks(without_dropout, with_dropout, fits, groups, plugins)

    tolerances = tolerances or {}
    names = sorted({check.rule for check in checks})
    if unknown := sorted(set(tolerances) - set(names)):
        raise ValueError(
            f"`tolerances` names the rule `{unknown[0]}`, of which this engine has no case here."
            f"{suggest(unknown[0], names)}"
        )

    runtime_name = runtime["use"] if isinstance(runtime, Mapping) else runtime.name
    rules = {}
    for check in checks:
        options = {**check.options, **tolerances.get(check.rule, {})}
        rules[check.name] = EngineRule(
            runtime_name, check.name, check.function, pair, check.case, options
        )

    return rules


@attrs.frozen
class _Check:
    """An `EngineRule` without its engine."""

    rule: str
    function: Callable[..., None]
    case: Case | None = None
    suffix: str = ""
    """End of the name. It distinguishes checks with the same rule and case."""
    options: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def name(self) -> str:
        """Rule, case and suffix, such as `steps/bert/mean/info-nce/adamw`."""
        parts = [self.rule]
        if self.case is not None:
            parts.append(self.case.id)
        if self.suffix:
            parts.append(self.suffix)
        return "/".join(parts)


def _with_head(case: Case, fits: Callable[[Case], bool]) -> list[Case]:
    """Return the case with a head, or an empty list if the runtime refuses it."""
    with_head = attrs.evolve(case, head=HEAD_WITHOUT_TRANSFORM)
    return [with_head] if fits(with_head) else []


def _encoding_checks(
    candidates: Sequence[Case], fits: Callable[[Case], bool]
) -> list[_Check]:
    """Return the checks that apply to every engine."""
    first = candidates[0]
    with_head = _with_head(first, fits)
    checks = [_Check("describe", check_counters_and_describe)]
    for case in [*cover(candidates, ("backbone", "pooler")), *with_head]:
        checks.append(_Check("encode", check_encode, case))

    if fits(attrs.evolve(first, head=HEAD_WITH_TRANSFORM)):
        checks.append(_Check("transform", check_transform, first))
    saved = with_head[0] if with_head else first
    checks.append(_Check("saved", check_saved, saved))
    return checks


def _training_checks(
    candidates: Sequence[Case],
    with_dropout: Sequence[Case],
    fits: Callable[[Case], bool],
    groups: Sequence[Sequence[str]],
    plugins: Plugins,
) -> list[_Check]:
    """Return the checks that apply to an engine that trains.

    `with_dropout` are the cases of `candidates`, with dropout where the backbone has it.
    """
    first = candidates[0]
    first_with_dropout = with_dropout[0]
    checks = []
    for case in [*cover(candidates, *groups), *_with_head(first, fits)]:
        checks.append(_Check("gradients", check_loss_and_gradients, case))
    for case in cover(candidates, ("backbone",)):
        checks.append(_Check("grad-cache", check_grad_cache, case))

    dropped = [case for case in with_dropout if getattr(case.backbone, "dropout", None)]
    for number, case in enumerate(cover(dropped, ("backbone",))):
        options = {"seeds": number == 0}
        checks.append(_Check("dropout", check_dropout_advances, case, options=options))

    cached = {"micro_batch": 2}
    checks += [
        _Check("derivative", check_derivative, first_with_dropout),
        _Check("derivative", check_derivative, first_with_dropout, "cached", cached),
        _Check("uneven-batch", check_uneven_batch, first),
        _Check("frozen-columns", check_frozen_columns, first),
        _Check("towers", check_towers, first),
        _Check("clipping", check_clipping, first),
        _Check("moving-average", check_moving_average, first),
        _Check("not-finite", check_not_finite, _case_for_not_finite(candidates)),
    ]

    optimizers = {
        name: part("optimizer", table, plugins) for name, table in OPTIMIZERS.items()
    }
    for case in cover(candidates, ("backbone",), ("loss",)):
        for name, optimizer in optimizers.items():
            options = {"optimizer": optimizer}
            checks.append(_Check("steps", check_steps, case, name, options))

    encoder = (first.backbone_name, first.pooler_name)
    for case in candidates:
        if (case.backbone_name, case.pooler_name) == encoder and remembers(case):
            checks.append(_Check("momentum-and-queue", check_momentum_and_queue, case))

    resumed = [first_with_dropout, *cover(candidates, ("loss",))[1:]]
    for case, name in zip(resumed, cycle(optimizers), strict=False):
        options = {"optimizer": optimizers[name]}
        checks.append(_Check("state", check_state, case, name, options))
    return checks


def remembers(case: Case) -> bool:
    """Whether the loss of a case has a memory of earlier vectors, or a moving average of the encoder."""
    return case.loss.stateful or case.loss.momentum is not None


def _select(
    candidates: Iterable[Case], parts: Mapping[str, Sequence[str]] | None
) -> list[Case]:
    """Return the cases that have only parts named in `parts`; a kind that `parts` lacks is not limited.

    Cases with the pooler `mean` come first, since padding matters most to it.
    """
    candidates = list(candidates)
    parts = parts or {}
    kinds = ("backbone", "pooler", "loss")
    if unknown := sorted(set(parts) - set(kinds)):
        raise ValueError(
            f"`parts` names the kind `{unknown[0]}`; name some of {', '.join(kinds)}"
        )

    for kind, names in parts.items():
        case_names = sorted({getattr(case, f"{kind}_name") for case in candidates})
        if missing := sorted(set(names) - set(case_names)):
            raise ValueError(
                f"no case has the {kind} `{missing[0]}`.{suggest(missing[0], case_names)}"
            )
        candidates = [
            case for case in candidates if getattr(case, f"{kind}_name") in names
        ]

    if not candidates:
        raise ValueError(
            "no encoder of these parts runs on the runtime; let `parts` name others, or see its `misfits`"
        )
    return sorted(candidates, key=lambda case: case.pooler_name != "mean")


def _case_for_not_finite(candidates: Sequence[Case]) -> Case:
    """Return the first case that `remembers` and has a column `positive`; without such a case, the first one."""
    for case in candidates:
        if remembers(case) and "positive" in case.columns:
            return case
    return candidates[0]


def _fits_runtime(tested: Runtime | None) -> Callable[[Case], bool]:
    """Return a function that tells whether the encoder of a case runs on the runtime, if there is one."""
    if tested is None:
        return lambda case: True
    return lambda case: not any(runtime_misfits(tested, case.recipe))


def _runtime(runtime: Runtime | Table, plugins: Plugins) -> Runtime:
    """Return the runtime, or the runtime that a recipe table describes."""
    if isinstance(runtime, Mapping):
        runtime = cast("Runtime", part("runtime", runtime, plugins))
    return runtime
