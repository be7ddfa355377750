"""SentBench: 18 data sets in three paradigms."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal, TypeAlias

import attrs
from sentbed import DataError, FilePath
from sentbed.protocols import (
    Evaluation,
    Items,
    Prepared,
    Score,
    Similarity,
    Texts,
    Vectors,
)
from sentbed_common import pairwise_similarities

from sentbed_evaluators.degenerate_scores import equal_cosines
from sentbed_evaluators.pair_features import FORMULAS
from sentbed_evaluators.probe import Classifier
from sentbed_evaluators.probe_task import (
    LabelledTexts,
    ProbeTask,
    TextVectors,
    distinct_texts,
)
from sentbed_evaluators.sentbench_sets import (
    SOURCES,
    SPLITS,
    BuiltSets,
    Pair,
    built_sets,
    data_directory,
    find_files,
)
from sentbed_evaluators.task_suites import (
    TaskSuite,
    accuracy,
    average,
    mean_value,
    part_progress,
    task_problems,
)
from sentbed_evaluators.transfer import development_files, protocol_of, read_tasks
from sentbed_evaluators.transfer_files import find_files as find_transfer_files

Paradigm: TypeAlias = Literal["single", "pair", "contrast"]

SINGLE = {
    "MR": "MR",
    "CR": "CR",
    "MPQA": "MPQA",
    "SUBJ": "SUBJ",
    "SST": "SST2",
    "TREC": "TREC",
}
"""Name in SentEval of each task of `single`; keys are the names in the paper, in its order."""


PAPER_NAMES = {name: task for task, name in SINGLE.items()}
"""Name in the paper of each task of `single`; keys are the names in SentEval."""

TASKS: dict[Paradigm, tuple[str, ...]] = {
    "single": tuple(SINGLE),
    "pair": tuple(SOURCES),
    "contrast": tuple(SOURCES),
}
"""The tasks of each paradigm, in the paper's order."""


