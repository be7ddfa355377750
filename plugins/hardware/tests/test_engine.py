from __future__ import annotations

import copy
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentbed import ModelError
from sentbed.protocols import BuildContext, Head, TokenIds
from sentbed_hardware import Adafactor, AdamW, Constant, Linear
from sentbed_hardware._torch.engine import TorchEncoder, TorchEngine
from transformers.optimization import Adafactor as TransformersAdafactor

ANCHORS = ("a small house by the sea", "rain", "two birds sing in a tree today", "they play chess")
POSITIVES = ("the house near water", "it rains all day long", "birds", "a game of chess is played here now")
NEGATIVES = ("cars", "no rain fell", "fish swim", "nobody plays")
HEAD = Head(projection=6, bias=True)


@pytest.fixture
def columns(toys: Any) -> dict[str, TokenIds]:
    return {
        "anchor": toys.tokens(*ANCHORS),
        "positive": toys.tokens(*POSITIVES),
        "negative": toys.tokens(*NEGATIVES),
    }


@pytest.fixture
def assemble(toys: Any, engine: TorchEngine) -> Callable[..., TorchEncoder]:
    def make(
        head: Head = HEAD,
        pooler: Any = None,
        dropout: float = 0.0,
        on: Any = None,
    ) -> TorchEncoder:
        torch.manual_seed(0)
        backbone = toys.backbone(dropout=dropout).build(BuildContext(tuple))
        return (on or engine).assemble(backbone, pooler or toys.mean(), head)

    return make


def train(encoder: TorchEncoder, loss: Any, optimizer: Any, **options: Any) -> Any:
    settings = {"schedule": Constant(), "total_steps": 100, "max_grad_norm": 0.0, **options}
    return encoder.engine.trainer(encoder, loss, optimizer, **settings)


def forward(module: Any, toys: Any, engine: TorchEngine, columns: Mapping[str, TokenIds]) -> dict[str, Any]:
    """Each column through the encoder on its own."""
    return {name: module(*engine.tensors(toys.padded(tokens))) for name, tokens in columns.items()}


def weights_of(encoder: TorchEncoder) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in encoder.module.state_dict().items()}


# training


def adamw_by_hand(module: torch.nn.Module) -> torch.optim.Optimizer:
    decayed = [module.backbone.words.weight, module.backbone.dense.weight, module.projection.weight]
    kept = [module.backbone.dense.bias, module.projection.bias]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": kept, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.98), eps=1e-6, fused=False, foreach=False)


def adafactor_by_hand(module: torch.nn.Module) -> torch.optim.Optimizer:
    return TransformersAdafactor(
        module.parameters(), lr=1.0, scale_parameter=False, relative_step=False, weight_decay=0.01
    )


@pytest.mark.parametrize(
    ("optimizer", "reference"),
    [
        (AdamW(lr=1e-2, beta2=0.98, eps=1e-6, weight_decay=0.1), adamw_by_hand),
        (Adafactor(lr=1e-2, weight_decay=0.01), adafactor_by_hand),
    ],
)
@pytest.mark.parametrize("max_grad_norm", [0.0, 0.3])
def test_five_steps_are_those_of_a_loop_by_hand(
    toys: Any,
    engine: TorchEngine,
    assemble: Callable[..., TorchEncoder],
    columns: dict[str, TokenIds],
    optimizer: Any,
    reference: Any,
    max_grad_norm: float,
) -> None:
    encoder = assemble(Head(projection=6, bias=True, normalize=True))
    module, loss = copy.deepcopy(encoder.module), toys.loss().build(6)
    trainer = train(
        encoder, toys.loss(), optimizer, schedule=Linear(2), total_steps=6, max_grad_norm=max_grad_norm
    )
    by_hand = reference(module)
    before = weights_of(encoder)
    for rate in (0.0, 0.5, 1.0, 0.75, 0.5):
        result = trainer.step(columns)

        by_hand.zero_grad()
        output = loss(forward(module, toys, engine, columns))
        output.loss.backward()
        norm = torch.cat([p.grad.flatten() for p in module.parameters()]).norm().item()
        if max_grad_norm:
            assert norm > max_grad_norm
            for parameter in module.parameters():
                parameter.grad.mul_(max_grad_norm / norm)
        for group in by_hand.param_groups:
            group["lr"] = 1e-2 * rate
        by_hand.step()

        assert result.loss == pytest.approx(output.loss.item(), rel=1e-5)
        assert result.learning_rate == pytest.approx(1e-2 * rate)
        assert result.grad_norm == pytest.approx(norm, rel=1e-5)
        assert result.metrics == {"accuracy": pytest.approx(output.metrics["accuracy"].item())}
    expected = module.state_dict()
    for name, value in weights_of(encoder).items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-6)
        assert (value - before[name]).abs().max() > 1e-3, name


