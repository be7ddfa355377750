"""Traits: capabilities of components besides their fields, such as `traits = PoolerTraits(pooling="mean")`.

Traits are a frozen object, set as a class attribute, or a property if they depend on the fields. An unknown
keyword raises TypeError at class definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, Self, TypeAlias, get_args

import attrs
from attrs.validators import and_, deep_iterable, ge, in_, instance_of, lt, optional

Pooling: TypeAlias = Literal[
    "cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean"
]

Output: TypeAlias = Literal["vector", "tokens", "sparse"]
"""Output of an encoder for a text: `vector`, one vector; `tokens`, one vector per token; `sparse`, one vector
with a number per token of the vocabulary, most of them 0."""

_OUTPUTS: Any = deep_iterable(in_(get_args(Output)), instance_of(frozenset))
_WORDS: Any = deep_iterable(instance_of(str), instance_of(frozenset))
_NAMES: Any = deep_iterable(instance_of(str), instance_of(tuple))
_TEXT: Any = optional(instance_of(str))


class HasTraits(Protocol):
    """An object with traits, such as a component."""

    @property
    def traits(self) -> Any:
        """Its traits."""


def _joined(values: Sequence[Any]) -> Any:
    """Combine the parts' values of a trait: the union of sets, `any` of booleans, else the first that is set."""
    if isinstance(values[0], frozenset):
        return frozenset().union(*values)
    if isinstance(values[0], bool):
        return any(values)
    return next((value for value in values if value not in (None, ())), values[0])


def _distinct(values: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in values for name in names))


