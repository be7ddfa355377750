"""The kit on poolers and losses: each planted fault breaks the rules that are there for it, and no other."""

from __future__ import annotations

import re
from typing import ClassVar

import attrs
import pytest
import torch
from component_checks import check_component
from faulty_poolers import Attend, Nearest
from sentbed.protocols import Loss, LossOutput, Pooler
from sentbed_testing import (
    ConformanceError,
    NotRunError,
    component_rules,
    random_token_states,
)


def broken(cls, fault):
    """Return the rules that a fault breaks, with what is said of each."""
    try:
        check_component(cls, example={"fault": fault})
    except ConformanceError as error:
        return {failure.rule: str(failure) for failure in error.failures}
    return {}


POOLERS = [
    (
        "mutates a buffer",
        {"stateless"},
        "a call changes `calls`; compute from the arguments alone",
    ),
    ("keeps what it saw", {"stateless"}, "a call changes `_seen`"),
    (
        "plain mean",
        {"padding"},
        "get a gradient of .* (allowed 0); use `attention_mask`",
    ),
    (
        "forgets on save",
        {"save"},
        "vectors that differ by .* (allowed 0); register as parameters",
    ),
    (
        "saves half",
        {"save"},
        "a new module with the saved weights gives vectors that differ by",
    ),
    (
        "boolean index",
        {"traceable"},
        r"at .*faulty_poolers\.py:\d+ (DynamicOutputShapeException); avoid `\.item",
    ),
    (
        "item",
        {"traceable"},
        r"at .*faulty_poolers\.py:\d+ (DataDependentOutputException); avoid `\.item",
    ),
    (
        "detached",
        {"gradient"},
        "the gradient of `last_hidden_state` is off by .* of its norm (allowed 0.01)",
    ),
    ("centred on the batch", {"alone"}, "take no sum or mean over rows"),
    ("NaN without a mask", {"alone"}, "changes by inf of its size"),
    (
        "knows its row",
        {"alone", "order"},
        "if the rows are reordered, their vectors differ by",
    ),
    ("wider", {"shape"}, r"returns (3, 16) of torch\.float32; .* in `trained_width`"),
    (
        "reads what it does not need",
        {
            "shape",
            "padding",
            "alone",
            "order",
            "gradient",
            "stateless",
            "save",
            "traceable",
        },
        r"raised TypeError: .* at .*faulty_poolers\.py:\d+",
    ),
    (
        "exp",
        {"finite"},
        "when encoding, the vectors are NaN or infinite; use `logsumexp`",
    ),
    (
        "deviation of one",
        {"finite"},
        "when encoding, the vectors are NaN or infinite where a sentence has one token;",
    ),
    (
        "root of a deviation",
        {"finite"},
        "the gradient of `last_hidden_state` is NaN or infinite where a sentence has one token; .*`sqrt`",
    ),
    (
        "writes into states",
        {"stateless"},
        "a call writes into its arguments; change copies",
    ),
    (
        "draws from elsewhere",
        {"stateless"},
        "a second call with the same seed gives another vector",
    ),
    ("seeds torch", {"stateless"}, "a call seeds torch's generator; draw from it as"),
    (
        "draws from NumPy",
        {"stateless"},
        "a call uses the global generator of Python or NumPy; draw from torch's",
    ),
    ("seeds Python", {"stateless"}, "the global generator of Python or NumPy"),
]
LOSSES = [
    (
        "item",
        {"output", "traceable"},
        r"at .*faulty_poolers\.py:\d+ (DataDependentOutputException); avoid `\.item",
    ),
    ("data-dependent", {"traceable"}, r"at .*faulty_poolers\.py:\d+"),
    (
        "metric with a gradient",
        {"output"},
        r"`scale` .* has a gradient; return detached tensors",
    ),
    ("one row", {"output"}, r"for 1 row.* the loss is nan; return a finite loss"),
    (
        "one loss a row",
        {"output", "order", "gradient", "save"},
        "return a scalar tensor in fp32",
    ),
    ("needs what it takes", {"output"}, "raised KeyError: 'negative' at"),
    (
        "state of another name",
        {"state"},
        r"`initial_state()` has \['memory'\], but a step returns \['queue'\]",
    ),
    ("state that grows", {"state"}, "`memory` of its state changes shape"),
    ("state from nowhere", {"state"}, "its module has no `initial_state`"),
    (
        "keeps the batch",
        {"stateless"},
        "a call changes `last`; .* write `initial_state`",
    ),
    (
        "writes into vectors",
        {"stateless"},
        "a call writes into its arguments",
    ),
    ("knows its row", {"order"}, "if the rows are reordered, the loss is"),
    ("detached", {"gradient"}, "the gradient of `positive` is off by 1 of its norm"),
    (
        "forgets on save",
        {"save"},
        "gives the loss .*, not .*; register as parameters",
    ),
    ("exp", {"finite"}, "finite: the loss is NaN or infinite; use `logsumexp`"),
    (
        "gradient of a root",
        {"finite"},
        "finite: the gradient of `anchor` is NaN or infinite",
    ),
    (
        "scaled by an item",
        {"traceable", "gradient"},
        "the gradient of `positive` is off by",
    ),
    ("empty sentence", {"misfits"}, "`misfits` yields ''"),
]


def literal(text):
    """Return a pattern in which parentheses stand for themselves."""
    return re.compile(text.replace("(", r"\(").replace(")", r"\)"))


@pytest.mark.sweep(6)
@pytest.mark.parametrize(
    ("fault", "rules", "message"), POOLERS, ids=[case[0] for case in POOLERS]
)
def test_a_fault_of_a_pooler_breaks_its_rules(fault, rules, message):
    messages = broken(Attend, fault)
    assert messages.keys() == rules
    assert any(map(literal(message).search, messages.values())), messages


