"""Checks of an engine's fitted transforms against the reference."""

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
    """A transform with random mean and matrix, which halves the width."""

    name: ClassVar[str] = "mix-to-half"

    def output_width(self, width: int) -> int:
        """Return half the width."""
        return width // 2

    def fit(self, vectors: Any, backbone: Any) -> tuple[Any, Any]:
        """Return a random mean and matrix."""
        import numpy as np

        rng, width = np.random.default_rng(3), vectors.shape[1]
        return rng.standard_normal(width), rng.standard_normal((width, width // 2))


HEAD = Head(projection=18, bias=True, dimensions=7, normalize=True, transform=Mix())
"""Head of the encoder in `check_transform`: every part of a head but hidden layers."""


def check_transform(pair: EnginePair, case: Case, tolerance: float = 1e-5) -> None:
    """A fitted transform gives the reference's vectors, also after saving and loading.

    Its record of the texts is kept, and the encoder before the fit is not changed. The case gets the head
    `HEAD`.
    """
    headed = attrs.evolve(case, head=HEAD)
    compare = Comparison("transform", case.id)
    actual = _transformed(compare, "its", pair.shared(headed, pair.engine))
    expected = _transformed(compare, "theirs", pair.shared(headed, pair.reference))
    advice = "see `PlacedEncoder.transformed`: transform, then cut, then norm"
    for what, vectors in expected.items():
        what_differs = f"{what} differs from the reference"
        compare.same_vectors(what_differs, actual[what], vectors, tolerance, advice)


def _transformed(
    compare: Comparison, name: str, encoder: Encoder
) -> dict[str, NDArray[np.float32]]:
    """Return the vectors without the transform, with it, and with it after saving and loading."""
    import numpy as np

    before = encoder.encode(SENTENCES)
    bare = encoder.placed.transformed()
    inputs = attrs.evolve(encoder, placed=bare).encode(SENTENCES)
    fitted_on = {"texts": len(inputs)}
    fit = Mix().fit(inputs, encoder.backbone)
    fitted = attrs.evolve(encoder, placed=bare.transformed(fit, fitted_on))
    with TemporaryDirectory() as directory:
        place = Path(directory) / "encoder"
        fitted.save(place)
        loaded = Encoder.build(encoder.recipe, encoder.engine, saved=place)

    loaded_on = dict(loaded.placed.fitted_on or {})
    compare.require(
        loaded_on == fitted_on, f"of {name} encoder, loading leaves {loaded_on}"
    )
    is_unchanged = np.array_equal(before, encoder.encode(SENTENCES))
    compare.require(
        is_unchanged and encoder.placed.fitted_on is None,
        f"{name} encoder changes with what `transformed` returns",
    )
    return {
        "the input of a transform": inputs,
        "a fitted transform": fitted.encode(SENTENCES),
        "a transform that was saved and loaded": loaded.encode(SENTENCES),
    }
