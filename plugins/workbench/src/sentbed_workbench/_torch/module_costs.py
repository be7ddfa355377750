"""Sizes and costs of modules. They are built on the device `meta` and run on fake tensors.

With attention, the cost of a text is a polynomial of degree two in its length. Passes over texts of three lengths
determine the coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from sentbed.errors import ModelError
from sentbed.protocols import (
    LABEL,
    PROGRESS,
    Backbone,
    BuildContext,
    Head,
    Loss,
    Pooler,
)
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import (
    FlopCounterMode,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from sentbed_workbench.module_sizes import BackboneSize, Cost, LossSize

LENGTHS = (8, 16, 24)
"""Lengths, in tokens, of the texts in the three passes that determine the coefficients."""
TEXTS = 2
"""Number of texts in such a pass. It is not 1: for a single text, some operations return views, not copies."""
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""Precision -> data type of torch."""


def _attention(
    query: Any,
    key: Any,
    value: Any,
    *_: Any,
    **__: Any,
) -> int:
    """Return the floating-point operations of attention."""
    return int(sdpa_flop_count(query, key, value))  # type: ignore[no-untyped-call]  # torch has no types for it


def _attention_gradient(
    gradient: Any,
    query: Any,
    key: Any,
    value: Any,
    *_: Any,
    **__: Any,
) -> int:
    """Return the floating-point operations of attention's backward pass."""
    flops = sdpa_backward_flop_count(gradient, query, key, value)  # type: ignore[no-untyped-call]  # as above
    return int(flops)


FUSED = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_gradient,
}
"""Operation that PyTorch's FLOP counter does not know -> function that counts its floating-point operations."""


def backbone_size(
    backbone: Backbone,
    context: BuildContext,
    precision: str,
    device: str,
    trained: bool,
) -> BackboneSize:
    """Return the size of a backbone, and the cost of its passes.

    Args:
        backbone: the backbone; it may ignore `BuildContext.shapes_only`.
        context: context for its `build`.
        precision: precision of the computation, a key of `DTYPES`; trained weights are fp32.
        device: name of the runtime; on `cuda`, attention keeps no matrix of scores for the backward pass.
        trained: whether to count the backward pass, and the bytes that are kept for it, too.
    """
    with torch.device("meta"):
        built = backbone.build(context)
    module: Any = built.module
    if not isinstance(module, torch.nn.Module):
        raise ModelError(f"its module is a `{type(module).__name__}`, not PyTorch's")

    count = weight_bytes = 0
    is_fp32 = True
    for parameter in module.parameters():
        count += parameter.numel()
        weight_bytes += getattr(parameter, "held_bytes", parameter.nbytes)
        is_fp32 &= parameter.dtype == torch.float32
    copy_bytes = 0
    if is_fp32 and not built.dispatched:
        copy_bytes = count * DTYPES[precision].itemsize
    shapes = trained_shapes(module)

    # Autocast does not support the device `meta`.
    with FakeTensorMode():
        _replace_tensors(module)
        forward, backward, activations = _costs(
            module.train(), DTYPES[precision], device, trained
        )

    inner = []
    blocks = [1]
    for submodule in module.modules():
        if isinstance(submodule, torch.nn.Linear):
            inner.append(submodule.out_features)
        elif isinstance(submodule, torch.nn.ModuleList):
            blocks.append(len(submodule))
    return BackboneSize(
        parameters=count,
        trained=shapes,
        weight_bytes=weight_bytes,
        copy_bytes=copy_bytes,
        width=built.width,
        inner=max(inner, default=4 * built.width),
        blocks=max(blocks),
        max_length=built.max_length,
        forward=forward,
        backward=backward,
        activations=activations,
        origin=dict(built.origin),
        tokenizer=built.tokenizer,
    )


def trained_shapes(module: Any) -> Mapping[str, tuple[int, ...]]:
    """Return the shapes of the trained parameters of a module, by name."""
    return {
        name: tuple(parameter.shape)
        for name, parameter in module.named_parameters()
        if parameter.requires_grad
    }


def head_shapes(
    pooler: Pooler,
    head: Head,
    width: int,
) -> Mapping[str, tuple[int, ...]]:
    """Return the shapes of the trained parameters of pooler and head for token states of this width."""
    layers = torch.nn.ModuleList()
    with torch.device("meta"):
        layers.append(pooler.build(width))
        if head.projection is not None:
            widths = [pooler.trained_width(width), *head.hidden, head.projection]
            for before, after in pairwise(widths):
                layers.append(torch.nn.Linear(before, after, bias=head.bias))
    return trained_shapes(layers)


