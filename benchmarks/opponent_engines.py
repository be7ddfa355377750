"""ONNX Runtime and OpenVINO, as the backends of sentence-transformers use them, on sentbed's batches.

The backends get their models from optimum, none of whose releases so far goes with transformers 5.23
(optimum-onnx 0.1.0 asks for less than 4.58, optimum-intel 2.2.0 for less than 5.6). What optimum calls is
called here: the TorchScript exporter of torch, ONNX Runtime's `ONNXQuantizer`, `openvino.convert_model` and
`nncf.quantize`, with its settings, or better ones where there are any.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from sentbed.helpers import pad, plan_batches
from sentbed.protocols import TokenIds, Tokenizer

Batch: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Token ids and attention mask, each `(batch, length)`."""

VectorsOf: TypeAlias = Callable[[Iterable[Batch]], Iterable[NDArray[np.float32]]]
"""Unit vectors of each batch, `(batch, width)`, in order."""

INPUTS = ("input_ids", "attention_mask")
OPSET = 17
"""The first ONNX opset with layer normalisation as one operation."""
SMOOTHING = 0.95
"""Strength of SmoothQuant, NNCF's default for transformers; with 0.5, MiniLM's mean cosine to fp32 was 0.9925
instead of 0.9962."""


@attrs.frozen(eq=False)
class Batched:
    """A model behind sentbed's tokenizer and its batches of like lengths."""

    tokenizer: Tokenizer
    token_budget: int
    """Tokens of a batch, with its padding."""
    max_length: int
    vectors_of: VectorsOf

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per text, `(texts, width)`."""
        tokens = self.tokenizer.encode(texts, self.max_length)
        plan = list(plan_batches(tokens.lengths, self.token_budget))
        batches = (batch(tokens, rows, self.tokenizer.pad_id) for rows in plan)
        found = np.concatenate(list(self.vectors_of(batches)))
        vectors = np.empty_like(found)
        vectors[np.concatenate(plan)] = found
        return vectors


def batch(tokens: TokenIds, rows: NDArray[np.int64], pad_id: int) -> Batch:
    """Return these rows as one batch."""
    padded = pad(tokens, rows, pad_id)
    mask = padded.attention_mask
    return padded.input_ids, np.ones_like(padded.input_ids) if mask is None else mask


def pooled(states: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the normalised mean of the token states that `mask` keeps, `(batch, width)`.

    `states` is `(batch, length, width)`. The sum has the mean's direction. On one thread: the engine's own
    threads wait for the next batch.
    """
    total: NDArray[np.float32] = np.einsum(
        "blw,bl->bw", states, mask.astype(np.float32)
    )
    unit: NDArray[np.float32] = total / np.linalg.norm(total, axis=1, keepdims=True)
    return unit


class TokenStates(torch.nn.Module):
    """The transformer in `folder`, with token states as its only output."""

    def __init__(self, folder: Path, attention: str) -> None:
        super().__init__()
        self.model = transformers.AutoModel.from_pretrained(
            folder, attn_implementation=attention
        )
        self.eval()

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Return `(batch, length, width)`."""
        found: Any = self.model(input_ids=input_ids, attention_mask=attention_mask)
        states: torch.Tensor = found.last_hidden_state
        return states


def example() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the inputs to trace with: two texts of unequal length."""
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, 7:] = 0
    return torch.arange(1, 25).view(2, 12), mask


# --- sentence-transformers ---------------------------------------------------------------------------------


def sentence_transformers_vectors(model: Any) -> VectorsOf:
    """Return the forward pass of a `SentenceTransformer` that pools and normalises."""

    def vectors_of(batches: Iterable[Batch]) -> Iterator[NDArray[np.float32]]:
        with torch.inference_mode():
            for arrays in batches:
                features = dict(zip(INPUTS, map(torch.from_numpy, arrays), strict=True))
                vectors = torch.nn.functional.normalize(
                    model(features)["sentence_embedding"].float(), dim=1
                )
                yield vectors.numpy()

    return vectors_of


# --- ONNX Runtime ------------------------------------------------------------------------------------------


def write_onnx(folder: Path, path: Path) -> None:
    """Write the transformer in `folder` as an ONNX graph with open axes.

    Of torch's two exporters and two attentions, this pair gave the graph that ONNX Runtime is fastest on.
    """
    names = {0: "batch", 1: "length"}
    with _traced():
        torch.onnx.export(
            TokenStates(folder, "eager"),
            example(),
            path,
            dynamo=False,
            opset_version=OPSET,
            input_names=list(INPUTS),
            output_names=["states"],
            dynamic_axes=dict.fromkeys((*INPUTS, "states"), names),
        )


