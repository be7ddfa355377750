"""The kit where packages meet: faults that show inside an encoder, on an engine, or in a whole backbone."""

from __future__ import annotations

import copy
from typing import ClassVar

import attrs
import pytest
import torch
from sentbed_backbones.bert import Bert
from sentbed_testing import ConformanceError, component_rules


def finding(cls, rule, **options):
    """The fault that one rule finds; empty where the rule holds."""
    try:
        component_rules(cls, **options)[rule]()
    except ConformanceError as error:
        return str(error)
    return ""


class Longer:
    """A tokenizer whose method `encode` allows two tokens more, or gives a text more beside others."""

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
        self.built, self.fault = built, fault
        self.module = (
            Blind(built.module) if fault == "blind to the mask" else built.module
        )
        self.tokenizer = (
            Longer(built.tokenizer) if fault == "longer" else built.tokenizer
        )
        self.width = built.width + 1 if fault == "wider" else built.width

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
                with torch.no_grad():
                    weight.zero_()
        self.built.save(directory)


@attrs.frozen(kw_only=True)
class Backbone(Bert):
    """BERT, with a fault."""

    name: ClassVar[str] = "faulty-bert"
    fault: str = ""
    """What is wrong with it."""

    def build(self, context):
        """Build BERT and spoil it."""
        if self.fault == "no layers":
            context = attrs.evolve(context, needs=frozenset())
        return Built(super().build(context), self.fault)


@pytest.mark.parametrize(
    ("fault", "rule", "what"),
    [
        ("wider", "built", "the states have shape (5, 16, 128), not (5, 16, 129)"),
        (
            "no layers",
            "offers",
            "it offers `layers`, but `layers` of its states is None",
        ),
        ("blind to the mask", "padding", "let no token attend to padding"),
        (
            "forgets",
            "save",
            "save every weight, and read the weights from `BuildContext.saved`",
        ),
        (
            "drops when encoding",
            "inference",
            "return a copy in eval mode with the same weights",
        ),
        ("longer", "tokenizer", "tokens, but 16 are allowed"),
    ],
)
def test_a_fault_of_a_backbone_breaks_its_rule(fault, rule, what):
    example = {"init": "random", "vocab_size": 512, "fault": fault}
    assert what in finding(Backbone, rule, kind="backbone", example=example)
    assert (
        finding(Backbone, rule, kind="backbone", example={**example, "fault": ""}) == ""
    )
