"""A pooler and a loss, each with one fault by its name: a field `fault`, empty for none."""

from __future__ import annotations

import random
from itertools import count
from typing import ClassVar

import attrs
from sentbed.protocols import Loss, LossOutput, Pooler

CALLS = count()


@attrs.frozen
class Attend(Pooler):
    """The mean of the states, weighted by a learned query."""

    name: ClassVar[str] = "attend"

    fault: str = ""
    """What is wrong with it."""

    @property
    def needs(self):
        if self.fault == "misspelt need":
            return frozenset({"layer"})
        return frozenset()

    def build(self, width):
        """Return the module."""
        import numpy as np
        import torch

        fault = self.fault

        class Attending(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.query = torch.nn.Parameter(torch.randn(width))
                if fault == "frozen weight":
                    self.query.requires_grad_(False)
                if fault == "mutates a buffer":
                    self.register_buffer("calls", torch.zeros(()))
                if fault == "keeps what it saw":
                    self._seen = []
                if fault == "forgets on save":
                    self.noise = torch.randn(width)
                if fault == "holds a constant":
                    self.ones = torch.ones(width)
                if fault == "saves half":
                    self.register_buffer("noise", torch.randn(width), persistent=False)

            def forward(self, states):
                hidden, mask = states.last_hidden_state, states.attention_mask
                if fault == "plain mean":
                    return hidden.mean(1)
                if fault == "deviation of one":
                    kept = torch.ones_like(hidden[..., 0]) if mask is None else mask
                    rows = torch.einsum(
                        "blw,bl->bw",
                        torch.where(kept[..., None] > 0, hidden, 0),
                        kept.float(),
                    )
                    return rows / (kept.sum(1, keepdim=True) - 1)
                if fault == "root of a deviation":
                    kept = (
                        torch.ones_like(hidden[..., 0])
                        if mask is None
                        else mask.float()
                    )
                    count = kept.sum(1)[:, None, None]
                    mean = (hidden * kept[..., None]).sum(1, keepdim=True) / count
                    square = ((hidden - mean) ** 2 * kept[..., None]).sum(1) / count[
                        :, 0
                    ]
                    return square.sqrt()
                if fault == "reads what it does not need":
                    return states.layers[0].mean(1)
                if fault == "writes into states":
                    hidden.mul_(0.5)
                if fault == "boolean index" and mask is not None:
                    assert hidden[mask.bool()].shape[0] > 0
                if fault == "item" and mask is not None:
                    hidden = hidden[:, : int(mask.sum(1).max().item()) + 99]
                logits = hidden.float() @ self.query
                if fault == "exp":
                    logits = (100 * logits).exp().log()
                if mask is not None:
                    logits = logits.masked_fill(mask == 0, float("-inf"))
                weights = logits.softmax(1)
                if fault == "detached":
                    weights = weights.detach()
                pooled = (hidden.float() * weights[..., None]).sum(1)
                if fault == "mutates a buffer":
                    self.calls += 1
                if fault == "keeps what it saw":
                    self._seen.append(hidden.shape)
                if fault == "centred on the batch":
                    pooled = pooled - pooled.mean(0)
                if fault == "knows its row":
                    pooled = pooled * (1 + torch.arange(len(pooled))[:, None])
                if fault in ("forgets on save", "saves half"):
                    pooled = pooled + self.noise
                if fault == "wider":
                    pooled = torch.cat([pooled, pooled], 1)
                if fault == "NaN without a mask" and mask is None:
                    pooled = pooled * float("nan")
                if fault == "draws from elsewhere":
                    pooled = pooled * 2 ** (next(CALLS) % 7)
                if fault == "seeds torch":
                    torch.manual_seed(0)
                if fault == "noise at encoding" and not self.training:
                    pooled = pooled + torch.randn(width)
                if fault == "wrong type":
                    return pooled.tolist()
                if fault == "raises":
                    raise IndexError(3)
                if fault == "one vector":
                    return pooled.mean(0)
                if fault == "draws from NumPy":
                    pooled = pooled * np.random.uniform(1, 2)
                if fault == "seeds Python":
                    random.seed(0)
                    pooled = pooled * random.uniform(1, 2)
                return pooled

        return Attending()


@attrs.frozen
class Nearest(Loss):
    """Softmax over the similarities of a batch, with a learned scale."""

    name: ClassVar[str] = "nearest"

    fault: str = ""
    """What is wrong with it."""

    columns = frozenset({"anchor", "positive"})
    takes = frozenset({"negative"})

    @property
    def needs(self):
        if self.fault in ("state of another name", "state that grows"):
            return frozenset({"state"})
        if self.fault == "misspelt need":
            return frozenset({"states"})
        return frozenset()

    def build(self, width):
        """Return the module."""
        import torch

        fault = self.fault

        class Contrast(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = torch.nn.Parameter(torch.rand(()) + 1)
                if fault == "forgets on save":
                    self.noise = torch.randn(width)
                if fault in ("state of another name", "state that grows"):
                    self.initial_state = lambda: {"memory": torch.zeros(2, width)}

            def forward(self, inputs, state=None):
                if fault == "needs what it takes":
                    inputs["negative"].sum()
                if fault == "writes into vectors":
                    with torch.no_grad():
                        inputs["anchor"].mul_(0.5)
                anchor, positive = inputs["anchor"], inputs["positive"]
                if fault == "detached":
                    positive = positive.detach()
                if fault == "scaled by an item":
                    anchor, positive = (
                        anchor * positive.norm().item(),
                        positive * anchor.norm().item(),
                    )
                if fault == "forgets on save":
                    anchor = anchor + self.noise
                logits = self.scale * (anchor @ positive.T)
                if fault == "data-dependent" and logits.max() > 0:
                    logits = logits * 1
                rows = torch.arange(len(logits))
                each = torch.nn.functional.cross_entropy(logits, rows, reduction="none")
                if fault == "knows its row":
                    each = each * (1 + rows)
                loss = each.mean()
                if fault == "exp":
                    loss = (
                        (100 * logits).exp().sum(1).log() - (100 * logits).diagonal()
                    ).mean()
                if fault == "gradient of a root":
                    loss = loss + (anchor - anchor).sum().abs().sqrt()
                if fault == "one row":
                    loss = each.sum() / (len(rows) - 1)
                if fault == "one loss a row":
                    loss = each
                if fault == "keeps the batch":
                    self.last = anchor.detach()
                hits = (logits.argmax(1) == rows).float().mean()
                metrics = {"accuracy": hits}
                if fault == "item":
                    metrics = {"accuracy": hits.item()}
                if fault == "metric with a gradient":
                    metrics = {"scale": self.scale}
                after = {
                    "state of another name": {"queue": torch.zeros(2, width)},
                    "state that grows": {"memory": torch.zeros(3, width)},
                    "state from nowhere": {"memory": torch.zeros(2, width)},
                }.get(fault)
                return LossOutput(loss, metrics, after)

        return Contrast()