def quantize_onnx(path: Path, target: Path) -> None:
    """Write `path` with int8 products, as `export_dynamic_quantized_onnx_model(..., "avx512_vnni")` does.

    Weights are int8 per channel and symmetric; activations are uint8, their range is found in each batch.
    """
    import onnx
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization.onnx_quantizer import ONNXQuantizer
    from onnxruntime.quantization.quant_utils import QuantizationMode
    from onnxruntime.quantization.registry import IntegerOpsRegistry

    quantizer = ONNXQuantizer(
        onnx.load(path),
        per_channel=True,
        reduce_range=False,
        mode=QuantizationMode.IntegerOps,
        static=False,
        weight_qType=QuantType.QInt8,
        activation_qType=QuantType.QUInt8,
        tensors_range=None,
        nodes_to_quantize=[],
        nodes_to_exclude=[],
        op_types_to_quantize=list(IntegerOpsRegistry),
        extra_options={
            "WeightSymmetric": True,
            "ActivationSymmetric": False,
            "EnableSubgraph": False,
        },
    )
    quantizer.quantize_model()
    quantizer.model.save_model_to_file(str(target))


def onnx_runtime_vectors(path: Path, threads: int) -> VectorsOf:
    """Return a session of ONNX Runtime with all its graph optimisations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    # Threads that still wait by spinning would take time from the next engine.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"]
    )

    def vectors_of(batches: Iterable[Batch]) -> Iterator[NDArray[np.float32]]:
        for arrays in batches:
            (states,) = session.run(None, dict(zip(INPUTS, arrays, strict=True)))
            yield pooled(states, arrays[1])

    return vectors_of


# --- OpenVINO ----------------------------------------------------------------------------------------------


def openvino_model(folder: Path) -> Any:
    """Return the transformer in `folder` as a model of OpenVINO with open axes."""
    import openvino

    inputs = dict(zip(INPUTS, example(), strict=True))
    with _traced():
        return openvino.convert_model(TokenStates(folder, "sdpa"), example_input=inputs)


def quantize_openvino(model: Any, calibration: Sequence[Batch]) -> Any:
    """Return a model with int8 products and activations, calibrated on batches of one text, without padding.

    Post-training quantisation of NNCF with its pattern of transformers, SmoothQuant and accurate bias
    correction; `mixed`: weights are symmetric, activations are not.
    """
    import nncf

    return nncf.quantize(
        model,
        nncf.Dataset(
            [dict(zip(INPUTS, arrays, strict=True)) for arrays in calibration]
        ),
        preset=nncf.QuantizationPreset.MIXED,
        target_device=nncf.TargetDevice.CPU,
        subset_size=len(calibration),
        fast_bias_correction=False,
        model_type=nncf.ModelType.TRANSFORMER,
        advanced_parameters=nncf.AdvancedQuantizationParameters(
            smooth_quant_alphas=nncf.AdvancedSmoothQuantParameters(matmul=SMOOTHING)
        ),
    )


def openvino_vectors(
    model: Any, threads: int, streams: int, precision: str | None = None
) -> VectorsOf:
    """Return a compiled model of OpenVINO that computes `streams` batches at a time.

    `precision`, `f32` or `bf16`, is that of what is not int8; by default, OpenVINO chooses.
    """
    import openvino

    settings: dict[str, Any] = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": streams,
        "PERFORMANCE_HINT": "LATENCY" if streams == 1 else "THROUGHPUT",
    }
    if precision is not None:
        settings["INFERENCE_PRECISION_HINT"] = precision
    requests = openvino.AsyncInferQueue(
        openvino.Core().compile_model(model, "CPU", settings), streams
    )

    def vectors_of(batches: Iterable[Batch]) -> list[NDArray[np.float32]]:
        found: dict[int, NDArray[np.float32]] = {}

        def keep(request: Any, place: tuple[int, NDArray[np.int64]]) -> None:
            number, mask = place
            found[number] = pooled(request.get_output_tensor(0).data, mask)

        requests.set_callback(keep)
        started = 0
        for started, arrays in enumerate(batches, start=1):
            requests.start_async(list(arrays), (started, arrays[1]))
        requests.wait_all()
        return [found[number + 1] for number in range(started)]

    return vectors_of


@contextlib.contextmanager
def _traced() -> Iterator[None]:
    """Keep quiet what tracing says: that it is deprecated, and that sizes may be constants.

    They are not: vectors of batches of all shapes are compared with those of sentence-transformers.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
