"""The cost of encoding a text: time, operations, passes, tokens, memory, parameters."""

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
    EvaluatorTraits,
    PlacedEncoder,
    Prepared,
    RaggedVectors,
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

    A sample of its distinct texts is encoded on its own, with the `max_length` of the recipe and the prompts
    that the texts have in that evaluation; no vector comes from the cache or from a pass that cells of a study
    share. These scores are counts, and equal on all machines with equal batches:

    - `passes`: passes through the backbone per text. Every prompt is a pass, and so is an auxiliary one.
    - `tokens`: computed tokens per text, special tokens and template included, padding left out. A prefix
      that all texts of the sample share is computed once, where the backbone can do that.
    - `tokens-unshared`: the same, with the shared prefix in every text.
    - `padding`: padding tokens per text.
    - `operations`: billions of floating-point operations per text, two per multiply-add, of matrix products
      and attention as they are computed, with padding, shared prefixes and additional passes. Only on
      PyTorch, in one process and without a compiler.
    - `memory`: MiB of the weights and of the largest set of tensors that live at one time in a pass. A second
      copy of the weights and the memory of libraries are left out; the evaluator `memory` includes them.
      Only where `operations` are counted.
    - `parameters`: millions, including those of layers that are not run.

    These scores are times on one machine, which the protocol describes, from strings to vectors in memory. Each
    is the shortest of `repeats` passes, since other programs can only add to it:

    - `seconds`: per 1,000 texts.
    - `processor-seconds`: of all threads of the process, per 1,000 texts; hardly affected by other programs.
      Only on a CPU, and then before `seconds`.

    `primary` is minus the seconds.
    """

    name: ClassVar[str] = "encoding-cost"

    texts: Evaluator
    """Evaluator whose texts are encoded, such as `{ use = "senteval-sts", tasks = ["STSB-dev"] }`; nothing is
    scored. It must be one that prepares lists of texts."""
    sample: int = attrs.field(default=512, validator=ge(1))
    """Number of texts, evenly spaced in the sorted list of distinct ones; all of them if there are fewer."""
    repeats: int = attrs.field(default=3, validator=ge(1))
    """Number of timed passes, after one that is counted."""

    @property
    def traits(self) -> EvaluatorTraits:
        """Whether the data of `texts` is development data."""
        return EvaluatorTraits(
            development=self.texts.traits.development, reads=ALL_OUTPUTS
        )

    def files(self) -> Iterable[Path]:
        """Return the files that `texts` reads."""
        return self.texts.files()

    def prepare(self) -> DrivesEncoder:
        """Read the data of `texts`.

        Raises:
            DataError: if it cannot be used.
            RunError: if it prepares no lists of texts.
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
        """Count and time the passes.

        Raises:
            RunError: if the encoder does not let its batches be counted.
        """
        counting_encoders: list[_CountingEncoder] = []

        def count(placed: PlacedEncoder) -> PlacedEncoder:
            counting_encoders.append(_CountingEncoder(placed))
            return counting_encoders[-1]

        if (alone := encoder.through(count)) is None:
            raise RunError(
                f"`{self.name}` needs an encoder whose batches it can see (`through`); measure it as an "
                "encoder of a recipe"
            )
        texts = list(task_of_text)
        for text_task in dict.fromkeys(task_of_text.values()):
            # The protocol says which prompts the texts had.
            encoder.for_task(text_task)
        encode = partial(_encode, _by_prompt(alone, task_of_text))
        # The first pass is not timed: kernels are chosen in it, shapes compiled, weights copied.
        encode()
        (counting,) = counting_encoders
        counts = counting.tally.over(len(texts))
        encoder.progress(self.name, 1, self.repeats + 2)
        computed = list(_computed(counting, encode, encoder.machine, len(texts)))
        encoder.progress(self.name, 2, self.repeats + 2)
        seconds, processor_seconds = [], []
        for done in range(self.repeats):
            counting.forget_prefix()
            start, processor_start = time.perf_counter(), time.process_time()
            encode()
            elapsed = time.perf_counter() - start
            processor_time = time.process_time() - processor_start
            seconds.append(1000 * elapsed / len(texts))
            processor_seconds.append(1000 * processor_time / len(texts))
            encoder.progress(self.name, done + 3, self.repeats + 2)
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
) -> list[tuple[TextEncoder, list[str]]]:
    """Return the encoder with the prompt of each task, and the texts that have it."""
    tasks = dict.fromkeys(task_of_text.values())
    encoders = {task: encoder.for_task(task) for task in tasks}
    texts_of: dict[int, tuple[TextEncoder, list[str]]] = {}
    for text, task in task_of_text.items():
        with_prompt = encoders[task]
        _, texts = texts_of.setdefault(id(with_prompt), (with_prompt, []))
        texts.append(text)
    return list(texts_of.values())


