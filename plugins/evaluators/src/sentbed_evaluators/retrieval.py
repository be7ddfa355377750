"""Retrieval of documents by exact search."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs
from sentbed import DataError, FilePath, locate
from sentbed.protocols import (
    Evaluation,
    Evaluator,
    EvaluatorTraits,
    Items,
    Prepared,
    RaggedVectors,
    Score,
    Similarity,
    Texts,
    TextTask,
    Vectors,
)
from sentbed_common import DOCUMENT_BLOCK

from sentbed_evaluators import beir_files
from sentbed_evaluators.degenerate_scores import equal_vectors
from sentbed_evaluators.retrieval_collection import Collection, of_pairs
from sentbed_evaluators.retrieval_metrics import FORMULAS, Ranking
from sentbed_evaluators.scored_pair_files import PairFile
from sentbed_evaluators.similarities import (
    ALL_OUTPUTS,
    COST_UNITS,
    DocumentSize,
    is_cosine,
    most_similar,
    search_cost,
    searchable,
)
from sentbed_evaluators.text_lines import Hashes
from sentbed_evaluators.text_pair_files import TextPairFile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentbed_common import Encoded

_MAIN = 10
"""The cut of the nDCG that BEIR and MTEB print."""


@attrs.frozen
class Retrieval(Evaluator):
    """nDCG@k, recall@k, MRR@k and MAP x 100 of the documents nearest to each query.

    `path` is a folder in BEIR's layout: `corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl` (`_id`,
    `text`) and `qrels/SPLIT.tsv` (header `query-id`, `corpus-id`, `score`). Or it is a file of pairs, `.csv`,
    `.tsv` or `.jsonl`: each first sentence is a query, and its own second sentence is relevant to it, or with
    `label` where the label is above 0; equal texts are merged, so that a query may have several relevant
    documents.

    Measures are trec_eval's, averaged over queries: nDCG with linear gain grade / log2(rank + 1); for recall,
    MRR and MAP, a document with a grade above 0 is relevant. Queries without a relevant document are left out
    and counted; BEIR keeps those that were judged, with 0. As in BEIR, the document with a query's own id is
    left out of its ranking, and a relevant document that is missing from the corpus counts as not retrieved,
    which a note says. Repeated ids, and queries missing from `queries.jsonl`, are an error.

    Search is exact, by the similarity that the encoder names, with the query as the first text; by default
    the cosine. Of documents with equal similarity, the earlier one in the file is ranked higher. A `second`
    encoder encodes the documents.

    Queries and documents have separate prompts if the encoder's `task_prompts` have them: `query`,
    `document`, `retrieval-query`, or with the task's name, `NAME-query`.

    `primary` is nDCG@10, or at the highest of `k` if 10 is not among them.
    """

    name: ClassVar[str] = "retrieval"
    task_types = ("Retrieval",)

    path: FilePath
    """A folder in BEIR's layout, or a file of pairs."""
    split: str | None = None
    """For a folder, the `qrels` to use (default: `test`). For a file, `train`, `dev` or `test`, for the
    protocol (default: not stated). Checkpoints are chosen on `dev` or `train` only."""
    k: tuple[int, ...] = (1, 5, 10, 100)
    """Ranks at which the measures are cut off; MAP has only the highest one."""
    similarity: Literal["cosine", "dot"] | None = None
    """Similarity that ranks documents if the encoder names none: `cosine`, or the inner product `dot`;
    default: `cosine`."""
    title: bool = True
    """For a folder: whether a document is its title, a space and its text, as in BEIR, or its text alone."""
    columns: tuple[str, str] = ("sentence1", "sentence2")
    """For a file of pairs, query and document: names, or positions with `header = false`."""
    label: str | None = None
    """For a file of pairs, a column with a number, above 0 if the second text is relevant to the first.
    Documents of other pairs are searched, but never relevant. Default: all are relevant."""
    header: bool = True
    """Whether the first line of a file of pairs names the columns."""
    separator: str | None = None
    """Separator of the columns of a file of pairs; default: by the suffix."""
    encoding: str = "utf-8"
    """Text encoding of a file of pairs; BEIR's are UTF-8."""
    task: str | None = None
    """Name in scores and report; default: the name of the folder, or of the file without suffix."""
    cost: bool = False
    """Whether to report the cost of exact search as well: `bytes-per-document`, and `operations-per-pair` of a
    query and a document. Of a sparse vector, only components that are not 0 count, each with its index (8
    bytes), and of a pair's operations only those of components that both have. A study plots other scores
    against the costs."""

    @property
    def traits(self) -> EvaluatorTraits:
        """Whether the queries are declared as development or training data."""
        return EvaluatorTraits(
            development=self.split in ("train", "dev"),
            two_sided=True,
            reads=ALL_OUTPUTS,
        )

    def check(self) -> Iterator[str]:
        """Yield problems with files and parameters."""
        if not self.k or min(self.k) < 1 or len(set(self.k)) != len(self.k):
            yield f"`k` is {list(self.k)!r}; give different ranks from 1 on, such as [1, 5, 10, 100]"
        if self.similarity not in (None, "cosine", "dot"):
            yield f"`similarity` is {self.similarity!r}; use `cosine` or `dot`"
        try:
            path = locate(self.path)
        except DataError as error:
            yield str(error)
            return
        if path.is_dir():
            yield from beir_files.problems(path, self.split or "test")
            return
        if self.split not in (None, "train", "dev", "test"):
            yield f"`split` is {self.split!r}, but a file of pairs is `train`, `dev` or `test`"
        yield from self._file.problems()

    def similarity_misfits(self, similarity: Similarity) -> Iterator[str]:
        """Yield a problem if the encoder names another similarity than `similarity`."""
        if self.similarity not in (None, similarity.name):
            yield (
                f"`similarity` of the evaluator `{self.name}` is `{self.similarity}`, and the encoder names "
                f"`{similarity.name}`; take one of them out"
            )

    @property
    def _default_similarity(self) -> Literal["cosine", "dot"]:
        """The similarity for encoders that name none."""
        return self.similarity or "cosine"

    def prepare(self) -> Prepared:
        """Read queries, documents and judgements; raises `DataError` with file and line."""
        collection = self._read()
        documents = collection.documents
        lists = {
            "queries": Texts(
                collection.queries, task=TextTask(self._task, side="query")
            )
        }
        document_task = TextTask(self._task, side="document")
        for start in range(0, len(documents), DOCUMENT_BLOCK):
            # A list for each block, so that only one block of vectors is in memory.
            block = documents[start : start + DOCUMENT_BLOCK]
            lists[f"documents {start}"] = Texts(second=block, task=document_task)
        return Prepared(
            lists,
            partial(self._score, collection),
            item_texts=lambda: {self._task: [(text,) for text in collection.queries]},
        )

    def _score(self, collection: Collection, vectors: Vectors) -> Evaluation:
        """Search and score each query.

        Raises `RunError` if an embedding is not finite or zero, or the sides differ in width.
        """
        similarity = vectors.similarity
        queries = searchable(vectors, "queries", similarity)
        size = DocumentSize(vectors.output)
        places = self._search(collection, queries, vectors, size)
        ranking = Ranking.of(places, collection.relevant, max(self.k))
        degenerate = ""
        if is_cosine(similarity) and not isinstance(queries, RaggedVectors):
            degenerate = equal_vectors(queries)
        scores = list(self._scores(collection, ranking, degenerate))
        if self.cost:
            protocol = {**self._protocol(collection), "task": self._task}
            cost = partial(Score, protocol=protocol, direction="lower", axis="cost")
            for name, value in search_cost(similarity, queries, size).items():
                scores.append(cost(name, COST_UNITS[name], value))
        return Evaluation(tuple(scores), primary=scores[0].value)

    @property
    def _task(self) -> str:
        """The name of the task in scores."""
        if self.task:
            return self.task
        path = locate(self.path)
        if path.is_dir():
            return path.name
        return path.stem

    @property
    def _file(self) -> TextPairFile | PairFile:
        """The layout of the file of pairs."""
        layout = self.header, self.separator, self.encoding
        if self.label is None:
            return TextPairFile(self.path, self.columns, *layout)
        return PairFile(self.path, (*self.columns, self.label), *layout)

    def _read(self) -> Collection:
        for problem in self.check():
            raise DataError(problem)
        path = locate(self.path)
        if path.is_dir():
            return beir_files.read_beir(path, self.split or "test", title=self.title)
        hashes: Hashes = {}
        file = self._file
        about: dict[str, Any] = {
            "split": self.split or "whole file",
            "columns": list(self.columns),
            "text": "as in the file",
        }
        if isinstance(file, PairFile):
            pairs = file.read(hashes)
            about |= {"label": self.label, "data": hashes[path]}
            is_relevant = [label > 0 for label in pairs.scores]
            return of_pairs(pairs.first, pairs.second, about, is_relevant)
        queries, documents = file.read(hashes)
        about["data"] = hashes[path]
        return of_pairs(queries, documents, about)

    def _search(
        self,
        collection: Collection,
        queries: Encoded,
        vectors: Vectors,
        size: DocumentSize,
    ) -> NDArray[np.int64]:
        """Return the documents `(queries, max(k))` at each rank, and count all documents in `size`.

        The place is -1 where no document is left.
        """
        import numpy as np

        # One more, since the query's own document may be among them.
        most = max(self.k) + 1
        blocks = self._document_blocks(collection, vectors, size)
        similarity = vectors.similarity
        places = most_similar(
            similarity, queries, blocks, most, self._default_similarity
        )
        excluded = places == np.array(collection.own_documents)[:, None]
        places = np.where(excluded, -1, places)
        excluded_last = np.argsort(excluded, axis=1, kind="stable")
        ranked: NDArray[np.int64] = np.take_along_axis(places, excluded_last, axis=1)
        return ranked[:, : max(self.k)]

    def _document_blocks(
        self, collection: Collection, vectors: Vectors, size: DocumentSize
    ) -> Iterator[Encoded]:
        """Yield the encoded documents in blocks, and count them in `size`."""
        done = 0
        for name, texts in vectors.lists.items():
            if name == "queries":
                continue
            block = searchable(vectors, name, vectors.similarity)
            size.add(block)
            yield block
            done += len(texts)
            vectors.progress("search", done, len(collection.documents))

    def _protocol(self, collection: Collection) -> dict[str, Any]:
        """Return the entries that all scores have in their protocol."""
        return {
            "queries": len(collection.queries),
            "documents": len(collection.documents),
            **collection.protocol,
        }

    def _scores(
        self, collection: Collection, ranking: Ranking, degenerate: str
    ) -> Iterator[Score]:
        """Yield the score of each measure and rank, the main nDCG first."""
        main = _MAIN if _MAIN in self.k else max(self.k)
        ranks = sorted(self.k)
        measures = [("ndcg", main)]
        for rank in ranks:
            if rank != main:
                measures.append(("ndcg", rank))
        measures += product(("recall", "mrr"), ranks)
        measures.append(("map", max(ranks)))
        for metric, rank in measures:
            values = ranking.measure(metric, rank)
            protocol: dict[str, Any] = {
                "similarity": self._default_similarity,
                "formula": FORMULAS[metric],
                "ties": "the earlier document first",
                **self._protocol(collection),
            }
            yield Score(
                self._task,
                f"{metric}@{rank}",
                100 * float(values.mean()),
                protocol,
                items=Items("mean", values),
                note=collection.note,
                degenerate=degenerate,
            )