def loss_size(
    loss: Loss,
    width: int,
    rows: int,
    columns: Collection[str],
) -> LossSize:
    """Return the size of a loss, and the cost of its passes over `rows` rows of vectors of this width."""
    state = {}
    with FakeTensorMode(), torch.device("cpu"):
        module = loss.build(width).train()
        inputs = dict(_loss_inputs(loss, width, rows, columns))
        arguments = [inputs]
        if "state" in loss.needs:
            state = module.initial_state()
            arguments.append(state)
        inputs_and_state = set(map(_storage, (*inputs.values(), *state.values())))
        forward, backward, kept = _count(
            lambda: module(*arguments).loss, inputs_and_state
        )
        shapes = trained_shapes(module)

    state_bytes = sum(tensor.nbytes for tensor in state.values())
    return LossSize(shapes, state_bytes, kept, forward + backward)


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
                    replaced[tensor] = fake
                tensors[name] = replaced[tensor]


def _count(
    forward: Callable[[], Any], ignored: Collection[int]
) -> tuple[int, int, int]:
    """Count a forward pass that returns a scalar and, if the scalar has a gradient, the backward pass.

    Returns:
        The floating-point operations of the forward pass, those of the backward pass, and the bytes that autograd
        keeps between the passes. Storages in `ignored` do not count.
    """
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if _storage(tensor) not in ignored:
            # This reference keeps the storage alive. The address of a freed storage would be used again.
            kept[_storage(tensor)] = tensor.untyped_storage()
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        FlopCounterMode(display=False, custom_mapping=FUSED) as first,
    ):
        output = forward()

    with FlopCounterMode(display=False, custom_mapping=FUSED) as second:
        if output.requires_grad:
            output.backward()
    kept_bytes = sum(storage.nbytes() for storage in kept.values())
    return first.get_total_flops(), second.get_total_flops(), kept_bytes


def _storage(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's storage."""
    return int(tensor.untyped_storage()._cdata)


def _costs(
    module: torch.nn.Module,
    dtype: torch.dtype,
    device: str,
    trained: bool,
) -> list[Cost]:
    """Return three costs: operations of the forward pass, of the backward pass, and bytes that autograd keeps."""
    weights = set(map(_storage, module.parameters()))

    def step(texts: int, length: int) -> tuple[int, int, int]:
        def forward() -> torch.Tensor:
            ids = torch.zeros(texts, length, dtype=torch.long)
            with torch.autocast("cpu", dtype, dtype != torch.float32):
                states = module(ids, None)
            # The scalar depends on all states that a pooler may read.
            tensors = [*(states.layers or ()), states.last_hidden_state]
            if states.decoder_state is not None:
                tensors[-1] = states.decoder_state
            return torch.stack([tensor.float().sum() for tensor in tensors]).sum()

        counted = _count(forward, weights)
        module.zero_grad(set_to_none=True)
        return counted

    with ExitStack() as stack:
        if device == "cuda":
            stack.enter_context(_AttentionOfGPU())
        if not trained:
            stack.enter_context(torch.no_grad())
        counted = [step(TEXTS, length) for length in LENGTHS]
        costs_once = (0, 0, 0)
        if trained:
            costs_once = _costs_once(counted[-1], step(TEXTS + 1, LENGTHS[-1]))

    costs = []
    for values, once in zip(zip(*counted, strict=True), costs_once, strict=True):
        text_costs = [(value - once) / TEXTS for value in values]
        powers = np.vander(LENGTHS).astype(float)
        pair, token, text = np.linalg.solve(powers, text_costs)
        costs.append(Cost(once, float(text), float(token), float(pair)))
    return costs


def _costs_once(
    counted: Sequence[int], one_more: Sequence[int]
) -> tuple[int, int, int]:
    """Return the parts of the three costs of a pass that do not depend on its texts, such as copies of weights.

    They follow from the costs of two passes: one over `TEXTS` texts, and one over one text more.
    """
    forward, backward, kept = (
        max(0, value - TEXTS * (more - value))
        for value, more in zip(counted, one_more, strict=True)
    )
    return forward, backward, kept


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
