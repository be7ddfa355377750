"""The base classes of backbones that are models of transformers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias

import attrs
from attrs.validators import and_, ge, le, optional
from sentbed import ModelId, SentbedError, locate
from sentbed.helpers import read_json
from sentbed.protocols import (
    Backbone,
    EncoderRecipe,
    Intervention,
)

from sentbed_backbones.adaptation import (
    Freeze,
    LoRA,
    not_installed,
    problems_of_adaptation,
)
from sentbed_backbones.attention_direction import attends_both_ways
from sentbed_backbones.input_positions import positions_of
from sentbed_backbones.model_file_checks import (
    is_local,
    problems_of,
    problems_of_model,
)

Layers: TypeAlias = Literal["last", "first-last", "last-two"] | tuple[int, ...]

TEMPLATE_ALONE = ("template-alone", "template-alone-from-0")
"""Needs by which a pooler asks that the state of a template without a sentence is subtracted; see
`TokenStates.mask_state`."""

LOGITS = "logits"
"""Need by which a pooler asks for the logits of a language-modelling head as token states."""

LAYERS = {"last": (-1,), "first-last": (1, -1), "last-two": (-2, -1)}
"""Numbers of the layers that each name stands for, as in transformers: 0 is the embedding output."""

READS = {
    "decoder": "the decoder",
    "layers": "layers of its own",
    LOGITS: "the logits of the last layer",
}
"""By a pooler's need: what the pooler reads instead of `layers`."""


def problem_of_layers(numbers: Iterable[int], blocks: int) -> str | None:
    """Return a message if a model of `blocks` blocks lacks one of the layers; None if it has all."""
    for number in numbers:
        if not -blocks - 1 <= number <= blocks:
            return (
                f"`layers` has {number}, the model has the embedding output 0 and layers 1 to {blocks}; "
                "choose among them, or count from the last one, -1"
            )

    return None


def problem_of_intervention(
    intervention: Intervention | None, blocks: int
) -> str | None:
    """Return a message if an intervention needs more than the first `blocks` blocks, which are run; else None."""
    if intervention is None:
        return None

    last = max((block for _, block in intervention.places), default=-1)
    if last < blocks:
        return None

    return (
        f"the intervention `{intervention.name}` acts at block {last}, and the pass ends before block "
        f"{blocks}; choose an earlier block, or read a later layer in `layers`"
    )


def _not_empty(
    _: Any,
    __: Any,
    value: Layers,
) -> None:
    if not value:
        raise ValueError("no layer; name at least one, such as [-1]")


