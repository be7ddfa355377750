"""Rules of a pooler or a loss on the installed engines, inside a tiny encoder."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

from sentbed.errors import SentbedError

from sentbed_testing.component_under_test import NotRunError, Subject, installed
from sentbed_testing.engine_cases import Case, cases
from sentbed_testing.engine_gradients import check_grad_cache, check_loss_and_gradients
from sentbed_testing.engine_pair import EnginePair

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

GRADIENT = 5e-3
"""Tolerance relative to each gradient's norm. Unlike in `engine_rules`, the encoder is not warmed up, so
rounding in the state of a random BERT's first token is up to 1e-3."""
BESIDE = (
    ("runtime", "cpu"),
    ("optimizer", "adamw"),
    ("schedule", "constant"),
    ("loss", "info-nce"),
    ("pooler", "mean"),
)
"""Components that training needs besides the tested one."""


def grad_cache(subject: Subject) -> Findings:
    """With gradient caching (`micro_batch`), loss and gradient are those of the whole batch."""
    engine = _engine("cpu")
    yield from _try(
        "grad-cache: ",
        partial(
            check_grad_cache, _pair(engine, engine), _case(subject), gradient=GRADIENT
        ),
        "compute each row from its own states, and draw from torch's own generator",
    )


def jax(subject: Subject) -> Findings:
    """Under JAX, on all its devices, loss and gradient are those of the CPU engine."""
    if not subject.jax:
        raise NotRunError(
            "JAX was not asked for; say `jax=True`, in a process that has not loaded JAX"
        )
    engine = _engine("tpu")
    yield from _try(
        "gradients: ",
        partial(
            check_loss_and_gradients,
            _pair(engine, _engine("cpu")),
            _case(subject),
            gradient=GRADIENT,
        ),
        "take operations of torch that torchax knows, and let no shape depend on numbers",
    )


def _try(prefix: str, check: Any, fix: str) -> Findings:
    try:
        check()
    except AssertionError as error:
        yield str(error).removeprefix(prefix), fix


@cache
def _engine(runtime: str) -> Any:
    """Return the engine of a runtime; that of `tpu` runs on JAX's CPU devices."""
    plugins = installed()
    try:
        for kind, name in (*BESIDE, ("runtime", runtime)):
            plugins.find(kind, name)
        cls = plugins.find("runtime", runtime).cls
        if runtime == "tpu":
            return cls(platform="cpu", precision="fp32").build()
        return cls().build()
    except SentbedError as error:
        raise NotRunError(str(error)) from error


@cache
def _pair(engine: Any, reference: Any) -> EnginePair:
    pair = EnginePair.of(engine, reference, installed())
    pair.warm_up = None
    return pair


def _case(subject: Subject) -> Case:
    """Return a case: a tiny encoder, and the component as its pooler or loss."""
    plugins, part = installed(), subject.ready
    if subject.kind == "pooler":
        if part.traits.output == "tokens":
            raise NotRunError(
                "token vectors are compared by an encoder's similarity, which the pooler alone lacks"
            )
        loss = plugins.find("loss", "info-nce").cls(temperature=0.5)
        candidates = cases(
            plugins, poolers={part.name: part}, losses={loss.name: (loss, ())}
        )
    else:
        takes = sorted(part.traits.takes or ())
        mean = plugins.find("pooler", "mean").cls()
        candidates = cases(
            plugins, poolers={mean.name: mean}, losses={part.name: (part, takes)}
        )

    if not candidates:
        raise NotRunError("no installed backbone suits it in a tiny encoder")

    return candidates[0]


RULES = {"grad-cache": grad_cache, "jax": jax}
