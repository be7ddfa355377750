"""Semantic textual similarity: STS12-16, STS-B and SICK-R as SentEval scores them, and files of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import attrs
from sentbed import DataError, FilePath, locate
from sentbed.helpers import identities, sha256
from sentbed.protocols import (
    Evaluation,
    Evaluator,
    Prepared,
    Score,
    Texts,
    Vectors,
)
from sentbed_common import pairwise_similarities

from sentbed_evaluators.cosine_correlation import correlation_score, require_varied
from sentbed_evaluators.data_directories import TaskFiles
from sentbed_evaluators.doubtful_gold_scores import doubtful_gold_scores
from sentbed_evaluators.scored_pair_files import PairFile, ScoredPairs
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
    zero_remarks,
)
from sentbed_evaluators.task_suites import FileSuite, mean_value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attrs.frozen
class STS(Evaluator):
    """Spearman (`primary`) and Pearson correlation of cosine and gold score, x 100, on one file.

    If the encoder names another similarity, it is used instead of the cosine.

    The suffix determines the format of the file: `.csv` has RFC 4180 quoting, `.tsv` has tabs and no quoting,
    and `.jsonl` has one object per line. With `separator`, a file of any suffix is read, with one pair per line
    and no quoting. A `second` encoder encodes the second sentences, for pairs in two languages.
    """

    name: ClassVar[str] = "sts"

    path: FilePath
    """The file of scored pairs."""
    columns: tuple[str, str, str] = ("sentence1", "sentence2", "score")
    """Columns of first sentence, second sentence and score: names in the header, or keys of the jsonl objects.
    With `header = false`, they are positions from zero, such as `["5", "6", "4"]` for STS-B in SentEval's
    files."""
    header: bool = True
    """Whether the first line names the columns."""
    separator: str | None = None
    """Separator of columns, such as a tab, `;` or `||`; default: by the suffix."""
    encoding: str = "utf-8"
    """Text encoding of the file; invalid bytes are an error."""
    task: str | None = None
    """Name in scores and report; default: the file's name without suffix."""
    split: Literal["train", "dev", "test"] | None = None
    """Split to which the file belongs, for the protocol. Searches and the choice of checkpoints use only `dev` or
    `train`. Default: not stated."""
    two_sided = True
    reads = ALL_OUTPUTS

    @property
    def development(self) -> bool:
        """Whether `split` is `train` or `dev`."""
        return self.split in ("train", "dev")

    def check(self) -> Iterator[str]:
        """Yield problems with file and parameters."""
        yield from self._file.problems()

    @property
    def _file(self) -> PairFile:
        """The layout of the file."""
        return PairFile(
            self.path, self.columns, self.header, self.separator, self.encoding
        )

    def prepare(self) -> Prepared:
        """Read the pairs.

        Raises:
            DataError: with file and line, if the file is missing or malformed.
        """
        for problem in self.check():
            raise DataError(problem)
        path = locate(self.path)
        data = sha256(path)
        pairs = self._file.read()
        require_varied(pairs.scores, path)
        texts = {"pairs": Texts(pairs.first, pairs.second)}
        return Prepared(
            texts,
            partial(self._score, pairs, data),
            remarks=tuple(doubtful_gold_scores(pairs, path)),
            item_texts=lambda: {self._task: pairs.texts},
        )

    @property
    def _task(self) -> str:
        """The name of the task in scores."""
        return self.task or locate(self.path).stem

    def _score(
        self,
        pairs: ScoredPairs,
        data: str,
        vectors: Vectors,
    ) -> Evaluation:
        """Compute the correlations; raises `RunError` for embeddings that are not finite or differ in width."""
        (similarities,), zeros = _similarities(vectors, "pairs", [len(pairs)])
        protocol = {
            "id": "scored-pairs",
            "similarity": "cosine",
            "aggregation": "single",
            "split": self.split or "whole file",
            "pairs": len(pairs),
            "columns": list(self.columns),
            "text": "as in the file",
            "data": data,
        }
        score = partial(
            correlation_score,
            self._task,
            pairs.scores,
            similarities,
            protocol,
            note=zeros,
            clusters=identities(pairs.texts),
        )
        spearman = score("spearman")
        return Evaluation((spearman, score("pearson")), spearman.value)


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
    """Score each task; raises `RunError` if an embedding is not finite."""
    scores: list[Score] = []
    for task in tasks:
        sizes = [len(subset) for subset in task.subsets]
        similarities, zeros = _similarities(vectors, task.name, sizes)
        scores += _score_task(task, similarities, zeros)
    main = [score for score in scores if score.metric == "spearman"]
    return Evaluation(tuple(scores), mean_value(main))


def _score_task(
    task: Task,
    similarities: list[NDArray[np.float64]],
    zeros: str,
) -> Iterator[Score]:
    """Yield the correlation over all pairs of a task; for a yearly task, also the two means over its subsets.

    Pairs with the same two texts count as drawn together.
    """
    import numpy as np

    protocol = {
        "id": "senteval-sts",
        "similarity": "cosine",
        "aggregation": "all" if task.is_yearly else "single",
        "split": task.split,
        "pairs": len(task.pairs),
        "dropped": task.pairs.dropped,
        "text": "as in the file, white space as one space",
        "data": task.data,
    }
    score = correlation_score(
        task.name,
        task.pairs.scores,
        np.concatenate(similarities),
        protocol,
        note=zeros,
        clusters=identities(task.pairs.texts),
    )
    yield score
    if task.is_yearly:
        yield from _means_over_subsets(score, task, similarities)


def _means_over_subsets(
    score: Score,
    task: Task,
    similarities: list[NDArray[np.float64]],
) -> Iterator[Score]:
    """Yield the two means over the subsets of a task; `score` is the correlation over all pairs of the task.

    If the correlation of a subset is undefined, so are the means.
    """
    import numpy as np

    sizes = [len(subset) for subset in task.subsets]
    correlations = []
    degenerate = ""
    for subset, values in zip(task.subsets, similarities, strict=True):
        of_subset = correlation_score(task.name, subset.scores, values, score.protocol)
        correlations.append(of_subset.value)
        degenerate = degenerate or of_subset.degenerate

    items = None
    if score.items is not None and not np.isnan(correlations).any():
        groups = np.repeat(np.arange(len(sizes)), sizes)
        items = attrs.evolve(score.items, groups=groups)
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


def _similarities(
    vectors: Vectors, name: str, sizes: Sequence[int]
) -> tuple[list[NDArray[np.float64]], str]:
    """Return the similarities of the pairs of each subset, and a note on zero vectors.

    In the list `name`, all first sentences of a subset precede all its second ones. `sizes` has the number of
    pairs of each subset.
    """
    rows = vectors[name]
    similarities = []
    start = 0
    for size in sizes:
        middle, end = start + size, start + 2 * size
        first, second = rows[start:middle], rows[middle:end]
        similarities.append(pairwise_similarities(vectors.similarity, first, second))
        start = end
    texts = vectors.lists[name].both
    return similarities, zero_remarks(vectors.similarity, rows, texts)
