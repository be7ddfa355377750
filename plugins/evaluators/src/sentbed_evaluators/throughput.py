"""The evaluator `throughput`: texts per second of an encoder."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from itertools import product
from typing import ClassVar

import attrs
from attrs.validators import and_, deep_iterable, ge, le, min_len
from sentbed.protocols import DrivesEncoder, Evaluation, Evaluator, Score, TextEncoder

_LIST = (
    "the and that was for with his her not you have this from they she had each one were all "
    "been year said when who will more if out so up what them can some time such into him "
    "then two its now only like over new man our may come down know day made work back here "
    "life much old way well long"
)
WORDS = _LIST.split()
"""Short and common words. In most vocabularies, each is a single token."""

SHORTEST = 16
"""Smallest length of texts in tokens. Texts differ only in their first three words, which must not be cut off:
they have at most 14 bytes, and so at most 14 tokens."""


@attrs.frozen
class Throughput(Evaluator):
    """Texts per second, by their length in tokens.

    For a score of length n, every text has exactly n tokens, special tokens included, so that nothing is padded.
    The tokens of a prompt's template are not included in n. All texts are different. The time is from strings to
    vectors in memory and includes tokenisation. No vector is taken from the cache.

    `examples/s` is the median rate of `repeats` passes over the same texts, after `warmup` passes that are not
    timed. `spread` is the difference between the rates of the fastest and the slowest pass, in percent of the
    median. Rates are not multiplied by 100. They hold for one machine, which the protocol describes.

    Sentence-T5 measures throughput in its appendix A.

    `primary` is the first score.
    """

    name: ClassVar[str] = "throughput"

    lengths: tuple[int, ...] = attrs.field(
        default=(128,), validator=and_(min_len(1), deep_iterable(ge(SHORTEST)))
    )
    """Numbers of tokens per text, each at least 16. The encoder's `max_length` has no effect."""
    batch_sizes: tuple[int, ...] = attrs.field(
        default=(), validator=deep_iterable(and_(ge(1), le(len(WORDS) ** 3)))
    )
    """Numbers of texts per call of the encoder. The engine may split them into smaller batches. Default: all
    texts in one call."""
    examples: int = attrs.field(default=256, validator=and_(ge(1), le(len(WORDS) ** 3)))
    """Number of texts per pass, rounded up to whole batches."""
    repeats: int = attrs.field(default=3, validator=ge(1))
    """Number of timed passes."""
    warmup: int = attrs.field(default=1, validator=ge(0))
    """Number of untimed passes before the timed ones. They choose kernels, compile shapes and fill caches."""

    def check(self) -> Iterator[str]:
        """Yield a problem for each list that names a number twice, whose scores could not be told apart."""
        lists = {"lengths": self.lengths, "batch_sizes": self.batch_sizes}
        for name, values in lists.items():
            if len(set(values)) != len(values):
                yield f"`{name}` is {list(values)!r}; name each number once"

    def prepare(self) -> DrivesEncoder:
        """Return an evaluation that times the encoding of texts.

        It also has texts on which a tokenizer may be trained; they contain all words of the timed texts.
        """
        return DrivesEncoder(
            self._evaluate, lambda: texts_of(len(WORDS), max(self.lengths))
        )

    def _evaluate(self, encoder: TextEncoder) -> Evaluation:
        """Time passes over texts of each length, in batches of each size.

        Raises:
            RunError: if the encoder is none of a recipe.
            ModelError: if the encoder has too few positions for a length.
        """
        cases = list(product(self.lengths, self.batch_sizes or (None,)))
        passes = self.warmup + self.repeats
        encode = encoder.unwrapped.encode
        scores = []
        for place, (length, size) in enumerate(cases):
            batches = self._batches(length, size)
            examples = sum(map(len, batches))
            rates = []
            for done in range(passes):
                start = time.perf_counter()
                for batch in batches:
                    encode(batch, max_length=length)
                seconds = time.perf_counter() - start
                passes_done = place * passes + done + 1
                encoder.progress("throughput", passes_done, len(cases) * passes)
                if done >= self.warmup:
                    rates.append(examples / seconds)

            task = f"length-{length}"
            if size is not None:
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
            scores.append(Score(task, "examples/s", median, protocol))
            spread = 100 * (max(rates) - min(rates)) / median
            scores.append(Score(task, "spread", spread, protocol, direction="lower"))
        return Evaluation(tuple(scores), primary=scores[0].value)

    def _batches(self, length: int, size: int | None) -> list[list[str]]:
        """Return batches of `size` texts of a length; all texts are different."""
        size = size or self.examples
        count = -(-self.examples // size)
        texts = texts_of(count * size, length)
        return [texts[start : start + size] for start in range(0, len(texts), size)]


def texts_of(count: int, length: int) -> list[str]:
    """Return `count` different texts of `length` words each, which have at least `length` tokens.

    Texts differ from the first word on, since an engine may compute a prefix only once if all texts share it.
    """
    words = len(WORDS)
    rest = [WORDS[place % words] for place in range(3, length)]
    texts = []
    for row in range(count):
        # The first three words are the digits of the row's number in base `words`, the last digit first.
        first_three = [WORDS[row // words**place % words] for place in range(3)]
        texts.append(" ".join(first_three + rest))
    return texts
