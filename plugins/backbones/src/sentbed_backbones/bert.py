"""The backbone `bert`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs
from attrs.validators import and_, ge, le, optional
from sentbed import ModelId, SentbedError, locate
from sentbed.protocols import BuildContext, BuiltBackbone

from sentbed_backbones.files import is_local, problems_of


@attrs.frozen
class Bert:
    """Any BERT-family encoder: BERT, RoBERTa, XLM-R, MiniLM, or a small BERT with random weights.

    Weights are read from safetensors only, never from pickle files. The layer with tanh behind [CLS], where
    the files have one, is left out: poolers come after the backbone.
    """

    name: ClassVar[str] = "bert"

    model: ModelId | None = None
    """A hub id (`bert-base-uncased`), a local directory (`./my-bert`) or `pkg:PACKAGE/path`."""
    revision: str | None = None
    """Commit, tag or branch of a hub id; a commit is what reproduces."""
    init: Literal["pretrained", "random"] = "pretrained"
    """`random` takes the architecture and tokenizer of `model`, or, without a `model`, a BERT of `size` and a
    WordPiece tokenizer trained on the stages' own texts."""
    size: Literal["tiny", "mini", "small", "medium", "base", "large"] = "tiny"
    """Size of a random BERT, as in Turc et al. (2019): tiny is 2 layers of width 128, base 12 of 768."""
    vocab_size: int = attrs.field(default=8192, validator=ge(100))
    """Largest vocabulary of the tokenizer that is trained."""
    lowercase: bool = True
    """Whether the tokenizer that is trained folds case."""
    dropout: float | None = attrs.field(default=None, validator=optional(and_(ge(0), le(1))))
    """Dropout of states and attention in training; as the model's configuration says where left out."""
    trust_remote_code: bool = False
    """Allow Python code that comes with the model to run."""

    def check(self) -> Iterator[str]:
        """Yield what can be seen without loading."""
        if self.model is None and self.init == "pretrained":
            yield 'the backbone has no `model`; name one, or set `init = "random"`'
        if self.revision is not None and (self.model is None or is_local(self.model)):
            yield "`revision` is for a hub id, and the model is none; remove `revision`"
        if self.model is not None and is_local(self.model):
            try:
                directory = locate(self.model)
            except SentbedError as error:
                yield f"the model cannot be found: {error}"
                return
            yield from problems_of(directory, self.init == "pretrained", self.trust_remote_code)

    def build(self, context: BuildContext) -> BuiltBackbone:
        """Load or initialise, in fp32.

        Raises:
            ModelError: where weights are missing, incomplete or pickled, or need code that is not trusted.
        """
        from sentbed_backbones._torch.bert import build_bert

        return build_bert(self, context)
