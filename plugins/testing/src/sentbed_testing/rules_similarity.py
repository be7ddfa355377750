"""Rules of a similarity, tested on random vectors and random token vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.protocols import Similarity, Tensor, TokenVectors

from sentbed_testing import torch_module_checks
from sentbed_testing.component_under_test import Subject
from sentbed_testing.random_token_states import GARBAGE, distance, load_torch

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

TOLERANCE = 1e-5
"""Tolerance relative to the largest value for sums in another order."""
FIRST, SECOND = (3, 1, 5), (2, 6, 1, 4)
"""Number of tokens of each text of the first and of the second side."""


@attrs.frozen
class _Texts:
    """Random vectors of several texts, as a pooler returns them."""

    output: str
    """`vector` or `tokens`: the pooler's kind of output."""
    lengths: tuple[int, ...]
    vectors: Tensor
    """`(n, width)`, or `(n, length, width)` for tokens."""

    @classmethod
    def draw(cls, output: str, lengths: tuple[int, ...], width: int) -> _Texts:
        torch = load_torch()
        shape: tuple[int, ...] = (len(lengths), width)
        if output == "tokens":
            shape = (len(lengths), max(lengths), width)
        generator = torch.Generator().manual_seed(len(lengths))
        return cls(output, lengths, torch.randn(shape, generator=generator))

    def of(self, vectors: Tensor, more: int = 0, garbage: float = GARBAGE) -> Any:
        """Return `vectors` as a pooler's output; tokens get `more` padding, which holds `garbage`."""
        torch = load_torch()
        if self.output != "tokens":
            return vectors
        length = max(self.lengths) + more
        padded = torch.nn.functional.pad(vectors, (0, 0, 0, more))
        mask = torch.arange(length) < torch.tensor(self.lengths)[:, None]
        return TokenVectors(padded.masked_fill(~mask[..., None], garbage), mask)

    def rows(self, rows: list[int]) -> _Texts:
        """Return some of the texts."""
        lengths = tuple(self.lengths[row] for row in rows)
        vectors = self.vectors[rows]
        if self.output == "tokens":
            vectors = vectors[:, : max(lengths)]
        return _Texts(self.output, lengths, vectors)


def _sides(subject: Subject) -> Iterator[tuple[str, _Texts, _Texts]]:
    """Yield each output that it compares, with texts for both sides."""
    for output in sorted(subject.ready.traits.compares):
        first = _Texts.draw(output, FIRST, subject.width)
        yield output, first, _Texts.draw(output, SECOND, subject.width)


def _compare(part: Similarity, first: Any, second: Any) -> Tensor:
    return part.similarity(part.normalize(first), part.normalize(second))


def _pairs(part: Similarity, first: Any, second: Any) -> Tensor:
    return part.pairwise(part.normalize(first), part.normalize(second))


def shape(subject: Subject) -> Findings:
    """`similarity` returns a finite number for each pair of texts, `pairwise` one for each row."""
    torch = load_torch()
    for output, first, second in _sides(subject):
        a, b = first.of(first.vectors), second.of(second.vectors)
        same = second.rows([0, 1, 2])
        results = {
            "similarity": (_compare(subject.ready, a, b), (len(FIRST), len(SECOND))),
            "pairwise": (
                _pairs(subject.ready, a, same.of(same.vectors)),
                (len(FIRST),),
            ),
        }
        for method, (values, expected) in results.items():
            fix = f"return a floating-point tensor {expected} from `{method}`"
            if not isinstance(values, torch.Tensor):
                yield f"`{method}` of {output} returns {type(values).__name__}", fix
            elif tuple(values.shape) != expected or not values.is_floating_point():
                shown = f"{tuple(values.shape)} of {values.dtype}"
                yield f"`{method}` of {output} returns {shown}", fix
            elif not torch.isfinite(values).all():
                yield (
                    f"`{method}` of {output} is NaN or infinite",
                    torch_module_checks.FINITE,
                )


