"""Checks of an engine's fitted transforms against the reference."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from sentbed import Encoder
from sentbed.protocols import Head, Transform

from sentbed_testing.comparisons import apart, at_most, holds
from sentbed_testing.engine_cases import Case
from sentbed_testing.engine_pair import EnginePair
from sentbed_testing.sentences import SENTENCES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attrs.frozen
class Mix(Transform):
    """A transform of drawn numbers, to half the width."""

    name: ClassVar[str] = "mix-to-half"

    def output_width(self, width: int) -> int:
        """Return half the width."""
        return width // 2

    def fit(self, vectors: Any, backbone: Any) -> tuple[Any, Any]:
        """Return drawn numbers."""
        import numpy as np

        rng, width = np.random.default_rng(3), vectors.shape[1]
        return rng.standard_normal(width), rng.standard_normal((width, width // 2))


HEAD = Head(projection=18, bias=True, dimensions=7, normalize=True, transform=Mix())
"""Head of the case of `check_transform`: every part that a head without hidden layers has."""


def check_transform(pair: EnginePair, case: Case, tolerance: float = 1e-5) -> None:
    """A fitted transform, and what it is fitted on, are the reference's; saved and loaded they stay.

    The encoder before the fit stays as it is. The case gets the head `HEAD`.
    """
    import numpy as np

    rule = "transform"
    headed = attrs.evolve(case, head=HEAD)
    vectors: dict[str, dict[str, NDArray[np.float32]]] = {}
    for name, engine in (("its", pair.engine), ("theirs", pair.reference)):
        encoder = pair.shared(headed, engine)
        before = encoder.encode(SENTENCES)
        bare = encoder.placed.transformed()
        inputs = attrs.evolve(encoder, placed=bare).encode(SENTENCES)
        fitted = bare.transformed(
            Mix().fit(inputs, encoder.backbone), {"texts": len(inputs)}
        )
        fitted_encoder = attrs.evolve(encoder, placed=fitted)
        with TemporaryDirectory() as directory:
            fitted_encoder.save(Path(directory) / "encoder")
            loaded = Encoder.build(
                headed.recipe, engine, saved=Path(directory) / "encoder"
            )
        fitted_on = dict(loaded.placed.fitted_on or {})
        holds(
            rule,
            case.id,
            fitted_on == {"texts": len(inputs)},
            f"of {name} encoder, loading leaves {fitted_on}",
        )
        after = encoder.encode(SENTENCES)
        what = f"{name} encoder changes with what `transformed` returns"
        holds(
            rule,
            case.id,
            np.array_equal(before, after) and encoder.placed.fitted_on is None,
            what,
        )
        vectors[name] = {
            "the input of a transform": inputs,
            "a fitted transform": fitted_encoder.encode(SENTENCES),
            "a transform that was saved and loaded": loaded.encode(SENTENCES),
        }
    then = "see `PlacedEncoder.transformed`: transform, then cut, then norm"
    for what, expected in vectors["theirs"].items():
        at_most(
            rule,
            case.id,
            f"{what} differs from the reference",
            apart(vectors["its"][what], expected),
            tolerance,
            then,
        )
