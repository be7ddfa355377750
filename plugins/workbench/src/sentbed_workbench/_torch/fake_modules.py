"""Sizes of modules, and costs of their passes, counted on tensors without content.

Modules are built on the device `meta`. Of fake tensors PyTorch computes the shapes alone, while operations and
bytes in memory are counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import Any, TypeAlias

import attrs
import torch
from sentbed.errors import ModelError
from sentbed.protocols import (
    LABEL,
    PROGRESS,
    Backbone,
    BuildContext,
    BuiltBackbone,
    Head,
    Loss,
    Pooler,
)
from sentbed_common.pass_cost import PassCost, pass_cost
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
"""Name of a parameter -> its shape."""

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""Precision -> data type of torch."""


@attrs.frozen(eq=False)
class FakeBackbone:
    """A backbone without memory for its weights."""

    built: BuiltBackbone
    module: torch.nn.Module
    """Its module, on fake tensors of the mode `tensors`."""
    tensors: FakeTensorMode

    @property
    def shapes(self) -> Shapes:
        """Shapes of the trained parameters, by name."""
        return _trained_shapes(self.module)

    @property
    def parameters(self) -> int:
        """Number of parameters, including adapters; tied weights count once."""
        return sum(parameter.numel() for parameter in self.module.parameters())

    @property
    def weight_bytes(self) -> int:
        """Size of the weights in bytes, as they are held in memory."""
        size = 0
        for parameter in self.module.parameters():
            size += int(getattr(parameter, "held_bytes", parameter.nbytes))
        return size

    def copy_bytes(self, precision: str) -> int:
        """Return the size in bytes of the copy of the weights for encoding in a precision.

        It is 0 if no copy is made, since not all weights are fp32, or since they are on their devices already.
        """
        dtypes = {parameter.dtype for parameter in self.module.parameters()}
        if self.built.dispatched or dtypes != {torch.float32}:
            return 0
        return self.parameters * DTYPES[precision].itemsize


def fake_backbone(backbone: Backbone, context: BuildContext) -> FakeBackbone:
    """Build a backbone without memory for its weights; it may ignore `BuildContext.shapes_only`.

    Raises:
        ModelError: if its module is not PyTorch's.
    """
    with torch.device("meta"):
        built = backbone.build(context)
    module: Any = built.module
    if not isinstance(module, torch.nn.Module):
        raise ModelError(f"its module is a `{type(module).__name__}`, not PyTorch's")

    # Autocast does not support the device `meta`.
    tensors = FakeTensorMode()
    with tensors:
        _replace_tensors(module)
    return FakeBackbone(built, module.train(), tensors)


def _replace_tensors(module: torch.nn.Module) -> None:
    """Replace the tensors on `meta` by fake tensors on the CPU. Tied weights stay tied."""
    replaced: dict[Any, Any] = {}
    for submodule in module.modules():
        for tensors in (submodule._parameters, submodule._buffers):
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                if tensor not in replaced:
                    fake = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
                    if isinstance(tensor, torch.nn.Parameter):
                        fake = torch.nn.Parameter(fake, tensor.requires_grad)
                        if hasattr(tensor, "held_bytes"):
                            fake.held_bytes = tensor.held_bytes  # type: ignore[attr-defined]
                    replaced[tensor] = fake
                tensors[name] = replaced[tensor]


def _trained_shapes(module: torch.nn.Module) -> Shapes:
    """Return the shapes of the trained parameters of a module, by name."""
    shapes = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            shapes[name] = tuple(parameter.shape)
    return shapes


def head_shapes(pooler: Pooler, head: Head, width: int) -> Shapes:
    """Return the shapes of the trained parameters of pooler and head for token states of this width."""
    layers = torch.nn.ModuleList()
    with torch.device("meta"):
        layers.append(pooler.build(width))
        if head.projection is not None:
            widths = [pooler.trained_width(width), *head.hidden, head.projection]
            for before, after in pairwise(widths):
                layers.append(torch.nn.Linear(before, after, bias=head.bias))
    return _trained_shapes(layers)


