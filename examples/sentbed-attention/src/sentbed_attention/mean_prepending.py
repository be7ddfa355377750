"""The intervention `mean-prepending`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import ClassVar

import attrs
from attrs.validators import ge
from sentbed.protocols import BlockStates, Intervention, Tensor


@attrs.frozen
class MeanPrepending(Intervention):
    """Put the mean of the states behind a placeholder in its place, before each of some blocks.

    The placeholder stands before the sentence, so that every token of it attends to a summary of the whole, which
    a causal model would not allow. `token-prepending` has the last token's state there.
    """

    name: ClassVar[str] = "mean-prepending"

    placeholder = "<MEAN>"
    shares_prefix = True

    first: int = attrs.field(default=1, validator=ge(0))
    """First block, from 0, that reads the mean."""
    exit: int = attrs.field(default=2, validator=ge(1))
    """First block after it that does not."""

    @property
    def places(self) -> Collection[tuple[str, int]]:
        """The input of each block from `first` to before `exit`."""
        return [("block-input", block) for block in range(self.first, self.exit)]

    def check(self) -> Iterator[str]:
        """Yield the problem of an empty range."""
        if self.exit <= self.first:
            yield f"`exit` is {self.exit} and `first` is {self.first}; set `exit` to more than `first`"

    def build(self) -> Callable[[BlockStates], Tensor]:
        """Return the function from states to states."""
        from sentbed_attention._torch import prepend_mean

        return prepend_mean
