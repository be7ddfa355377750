"""The evaluator `encoding-cost`: time, operations, passes, tokens, memory and parameters of encoding texts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from attrs.validators import and_, deep_iterable, ge, le
from sentbed import DataError, RunError
from sentbed.protocols import (
    DrivesEncoder,
    Evaluation,
    Evaluator,
    PlacedEncoder,
    Prepared,
    Score,
    TextEncoder,
    TextTask,
    TokenBatch,
)

from sentbed_evaluators.similarities import ALL_OUTPUTS
from sentbed_evaluators.text_lines import texts_digest
from sentbed_evaluators.texts_of_length import MOST, SHORTEST, WORDS, texts_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attrs.frozen
class EncodingCost(Evaluator):
    """Cost of encoding texts: those of another evaluation (`texts`), or texts of equal length (`lengths`).

    Nothing is taken from the cache, or from a pass that several cells of a study share. Times are from strings
    to vectors in memory and hold for one machine, which the protocol describes. Each is that of the fastest of
    `repeats` passes, since other programs can only make a pass longer.

    With `texts`, a sample of the distinct texts of that evaluation is encoded, with the `max_length` of the
    recipe and the prompts that the texts have there. The scores are columns beside a study's other scores.
    These are counts; on all machines that form the same batches, they are equal:

    - `passes`: number of passes through the backbone per text. Each prompt of an encoder takes one pass, and the
      auxiliary prompt of an intervention takes another.
    - `tokens`: number of computed tokens per text, with special tokens and template, without padding. If all
      texts of the sample share a prefix and the backbone can compute it once, it counts once.
    - `tokens-unshared`: the same number if the shared prefix were computed with every text.
    - `padding`: number of padding tokens per text.
    - `operations`: billions of floating-point operations per text, two per multiply-add, in matrix products and
      attention. Padding and additional passes are included, and a shared prefix counts once. The score exists
      only on PyTorch, in one process.
    - `memory`: MiB of the weights and of the largest set of tensors that exist at one time in a pass. A second
      copy of the weights and the memory of libraries are left out; the cost of the run includes them. The score
      exists only where `operations` does.
    - `parameters`: millions of parameters, including those of layers that are not run.

    These are times:

    - `seconds`: time per 1,000 texts.
    - `processor-seconds`: processor time of all threads of the process per 1,000 texts, which other programs
      hardly affect. The score exists only on a CPU, and then it is before `seconds`.

    `primary` is minus the score `seconds`.

    With `lengths`, there is one score for each length and size of batch: `examples/s`, the number of texts
    encoded in a second. For the length n, every text has exactly n tokens, special tokens included, so that
    nothing is padded; the tokens of a prompt's template come on top. All texts are different. Sentence-T5
    measures this throughput in its appendix A. `primary` is the first score.
    """

    name: ClassVar[str] = "encoding-cost"

    texts: Evaluator | None = None
    """Evaluator whose texts are encoded, such as `{ use = "senteval-sts", tasks = ["STSB-dev"] }`. Its scores are
    not computed. It must be an evaluator that prepares lists of texts."""
    lengths: tuple[int, ...] = attrs.field(
        default=(), validator=deep_iterable(ge(SHORTEST))
    )
    """Instead of `texts`: numbers of tokens per text, each at least 16. The encoder's `max_length` has no
    effect."""
    batch_sizes: tuple[int, ...] = attrs.field(
        default=(), validator=deep_iterable(ge(1))
    )
    """For `lengths`: numbers of texts per call of the encoder. The engine may split them into smaller batches.
    Default: all texts in one call."""
    sample: int = attrs.field(default=512, validator=and_(ge(1), le(MOST)))
    """Number of texts to encode: of `texts`, evenly spaced in the sorted list of distinct texts (if there are
    fewer, all are encoded); or of each of `lengths`."""
    repeats: int = attrs.field(default=3, validator=ge(1))
    """Number of timed passes over the sample, after one that is not timed: in it, kernels are chosen, shapes
    compiled and weights copied."""

    reads = ALL_OUTPUTS
    two_sided = False

    @property
    def development(self) -> bool:
        """Whether the evaluator `texts` is for development."""
        return self.texts is not None and self.texts.development

    def check(self) -> Iterator[str]:
        """Yield problems with the choice of texts."""
        if (self.texts is None) == (not self.lengths):
            yield (
                'expected either `texts`, such as `{ use = "senteval-sts" }`, or `lengths`, such as `[128]`; '
                "give one of them"
            )
        if self.batch_sizes and not self.lengths:
            yield "`batch_sizes` is for `lengths`; remove it"
        for size in self.batch_sizes:
            if size > self.sample:
                yield (
                    f"`batch_sizes` has {size}, but there are {self.sample} texts; raise `sample`, or take a "
                    "smaller size"
                )
        lists = {"lengths": self.lengths, "batch_sizes": self.batch_sizes}
        for name, values in lists.items():
            if len(set(values)) != len(values):
                yield f"`{name}` is {list(values)!r}; name each number once"

    def files(self) -> Iterable[Path]:
        """Return the files that `texts` reads."""
        if self.texts is None:
            return ()
        return self.texts.files()

    def prepare(self) -> DrivesEncoder:
        """Read the data of the evaluator `texts`, if there is one.

        Raises:
            DataError: if its data is missing or malformed, or has no text.
            RunError: if it drives the encoder itself and prepares no lists of texts.
        """
        for problem in self.check():
            raise DataError(problem)

        if self.texts is None:
            # On these texts, which have all words of the timed ones, a tokenizer may be trained.
            return DrivesEncoder(
                self._throughput, lambda: texts_of(len(WORDS), max(self.lengths))
            )

        prepared = self.texts.prepare()
        if not isinstance(prepared, Prepared):
            raise RunError(
                f"`{self.name}` measures the texts of `{self.texts.name}`, which drives the encoder itself "
                'and names none; set `texts` to another evaluator, such as `{ use = "senteval-sts" }`'
            )

        tasks: dict[str, TextTask] = {}
        for texts in prepared.lists.values():
            task = attrs.evolve(texts.task, type=texts.task.type or self.texts.name)
            for text in texts.both:
                tasks.setdefault(text, task)

        distinct = sorted(tasks)
        if not distinct:
            raise DataError(
                f"`{self.texts.name}` has no texts to encode; set `texts` to another evaluator"
            )

        count = min(self.sample, len(distinct))
        sample = [distinct[place * len(distinct) // count] for place in range(count)]
        task_of_text = {text: tasks[text] for text in sample}
        facts = {
            "id": self.name,
            "texts": self.texts.name,
            "sample": count,
            "data": texts_digest(sample),
        }

        return DrivesEncoder(
            lambda encoder: self._cost(encoder, task_of_text, facts), lambda: distinct
        )

    def _throughput(self, encoder: TextEncoder) -> Evaluation:
        """Time passes over texts of each length, in batches of each size.

        Raises:
            RunError: if the encoder is none of a recipe.
            ModelError: if the encoder has too few positions for a length.
        """
        scores = []
        cases = list(product(self.lengths, self.batch_sizes or (self.sample,)))
        for done, (length, size) in enumerate(cases):
            encoder.progress(self.name, done, len(cases))
            texts = texts_of(self.sample, length)
            encode = partial(_encode_batches, encoder.unwrapped, texts, size, length)
            encode()
            seconds, _ = self._fastest(encode)

            task = f"length-{length}"
            if self.batch_sizes:
                task += f"-batch-{size}"
            protocol = {
                "id": self.name,
                "length": length,
                "batch": size,
                "sample": self.sample,
                "repeats": self.repeats,
                "text": "different, nothing padded; tokenising is timed",
                "machine": dict(encoder.machine),
            }
            scores.append(Score(task, "examples/s", self.sample / seconds, protocol))

        encoder.progress(self.name, len(cases), len(cases))

        return Evaluation(tuple(scores), primary=scores[0].value)

    def _cost(
        self,
        encoder: TextEncoder,
        task_of_text: Mapping[str, TextTask],
        facts: Mapping[str, Any],
    ) -> Evaluation:
        """Encode the sample, count batches and operations, and time the passes.

        Raises:
            RunError: if the encoder is none of a recipe.
        """
        counting = _CountingEncoder(encoder.unwrapped.placed)
        counted_encoder = attrs.evolve(encoder.unwrapped, placed=counting)
        parts = _by_prompt(encoder, task_of_text)
        encode = partial(_encode_parts, counted_encoder, parts)
        count = len(task_of_text)

        encode()
        counted = counting.per_text(count)
        encoder.progress(self.name, 1, 3)
        computed = list(_computed(counting, encode, encoder.machine, count))
        encoder.progress(self.name, 2, 3)
        seconds, processor_seconds = self._fastest(encode, counting.forget_prefix)
        encoder.progress(self.name, 3, 3)

        timed = {**facts, "repeats": self.repeats, "machine": dict(encoder.machine)}
        score = partial(Score, direction="lower", axis="cost")
        in_time = partial(score, metric="per 1,000", protocol=timed)
        scores = []
        if encoder.device == "cpu":
            rate = 1000 * processor_seconds / count
            scores.append(in_time("processor-seconds", value=rate))
        scores.append(in_time("seconds", value=1000 * seconds / count))
        for task, value in counted.items():
            scores.append(score(task, "per text", value, facts))

        for task, unit, value in computed:
            scores.append(score(task, unit, value, facts))

        return Evaluation(tuple(scores), primary=-1000 * seconds / count)

    def _fastest(
        self,
        encode: Callable[[], object],
        before_each: Callable[[], object] = lambda: None,
    ) -> tuple[float, float]:
        """Call `encode` `repeats` times; return the least elapsed seconds, and the least of processor time."""
        elapsed = []
        processor_time = []
        for _ in range(self.repeats):
            before_each()
            start = time.perf_counter()
            processor_start = time.process_time()
            encode()
            elapsed.append(time.perf_counter() - start)
            processor_time.append(time.process_time() - processor_start)
        return min(elapsed), min(processor_time)


def _by_prompt(
    encoder: TextEncoder, task_of_text: Mapping[str, TextTask]
) -> list[tuple[TextTask, list[str]]]:
    """Return the texts by their prompt: for each prompt, a task that has it, and the texts of all such tasks."""
    groups: dict[object, tuple[TextTask, list[str]]] = {}
    for text, task in task_of_text.items():
        # The encoder notes each prompt that it chooses, for the protocol.
        _, texts = groups.setdefault(encoder.prompt_for(task), (task, []))
        texts.append(text)
    return list(groups.values())


def _encode_parts(
    encoder: TextEncoder, parts: Sequence[tuple[TextTask, Sequence[str]]]
) -> None:
    """Encode the texts of each prompt, into a vector for each text or for each token."""
    for task, texts in parts:
        encoder.encode(texts, task)


def _encode_batches(encoder: Any, texts: Sequence[str], size: int, length: int) -> None:
    """Encode texts in calls of `size` texts, each cut to `length` tokens."""
    for start in range(0, len(texts), size):
        encoder.encode(texts[start : start + size], max_length=length)


def _computed(
    counting: _CountingEncoder,
    encode: Callable[[], object],
    machine: Mapping[str, Any],
    texts: int,
) -> Iterator[tuple[str, str, float]]:
    """Yield name, unit and value of operations, memory and parameters, as far as PyTorch can count them."""
    if counting.module is None:
        return
    from sentbed_common.pass_cost import (
        parameters,
        pass_cost,
        weight_bytes,
    )

    # With several processes, only the rows of this one would be counted.
    if machine.get("processes", 1) == 1:
        counting.forget_prefix()
        cost = pass_cost(encode)
        # An engine that does not run the module with PyTorch has no operations that can be counted.
        if cost.operations:
            memory = weight_bytes(counting.module) + cost.peak_bytes
            yield "operations", "GFLOP", cost.operations / 1e9 / texts
            yield "memory", "MiB", memory / 2**20

    yield "parameters", "millions", parameters(counting.module) / 1e6


class _CountingEncoder(PlacedEncoder):
    """An encoder on its device that counts the rows and tokens of the batches that it encodes."""

    def __init__(self, placed: PlacedEncoder) -> None:
        self.placed = placed
        self.width = placed.width
        self.shares_prefix = placed.shares_prefix
        self.asynchronous = placed.asynchronous
        self.module = placed.module

        self.rows = 0
        self.tokens = 0
        self.padding = 0
        self.prefix_tokens = 0
        """Tokens of the shared prefixes, each of which is computed once."""
        self.repeated_prefix_tokens = 0
        """Tokens of the shared prefixes if they were computed for every row."""

        self.last_prefix: NDArray[np.int64] | None = None
        """Shared prefix of the previous batch."""
        self.first_batch: TokenBatch | None = None

    def per_text(self, texts: int) -> dict[str, float]:
        """Return the scores that follow from the counts, divided by the number of texts."""
        return {
            "passes": self.rows / texts,
            "tokens": (self.tokens + self.prefix_tokens) / texts,
            "tokens-unshared": (self.tokens + self.repeated_prefix_tokens) / texts,
            "padding": self.padding / texts,
        }

    def encode(self, batch: TokenBatch) -> Any:
        return next(self.encode_batches([batch]))

    def encode_batches(self, batches: Iterable[TokenBatch]) -> Iterator[Any]:
        return self.placed.encode_batches(map(self._count, batches))

    def plan(self, lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]] | None:
        return self.placed.plan(lengths)

    def _count(self, batch: TokenBatch) -> TokenBatch:
        """Add a batch to the counts, and return the batch."""
        import numpy as np

        rows = len(batch.input_ids)
        for part in (batch, batch.auxiliary):
            if part is None:
                continue
            size = tokens = part.input_ids.size
            if part.attention_mask is not None:
                tokens = int(part.attention_mask.sum())
            self.rows += rows
            self.tokens += tokens
            self.padding += size - tokens

        if batch.prefix is not None:
            last = self.last_prefix
            if last is None or not np.array_equal(last, batch.prefix):
                self.prefix_tokens += len(batch.prefix)
            self.repeated_prefix_tokens += rows * len(batch.prefix)

        self.last_prefix = batch.prefix
        if self.first_batch is None:
            self.first_batch = batch

        return batch

    def forget_prefix(self) -> None:
        """Make the engine drop the stored states of the shared prefix.

        For this, the first batch is encoded once more with a prefix that is one token shorter: its states replace
        the stored ones.
        """
        import numpy as np

        batch = self.first_batch
        if batch is None or batch.prefix is None:
            return
        last_token = np.full((len(batch.input_ids), 1), batch.prefix[-1])
        mask = batch.attention_mask
        if mask is not None:
            mask = np.concatenate([np.ones_like(last_token), mask], axis=1)
        batch_with_shorter_prefix = attrs.evolve(
            batch,
            input_ids=np.concatenate([last_token, batch.input_ids], axis=1),
            attention_mask=mask,
            prefix=batch.prefix[:-1],
        )
        self.placed.encode(batch_with_shorter_prefix)