def test_training_learns_which_pairs_belong_together(
    toys: Any, assemble: Callable[..., TorchEncoder], columns: dict[str, TokenIds]
) -> None:
    trainer = train(assemble(), toys.loss(), AdamW(lr=1e-2))
    results = [trainer.step(columns) for _ in range(40)]
    assert results[-1].loss < 0.1 * results[0].loss
    assert results[-1].metrics["accuracy"] == 1.0


@pytest.mark.parametrize("max_grad_norm", [0.0, 1e-3, 1e3])
def test_gradients_are_cut_to_the_norm_that_is_given(
    toys: Any, assemble: Callable[..., TorchEncoder], columns: dict[str, TokenIds], max_grad_norm: float
) -> None:
    encoder = assemble()
    before = weights_of(encoder)
    result = train(encoder, toys.loss(), toys.sgd(lr=0.5), max_grad_norm=max_grad_norm).step(columns)
    moved = torch.cat([(value - before[name]).flatten() for name, value in weights_of(encoder).items()])
    expected = max_grad_norm if max_grad_norm == 1e-3 else result.grad_norm
    assert result.grad_norm > 0.01
    assert moved.norm().item() == pytest.approx(0.5 * expected, rel=1e-3)


def test_gradients_do_not_add_up_over_steps(
    toys: Any, assemble: Callable[..., TorchEncoder], columns: dict[str, TokenIds]
) -> None:
    trainer = train(assemble(), toys.loss(), toys.sgd(lr=1e-12))
    norms = [trainer.step(columns).grad_norm for _ in range(3)]
    assert norms == pytest.approx([norms[0]] * 3, rel=1e-5)


def test_a_loss_trains_its_own_weights(
    toys: Any, assemble: Callable[..., TorchEncoder], columns: dict[str, TokenIds]
) -> None:
    trainer = train(assemble(), toys.loss(temperature=0.2, learned=True), toys.sgd(lr=0.1))
    start = trainer.loss.log_temperature.item()
    reference = copy.deepcopy(trainer.loss)
    with torch.no_grad():
        vectors = forward(trainer.encoder.module, toys, trainer.engine, columns)
    reference(vectors).loss.backward()
    trainer.step(columns)
    slope = reference.log_temperature.grad.item()
    assert abs(slope) > 1e-3
    assert trainer.loss.log_temperature.item() == pytest.approx(start - 0.1 * slope, rel=1e-5)


def test_frozen_weights_stay(
    toys: Any, assemble: Callable[..., TorchEncoder], columns: dict[str, TokenIds]
) -> None:
    encoder = assemble()
    encoder.module.backbone.words.requires_grad_(False)
    before = weights_of(encoder)
    train(encoder, toys.loss(), AdamW(lr=1e-2, weight_decay=0.5)).step(columns)
    after = weights_of(encoder)
    assert torch.equal(after["backbone.words.weight"], before["backbone.words.weight"])
    assert not torch.equal(after["backbone.dense.weight"], before["backbone.dense.weight"])


def test_dropout_is_on_in_training_drawn_from_the_seed_and_off_in_encoding(
    toys: Any, engine: TorchEngine, assemble: Callable[..., TorchEncoder], columns: dict[str, TokenIds]
) -> None:
    losses = []
    for seed in (1, 1, 2):
        encoder = assemble(dropout=0.5)
        engine.seed(seed)
        losses.append(train(encoder, toys.loss(), AdamW(lr=1e-2)).step(columns).loss)
        first, again = (encoder.encode(toys.batch(*ANCHORS)) for _ in range(2))
        assert np.array_equal(first, again)
    assert losses[0] == losses[1] != losses[2]


def test_one_text_in_two_columns_gets_two_dropout_masks(
    toys: Any, assemble: Callable[..., TorchEncoder]
) -> None:
    trainer = train(assemble(dropout=0.5), toys.loss(), AdamW(lr=1e-2))
    tokens = toys.tokens(*ANCHORS)
    trainer.step({"anchor": tokens, "positive": tokens})
    (seen,) = trainer.loss.seen
    assert not torch.allclose(seen["anchor"], seen["positive"])


