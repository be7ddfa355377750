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
"""What an encoder gives of a text: `vector`, one vector; `tokens`, a vector of each token; `sparse`, one vector
with a number for each token of the vocabulary, most of them 0."""

_OUTPUTS: Any = deep_iterable(in_(get_args(Output)), instance_of(frozenset))
_WORDS: Any = deep_iterable(instance_of(str), instance_of(frozenset))
_NAMES: Any = deep_iterable(instance_of(str), instance_of(tuple))
_TEXT: Any = optional(instance_of(str))


class HasTraits(Protocol):
    """A component, as far as `ComponentTraits.of` reads it."""

    @property
    def traits(self) -> Any:
        """Its traits."""


def _joined(values: Sequence[Any]) -> Any:
    """Return a trait of a whole: the union of sets, whether it is true of a part, or the first that is set."""
    if isinstance(values[0], frozenset):
        return frozenset().union(*values)
    if isinstance(values[0], bool):
        return any(values)
    return next((value for value in values if value not in (None, ())), values[0])


def _distinct(values: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in values for name in names))


def _in_common(values: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    """Return what all sets have, or None if one is not known."""
    sets = [value for value in values if value is not None]
    if len(sets) < len(values):
        return None
    return sets[0].intersection(*sets)


def _united(values: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    """Return what any set has, or None for everything."""
    sets = [value for value in values if value is not None]
    if len(sets) < len(values):
        return None
    return sets[0].union(*sets)


def _unset(values: Sequence[Any]) -> None:
    """Return None: what holds of a part does not hold of the whole."""


JOINED = "joined"
"""Metadata of a trait that follows from the parts' otherwise than by `_joined`."""


@attrs.frozen(kw_only=True)
class ComponentTraits:
    """Traits of any component."""

    cites: tuple[str, ...] = attrs.field(
        default=(), validator=_NAMES, metadata={JOINED: _distinct}
    )
    """Papers to cite in model cards: each a key of `sentbed/citations.bib`, or a whole BibTeX entry, which
    begins with `@`."""
    untrainable: str | None = attrs.field(default=None, validator=_TEXT)
    """Why a backbone, or anything on a runtime, cannot be trained, a sentence with a remedy; None if it can.

    `check` refuses the stages that would train it with this sentence."""

    @classmethod
    def of(cls, *parts: HasTraits, **more: Any) -> Self:
        """Return the traits of a component that contains components of its kind, such as a pooler's pooler.

        What a part needs, the whole needs; what is true of a part is true of the whole; of other traits, the
        first that is set holds. `more` are the component's own: a set or a tuple is joined with those of the
        parts, anything else takes their place.
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
    """Needs of poolers that it meets, in terms of `PoolerTraits.needs`, and `span` if it can hide tokens from
    them, for a template with the sentence twice; None skips the recipe's check."""
    heeds: frozenset[str] | None = attrs.field(
        default=None, validator=optional(_WORDS), metadata={JOINED: _united}
    )
    """Needs that change what it builds or computes; None means all. Encoders that differ in other needs may
    share a pass through it."""
    from_files: bool = attrs.field(default=False, metadata={JOINED: all})
    """Whether building it uses no random numbers and no texts."""
    pretrained: bool = True
    """Whether its weights are pretrained instead of random."""
    runs_code: bool = False
    """Whether building it runs Python code that comes with its model."""
    model: str | None = attrs.field(default=None, validator=_TEXT)
    """Model that its weights or its architecture come from: a hub id or a directory."""
    predicts: bool = False
    """Whether it has the language-modelling head of `BuiltBackbone.logits`."""
    placeholder: str | None = attrs.field(default=None, validator=_TEXT)
    """Token that each prompt must hold once; put before the sentence's quotation mark if it does not."""
    auxiliary: str | None = attrs.field(default=None, validator=_TEXT)
    """Template of a second prompt around each sentence; see `TokenBatch.auxiliary`."""


@attrs.frozen(kw_only=True)
class InterventionTraits(ComponentTraits):
    """Traits of an intervention."""

    placeholder: str | None = attrs.field(default=None, validator=_TEXT)
    """Token that it needs in each prompt; its embedding is random, from N(0, 1)."""
    placeholder_spacing: Literal["stripped", "kept"] | None = None
    """Whether the space before the placeholder goes with it. Default: as in the tokenizers of transformers 4,
    for a token added without further settings."""
    auxiliary: str | None = attrs.field(default=None, validator=_TEXT)
    """Template, or the name of one, of a second prompt that is run first; see `BlockStates.auxiliary`."""
    shares_prefix: bool = False
    """Whether states before the placeholder, or else before the last token, stay as they are and are not
    read, so that a prefix of all texts may be computed once."""


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
    """Name of what it computes in eval mode, if that differs from training. A projection after it, which
    would be trained on one and applied to the other, is refused."""
    pretrained: bool = False
    """Whether its module starts with weights from the backbone's model files; see
    `Pooler.load_pretrained`."""
    new_layer: bool = False
    """Whether encoding uses a layer of its own that begins with new weights: before training, its vectors
    mean nothing."""
    pooling: Pooling | None = attrs.field(
        default=None,
        validator=optional(in_(get_args(Pooling))),
        metadata={JOINED: _unset},
    )
    """Pooling mode of sentence-transformers that equals it in eval mode, without padding, for exporters."""
    dense: str | None = attrs.field(
        default=None, validator=_TEXT, metadata={JOINED: _unset}
    )
    """Attribute of its module with the linear layer after `pooling`, which is followed by tanh."""
    output: Output = attrs.field(default="vector", validator=in_(get_args(Output)))
    """What it gives of a text; see `Pooler.build`."""


@attrs.frozen(kw_only=True)
class SimilarityTraits(ComponentTraits):
    """Traits of a similarity."""

    compares: frozenset[Output] = attrs.field(
        default=frozenset({"vector"}),
        validator=_OUTPUTS,
        metadata={JOINED: _in_common},
    )
    """Outputs of poolers that it compares."""
    formula: Literal["cosine", "dot"] | None = attrs.field(
        default=None, validator=optional(in_(("cosine", "dot")))
    )
    """Whether it is the cosine or the dot product of two vectors, which evaluators compute in float64."""


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
    """Which of the columns that it needs or takes hold numbers instead of texts, such as `{"score"}`."""
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
    """Whether `inputs` has `stage.progress`, an fp32 scalar: the part of the stage's steps that are over, from
    0 in the first step to nearly 1 in the last. For a temperature or a weight that changes with training."""
    stateful: bool = False
    """Whether its module has `initial_state() -> dict[str, Tensor]`; see `Loss.build`."""
    keys: frozenset[str] = attrs.field(default=frozenset(), validator=_WORDS)
    """Columns that the moving average encodes."""
    targets: frozenset[str] = attrs.field(default=frozenset(), validator=_WORDS)
    """Columns that only frozen encoders encode, whose vectors may have another width: a teacher's."""
    predicts: bool = False
    """Whether it trains predictions of tokens, and no sentence vectors; see `Loss.build`."""
    reads: frozenset[Output] = attrs.field(
        default=frozenset({"vector"}),
        validator=_OUTPUTS,
        metadata={JOINED: _in_common},
    )
    """Outputs of poolers that it trains; see `Loss.build`."""

    @classmethod
    def of(cls, *parts: HasTraits, **more: Any) -> Self:
        """Return the traits of a loss that gives `parts` the columns that it is given itself."""
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
    """Outputs of poolers that it scores. Of `tokens`, `Vectors` gives `RaggedVectors`."""


@attrs.frozen(kw_only=True)
class RuntimeTraits(ComponentTraits):
    """Traits of a runtime."""

    processes: int = 1
    """Number of processes of a run."""
    auxiliary: bool = False
    """Whether encoders accept `TokenBatch.auxiliary`."""
    marked_tokens: bool = True
    """Whether encoders take tokens that a prompt marks: hidden from the pooler, read in layers that the
    prompt chooses, or a placeholder."""
    predicts: bool = False
    """Whether its engine trains predictions of tokens (`LossTraits.predicts`)."""
    outputs: frozenset[Output] = attrs.field(
        default=frozenset({"vector", "sparse"}), validator=_OUTPUTS
    )
    """Outputs of poolers that its engine encodes and trains."""
