"""Rules of an engine against a reference, for use with or without pytest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import cycle
from typing import Any

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
    check_prompts,
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
from sentbed_testing.engine_transforms import HEAD, check_transform

DROPOUT = 0.1
LAYERS = Head(
    hidden=(24,),
    activation="gelu",
    projection=16,
    bias=True,
    dimensions=9,
    normalize=True,
)
"""Head of one case: everything but a transform."""
EACH_PART = (("backbone",), ("loss",))


@attrs.frozen(eq=False)
class EngineRule:
    """A rule of an engine in one case. Calling it raises `AssertionError` if the engine breaks the rule."""

    runtime: str
    name: str
    """Rule and case, such as `gradients/bert/mean/info-nce`."""
    check: Callable[..., None] = attrs.field(repr=False)
    pair: Callable[[], EnginePair] = attrs.field(repr=False)
    """Returns the engine and its reference, which all rules share."""
    case: Case | None = attrs.field(default=None, repr=False)
    options: Mapping[str, Any] = attrs.field(factory=dict, repr=False)

    @property
    def id(self) -> str:
        """Id of the test, such as `cpu/gradients/bert/mean/info-nce`."""
        return f"{self.runtime}/{self.name}"

    def __call__(self) -> None:
        """Try the rule."""
        __tracebackhide__ = True
        cases_of_check = () if self.case is None else (self.case,)
        self.check(self.pair(), *cases_of_check, **self.options)


def engine_rules(
    runtime: Runtime | Table,
    reference: Runtime | Table | None = None,
    plugins: Plugins | None = None,
    groups: Sequence[Sequence[str]] = PAIRS,
    tolerances: Mapping[str, Mapping[str, float]] | None = None,
    parts: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, EngineRule]:
    """Return the rules of an engine's whole contract by name, each to be called.

    Engines are built when the first rule is called, and shared by all rules. A runtime whose traits have
    `untrainable` has only the rules `describe`, `encode`, `transform` and `saved`. Cases that the runtime's
    `misfits` refuses are left out, such as those with a head or a transform. Rules and their cases:

    - `encode`: every backbone with every pooler that fits, and one case with a head;
    - `gradients`: a few cases that cover every combination of the parts in `groups`;
    - `steps`: each backbone and each loss once, with every optimiser of `OPTIMIZERS`;
    - `grad-cache`: each backbone once; `dropout`: each backbone that has dropout once;
    - `state`: each loss once, with the optimisers in turn, the first case with dropout;
    - `momentum-and-queue`: every loss that has a memory or a moving average, with one encoder;
    - all others: the first case.

    Args:
        runtime: runtime to test, or its recipe table.
        reference: runtime to compare with; by default `cpu` in fp32.
        plugins: source of the parts; by default all installed plugins.
        groups: see `cover`; `[("backbone", "pooler", "loss")]` is every combination.
        tolerances: rule -> arguments of its check, such as `{"state": {"tolerance": 1e-6}}`.
        parts: `backbone`, `pooler` or `loss` -> names to which the cases are limited, as in the ids of
            rules: `{"pooler": ["mean"]}`; by default all that are installed.

    Raises:
        ValueError: if no case has a kind or a name of `parts`, or no encoder fits the runtime.
    """
    plugins = plugins or load_plugins()

    @cache
    def pair() -> EnginePair:
        engine = _runtime(runtime, plugins).build()
        return EnginePair.of(
            engine, _runtime(reference or {"use": "cpu"}, plugins).build(), plugins
        )

    fits = _fitting(runtime, plugins)
    plain, dropped = (
        _mean_first(_limited(list(filter(fits, cases(plugins, dropout=rate))), parts))
        for rate in (0.0, DROPOUT)
    )
    planned = _encoding_checks(plain, fits)
    if _trains(runtime, plugins):
        planned += _training_checks(plain, dropped, fits, groups, plugins)

    runtime_name = runtime["use"] if isinstance(runtime, Mapping) else runtime.name
    rules = {}
    for check in planned:
        options = {**check.options, **(tolerances or {}).get(check.rule, {})}
        rules[check.name] = EngineRule(
            runtime_name, check.name, check.function, pair, check.case, options
        )

    return rules


@attrs.frozen
class _Check:
    """A check that a rule makes in one case."""

    rule: str
    function: Callable[..., None]
    case: Case | None = None
    suffix: str = ""
    """Distinguishes it from other checks with the same rule and case."""
    options: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def name(self) -> str:
        parts = [self.rule]
        if self.case is not None:
            parts.append(self.case.id)
        if self.suffix:
            parts.append(self.suffix)
        return "/".join(parts)


def _with_head(plain: Sequence[Case], fits: Callable[[Case], bool]) -> list[Case]:
    """Return the first case with a head, or nothing if the runtime takes none."""
    return list(filter(fits, [attrs.evolve(plain[0], head=LAYERS)]))


def _encoding_checks(
    plain: Sequence[Case], fits: Callable[[Case], bool]
) -> list[_Check]:
    """Return the checks of every engine."""
    first = plain[0]
    with_head = _with_head(plain, fits)
    checks = [_Check("describe", check_counters_and_describe)]
    for case in [*cover(plain, ("backbone", "pooler")), *with_head]:
        checks.append(_Check("encode", check_encode, case))
    if fits(attrs.evolve(first, head=HEAD)):
        checks.append(_Check("transform", check_transform, first))
    saved = with_head[0] if with_head else first
    checks.append(_Check("saved", check_saved, saved))
    return checks


def _training_checks(
    plain: Sequence[Case],
    dropped: Sequence[Case],
    fits: Callable[[Case], bool],
    groups: Sequence[Sequence[str]],
    plugins: Plugins,
) -> list[_Check]:
    """Return the checks of an engine that trains; `dropped` are the cases with dropout."""
    first = plain[0]
    checks = []
    for case in [*cover(plain, *groups), *_with_head(plain, fits)]:
        checks.append(_Check("gradients", check_loss_and_gradients, case))
    for case in cover(plain, ("backbone",)):
        checks.append(_Check("grad-cache", check_grad_cache, case))

    with_dropout = [case for case in dropped if getattr(case.backbone, "dropout", None)]
    for number, case in enumerate(cover(with_dropout, ("backbone",))):
        options = {"seeds": number == 0}
        checks.append(_Check("dropout", check_dropout_advances, case, options=options))
    checks += [
        _Check("derivative", check_derivative, dropped[0]),
        _Check(
            "derivative", check_derivative, dropped[0], "cached", {"micro_batch": 2}
        ),
        _Check("uneven-batch", check_uneven_batch, first),
        _Check("frozen-columns", check_frozen_columns, first),
        _Check("towers", check_towers, first),
        _Check("prompts", check_prompts, first),
        _Check("clipping", check_clipping, first),
        _Check("moving-average", check_moving_average, first),
        _Check("not-finite", check_not_finite, _with_state(plain) or first),
    ]

    optimizers = {
        name: part("optimizer", table, plugins) for name, table in OPTIMIZERS.items()
    }
    for case in cover(plain, *EACH_PART):
        for name, optimizer in optimizers.items():
            options = {"optimizer": optimizer}
            checks.append(_Check("steps", check_steps, case, name, options))

    encoder = (first.backbone_name, first.pooler_name)
    for case in plain:
        if (case.backbone_name, case.pooler_name) == encoder and remembers(case):
            checks.append(_Check("momentum-and-queue", check_momentum_and_queue, case))

    resumed = [dropped[0], *cover(plain, ("loss",))[1:]]
    for case, name in zip(resumed, cycle(optimizers), strict=False):
        options = {"optimizer": optimizers[name]}
        checks.append(_Check("state", check_state, case, name, options))
    return checks


def remembers(case: Case) -> bool:
    """Whether the loss of a case has a memory or a moving average."""
    return case.loss.traits.stateful or case.loss.traits.momentum is not None


def _mean_first(candidates: Sequence[Case]) -> list[Case]:
    """Return the cases, those with the pooler `mean` first: padding matters most to it."""
    return sorted(candidates, key=lambda case: case.pooler_name != "mean")


def _limited(
    candidates: Sequence[Case], parts: Mapping[str, Sequence[str]] | None
) -> list[Case]:
    """Return the cases whose parts are among those named in `parts`; kinds not in it are not limited."""
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
    return list(candidates)


def _with_state(candidates: Sequence[Case]) -> Case | None:
    return next(
        (case for case in candidates if remembers(case) and "positive" in case.columns),
        None,
    )


def _trains(runtime: Runtime | Table, plugins: Plugins) -> bool:
    """Whether a runtime trains.

    A runtime that cannot be created, for example because it is not installed, counts as one that does: the
    error is raised when a rule is called.
    """
    try:
        return _runtime(runtime, plugins).traits.untrainable is None
    except SentbedError:
        return True


def _fitting(runtime: Runtime | Table, plugins: Plugins) -> Callable[[Case], bool]:
    """Return a function: whether the encoder of a case runs on the runtime. See `_trains` for errors."""
    try:
        tested = _runtime(runtime, plugins)
    except SentbedError:
        return lambda case: True
    return lambda case: not any(runtime_misfits(tested, case.recipe))


def _runtime(of: Runtime | Table, plugins: Plugins) -> Runtime:
    runtime: Runtime = part("runtime", of, plugins) if isinstance(of, Mapping) else of
    return runtime