@attrs.frozen
class SentBench(TaskSuite):
    """SentBench (Liu et al., 2023): 18 data sets in three paradigms, accuracy x 100.

    The paradigms are:

    - `single`: a classifier predicts the class of one sentence from its vector, on SentEval's data. SST has two
      classes here.
    - `pair`: a classifier predicts from two vectors whether their sentences belong together.
    - `contrast`: one of two candidates belongs to a sentence. The answer is right if that candidate has the
      greater cosine with the sentence; nothing is trained. Equal cosines count as wrong, and a note counts them.

    The paper gives the sizes of its pair and contrast sets (table 1), but not how they were made. Here they are
    built from the files of each source, with equal numbers of matching and other pairs. If the source is large
    enough, they have the paper's sizes, and `size` in the protocol is `paper`. `data` in the protocol is their
    hash; scores with different hashes are not comparable.

    The paper calls its classifier simple and does not give its features. A linear function of [u, v] is a
    function of u plus a function of v, and cannot tell whether u and v match; yet the paper's pair scores reach
    96. The features are therefore [u, v, u*v, |u-v|], SentEval's for natural language inference.

    The metric of a pair score is `accuracy`, that of a contrast score `contrast-accuracy`. `AVG` is the mean over
    the six tasks of a paradigm; it exists only if all six ran. `primary` is the mean over the paradigms of their
    mean scores.

    Some aligned lines of StyleTransfer are equal in both forms. They are kept, since without them there are fewer
    pairs than table 1 reports. `identical` in the protocol of a pair score is the number of positive test pairs
    with two equal sides. About 100 short lines of StyleTransfer are in both its training and its test set.

    The vectors of one task and the features of its pairs are in memory (DBpedia at width 768: 1.8 GB).
    """

    name: ClassVar[str] = "sentbench"
    choices = (*SINGLE, *SOURCES)
    cites = ("liu2023sentbench",)

    paradigms: tuple[Paradigm, ...] = ("single", "pair", "contrast")
    """Paradigms to run, among `single`, `pair` and `contrast`, in the order of the report."""
    tasks: tuple[str, ...] | None = None
    """Tasks of `single`: `MR`, `CR`, `MPQA`, `SUBJ`, `SST`, `TREC`; of `pair` and `contrast`: `ST`
    (StyleTransfer), `DBpedia`, `GoEmo`, `ROC`, `CQA`, `SWAG`. Default: all tasks of the paradigms, in the paper's
    order."""
    mode: Literal["test", "fast"] = "test"
    """SentEval's settings: `test` for papers, `fast` for prototypes."""
    seed: int = 1111
    """Seed of the classifiers. SentEval's is 1111."""
    runs: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    """Number of times, at least 1, that each classifier is trained: with `seed`, `seed + 1` and so on. The
    score is the mean. The values of the paper's tables 2 and 3 appear to be means of three runs."""
    set_seed: int = 0
    """Seed with which pairs and triples are built."""
    limit: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(2))
    )
    """Largest number of pairs in each split, and largest number of triples. Default: the paper's sizes."""
    data_dir: FilePath | None = None
    """The directory that holds `styletransfer`, `dbpedia`, `goemotions`, `rocstories`, `commonsenseqa` and
    `swag`, and for `single` SentEval's `downstream` or `senteval/downstream`; default: `SENTBED_DATA`."""
    skip_missing: bool = False
    """Whether tasks with missing files are left out, and also paradigms in which no task is left. If false, a
    missing file is an error. At least one task must have its files. Scores name the tasks that were left out, and
    the report marks a mean over the other tasks as incomplete."""

    @property
    def task_names(self) -> tuple[str, ...]:
        """The tasks to run, paradigm after paradigm, without repetition."""
        names: dict[str, None] = {}
        for paradigm in self.paradigms:
            names |= dict.fromkeys(self._of(paradigm))
        return tuple(names)

    def setting_problems(self) -> Iterator[str]:
        """Yield problems with `paradigms` and `tasks`, such as a task whose paradigm is missing."""
        yield from task_problems(self.paradigms, TASKS, self.name, "paradigm")
        yield from self._task_problems()

    def missing(self) -> dict[str, str]:
        """Return, by task, a message for each task without data.

        Raises `DataError` if no data directory is known and the tasks are not only those of `single`.
        """
        missing = {}
        single = self._names_in_senteval
        try:
            messages = find_transfer_files(self.data_dir).missing(single)
        except DataError as error:
            messages = dict.fromkeys(single, str(error))
        for name, message in messages.items():
            missing[PAPER_NAMES[name]] = message

        for task in self._built_tasks:
            base = data_directory(self.data_dir)
            try:
                find_files(base, task)
            except DataError as error:
                missing[task] = str(error)
        return missing

    def without(self, missing: Collection[str]) -> SentBench:
        """Return the evaluator without the missing tasks, and without paradigms that have no other task."""
        paradigms = []
        for paradigm in self.paradigms:
            if set(self._of(paradigm)).difference(missing):
                paradigms.append(paradigm)
        return attrs.evolve(super().without(missing), paradigms=tuple(paradigms))

    def skipped(self, missing: Collection[str], score: Score) -> tuple[str, ...]:
        """Return the missing tasks of the paradigm to which the score belongs."""
        for paradigm in self.paradigms:
            if score.protocol["id"].startswith(f"sentbench-{paradigm}"):
                return tuple(task for task in self._of(paradigm) if task in missing)
        return ()

    def _task_problems(self) -> Iterator[str]:
        """Yield problems with `tasks`."""
        if self.tasks is None:
            return
        yield from task_problems(self.tasks, self.choices, self.name)
        for task in self.tasks:
            if task in self.choices and task not in self.task_names:
                yield (
                    f"task `{task}` belongs to none of the paradigms {', '.join(self.paradigms)}; "
                    f"add its paradigm or leave it out"
                )
        for paradigm in self.paradigms:
            if self.tasks and paradigm in TASKS and not self._of(paradigm):
                yield f"`tasks` has none of `{paradigm}`; add one, or leave the paradigm out"

    def _of(self, paradigm: Paradigm) -> tuple[str, ...]:
        """Return the tasks to run in a paradigm."""
        tasks = TASKS.get(paradigm, ())
        if self.tasks is None:
            return tasks
        return tuple(task for task in self.tasks if task in tasks)

    @property
    def _names_in_senteval(self) -> list[str]:
        """The names in SentEval of the tasks of `single` to run; none if that paradigm is not run."""
        if "single" not in self.paradigms:
            return []
        return [SINGLE[task] for task in self._of("single")]

    @property
    def _built_tasks(self) -> tuple[str, ...]:
        """The tasks to run whose pair and contrast sets are built from a source."""
        return tuple(task for task in SOURCES if task in self.task_names)

    def prepare_tasks(self) -> Prepared:
        """Read SentEval's files, and build the pair and contrast sets.

        Raises `DataError`, with file and line, if data is missing or unreadable.
        """
        single: list[ProbeTask] = []
        if self._names_in_senteval:
            single = read_tasks(self._names_in_senteval, self.data_dir)

        lists = {}
        item_texts = {}
        for task in single:
            lists[task.name] = task.texts
            item_texts[PAPER_NAMES[task.name]] = task.item_texts

        built = []
        probed = [*single]
        for name in self._built_tasks:
            files = find_files(data_directory(self.data_dir), name)
            sets = built_sets(files, self.set_seed, self.limit)
            built.append(sets)
            texts = []
            if "pair" in self.paradigms:
                pairs = _pair_task(sets)
                probed.append(pairs)
                texts += distinct_texts(pairs.splits.values())
                item_texts[f"{name}/accuracy"] = pairs.item_texts
            if "contrast" in self.paradigms:
                for triple in sets.triples:
                    texts += triple
                item_texts[f"{name}/contrast-accuracy"] = list(sets.triples)
            lists[name] = Texts(list(dict.fromkeys(texts)))

        for task in probed:
            task.folds(Classifier(self.mode, self.seed))
        return Prepared(
            lists,
            partial(self._score, single, built),
            item_texts=lambda: item_texts,
        )

    def files_of_tasks(self) -> Iterator[Path]:
        """Yield SentEval's files, and the sources of the built sets."""
        if self._names_in_senteval:
            files = find_transfer_files(self.data_dir).by_task
            for name in self._names_in_senteval:
                yield from files[name]
        for task in self._built_tasks:
            yield from find_files(data_directory(self.data_dir), task).all

    def development_files(self) -> Iterator[Path]:
        """Yield SentEval's training and development sets of tasks that have a test set."""
        if self._names_in_senteval:
            yield from development_files(self._names_in_senteval, self.data_dir)

    def _score(
        self,
        single: Sequence[ProbeTask],
        built: Sequence[BuiltSets],
        vectors: Vectors,
    ) -> Evaluation:
        """Train and score all tasks; raises `RunError` if an embedding is zero or not finite."""
        scores_by_task: dict[tuple[Paradigm, str], Score] = {}
        for task in single:
            text_vectors = TextVectors.of(vectors, task.name)
            score = self._single(task, text_vectors, vectors)
            scores_by_task["single", score.task] = score
        for sets in built:
            text_vectors = TextVectors.of(vectors, sets.task)
            if "pair" in self.paradigms:
                scores_by_task["pair", sets.task] = self._pair(
                    sets, text_vectors, vectors
                )
            if "contrast" in self.paradigms:
                score = _contrast(sets, text_vectors, vectors.similarity)
                scores_by_task["contrast", sets.task] = score

        scores: list[Score] = []
        means = []
        for paradigm in self.paradigms:
            tasks = self._of(paradigm)
            scores_of_paradigm = [scores_by_task[paradigm, task] for task in tasks]
            means.append(mean_value(scores_of_paradigm))
            scores += scores_of_paradigm
            if set(tasks) == set(TASKS[paradigm]):
                metric = scores_of_paradigm[0].metric
                scores.append(average(scores_of_paradigm, metric))
        return Evaluation(tuple(scores), primary=sum(means) / len(means))

    def _single(
        self,
        task: ProbeTask,
        text_vectors: TextVectors,
        vectors: Vectors,
    ) -> Score:
        """Return the mean accuracy of a task of `single`, under the paper's name."""
        protocol = {
            **protocol_of(task, Classifier(self.mode, self.seed)),
            "id": "sentbench-single",
            "task": task.name,
        }
        name = PAPER_NAMES[task.name]
        return self._mean_accuracy(name, task, text_vectors, vectors, protocol)

    def _pair(
        self,
        sets: BuiltSets,
        text_vectors: TextVectors,
        vectors: Vectors,
    ) -> Score:
        """Train the classifiers of a task's pairs, and return their mean accuracy."""
        task = _pair_task(sets)
        size = "paper"
        sizes = {}
        for split in SPLITS:
            sizes[split] = len(sets.pairs[split])
            if sizes[split] != getattr(sets.paper, split):
                size = "smaller"

        penalty = "cross-validation on train"
        if "dev" in task.splits:
            penalty = "validation set"
        protocol = {
            "id": "sentbench-pair",
            "aggregation": "single",
            "split": "test",
            "size": size,
            **sizes,
            "identical": _identical_pairs(sets.pairs["test"]),
            "features": FORMULAS[task.features],
            "classifier": Classifier(self.mode, self.seed).describe(),
            "penalty": penalty,
            **sets.describe(),
            "data": sets.pairs_hash,
        }
        return self._mean_accuracy(sets.task, task, text_vectors, vectors, protocol)

    def _mean_accuracy(
        self,
        name: str,
        task: ProbeTask,
        text_vectors: TextVectors,
        vectors: Vectors,
        protocol: Mapping[str, Any],
    ) -> Score:
        """Train classifiers with `runs` seeds, and return their mean accuracy as the score `name`."""
        classifiers = []
        for seed in range(self.seed, self.seed + self.runs):
            classifiers.append(Classifier(self.mode, seed, vectors.device))
        progress = part_progress(vectors, task.name)
        scores = []
        for outcome in task.probe(text_vectors, classifiers, progress):
            scores.append(accuracy(name, outcome, dict(protocol)))
        return _mean_of_runs(scores)


