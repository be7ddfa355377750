"""The tasks of mteb, and any encoder as one of its models."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from sentbed import DataError, RunError
from sentbed.protocols import DrivesEncoder, Evaluation, Evaluator, EvaluatorTraits, TextEncoder

from sentbed_evaluators.tasks import average, task_problems

if TYPE_CHECKING:
    from sentbed_evaluators._mteb.adapter import MTEBModel

_NOT_INSTALLED = (
    "the package `mteb` is not installed, and the evaluator `mteb` needs it; "
    "install it with `pip install 'sentbed-evaluators[mteb]'`"
)
_TALKATIVE = (
    "mteb",
    "datasets",
    "huggingface_hub",
    "sentence_transformers",
    "transformers",
    "bitsandbytes",
    "httpx",
    "filelock",
)
"""Loggers, of which mteb's own are not the loudest."""


@attrs.frozen
class MTEB(Evaluator):
    """Tasks of the Massive Text Embedding Benchmark, run by the library `mteb` itself (the extra `mteb`).

    A task's first score is its main score as mteb defines it, x 100: the mean over its splits and subsets, as
    on the leaderboard. Where it has several, each follows under the metric's name with its own. Several tasks
    have the mean of their main scores as `AVG`, which is `primary`.

    Vectors are compared by cosine. mteb's instructions are not used; what stands around a text is the
    encoder's `prompt`. Data comes from the Hugging Face Hub and is kept where `HF_HOME` says; with
    `HF_HUB_OFFLINE=1` only what is there is used. All of it is loaded before the first text is encoded. Score
    files are not written, and none are taken from earlier runs.
    """

    name: ClassVar[str] = "mteb"
    traits = EvaluatorTraits(cites=("muennighoff2023mteb",))

    tasks: tuple[str, ...] = ()
    """Names of tasks, such as `STSBenchmark`, `Banking77Classification` or `SciFact`, in the order of the
    report; `module:Class` names a task of your own, a subclass of `mteb.AbsTask` that Python can import."""
    benchmark: str | None = None
    """A benchmark in the place of `tasks`, such as `MTEB(eng, v2)`: its tasks, splits and languages."""
    languages: tuple[str, ...] = ()
    """Only the subsets that have one of these languages: ISO 639-3, with or without a script (`eng`,
    `eng-Latn`). Default: all."""
    subsets: tuple[str, ...] = ()
    """Only these subsets, by mteb's names, such as `en` or `de-en`. Default: all."""
    splits: tuple[str, ...] = ()
    """These splits, such as `validation`, in the place of the ones that a task is scored on."""
    skip_missing: bool = False
    """Whether a task whose data cannot be had is left out, which the protocol of `AVG` then says; else it is
    an error before anything is encoded."""

    def check(self) -> Iterator[str]:
        """Yield a library that is not installed, and parameters that cannot be used together."""
        if find_spec("mteb") is None:
            yield _NOT_INSTALLED
        if bool(self.tasks) == (self.benchmark is not None):
            found = "both `tasks` and `benchmark`" if self.tasks else "neither `tasks` nor `benchmark`"
            yield f"found {found}, expected one of them; name tasks, such as `STSBenchmark`, or a benchmark"
        if self.tasks:
            yield from task_problems(self.tasks, None, self.name)
        for field in ("languages", "subsets", "splits"):
            if self.benchmark is not None and getattr(self, field):
                yield f"`{field}` cannot change the benchmark `{self.benchmark}`; remove it, or name `tasks`"

    def prepare(self) -> DrivesEncoder:
        """Let the library ask for vectors itself; raises `DataError` where it is not installed."""
        for problem in self.check():
            raise DataError(problem)
        return DrivesEncoder(self._evaluate)

    def _evaluate(self, encoder: TextEncoder) -> Evaluation:
        """Load the data of all tasks, then let mteb evaluate them one after the other.

        Raises:
            DataError: where a task is not known, or its data cannot be had.
            RunError: where an embedding is not finite (or zero, for a classifier), or mteb fails.
        """
        with _undisturbed():
            running = _running()
            filters = running.Filters(self.languages, self.subsets, self.splits)
            if self.benchmark is None:
                every = running.find_tasks(self.tasks, filters)
            else:
                every = running.find_benchmark(self.benchmark)
            try:
                missing = running.load(every, filters)
                tasks = [task for task in every if task.metadata.name not in missing]
                if missing and not (self.skip_missing and tasks):
                    raise DataError(_missing_message(missing, len(tasks)))
                found = running.score_tasks(encoder, tasks, encoder.progress)
            finally:
                running.unload(every)
        main = [scores[0] for scores in found]
        scores = tuple(score for group in found for score in group)
        primary = sum(score.value for score in main) / len(main)
        if len(main) + len(missing) > 1:
            metrics = {score.metric for score in main}
            said = {"benchmark": self.benchmark, "missing": list(missing)}
            said = {key: value for key, value in said.items() if value}
            scores = (*scores, average(main, metrics.pop() if len(metrics) == 1 else "main_score", **said))
        return Evaluation(scores, primary)


def as_mteb_model(encoder: TextEncoder, name: str = "sentbed/encoder") -> MTEBModel:
    """Return an encoder, such as `sentbed.Encoder.load(...)`, as a model for `mteb.evaluate`.

    `name`, of the form `OWNER/NAME`, and a hash of what decides the vectors are the name and the revision
    under which mteb keeps results. Needs the extra `mteb`.
    """
    if find_spec("mteb") is None:
        raise RunError(_NOT_INSTALLED)
    from sentbed_evaluators._mteb.adapter import MTEBModel, described

    if name.count("/") != 1:
        raise DataError(f"found the name {name!r}, mteb expects one of the form `OWNER/NAME`")
    return MTEBModel(encoder, described(encoder, name))


def _running() -> ModuleType:
    try:
        from sentbed_evaluators._mteb import running
    except OSError as error:
        raise RunError(
            f"mteb cannot be loaded ({error}); it makes its cache directory then: set MTEB_CACHE to one that "
            f"can be written"
        ) from error
    return running


def _missing_message(missing: dict[str, str], at_hand: int) -> str:
    reasons = "; ".join(f"`{task}` ({reason})" for task, reason in missing.items())
    leave_out = ", or set `skip_missing = true` to score the others" if at_hand else ""
    return (
        f"the data of {len(missing)} of {len(missing) + at_hand} tasks of mteb cannot be had: {reasons}. "
        f"Load it once with a connection to the Hugging Face Hub, with HF_HOME as it is now, or leave the "
        f"task out{leave_out}"
    )


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Silence mteb and restore the global random states, which it reseeds when creating a task.

    A run that evaluates in the middle of its training would else draw the same dropout again and again.
    """
    import logging
    import random

    import numpy as np
    import torch

    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        # They set the levels of their loggers when they are imported.
        for library in ("datasets", "transformers"):
            importlib.import_module(library)
        for logger in map(logging.getLogger, _TALKATIVE):
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL)
        stack.enter_context(_without_bars())
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())
        devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
        stack.enter_context(torch.random.fork_rng(devices=devices))
        yield


@contextmanager
def _without_bars() -> Iterator[None]:
    """Switch off the bars of tqdm, which mteb, datasets and the hub's client show unasked."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    start = tqdm.__init__

    def silent(bar: Any, *args: Any, **kwargs: Any) -> None:
        start(bar, *args, **{**kwargs, "disable": True})

    tqdm.__init__ = silent
    try:
        yield
    finally:
        tqdm.__init__ = start
