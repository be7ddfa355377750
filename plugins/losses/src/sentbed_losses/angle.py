"""The loss `angle`."""

from __future__ import annotations

import attrs
from sentbed.protocols import Module

from sentbed_losses.pairwise_ranking_base import Ranking


@attrs.frozen
class Angle(Ranking):
    """`cosent` over AnglE's similarity of two vectors read as complex numbers.

    A vector's first half is the real part, its second half the imaginary part; a vector of odd width gets a
    zero at its end. For x = (a, b) and y = (c, d) the similarity is

        |<a, c> + <b, d> + <b, c> - <a, d>| / (|x| |y|)

    the absolute sum of real and imaginary parts of x / y, as in the authors' code. It is a similarity and no
    angle: the paper's equation 3 subtracts in the other order.

    Source: Li and Li 2024 (AnglE).
    """

    name = "angle"
    papers = ("li2024angle", "huang2024cosent")

    def build(self, width: int) -> Module:
        """Return `module(inputs) -> LossOutput`; see `CoSENT` for its metric."""
        from sentbed_losses._torch.angle import AngleLoss

        return AngleLoss(temperature=self.temperature, rows=self.rows)
