"""The evaluator `sts`: semantic textual similarity on any file of scored pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, ClassVar, Literal

import attrs
from sentbed import DataError, FilePath, locate
from sentbed.helpers import identities
from sentbed.protocols import (
    Evaluation,
    Evaluator,
    Prepared,
    Scatter,
    Texts,
    Vectors,
)
from sentbed_common import pairwise_similarities

from sentbed_evaluators.cosine_correlation import (
    correlate,
    correlation_score,
    require_varied,
)
from sentbed_evaluators.scored_pair_files import (
    ClusteredPairFile,
    PairFile,
    ScoredPairs,
)
from sentbed_evaluators.similarities import (
    ALL_OUTPUTS,
    similarity_name,
    zero_remarks,
)
from sentbed_evaluators.text_lines import Hashes


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
    cluster: str | None = None
    """Column that names the passage, speaker or the like from which a pair was drawn, if several pairs
    come from the same one. Confidence intervals and tests count all pairs with the same name as one item.
    Default: each pair was drawn independently."""

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
        layout = self.header, self.separator, self.encoding
        if self.cluster is None:
            return PairFile(self.path, self.columns, *layout)
        return ClusteredPairFile(self.path, (*self.columns, self.cluster), *layout)

    def prepare(self) -> Prepared:
        """Read the pairs, and remark on doubtful scores.

        Raises:
            DataError: with file and line, if the file is missing or malformed.
        """
        for problem in self.check():
            raise DataError(problem)
        path = locate(self.path)
        hashes: Hashes = {}
        pairs = self._file.read(hashes)
        require_varied(pairs.scores, path)
        texts = {"pairs": Texts(pairs.first, pairs.second)}
        return Prepared(
            texts,
            partial(self._score, pairs, hashes[path]),
            item_texts=lambda: {self._task: pairs.texts},
            remarks=tuple(pairs.remarks(path)),
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
        rows = vectors["pairs"]
        first, second = rows[: len(pairs)], rows[len(pairs) :]
        similarities = pairwise_similarities(vectors.similarity, first, second)
        result = correlate(pairs.scores, similarities)
        zeros = zero_remarks(vectors.similarity, rows, [*pairs.first, *pairs.second])
        drawn_with: Iterable[tuple[str, ...]] = pairs.texts
        if pairs.clusters:
            drawn_with = zip(pairs.clusters, strict=True)
        protocol: dict[str, Any] = {
            "id": "scored-pairs",
            "similarity": "cosine",
            "aggregation": "single",
            "split": self.split or "whole file",
            "pairs": len(pairs),
            "columns": list(self.columns),
            "text": "as in the file",
            "data": data,
        }
        spearman = correlation_score(
            self._task,
            result,
            pairs.scores,
            similarities,
            {**protocol, "correlation": "spearman"},
            zeros=zeros,
            clusters=identities(drawn_with),
        )
        items = spearman.items
        if items is not None:
            items = attrs.evolve(items, statistic="pearson")
        pearson = attrs.evolve(
            spearman,
            metric="pearson",
            value=result.pearson,
            protocol={**protocol, "correlation": "pearson"},
            items=items,
        )
        figure = Scatter(
            title=self._task,
            x_label="gold score",
            y_label=similarity_name(vectors.similarity),
            x=pairs.scores,
            y=tuple(similarities.tolist()),
        )
        return Evaluation((spearman, pearson), spearman.value, (figure,))
