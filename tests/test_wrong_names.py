"""What a user writes in the words of another library, or by mistake, leads to what sentbed takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from sentbed import Encoder, ModelError
from sentbed._cli.main import main

SCRATCH = Path(__file__).parent.parent / "recipes" / "scratch.toml"
LOSS = "stage.triplets.loss"


def refusal(*arguments):
    """Return what the command line prints where it refuses the arguments."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 2, result.output
    return result.output


def refused_setting(setting):
    """Return the only problem of a recipe with this setting."""
    (problem,) = refusal("run", SCRATCH, "--set", setting).splitlines()[1:]
    return problem.strip()


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("mnrl", "info-nce"),
        ("MultipleNegativesRankingLoss", "info-nce"),
        ("CachedMultipleNegativesRankingLoss", "info-nce"),
        ("MultipleNegativesSymmetricRankingLoss", "info-nce"),
        ("CoSENTLoss", "cosent"),
        ("AnglELoss", "angle"),
        ("CosineSimilarityLoss", "cosine-mse"),
        ("SoftmaxLoss", "nli-softmax"),
        ("MatryoshkaLoss", "matryoshka"),
        ("MarginMSELoss", "margin-mse"),
        ("CachedGISTEmbedLoss", "gist"),
        ("MSELoss", "distill"),
        ("DistillKLDivLoss", "similarity-kl"),
        ("SpladeLoss", "flops"),
        ("GlobalOrthogonalRegularizationLoss", "spread-out"),
    ],
)
def test_a_loss_of_sentence_transformers_leads_to_ours(name, ours):
    assert refused_setting(f"{LOSS}.use={name}").startswith(
        f"there is no loss `{name}`. Did you mean `{ours}`? @ "
    )


def test_a_precision_that_a_runtime_lacks_is_no_misspelling_of_another():
    assert refused_setting("runtime.precision=fp16") == (
        "found 'fp16', expected one of `auto`, `bf16`, `fp32` @ --set runtime.precision"
    )


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("stage.triplets.batch_size=0", "'batch_size' must be >= 2: 0"),
        ("stage.triplets.epochs=0", "'epochs' must be >= 1: 0"),
        ("run.seed=4294967296", "'seed' must be <= 4294967295: 4294967296"),
    ],
)
def test_a_number_out_of_bounds_is_said_once(setting, problem):
    assert refused_setting(setting) == f"{problem} @ --set {setting.split('=')[0]}"


@pytest.mark.parametrize(("name", "ours"), [("rnu", "run"), ("evalute", "evaluate")])
def test_an_unknown_command_leads_to_a_known_one(name, ours):
    assert f"there is no command `{name}`. Did you mean `{ours}`?" in refusal(name)


@pytest.fixture
def run_directory(tmp_path):
    """Return a directory with the files of a run by which its encoder and the encoder's model are known."""
    backbone = tmp_path / "mine" / "encoder" / "backbone"
    backbone.mkdir(parents=True)
    (backbone / "config.json").write_text("{}")
    (backbone.parent / "encoder.toml").write_text("")
    return tmp_path / "mine"


def test_a_run_that_is_given_as_an_encoder_leads_to_its_encoder(run_directory):
    with pytest.raises(ModelError, match=f"; use `{run_directory}/encoder`$"):
        Encoder.load(run_directory)


@pytest.mark.parametrize("part", ["", "encoder"])
def test_a_run_that_is_given_as_a_model_leads_to_its_backbone(part, run_directory):
    model = run_directory / part
    setting = f'encoder.backbone={{use="bert",model="{model}"}}'
    assert f"; use `{run_directory}/encoder/backbone` @ " in refused_setting(setting)
