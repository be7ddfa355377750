"""Rules of a pooler or a loss that run it on the installed engines, as part of a tiny encoder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from sentbed.errors import SentbedError

from sentbed_testing.component_under_test import NotRunError, Subject, installed
from sentbed_testing.engine_cases import Case, cases
from sentbed_testing.engine_gradients import check_grad_cache, check_loss_and_gradients
from sentbed_testing.engine_pair import EnginePair

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

GRADIENT = 5e-3
"""Tolerance relative to each gradient's norm.

In `engine_rules` it is smaller, since encoders are trained for a few steps first. Without these steps, rounding
in the state of a random BERT's first token is up to 1e-3."""
REQUIRED_COMPONENTS = (
    ("runtime", "cpu"),
    ("optimizer", "adamw"),
    ("schedule", "constant"),
    ("loss", "info-nce"),
    ("pooler", "mean"),
)
"""Kind and name of each component that must be installed for a training."""


def grad_cache(subject: Subject) -> Findings:
    """With gradient caching (`micro_batch`), loss and gradients equal those of the whole batch."""
    engine = _engine("cpu")
    pair = _pair(engine, engine)
    try:
        check_grad_cache(pair, _case(subject), gradient=GRADIENT)
    except AssertionError as error:
        yield (
            str(error).removeprefix("grad-cache: "),
            "compute each row from its own states, and draw from torch's default generator",
        )


def jax(subject: Subject) -> Findings:
    """Under JAX, on all devices that JAX finds, loss and gradients equal those of the CPU engine."""
    if not subject.jax:
        raise NotRunError(
            "the argument `jax` is false; set `jax=True`, in a process that has not imported JAX"
        )
    pair = _pair(_engine("tpu"), _engine("cpu"))
    try:
        check_loss_and_gradients(pair, _case(subject), gradient=GRADIENT)
    except AssertionError as error:
        yield (
            str(error).removeprefix("gradients: "),
            "use operations of torch that torchax has, and let no shape depend on values",
        )


@cache
def _engine(runtime: str) -> Any:
    """Return the engine of a runtime. The engine of `tpu` runs on JAX's CPU devices.

    Raises `NotRunError` if the runtime or a required component is not installed.
    """
    plugins = installed()
    try:
        for kind, name in (*REQUIRED_COMPONENTS, ("runtime", runtime)):
            plugins.find(kind, name)
        cls = plugins.find("runtime", runtime).cls
        if runtime == "tpu":
            return cls(platform="cpu", precision="fp32").build()
        return cls().build()
    except SentbedError as error:
        raise NotRunError(str(error)) from error


@cache
def _pair(engine: Any, reference: Any) -> EnginePair:
    """Return a pair whose encoders are not trained before they are saved."""
    pair = EnginePair.of(engine, reference, installed())
    pair.warm_up = None
    return pair


def _case(subject: Subject) -> Case:
    """Return a case of a tiny encoder with the component as its pooler or loss.

    Raises `NotRunError` if there is none.
    """
    plugins, part = installed(), subject.ready
    losses: dict[str, tuple[Any, Sequence[str]]]
    if subject.kind == "pooler":
        if part.output == "tokens":
            raise NotRunError(
                "the loss of this rule compares single vectors, but the pooler returns token vectors"
            )
        loss = plugins.find("loss", "info-nce").cls(temperature=0.5)
        poolers = {part.name: part}
        losses = {loss.name: (loss, ())}
    else:
        pooler = plugins.find("pooler", "mean").cls()
        poolers = {pooler.name: pooler}
        losses = {part.name: (part, sorted(part.takes or ()))}

    candidates = cases(plugins, poolers=poolers, losses=losses)
    if not candidates:
        raise NotRunError("no installed backbone suits it in a tiny encoder")
    return candidates[0]


RULES = {"grad-cache": grad_cache, "jax": jax}