def pairwise(subject: Subject) -> Findings:
    """`pairwise` is the diagonal of `similarity`."""
    for output, first, second in _sides(subject):
        same = second.rows([0, 1, 2])
        a, b = first.of(first.vectors), same.of(same.vectors)
        apart = distance(
            _pairs(subject.ready, a, b), _compare(subject.ready, a, b).diagonal()
        )
        if not apart <= TOLERANCE:
            yield (
                f"of {output}, `pairwise` differs from the diagonal of `similarity` by {apart:.2g} of its "
                f"size (allowed {TOLERANCE:g})",
                "let both compute the same, or leave `pairwise` out",
            )


def alone(subject: Subject) -> Findings:
    """The similarity of two texts depends neither on other texts nor on padding."""
    for output, first, second in _sides(subject):
        together = _compare(
            subject.ready, first.of(first.vectors, 2), second.of(second.vectors, 3)
        )
        worst = 0.0
        for row in range(len(FIRST)):
            for column in range(len(SECOND)):
                a, b = first.rows([row]), second.rows([column])
                value = _compare(subject.ready, a.of(a.vectors), b.of(b.vectors))
                difference = distance(
                    value, together[row : row + 1, column : column + 1]
                )
                if math.isnan(difference):
                    difference = math.inf
                worst = max(worst, difference)
        if not worst <= TOLERANCE:
            yield (
                f"of {output}, the similarity of two texts changes by {worst:.2g} of its size where they are "
                f"alone (allowed {TOLERANCE:g})",
                "compare each pair by itself, and leave out tokens that `mask` has false for",
            )


def gradient(subject: Subject) -> Findings:
    """The gradient is that of finite differences, on both sides."""
    torch = load_torch()
    generator = torch.Generator().manual_seed(7)
    weights = torch.randn((len(FIRST), len(SECOND)), generator=generator)

    def functions() -> Iterator[tuple[str, Callable[[Tensor], Tensor], Tensor]]:
        for output, first, second in _sides(subject):
            for side, texts in (("first", first), ("second", second)):
                total = partial(_total, subject.ready, first, second, side, weights)
                what = f"of {output}, the gradient for the {side} texts"
                yield what, total, texts.vectors

    for what in torch_module_checks.wrong_gradients(functions()):
        yield (
            what,
            "let the gradient through: no `.detach()`, no rounding and no `no_grad` on the way",
        )


def _total(
    part: Any, first: _Texts, second: _Texts, side: str, weights: Tensor, at: Tensor
) -> Tensor:
    """Return the weighted sum of all similarities, where one side has the vectors `at`."""
    a, b = first.vectors, second.vectors
    if side == "first":
        a = at
    else:
        b = at
    similarities = _compare(part, first.of(a, garbage=0.0), second.of(b, garbage=0.0))
    return (similarities * weights).sum()


def stateless(subject: Subject) -> Findings:
    """A call changes no argument, and repeating it gives the same numbers."""
    for output, first, second in _sides(subject):
        a, b = first.vectors.clone(), second.vectors.clone()
        values = _compare(subject.ready, first.of(a), second.of(b))
        if not torch_module_checks.same((a, b), (first.vectors, second.vectors)):
            yield (
                f"of {output}, a call writes into its arguments",
                "take copies: no operation that ends in `_`",
            )
        again = _compare(
            subject.ready, first.of(first.vectors), second.of(second.vectors)
        )
        if not torch_module_checks.same(again, values):
            yield (
                f"of {output}, a second call gives other numbers",
                "keep nothing between calls, and draw nothing",
            )


def cost(subject: Subject) -> Findings:
    """Bytes of a text and operations of a pair are positive numbers."""
    part, width = subject.ready, subject.width
    for method, value in (
        ("bytes_per_text", part.bytes_per_text(width, 3)),
        ("operations", part.operations(width, 3, 5)),
    ):
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
_SHAPE = {"shape": "the numbers have another shape; see the rule `shape`"}
PREREQUISITES = dict.fromkeys(("pairwise", "alone", "gradient", "stateless"), _SHAPE)
"""Rule -> {other rule: reason}: the rule is not run if the other one has findings."""
