"""STS12-16, STS-B and SICK-R, scored as SentEval does in the papers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from sentbed import DataError, FilePath
from sentbed.helpers import identities
from sentbed.protocols import (
    Evaluation,
    Evaluator,
    EvaluatorTraits,
    Items,
    Prepared,
    Scatter,
    Score,
    Texts,
    Vectors,
)

from sentbed_evaluators.cosine_correlation import (
    correlate,
    levelled,
    require_varied,
)
from sentbed_evaluators.senteval_sts_files import (
    DEVELOPMENT,
    TASKS,
    YEARS,
    Task,
    find_root,
    missing_files,
    missing_message,
    read_task,
    task_files,
)
from sentbed_evaluators.similarities import (
    encoded,
    pairwise,
    similarity_name,
    zero_remarks,
)
from sentbed_evaluators.task_suites import (
    missing_problems,
    prepare_present,
    task_problems,
    tasks_read,
)
from sentbed_evaluators.whitening import (
    Whitening,
    citations,
    outputs_read,
    whitened,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attrs.frozen
class SentEvalSTS(Evaluator):
    """Spearman correlation of cosine and gold score, x 100.

    Where the encoder names another similarity, it is in the place of the cosine.

    A yearly task (STS12-16) gets three scores: `spearman` over the concatenated subsets (aggregation `all`,
    reported by papers since Sentence-BERT), `spearman-mean` (mean over subsets) and `spearman-wmean` (mean
    weighted by pairs). The other tasks get `spearman` over the one list of pairs. Pairs without a gold score
    (STS15, STS16) are dropped and counted. `primary` is the mean of `spearman` over the tasks.

    A zero vector has cosine 0 with everything; if all similarities are equal, the score is 0. Both are noted
    in the protocol.
    """

    name: ClassVar[str] = "senteval-sts"

    tasks: tuple[str, ...] = (*YEARS, "STSB", "SICKR")
    """Tasks in the order of the report: `STS12` to `STS16`, `STSB` (test; 1,379 pairs), `STSB-dev`,
    `STSB-train`, `SICKR` (test; 4,927 pairs, the papers' protocol), `SICKR-dev`, `SICKR-train`, `SICKR-all`
    (9,927 pairs, MTEB's protocol). Default: the seven of the papers."""
    data_dir: FilePath | None = None
    """SentEval's `downstream` directory or one above it (`data`, or the parent of `senteval`); default:
    `SENTBED_DATA`."""
    check_sizes: bool = True
    """Whether to refuse a task whose files have other numbers of pairs than published."""
    whitening: Whitening | None = None
    """Whitening of the vectors before they are scored, `{}` of all components; default: none."""
    skip_missing: bool = False
    """Whether to leave tasks out whose files are missing, instead of refusing to run; at least one must be
    there. Scores name the tasks that were left out, and an average over the rest is marked as one over a part
    of the row."""

    @property
    def traits(self) -> EvaluatorTraits:
        """Whether every task is development or training data."""
        return EvaluatorTraits(
            cites=("conneau2018senteval", *citations(self.whitening)),
            development=DEVELOPMENT.issuperset(self.tasks),
            reads=outputs_read(self.whitening),
        )

    def check(self) -> Iterator[str]:
        """Yield unknown or repeated tasks and missing data."""
        yield from task_problems(self.tasks, TASKS, self.name)
        if self.whitening is not None:
            yield from self.whitening.problems()
        yield from missing_problems(self._missing, self.tasks, self.skip_missing)

    def _missing(self) -> dict[str, str]:
        """Return the message of each task without data; raises `DataError` if there is none at all."""
        root = find_root(self.data_dir)
        tasks = [
            task for task in self.tasks if task in TASKS and missing_files(root, task)
        ]
        return {task: missing_message(root, task) for task in tasks}

    def prepare(self) -> Prepared:
        """Read the pairs of every task; raises `DataError` with file and line."""
        for problem in self.check():
            raise DataError(problem)
        if self.skip_missing and (missing := self._missing()):
            return prepare_present(self, missing)
        root = find_root(self.data_dir)
        tasks = [read_task(root, name, self.check_sizes) for name in self.tasks]
        for task in tasks:
            for subset, source in zip(task.subsets, task.sources, strict=True):
                require_varied(subset.scores, source)
        # One list per task: its stored vectors then serve every choice of tasks.
        lists = {
            task.name: Texts(
                [
                    text
                    for subset in task.subsets
                    for text in (*subset.first, *subset.second)
                ]
            )
            for task in tasks
        }
        prepared = Prepared(
            lists,
            partial(_score, tasks),
            item_texts=lambda: {task.name: task.texts for task in tasks},
        )
        return whitened(prepared, self.whitening)

    def files(self) -> Iterator[Path]:
        """Yield the files of the tasks that are not skipped."""
        root = find_root(self.data_dir)
        for task in tasks_read(self, self._missing):
            if task in TASKS:
                yield from task_files(root, task)


def _score(tasks: Sequence[Task], vectors: Vectors) -> Evaluation:
    """Score each task; raises `RunError` if an embedding is not finite."""
    scores: list[Score] = []
    scatters: list[Scatter] = []
    for task in tasks:
        rows = encoded(vectors, task.name)
        similarities = []
        start = 0
        for subset in task.subsets:
            middle, end = start + len(subset), start + 2 * len(subset)
            similarities.append(
                pairwise(vectors.similarity, rows[start:middle], rows[middle:end])
            )
            start = end
        texts = vectors.lists[task.name].both
        zeros = zero_remarks(vectors.similarity, rows, texts)
        scores += _score_task(task, similarities, zeros)
        scatters.append(
            Scatter(
                title=task.name,
                x_label="gold score",
                y_label=similarity_name(vectors.similarity),
                x=tuple(score for subset in task.subsets for score in subset.scores),
                y=tuple(float(value) for part in similarities for value in part),
            )
        )
    main = [score.value for score in scores if score.metric == "spearman"]
    return Evaluation(tuple(scores), sum(main) / len(main), tuple(scatters))


def _score_task(
    task: Task, similarities: list[NDArray[np.float64]], zeros: Sequence[str]
) -> Iterator[Score]:
    import numpy as np

    sizes = [len(subset) for subset in task.subsets]
    gold = list(chain.from_iterable(subset.scores for subset in task.subsets))
    together = np.concatenate(similarities)
    whole = correlate(gold, together)
    parts = [
        correlate(subset.scores, part)
        for subset, part in zip(task.subsets, similarities, strict=True)
    ]
    values = [part.spearman for part in parts]
    items = Items(
        "spearman",
        np.array(gold, np.float64),
        levelled(together),
        clusters=identities(task.texts),
    )
    results = [
        (
            "spearman",
            "all" if task.is_yearly else "single",
            whole.spearman,
            [whole.note],
            items,
        )
    ]
    if task.is_yearly:
        notes = [part.note for part in parts]
        items = attrs.evolve(
            items,
            y=np.concatenate([levelled(part) for part in similarities]),
            groups=np.repeat(np.arange(len(sizes)), sizes),
        )
        weighted = attrs.evolve(items, weighted=True)
        results += [
            ("spearman-mean", "mean", float(np.mean(values)), notes, items),
            (
                "spearman-wmean",
                "wmean",
                float(np.average(values, weights=sizes)),
                notes,
                weighted,
            ),
        ]
    for metric, aggregation, value, notes, of in results:
        protocol: dict[str, Any] = {
            "id": "senteval-sts",
            "similarity": "cosine",
            "correlation": "spearman",
            "aggregation": aggregation,
            "split": task.split,
            "pairs": sum(sizes),
            "dropped": sum(subset.dropped for subset in task.subsets),
            "text": "as in the file",
            "data": task.data,
        }
        remarks = [note for note in dict.fromkeys(notes) if note is not None]
        remarks += zeros
        yield Score(
            task.name,
            metric,
            value,
            protocol,
            items=of,
            note="; ".join(remarks),
            degenerate=whole.degenerate,
        )
