"""The base class of backbones that transformers runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, Self, TypeAlias

import attrs
from attrs.validators import and_, ge, le, optional
from sentbed import ModelId, SentbedError, locate
from sentbed.helpers import read_json
from sentbed.protocols import Backbone, BackboneTraits, Intervention, InterventionTraits

from sentbed_backbones.adaptation import (
    Freeze,
    LoRA,
    not_installed,
    problems_of_adaptation,
)
from sentbed_backbones.attention_settings import attends_both_ways
from sentbed_backbones.input_positions import positions_of
from sentbed_backbones.model_file_checks import LARGEST_JSON, is_local, problems_of

Layers: TypeAlias = Literal["last", "first-last", "last-two"] | tuple[int, ...]

TEMPLATE_ALONE = ("template-alone", "template-alone-from-0")
"""Needs of poolers that subtract the state of the template alone; see `TokenStates.mask_state`."""

LOGITS = "logits"
"""Need of poolers that read the vocabulary's logits, of a language-modelling head, as states of tokens."""

LAYERS = {"last": (-1,), "first-last": (1, -1), "last-two": (-2, -1)}
"""The layers behind each name, numbered as in transformers: 0 is the embedding output."""

READS = {
    "decoder": "the decoder",
    "layers": "layers of its own",
    LOGITS: "the logits of the last layer",
}
"""What poolers with these needs read, in the place of `layers`."""


def problem_of_layers(numbers: Iterable[int], blocks: int) -> str | None:
    """Return why a model of so many blocks lacks one of these layers; None if it has all."""
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
    """Return why an intervention cannot act where only the first `blocks` are run; None if it can."""
    if intervention is None:
        return None

    last = max((block for _, block in intervention.places), default=-1)
    if last < blocks:
        return None

    return (
        f"the intervention `{intervention.name}` acts at block {last}, and the pass ends before block "
        f"{blocks}; choose an earlier block, or read a later layer in `layers`"
    )


def _not_empty(_: Any, __: Any, value: Layers) -> None:
    if not value:
        raise ValueError("no layer; name at least one, such as [-1]")


