"""The runtime `fastest`: it times other runtimes and chooses the fastest whose vectors and scores are right."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from attrs.validators import ge, gt, le, optional
from sentbed.errors import PluginError, RunError, RuntimeUnavailableError, reason_of
from sentbed.protocols import (
    EncodingWork,
    Engine,
    Runtime,
    RuntimeChoice,
    RuntimeTraits,
)
from sentbed.tools import Recipe, load_plugins, runtime_misfits, unstructure

from sentbed_workbench.trial_process import Task, TrialError, TrialProcess

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PATIENCE = 10
"""Factor by which the time limit `Fastest.seconds` is multiplied for scores and for the start of the reference.

Scores need more texts than a round, and the reference may fetch a model."""


@attrs.frozen(kw_only=True)
class Fastest(Runtime):
    """The fastest installed runtime whose vectors are near to the reference's, chosen by each run; only encodes.

    Each candidate encodes texts of the recipe's evaluations in its own process. It is dropped if it fails,
    crashes, takes too long or gives other vectors than the reference. Of the others, the fastest whose scores
    are near to the reference's is chosen. `runtime_choice` in the manifest has the figures of all candidates.
    """

    name: ClassVar[str] = "fastest"
    traits = RuntimeTraits(
        untrainable="the runtime `fastest` only encodes; train on `cpu` or `cuda`, and evaluate the encoder on "
        "`fastest`",
        auxiliary=True,
        outputs=frozenset({"vector", "sparse", "tokens"}),
    )

    candidates: tuple[Runtime, ...] = ()
    """Runtimes to try, with their settings. The default is every installed runtime, in each of its `variants`
    that can run the recipe's encoders. All candidates are in memory at the same time."""
    reference: Runtime | None = None
    """Runtime whose vectors count as right. The default is `cpu` in fp32."""
    least_cosine: float = attrs.field(default=0.95, validator=[ge(-1), le(1)])
    """Least cosine between a vector and the reference's vector of the same text; also the least ratio of the
    shorter to the longer vector."""
    score_difference: float = attrs.field(default=0.1, validator=ge(0))
    """Largest difference between a correlation (x 100), such as Spearman's in STS, and the reference's."""
    scored_texts: int = attrs.field(default=10_000, validator=ge(0))
    """Largest total number of texts in the evaluations whose scores are compared. An evaluation that would exceed
    it is skipped. Scores of the fastest candidate are compared first. 0 means that no scores are compared."""
    texts: int = attrs.field(default=512, validator=ge(1))
    """Number of distinct texts, from the shortest to the longest, that each encoder encodes per round."""
    rounds: int = attrs.field(default=7, validator=ge(1))
    """Number of timed rounds. The median time counts. The candidates take turns, so that other work on the
    machine slows all of them."""
    seconds: float = attrs.field(default=60.0, validator=gt(0))
    """Time limit in seconds for the start of a candidate with its first encoding, and for each of its rounds. No
    further round begins after this time, multiplied by the number of candidates. The start of the reference and
    the scores may take ten times as long."""
    threads: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of threads of each candidate that does not set its own."""

    def check(self) -> Iterator[str]:
        """Yield a problem for each named runtime that cannot be a candidate."""
        for runtime in self._named_runtimes():
            if type(runtime).chosen is not Runtime.chosen:
                yield f"the candidate `{runtime.name}` chooses another one itself; name a runtime that encodes"
            elif runtime.traits.processes > 1:
                yield (
                    f"the candidate `{runtime.name}` has {runtime.traits.processes} processes, and each is "
                    "tried in one; set `devices` and `nodes` to 1"
                )

    def _named_runtimes(self) -> tuple[Runtime, ...]:
        """Return the candidates and the reference that the recipe names."""
        if self.reference is None:
            return self.candidates
        return (*self.candidates, self.reference)

    def with_threads(self, threads: int) -> Fastest:
        """See `Runtime.with_threads`."""
        if self.threads is not None:
            return self
        return attrs.evolve(self, threads=threads)

    def chosen(self, work: EncodingWork) -> RuntimeChoice:
        """Try the candidates on texts of a recipe's evaluations, and return the fastest.

        Raises:
            RunError: if the evaluations have no texts, the reference fails, or no candidate is left.
        """
        start = time.perf_counter()
        samples = {}
        for name, texts in work.texts().items():
            if texts:
                samples[name] = sample_of_lengths(texts, self.texts)
        if not samples:
            raise RunError(
                "the recipe's evaluations give no texts to time runtimes on, and `fastest` cannot choose; name a "
                "runtime, such as `cpu`"
            )

        reference = self._reference()
        trials = list(self._trials())
        for index, trial in enumerate(trials):
            if trial.runtime == reference.runtime:
                trials[index] = reference
        work.say(
            f"`fastest` tries {len(trials)} runtimes, which takes a minute or more"
        )
        with ExitStack() as processes:
            comparison = Comparison(self, work.recipe, samples, reference, processes)
            comparison.start(trials)
            comparison.time(trials)
            fastest = comparison.fastest_with_near_scores(trials)

        number = sum(map(len, samples.values()))
        figures = [trial.facts(number) for trial in trials]
        if fastest is None or fastest.runtime is None:
            reasons = [f"\n  {trial.label}: {trial.dropped}" for trial in trials]
            raise RunError(
                f"`fastest` has tried {len(trials)} runtimes, and none is left; name a runtime, or other "
                f"`candidates`:{''.join(reasons)}"
            )

        work.say(
            f"`fastest` takes {fastest.label} with {number / fastest.median:,.0f} texts a second; the figures of "
            "all are in `manifest.json`"
        )
        facts = {
            "taken": dict(fastest.settings),
            "reference": dict(reference.settings),
            "texts": {name: len(sample) for name, sample in samples.items()},
            "scores": sorted(comparison.scores),
            "seconds": time.perf_counter() - start,
            "candidates": figures,
        }
        return RuntimeChoice(fastest.runtime, facts)

    def _reference(self) -> Trial:
        """Return a trial of the reference."""
        runtime = self.reference
        if runtime is None:
            runtime = load_plugins().find("runtime", "cpu").cls()
        return _trial(runtime, self.threads)

    def _trials(self) -> Iterator[Trial]:
        """Yield a trial of each candidate. Without candidates, try the variants of every installed runtime."""
        for runtime in self.candidates:
            yield _trial(runtime, self.threads)
        if self.candidates:
            return

        plugins = load_plugins()
        for name in plugins.names("runtime"):
            try:
                cls = plugins.find("runtime", name).cls
                if cls.chosen is not Runtime.chosen:
                    # This runtime chooses another one, too.
                    continue
                variants = []
                for variant in cls().variants():
                    variants.append(_trial(variant, self.threads))
            except Exception as error:  # noqa: BLE001 - a fault of a plugin must drop only its runtime
                reason = reason_of(error)
                if not isinstance(error, PluginError):
                    reason = f"as it comes, it cannot be tried ({reason}); set it in `candidates`"
                yield Trial({"use": name}, dropped=reason)
                continue

            yield from variants

    def build(self) -> Engine:
        """Raise `RuntimeUnavailableError`, since the chosen runtime builds the engine."""
        raise RuntimeUnavailableError(
            "the runtime `fastest` chooses another one by the texts of a recipe's evaluations, when the recipe "
            "is run; here name a runtime, such as `taken` under `runtime_choice` in the `manifest.json` of a run"
        )


@attrs.define(eq=False)
class Trial:
    """A candidate or the reference, with its measurements."""

    settings: Mapping[str, Any]
    """The runtime as a table of a recipe."""
    runtime: Runtime | None = None
    process: TrialProcess | None = None
    dropped: str = ""
    """Reason why it cannot be chosen; empty if it can."""
    start_seconds: float | None = None
    """Seconds that the start and the first encoding of all texts took."""
    seconds: list[float] = attrs.field(factory=list)
    """Duration of each timed round, in seconds."""
    least_cosine: float = 1.0
    """Least cosine between a vector and the reference's vector, over all texts and rounds."""
    least_length_ratio: float = 1.0
    """Least ratio of the shorter to the longer of a vector and the reference's vector."""
    score_difference: float | None = None
    """Largest difference between a score and the reference's score; None if no scores were compared."""

    @property
    def label(self) -> str:
        """Name of the runtime, and its precision if it has one."""
        precision = self.settings.get("precision", "")
        return f"{self.settings['use']} {precision}".strip()

    @property
    def median(self) -> float:
        """Seconds of the median round."""
        return statistics.median(self.seconds)

    def require_near(
        self,
        vectors: Sequence[NDArray[np.float32]],
        expected: Sequence[NDArray[np.float32]],
        least: float,
    ) -> None:
        """Raise `TrialError` if the vectors of an encoder differ too much from the reference's."""
        for actual, right in zip(vectors, expected, strict=True):
            if actual.shape != right.shape:
                raise TrialError(
                    f"its vectors have the shape {actual.shape}, those of the reference {right.shape}"
                )
            cosine, ratio = agreement(actual, right)
            if math.isnan(cosine):
                raise TrialError("its vectors have NaN or infinity")
            self.least_cosine = min(cosine, self.least_cosine)
            self.least_length_ratio = min(ratio, self.least_length_ratio)

        if self.least_cosine < least:
            raise TrialError(
                f"the least cosine to the reference is {self.least_cosine:.4f}, expected {least:g} or more"
            )
        if self.least_length_ratio < least:
            raise TrialError(
                f"of a vector and the reference's, the shorter has {self.least_length_ratio:.4f} of the "
                f"other's length, expected {least:g} or more"
            )

    def facts(self, texts: int) -> dict[str, Any]:
        """Return the record of the trial for the manifest; `texts` is the number of texts per round."""
        facts: dict[str, Any] = {
            "runtime": dict(self.settings),
            "dropped": self.dropped,
            "rounds": len(self.seconds),
        }
        if self.start_seconds is not None:
            facts["start_seconds"] = self.start_seconds
            facts["least_cosine"] = self.least_cosine
            facts["least_length_ratio"] = self.least_length_ratio
        if self.seconds:
            facts["texts_per_second"] = texts / self.median
        if self.score_difference is not None:
            facts["score_difference"] = self.score_difference
        return facts


