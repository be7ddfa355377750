"""Speed and accuracy of the installed engines on the evaluations of a recipe, for `sentbed plan --engines`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args, get_type_hints

import attrs
from sentbed import Encoder, build_encoder
from sentbed.errors import RunError, reason_of
from sentbed.protocols import Evaluate, Prepared, Recipe, Runtime
from sentbed.tools import Plugins, runtime_misfits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TEXTS = 512
"""Number of distinct texts, from the shortest to the longest, that each engine encodes in a round."""
ROUNDS = 3
"""Number of timed rounds, of which the median counts."""


@attrs.frozen(eq=False)
class Measurement:
    """What an engine gives on the evaluations of a recipe."""

    texts_per_second: float
    vectors: NDArray[np.float32]
    scores: dict[str, float]


def engine_rows(recipe: Recipe, plugins: Plugins) -> Iterator[tuple[str, ...]]:
    """Yield a row for each installed engine: settings, texts a second, least cosine to fp32, changes of scores.

    The main encoder is built on each engine without training. Engines are compared with `cpu` in fp32.

    Raises:
        RunError: if the evaluations of the main encoder have no texts that are known before they run.
    """
    entries = []
    texts: set[str] = set()
    for entry in recipe.evaluate:
        prepared = entry.evaluator.prepare()
        is_of_main = (entry.encoder or recipe.main_encoder) == recipe.main_encoder
        if is_of_main and entry.second is None and isinstance(prepared, Prepared):
            entries.append(entry)
            for part in prepared.lists.values():
                texts.update(part.both)
    if not texts:
        raise RunError("the recipe's evaluations have no texts to time engines on")
    ordered = sorted(texts, key=lambda text: (len(text), text))
    sample = ordered[:: -(-len(ordered) // TEXTS)]

    yield "runtime", "texts/s", "cosine", "scores"
    cpu: Runtime = plugins.load("runtime", "cpu")()
    reference = _measured(recipe, cpu, sample, entries)
    for name in plugins.names("runtime"):
        for runtime in _with_each_precision(plugins.load("runtime", name)()):
            label = f"{name} {getattr(runtime, 'precision', '')}".strip()
            measurement = reference
            try:
                if runtime != cpu:
                    measurement = _measured(recipe, runtime, sample, entries)
            except Exception as error:  # noqa: BLE001 - an engine that fails has a row, too
                yield label, "-", "-", reason_of(error)
                continue

            speed = f"{measurement.texts_per_second:,.0f}"
            cosine = f"{_least_cosine(measurement.vectors, reference.vectors):.4f}"
            changes = []
            for task, score in measurement.scores.items():
                changes.append(f"{task} {score - reference.scores[task]:+.2f}")
            yield label, speed, cosine, ", ".join(changes)


def _with_each_precision(runtime: Runtime) -> Iterator[Runtime]:
    """Yield a runtime with each value of its field `precision`, except `auto`; alone if it has no such field."""
    hints = get_type_hints(type(runtime))
    if "precision" not in hints:
        yield runtime
    for precision in get_args(hints.get("precision")):
        changed: Any = attrs.evolve(cast(Any, runtime), precision=precision)
        if precision != "auto" and not list(changed.check()):
            yield changed


def _measured(
    recipe: Recipe,
    runtime: Runtime,
    texts: Sequence[str],
    entries: Sequence[Evaluate],
) -> Measurement:
    """Return the measurement of a runtime. Raises `RunError` if it cannot run the recipe's main encoder here."""
    reason = runtime.unavailable()
    if reason is not None:
        raise RunError(reason)
    for message in runtime_misfits(runtime, recipe.encoders[recipe.main_encoder]):
        raise RunError(message)

    encoder: Encoder = build_encoder(attrs.evolve(recipe, runtime=runtime))
    vectors = encoder.encode(texts)
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        encoder.encode(texts)
        seconds.append(time.perf_counter() - start)

    scores = {}
    for entry in entries:
        evaluation = encoder.evaluate(entry.evaluator, recipe.main_encoder)
        for score in evaluation.scores:
            scores[f"{score.task} {score.metric}"] = score.value
    return Measurement(len(texts) / statistics.median(seconds), vectors, scores)


def _least_cosine(
    vectors: NDArray[np.float32], reference: NDArray[np.float32]
) -> float:
    """Return the least cosine between vectors of the same row."""
    import numpy as np

    products = (vectors * reference).sum(axis=1)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(reference, axis=1)
    return float((products / lengths).min())
