"""The evaluator `encoding-cost`: time, operations, passes, tokens, memory and parameters of encoding texts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from attrs.validators import ge
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

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attrs.frozen
class EncodingCost(Evaluator):
    """Cost of encoding the texts of another evaluation, as columns beside a study's scores.

    A sample of the distinct texts of that evaluation is encoded separately, with the `max_length` of the recipe
    and the prompts that the texts have in that evaluation. No vector is taken from the cache, or from a pass that
    several cells of a study share. The following scores are counts; on all machines that form the same batches,
    they are equal:

    - `passes`: number of passes through the backbone per text. Each prompt of an encoder takes one pass, and the
      auxiliary prompt of an intervention takes another.
    - `tokens`: number of computed tokens per text, with special tokens and template, without padding. If all
      texts of the sample share a prefix and the backbone can compute it once, it counts once.
    - `tokens-unshared`: the same number if the shared prefix were computed with every text.
    - `padding`: number of padding tokens per text.
    - `operations`: billions of floating-point operations per text, two per multiply-add, in matrix products and
      attention. Padding and additional passes are included, and a shared prefix counts once. The score exists
      only on PyTorch, in one process and without a compiler.
    - `memory`: MiB of the weights and of the largest set of tensors that exist at one time in a pass. A second
      copy of the weights and the memory of libraries are left out; the evaluator `memory` includes them. The
      score exists only where `operations` does.
    - `parameters`: millions of parameters, including those of layers that are not run.

    The following scores are times, from strings to vectors in memory. They hold for one machine, which the
    protocol describes. Each is the shortest of `repeats` passes, since other programs can only make a pass
    longer:

    - `seconds`: time per 1,000 texts.
    - `processor-seconds`: processor time of all threads of the process per 1,000 texts, which other programs
      hardly affect. The score exists only on a CPU, and then it is before `seconds`.

    `primary` is minus the score `seconds`.
    """

    name: ClassVar[str] = "encoding-cost"

    texts: Evaluator
    """Evaluator whose texts are encoded, such as `{ use = "senteval-sts", tasks = ["STSB-dev"] }`. Its scores are
    not computed. It must be an evaluator that prepares lists of texts."""
    sample: int = attrs.field(default=512, validator=ge(1))
    """Number of texts to encode, evenly spaced in the sorted list of distinct texts. If there are fewer texts,
    all are encoded."""
    repeats: int = attrs.field(default=3, validator=ge(1))
    """Number of timed passes over the sample. In one untimed pass before them, batches are counted."""

    reads = ALL_OUTPUTS
    two_sided = False

    @property
    def development(self) -> bool:
        """Whether the evaluator `texts` is for development."""
        return self.texts.development

    def files(self) -> Iterable[Path]:
        """Return the files that `texts` reads."""
        return self.texts.files()

    def prepare(self) -> DrivesEncoder:
        """Read the data of the evaluator `texts`.

        Raises:
            DataError: if its data is missing or malformed, or has no text.
            RunError: if it drives the encoder itself and prepares no lists of texts.
        """
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
        return DrivesEncoder(
            lambda encoder: self._evaluate(encoder, task_of_text), lambda: distinct
        )

    def _evaluate(
        self, encoder: TextEncoder, task_of_text: Mapping[str, TextTask]
    ) -> Evaluation:
        """Encode the sample, count batches and operations, and time the passes.

        Raises:
            RunError: if the encoder is none of a recipe.
        """
        counting = _CountingEncoder(encoder.unwrapped.placed)
        counted_encoder = attrs.evolve(encoder.unwrapped, placed=counting)
        texts = list(task_of_text)
        encode = partial(_encode, counted_encoder, _by_prompt(encoder, task_of_text))

        # The first pass is not timed: in it, kernels are chosen, shapes compiled and weights copied.
        encode()
        counts = counting.tally.per_text(len(texts))
        encoder.progress(self.name, 1, self.repeats + 2)

        computed = list(_computed(counting, encode, encoder.machine, len(texts)))
        encoder.progress(self.name, 2, self.repeats + 2)

        seconds, processor_seconds = [], []
        for repeat in range(self.repeats):
            counting.forget_prefix()
            elapsed, processor_time = _timed(encode)
            seconds.append(1000 * elapsed / len(texts))
            processor_seconds.append(1000 * processor_time / len(texts))
            encoder.progress(self.name, repeat + 3, self.repeats + 2)

        counted = {
            "id": self.name,
            "texts": self.texts.name,
            "sample": len(texts),
            "data": texts_digest(texts),
        }
        timed = {**counted, "repeats": self.repeats, "machine": dict(encoder.machine)}
        rate = "per 1,000"
        score = partial(Score, direction="lower", axis="cost")
        scores = []
        if encoder.device == "cpu":
            shortest = min(processor_seconds)
            scores.append(score("processor-seconds", rate, shortest, timed))
        scores.append(score("seconds", rate, min(seconds), timed))
        for task, value in counts.items():
            scores.append(score(task, "per text", value, counted))
        for task, unit, value in computed:
            scores.append(score(task, unit, value, counted))
        return Evaluation(tuple(scores), primary=-min(seconds))


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


def _encode(
    encoder: TextEncoder, parts: Sequence[tuple[TextTask, Sequence[str]]]
) -> None:
    """Encode the texts of each prompt, into a vector for each text or for each token."""
    for task, texts in parts:
        encoder.encode(texts, task)


def _timed(encode: Callable[[], object]) -> tuple[float, float]:
    """Call `encode`; return the elapsed seconds, and the seconds of processor time."""
    start, processor_start = time.perf_counter(), time.process_time()
    encode()
    elapsed = time.perf_counter() - start
    return elapsed, time.process_time() - processor_start


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


@attrs.define
class _Tally:
    """Numbers of rows and tokens in the batches that an engine has encoded."""

    rows: int = 0
    tokens: int = 0
    """Tokens, except padding and shared prefixes."""
    prefix_tokens: int = 0
    """Tokens of the shared prefixes, each of which is computed once."""
    repeated_prefix_tokens: int = 0
    """Tokens of the shared prefixes if they were computed for every row."""
    padding: int = 0

    def per_text(self, texts: int) -> dict[str, float]:
        """Return the scores that follow from the counts, divided by the number of texts."""
        return {
            "passes": self.rows / texts,
            "tokens": (self.tokens + self.prefix_tokens) / texts,
            "tokens-unshared": (self.tokens + self.repeated_prefix_tokens) / texts,
            "padding": self.padding / texts,
        }


class _CountingEncoder(PlacedEncoder):
    """An encoder on its device that counts the rows and tokens of the batches that it encodes."""

    def __init__(self, placed: PlacedEncoder) -> None:
        self.placed, self.tally = placed, _Tally()
        self.width, self.shares_prefix = placed.width, placed.shares_prefix
        self.asynchronous, self.module = placed.asynchronous, placed.module
        self.last_prefix: NDArray[np.int64] | None = None
        """Shared prefix of the previous batch."""
        self.first_batch: TokenBatch | None = None

    def encode(self, batch: TokenBatch) -> Any:
        return next(self.encode_batches([batch]))

    def encode_batches(self, batches: Iterable[TokenBatch]) -> Iterator[Any]:
        return self.placed.encode_batches(map(self._count, batches))

    def plan(self, lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]] | None:
        return self.placed.plan(lengths)

    def _count(self, batch: TokenBatch) -> TokenBatch:
        """Add a batch to the tally, and return the batch."""
        import numpy as np

        tally, rows = self.tally, len(batch.input_ids)
        for part in (batch, batch.auxiliary):
            if part is None:
                continue
            size = tokens = part.input_ids.size
            if part.attention_mask is not None:
                tokens = int(part.attention_mask.sum())
            tally.rows += rows
            tally.tokens += tokens
            tally.padding += size - tokens

        if batch.prefix is not None:
            last = self.last_prefix
            if last is None or not np.array_equal(last, batch.prefix):
                tally.prefix_tokens += len(batch.prefix)
            tally.repeated_prefix_tokens += rows * len(batch.prefix)

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