@attrs.frozen(kw_only=True)
class Transformer(Backbone):
    """The source and precision of weights, the layers to read and the parts to train."""

    papers: ClassVar[tuple[str, ...]] = ()
    """Keys of the papers that introduced the architecture."""
    offered: ClassVar[frozenset[str]]
    """Needs of a pooler that the architecture can meet."""
    head_in_files: ClassVar[bool | None] = None
    """Whether its language-modelling head has weights of its own; None if it has no such head."""

    random_positions: ClassVar[int | None] = None
    """Number of positions of a model of `size`; None if it has no such limit."""

    model: ModelId | None = None
    """A hub id (`bert-base-uncased`), a local directory (`./my-bert`) or `pkg:PACKAGE/path`."""
    revision: str | None = None
    """Commit, tag or branch of a hub id; only a commit is reproducible."""
    init: Literal["pretrained", "random"] = "pretrained"
    """`random` takes the architecture and tokenizer of `model`, or, without a `model`, an architecture of
    `size` and a tokenizer trained on the texts of the stages, or without a stage on those of the evaluations."""
    dtype: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Precision of the weights in memory; they are converted one by one as they are read. Trained weights
    need fp32; below it, encoding uses this precision whatever the runtime's."""
    layers: Layers = attrs.field(default="last", validator=_not_empty)
    """Layers to read; their states are averaged. `last`; `first-last` (layer 1 and the last);
    `last-two`; or numbers as in transformers: 0 the embedding output, k the output of block k (from 1) before
    the final norm, -1 the last after it. Causal models run no block after the last one that is read."""
    dropout: float | None = attrs.field(
        default=None, validator=optional(and_(ge(0), le(1)))
    )
    """Dropout of states and attention in training, in [0, 1]; default: the model's configuration."""
    lora: LoRA | None = None
    """A new low-rank adapter; all other weights of the backbone stay frozen."""
    adapter: ModelId | None = None
    """An adapter trained with peft to start from: a hub id or a local directory."""
    adapter_revision: str | None = None
    """Commit, tag or branch of an adapter's hub id."""
    quantization: Literal["nf4"] | None = None
    """`nf4`: hold the weights in 4 bits, with double quantisation (QLoRA, with bitsandbytes). Then `dtype` is
    the compute precision: bf16 in PromptEOL."""
    freeze: Freeze | None = None
    """The parts that are not trained; default: none."""
    intervention: Intervention | None = None
    """A change of states on the way through the blocks, such as `token-prepending`."""
    device_map: Literal["auto", "balanced", "sequential"] | None = None
    """Spread the weights over the machine's GPUs as accelerate does."""
    trust_remote_code: bool = False
    """Whether Python code that comes with the model may run. Who loads the saved encoder decides anew."""

    def check(self) -> Iterator[str]:
        """Yield problems that show without loading."""
        if self.model is None and self.init == "pretrained":
            yield 'the backbone has no `model`; name one, or set `init = "random"`'
        if self.revision is not None and (self.model is None or is_local(self.model)):
            yield "`revision` is for a hub id, and the model is none; remove `revision`"
        if self.adapter_revision is not None and (
            self.adapter is None or is_local(self.adapter)
        ):
            yield "`adapter_revision` is for a hub id, and the adapter is none; remove `adapter_revision`"

        if self.device_map is not None:
            yield from not_installed("`device_map`", ("accelerate",), "qlora")
        if self.intervention is not None:
            yield from self._problems_of(self.intervention)

        yield from problems_of_adaptation(
            self.lora, self.adapter, self.quantization, self.init
        )
        if self.model is not None and is_local(self.model):
            try:
                directory = locate(self.model)
            except SentbedError as error:
                yield f"the model cannot be found: {error}"
                return

            needs_weights = self.init == "pretrained"
            yield from problems_of(directory, needs_weights, self.trust_remote_code)

    def _problems_of(self, intervention: Intervention) -> Iterator[str]:
        """Yield why an intervention cannot act in this backbone."""
        yield from intervention.check()
        points = {point for point, _ in intervention.places}
        for point in sorted(points - self.offered):
            yield (
                f"the intervention `{intervention.name}` acts at `{point}`, which the backbone `{self.name}` "
                "does not offer; use a causal backbone, such as `opt`, or take it out"
            )
            return

    def remarks(self) -> Iterator[str]:
        """Yield what will be fetched of a hub id, as far as the hub answers.

        Raises:
            ModelError: if the hub says that it cannot be had.
        """
        if self.model is not None and not is_local(self.model):
            from sentbed_backbones.hub_models import outlook

            yield outlook(self.model, self.revision, self.init == "pretrained")

    def misfits(self, needs: frozenset[str]) -> Iterator[str]:
        """Yield settings that have no effect under a pooler with these needs."""
        reads = sorted(needs & READS.keys())
        if reads and self.layers != "last":
            yield (
                f"the pooler reads {READS[reads[0]]}, and `layers` would have no effect; take it out"
            )

    @property
    def traits(self) -> BackboneTraits:
        """The architecture's offer to poolers; whether all comes from files; whether a stage can train it."""
        intervenes = InterventionTraits()
        if self.intervention is not None:
            intervenes = self.intervention.traits

        cites = list(self.papers)
        if self.quantization is not None:
            cites.append("dettmers2023qlora")

        cites += intervenes.cites
        if self.lora is not None:
            cites.append("hu2022lora")

        return BackboneTraits(
            cites=tuple(cites),
            offers=self.offered | {"span"},
            heeds=frozenset(
                {"decoder", "layers", LOGITS, "mask-token", "span", *TEMPLATE_ALONE}
            ),
            from_files=self.init == "pretrained" and self.lora is None,
            untrainable=self._untrainable(),
            pretrained=self.init == "pretrained",
            runs_code=self.trust_remote_code,
            model=self.model,
            predicts=self._predicts(),
            placeholder=intervenes.placeholder,
            auxiliary=intervenes.auxiliary,
        )

    def most_tokens(self) -> int | None:
        """Return the number of positions that the size or a local configuration gives, else None."""
        if self.model is None:
            return self.random_positions

        return positions_of(self._local_config())

    def _local_config(self) -> Mapping[str, Any]:
        """Return the `config.json` of a local model; it is empty for a hub id, or if it cannot be read."""
        if self.model is None or not is_local(self.model):
            return {}

        try:
            content = read_json(locate(self.model) / "config.json", LARGEST_JSON)
        except (SentbedError, OSError, ValueError):
            # `check` says so.
            return {}

        if not isinstance(content, dict):
            return {}

        return content

    def reading(self, layers: tuple[int, ...]) -> Self:
        """Return this backbone with other `layers`."""
        return attrs.evolve(self, layers=layers)

    @property
    def shares_prefix(self) -> bool:
        """Whether a prefix shared by all texts is computed once when encoding."""
        return False

    def _predicts(self) -> bool:
        """Whether tokens can be predicted: from the last layer, by a head that is not random."""
        if self.head_in_files is None or self.layer_numbers != (-1,):
            return False

        return self.init == "pretrained" or not self.head_in_files

    def _untrainable(self) -> str | None:
        intervention = self.intervention
        if intervention is not None and intervention.traits.auxiliary is not None:
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
            self, lora=None, adapter=None, adapter_revision=None, quantization=None
        )


