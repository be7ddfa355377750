"""The runtime `fastest`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import attrs
from attrs.validators import ge, gt, le, optional
from sentbed.errors import RuntimeUnavailableError
from sentbed.protocols import (
    EncodingWork,
    Engine,
    Runtime,
    RuntimeChoice,
    RuntimeTraits,
)


@attrs.frozen(kw_only=True)
class Fastest(Runtime):
    """The fastest installed runtime with vectors near to the reference's, chosen anew by each run, to encode.

    Each candidate is tried in a process of its own on texts of the recipe's evaluations. What fails, crashes,
    takes too long or gives other vectors is dropped; of the rest, the one with the most texts a second whose
    scores are near to the reference's is taken. The figures of all are in `runtime_choice` of the manifest.
    """

    name: ClassVar[str] = "fastest"
    traits = RuntimeTraits(
        untrainable="the runtime `fastest` only encodes; train on `cpu` or `cuda`, and evaluate the encoder on "
        "`fastest`",
        auxiliary=True,
        outputs=frozenset({"vector", "sparse", "tokens"}),
    )

    candidates: tuple[Runtime, ...] = ()
    """Runtimes to try, as they are set; default: every installed one in each of its `variants`, as far as they
    take the recipe's encoders. All are in memory at a time."""
    reference: Runtime | None = None
    """Runtime whose vectors count as right; default: `cpu` in fp32."""
    least_cosine: float = attrs.field(default=0.95, validator=[ge(-1), le(1)])
    """Least cosine of a text's vector to the reference's; the shorter of the two must have this share of the
    other's length, too."""
    score_difference: float = attrs.field(default=0.1, validator=ge(0))
    """Largest difference of a correlation from the reference's, such as Spearman's of an STS task, x 100."""
    scored_texts: int = attrs.field(default=10_000, validator=ge(0))
    """Texts of the evaluations whose scores are compared, for the fastest candidates only: the first ones of
    the recipe that have no more in sum. With 0, no score is."""
    texts: int = attrs.field(default=512, validator=ge(1))
    """Texts that each encoder encodes in a round: distinct ones of all lengths, from the shortest to the
    longest."""
    rounds: int = attrs.field(default=5, validator=ge(1))
    """Timed rounds, in which the candidates take turns. The best one counts, as other work on a machine only
    costs time."""
    seconds: float = attrs.field(default=60.0, validator=gt(0))
    """Seconds that a candidate has to start and encode the texts for the first time, and seconds after which
    no further round begins, for each candidate. Scores, where they are compared, may take ten times that."""
    threads: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Threads of candidates that set none."""

    def check(self) -> Iterator[str]:
        """Yield a problem for each runtime that cannot be a candidate."""
        for runtime in self._named():
            if isinstance(runtime, Fastest):
                yield "`fastest` is no candidate of itself; name another runtime"
            elif runtime.traits.processes > 1:
                yield (
                    f"the candidate `{runtime.name}` has {runtime.traits.processes} processes, and each is "
                    "tried in one; set `devices` and `nodes` to 1"
                )

    def _named(self) -> tuple[Runtime, ...]:
        if self.reference is None:
            return self.candidates
        return (*self.candidates, self.reference)

    def with_threads(self, threads: int) -> Fastest:
        """See `Runtime.with_threads`."""
        if self.threads is not None:
            return self
        return attrs.evolve(self, threads=threads)

    def chosen(self, work: EncodingWork) -> RuntimeChoice:
        """Try the candidates on a recipe's texts and return the fastest.

        Raises:
            RunError: if the evaluations have no texts, the reference fails, or no candidate is left.
        """
        from sentbed_workbench.runtime_trials import choose

        return choose(self, work)

    def build(self) -> Engine:
        """Raise an error: an engine is built by what was chosen."""
        raise RuntimeUnavailableError(
            "the runtime `fastest` chooses another one by the texts of a recipe's evaluations, when the recipe "
            "is run; here name a runtime, such as `taken` under `runtime_choice` in the `manifest.json` of a run"
        )