def backbone_cost(
    backbone: FakeBackbone,
    batches: Sequence[tuple[int, int]],
    precision: str,
    device: str,
    trained: bool,
) -> PassCost:
    """Return the cost of a forward pass over batches and, if `trained`, of one backward pass after all of them.

    Args:
        backbone: the backbone.
        batches: number of texts and length in tokens of each batch.
        precision: precision of the computation, a key of `DTYPES`.
        device: name of the runtime; on `cuda`, attention keeps no matrix of scores for the backward pass.
        trained: whether there is a backward pass.
    """
    dtype = DTYPES[precision]

    def passes() -> None:
        sums = []
        with torch.autocast("cpu", dtype, dtype != torch.float32):
            for texts, length in batches:
                ids = torch.zeros(texts, length, dtype=torch.long)
                sums.append(_sum_of_states(backbone.module(ids, None)))
        total = torch.stack(sums).sum()
        if total.requires_grad:
            total.backward()  # type: ignore[no-untyped-call]  # torch has no types for it

    with ExitStack() as stack:
        stack.enter_context(backbone.tensors)
        if device == "cuda":
            stack.enter_context(_AttentionOfGPU())
        stack.enter_context(torch.set_grad_enabled(trained))
        # Gradients are held beside the states of a pass: those of the chunk before it.
        for parameter in backbone.module.parameters():
            if parameter.requires_grad and trained:
                parameter.grad = torch.zeros_like(parameter)
        cost = pass_cost(passes)
    backbone.module.zero_grad(set_to_none=True)
    return cost


def _sum_of_states(states: Any) -> torch.Tensor:
    """Return a scalar that depends on all states that a pooler may read."""
    tensors = [*(states.layers or ()), states.last_hidden_state]
    if states.decoder_state is not None:
        tensors[-1] = states.decoder_state
    sums = [tensor.float().sum() for tensor in tensors]
    return torch.stack(sums).sum()


@attrs.frozen(eq=False)
class LossSize:
    """Size of a loss, and the cost of its passes for a batch."""

    shapes: Shapes = attrs.field(factory=dict)
    """Shapes of its parameters, by name."""
    state_bytes: int = 0
    """Size in bytes of the state that it keeps between steps."""
    operations: float = 0.0
    """Floating-point operations of its forward and backward pass."""
    peak_bytes: int = 0
    """Most bytes that the passes take at a time, with the vectors that it gets."""


def loss_size(
    loss: Loss,
    width: int,
    rows: int,
    columns: Collection[str],
) -> LossSize:
    """Return the size of a loss, and its cost for `rows` rows of vectors of this width."""
    state = {}
    with FakeTensorMode(), torch.device("cpu"):
        module = loss.build(width).train()
        if "state" in loss.needs:
            state = module.initial_state()

        def passes() -> None:
            arguments = [dict(_loss_inputs(loss, width, rows, columns))]
            if "state" in loss.needs:
                arguments.append(state)
            output = module(*arguments).loss
            if output.requires_grad:
                output.backward()

        cost = pass_cost(passes)

    state_bytes = sum(tensor.nbytes for tensor in state.values())
    shapes = _trained_shapes(module)
    return LossSize(shapes, state_bytes, cost.operations, cost.peak_bytes)


def _loss_inputs(
    loss: Loss,
    width: int,
    rows: int,
    columns: Collection[str],
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the inputs of a loss by name, with zeros as values."""
    if "progress" in loss.needs:
        yield PROGRESS, torch.tensor(0.0)
    for column in sorted(columns):
        if column == LABEL:
            yield column, torch.zeros(rows, dtype=torch.int64)
        elif column in loss.numbers:
            yield column, torch.zeros(rows)
        else:
            yield column, torch.zeros(rows, width, requires_grad=True)
            if "text-ids" in loss.needs:
                yield f"{column}.id", torch.zeros(rows, dtype=torch.int64)


class _AttentionOfGPU(TorchFunctionMode):
    """Turns off dropout in attention, so that no mask is kept: GPU kernels draw it again in the backward pass."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        if func is torch.nn.functional.scaled_dot_product_attention:
            named["dropout_p"] = 0.0
        return func(*args, **named)
