"""Traits: properties of components that are not fields, such as `traits = PoolerTraits(pooling="mean")`.

Traits are a frozen object. A component's class has them as a class attribute, or as a property if they depend on
the component's fields. An unknown trait raises `TypeError` when the class is defined.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal, Protocol, Self, TypeAlias, get_args

import attrs
from attrs.validators import and_, deep_iterable, ge, in_, instance_of, lt, optional

Pooling: TypeAlias = Literal[
    "cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean"
]

Output: TypeAlias = Literal["vector", "tokens", "sparse"]
"""What an encoder computes for a text.

`vector`: one vector. `tokens`: one vector per token. `sparse`: one vector with a number for each token of the
vocabulary, most of which are 0.
"""

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
    """Combine the values that inner components have for a trait.

    Sets are united, a boolean is true if any of the values is true, and of other values the first that is set is
    used.
    """
    if isinstance(values[0], frozenset):
        return frozenset().union(*values)
    if isinstance(values[0], bool):
        return any(values)
    return next((value for value in values if value not in (None, ())), values[0])


def _distinct(values: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return all names of the tuples, each once."""
    return tuple(dict.fromkeys(chain.from_iterable(values)))


def _in_common(values: Sequence[Any]) -> frozenset[str] | None:
    """Return the intersection of the sets; None, which means unknown, if one of them is None."""
    if None in values:
        return None
    return frozenset.intersection(*values)


def _united(values: Sequence[Any]) -> frozenset[str] | None:
    """Return the union of the sets; None, which means everything, if one of them is None."""
    if None in values:
        return None
    return frozenset.union(*values)


def _unset(values: Sequence[Any]) -> None:
    """Return None, for a trait that a component does not take over from its inner components."""


JOINED = "joined"
"""Metadata key of a trait: the function that combines the values of inner components, if it is not `_joined`."""


@attrs.frozen(kw_only=True)
class ComponentTraits:
    """Traits of any component."""

    cites: tuple[str, ...] = attrs.field(
        default=(),
        validator=_NAMES,
        metadata={JOINED: _distinct},
    )
    """Papers to cite in model cards: keys of `sentbed/citations.bib`, or BibTeX entries, which begin with `@`."""
    untrainable: str | None = attrs.field(default=None, validator=_TEXT)
    """Why this backbone, or encoders on this runtime, cannot be trained: a sentence with a remedy.

    `sentbed check` refuses a stage that would train them. None if training works.
    """

    @classmethod
    def of(cls, *parts: HasTraits, **more: Any) -> Self:
        """Return the traits of a component with inner components `parts`, such as a pooler with an inner pooler.

        If the inner components have several values for a trait, sets are united, a boolean is true if any of the
        values is true, and of other values the first that is set is used; some traits are combined in another
        way. `more` has the component's own traits: a set or tuple is combined with those of the inner components
        in the same way, any other value replaces theirs.
        """
        # Read once: a part that has parts of its own joins their traits at each access.
        traits_of_parts = [part.traits for part in parts]
        traits = {}
        for field in attrs.fields(cls):
            join = field.metadata.get(JOINED, _joined)
            values = [getattr(part, field.name) for part in traits_of_parts]
            if isinstance(more.get(field.name), frozenset | tuple):
                values.insert(0, more.pop(field.name))
            if values:
                traits[field.name] = join(values)
        return cls(**traits | more)


@attrs.frozen(kw_only=True)
class BackboneTraits(ComponentTraits):
    """Traits of a backbone."""

    offers: frozenset[str] | None = attrs.field(
        default=None,
        validator=optional(_WORDS),
        metadata={JOINED: _in_common},
    )
    """What the backbone can do: needs of poolers (`PoolerTraits.needs`) that it meets, and points at which
    interventions can act.

    `span` means that it can hide tokens from poolers: in a template that has the sentence twice, they read the
    second copy only. None means unknown: `sentbed check` then does not compare it with the pooler's needs.
    """
    heeds: frozenset[str] | None = attrs.field(
        default=None,
        validator=optional(_WORDS),
        metadata={JOINED: _united},
    )
    """Needs of poolers that change how the backbone is built or what it computes; None means all.

    Encoders whose poolers differ only in other needs may share a forward pass.
    """
    from_files: bool = attrs.field(default=False, metadata={JOINED: all})
    """Whether the backbone is built from files alone, without random numbers and training texts."""
    pretrained: bool = True
    """Whether the weights are pretrained; otherwise they are random."""
    runs_code: bool = False
    """Whether building the backbone runs Python code from the model's repository (`trust_remote_code`)."""
    model: str | None = attrs.field(default=None, validator=_TEXT)
    """Model that provides the weights or the architecture: a hub id or a directory."""
    predicts: bool = False
    """Whether the built backbone has a language-modelling head; see `BuiltBackbone.output_embedding`."""
    placeholder: str | None = attrs.field(default=None, validator=_TEXT)
    """Token that each prompt must contain once.

    If it is missing, it is put before the sentence, or before the quotation mark that opens it.
    """
    auxiliary: str | None = attrs.field(default=None, validator=_TEXT)
    """Template of a second prompt for each sentence, with `{text}`; see `TokenBatch.auxiliary`."""


