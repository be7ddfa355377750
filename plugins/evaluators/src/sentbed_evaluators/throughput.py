"""Texts per second of an encoder."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from itertools import product
from typing import ClassVar

import attrs
from attrs.validators import and_, deep_iterable, ge, le, min_len
from sentbed import RunError
from sentbed.protocols import DrivesEncoder, Evaluation, Evaluator, Score, TextEncoder

_LIST = (
    "the and that was for with his her not you have this from they she had each one were all "
    "been year said when who will more if out so up what them can some time such into him "
    "then two its now only like over new man our may come down know day made work back here "
    "life much old way well long"
)
WORDS = _LIST.split()
"""Short, common words, each of which is a single token in most vocabularies."""

SHORTEST = 16
"""Smallest length in tokens. The three words that distinguish the texts have at most 14 bytes, so they are
never cut off."""


@attrs.frozen
class Throughput(Evaluator):
    """Texts per second, by their length in tokens.

    Every text has exactly that many tokens, special tokens included (a prompt's template comes on top), so
    that nothing is padded; all texts are different. The time is from strings to vectors in memory, tokenising
    included. No vector is taken from the cache. `examples/s` is the median of `repeats` passes over the same
    texts, after `warmup` passes that are not counted; `spread` is the difference of the fastest and the
    slowest pass, in percent of the median. Rates are not multiplied by 100; they hold for one machine, which
    the protocol describes.

    Sentence-T5 measures this in its appendix A.

    `primary` is the first score.
    """

    name: ClassVar[str] = "throughput"

    lengths: tuple[int, ...] = attrs.field(
        default=(128,), validator=and_(min_len(1), deep_iterable(ge(SHORTEST)))
    )
    """Tokens per text; at least 16 each. The encoder's own `max_length` does not matter here."""
    batch_sizes: tuple[int, ...] = attrs.field(
        default=(), validator=deep_iterable(ge(1))
    )
    """Texts per call; the engine may split them into smaller batches. Default: all of `examples`."""
    examples: int = attrs.field(default=256, validator=and_(ge(1), le(len(WORDS) ** 3)))
    """Texts per pass, rounded up to whole batches."""
    repeats: int = attrs.field(default=3, validator=ge(1))
    """Number of timed passes."""
    warmup: int = attrs.field(default=1, validator=ge(0))
    """Number of passes before the timed ones, in which kernels are chosen, shapes compiled and caches filled."""

    def check(self) -> Iterator[str]:
        """Yield problems with the parameters."""
        for name in ("lengths", "batch_sizes"):
            values = getattr(self, name)
            if len(set(values)) != len(values):
                yield f"`{name}` is {list(values)!r}; name each number once"
        largest = len(WORDS) ** 3
        if max(self.batch_sizes, default=0) > largest:
            yield f"`batch_sizes` has {max(self.batch_sizes)}; at most {largest:,} texts are different"

    def prepare(self) -> DrivesEncoder:
        """Return an evaluation that encodes and times texts; its texts for a tokenizer have all the words."""
        return DrivesEncoder(
            self._evaluate, lambda: texts_of(len(WORDS), max(self.lengths))
        )

    def _evaluate(self, encoder: TextEncoder) -> Evaluation:
        """Encode texts and time it.

        Raises:
            RunError: if the encoder's truncation length cannot be set.
            ModelError: if it has too few positions for the length.
        """
        cases = list(product(self.lengths, self.batch_sizes or (None,)))
        passes = self.warmup + self.repeats
        scores = []
        for place, (length, size) in enumerate(cases):
            at_length = encoder.at_length(length)
            if at_length is None:
                raise RunError(
                    f"`{self.name}` needs an encoder that cuts texts at so many tokens, and this one has no "
                    "length (`at_length`); measure it as an encoder of a recipe"
                )
            batches = self._batches(length, size)
            examples = sum(map(len, batches))
            rates = []
            for done in range(passes):
                start = time.perf_counter()
                for batch in batches:
                    at_length.encode(batch)
                seconds = time.perf_counter() - start
                passes_done = place * passes + done + 1
                encoder.progress("throughput", passes_done, len(cases) * passes)
                if done >= self.warmup:
                    rates.append(examples / seconds)
            # Place of the score in a plot over lengths or batches.
            coordinates = ["length"]
            task = f"length-{length}"
            if size is not None:
                coordinates.append("batch")
                task += f"-batch-{size}"
            protocol = {
                "id": "throughput",
                "aggregation": "median",
                "length": length,
                "batch": size or "all at once",
                "examples": examples,
                "repeats": self.repeats,
                "warmup": self.warmup,
                "text": "different, nothing padded; tokenising is timed",
                "machine": dict(encoder.machine),
            }
            median = statistics.median(rates)
            with_place = {**protocol, "coordinates": coordinates}
            scores.append(Score(task, "examples/s", median, with_place))
            spread = 100 * (max(rates) - min(rates)) / median
            scores.append(Score(task, "spread", spread, protocol, direction="lower"))
        return Evaluation(tuple(scores), primary=scores[0].value)

    def _batches(self, length: int, size: int | None) -> list[list[str]]:
        """Return different texts of a length, in batches of `size`."""
        size = size or self.examples
        count = -(-self.examples // size)
        texts = texts_of(count * size, length)
        return [texts[start : start + size] for start in range(0, len(texts), size)]


def texts_of(count: int, length: int) -> list[str]:
    """Return different texts of `length` words, and so of at least as many tokens.

    They differ from the first word on, since a prefix shared by all texts may be computed once.
    """
    words = len(WORDS)
    rest = [WORDS[place % words] for place in range(3, length)]
    texts = []
    for row in range(count):
        start = [WORDS[row // words**place % words] for place in range(3)]
        texts.append(" ".join(start + rest))
    return texts
