"""The PyTorch module that computes the loss `angle`."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from sentbed_losses._torch.cosent import CoSENTLoss
from sentbed_losses._torch.similarity import unit


class AngleLoss(CoSENTLoss):
    """The loss `angle`; see `sentbed_losses.angle.Angle`."""

    def similarity(self, u: Tensor, v: Tensor) -> Tensor:
        """Return AnglE's similarity of each row of `u` and `v`, fp32 `(rows,)`."""
        a, b = _halves(u)
        c, d = _halves(v)
        # In each dimension, the real plus the imaginary part of u times the conjugate of v. The quotient u / v of
        # the paper divides by the squared length of v, which is 1.
        terms = a * c + b * d + b * c - a * d
        return terms.sum(dim=-1).abs()


def _halves(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Normalise vectors to length 1, and return their first halves (real parts) and second halves (imaginary)."""
    odd = vectors.shape[-1] % 2
    real, imaginary = functional.pad(unit(vectors), (0, odd)).chunk(2, dim=-1)
    return real, imaginary