@attrs.frozen(kw_only=True)
class Transformer(Backbone):
    """Recipe fields of a transformer: source and precision of weights, layers to read, parts to train."""

    heeds = frozenset(
        {"decoder", "layers", LOGITS, "mask-token", "span", *TEMPLATE_ALONE}
    )

    papers: ClassVar[tuple[str, ...]] = ()
    """Keys of the papers that introduced the architecture."""
    offered: ClassVar[frozenset[str]]
    """Needs of poolers that the architecture can meet."""
    head_in_files: ClassVar[bool | None] = None
    """Whether the architecture's language-modelling head has weights of its own; None if it has no head."""

    random_positions: ClassVar[int | None] = None
    """Number of positions of a random model; None if its input has no limit."""

    model: ModelId | None = None
    """A hub id (`bert-base-uncased`), a local directory (`./my-bert`) or `pkg:PACKAGE/path`."""
    revision: str | None = None
    """Commit, tag or branch of a hub id; only a commit is reproducible."""
    init: Literal["pretrained", "random"] = "pretrained"
    """`random`: weights are random. Architecture and tokenizer are the model's. Without a `model`, the
    architecture has `size`, and the tokenizer is trained on the texts of the stages (if there is no stage, of
    the evaluations)."""
    dtype: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Precision of the weights in memory; each is converted as it is read. Weights that are trained need fp32.
    With bf16 or fp16, encoding uses this precision, whatever the runtime's precision is."""
    layers: Layers = attrs.field(default="last", validator=_not_empty)
    """Layers to read, whose states are averaged: `last`, `first-last` (layer 1 and the last), `last-two`, or an
    array of numbers as in transformers. 0 is the embedding output, k the output of block k (from 1) before the
    final norm, and -1 the last layer after the final norm. Causal models do not run blocks after the last layer
    that is read."""
    dropout: float | None = attrs.field(
        default=None, validator=optional(and_(ge(0), le(1)))
    )
    """Dropout of states and attention in training, in [0, 1]; default: the model's configuration."""
    lora: LoRA | None = None
    """A new low-rank adapter; all other weights of the backbone stay frozen."""
    adapter: ModelId | None = None
    """An adapter that was trained with peft, to start from: a hub id or a local directory."""
    adapter_revision: str | None = None
    """Commit, tag or branch of an adapter's hub id."""
    quantization: Literal["nf4"] | None = None
    """`nf4`: hold the weights in 4 bits with double quantisation (QLoRA), by bitsandbytes. `dtype` is then the
    precision of computation: bf16 in PromptEOL."""
    freeze: Freeze | None = None
    """The parts that are not trained; default: none."""
    intervention: Intervention | None = None
    """A method that changes states between or in the blocks, such as `token-prepending`."""
    device_map: Literal["auto", "balanced", "sequential"] | None = None
    """How accelerate distributes the weights over the machine's GPUs; default: one device has all."""
    trust_remote_code: bool = False
    """Whether Python code that comes with the model may run. Whoever loads the saved encoder decides this
    again."""

    def check(self) -> Iterator[str]:
        """Yield problems that show without loading."""
        if self.model is None and self.init == "pretrained":
            yield 'the backbone has no `model`; name one, or set `init = "random"`'
        if self.adapter_revision is not None and (
            self.adapter is None or is_local(self.adapter)
        ):
            yield "`adapter_revision` is for a hub id, and the adapter is none; remove `adapter_revision`"

        if self.device_map is not None:
            yield from not_installed("`device_map`", ("accelerate",), "qlora")
        if self.intervention is not None:
            yield from self._problems_of_intervention(self.intervention)

        yield from problems_of_adaptation(
            self.lora, self.adapter, self.quantization, self.init
        )
        yield from problems_of_model(
            self.model,
            self.revision,
            partial(
                problems_of,
                needs_weights=self.init == "pretrained",
                trust_remote_code=self.trust_remote_code,
            ),
        )

    def _problems_of_intervention(self, intervention: Intervention) -> Iterator[str]:
        """Yield why an intervention cannot act in this backbone."""
        points = {point for point, _ in intervention.places}
        for point in sorted(points - self.offered):
            yield (
                f"the intervention `{intervention.name}` acts at `{point}`, which the backbone `{self.name}` "
                "does not offer; use a causal backbone, such as `opt`, or take it out"
            )
            return

    def remarks(self) -> Iterator[str]:
        """Yield whether the hub was asked for a hub id, and which code does not run.

        Raises:
            ModelError: if the hub refuses the model.
        """
        if "auto_map" in self._local_config() and not self.trust_remote_code:
            yield (
                f"the model `{self.model}` brings Python code of its own, which does not run: transformers' own "
                "class is loaded, which may compute other vectors"
            )

        if self.model is not None and not is_local(self.model):
            from sentbed_backbones.hub_models import hub_remark

            yield hub_remark(self.model, self.revision, self.init == "pretrained")

    def misfits(self, place: EncoderRecipe) -> Iterator[str]:
        """Yield settings that have no effect under the pooler of the encoder."""
        reads = sorted(place.pooler.needs & READS.keys())
        if reads and self.layers != "last":
            yield (
                f"the pooler reads {READS[reads[0]]}, and `layers` would have no effect; take it out"
            )

    @property
    def cites(self) -> tuple[str, ...]:
        """The papers of the architecture, of the intervention, and of quantisation and adapter."""
        cites = list(self.papers)
        if self.quantization is not None:
            cites.append("dettmers2023qlora")
        if self.intervention is not None:
            cites += self.intervention.cites
        if self.lora is not None:
            cites.append("hu2022lora")
        return tuple(cites)

    @property
    def offers(self) -> frozenset[str]:
        """What the architecture offers, and hidden tokens."""
        return self.offered | {"span"}

    @property
    def from_files(self) -> bool:
        """Whether all weights are read."""
        return self.pretrained and self.lora is None

    @property
    def pretrained(self) -> bool:
        """Whether weights are read."""
        return self.init == "pretrained"

    @property
    def runs_code(self) -> bool:
        """Whether code of the model may run."""
        return self.trust_remote_code

    @property
    def placeholder(self) -> str | None:
        """The token that the intervention acts at."""
        if self.intervention is None:
            return None
        return self.intervention.placeholder

    @property
    def auxiliary(self) -> str | None:
        """The second prompt of the intervention."""
        if self.intervention is None:
            return None
        return self.intervention.auxiliary

    def most_tokens(self) -> int | None:
        """Return the number of positions, from the random model's size or local files; None if it is unknown."""
        if self.model is None:
            return self.random_positions

        return positions_of(self._local_config())

    def _local_config(self) -> Mapping[str, Any]:
        """Return the `config.json` of a local model; empty for a hub id, or if the file cannot be read."""
        if self.model is None or not is_local(self.model):
            return {}

        try:
            content = read_json(locate(self.model) / "config.json")
        except (SentbedError, OSError, ValueError):
            # `check` reports the problem.
            return {}

        if not isinstance(content, dict):
            return {}

        return content

    @property
    def shares_prefix(self) -> bool:
        """Whether a prefix shared by all texts is computed once when encoding."""
        return False

    @property
    def predicts(self) -> bool:
        """Whether tokens can be predicted: the last layer must be read, and the head must not be random."""
        if self.head_in_files is None or self.layer_numbers != (-1,):
            return False

        return self.init == "pretrained" or not self.head_in_files

    @property
    def untrainable(self) -> str | None:
        """Return why a stage cannot train this backbone; None if it can."""
        intervention = self.intervention
        if intervention is not None and intervention.auxiliary is not None:
            return (
                f"the intervention `{intervention.name}` runs an auxiliary prompt, which only encoding does; "
                "train without the intervention, and encode with it"
            )

        adapted = self.lora is not None or self.adapter is not None
        if adapted or self.dtype == "fp32" or self.quantization is not None:
            return None

        return (
            f"the weights are held in {self.dtype}, in which small updates are lost; train with "
            '`dtype = "fp32"` (and `precision = "bf16"` of the runtime for speed), or add `lora = {}`'
        )

    @property
    def layer_numbers(self) -> tuple[int, ...]:
        """The numbers of the layers to read."""
        if isinstance(self.layers, str):
            return LAYERS[self.layers]

        return self.layers

    def plain(self) -> Transformer:
        """Return the same backbone without adapter and quantisation, as `sentbed export` writes it."""
        return attrs.evolve(
            self,
            lora=None,
            adapter=None,
            adapter_revision=None,
            quantization=None,
        )


