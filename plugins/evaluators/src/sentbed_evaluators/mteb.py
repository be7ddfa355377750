"""The evaluator `mteb`, and the conversion of encoders to mteb's models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from sentbed import DataError, RunError
from sentbed.protocols import (
    DrivesEncoder,
    Evaluation,
    Evaluator,
    TextEncoder,
)

from sentbed_evaluators.task_suites import average, mean_value, task_problems

if TYPE_CHECKING:
    from mteb import AbsTask

    from sentbed_evaluators._mteb.adapter import MTEBModel

_NOT_INSTALLED = (
    "the package `mteb` is not installed, and the evaluator `mteb` needs it; "
    "install it with `pip install 'sentbed-evaluators[mteb]'`"
)


@attrs.frozen
class MTEB(Evaluator):
    """Tasks of the Massive Text Embedding Benchmark, run by the library `mteb` (the extra `mteb`).

    The first score of a task is its main score as mteb defines it, x 100: the mean over splits and subsets, as
    on the leaderboard. If a task has several splits or subsets, a score for each of them follows, which is
    named after the metric and the split or subset. If there are several tasks, the mean of their main scores is
    the score `AVG`. `primary` is this mean; for a single task, it is the main score.

    Vectors are compared by the similarity that the encoder names, by default the cosine. If it names another
    similarity, the main score `cosine_spearman` becomes `spearman`. Metrics such as `max_ap` are the maximum over
    several similarities, which always include mteb's own.

    A text gets a prompt from the encoder's `task_prompts`, chosen by the name and type of mteb's task, and by
    whether the text is a query or a document; mteb's instruction takes the place of `{instruction}`. If no prompt
    matches, the text gets the encoder's `prompt`.

    Data comes from the Hugging Face Hub and is cached in `HF_HOME`; with `HF_HUB_OFFLINE=1`, only the cache is
    used. All data is loaded before the first text is encoded. mteb's own result files are neither written nor
    read. Messages about tasks, subsets, splits and data that do not exist are mteb's.
    """

    name: ClassVar[str] = "mteb"
    cites = ("muennighoff2023mteb",)

    tasks: tuple[str, ...] = ()
    """Names of tasks, such as `STSBenchmark`, `Banking77Classification` or `SciFact`, in the order of the report.
    `module:Class` is a task of your own: a subclass of `mteb.AbsTask` in a module that Python can import."""
    benchmark: str | None = None
    """Name of a benchmark, such as `MTEB(eng, v2)`, instead of `tasks`: its tasks, splits and languages are
    used."""
    languages: tuple[str, ...] = ()
    """Languages to restrict tasks to: only subsets with one of them are scored. Names are those of ISO 639-3,
    with or without a script (`eng`, `eng-Latn`). Default: all languages."""
    subsets: tuple[str, ...] = ()
    """Subsets to restrict tasks to, by mteb's names, such as `en` or `de-en`. Default: all subsets."""
    splits: tuple[str, ...] = ()
    """Splits to score, such as `validation`. Default: the splits on which mteb evaluates a task."""

    def check(self) -> Iterator[str]:
        """Yield a problem if the library is missing, and problems with the parameters."""
        if find_spec("mteb") is None:
            yield _NOT_INSTALLED
        expected = (
            "expected one of them; name tasks, such as `STSBenchmark`, or a benchmark"
        )
        if self.tasks and self.benchmark is not None:
            yield f"found both `tasks` and `benchmark`, {expected}"
        if not self.tasks and self.benchmark is None:
            yield f"found neither `tasks` nor `benchmark`, {expected}"
        if self.tasks:
            yield from task_problems(self.tasks, None, self.name)
        for field in ("languages", "subsets", "splits"):
            if self.benchmark is not None and getattr(self, field):
                yield f"`{field}` cannot change the benchmark `{self.benchmark}`; remove it, or name `tasks`"

    def prepare(self) -> DrivesEncoder:
        """Return an evaluation that mteb drives; mteb raises an error for a name that it does not have."""
        for problem in self.check():
            raise DataError(problem)
        with _kept_generators():
            # A wrong name ends a run before it trains. The tasks themselves are made anew for each evaluation,
            # since a task draws its samples from a generator of its own.
            self._requested_tasks()
        return DrivesEncoder(self._evaluate)

    def _requested_tasks(self) -> list[AbsTask]:
        """Return the tasks to score."""
        from sentbed_evaluators._mteb import tasks

        if self.benchmark is not None:
            return tasks.tasks_of_benchmark(self.benchmark)
        return tasks.find_tasks(self.tasks, self.languages, self.subsets, self.splits)

    def _evaluate(self, encoder: TextEncoder) -> Evaluation:
        """Load the data of all tasks, then let mteb evaluate them one after the other.

        Raises `RunError` if an embedding is not finite (or zero, for a classifier).
        """
        from sentbed_evaluators._mteb import tasks

        with _kept_generators():
            requested = self._requested_tasks()
            scores_of_tasks = []
            try:
                tasks.load(requested)
                for number, task in enumerate(requested):
                    encoder.progress("tasks", number, len(requested))
                    scores_of_tasks.append(tasks.score_task(encoder, task))
            finally:
                tasks.unload(requested)

        encoder.progress("tasks", len(requested), len(requested))

        main = [scores[0] for scores in scores_of_tasks]
        scores = tuple(chain.from_iterable(scores_of_tasks))
        if len(main) > 1:
            metrics = {score.metric for score in main}
            metric = metrics.pop() if len(metrics) == 1 else "main_score"
            details: dict[str, Any] = {}
            if self.benchmark:
                details["benchmark"] = self.benchmark
            scores = (*scores, average(main, metric, **details))

        return Evaluation(scores, mean_value(main))


def as_mteb_model(encoder: TextEncoder, name: str = "sentbed/encoder") -> MTEBModel:
    """Return an encoder, such as `sentbed.Encoder.load(...)`, as a model that `mteb.evaluate` accepts.

    mteb caches results by `name`, which has the form `OWNER/NAME`, and by a revision. The revision is a hash
    of everything that determines the vectors or, if the encoder cannot report that, a new one for each model.

    Raises:
        RunError: if the extra `mteb` is not installed.
        DataError: if `name` has another form.
    """
    if find_spec("mteb") is None:
        raise RunError(_NOT_INSTALLED)
    from sentbed_evaluators._mteb.adapter import MTEBModel, described

    if name.count("/") != 1:
        raise DataError(
            f"found the name {name!r}, mteb expects one of the form `OWNER/NAME`"
        )
    return MTEBModel(encoder, described(encoder, name))


@contextmanager
def _kept_generators() -> Iterator[None]:
    """Restore the states of the global random generators at the end.

    mteb seeds them when it creates a task. If they were not restored, a run that evaluates during training would
    draw the same dropout masks after every evaluation.
    """
    import random

    import numpy as np
    import torch

    with ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())
        devices: Iterable[int] = []
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            devices = range(torch.cuda.device_count())
        stack.enter_context(torch.random.fork_rng(devices=devices))
        yield
