"""The encoder that evaluators receive: it shows progress, uses a vector store, and notes prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from sentbed._encoder.batching import Progress, require_texts
from sentbed.protocols import (
    ANY_TASK,
    AnyEncoder,
    Encoded,
    Output,
    PartProgress,
    Score,
    Similarity,
    TextEncoder,
    TextTask,
    VectorStore,
)

_ANY_SIDE = "text"
"""Key, in a score's protocol, of the prompt for texts that are neither queries nor documents."""


@attrs.define(eq=False)
class EvaluatedEncoder(TextEncoder):
    """An encoder with progress, a vector store, and the prompts that its texts have had."""

    encoder: AnyEncoder
    task_type: str
    """Name of the evaluator. It is the type of tasks that do not set a type."""
    report_progress: PartProgress | None = None
    store: VectorStore | None = None
    task_prompts: dict[str, dict[str, Any]] = attrs.field(factory=dict, init=False)
    """Prompts that the texts of each task had, by side, if the recipe has `task_prompts`; for protocols."""
    spaces: dict[object, Any] = attrs.field(factory=dict, init=False)
    """Keys under which the store has the encoder's vectors, by prompt."""

    @property
    def output(self) -> Output:  # type: ignore[override]  # the encoder's, and read only
        output: Output = self.encoder.output
        return output

    @property
    def similarity(self) -> Similarity | None:  # type: ignore[override]  # as `output`
        similarity: Similarity | None = self.encoder.similarity
        return similarity

    @property
    def device(self) -> str:
        return str(self.encoder.device)

    @property
    def machine(self) -> Mapping[str, Any]:
        machine: Mapping[str, Any] = self.encoder.machine
        return machine

    def prompt_for(self, task: TextTask) -> object:
        return self._for_task(task).prompt_for(ANY_TASK)

    def _for_task(self, task: TextTask) -> AnyEncoder:
        """Return the encoder with its prompt for a task, and note the prompt."""
        if not self.encoder.recipe.task_prompts:
            return self.encoder
        task = attrs.evolve(task, type=task.type or self.task_type)
        encoder = self.encoder.for_task(task)
        prompts = self.task_prompts.setdefault(task.name, {})
        prompts[task.side or _ANY_SIDE] = encoder.prompt_facts()
        return encoder

    def prompt_facts(self, score: Score) -> dict[str, Any]:
        """Return the prompts with which the texts of a score were encoded, for its protocol.

        The result is empty if the recipe has no `task_prompts`.
        """
        if not self.task_prompts:
            return {}
        prompts = self.task_prompts.get(score.task) or self.task_prompts.get("")
        if prompts is None:
            # The score is a mean over tasks; without `of`, over all tasks.
            tasks = score.protocol.get("of", self.task_prompts)
            prompts_by_task = {}
            for task, prompts_of_task in self.task_prompts.items():
                if task in tasks:
                    prompts_by_task[task] = prompts_of_task
            return {"prompt": prompts_by_task}
        if prompts.keys() == {_ANY_SIDE}:
            return {"prompt": prompts[_ANY_SIDE]}
        return {"prompt": prompts}

    @property
    def unwrapped(self) -> AnyEncoder:
        return self.encoder

    def encode(self, texts: Sequence[str], task: TextTask = ANY_TASK) -> Encoded:
        encoder = self._for_task(task)
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            self.progress("encode", done, len(texts))

        vectors = self._vectors(encoder, texts, advance)
        if done < len(texts):
            # A store encodes a text once that occurs several times.
            advance(len(texts) - done)
        return vectors

    def _vectors(
        self,
        encoder: AnyEncoder,
        texts: Sequence[str],
        progress: Progress,
    ) -> Encoded:
        """Return the vectors of texts, those from the store that it has."""
        # The store has one vector per text.
        if self.store is None or self.output == "tokens":
            vectors: Encoded = encoder.encode(texts, progress=progress)
            return vectors

        require_texts(texts)
        prompt = encoder.prompt_for(ANY_TASK)
        if prompt not in self.spaces:
            self.spaces[prompt] = self.store.space(encoder)
        return self.store.encode(
            self.spaces[prompt],
            texts,
            lambda missing: encoder.encode(missing, progress=progress),
            encoder.width,
            progress,
        )

    def progress(self, what: str, done: int, total: int) -> None:
        if self.report_progress is not None:
            self.report_progress(what, done, total)