def test_training_goes_on_with_dropout_after_an_evaluation(
    toys: Any, assemble: Callable[..., TorchEncoder], columns: dict[str, TokenIds]
) -> None:
    encoder = assemble(dropout=0.5)
    trainer = train(encoder, toys.loss(), toys.sgd(lr=1e-12))
    encoder.encode(toys.batch(*ANCHORS))
    assert trainer.step(columns).loss != trainer.step(columns).loss


# bf16


def test_bf16_training_keeps_fp32_weights_states_and_vectors(
    toys: Any,
    engine_of: Callable[..., TorchEngine],
    assemble: Callable[..., TorchEncoder],
    columns: dict[str, TokenIds],
) -> None:
    encoder = assemble(on=engine_of(torch.bfloat16))
    exact = train(assemble(), toys.loss(), AdamW(lr=1e-2)).step(columns)
    products: list[torch.dtype] = []
    encoder.module.backbone.dense.register_forward_hook(lambda *args: products.append(args[2].dtype))
    trainer = train(encoder, toys.loss(), AdamW(lr=1e-2))
    results = [trainer.step(columns) for _ in range(5)]
    assert set(products) == {torch.bfloat16}
    assert results[0].loss == pytest.approx(exact.loss, rel=0.02)
    assert results[-1].loss < results[0].loss
    for parameter in encoder.module.parameters():
        assert parameter.dtype == torch.float32
        assert torch.isfinite(parameter).all()
        moments = trainer.optimizer.state[parameter]
        assert {moments[key].dtype for key in ("exp_avg", "exp_avg_sq")} == {torch.float32}
    assert {value.dtype for seen in trainer.loss.seen for value in seen.values()} == {torch.float32}


@pytest.mark.parametrize("normalize", [False, True])
def test_bf16_training_projects_in_fp32_as_encoding_does(
    toys: Any,
    engine_of: Callable[..., TorchEngine],
    assemble: Callable[..., TorchEncoder],
    columns: dict[str, TokenIds],
    normalize: bool,
) -> None:
    engine = engine_of(torch.bfloat16)
    encoder = assemble(Head(projection=6, bias=True, normalize=normalize), on=engine)
    module = copy.deepcopy(encoder.module)
    trainer = train(encoder, toys.loss(), AdamW(lr=1e-2))
    trainer.step(columns)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        states = module.backbone(*engine.tensors(toys.batch(*ANCHORS)))
    with torch.no_grad():
        expected = module.projection(module.pooler(states._replace(last_hidden_state=states[0].float())))
        expected = torch.nn.functional.normalize(expected, dim=-1) if normalize else expected
    torch.testing.assert_close(trainer.loss.seen[0]["anchor"], expected, rtol=0, atol=1e-5)


def test_bf16_encoding_is_near_fp32_and_returns_fp32(
    toys: Any,
    engine_of: Callable[..., TorchEngine],
    assemble: Callable[..., TorchEncoder],
) -> None:
    narrow = assemble(on=engine_of(torch.bfloat16)).encode(toys.batch(*ANCHORS))
    wide = assemble().encode(toys.batch(*ANCHORS))
    assert narrow.dtype == wide.dtype == np.float32
    assert 0 < np.abs(narrow - wide).max() < 0.02


# encoding


def test_encoding_after_a_step_uses_the_new_weights(
    toys: Any, engine: TorchEngine, assemble: Callable[..., TorchEncoder], columns: dict[str, TokenIds]
) -> None:
    encoder = assemble()
    batch = toys.batch(*ANCHORS)
    before = encoder.encode(batch)
    train(encoder, toys.loss(), AdamW(lr=1e-1)).step(columns)
    after = encoder.encode(batch)
    with torch.no_grad():
        expected = encoder.module.eval()(*engine.tensors(batch)).numpy()
    np.testing.assert_allclose(after, expected, rtol=0, atol=1e-6)
    assert np.abs(after - before).max() > 0.01


def test_vectors_do_not_depend_on_the_batch(toys: Any, assemble: Callable[..., TorchEncoder]) -> None:
    encoder = assemble()
    together = encoder.encode(toys.batch(*POSITIVES))
    for row, text in enumerate(POSITIVES):
        np.testing.assert_allclose(encoder.encode(toys.batch(text))[0], together[row], rtol=0, atol=1e-6)