@attrs.frozen(kw_only=True)
class InterventionTraits(ComponentTraits):
    """Traits of an intervention."""

    placeholder: str | None = attrs.field(default=None, validator=_TEXT)
    """Token that each prompt must contain. Its embedding is drawn from N(0, 1)."""
    placeholder_spacing: Literal["stripped", "kept"] | None = None
    """Whether the tokenizer strips the space before the placeholder.

    None means what transformers 4 does for a token that is added without further settings.
    """
    auxiliary: str | None = attrs.field(default=None, validator=_TEXT)
    """Template of a second prompt, which the backbone reads first; see `BlockStates.auxiliary`."""
    shares_prefix: bool = False
    """Whether a prefix that all texts have in common can be computed once.

    The intervention must neither change nor read the states before the placeholder. If it has no placeholder, it
    must neither change nor read those before the last token.
    """


@attrs.frozen(kw_only=True)
class PoolerTraits(ComponentTraits):
    """Traits of a pooler."""

    needs: frozenset[str] = attrs.field(default=frozenset(), validator=_WORDS)
    """What the pooler needs from the backbone and the prompt.

    - `bidirectional`: every token attends to the whole text; `causal`: only the last token does.
    - `decoder`, `mask-token`, `template-alone`, `template-alone-from-0`, `layers`: states that the fields of
      `TokenStates` have; each field names its need.
    - `logits`: the states are the logits of a language-modelling head, as wide as the vocabulary.
    - `template`: there is a prompt around the sentence.
    - Other words, which backbones of plugins may offer (`BackboneTraits.offers`).
    """
    prompt: Any = None
    """Prompt (a `Prompt`) that encoders with this pooler have by default; None for no prompt."""
    at_test: str | None = attrs.field(default=None, validator=_TEXT)
    """Name of the pooling in eval mode, if it differs from the pooling in training.

    A projection after such a pooler is refused, since it would be trained on other vectors than it is applied to.
    """
    pretrained: bool = False
    """Whether the pooler's module starts with weights from the backbone's files; see `Pooler.load_pretrained`."""
    new_layer: bool = False
    """Whether encoding uses a layer of the pooler that starts with random weights.

    The vectors are then meaningless before training.
    """
    pooling: Pooling | None = attrs.field(
        default=None,
        validator=optional(in_(get_args(Pooling))),
        metadata={JOINED: _unset},
    )
    """Pooling mode of sentence-transformers that gives the same vectors in eval mode, for exporters.

    For texts with padding, it may give other vectors. None if there is no such mode.
    """
    dense: str | None = attrs.field(
        default=None,
        validator=_TEXT,
        metadata={JOINED: _unset},
    )
    """Attribute of the pooler's module that has a linear layer, if this layer and tanh follow `pooling`."""
    output: Output = attrs.field(default="vector", validator=in_(get_args(Output)))
    """What the pooler computes for a text; see `Pooler.build`."""


@attrs.frozen(kw_only=True)
class SimilarityTraits(ComponentTraits):
    """Traits of a similarity."""

    compares: frozenset[Output] = attrs.field(
        default=frozenset({"vector"}),
        validator=_OUTPUTS,
        metadata={JOINED: _in_common},
    )
    """Outputs of poolers (`PoolerTraits.output`) that the similarity can compare."""
    formula: Literal["cosine", "dot"] | None = attrs.field(
        default=None, validator=optional(in_(("cosine", "dot")))
    )
    """`cosine` or `dot` if the similarity is one of them, which evaluators then compute themselves, in float64.

    None if it is another one.
    """


