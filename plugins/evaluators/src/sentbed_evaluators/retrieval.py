"""The evaluator `retrieval`: exact search of documents for queries, scored by nDCG, recall, MRR and MAP."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs
from sentbed import DataError, FilePath, locate
from sentbed.helpers import sha256
from sentbed.protocols import (
    EncoderRecipe,
    Evaluation,
    Evaluator,
    Items,
    Prepared,
    Score,
    Texts,
    TextTask,
    Vectors,
)
from sentbed_common import DOCUMENT_BLOCK

from sentbed_evaluators import beir_files
from sentbed_evaluators.degenerate_scores import equal_vectors
from sentbed_evaluators.retrieval_collection import Collection, of_pairs
from sentbed_evaluators.retrieval_metrics import FORMULAS, Ranking
from sentbed_evaluators.scored_pair_files import PairFile, TextPairFile
from sentbed_evaluators.similarities import (
    ALL_OUTPUTS,
    COST_UNITS,
    DocumentSize,
    is_cosine,
    most_similar,
    search_cost,
    searchable,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentbed_common import Encoded

_MAIN_CUTOFF = 10
"""Rank at which BEIR and MTEB cut off the nDCG that they print."""


@attrs.frozen
class Retrieval(Evaluator):
    """nDCG@k, recall@k, MRR@k and MAP x 100 of the documents nearest to each query.

    `path` is a folder in BEIR's layout: `corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl` (`_id`,
    `text`) and `qrels/SPLIT.tsv` (header `query-id`, `corpus-id`, `score`). Alternatively, it is a file of pairs,
    `.csv`, `.tsv` or `.jsonl`: each first sentence is a query, and the second sentence of the pair is a document
    that is relevant to the query (with `label`, only if the label is above 0). Equal texts are merged, so that a
    query may have several relevant documents.

    Measures are those of trec_eval, averaged over queries. nDCG has the linear gain grade / log2(rank + 1); for
    recall, MRR and MAP, a document with a grade above 0 is relevant. Queries without a relevant document are left
    out and counted; BEIR keeps such a query, with a score of 0, if it was judged. As in BEIR, a document is its
    title, a space and its text; the document with a query's id is left out of that query's ranking; and a
    relevant document that is missing from the corpus counts as not retrieved, and is counted in a note. Repeated
    ids are an error, and so are two grades of a document for one query and judged queries that are missing from
    `queries.jsonl`.

    Search is exact. It ranks by the similarity that the encoder names, with the query as the first text; by
    default by the cosine. Of documents with equal similarity, the earlier one in the file is ranked higher. A
    `second` encoder encodes the documents.

    Queries and documents have different prompts if the encoder's `task_prompts` has keys such as `query`,
    `document`, `retrieval-query` or, with the name of the task, `NAME-query`.

    `primary` is nDCG@10 or, if `k` does not have 10, nDCG at the highest rank in `k`.
    """

    name: ClassVar[str] = "retrieval"

    path: FilePath
    """A folder in BEIR's layout, or a file of pairs."""
    split: str | None = None
    """For a folder: name of the file in `qrels`, without suffix (default: `test`). For a file of pairs:
    `train`, `dev` or `test`, for the protocol (default: not stated). Only on `dev` or `train` can a checkpoint
    be chosen."""
    k: tuple[int, ...] = (1, 5, 10, 100)
    """Ranks at which the measures are cut off. MAP is cut off at the highest of them only."""
    similarity: Literal["cosine", "dot"] | None = None
    """Similarity that ranks documents if the encoder names none: `cosine`, or the inner product `dot`;
    default: `cosine`."""
    columns: tuple[str, str] = ("sentence1", "sentence2")
    """For a file of pairs: names of the columns of query and document."""
    label: str | None = None
    """For a file of pairs: column with a number, which is above 0 if the document is relevant to the query. The
    documents of all pairs are searched, relevant or not. Default: every document is relevant to the query of its
    pair."""
    task: str | None = None
    """Name in scores and report; default: the name of the folder, or of the file without suffix."""
    cost: bool = False
    """Whether the cost of exact search is reported, too: `bytes-per-document`, and `operations-per-pair` of a
    query and a document. For sparse vectors, only components that are not 0 count: each has 8 bytes, its index
    included, and a pair has operations only for components that both vectors have. A study plots other scores
    against these costs."""

    two_sided = True
    reads = ALL_OUTPUTS

    @property
    def development(self) -> bool:
        """Whether `split` is `train` or `dev`."""
        return self.split in ("train", "dev")

    def check(self) -> Iterator[str]:
        """Yield problems with files and parameters."""
        if not self.k or min(self.k) < 1 or len(set(self.k)) != len(self.k):
            yield f"`k` is {list(self.k)!r}; give different ranks from 1 on, such as [1, 5, 10, 100]"
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

    def misfits(self, place: EncoderRecipe) -> Iterator[str]:
        """Yield a problem if `similarity` is set and the encoder names another similarity."""
        similarity = place.similarity
        if similarity is not None and self.similarity not in (None, similarity.name):
            yield (
                f"`similarity` of the evaluator `{self.name}` is `{self.similarity}`, and the encoder names "
                f"`{similarity.name}`; take one of them out"
            )

    @property
    def _default_similarity(self) -> Literal["cosine", "dot"]:
        """The similarity for an encoder that names none."""
        return self.similarity or "cosine"

    def prepare(self) -> Prepared:
        """Read queries, documents and judgements; raises `DataError`, with file and line, for malformed data."""
        collection = self._read()
        documents = collection.documents
        lists = {
            "queries": Texts(
                collection.queries, task=TextTask(self._task, side="query")
            )
        }
        document_task = TextTask(self._task, side="document")
        for start in range(0, len(documents), DOCUMENT_BLOCK):
            # Each block is a list of its own, so that only one block of vectors is in memory.
            block = documents[start : start + DOCUMENT_BLOCK]
            lists[f"documents {start}"] = Texts(second=block, task=document_task)

        return Prepared(
            lists,
            partial(self._score, collection),
            item_texts=lambda: {self._task: [(text,) for text in collection.queries]},
        )

    def _score(self, collection: Collection, vectors: Vectors) -> Evaluation:
        """Search the documents for each query, and score the rankings.

        Raises:
            RunError: if an embedding is not finite or, where cosines are computed, is zero; or if the vectors of
                queries and documents differ in width.
        """
        similarity = vectors.similarity
        by_cosine = is_cosine(similarity, self._default_similarity)
        queries = searchable(vectors, "queries", by_cosine)
        size = DocumentSize(vectors.output)
        places = self._search(collection, queries, vectors, size)
        ranking = Ranking.of(places, collection.relevant, max(self.k))
        degenerate = ""
        if by_cosine:
            degenerate = equal_vectors(queries)
        scores = list(self._scores(collection, ranking, degenerate))
        if self.cost:
            protocol = {**self._protocol(collection), "task": self._task}
            cost = partial(
                Score,
                protocol=protocol,
                direction="lower",
                axis="cost",
            )
            for name, value in search_cost(queries, size).items():
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
        if self.label is None:
            return TextPairFile(self.path, self.columns)
        return PairFile(self.path, (*self.columns, self.label))

    def _read(self) -> Collection:
        """Read the folder or the file of pairs; raises `DataError` if `check` finds a problem, too."""
        for problem in self.check():
            raise DataError(problem)

        path = locate(self.path)
        if path.is_dir():
            return beir_files.read_beir(path, self.split or "test")
        file = self._file
        about: dict[str, Any] = {
            "split": self.split or "whole file",
            "columns": list(self.columns),
            "text": "as in the file",
        }
        if isinstance(file, PairFile):
            pairs = file.read()
            about |= {"label": self.label, "data": sha256(path)}
            is_relevant = [label > 0 for label in pairs.scores]
            return of_pairs(pairs.first, pairs.second, about, is_relevant)
        queries, documents = file.read()
        about["data"] = sha256(path)

        return of_pairs(queries, documents, about)

    def _search(
        self,
        collection: Collection,
        queries: Encoded,
        vectors: Vectors,
        size: DocumentSize,
    ) -> NDArray[np.int64]:
        """Return the place of the document at each rank, `(queries, ranks)`, and count all documents in `size`.

        There are `max(k)` ranks, or fewer if there are fewer documents. A query's own document is left out; if no
        other document is left for a query's last rank, the place there is -1.
        """
        import numpy as np

        # One document more is retrieved, since the query's own document may be among them.
        count = max(self.k) + 1
        blocks = self._document_blocks(collection, vectors, size)
        similarity = vectors.similarity
        places = most_similar(
            similarity, queries, blocks, count, self._default_similarity
        )

        is_own = places == np.array(collection.own_documents)[:, None]
        places = np.where(is_own, -1, places)
        own_last = np.argsort(is_own, axis=1, kind="stable")
        ranked: NDArray[np.int64] = np.take_along_axis(places, own_last, axis=1)

        return ranked[:, : max(self.k)]

    def _document_blocks(
        self,
        collection: Collection,
        vectors: Vectors,
        size: DocumentSize,
    ) -> Iterator[Encoded]:
        """Yield the encoded documents, block after block, and count them in `size`."""
        by_cosine = is_cosine(vectors.similarity, self._default_similarity)
        done = 0
        for name, texts in vectors.lists.items():
            if name == "queries":
                continue
            block = searchable(vectors, name, by_cosine)
            size.add(block)
            yield block
            done += len(texts)
            vectors.progress("search", done, len(collection.documents))

    def _protocol(self, collection: Collection) -> dict[str, Any]:
        """Return the entries that the protocols of all scores have in common."""
        return {
            "queries": len(collection.queries),
            "documents": len(collection.documents),
            **collection.protocol,
        }

    def _scores(
        self,
        collection: Collection,
        ranking: Ranking,
        degenerate: str,
    ) -> Iterator[Score]:
        """Yield a score for each measure and cutoff; the first is the nDCG that is `primary`."""
        ranks = sorted(self.k)
        main_rank = _MAIN_CUTOFF if _MAIN_CUTOFF in ranks else ranks[-1]
        measures = [("ndcg", main_rank)]
        for rank in ranks:
            if rank != main_rank:
                measures.append(("ndcg", rank))

        measures += product(("recall", "mrr"), ranks)
        measures.append(("map", ranks[-1]))

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
