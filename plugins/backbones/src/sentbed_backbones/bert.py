"""The backbone `bert`."""

from __future__ import annotations

from typing import Literal

import attrs
from attrs.validators import ge
from sentbed.protocols import BuildContext, BuiltBackbone
from sentbed_common import import_heavy

from sentbed_backbones.transformer_base import LOGITS, TEMPLATE_ALONE, Transformer


@attrs.frozen(kw_only=True)
class Bert(Transformer):
    """Any BERT-family encoder: BERT, RoBERTa, XLM-R, MiniLM, or a small BERT with random weights.

    The dense layer with tanh on [CLS], which some files have, is not loaded: pooling is the pooler's task.
    """

    name = "bert"
    papers = ("devlin2019bert",)
    random_positions = 512
    head_in_files = True
    offered = frozenset(
        {"bidirectional", "mask-token", "layers", LOGITS, *TEMPLATE_ALONE}
    )

    size: Literal["tiny", "mini", "small", "medium", "base", "large"] = "tiny"
    """Size of a random BERT, as in Turc et al. (2019): tiny has 2 layers of width 128, base 12 of width 768."""
    vocab_size: int = attrs.field(default=8192, validator=ge(100))
    """Largest vocabulary of a tokenizer trained on the recipe's texts."""
    masked_head: Literal["files", "new"] = "files"
    """What to do if the pooler reads logits and the files of a pretrained model lack weights of the
    masked-language-modelling head, as the files of sentence encoders do. `files`: report an error. `new`: begin
    with a head that only normalises the states (layer norm) and multiplies them by the input embeddings; it
    should be trained."""

    def build(self, context: BuildContext) -> BuiltBackbone:
        """Load or initialise the backbone.

        Raises:
            ModelError: if weights are missing or incomplete, or need code that is not trusted.
        """
        import_heavy("transformers.modeling_utils")
        from sentbed_backbones._torch.bert import BertFamily
        from sentbed_backbones._torch.build_backbone import build

        return build(self, BertFamily, context)