def _identical_pairs(pairs: Sequence[Pair]) -> int:
    """Return the number of positive pairs with two equal sides."""
    count = 0
    for first, second, label in pairs:
        if label and first == second:
            count += 1
    return count


def _pair_task(sets: BuiltSets) -> ProbeTask:
    """Return the pairs of a task, on which classifiers are trained."""
    splits = {}
    for split, name in (("train", "train"), ("valid", "dev"), ("test", "test")):
        rows = [((first, second), label) for first, second, label in sets.pairs[split]]
        if rows:
            splits[name] = LabelledTexts.of(rows)
    return ProbeTask(sets.task, splits, 2, sets.source)


def _mean_of_runs(scores: Sequence[Score]) -> Score:
    """Return the mean of a task's scores of several runs; each of its items is the mean over the runs, too."""
    import numpy as np

    first = scores[0]
    if len(scores) == 1:
        return first
    values, right = [], []
    reason = ""
    for score in scores:
        values.append(score.value)
        if score.items:
            right.append(score.items.x)
        reason = reason or score.degenerate
    return attrs.evolve(
        first,
        value=fmean(values),
        protocol={**first.protocol, "runs": len(scores)},
        items=Items("mean", np.mean(right, axis=0)),
        degenerate=reason,
    )


def _contrast(
    sets: BuiltSets,
    vectors: TextVectors,
    similarity: Similarity | None,
) -> Score:
    """Return the accuracy on a task's triples: how often the right candidate is more similar to the text."""
    import numpy as np

    texts, right, wrong = zip(*sets.triples, strict=True)
    near = pairwise_similarities(similarity, vectors[texts], vectors[right])
    far = pairwise_similarities(similarity, vectors[texts], vectors[wrong])
    correct = (near > far).astype(np.float64)
    protocol = {
        "id": "sentbench-contrast",
        "aggregation": "single",
        "split": "test",
        "size": "paper" if len(correct) == sets.paper.contrast else "smaller",
        "test": len(correct),
        "similarity": "cosine",
        **sets.describe(),
        "data": sets.triples_hash,
    }
    ties = int((near == far).sum())
    note = f"{ties} ties, which count as wrong" if ties else ""
    return Score(
        sets.task,
        "contrast-accuracy",
        100 * float(correct.mean()),
        protocol,
        items=Items("mean", correct),
        note=note,
        degenerate=equal_cosines(np.concatenate([near, far])),
    )
