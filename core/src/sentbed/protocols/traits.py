"""What a component can do beside its fields: one frozen object, `traits = PoolerTraits(pooling="mean")`.

It stands in the class, or is a property where it follows from the fields. A word that is not known is a
TypeError where the class is defined.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import attrs
from attrs.validators import and_, deep_iterable, ge, in_, instance_of, lt, optional

Pooling: TypeAlias = Literal["cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean"]

_WORDS: Any = deep_iterable(instance_of(str), instance_of(frozenset))
_NAMES: Any = deep_iterable(instance_of(str), instance_of(tuple))
_TEXT: Any = optional(instance_of(str))


@attrs.frozen(kw_only=True)
class ComponentTraits:
    """What any component may say."""

    cites: tuple[str, ...] = attrs.field(default=(), validator=_NAMES)
    """The papers behind it, for model cards: each a key of `sentbed/citations.bib`, or a whole BibTeX entry,
    which begins with `@`."""


@attrs.frozen(kw_only=True)
class BackboneTraits(ComponentTraits):
    """What a backbone may say."""

    offers: frozenset[str] | None = attrs.field(default=None, validator=optional(_WORDS))
    """What it has for a pooler, in the words of `PoolerTraits.needs`; None: a recipe's check believes all."""
    heeds: frozenset[str] | None = attrs.field(default=None, validator=optional(_WORDS))
    """The needs that change what it builds or computes, all where None: encoders that differ in others may
    share one pass through it."""
    from_files: bool = False
    """Whether building it draws no number and reads no text."""
    untrainable: str | None = attrs.field(default=None, validator=_TEXT)
    """Why no stage can train it; None where one can."""
    pretrained: bool = True
    """Whether its weights were trained before, and not drawn."""
    model: str | None = attrs.field(default=None, validator=_TEXT)
    """The model that its weights or its architecture come from, a hub id or a directory."""


@attrs.frozen(kw_only=True)
class PoolerTraits(ComponentTraits):
    """What a pooler may say."""

    needs: frozenset[str] = attrs.field(default=frozenset(), validator=_WORDS)
    """Of `bidirectional` (every token has seen the whole text), `causal` (the last one has, and no other),
    `decoder`, `mask-token`, `layers` (see `TokenStates`), `template` (a prompt around the sentence), or words
    of a plugin's own that some backbone offers."""
    template: str | None = attrs.field(default=None, validator=_TEXT)
    """The prompt's template where the recipe gives none; see `sentbed show prompt`."""
    normalizer: str | None = attrs.field(default=None, validator=_TEXT)
    """The prompt's text rules where the recipe gives none."""
    at_test: str | None = attrs.field(default=None, validator=_TEXT)
    """The name of what it computes in eval mode, where that differs from training."""
    pooling: Pooling | None = attrs.field(default=None, validator=optional(in_(get_args(Pooling))))
    """What it computes in eval mode in the words of sentence-transformers, over the real tokens, for
    exporters."""
    dense: str | None = attrs.field(default=None, validator=_TEXT)
    """The attribute of its module that is a linear layer behind `pooling`, followed by tanh."""


@attrs.frozen(kw_only=True)
class LossTraits(ComponentTraits):
    """What a loss must and may say."""

    needs: frozenset[str] = attrs.field(validator=_WORDS)
    """The columns that the data must have."""
    takes: frozenset[str] | None = attrs.field(default=None, validator=optional(_WORDS))
    """The columns that it uses where the data has them, beside those that it needs; no other column is
    encoded. None: every column is given to it."""
    classes: tuple[str, ...] = attrs.field(default=(), validator=_NAMES)
    """The names that the column `label` may hold, for a loss that needs it."""
    compares_texts: bool = False
    """Whether `inputs` is to have `COLUMN.id`, int64 `(batch,)`, for each column of texts: the same number
    for the same text, in every column and step."""
    momentum: float | None = attrs.field(default=None, validator=optional(and_(ge(0), lt(1))))
    """In [0, 1): the columns `keys` are encoded without gradient by a copy of the encoder whose weights are
    an exponential moving average of its own, updated after each step as
    `momentum * average + (1 - momentum) * weights`."""
    stateful: bool = False
    """Whether the module that it builds has `initial_state() -> dict[str, Tensor]`; see `Loss.build`."""
    keys: frozenset[str] = attrs.field(default=frozenset(), validator=_WORDS)
    """The columns that the moving average encodes."""


@attrs.frozen(kw_only=True)
class DataTraits(ComponentTraits):
    """What a data source may say."""

    fetches: bool = False
    """Whether `open()` would fetch from the network."""


@attrs.frozen(kw_only=True)
class EvaluatorTraits(ComponentTraits):
    """What an evaluator may say."""

    development: bool = False
    """Whether everything that it scores is development or training data. Only such an evaluator may choose a
    prompt (`[search]`) or a checkpoint (`validate`)."""
    two_sided: bool = False
    """Whether it uses `TextEncoder.second`."""


@attrs.frozen(kw_only=True)
class RuntimeTraits(ComponentTraits):
    """What a runtime may say."""

    processes: int = 1
    """Of how many processes a run consists."""