def agreement(
    vectors: NDArray[np.float32], expected: NDArray[np.float32]
) -> tuple[float, float]:
    """Return the least cosine between vectors in the same row, and the least ratio of the shorter to the longer.

    Two zero vectors have cosine 1 and ratio 1. Both results are NaN if a number is not finite.
    """
    import numpy as np

    left, right = vectors.astype(np.float64), expected.astype(np.float64)
    lengths = np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=1)
    shorter, longer = np.minimum(*lengths), np.maximum(*lengths)
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = np.einsum("nw,nw->n", left, right) / (shorter * longer)
        ratios = shorter / longer
    cosines[shorter == 0] = 0.0
    cosines[longer == 0] = 1.0
    ratios[longer == 0] = 1.0
    return float(cosines.min()), float(ratios.min())


def sample_of_lengths(texts: Sequence[str], number: int) -> list[str]:
    """Return at most `number` distinct texts of all lengths, the shortest first."""
    ordered = sorted(dict.fromkeys(texts), key=len)
    if len(ordered) <= number:
        return ordered
    last = len(ordered) - 1
    return [ordered[index * last // max(1, number - 1)] for index in range(number)]


def _trial(runtime: Runtime, threads: int | None) -> Trial:
    """Return a trial of a runtime. The runtime gets `threads` threads unless it sets the number itself."""
    if threads is not None:
        runtime = runtime.with_threads(threads)
    return Trial(unstructure(runtime), runtime)


@attrs.define(eq=False)
class Comparison:
    """Comparison of the candidates with the reference. Each encodes the same texts in its own process."""

    settings: Fastest
    recipe: Recipe
    texts: Mapping[str, Sequence[str]]
    """Name of an encoder -> texts that it encodes in each round."""
    reference: Trial
    processes: ExitStack
    """Stack whose `close` ends the processes."""
    expected: Sequence[NDArray[np.float32]] = ()
    """The reference's vectors: one array for each encoder, in the order of `texts`."""
    scores: Mapping[str, float] = attrs.field(factory=dict)
    """The reference's scores by name; empty until a candidate's scores are compared with them."""

    def start(self, trials: Sequence[Trial]) -> None:
        """Start all processes and compare their first vectors. Raises `RunError` if the reference fails."""
        self._start(self.reference, PATIENCE * self.settings.seconds)
        if self.reference.dropped:
            raise RunError(
                f"the reference of `fastest` fails, `{self.reference.settings['use']}`: "
                f"{self.reference.dropped}; name another `reference`, or a runtime"
            )
        for trial in trials:
            if trial is not self.reference:
                self._start(trial, self.settings.seconds)

    def _start(self, trial: Trial, seconds: float) -> None:
        """Start the process of a trial, and drop the trial if it fails or its vectors differ."""
        runtime = trial.runtime
        if runtime is None:
            return
        start = time.perf_counter()
        try:
            _require_fit(runtime, self.recipe)
            recipe = attrs.evolve(self.recipe, runtime=runtime)
            task = Task(recipe, self.texts, self.settings.scored_texts)
            process = self.processes.enter_context(closing(TrialProcess(task)))
            vectors = process.encode(seconds).vectors
            trial.start_seconds = time.perf_counter() - start
            if trial is self.reference:
                self.expected = vectors
            trial.require_near(vectors, self.expected, self.settings.least_cosine)
        except Exception as error:  # noqa: BLE001 - a fault of a plugin must drop only its runtime
            trial.dropped = reason_of(error)
            return

        trial.process = process

    def time(self, trials: Sequence[Trial]) -> None:
        """Time the candidates in rounds. Every second round is in reverse order."""
        running = [trial for trial in trials if trial.process is not None]
        end = time.perf_counter() + self.settings.seconds * len(running)
        for _ in range(self.settings.rounds):
            for trial in running:
                self._time(trial)
            running = [trial for trial in reversed(running) if not trial.dropped]
            if time.perf_counter() > end:
                return

    def _time(self, trial: Trial) -> None:
        """Time one round of a trial, and drop the trial if it fails or its vectors differ."""
        assert trial.process is not None
        try:
            answer = trial.process.encode(self.settings.seconds)
            trial.require_near(
                answer.vectors, self.expected, self.settings.least_cosine
            )
        except TrialError as error:
            trial.dropped = str(error)
            return
        trial.seconds.append(answer.seconds)

    def fastest_with_near_scores(self, trials: Sequence[Trial]) -> Trial | None:
        """Return the fastest candidate whose scores are near to the reference's; None if no candidate is left.

        Raises:
            RunError: if the reference fails.
        """
        remaining = [trial for trial in trials if trial.process and not trial.dropped]
        remaining.sort(key=lambda trial: trial.median)
        for trial in remaining:
            if trial is self.reference or self.settings.scored_texts == 0:
                return trial
            try:
                self._require_near_scores(trial)
            except TrialError as error:
                trial.dropped = str(error)
                continue
            return trial
        return None

    def _require_near_scores(self, trial: Trial) -> None:
        """Raise `TrialError` if a score of a trial differs too much from the reference's."""
        seconds = PATIENCE * self.settings.seconds
        assert self.reference.process is not None
        assert trial.process is not None
        if not self.scores:
            try:
                self.scores = self.reference.process.score(seconds)
            except TrialError as error:
                raise RunError(
                    f"the reference of `fastest` gives no scores: {error}; lower `scored_texts`, or set it to 0"
                ) from error

        scores = trial.process.score(seconds)
        differences = [0.0]
        for name, expected in self.scores.items():
            score = scores.get(name, math.nan)
            differences.append(abs(score - expected))
            # With `not`, a NaN is refused, too.
            if not differences[-1] <= self.settings.score_difference:
                raise TrialError(
                    f"the score {name.partition('/')[2]} is {score:.2f}, that of the reference "
                    f"{expected:.2f}, and a difference of {self.settings.score_difference:g} is allowed"
                )

        if self.scores:
            trial.score_difference = max(differences)


def _require_fit(runtime: Runtime, recipe: Recipe) -> None:
    """Raise `TrialError` if a runtime is not available here, or cannot run an encoder of the recipe."""
    reason = runtime.unavailable()
    if reason is not None:
        raise TrialError(reason)
    for encoder in recipe.encoders.values():
        for message in runtime_misfits(runtime, encoder):
            raise TrialError(message)
