"""What every backbone that transformers runs has in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, TypeAlias

import attrs
from attrs.validators import and_, ge, le, optional
from sentbed import ModelId, SentbedError, locate
from sentbed.protocols import Backbone, BackboneTraits, Outline, OutlineContext

from sentbed_backbones.adaptation import Freeze, LoRA, not_installed, problems_of_adaptation
from sentbed_backbones.files import is_local, problems_of

Layers: TypeAlias = Literal["last", "first-last", "last-two"] | tuple[int, ...]

LAYERS = {"last": (-1,), "first-last": (1, -1), "last-two": (-2, -1)}
"""The layers that a name stands for, counted as transformers does: 0 is the embedding output."""


def _not_empty(_: Any, __: Any, value: Layers) -> None:
    if not value:
        raise ValueError("no layer; name at least one, such as [-1]")


@attrs.frozen(kw_only=True)
class Transformer(Backbone):
    """Where weights come from, in which precision they are held, what is read and what is trained."""

    papers: ClassVar[tuple[str, ...]] = ()
    """Keys of the papers behind the architecture."""
    offered: ClassVar[frozenset[str]]
    """What the architecture has for a pooler."""

    model: ModelId | None = None
    """A hub id (`bert-base-uncased`), a local directory (`./my-bert`) or `pkg:PACKAGE/path`."""
    revision: str | None = None
    """Commit, tag or branch of a hub id; a commit is what reproduces."""
    init: Literal["pretrained", "random"] = "pretrained"
    """`random` takes the architecture and tokenizer of `model`, or, without a `model`, an architecture of
    `size` and a tokenizer trained on the stages' own texts."""
    dtype: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Precision in which the weights are held; they are streamed from the files into it, one by one. Weights
    that are trained need fp32; below it, encoding runs in this precision whatever the runtime's."""
    layers: Layers = attrs.field(default="last", validator=_not_empty)
    """Which layers to read: their states are averaged. `last`; `first-last` (layer 1 and the last);
    `last-two`; or numbers as transformers counts: 0 the embedding output, 1 the first layer, -1 the last."""
    dropout: float | None = attrs.field(default=None, validator=optional(and_(ge(0), le(1))))
    """Dropout of states and attention in training; as the model's configuration says where left out."""
    lora: LoRA | None = None
    """A new low-rank adapter: all other weights of the backbone stay as they are."""
    adapter: ModelId | None = None
    """An adapter that was trained with peft, to start from: a hub id or a local directory."""
    adapter_revision: str | None = None
    """Commit, tag or branch of an adapter's hub id."""
    quantization: Literal["nf4"] | None = None
    """`nf4`: hold the weights in 4 bits, with double quantisation (QLoRA, with bitsandbytes). Then `dtype` is
    the precision that they are computed in: bf16 in PromptEOL."""
    freeze: Freeze | None = None
    """What is not trained; nothing is frozen where left out."""
    device_map: Literal["auto", "balanced", "sequential"] | None = None
    """Spread the weights over the machine's GPUs as accelerate does."""
    trust_remote_code: bool = False
    """Allow Python code that comes with the model to run."""

    def check(self) -> Iterator[str]:
        """Yield what can be seen without loading."""
        if self.model is None and self.init == "pretrained":
            yield 'the backbone has no `model`; name one, or set `init = "random"`'
        if self.revision is not None and (self.model is None or is_local(self.model)):
            yield "`revision` is for a hub id, and the model is none; remove `revision`"
        if self.adapter_revision is not None and (self.adapter is None or is_local(self.adapter)):
            yield "`adapter_revision` is for a hub id, and the adapter is none; remove `adapter_revision`"
        if self.device_map is not None:
            yield from not_installed("`device_map`", ("accelerate",), "qlora")
        yield from problems_of_adaptation(self.lora, self.adapter, self.quantization, self.init)
        if self.model is not None and is_local(self.model):
            try:
                directory = locate(self.model)
            except SentbedError as error:
                yield f"the model cannot be found: {error}"
                return
            yield from problems_of(directory, self.init == "pretrained", self.trust_remote_code)

    def misfits(self, needs: frozenset[str]) -> Iterator[str]:
        """Yield what would have no effect under a pooler that needs this."""
        if self.layers != "last" and (reads := sorted(needs & {"layers", "decoder"})):
            what = "layers of its own" if reads == ["layers"] else "the decoder"
            yield f"the pooler reads {what}, and `layers` would have no effect; take it out"

    @property
    def traits(self) -> BackboneTraits:
        """What the architecture offers; whether all comes from files; whether a stage can train it."""
        papers = (*self.papers, "dettmers2023qlora") if self.quantization else self.papers
        return BackboneTraits(
            cites=(*papers, "hu2022lora") if self.lora is not None else papers,
            offers=self.offered,
            heeds=frozenset({"decoder", "layers", "mask-token"}),
            from_files=self.init == "pretrained" and self.lora is None,
            untrainable=self._untrainable(),
            pretrained=self.init == "pretrained",
            model=self.model,
        )

    @property
    def shares_prefix(self) -> bool:
        """Whether what all texts begin with is computed once when encoding."""
        return False

    def _untrainable(self) -> str | None:
        adapted = self.lora is not None or self.adapter is not None
        if adapted or self.dtype == "fp32" or self.quantization is not None:
            return None
        return (
            f"the weights are held in {self.dtype}, in which small updates are lost; train with "
            '`dtype = "fp32"` (and `precision = "bf16"` of the runtime for speed), or add `lora = {}`'
        )

    @property
    def layer_numbers(self) -> tuple[int, ...]:
        """The layers to read, as numbers."""
        return LAYERS[self.layers] if isinstance(self.layers, str) else self.layers

    def outline(self, context: OutlineContext) -> Outline:
        """Return what the configuration says; no weights are read.

        Raises:
            ModelError: where there is no configuration at hand.
        """
        from sentbed_backbones._torch.outline import outline

        return outline(self, context)

    def plain(self) -> Transformer:
        """Return the same backbone without adapter and quantisation, as `Encoder.export` writes it."""
        return attrs.evolve(self, lora=None, adapter=None, adapter_revision=None, quantization=None)


@attrs.frozen(kw_only=True)
class CausalTransformer(Transformer):
    """What the causal backbones have in common.

    A token state is that of the last layer after the final norm. Padding goes to the right, where no token of
    a text can see it.
    """

    offered: ClassVar[frozenset[str]] = frozenset({"causal", "layers"})

    vocab_size: int = attrs.field(default=8192, validator=ge(300))
    """Largest vocabulary of the tokenizer that is trained (byte-level BPE)."""
    reuse_prefix: bool = True
    """Compute what all texts begin with (a template, a demonstration) once when encoding, and share its keys
    and values: the same vectors, sooner."""

    @property
    def shares_prefix(self) -> bool:
        """Whether `reuse_prefix` is on."""
        return self.reuse_prefix
