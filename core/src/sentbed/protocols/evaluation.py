"""The two halves of an evaluator: what is to be encoded, and the scores of its vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs

from sentbed.errors import RunError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed.protocols.components import Evaluation, TextEncoder

PartProgress: TypeAlias = Callable[[str, int, int], None]
"""Called with a part of an evaluation, how much of it is done, and of how much."""


def _untold(what: str, done: int, total: int) -> None:
    """Tell nobody."""


@attrs.frozen(eq=False)
class Texts:
    """A list of texts that is encoded in one pass.

    In its last bits a vector depends on the texts beside it: the list decides the score to the bit.
    """

    first: Sequence[str] = ()
    second: Sequence[str] = ()
    """The second sentences of pairs, for an evaluator that is `two_sided`. A second encoder, where there is one,
    encodes these apart; else one pass encodes both sides, these last."""

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    @property
    def both(self) -> list[str]:
        """The texts of the first side, then those of the second."""
        return [*self.first, *self.second]


@attrs.frozen(eq=False)
class Vectors:
    """The vectors of the lists that were prepared, each by the name of its list.

    A list is encoded when its vectors are asked for, and they are not kept here: an evaluator that has done
    with one list before it asks for the next needs memory for one.
    """

    lists: Mapping[str, Texts]
    encoder: TextEncoder
    second: TextEncoder | None = None
    """What encodes the second side; the same encoder where None."""
    device: str = "cpu"
    """Where an evaluator that trains a classifier computes, in torch's words (`cpu`, `cuda:0`)."""
    progress: PartProgress = _untold
    """To be called with how far a part of the evaluation is; encoding reports itself."""

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        """Return one row a text of a list, float32 `(texts, width)`: the first side's, then the second's.

        Raises `RunError` where two encoders give vectors of different widths.
        """
        import numpy as np

        texts = self.lists[name]
        if self.second is None:
            return self.encoder.encode(texts.both)
        if not texts.second:
            return self.encoder.encode(list(texts.first))
        if not texts.first:
            return self.second.encode(list(texts.second))
        sides = self.encoder.encode(list(texts.first)), self.second.encode(list(texts.second))
        one, other = (np.shape(side)[-1] for side in sides)
        if one != other:
            raise RunError(
                f"the encoder of the first sentences gives vectors of width {one}, that of the second ones "
                f"of width {other}, which cannot be compared; give both heads the same `projection`"
            )
        return np.concatenate(sides)


@attrs.frozen(eq=False)
class Prepared:
    """What an evaluator has read: the lists that are to be encoded, and how their vectors are scored."""

    lists: Mapping[str, Texts]
    """Name -> texts."""
    score: Callable[[Vectors], Evaluation]

    @property
    def size(self) -> int:
        """How many texts are to be encoded."""
        return sum(map(len, self.lists.values()))

    def evaluate(
        self,
        encoder: TextEncoder,
        second: TextEncoder | None = None,
        device: str = "cpu",
        progress: PartProgress | None = None,
    ) -> Evaluation:
        """Encode with any text encoder, and score."""
        return self.score(Vectors(self.lists, encoder, second, device, progress or _untold))


@attrs.frozen(eq=False)
class DrivesEncoder:
    """What an evaluator prepares that drives the encoder itself: a library's tasks, or a stopwatch."""

    evaluate: Callable[[TextEncoder], Evaluation]
    texts: Callable[[], Iterable[str]] = tuple
    """Texts on which an encoder with random weights may train a tokenizer, where no stage gives it texts."""


Preparation: TypeAlias = Prepared | DrivesEncoder
"""What `Evaluator.prepare` returns."""