@attrs.frozen(kw_only=True)
class LossTraits(ComponentTraits):
    """Traits of a loss."""

    needs: frozenset[str] = attrs.field(validator=_WORDS)
    """Columns that the data must have."""
    takes: frozenset[str] | None = attrs.field(
        default=None,
        validator=optional(_WORDS),
        metadata={JOINED: _united},
    )
    """Further columns that the loss uses if the data has them; None means all columns of the data.

    A column that is in neither set is not encoded.
    """
    classes: tuple[str, ...] = attrs.field(default=(), validator=_NAMES)
    """Class names that may occur in the column `label`, for a loss that needs this column."""
    numbers: frozenset[str] = attrs.field(default=frozenset(), validator=_WORDS)
    """Columns that must have numbers instead of texts, such as `{"score"}`."""
    compares_texts: bool = False
    """Whether the loss must know which texts are equal.

    Its `inputs` (see `Loss.build`) then have `COLUMN.id`, int64 `(batch,)`, for each column of texts. Equal texts
    have equal numbers, across columns and steps.
    """
    momentum: float | None = attrs.field(
        default=None, validator=optional(and_(ge(0), lt(1)))
    )
    """Momentum, in [0, 1), of a moving average of the encoder's weights, as in MoCo; None for no average.

    An encoder with the averaged weights encodes the columns `keys`, without gradient. After each step, the
    average becomes `momentum * average + (1 - momentum) * weights`.
    """
    keys: frozenset[str] = attrs.field(default=frozenset(), validator=_WORDS)
    """Columns that the encoder with the averaged weights encodes."""
    scheduled: bool = False
    """Whether the loss's `inputs` have `stage.progress`, a float32 scalar: the share of the stage that is done.

    It is 0 in the first step and nearly 1 in the last. A temperature or a weight can change with it during
    training.
    """
    stateful: bool = False
    """Whether the loss passes a state from step to step; see `Loss.build`."""
    targets: frozenset[str] = attrs.field(default=frozenset(), validator=_WORDS)
    """Columns that a frozen encoder, such as a teacher, must encode. Its vectors may have another dimension."""
    reads: frozenset[Output] = attrs.field(
        default=frozenset({"vector"}),
        validator=_OUTPUTS,
        metadata={JOINED: _in_common},
    )
    """Outputs of poolers (`PoolerTraits.output`) that the loss can train; see `Loss.build`."""

    @classmethod
    def of(cls, *parts: HasTraits, **more: Any) -> Self:
        """Return the traits of a loss that passes its columns on to the inner losses `parts`."""
        traits = super().of(*parts, **more)
        if traits.takes is None:
            return traits
        return attrs.evolve(traits, takes=traits.takes - traits.needs)


@attrs.frozen(kw_only=True)
class DataTraits(ComponentTraits):
    """Traits of a data source."""

    fetches: bool = False
    """Whether `open` uses the network."""
    numbers: frozenset[str] = attrs.field(default=frozenset(), validator=_WORDS)
    """Columns of numbers: `Dataset.rows` returns finite floats for them, and `Dataset.texts` leaves them out."""


@attrs.frozen(kw_only=True)
class EvaluatorTraits(ComponentTraits):
    """Traits of an evaluator."""

    development: bool = attrs.field(default=False, metadata={JOINED: all})
    """Whether the evaluator uses only development or training data.

    Only such an evaluator may choose the best weights (`validate`).
    """
    two_sided: bool = False
    """Whether another encoder may encode the second sentences of pairs."""
    reads: frozenset[Output] = attrs.field(
        default=frozenset({"vector"}),
        validator=_OUTPUTS,
        metadata={JOINED: _in_common},
    )
    """Outputs of poolers (`PoolerTraits.output`) that the evaluator can score.

    For `tokens`, it gets the vectors from `Vectors.tokens`.
    """


@attrs.frozen(kw_only=True)
class RuntimeTraits(ComponentTraits):
    """Traits of a runtime."""

    processes: int = 1
    """Number of processes of a run."""
    auxiliary: bool = False
    """Whether encoders accept `TokenBatch.auxiliary`."""
    marked_tokens: bool = True
    """Whether encoders accept `TokenBatch.hidden` and `TokenBatch.readings`, and placeholders in prompts."""
    outputs: frozenset[Output] = attrs.field(
        default=frozenset({"vector", "sparse"}), validator=_OUTPUTS
    )
    """Outputs of poolers (`PoolerTraits.output`) that the engine supports."""
