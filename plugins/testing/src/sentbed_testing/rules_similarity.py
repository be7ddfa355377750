"""Rules of a similarity. It compares random vectors, and random token vectors if it can."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.protocols import Similarity, Tensor, TokenVectors

from sentbed_testing import torch_module_checks
from sentbed_testing.component_under_test import Subject
from sentbed_testing.random_token_states import GARBAGE, distance, load_torch

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

TOLERANCE = 1e-5
"""Tolerance for sums in another order, relative to the largest absolute value."""
FIRST = (3, 1, 5)
"""Number of tokens of each text on the first side."""
SECOND = (2, 6, 1, 4)
"""Number of tokens of each text on the second side."""


@attrs.frozen
class _Texts:
    """Random vectors of several texts."""

    output: str
    """Output of the pooler: `vector` (one vector per text) or `tokens` (one vector per token)."""
    lengths: tuple[int, ...]
    """Number of tokens of each text."""
    vectors: Tensor
    """Tensor `(texts, width)`, or `(texts, length, width)` for tokens."""

    @classmethod
    def draw(
        cls,
        output: str,
        lengths: tuple[int, ...],
        width: int,
    ) -> _Texts:
        """Return texts of these lengths with random vectors."""
        torch = load_torch()
        shape: tuple[int, ...] = (len(lengths), width)
        if output == "tokens":
            shape = (len(lengths), max(lengths), width)
        generator = torch.Generator().manual_seed(len(lengths))
        return cls(output, lengths, torch.randn(shape, generator=generator))

    def pooled(
        self,
        vectors: Tensor | None = None,
        more: int = 0,
        garbage: float = GARBAGE,
    ) -> Any:
        """Return the texts' vectors, or other `vectors` of this shape, in the form of a pooler's output.

        Token vectors get a mask and `more` tokens of padding. All padding holds the number `garbage`.
        """
        torch = load_torch()
        if vectors is None:
            vectors = self.vectors
        if self.output != "tokens":
            return vectors
        length = max(self.lengths) + more
        padded = torch.nn.functional.pad(vectors, (0, 0, 0, more))
        mask = torch.arange(length) < torch.tensor(self.lengths)[:, None]
        return TokenVectors(padded.masked_fill(~mask[..., None], garbage), mask)

    def rows(self, rows: list[int]) -> _Texts:
        """Return the texts of some rows."""
        lengths = tuple(self.lengths[row] for row in rows)
        vectors = self.vectors[rows]
        if self.output == "tokens":
            vectors = vectors[:, : max(lengths)]
        return _Texts(self.output, lengths, vectors)


def _outputs(subject: Subject) -> Iterator[tuple[str, _Texts, _Texts]]:
    """Yield each pooler output that the similarity compares, with texts for the first and the second side."""
    for output in sorted(subject.ready.compares):
        first = _Texts.draw(output, FIRST, subject.width)
        yield output, first, _Texts.draw(output, SECOND, subject.width)


def _all_pairs(
    part: Similarity,
    first: Any,
    second: Any,
) -> Tensor:
    """Return the similarity of each text of the first side to each text of the second side."""
    return part.similarity(part.normalize(first), part.normalize(second))


def _row_pairs(
    part: Similarity,
    first: Any,
    second: Any,
) -> Tensor:
    """Return the similarity of the two texts in each row."""
    return part.pairwise(part.normalize(first), part.normalize(second))


def shape(subject: Subject) -> Findings:
    """`similarity` returns a finite number for each pair of texts, and `pairwise` one for each row."""
    torch = load_torch()
    for output, first, second in _outputs(subject):
        left, right = first.pooled(), second.pooled()
        partners = second.rows([0, 1, 2]).pooled()
        results = {
            "similarity": _all_pairs(subject.ready, left, right),
            "pairwise": _row_pairs(subject.ready, left, partners),
        }
        shapes: dict[str, tuple[int, ...]] = {
            "similarity": (len(FIRST), len(SECOND)),
            "pairwise": (len(FIRST),),
        }
        for method, values in results.items():
            expected = shapes[method]
            fix = f"return a floating-point tensor {expected} from `{method}`"
            if not isinstance(values, torch.Tensor):
                yield f"`{method}` for {output} returns {type(values).__name__}", fix
            elif tuple(values.shape) != expected or not values.is_floating_point():
                shown = f"{tuple(values.shape)} of {values.dtype}"
                yield f"`{method}` for {output} returns {shown}", fix
            elif not torch.isfinite(values).all():
                yield (
                    f"`{method}` for {output} is NaN or infinite",
                    torch_module_checks.FINITE_REMEDY,
                )


def pairwise(subject: Subject) -> Findings:
    """`pairwise` is the diagonal of `similarity`."""
    for output, first, second in _outputs(subject):
        left = first.pooled()
        right = second.rows([0, 1, 2]).pooled()
        values = _row_pairs(subject.ready, left, right)
        diagonal = _all_pairs(subject.ready, left, right).diagonal()
        difference = distance(values, diagonal)
        if not difference <= TOLERANCE:
            yield (
                f"for {output}, `pairwise` differs from the diagonal of `similarity` by {difference:.2g} of its "
                f"size (allowed {TOLERANCE:g})",
                "let both compute the same, or leave `pairwise` out",
            )


def alone(subject: Subject) -> Findings:
    """The similarity of two texts depends neither on other texts nor on padding."""
    for output, first, second in _outputs(subject):
        together = _all_pairs(
            subject.ready, first.pooled(more=2), second.pooled(more=3)
        )
        worst = 0.0
        for row, column in product(range(len(FIRST)), range(len(SECOND))):
            left = first.rows([row]).pooled()
            right = second.rows([column]).pooled()
            alone = _all_pairs(subject.ready, left, right)
            difference = distance(alone, together[row, column].reshape(1, 1))
            worst = max(worst, difference)

        if not worst <= TOLERANCE:
            yield (
                f"for {output}, the similarity of two texts changes by {worst:.2g} of its size if they are "
                f"alone (allowed {TOLERANCE:g})",
                "compare each pair by itself, and leave out tokens whose `mask` is false",
            )


def gradient(subject: Subject) -> Findings:
    """The gradients of the vectors on both sides agree with finite differences."""
    torch = load_torch()
    generator = torch.Generator().manual_seed(7)
    factors = torch.randn((len(FIRST), len(SECOND)), generator=generator)

    def functions() -> Iterator[tuple[str, Callable[[Tensor], Tensor], Tensor]]:
        for output, first, second in _outputs(subject):
            total = partial(_weighted_sum, subject.ready, first, second, factors)
            what = f"for {output}, the gradient for the first texts"
            yield what, partial(total, b=second.vectors), first.vectors
            what = f"for {output}, the gradient for the second texts"
            yield what, partial(total, first.vectors), second.vectors

    for what in torch_module_checks.wrong_gradients(functions()):
        yield (
            what,
            "let the gradient pass: use no `.detach()`, `no_grad` or rounding",
        )


def _weighted_sum(
    part: Any,
    first: _Texts,
    second: _Texts,
    factors: Tensor,
    a: Tensor,
    b: Tensor,
) -> Tensor:
    """Return the sum of all similarities, weighted by `factors`. The two sides have the vectors `a` and `b`."""
    left = first.pooled(a, garbage=0.0)
    right = second.pooled(b, garbage=0.0)
    return (_all_pairs(part, left, right) * factors).sum()


def stateless(subject: Subject) -> Findings:
    """A call changes no argument, and a second call gives the same numbers."""
    for output, first, second in _outputs(subject):
        left = first.pooled(first.vectors.clone())
        right = second.pooled(second.vectors.clone())
        values = _all_pairs(subject.ready, left, right)
        unchanged = (first.pooled(), second.pooled())
        if not torch_module_checks.same((left, right), unchanged):
            yield (
                f"for {output}, a call writes into its arguments",
                "change copies: use no operation that ends in `_`",
            )

        repeated = _all_pairs(subject.ready, first.pooled(), second.pooled())
        if not torch_module_checks.same(repeated, values):
            yield (
                f"for {output}, a second call gives other numbers",
                "draw no random numbers, and keep nothing between calls",
            )


def cost(subject: Subject) -> Findings:
    """The bytes per text and the operations per pair, by which costs are estimated, are positive numbers."""
    part, width = subject.ready, subject.width
    numbers = {
        "bytes_per_text": part.bytes_per_text(width, 3),
        "operations": part.operations(width, 3, 5),
    }
    for method, value in numbers.items():
        if not isinstance(value, int | float) or not value > 0:
            yield f"`{method}` is {value!r}", "return a number above 0"


RULES = {
    "shape": shape,
    "pairwise": pairwise,
    "alone": alone,
    "gradient": gradient,
    "stateless": stateless,
    "cost": cost,
}
_SHAPE = {"shape": "the similarities have another shape; see the rule `shape`"}
PREREQUISITES = dict.fromkeys(("pairwise", "alone", "gradient", "stateless"), _SHAPE)
"""Rule -> {another rule: reason}. The rule is not run, for this reason, if the other rule has findings."""