@pytest.mark.sweep(6)
@pytest.mark.parametrize(
    ("fault", "rules", "message"), LOSSES, ids=[case[0] for case in LOSSES]
)
def test_a_fault_of_a_loss_breaks_its_rules(fault, rules, message):
    messages = broken(Nearest, fault)
    assert messages.keys() == rules
    assert any(map(literal(message).search, messages.values())), messages


@pytest.mark.parametrize("cls", [Attend, Nearest])
def test_without_a_fault_every_rule_holds(cls):
    passed, not_run = check_component(cls)
    assert not_run == {}
    assert {"gradient", "order", "stateless", "save", "traceable"} < set(passed)


def message_of(cls, fault):
    """Return the lines of what is said of a fault."""
    with pytest.raises(ConformanceError) as caught:
        check_component(cls, example={"fault": fault})
    return str(caught.value).splitlines()


def test_the_message_has_a_line_with_the_worst_of_what_is_mended_alike():
    _, line = message_of(Attend, "plain mean")
    assert line.startswith("  padding: in training, vectors change by ")
    assert line.endswith(
        "find the first or the last token by the mask; and 7 more like it"
    )
    with pytest.raises(ConformanceError) as caught:
        check_component(Attend, example={"fault": "plain mean"})
    changes = [
        float(failure.what.partition("change by ")[2].split()[0])
        for failure in caught.value.failures
        if "change by" in failure.what
    ]
    assert len(changes) == 6
    assert changes == sorted(changes, reverse=True)


def test_the_line_that_names_the_cause_comes_before_those_that_follow_from_it():
    rules = [
        line.strip().partition(":")[0]
        for line in message_of(Nearest, "scaled by an item")
    ]
    assert rules[1:] == ["traceable", "gradient"]


@pytest.mark.parametrize(
    ("cls", "what"), [(Attend, "vectors are"), (Nearest, "loss is")]
)
def test_what_is_not_finite_is_tried_no_further(cls, what):
    rules = component_rules(cls, example={"fault": "exp"})
    reason = f"the {what} not finite; see the rule `finite`"
    for name in (
        "order",
        "gradient",
        "stateless",
        "save",
        "traceable",
    ):
        with pytest.raises(NotRunError, match=reason):
            rules[name]()
    skipping = component_rules(
        cls,
        example={"fault": "exp"},
        skip={"finite": "meant", "stateless": "NaN differs from NaN"},
    )
    with pytest.raises(ConformanceError):
        skipping["order"]()


def test_a_weight_without_a_gradient_is_no_fault():
    passed, _ = check_component(Attend, example={"fault": "frozen weight"})
    assert "finite" in passed


def test_where_padding_counts_no_other_rule_says_so_again():
    rules = component_rules(Attend, example={"fault": "plain mean"})
    with pytest.raises(NotRunError, match="see the rule `padding`"):
        rules["alone"]()


class Projection(torch.nn.Module):
    """A linear layer over every token, then the mean."""

    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, states):
        hidden, mask = self.linear(states.last_hidden_state), states.attention_mask
        kept = torch.ones_like(hidden[..., 0]) if mask is None else mask
        return torch.where(kept[..., None] > 0, hidden, 0).sum(1) / kept.sum(
            1, keepdim=True
        )


@attrs.frozen
class Projected(Pooler):
    """The mean of projected states."""

    name: ClassVar[str] = "projected"

    def build(self, width):
        """Return the module."""
        return Projection(width)


class Remembering(torch.nn.Module):
    """The distance to a memory, which is a part of a longer tensor."""

    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
        self.initial_state = lambda: {
            "memory": torch.ones(20, width),
            "projected": torch.ones(20, width),
        }

    def forward(self, inputs, state):
        memory = torch.cat([state["memory"], inputs["anchor"].detach().float()])[
            len(inputs["anchor"]) :
        ]
        projected = self.linear(state["memory"])
        loss = (inputs["anchor"].float() - projected.mean(0)).square().mean()
        return LossOutput(loss, {}, {"memory": memory, "projected": projected.detach()})


@attrs.frozen
class Remembered(Loss):
    """The distance to a memory."""

    name: ClassVar[str] = "remembered"
    needs = frozenset({"anchor"})
    stateful = True

    def build(self, width):
        """Return the module."""
        return Remembering(width)


@pytest.mark.parametrize("cls", [Projected, Remembered])
def test_how_data_lies_in_memory_breaks_no_rule(cls, monkeypatch):
    # On many processors a linear layer gives other last bits where data is aligned otherwise.
    randn = torch.randn

    def shifted(*size, generator=None):
        shape = torch.Size(size)
        return randn(shape.numel() + 1, generator=generator)[1:].view(shape)

    monkeypatch.setattr(random_token_states.load_torch(), "randn", shifted)
    rules = component_rules(cls, width=6)
    for name in ("stateless", "save"):
        rules[name]()


@attrs.frozen
class Heads(Projected):
    """Needs a width that three heads share."""

    name: ClassVar[str] = "heads"

    def build(self, width):
        """Return the module."""
        if width % 3:
            raise ValueError(f"a width of {width} cannot be shared by 3 heads")
        return Projection(width)


def test_a_component_is_tested_with_the_width_that_it_needs():
    component_rules(Heads, width=12)["shape"]()
    with pytest.raises(
        ConformanceError,
        match="raised ValueError: a width of 8 cannot be shared by 3 heads",
    ):
        component_rules(Heads)["shape"]()
