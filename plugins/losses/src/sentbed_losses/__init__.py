"""Training losses for sentbed: sentence vectors -> a scalar to minimise."""

from __future__ import annotations

from sentbed import hookimpl
from sentbed.protocols import Loss

sentbed_api = "2.0"


@hookimpl
def losses() -> list[type[Loss]]:
    """Return the losses of this distribution."""

    from sentbed_losses.classification import Classification
    from sentbed_losses.info_nce import InfoNCE
    from sentbed_losses.momentum import Momentum
    from sentbed_losses.nli_softmax import NLISoftmax
    from sentbed_losses.queue import Queue

    return [InfoNCE, Queue, Momentum, Classification, NLISoftmax]