def _encode(parts: Sequence[tuple[TextEncoder, Sequence[str]]]) -> None:
    for encoder, texts in parts:
        if encoder.output == "tokens":
            encoder.encode_tokens(texts)
        else:
            encoder.encode(texts)


def _computed(
    counting: _CountingEncoder,
    encode: Callable[[], object],
    machine: Mapping[str, Any],
    texts: int,
) -> Iterator[tuple[str, str, float]]:
    """Yield operations, memory and parameters with their units, as far as PyTorch reports them."""
    if counting.module is None:
        return
    from sentbed_evaluators._torch import counted_pass

    # With several processes, only the rows of this one would be counted.
    if machine.get("processes", 1) == 1:
        counting.forget_prefix()
        counts = counted_pass.counted(encode)
        # Other engines run the module by functions of their own.
        if counts.operations:
            memory = counted_pass.weight_bytes(counting.module) + counts.peak
            yield "operations", "GFLOP", counts.operations / 1e9 / texts
            yield "memory", "MiB", memory / 2**20
    yield "parameters", "millions", counted_pass.parameters(counting.module) / 1e6


@attrs.define
class _Tally:
    """Counts over the batches that an engine has encoded."""

    rows: int = 0
    tokens: int = 0
    """Tokens without padding and without the shared prefix."""
    prefixes: int = 0
    """Tokens of the shared prefixes, each computed once."""
    repeated: int = 0
    """Tokens of the shared prefixes, in every row."""
    padding: int = 0

    def over(self, texts: int) -> dict[str, float]:
        """Return the counts per text, for `texts` texts."""
        return {
            "passes": self.rows / texts,
            "tokens": (self.tokens + self.prefixes) / texts,
            "tokens-unshared": (self.tokens + self.repeated) / texts,
            "padding": self.padding / texts,
        }


class _CountingEncoder(PlacedEncoder):
    """A placed encoder that counts the batches that it encodes."""

    def __init__(self, placed: PlacedEncoder) -> None:
        self.placed, self.tally = placed, _Tally()
        self.width, self.shares_prefix = placed.width, placed.shares_prefix
        self.asynchronous, self.module = placed.asynchronous, placed.module
        self.last: NDArray[np.int64] | None = None
        """The prefix of the batch before."""
        self.first: TokenBatch | None = None
        """The first batch."""
        self.gives_tokens = False
        """Whether vectors of tokens were asked for."""

    def encode(self, batch: TokenBatch) -> NDArray[np.float32]:
        return next(self.encode_batches([batch]))

    def encode_tokens(self, batch: TokenBatch) -> RaggedVectors:
        self.gives_tokens = True
        return self.placed.encode_tokens(self._count(batch))

    def encode_batches(
        self, batches: Iterable[TokenBatch]
    ) -> Iterator[NDArray[np.float32]]:
        return self.placed.encode_batches(map(self._count, batches))

    def plan(self, lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]] | None:
        return self.placed.plan(lengths)

    def _count(self, batch: TokenBatch) -> TokenBatch:
        """Count a batch and return it."""
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
            if self.last is None or not np.array_equal(self.last, batch.prefix):
                tally.prefixes += len(batch.prefix)
            tally.repeated += rows * len(batch.prefix)
        self.first, self.last = self.first or batch, batch.prefix
        return batch

    def forget_prefix(self) -> None:
        """Make the engine drop the states of the prefix, by encoding with a prefix that is a token shorter."""
        import numpy as np

        if (batch := self.first) is None or batch.prefix is None:
            return
        last = np.full((len(batch.input_ids), 1), batch.prefix[-1])
        mask = batch.attention_mask
        if mask is not None:
            mask = np.concatenate([np.ones_like(last), mask], axis=1)
        shorter = attrs.evolve(
            batch,
            input_ids=np.concatenate([last, batch.input_ids], axis=1),
            attention_mask=mask,
            prefix=batch.prefix[:-1],
        )
        if self.gives_tokens:
            self.placed.encode_tokens(shorter)
        else:
            self.placed.encode(shorter)