def test_the_width_is_that_of_the_vectors(toys: Any, assemble: Callable[..., TorchEncoder]) -> None:
    for head, pooler, width in (
        (Head(), toys.mean(), 8),
        (Head(), toys.first_dense(out=5), 5),
        (Head(projection=3), toys.first_dense(out=5), 3),
    ):
        encoder = assemble(head, pooler)
        assert encoder.width == width
        assert encoder.encode(toys.batch(*ANCHORS)).shape == (4, width)


def test_the_loss_is_built_for_the_width_of_the_vectors(
    toys: Any, assemble: Callable[..., TorchEncoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    widths: list[int] = []
    build = toys.loss.build
    monkeypatch.setattr(toys.loss, "build", lambda self, width: widths.append(width) or build(self, width))
    train(assemble(Head(projection=3)), toys.loss(), AdamW(lr=1e-2))
    assert widths == [3]


# saving


def restore(toys: Any, engine: TorchEngine, saved: Path, head: Head, pooler: Any) -> TorchEncoder:
    backbone = toys.backbone().build(BuildContext(tuple, saved / "backbone"))
    return engine.assemble(backbone, pooler, head, saved)


def test_a_saved_encoder_is_restored_with_identical_vectors(
    toys: Any,
    engine: TorchEngine,
    assemble: Callable[..., TorchEncoder],
    columns: dict[str, TokenIds],
    tmp_path: Path,
) -> None:
    for number, (head, pooler) in enumerate(
        [
            (Head(projection=6, bias=True, normalize=True), toys.first_dense()),
            (Head(projection=6), toys.mean()),
            (Head(normalize=True), toys.mean()),
        ]
    ):
        encoder = assemble(head, pooler)
        train(encoder, toys.loss(), AdamW(lr=1e-2)).step(columns)
        saved = tmp_path / str(number)
        encoder.save(saved)
        torch.manual_seed(99)
        restored = restore(toys, engine, saved, head, pooler)
        assert np.array_equal(restored.encode(toys.batch(*ANCHORS)), encoder.encode(toys.batch(*ANCHORS)))
        expected = weights_of(encoder)
        assert all(torch.equal(value, expected[name]) for name, value in weights_of(restored).items())


def test_pooler_and_head_are_saved_beside_the_backbone(
    toys: Any, assemble: Callable[..., TorchEncoder], tmp_path: Path
) -> None:
    encoder = assemble(Head(projection=6), toys.first_dense())
    encoder.save(tmp_path / "saved")
    weights = load_file(tmp_path / "saved" / "modules.safetensors")
    assert set(weights) == {"pooler.dense.weight", "pooler.dense.bias", "projection.weight"}
    assert torch.equal(weights["projection.weight"], encoder.module.projection.weight)
    assert (tmp_path / "saved" / "backbone" / "model.safetensors").is_file()


@pytest.fixture
def saved(assemble: Callable[..., TorchEncoder], tmp_path: Path) -> Path:
    """An encoder with a projection to 6 without bias."""
    assemble(Head(projection=6)).save(tmp_path / "saved")
    return tmp_path / "saved"


@pytest.mark.parametrize("head", [Head(), Head(projection=6, bias=True), Head(projection=7)])
def test_files_that_do_not_belong_to_the_recipe_are_refused(
    toys: Any, engine: TorchEngine, saved: Path, head: Head
) -> None:
    with pytest.raises(ModelError) as caught:
        restore(toys, engine, saved, head, toys.mean())
    message = str(caught.value)
    assert message.startswith(f"`{saved / 'modules.safetensors'}` holds ")
    assert message.endswith("the files of this encoder do not belong together, save it again")
    found, expected = re.search(r"holds (.*), the pooler and head of its recipe have (.*);", message).groups()
    assert found != expected


def test_a_missing_modules_file_is_refused_where_weights_are_expected(
    toys: Any, engine: TorchEngine, saved: Path
) -> None:
    (saved / "modules.safetensors").unlink()
    with pytest.raises(ModelError, match=r"modules\.safetensors"):
        restore(toys, engine, saved, Head(projection=6), toys.mean())


def test_a_modules_file_that_was_cut_off_is_a_model_error(
    toys: Any, engine: TorchEngine, saved: Path
) -> None:
    file = saved / "modules.safetensors"
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(ModelError, match=r"modules\.safetensors"):
        restore(toys, engine, saved, Head(projection=6), toys.mean())


# columns of different lengths

SHORT = tuple(f"text {number}" for number in range(16))
LONG = tuple(" ".join(f"word{number * place}" for place in range(1, 30)) for number in range(16))
MIXED = tuple(text for pair in zip(SHORT, LONG, strict=True) for text in pair)


@pytest.mark.parametrize(
    ("texts", "passes"),
    [
        ((("a b", "a"), ("c d e f", "g")), 1),
        ((("a b", "c d"), ("e", "f")), 1),
        ((("a b", "c d"), ("e f", "g h")), 1),
        ((SHORT, LONG), 2),
        ((LONG, SHORT), 2),
        ((MIXED, MIXED[::-1], SHORT + LONG), 2),
    ],
)
def test_the_loss_gets_each_text_in_its_place_whatever_shares_its_forward_pass(
    toys: Any,
    engine: TorchEngine,
    assemble: Callable[..., TorchEncoder],
    texts: tuple[tuple[str, ...], ...],
    passes: int,
) -> None:
    encoder = assemble()
    names = ("anchor", "positive", "negative")
    columns = {name: toys.tokens(*column) for name, column in zip(names, texts, strict=False)}
    with torch.no_grad():
        expected = forward(encoder.module, toys, engine, columns)
    lengths: list[int] = []
    encoder.module.backbone.register_forward_pre_hook(lambda _, args: lengths.append(args[0].shape[1]))
    trainer = train(encoder, toys.loss(), AdamW(lr=1e-2))
    trainer.step(columns)
    assert len(lengths) == len(set(lengths)) == passes
    (seen,) = trainer.loss.seen
    assert list(seen) == list(columns)
    for name, vectors in seen.items():
        torch.testing.assert_close(vectors, expected[name], rtol=0, atol=1e-6)


def test_the_gradient_of_two_forward_passes_is_that_of_one(
    toys: Any, engine: TorchEngine, assemble: Callable[..., TorchEncoder]
) -> None:
    encoder = assemble()
    columns = {"anchor": toys.tokens(*MIXED), "positive": toys.tokens(*SHORT, *LONG)}
    module, loss = copy.deepcopy(encoder.module), toys.loss().build(6)
    before = weights_of(encoder)
    train(encoder, toys.loss(), toys.sgd(lr=1.0)).step(columns)
    loss(forward(module, toys, engine, columns)).loss.backward()
    for name, parameter in module.named_parameters():
        moved = before[name] - weights_of(encoder)[name]
        torch.testing.assert_close(moved, parameter.grad, rtol=1e-4, atol=1e-6)


# compiling


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # the compiler's own imports
@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="needs a C++ compiler")
def test_compiled_steps_are_those_without_compiling(
    toys: Any,
    engine_of: Callable[..., TorchEngine],
    assemble: Callable[..., TorchEncoder],
    columns: dict[str, TokenIds],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    encoders = [assemble(on=engine_of(compile=compile)) for compile in (False, True)]
    trainers = [train(encoder, toys.loss(), AdamW(lr=1e-2)) for encoder in encoders]
    shorter = {name: columns[name] for name in ("anchor", "positive")}
    for batch in (columns, shorter):
        plain, compiled = (trainer.step(batch) for trainer in trainers)
        assert compiled.loss == pytest.approx(plain.loss, rel=1e-5)
        assert compiled.grad_norm == pytest.approx(plain.grad_norm, rel=1e-4)
    expected = weights_of(encoders[0])
    for name, value in weights_of(encoders[1]).items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-5)
    vectors = [encoder.encode(toys.batch(*ANCHORS)) for encoder in encoders]
    np.testing.assert_allclose(*vectors, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # the compiler's own imports
@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="needs a C++ compiler")
def test_compiled_encoding_is_that_without_and_compiles_once_a_bucket(
    toys: Any,
    engine_of: Callable[..., TorchEngine],
    assemble: Callable[..., TorchEncoder],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    plain, compiled = (assemble(on=engine_of(compile=compile)) for compile in (False, True))
    counts = []
    for texts in (ANCHORS, POSITIVES, NEGATIVES[:3], ANCHORS[:1], ("word " * 20, "rain"), ("word " * 25,)):
        batch = toys.batch(*texts)
        np.testing.assert_allclose(compiled.encode(batch), plain.encode(batch), rtol=0, atol=1e-5)
        counts.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert [count - counts[0] for count in counts] == [0, 0, 0, 0, 1, 1]
