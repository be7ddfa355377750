"""Bitext mining: the search for each line's translation in the other file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs
from attrs.validators import ge, optional
from sentbed import DataError, FilePath, locate
from sentbed.helpers import sha256
from sentbed.protocols import (
    EncoderRecipe,
    Evaluation,
    Evaluator,
    Items,
    Prepared,
    Score,
    Similarity,
    Texts,
    Vectors,
)
from sentbed_common import Neighbours, in_blocks, nearest, unit_rows

from sentbed_evaluators.degenerate_scores import equal_vectors
from sentbed_evaluators.line_aligned_pairs import ParallelFiles
from sentbed_evaluators.similarities import (
    ALL_OUTPUTS,
    in_parts,
    is_cosine,
    most_similar,
    searchable,
)
from sentbed_evaluators.text_lines import read_lines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentbed_common import Encoded


@attrs.frozen
class Bitext(Evaluator):
    """Accuracy x 100 of the search for each sentence's translation among all lines of the other file.

    For `accuracy-forward`, each line of the first file is the query of a search in the second file; for
    `accuracy-backward`, it is the other way round. `accuracy`, the first score and `primary`, is their mean.

    A retrieved text is right if it is the translation of the query on any line, not only on the query's own line:
    if "Hi." occurs with two translations, either one is right. (LASER compares line numbers, so its accuracy is
    lower if texts repeat.) Of lines with equal similarity, the earlier one is retrieved. A `second` encoder
    encodes the second file.
    """

    name: ClassVar[str] = "bitext"

    parallel: tuple[FilePath, FilePath]
    """Two text files with one sentence per line; line n of one is the translation of line n of the other."""
    pairs: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of lines to use, from the first on; default: all."""
    score: Literal["cosine", "margin"] = "cosine"
    """Score by which translations are ranked. `cosine` is the cosine or, if the encoder names another similarity,
    that one. `margin` is the ratio of Artetxe & Schwenk (2019): the cosine of two sentences, divided by the mean
    of two mean cosines: of each sentence with its `neighbours` nearest lines in the other file."""
    neighbours: int = attrs.field(default=4, validator=ge(1))
    """For `margin`: number of nearest lines by cosine in the other file. Among them, the line with the highest
    margin is retrieved. The paper's number is 4."""
    task: str | None = None
    """Name in scores and report; default: the files' names without suffix."""
    split: Literal["train", "dev", "test"] | None = None
    """Split to which the files belong, for the protocol. Only on `dev` or `train` can a checkpoint be chosen.
    Default: not stated."""

    cites = ("artetxe2019margin",)
    two_sided = True
    reads = ALL_OUTPUTS

    @property
    def development(self) -> bool:
        """Whether `split` is `train` or `dev`."""
        return self.split in ("train", "dev")

    def check(self) -> Iterator[str]:
        """Yield problems with the files."""
        yield from self._files(1).problems()

    def misfits(self, place: EncoderRecipe) -> Iterator[str]:
        """Yield a problem if `score` is `margin` and the encoder's similarity is not the cosine."""
        similarity = place.similarity
        if similarity is None or is_cosine(similarity):
            return
        if self.score == "margin":
            yield (
                f'`score = "margin"` is a ratio of cosines, and the encoder\'s similarity is '
                f"`{similarity.name}`; take `score` out, or the encoder's `similarity`"
            )

    def prepare(self) -> Prepared:
        """Read both files.

        Raises:
            DataError: if a file cannot be read, a line is blank, or the files differ in their numbers of lines;
                with file and line.
        """
        for problem in self.check():
            raise DataError(problem)

        lines = self.pairs or len(read_lines(locate(self.parallel[0])))
        data = [sha256(locate(path)) for path in self.parallel]
        first, second = self._files(lines).read()
        lists = {"first": Texts(first), "second": Texts(second=second)}

        return Prepared(
            lists,
            partial(self._score, first, second, data),
            item_texts=lambda: {self._task: list(zip(first, second, strict=True))},
        )

    def _score(
        self,
        first: Sequence[str],
        second: Sequence[str],
        data: Sequence[str],
        vectors: Vectors,
    ) -> Evaluation:
        """Search in both directions and score.

        Raises `RunError` if an embedding is not finite or zero, or the sides differ in width.
        """
        similarity = vectors.similarity
        by_cosine = is_cosine(similarity)
        left = searchable(vectors, "first", by_cosine)
        right = searchable(vectors, "second", by_cosine)
        degenerate = ""
        if by_cosine:
            # Each side is tested alone, since two encoders may have collapsed to different directions.
            degenerate = equal_vectors(left) or equal_vectors(right)
        if self.score == "margin":
            near = _nearest_lines(left, right, self.neighbours)
            near_others = _nearest_lines(right, left, self.neighbours)
            nearest_of_first = _best_margin(near, near_others)
            nearest_of_second = _best_margin(near_others, near)
        else:
            nearest_of_first = _most_similar(similarity, left, right)
            nearest_of_second = _most_similar(similarity, right, left)

        forward, backward = _correct(first, second, nearest_of_first, nearest_of_second)
        ranked_by = "cosine"
        if self.score == "margin":
            ranked_by = f"ratio margin, k = {self.neighbours}"
        default_split = "whole file" if self.pairs is None else "first lines"
        protocol: dict[str, Any] = {
            "id": "bitext",
            "similarity": "cosine",
            "ranked_by": ranked_by,
            "split": self.split or default_split,
            "pairs": len(first),
            "equal_texts": "count as found",
            "ties": "the earlier line first",
            "text": "as in the file",
            "data": list(data),
        }
        directions = {
            "accuracy": (forward + backward) / 2,
            "accuracy-forward": forward,
            "accuracy-backward": backward,
        }
        score = partial(Score, self._task, protocol=protocol, degenerate=degenerate)
        scores = []
        for metric, values in directions.items():
            value = 100 * float(values.mean())
            scores.append(score(metric, value, items=Items("mean", values)))

        return Evaluation(tuple(scores), primary=scores[0].value)

    @property
    def _task(self) -> str:
        """The name of the task in scores."""
        return self.task or self._files(1).task

    def _files(self, pairs: int) -> ParallelFiles:
        """Return the two files, with their first `pairs` lines as aligned pairs."""
        return ParallelFiles(*self.parallel, pairs, pairs, seed=0)


