"""Check of an engine's fitted transforms against the reference engine."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from sentbed import Encoder
from sentbed.protocols import Head, Transform

from sentbed_testing.comparisons import Comparison
from sentbed_testing.engine_cases import Case
from sentbed_testing.engine_pair import EnginePair
from sentbed_testing.sentences import SENTENCES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attrs.frozen
class Mix(Transform):
    """A transform that halves the width, with a random mean and a random matrix."""

    name: ClassVar[str] = "mix-to-half"

    def output_width(self, width: int) -> int:
        """Return half the width."""
        return width // 2

    def fit(self, vectors: Any, backbone: Any) -> tuple[Any, Any]:
        """Return a random mean and matrix."""
        import numpy as np

        generator = np.random.default_rng(3)
        width = vectors.shape[1]
        mean = generator.standard_normal(width)
        return mean, generator.standard_normal((width, width // 2))


HEAD_WITH_TRANSFORM = Head(
    projection=18,
    bias=True,
    dimensions=7,
    normalize=True,
    transform=Mix(),
)
"""Head that has every part of a head except hidden layers."""


def check_transform(
    pair: EnginePair,
    case: Case,
    tolerance: float = 1e-5,
) -> None:
    """A fitted transform gives the reference's vectors, also after saving and loading.

    A saved encoder keeps the record of the texts that the transform was fitted on. The encoder that the transform
    was fitted for does not change. The case gets the head `HEAD_WITH_TRANSFORM`.
    """
    compare = Comparison("transform", case.id)
    case = attrs.evolve(case, head=HEAD_WITH_TRANSFORM)
    encoder = pair.shared(case, pair.engine)
    reference = pair.shared(case, pair.reference)
    actual = _transformed(compare, "the engine's encoder", encoder)
    expected = _transformed(compare, "the reference's encoder", reference)
    advice = "see `PlacedEncoder.transformed`: transform, then cut, then norm"
    for what, vectors in expected.items():
        what_differs = f"{what} differs from the reference"
        compare.same_vectors(what_differs, actual[what], vectors, tolerance, advice)


def _transformed(
    compare: Comparison,
    name: str,
    encoder: Encoder,
) -> dict[str, NDArray[np.float32]]:
    """Return the vectors before the transform, after it, and after it in an encoder that was saved and loaded."""
    import numpy as np

    before = encoder.encode(SENTENCES)
    without_transform = encoder.placed.transformed()
    inputs = attrs.evolve(encoder, placed=without_transform).encode(SENTENCES)

    fitted_on = {"texts": len(inputs)}
    mean_and_matrix = Mix().fit(inputs, encoder.backbone)
    placed = without_transform.transformed(mean_and_matrix, fitted_on)
    fitted = attrs.evolve(encoder, placed=placed)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "encoder"
        fitted.save(path)
        loaded = Encoder.build(encoder.recipe, encoder.engine, saved=path)

    loaded_on = dict(loaded.placed.fitted_on or {})
    compare.require(
        loaded_on == fitted_on,
        f"{name} has `fitted_on` {loaded_on} after loading, and had {fitted_on}",
    )
    is_unchanged = np.array_equal(before, encoder.encode(SENTENCES))
    compare.require(
        is_unchanged and encoder.placed.fitted_on is None,
        f"{name} is changed by a call of `transformed`, which must return a new one",
    )
    return {
        "the input of a transform": inputs,
        "a fitted transform": fitted.encode(SENTENCES),
        "a transform that was saved and loaded": loaded.encode(SENTENCES),
    }
