"""STS12-16, STS-B and SICK-R, scored as SentEval does in the papers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from sentbed import FilePath
from sentbed.helpers import identities
from sentbed.protocols import (
    Evaluation,
    Items,
    Prepared,
    Scatter,
    Score,
    Texts,
    Vectors,
)
from sentbed_common import pairwise_similarities

from sentbed_evaluators.cosine_correlation import (
    correlate,
    correlation_score,
    require_varied,
)
from sentbed_evaluators.data_directories import TaskFiles
from sentbed_evaluators.senteval_sts_files import (
    DEVELOPMENT,
    TASKS,
    YEARS,
    Task,
    find_files,
    read_task,
)
from sentbed_evaluators.similarities import (
    ALL_OUTPUTS,
    similarity_name,
    zero_remarks,
)
from sentbed_evaluators.task_suites import FileSuite, mean_value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attrs.frozen
class SentEvalSTS(FileSuite):
    """Spearman correlation of cosine and gold score, x 100.

    If the encoder names another similarity, it is used instead of the cosine.

    A yearly task (STS12-16) has three scores: `spearman` over the concatenated subsets (aggregation `all`,
    which papers report since Sentence-BERT), `spearman-mean` (mean over the subsets) and `spearman-wmean` (mean
    weighted by numbers of pairs). The other tasks have only `spearman`, over their one list of pairs. Pairs
    without a gold score (in STS15 and STS16) are dropped and counted. `primary` is the mean of `spearman` over
    the tasks.

    The words of a sentence are joined by single spaces, as SentEval does.

    The cosine of a zero vector with any vector is 0, which a note of the score counts. If all similarities are
    equal, the score is undefined (NaN).
    """

    name: ClassVar[str] = "senteval-sts"
    choices = TASKS

    tasks: tuple[str, ...] = (*YEARS, "STSB", "SICKR")
    """Tasks in the order of the report: `STS12` to `STS16`, `STSB` (test; 1,379 pairs), `STSB-dev`,
    `STSB-train`, `SICKR` (test; 4,927 pairs, the papers' protocol), `SICKR-dev`, `SICKR-train`, `SICKR-all`
    (9,927 pairs, MTEB's protocol). Default: the seven tasks of the papers."""
    data_dir: FilePath | None = None
    """Directory of SentEval's data: `downstream` itself, or a directory that contains `downstream`,
    `data/downstream` or `senteval/downstream`; default: `SENTBED_DATA`."""
    check_sizes: bool = True
    """Whether it is an error if a task has another number of pairs than published."""
    skip_missing: bool = False
    """Whether tasks with missing files are left out; if false, a missing file is an error. At least one task must
    have its files. Scores name the tasks that were left out, and the report marks a mean over the other tasks as
    incomplete."""

    cites = ("conneau2018senteval",)
    reads = ALL_OUTPUTS

    @property
    def development(self) -> bool:
        """Whether all of `tasks` are development or training data."""
        return DEVELOPMENT.issuperset(self.tasks)

    def task_files(self) -> TaskFiles:
        """Return the files of all tasks of the suite; raises `DataError` if no file of any task is found."""
        return find_files(self.data_dir)

    def development_files(self) -> Iterator[Path]:
        """Yield the files of development and training tasks."""
        files = self.task_files().by_task
        for task in DEVELOPMENT.intersection(self.tasks):
            yield from files[task]

    def prepare_tasks(self) -> Prepared:
        """Read the data of every task; raises `DataError`, with file and line, if it is missing or malformed."""
        files = self.task_files()
        tasks = [read_task(files, name, self.check_sizes) for name in self.tasks]
        # Each task has a list of its own, so that its stored vectors can be used for every choice of tasks.
        lists = {}
        for task in tasks:
            texts: list[str] = []
            for subset, source in zip(task.subsets, task.sources, strict=True):
                require_varied(subset.scores, source)
                texts += subset.first + subset.second
            lists[task.name] = Texts(texts)
        return Prepared(
            lists,
            partial(_score, tasks),
            item_texts=lambda: {task.name: task.pairs.texts for task in tasks},
        )


def _score(tasks: Sequence[Task], vectors: Vectors) -> Evaluation:
    """Score each task and collect its scatter plot; raises `RunError` if an embedding is not finite."""
    import numpy as np

    scores: list[Score] = []
    scatters: list[Scatter] = []
    for task in tasks:
        rows = vectors[task.name]
        similarities = []
        start = 0
        for subset in task.subsets:
            middle, end = start + len(subset), start + 2 * len(subset)
            first, second = rows[start:middle], rows[middle:end]
            similarities.append(
                pairwise_similarities(vectors.similarity, first, second)
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
                x=task.pairs.scores,
                y=tuple(np.concatenate(similarities).tolist()),
            )
        )
    main = [score for score in scores if score.metric == "spearman"]
    return Evaluation(tuple(scores), mean_value(main), tuple(scatters))


def _score_task(
    task: Task,
    similarities: list[NDArray[np.float64]],
    zeros: Sequence[str],
) -> Iterator[Score]:
    """Yield the correlation over all pairs of a task; for a yearly task, also the two means over its subsets."""
    import numpy as np

    pairs, all_similarities = task.pairs, np.concatenate(similarities)
    correlation = correlate(pairs.scores, all_similarities)
    protocol: dict[str, Any] = {
        "id": "senteval-sts",
        "similarity": "cosine",
        "correlation": "spearman",
        "aggregation": "all" if task.is_yearly else "single",
        "split": task.split,
        "pairs": len(pairs),
        "dropped": pairs.dropped,
        "text": "as in the file, white space as one space",
        "data": task.data,
    }
    clusters = identities(pairs.texts)
    score = correlation_score(
        task.name,
        correlation,
        pairs.scores,
        all_similarities,
        protocol,
        zeros=zeros,
        clusters=clusters,
    )
    yield score
    if task.is_yearly:
        yield from _means_over_subsets(score, task, similarities, clusters)


def _means_over_subsets(
    score: Score,
    task: Task,
    similarities: list[NDArray[np.float64]],
    clusters: NDArray[np.int64],
) -> Iterator[Score]:
    """Yield the two means over the subsets of a task; `score` is the correlation over all pairs of the task.

    If the correlation of a subset is undefined, so are the means.
    `clusters` has a number per pair; pairs with the same two texts have the same number, and count as
    together.
    """
    import numpy as np

    sizes, correlations = [], []
    degenerate = ""
    for subset, values in zip(task.subsets, similarities, strict=True):
        correlation_of_subset = correlate(subset.scores, values)
        sizes.append(len(subset))
        correlations.append(correlation_of_subset.spearman)
        degenerate = degenerate or correlation_of_subset.degenerate

    items = None
    if not np.isnan(correlations).any():
        items = Items(
            "spearman",
            np.array(task.pairs.scores, np.float64),
            np.concatenate(similarities),
            clusters=clusters,
            groups=np.repeat(np.arange(len(sizes)), sizes),
        )
    mean = attrs.evolve(
        score,
        metric="spearman-mean",
        value=float(np.mean(correlations)),
        protocol={**score.protocol, "aggregation": "mean"},
        items=items,
        degenerate=degenerate,
    )
    yield mean
    if items is not None:
        items = attrs.evolve(items, weighted=True)
    yield attrs.evolve(
        mean,
        metric="spearman-wmean",
        value=float(np.average(correlations, weights=sizes)),
        protocol={**score.protocol, "aggregation": "wmean"},
        items=items,
    )
