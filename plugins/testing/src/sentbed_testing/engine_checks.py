"""All checks of an engine against a reference, as a suite for use with or without pytest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import cycle
from typing import Any, TypeAlias

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

Check: TypeAlias = Callable[[], None]

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


def engine_suite(  # noqa: C901 - a line for each kind of case
    runtime: Runtime | Table,
    reference: Runtime | Table | None = None,
    plugins: Plugins | None = None,
    groups: Sequence[Sequence[str]] = PAIRS,
    tolerances: Mapping[str, Mapping[str, float]] | None = None,
    parts: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[tuple[str, Check]]:
    """Yield (id, check) for an engine's whole contract; a check raises `AssertionError`.

    Engines are built when the first check is called, and shared by all. Of a runtime whose traits have
    `untrainable`, only `describe`, `encode`, `transform` and `saved` are yielded. All cases fit its `misfits`:
    where it takes no head with layers or no transform, there is none. What is tried with what:

    - `encode`: every backbone with every pooler that fits, and one with a head;
    - `gradients`: as few cases as bring every two parts together that `groups` names;
    - `steps`: each backbone and each loss once, with every optimiser of `OPTIMIZERS`;
    - `grad-cache` and `dropout`: each backbone once, the latter those that have some;
    - `state`: each loss once, with the optimisers in turn, the first with dropout;
    - `moving-average`: the average of the weights that a stage evaluates, for one combination;
    - `momentum-and-queue`: every loss that has a state or an average, with one encoder;
    - all others: the first case.

    Args:
        runtime: runtime to test, or its recipe table.
        reference: runtime to compare with; by default `cpu` in fp32.
        plugins: source of the parts; by default all installed plugins.
        groups: see `cover`; `[("backbone", "pooler", "loss")]` is every combination.
        tolerances: rule -> arguments of its check, such as `{"state": {"tolerance": 1e-6}}`.
        parts: `backbone`, `pooler` or `loss` -> names, as in the ids of checks, to which the cases are
            limited, such as `{"pooler": ["mean"]}`; by default all that are installed.

    Raises:
        ValueError: if `parts` has a kind or a name of which there is no case, or no encoder fits the runtime.
    """
    plugins = plugins or load_plugins()
    arguments = dict(tolerances or {})

    @cache
    def pair() -> EnginePair:
        engine, other = (
            _runtime(of, plugins).build()
            for of in (runtime, reference or {"use": "cpu"})
        )
        return EnginePair.of(engine, other, plugins)

    def call(check: Callable[..., None], rule: str, *of: Any, **more: Any) -> None:
        check(pair(), *of, **more, **arguments.get(rule, {}))

    def named_check(
        check: Callable[..., None], rule: str, *of: Any, name: str = "", **more: Any
    ) -> tuple[str, Check]:
        at = [rule, *(case.id for case in of)]
        if name:
            at.append(name)
        return "/".join(at), partial(call, check, rule, *of, **more)

    fitting = _fitting(runtime, plugins)
    plain, dropped = (
        _mean_first(
            _limited(list(filter(fitting, cases(plugins, dropout=rate))), parts or {})
        )
        for rate in (0.0, DROPOUT)
    )
    first = plain[0]
    with_heads = list(filter(fitting, [attrs.evolve(first, head=LAYERS)]))
    yield named_check(check_counters_and_describe, "describe")
    for case in [*cover(plain, ("backbone", "pooler")), *with_heads]:
        yield named_check(check_encode, "encode", case)
    if fitting(attrs.evolve(first, head=HEAD)):
        yield named_check(check_transform, "transform", first)
    for case in with_heads or [first]:
        yield named_check(check_saved, "saved", case)
    if not _trains(runtime, plugins):
        return
    for case in [*cover(plain, *groups), *with_heads]:
        yield named_check(check_loss_and_gradients, "gradients", case)
    for case in cover(plain, ("backbone",)):
        yield named_check(check_grad_cache, "grad-cache", case)
    with_dropout = [case for case in dropped if getattr(case.backbone, "dropout", None)]
    for number, case in enumerate(cover(with_dropout, ("backbone",))):
        yield named_check(check_dropout_advances, "dropout", case, seeds=number == 0)
    yield named_check(check_derivative, "derivative", dropped[0])
    yield named_check(
        check_derivative, "derivative", dropped[0], name="cached", micro_batch=2
    )
    yield named_check(check_uneven_batch, "uneven-batch", first)
    yield named_check(check_frozen_columns, "frozen-columns", first)
    yield named_check(check_towers, "towers", first)
    yield named_check(check_prompts, "prompts", first)
    yield named_check(check_clipping, "clipping", first)
    yield named_check(check_moving_average, "moving-average", first)
    yield named_check(check_not_finite, "not-finite", _with_state(plain) or first)
    optimizers = {
        name: part("optimizer", table, plugins) for name, table in OPTIMIZERS.items()
    }
    for case in cover(plain, *EACH_PART):
        for name, optimizer in optimizers.items():
            yield named_check(
                check_steps, "steps", case, name=name, optimizer=optimizer
            )
    for case in plain:
        if (case.backbone_name, case.pooler_name) == (
            first.backbone_name,
            first.pooler_name,
        ) and remembers(case):
            yield named_check(check_momentum_and_queue, "momentum-and-queue", case)
    resumed = [dropped[0], *cover(plain, ("loss",))[1:]]
    for case, (name, optimizer) in zip(
        resumed, cycle(optimizers.items()), strict=False
    ):
        yield named_check(check_state, "state", case, name=name, optimizer=optimizer)


def parametrize_engine(runtime: Runtime | Table, **options: Any) -> Any:
    """Return a pytest decorator that parametrizes a test with `check`, a function for each check.

    `options` are those of `engine_suite`.
    """
    import pytest

    checks = engine_suite(runtime, **options)
    return pytest.mark.parametrize(
        "check", [pytest.param(check, id=name) for name, check in checks]
    )


def remembers(case: Case) -> bool:
    """Whether the loss of a case has a memory or a moving average."""
    return case.loss.traits.stateful or case.loss.traits.momentum is not None


def _mean_first(candidates: Sequence[Case]) -> list[Case]:
    """Return the cases, with those in which padding matters most first."""
    return sorted(candidates, key=lambda case: case.pooler_name != "mean")


def _limited(
    candidates: Sequence[Case], parts: Mapping[str, Sequence[str]]
) -> list[Case]:
    """Return the cases whose parts are named, or of a kind that is not named."""
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

    One that cannot be made, such as one that is not installed, is an error of each check, not of this list.
    """
    try:
        return _runtime(runtime, plugins).traits.untrainable is None
    except SentbedError:
        return True


def _fitting(runtime: Runtime | Table, plugins: Plugins) -> Callable[[Case], bool]:
    """Return the function that says whether the encoder of a case runs on a runtime; see `_trains`."""
    try:
        tested = _runtime(runtime, plugins)
    except SentbedError:
        return lambda case: True
    return lambda case: not any(runtime_misfits(tested, case.recipe))


def _runtime(of: Runtime | Table, plugins: Plugins) -> Runtime:
    runtime: Runtime = part("runtime", of, plugins) if isinstance(of, Mapping) else of
    return runtime