def _in_common(values: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    """Return the intersection of the sets; None if one of them is unknown (None)."""
    sets = [value for value in values if value is not None]
    if len(sets) < len(values):
        return None
    return sets[0].intersection(*sets)


def _united(values: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    """Return the union of the sets; None, which means everything, if one of them is None."""
    sets = [value for value in values if value is not None]
    if len(sets) < len(values):
        return None
    return sets[0].union(*sets)


def _unset(values: Sequence[Any]) -> None:
    """Return None, for a trait that is not passed on from the parts to the whole."""


JOINED = "joined"
"""Metadata key of a trait: the function that combines the parts' values, if it is not `_joined`."""


@attrs.frozen(kw_only=True)
class ComponentTraits:
    """Traits of any component."""

    cites: tuple[str, ...] = attrs.field(
        default=(), validator=_NAMES, metadata={JOINED: _distinct}
    )
    """Papers to cite in model cards: keys of `sentbed/citations.bib`, or BibTeX entries (beginning with `@`)."""
    untrainable: str | None = attrs.field(default=None, validator=_TEXT)
    """Why this backbone, or encoders on this runtime, cannot be trained: a sentence with a remedy, with which
    `check` refuses the stages that would train it. None if training works."""

    @classmethod
    def of(cls, *parts: HasTraits, **more: Any) -> Self:
        """Return the traits of a component that has inner components of its kind, such as a pooler in a pooler.

        Of the parts' values, sets are united, a boolean is true if it is true of any part, and of other values
        the first that is set is taken. `more` are the component's own traits: sets and tuples are added to
        those of the parts, other values replace them.
        """
        traits = {}
        for field in attrs.fields(cls):
            join = field.metadata.get(JOINED, _joined)
            values = [getattr(part.traits, field.name) for part in parts]
            if isinstance(more.get(field.name), frozenset | tuple):
                values.insert(0, more.pop(field.name))
            if values:
                traits[field.name] = join(values)
        return cls(**traits | more)


@attrs.frozen(kw_only=True)
class BackboneTraits(ComponentTraits):
    """Traits of a backbone."""

    offers: frozenset[str] | None = attrs.field(
        default=None, validator=optional(_WORDS), metadata={JOINED: _in_common}
    )
    """Which of `PoolerTraits.needs` it meets, and `span` if it can hide tokens from poolers, for a template with
    the sentence twice; None skips the recipe's check."""
    heeds: frozenset[str] | None = attrs.field(
        default=None, validator=optional(_WORDS), metadata={JOINED: _united}
    )
    """Needs that change how it is built or what it computes; None means all. Encoders that differ only in other
    needs may share a forward pass."""
    from_files: bool = attrs.field(default=False, metadata={JOINED: all})
    """Whether it is built from files alone, without random numbers and training texts."""
    pretrained: bool = True
    """Whether its weights are pretrained instead of random."""
    runs_code: bool = False
    """Whether building it runs Python code from its model's repository (`trust_remote_code`)."""
    model: str | None = attrs.field(default=None, validator=_TEXT)
    """Model that provides its weights or its architecture: a hub id or a directory."""
    predicts: bool = False
    """Whether it has the language-modelling head of `BuiltBackbone.logits`."""
    placeholder: str | None = attrs.field(default=None, validator=_TEXT)
    """Token that each prompt must contain once; if missing, it is put before the sentence's quotation mark."""
    auxiliary: str | None = attrs.field(default=None, validator=_TEXT)
    """Template of a second prompt around each sentence; see `TokenBatch.auxiliary`."""


@attrs.frozen(kw_only=True)
class InterventionTraits(ComponentTraits):
    """Traits of an intervention."""

    placeholder: str | None = attrs.field(default=None, validator=_TEXT)
    """Token that each prompt must contain; its embedding is drawn from N(0, 1)."""
    placeholder_spacing: Literal["stripped", "kept"] | None = None
    """Whether the tokenizer strips the space before the placeholder. Default: as transformers 4 does for a token
    that is added without further settings."""
    auxiliary: str | None = attrs.field(default=None, validator=_TEXT)
    """Template, or name of a template, of a second prompt that runs first; see `BlockStates.auxiliary`."""
    shares_prefix: bool = False
    """Whether it neither changes nor reads states before the placeholder (without one, before the last token),
    so that a prefix common to all texts can be computed once."""


@attrs.frozen(kw_only=True)
class PoolerTraits(ComponentTraits):
    """Traits of a pooler."""

    needs: frozenset[str] = attrs.field(default=frozenset(), validator=_WORDS)
    """Needs: `bidirectional` (every token attends to the whole text), `causal` (only the last one does),
    `decoder`, `mask-token`, `template-alone`, `template-alone-from-0`, `layers` (see `TokenStates`), `logits`
    (the states are those of the vocabulary, by a language-modelling head; their width is its size),
    `template` (a prompt around the sentence), or further words that a plugin's backbones offer."""
    template: str | None = attrs.field(default=None, validator=_TEXT)
    """Default template of the prompt; see `sentbed show prompt`."""
    normalizer: str | None = attrs.field(default=None, validator=_TEXT)
    """Default text rules of the prompt."""
    at_test: str | None = attrs.field(default=None, validator=_TEXT)
    """Name of the pooling in eval mode, if it differs from training. A projection after it is refused, since it
    would be trained on one and applied to the other."""
    pretrained: bool = False
    """Whether its module starts with weights from the backbone's model files; see
    `Pooler.load_pretrained`."""
    new_layer: bool = False
    """Whether encoding uses a layer of the pooler that starts with random weights: before training, its vectors
    are meaningless."""
    pooling: Pooling | None = attrs.field(
        default=None,
        validator=optional(in_(get_args(Pooling))),
        metadata={JOINED: _unset},
    )
    """Pooling mode of sentence-transformers that equals it for unpadded texts in eval mode, for exporters."""
    dense: str | None = attrs.field(
        default=None, validator=_TEXT, metadata={JOINED: _unset}
    )
    """Attribute of its module that holds a linear layer after `pooling`, followed by tanh."""
    output: Output = attrs.field(default="vector", validator=in_(get_args(Output)))
    """Its output for a text; see `Pooler.build`."""


@attrs.frozen(kw_only=True)
class SimilarityTraits(ComponentTraits):
    """Traits of a similarity."""

    compares: frozenset[Output] = attrs.field(
        default=frozenset({"vector"}),
        validator=_OUTPUTS,
        metadata={JOINED: _in_common},
    )
    """Outputs of poolers that it can compare."""
    formula: Literal["cosine", "dot"] | None = attrs.field(
        default=None, validator=optional(in_(("cosine", "dot")))
    )
    """`cosine` or `dot` if it equals that; evaluators then compute it themselves, in float64."""


@attrs.frozen(kw_only=True)
class LossTraits(ComponentTraits):
    """Traits of a loss."""

    needs: frozenset[str] = attrs.field(validator=_WORDS)
    """Columns that the data must have."""
    takes: frozenset[str] | None = attrs.field(
        default=None, validator=optional(_WORDS), metadata={JOINED: _united}
    )
    """Optional columns that it uses if the data has them; columns in neither set are not encoded. None means
    all columns."""
    classes: tuple[str, ...] = attrs.field(default=(), validator=_NAMES)
    """Class names allowed in the column `label`, for a loss that needs it."""
    numbers: frozenset[str] = attrs.field(default=frozenset(), validator=_WORDS)
    """Columns that must hold numbers instead of texts, such as `{"score"}`."""
    compares_texts: bool = False
    """Whether `inputs` has `COLUMN.id`, int64 `(batch,)`, for each column of texts: equal numbers for equal
    texts, across columns and steps."""
    momentum: float | None = attrs.field(
        default=None, validator=optional(and_(ge(0), lt(1)))
    )
    """Momentum in [0, 1): the columns `keys` are encoded without gradient by a copy of the encoder whose
    weights are an exponential moving average, updated after each step as
    `momentum * average + (1 - momentum) * weights`."""
    scheduled: bool = False
    """Whether `inputs` has `stage.progress`, an fp32 scalar: the share of the stage's steps that are done, from
    0 in the first step to nearly 1 in the last. For a temperature or a weight that changes during training."""
    stateful: bool = False
    """Whether its module has `initial_state() -> dict[str, Tensor]`; see `Loss.build`."""
    keys: frozenset[str] = attrs.field(default=frozenset(), validator=_WORDS)
    """Columns that the moving average encodes."""
    targets: frozenset[str] = attrs.field(default=frozenset(), validator=_WORDS)
    """Columns that must be encoded by a frozen encoder, such as a teacher; its width may differ."""
    predicts: bool = False
    """Whether it trains token predictions instead of sentence vectors; see `Loss.build`."""
    reads: frozenset[Output] = attrs.field(
        default=frozenset({"vector"}),
        validator=_OUTPUTS,
        metadata={JOINED: _in_common},
    )
    """Outputs of poolers that it can train; see `Loss.build`."""

    @classmethod
    def of(cls, *parts: HasTraits, **more: Any) -> Self:
        """Return the traits of a loss that passes its own columns on to the losses `parts`."""
        traits = super().of(*parts, **more)
        if traits.takes is None:
            return traits
        return attrs.evolve(traits, takes=traits.takes - traits.needs)


@attrs.frozen(kw_only=True)
class DataTraits(ComponentTraits):
    """Traits of a data source."""

    fetches: bool = False
    """Whether `open()` accesses the network."""
    numbers: frozenset[str] = attrs.field(default=frozenset(), validator=_WORDS)
    """Columns that hold numbers instead of texts: `rows` gives finite floats, and `texts` leaves them out."""


@attrs.frozen(kw_only=True)
class EvaluatorTraits(ComponentTraits):
    """Traits of an evaluator."""

    development: bool = attrs.field(default=False, metadata={JOINED: all})
    """Whether it uses only development or training data. Only such an evaluator may select a prompt
    (`[search]`) or a checkpoint (`validate`)."""
    two_sided: bool = False
    """Whether it uses `TextEncoder.second`."""
    reads: frozenset[Output] = attrs.field(
        default=frozenset({"vector"}),
        validator=_OUTPUTS,
        metadata={JOINED: _in_common},
    )
    """Outputs of poolers that it can score. For `tokens`, `Vectors.tokens` returns `RaggedVectors`."""


@attrs.frozen(kw_only=True)
class RuntimeTraits(ComponentTraits):
    """Traits of a runtime."""

    processes: int = 1
    """Number of processes of a run."""
    auxiliary: bool = False
    """Whether encoders accept `TokenBatch.auxiliary`."""
    marked_tokens: bool = True
    """Whether encoders accept `TokenBatch.hidden` and `TokenBatch.readings`, and placeholders in prompts."""
    predicts: bool = False
    """Whether its engine can train token predictions (`LossTraits.predicts`)."""
    outputs: frozenset[Output] = attrs.field(
        default=frozenset({"vector", "sparse"}), validator=_OUTPUTS
    )
    """Outputs of poolers that its engine supports."""