@attrs.frozen(kw_only=True)
class CausalTransformer(Transformer):
    """The base class of decoders.

    A token state is that of the last layer after the final norm.
    """

    offered: ClassVar[frozenset[str]] = frozenset(
        {"causal", "layers", "block-input", "attention-heads"}
    )
    sizes: ClassVar[Mapping[str, tuple[int, ...]]]
    """What a random model of each `size` has: first the number of its blocks."""

    attention: Literal["causal", "bidirectional"] | None = None
    """What a token attends to: itself and tokens before it, or the whole text (BehnamGhader et al., 2024);
    default: as the model was trained, which a trial pass shows. Weights that were trained with causal
    attention need training for the other; EmbeddingGemma and others that were not are refused under
    `causal`. A sliding window stays, and then reaches as far behind a token as before it."""
    vocab_size: int = attrs.field(default=8192, validator=ge(300))
    """Largest vocabulary of a tokenizer trained on the recipe's texts (byte-level BPE)."""
    reuse_prefix: bool = True
    """Compute the prefix of all texts (a template, a demonstration) once when encoding, and share its keys
    and values: the same vectors, faster. Not with bidirectional attention, under which a prefix depends on
    the text."""

    @property
    def traits(self) -> BackboneTraits:
        """Those of any transformer; with bidirectional attention it offers that instead of `causal`."""
        traits = super().traits
        if not self.both_ways:
            return traits

        offers = (traits.offers or frozenset()) - {"causal"} | {"bidirectional"}
        cites = traits.cites
        if self.attention is not None:
            cites = (*cites, "behnamghader2024llm2vec")

        return attrs.evolve(traits, offers=offers, cites=cites)

    @property
    def both_ways(self) -> bool:
        """Whether attention is bidirectional, by this field or else by the configuration of a local model.

        What a hub id's model does is found out when it is built.
        """
        if self.attention is not None:
            return self.attention == "bidirectional"

        return attends_both_ways(self._local_config())

    @property
    def shares_prefix(self) -> bool:
        """Whether `reuse_prefix` is on, attention is causal, and no intervention changes the prefix."""
        intervention = self.intervention
        changes = intervention is not None and not intervention.traits.shares_prefix
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
        """Return the number of blocks that a size or a local configuration gives, else None."""
        size: str = getattr(self, "size")  # noqa: B009 - a field of every subclass, each with its own values
        if self.model is None:
            return self.sizes[size][0]

        content = self._local_config()
        count = content.get("num_hidden_layers", content.get("n_layer"))
        if not isinstance(count, int):
            return None

        return count
