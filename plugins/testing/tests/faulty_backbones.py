"""What `bert` builds, with one fault by its name: a field `fault`, empty for none."""

from __future__ import annotations

import copy
from typing import ClassVar

import attrs
import torch
from sentbed_backbones.bert import Bert


class Longer:
    """A tokenizer that allows two tokens more, and truncates texts at the beginning."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)

    def encode(self, texts, max_length):
        return self.tokenizer.encode(texts, max_length + 2)

    def truncate(self, texts, max_length):
        return [text[::-1] for text in self.tokenizer.truncate(texts, max_length)]


class Blind(torch.nn.Module):
    """A transformer that does not see the mask."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, input_ids, attention_mask):
        return self.module(input_ids, None)._replace(attention_mask=attention_mask)


class Built:
    """What `bert` builds, with a fault."""

    def __init__(self, built, fault):
        self.built = built
        self.fault = fault
        self.module = built.module
        self.tokenizer = built.tokenizer
        self.width = built.width
        if fault == "blind to the mask":
            self.module = Blind(built.module)
        if fault == "longer":
            self.tokenizer = Longer(built.tokenizer)
        if fault == "wider":
            self.width += 1

    def __getattr__(self, name):
        return getattr(self.built, name)

    def inference(self, module, dtype, traceable=False):
        if self.fault == "blind to the mask":
            return module
        if self.fault == "drops when encoding":
            return copy.deepcopy(module).train()
        return self.built.inference(module, dtype, traceable)

    def save(self, directory):
        if self.fault == "forgets":
            for weight in self.module.parameters():
                torch.nn.init.zeros_(weight)
        self.built.save(directory)


@attrs.frozen(kw_only=True)
class FaultyBert(Bert):
    """BERT, with a fault."""

    name: ClassVar[str] = "faulty-bert"
    fault: str = ""
    """What is wrong with it."""

    def build(self, context):
        """Build BERT and spoil it."""
        if self.fault == "no layers":
            context = attrs.evolve(context, needs=frozenset())
        return Built(super().build(context), self.fault)
