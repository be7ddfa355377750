"""The loss `angle`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module

from sentbed_losses.pairwise_ranking_base import Ranking


@attrs.frozen
class Angle(Ranking):
    """`cosent` with AnglE's similarity, for which vectors are read as complex numbers.

    The first half of a vector is the real part, the second half is the imaginary part. A vector of odd width
    gets a zero at its end. For x = (a, b) and y = (c, d), the similarity is

        |<a, c> + <b, d> + <b, c> - <a, d>| / (|x| |y|)

    This is the absolute value of the sum of the real and imaginary parts of x / y, as in the authors' code.
    Equation 3 of the paper subtracts in the other order, since it compares angles.

    Source: Li and Li 2024 (AnglE).
    """

    name = "angle"
    other_names = (
        "AnglELoss",
        "SparseAnglELoss",
    )
    cites = ("li2024angle", "huang2024cosent")

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(inputs)` and returns a `LossOutput`.

        Its metric `correlation` is Pearson's correlation of the similarities and scores in the batch.
        """
        from sentbed_losses._torch.angle import AngleLoss

        return AngleLoss(self)