@attrs.frozen(kw_only=True)
class CausalTransformer(Transformer):
    """The base class of causal language models (decoders).

    A token's state is the output of the last layer after the final norm.
    """

    offered: ClassVar[frozenset[str]] = frozenset(
        {"causal", "layers", "block-input", "attention-heads"}
    )
    sizes: ClassVar[Mapping[str, tuple[int, ...]]]
    """Dimensions of a random model by its `size`; the first is the number of blocks."""

    attention: Literal["causal", "bidirectional"] | None = None
    """What a token attends to: itself and the tokens before it (`causal`), or the whole text (`bidirectional`;
    BehnamGhader et al., 2024). Default: as its configuration says. A model that was
    trained with causal attention needs further training for `bidirectional`. A model that was trained with
    bidirectional attention, such as EmbeddingGemma, is refused with `causal`. A sliding window remains: under
    `bidirectional` it reaches as far after a token as before it."""
    vocab_size: int = attrs.field(default=8192, validator=ge(300))
    """Largest vocabulary of a tokenizer trained on the recipe's texts (byte-level BPE)."""
    reuse_prefix: bool = True
    """Whether encoding computes the prefix that all texts share (a template, a demonstration) once, and reuses
    its keys and values: the same vectors, faster. It has no effect with bidirectional attention, where the
    states of a prefix depend on the text."""

    @property
    def offers(self) -> frozenset[str]:
        """What a transformer offers; with attention in both directions, `bidirectional`, not `causal`."""
        if self.both_ways:
            return super().offers - {"causal"} | {"bidirectional"}
        return super().offers

    @property
    def cites(self) -> tuple[str, ...]:
        """The papers of a transformer, and that on attention in both directions if it is set."""
        if self.both_ways and self.attention is not None:
            return (*super().cites, "behnamghader2024llm2vec")
        return super().cites

    @property
    def both_ways(self) -> bool:
        """Whether attention is bidirectional, by `attention` or else by the configuration of a local model.

        For a hub id, this is known only when the model is built.
        """
        if self.attention is not None:
            return self.attention == "bidirectional"

        return attends_both_ways(self._local_config())

    @property
    def shares_prefix(self) -> bool:
        """Whether `reuse_prefix` is on, attention is causal, and no intervention changes the prefix."""
        intervention = self.intervention
        changes = intervention is not None and not intervention.shares_prefix
        return self.reuse_prefix and not self.both_ways and not changes

    def check(self) -> Iterator[str]:
        """Yield problems that show without loading."""
        problems = list(super().check())
        yield from problems
        count = self._block_count()
        if problems or count is None:
            return

        problem = problem_of_layers(self.layer_numbers, count)
        if problem is None:
            blocks_run = max(number % (count + 1) for number in self.layer_numbers)
            problem = problem_of_intervention(self.intervention, blocks_run)

        if problem is not None:
            yield problem

    def _block_count(self) -> int | None:
        """Return the number of blocks, from the random model's size or local files; None if it is unknown."""
        size: str = getattr(self, "size")  # noqa: B009 - a field of every subclass, each with its own values
        if self.model is None:
            return self.sizes[size][0]

        content = self._local_config()
        count = content.get("num_hidden_layers", content.get("n_layer"))
        if not isinstance(count, int):
            return None

        return count