def _nearest_lines(lines: Encoded, others: Encoded, count: int) -> Neighbours:
    """Return the `count` lines of the other file that are nearest by cosine to each line."""
    assert not isinstance(lines, list), "a margin is a ratio of cosines"
    assert not isinstance(others, list), "a margin is a ratio of cosines"
    return nearest(unit_rows(lines), in_blocks(unit_rows(others)), count)


def _most_similar(
    similarity: Similarity | None,
    lines: Encoded,
    others: Encoded,
) -> list[int]:
    """Return the most similar of the other file's lines for each line."""
    places = most_similar(similarity, lines, in_parts(others), 1)
    most_similar_lines: list[int] = places[:, 0].tolist()
    return most_similar_lines


def _best_margin(neighbours: Neighbours, others: Neighbours) -> list[int]:
    """Return, for each row, its neighbour with the highest ratio margin; of equal margins, the nearer one.

    `neighbours` has the nearest lines of the other file for each row; `others` has the nearest rows for each
    line of the other file.
    """
    import numpy as np

    mean = neighbours.similarities.mean(axis=1)
    mean_of_others = others.similarities.mean(axis=1)
    # The paper divides each of the two sums of k cosines by 2k, which is half of its mean.
    scale = (mean[:, None] + mean_of_others[neighbours.places]) / 2
    # A ratio to a scale of 0 or less is meaningless: such a candidate ranks last.
    margins = np.full(scale.shape, -np.inf)
    np.divide(neighbours.similarities, scale, out=margins, where=scale > 0)
    best = margins.argmax(axis=1)
    lines: list[int] = neighbours.places[np.arange(len(best)), best].tolist()

    return lines


def _correct(
    first: Sequence[str],
    second: Sequence[str],
    nearest_of_first: Sequence[int],
    nearest_of_second: Sequence[int],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return, for each line of the first file, 1 if its nearest line is a translation, else 0.

    The second array has the same for each line of the second file.
    """
    import numpy as np

    translations = set(zip(first, second, strict=True))
    forward, backward = np.zeros(len(first)), np.zeros(len(first))
    for line, (text, translation) in enumerate(zip(first, second, strict=True)):
        forward[line] = (text, second[nearest_of_first[line]]) in translations
        backward[line] = (first[nearest_of_second[line]], translation) in translations

    return forward, backward
