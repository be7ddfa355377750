"""Torch modules as pure functions of JAX arrays, through torchax."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, TypeAlias

import jax
import numpy as np
import torch
import torchax
from sentbed import ModelError, RunError
from sentbed_hardware.engine_parts.encoder_module import EncoderModule
from torch.nn import functional
from torchax import amp, device_module

# torchax registers an accelerator in torch. `torch.compile` asks every accelerator for its streams, and this one
# has none.
device_module.is_available = lambda: False

Arrays: TypeAlias = dict[str, jax.Array]
"""Name of a parameter or buffer in torch -> array."""
Batch: TypeAlias = tuple[jax.Array, jax.Array, dict[str, jax.Array]]
"""Ids and mask of a batch, each `(batch, length)`, and `TokenBatch.keywords`."""
Mode: TypeAlias = Literal["train", "eval", "key"]
"""Mode of an encoder. `key` is for texts that a moving average encodes (see `Loss.momentum`): the backbone
is in eval mode, and pooler and head are in training mode."""


def host_arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray[Any, Any]]:
    """Return tensors on the host as NumPy arrays, whose types JAX accepts."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, tensor in tensors.items():
        value = tensor.detach()
        if value.dtype == torch.bfloat16:
            arrays[name] = value.view(torch.int16).numpy().view(jax.numpy.bfloat16)
        else:
            arrays[name] = value.numpy()

    return arrays


@contextmanager
def traced(env: Any, key: jax.Array) -> Iterator[None]:
    """While active, torch's functions run on JAX. `key` has the numbers of the random key for dropout."""
    with_key = env.override_property(prng=jax.random.wrap_key_data(key))
    with warnings.catch_warnings(), env, with_key:
        # torch's positions and indices have 64 bits. JAX warns that it uses 32 bits, which suffice.
        warnings.filterwarnings(
            "ignore", "Explicitly requested dtype.*int64", UserWarning
        )
        yield


class FunctionalEncoder:
    """An `EncoderModule` as a pure function: `vectors = function(weights, batch, key, mode)`.

    `weights` are the module's parameters and buffers by name. Tied weights appear once.
    """

    def __init__(self, module: EncoderModule, bf16: bool) -> None:
        self.module = module
        self.env = torchax.default_env()
        if bf16:
            _mend_autocast()
            module.autocast = partial(
                self.env.override_property, autocast_dtype=torch.bfloat16
            )
        for part in module.modules():
            if isinstance(part, torch.nn.Embedding):
                # With a padding id, JAX 0.10 shards the gradient of an embedding wrongly. Without one, the result
                # is the same, because no pooler reads the states of padding. (The backbone `static` keeps its row
                # of zeros itself.)
                part.padding_idx = None
        _require_arrays(module)

    def weights(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the module's weights and buffers on the host."""
        tensors: dict[str, torch.Tensor] = dict(self.module.named_parameters())
        tensors |= self.module.named_buffers()
        return host_arrays(tensors)

    def trained(self) -> dict[str, torch.Tensor]:
        """Return the module's trained parameters on the host."""
        parameters = self.module.named_parameters()
        return {name: value for name, value in parameters if value.requires_grad}

    def __call__(
        self,
        weights: Arrays,
        batch: Batch,
        key: jax.Array,
        mode: Mode,
    ) -> jax.Array:
        """Return the vectors of a batch, fp32 `(batch, width)`."""
        self.module.train(mode != "eval")
        self.module.backbone.train(mode == "train")
        with traced(self.env, key):
            ids, mask, keywords = self.env.j2t_iso(batch)
            vectors = _call(self.env, self.module, weights, (ids, mask), keywords)
            result: jax.Array = self.env.t2j_iso(vectors)

        return result


class FunctionalLoss:
    """A loss's module as a pure function.

    It is called as `loss, (metrics, next_state) = function(weights, fixed, inputs, state, key)`.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module.train()
        self.env = torchax.default_env()

    def weights(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the trained weights on the host, and those that are not trained with the buffers."""
        trained = {}
        fixed = dict(self.module.named_buffers())
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad:
                trained[name] = parameter
            else:
                fixed[name] = parameter

        return host_arrays(trained), host_arrays(fixed)

    def __call__(
        self,
        weights: Arrays,
        fixed: Arrays,
        inputs: Arrays,
        state: Arrays | None,
        key: jax.Array,
    ) -> tuple[jax.Array, tuple[Arrays, Arrays | None]]:
        """Return the loss, a scalar, and the pair of its metrics and its next state (None if it has no state).

        `weights` are the trained weights, `fixed` all others and the buffers.
        """
        env = self.env
        stateful = state is not None
        with traced(env, key):
            arguments = [env.j2t_iso(inputs)]
            if stateful:
                arguments.append(env.j2t_iso(state))
            output = _call(env, self.module, weights | fixed, arguments)

            metrics = {}
            for name, value in output.metrics.items():
                metrics[name] = env.t2j_iso(value)
            next_state = None
            if stateful:
                next_state = dict(env.t2j_iso(dict(output.state)))
            return env.t2j_iso(output.loss), (metrics, next_state)


def _call(
    env: Any,
    module: torch.nn.Module,
    weights: Arrays,
    arguments: Sequence[Any],
    keywords: dict[str, Any] | None = None,
) -> Any:
    """Return the result of a torch module that is called with arrays as its weights and buffers.

    Raises:
        RunError: if the call changes a weight or a buffer, since the change would be lost.
    """
    tensors = env.j2t_iso(weights)
    result = torch.func.functional_call(module, tensors, tuple(arguments), keywords)
    for name, before in weights.items():
        if tensors[name].jax() is not before:
            raise RunError(
                f"`{name}` changes in a forward pass, which JAX cannot keep; make it "
                "the state of a loss, or use the runtime `cpu` or `cuda`"
            )

    return result


PRODUCTS = (
    functional.linear,
    functional.scaled_dot_product_attention,
    torch.matmul,
    torch.Tensor.matmul,
    torch.Tensor.__matmul__,
    torch.bmm,
    torch.Tensor.bmm,
    torch.mm,
    torch.addmm,
    torch.baddbmm,
)
"""Functions that are computed in bf16 under autocast."""
SUMS = (functional.layer_norm, functional.softmax, torch.softmax, torch.Tensor.softmax)
"""Functions that are computed in fp32 under autocast."""


def _mend_autocast() -> None:
    """Let torchax's autocast do what torch's does for the functions of transformers.

    The table of its autocast has operators of ATen, but torchax looks up functions of torch. So linear layers
    would stay in fp32. Some entries, such as that of concatenation, raise; JAX promotes types without them.
    """
    broken = (
        amp.CastPolicy.PROMOTE,
        amp.CastPolicy.FP32_SET_OPT_DTYPE,
        amp.CastPolicy.FP32_APPEND_DTYPE,
    )
    policy: dict[Any, amp.CastPolicy] = amp.autocast_policy
    for operation, cast in list(policy.items()):
        if cast in broken:
            del policy[operation]

    policy |= dict.fromkeys(PRODUCTS, amp.CastPolicy.LOWER_PRECISION_FP)
    policy |= dict.fromkeys(SUMS, amp.CastPolicy.FP32)


def _require_arrays(module: EncoderModule) -> None:
    """Raise `ModelError` if a weight is quantised or not in memory, since it cannot become an array of JAX."""
    for name, value in module.named_parameters():
        if not value.is_floating_point() or value.is_meta:
            raise ModelError(
                f"`{name}` is held in {value.dtype} on `{value.device}`, which JAX cannot take; "
                "leave `quantization` and `device_map` out, or use the runtime `cuda`"
            )
